"""`scripts/setup` in a test project, with stand-ins for what it would fetch and install."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.tools import ROOT

pytestmark = pytest.mark.thorough

PYTHON = f"""#!/bin/sh
case "$1" in
-m) echo "python $*" >> "$CALLS" ;;
-) text=$(cat); case "$text" in
   *ensure_jars*) echo jars >> "$CALLS"; exit "${{JARS_EXIT:-0}}" ;;
   *) printf '%s' "$text" | {sys.executable} "$@" ;;
   esac ;;
*) exec {sys.executable} "$@" ;;
esac
"""
LOGGING = '#!/bin/sh\necho "$(basename "$0") $*" >> "$CALLS"\n'
JAVA = "#!/bin/sh\necho '    java.specification.version = {version}' >&2\n"
RUN_LIMIT_S = 60  # seconds; it takes a tenth of one


class Project:
    """A folder with `scripts/setup`, and stand-ins that write down how they are called."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "project"
        self.tools = folder / "tools"
        self.calls_file = folder / "calls"
        self.environment = {
            "PATH": f"{self.tools}:/usr/bin:/bin",
            "HOME": str(folder),
            "CALLS": str(self.calls_file),
            "JAVA_HOME": str(folder / "java"),
        }
        self.script = self.root / "scripts" / "setup"
        self.script.parent.mkdir(parents=True)
        shutil.copy(ROOT / "scripts" / "setup", self.script)
        for name in ("requirements.lock", "requirements.build.lock", "requirements.uv.lock"):
            (self.root / name).write_text("a==1\n")
        (self.root / "src/heliostat").mkdir(parents=True)
        (self.root / "pyproject.toml").touch()
        self.program(self.root / ".venv/bin/python", PYTHON)
        self.program(self.root / ".venv/bin/uv", LOGGING)
        self.program(folder / "java/bin/java", JAVA.format(version=17))

    def program(self, path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command or [str(self.script)],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=RUN_LIMIT_S,
            check=False,
        )

    def calls(self) -> list[str]:
        """What was called since the last look."""
        if not self.calls_file.exists():
            return []
        calls = self.calls_file.read_text().splitlines()
        self.calls_file.unlink()
        return calls


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def test_first_run_installs_by_hash_and_the_second_does_nothing(project: Project) -> None:
    assert project.run().returncode == 0
    calls = project.calls()
    calls.remove("python -m heliostat.ops.compiled_ahead")  # at any time, beside the others
    pip, sync, own, jars, *classes = calls
    assert pip.startswith("python -m pip install")
    assert sync.startswith("uv pip sync")
    assert all("--require-hashes" in call for call in (pip, sync))
    assert all("requirements.build.lock" in call for call in (sync, own))
    assert own.endswith(
        f"--no-deps --build-constraints {project.root}/requirements.build.lock -e {project.root}"
        f" -e {project.root}/sandbox"
    )
    assert jars == "jars"
    assert classes == [
        "python -m heliostat.records.spark.keep_classes",
        "python -m heliostat.records.spark.keep_classes rows",
        "python -m heliostat_sandbox.keep_classes",
    ]
    again = project.run()
    assert (again.returncode, again.stdout, again.stderr, project.calls()) == (0, "", "", [])


def test_changed_lock_is_installed(project: Project) -> None:
    project.run()
    project.calls()
    (project.root / "requirements.lock").write_text("a==2\n")
    assert project.run().returncode == 0
    assert len(project.calls()) == 8


def test_failed_step_is_done_again(project: Project) -> None:
    project.environment["JARS_EXIT"] = "1"
    assert project.run().returncode != 0
    assert "jars" in project.calls()
    project.environment["JARS_EXIT"] = "0"
    assert project.run().returncode == 0
    assert "jars" in project.calls()


def test_sourcing_it_sets_java_and_python(project: Project) -> None:
    done = project.run(
        "bash", "-c", f'. {project.script}; printf "%s\\n" "$JAVA_HOME" "$python"; command -v java'
    )
    java_home = project.environment["JAVA_HOME"]
    assert done.stdout.splitlines() == [
        java_home,
        f"{project.root}/.venv/bin/python",
        f"{java_home}/bin/java",
    ]


