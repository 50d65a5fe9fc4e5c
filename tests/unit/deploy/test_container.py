"""The image's recipe: by hadolint, by what it copies, and by its steps in a clean folder."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from support.fetched import python_packages
from support.tools import ROOT

from heliostat.cli.run import run_command

FOLDER = ROOT / "deploy" / "container"
RECIPE = FOLDER / "Containerfile"
PIN = re.compile(r"^([a-z0-9][a-z0-9._-]*)(?:\[[a-z-]+\])?==(\S+)", re.MULTILINE)
TAKEN = ("src", "deploy", "docs/examples")
LINE_OUT = ("SSL_CERT_FILE", "SSL_CERT_DIR", "HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy")
"""How this machine reaches the index of packages: a build has it from whoever runs it."""


def instructions() -> list[tuple[str, str]]:
    """Keyword and rest of each, lines joined."""
    text = re.sub(r"\\\n\s*", "", re.sub(r"^\s*#.*\n", "", RECIPE.read_text(), flags=re.MULTILINE))
    return [
        (line.split(" ", 1)[0], line.split(" ", 1)[1].strip())
        for line in text.splitlines()
        if line.strip()
    ]


def pins(path: Path) -> dict[str, str]:
    return dict(PIN.findall(path.read_text(encoding="utf-8")))


def test_its_packages_are_those_that_are_tested() -> None:
    """Those of requirements.lock, all that the program needs, and none of the tests'."""
    ours, tested = pins(FOLDER / "requirements.lock"), pins(ROOT / "requirements.lock")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = {re.split(r"[<>=\[]", line)[0] for line in project["dependencies"]}

    assert ours.items() <= tested.items()
    assert needed <= ours.keys()
    assert not {"pytest", "mypy", "confluent-kafka"} & ours.keys()


def test_it_starts_a_verb_with_options_that_exist_and_as_nobody() -> None:
    (command,) = [json.loads(rest) for word, rest in instructions() if word == "CMD"]
    options = {option for parameter in run_command.params for option in parameter.opts}

    assert command[0] == run_command.name
    assert {word for word in command if word.startswith("-")} <= options
    assert ("USER", "10001:10001") in instructions()
    assert any("useradd --uid 10001" in rest for _, rest in instructions())  # Spark needs a name
    assert not re.search(r"(?i)passw|secret|token", RECIPE.read_text())


def test_what_it_copies_is_not_ignored() -> None:
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    kept = {line[1:] for line in lines if line.startswith("!")}

    assert lines[0] == "*"
    assert {*TAKEN, "pyproject.toml", "README.md", "LICENSE", "requirements.*"} <= kept


def test_a_fresh_volume_gets_the_compiled_code_once(tmp_path: Path) -> None:
    kept, cache = tmp_path / "kept", tmp_path / "cache" / "numba"
    kept.mkdir()
    (kept / "code").write_text("of the image")
    program = tmp_path / "heliostat"
    program.write_text('#!/bin/sh\nprintf "%s " "$@"\n')
    program.chmod(0o755)

    def started() -> str:
        done = subprocess.run(
            [FOLDER / "entrypoint", "run", "-c", "a b"],
            env={
                "PATH": f"{tmp_path}:{os.environ['PATH']}",
                "HELIOSTAT_KEPT": str(kept),
                "NUMBA_CACHE_DIR": str(cache),
            },
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    assert started() == "run -c a b "
    assert (cache / "code").read_text() == "of the image"
    (cache / "code").write_text("of this machine")
    assert started() == "run -c a b "
    assert (cache / "code").read_text() == "of this machine"


def test_it_is_an_executor_where_spark_makes_pods(tmp_path: Path) -> None:
    java = tmp_path / "java"
    java.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    java.chmod(0o755)
    given = {
        "SPARK_HOME": "/spark",
        "SPARK_JAVA_OPT_0": "-Dspark.driver.port=7078",
        "SPARK_JAVA_OPT_1": "-XX:OnOutOfMemoryError=echo a b",
        "SPARK_EXECUTOR_MEMORY": "512m",
        "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@10.0.0.7:7078",
        "SPARK_EXECUTOR_ID": "3",
        "SPARK_EXECUTOR_CORES": "4",
        "SPARK_APPLICATION_ID": "spark-1",
        "SPARK_EXECUTOR_POD_IP": "10.0.0.8",
        "SPARK_EXECUTOR_POD_NAME": "heliostat-exec-3",
        "SPARK_RESOURCE_PROFILE_ID": "0",
    }

    done = subprocess.run(
        [FOLDER / "entrypoint", "executor"],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}", "NUMBA_CACHE_DIR": "/", **given},
        capture_output=True,
        text=True,
        check=True,
    )

    words = done.stdout.splitlines()
    at = words.index("org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend")
    assert words[:at] == [
        *("-Dspark.driver.port=7078", "-XX:OnOutOfMemoryError=echo a b", "-Xms512m", "-Xmx512m"),
        *("-cp", "/spark/conf:/spark/jars/*"),
    ]
    options = dict(zip(words[at + 1 :: 2], words[at + 2 :: 2], strict=True))
    assert options == {
        "--driver-url": given["SPARK_DRIVER_URL"],
        "--executor-id": "3",
        "--cores": "4",
        "--app-id": "spark-1",
        "--hostname": "10.0.0.8",
        "--resourceProfileId": "0",
        "--podName": "heliostat-exec-3",
    }


@pytest.mark.thorough
def test_hadolint_finds_nothing() -> None:
    hadolint = python_packages("deploy_tools") / "bin" / "hadolint"

    done = subprocess.run([hadolint, RECIPE], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.long
def test_its_steps_make_a_program_that_runs(tmp_path: Path) -> None:
    """In a clean folder in place of an image; only the distribution's packages are left out."""
    source, prefix = tmp_path / "source", tmp_path / "opt"
    for name in (*TAKEN, "pyproject.toml", "README.md", "LICENSE"):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        copy(ROOT / name, source / name)
    for path in ROOT.glob("requirements.*"):
        shutil.copy(path, source)
    variables = {
        "PATH": f"{prefix}/bin:{Path(sys.executable).parent}:/usr/bin:/bin",
        "HOME": str(tmp_path),
        "PREFIX": str(prefix),
        "NUMBA_CACHE_DIR": str(tmp_path / "numba"),
        **{
            name: value
            for name, value in os.environ.items()
            if name in LINE_OUT or name.startswith(("UV_", "PIP_"))
        },
    }
    steps = [rest for word, rest in instructions() if word == "RUN" and "apt-get" not in rest]
    assert len(steps) == 4

    for step in steps:
        words = step.partition(" && install -d")[0]
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", words],
            cwd=source,
            env=variables,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{words}\n{done.stderr}"

    for verb in ("--version", "examples systemd/heliostat@.service", "run --help"):
        subprocess.run(
            [FOLDER / "entrypoint", *shlex.split(verb)],
            cwd=tmp_path,
            env=variables,
            capture_output=True,
            check=True,
        )