def test_bytecode_stays_in_the_project(project: Project) -> None:
    """Given an environment that forbids bytecode, as container images do / then it is kept here."""
    project.environment["PYTHONDONTWRITEBYTECODE"] = "1"
    said = (
        'printf "%s %s %s" "${PYTHONDONTWRITEBYTECODE-}" "$PYTHONPYCACHEPREFIX" "$NUMBA_CACHE_DIR"'
    )
    done = project.run("bash", "-c", f". {project.script}; {said}")
    assert done.stdout.startswith(f" {project.root}/.cache/bytecode {project.root}/.cache/numba/")


def test_the_numba_cache_is_valid_for_unchanged_sources_only(project: Project) -> None:
    """Given two compiled files / when one changes / then all is recompiled: Numba checks one."""
    sources = project.root / "src/heliostat"
    (sources / "called.py").write_text("import numba\n")
    (sources / "other.py").write_text("import os\n")

    def folder() -> str:
        return project.run(
            "bash", "-c", f'. {project.script}; printf "%s" "$NUMBA_CACHE_DIR"'
        ).stdout

    before = folder()
    (sources / "other.py").write_text("import sys\n")
    assert folder() == before
    (sources / "called.py").write_text("import numba  # changed\n")
    assert folder() != before


def test_without_a_home_caches_go_into_the_project(project: Project) -> None:
    del project.environment["HOME"]
    done = project.run("bash", "-c", f'. {project.script}; printf "%s" "$XDG_CACHE_HOME"')
    assert done.stdout == f"{project.root}/.cache"


def without_java(project: Project, user_id: int) -> None:
    """No Java is new enough, and the machine's own package manager is out of reach."""
    text = project.script.read_text().replace("JAVA_VERSION_MIN=17", "JAVA_VERSION_MIN=999")
    project.script.write_text(text)
    for name in ("apt-get", "dnf", "apk"):
        project.program(project.tools / name, LOGGING + "exit 1\n")
    project.program(project.tools / "sudo", "#!/bin/sh\nexit 1\n")
    project.program(project.tools / "id", f"#!/bin/sh\necho {user_id}\n")


def test_without_java_root_tries_the_package_and_then_gets_instructions(project: Project) -> None:
    without_java(project, user_id=0)
    done = project.run()
    calls = project.calls()
    assert done.returncode == 1
    assert any(
        call.startswith("apt-get install") and "openjdk-17-jre-headless" in call for call in calls
    )
    assert "apt-get install openjdk-17-jre-headless" in done.stderr


def test_without_java_other_users_get_instructions(project: Project) -> None:
    without_java(project, user_id=1000)
    done = project.run()
    assert done.returncode == 1
    assert not any(call.startswith(("apt-get", "dnf", "apk")) for call in project.calls())
    for package in (
        "openjdk-17-jre-headless",
        "java-17-openjdk-headless",
        "openjdk17-jre-headless",
    ):
        assert package in done.stderr


def test_too_old_java_home_is_skipped(project: Project) -> None:
    good = project.tools.parent / "good"
    project.program(good / "bin/java", JAVA.format(version=21))
    old = Path(project.environment["JAVA_HOME"])
    project.program(old / "bin/java", JAVA.format(version=11))
    project.environment["PATH"] = f"{good}/bin:{project.environment['PATH']}"
    assert project.run().returncode == 0
    assert (project.root / ".venv/heliostat-java").read_text().strip() == str(good)


@pytest.mark.parametrize(
    "script",
    [*sorted((ROOT / "scripts").iterdir()), ROOT / ".ci" / "run"],
    ids=lambda file: file.name,
)
def test_script_can_be_run_and_is_sound_shell(script: Path) -> None:
    assert os.access(script, os.X_OK)
    assert "set -euo pipefail" in script.read_text()
    done = subprocess.run(["bash", "-n", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
