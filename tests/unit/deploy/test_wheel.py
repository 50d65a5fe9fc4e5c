"""The built wheel: all that a user needs is in it, and it runs from an empty folder."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from support.tools import ROOT

pytestmark = pytest.mark.thorough

PACKAGE = ROOT / "src" / "heliostat"
TAKEN_ALONG = {"docs/examples": "heliostat/examples", "deploy": "heliostat/deploy"}
UV = Path(sys.executable).with_name("uv")
ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+/")
CONFIG = {
    "clusters": {"east": {"bootstrap": "127.0.0.1:1"}, "west": {"bootstrap": "127.0.0.1:2"}},
    "links": [{"name": "one", "source": "east", "target": "west", "topics": {"include": "a"}}],
}
CONSTRAINTS = ROOT / "requirements.build.lock"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    done(UV, "build", "-q", "--wheel", "--build-constraints", CONSTRAINTS, "-o", folder, ROOT)
    (built,) = folder.glob("*.whl")
    return built


def done(*words: Path | str, folder: Path | None = None, **variables: str) -> str:
    outcome = subprocess.run(
        [str(word) for word in words],
        cwd=folder,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert outcome.returncode == 0, outcome.stderr
    return outcome.stdout


def files_of(folder: Path, name: str) -> Iterator[str]:
    for path in folder.rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            yield f"{name}/{path.relative_to(folder).as_posix()}"


def test_it_holds_code_page_and_examples_and_nothing_else(wheel: Path) -> None:
    wanted = set(files_of(PACKAGE, "heliostat"))
    for folder, name in TAKEN_ALONG.items():
        wanted |= set(files_of(ROOT / folder, name))

    names = set(zipfile.ZipFile(wheel).namelist())

    assert {name for name in names if ".dist-info/" not in name} == wanted


def test_the_program_runs_from_it(wheel: Path, tmp_path: Path) -> None:
    site, elsewhere = tmp_path / "site", tmp_path / "elsewhere"
    elsewhere.mkdir()
    done(UV, "pip", "install", "-q", "--no-deps", "--target", site, wheel)
    program = (sys.executable, site / "bin" / "heliostat")

    def said(*words: str) -> str:
        return done(*program, *words, folder=elsewhere, PYTHONPATH=str(site))

    assert said("--version").startswith("heliostat ")
    example = said("examples", "heliostat.yaml")
    assert example == (ROOT / "docs" / "examples" / "heliostat.yaml").read_text(encoding="utf-8")
    assert "WatchdogSec" in said("examples", "systemd/heliostat@.service")


@pytest.mark.long
def test_it_is_installed_without_a_network(wheel: Path, tmp_path: Path) -> None:
    """As docs/install.md says: wheels are made where there is one, and installed where not.

    The page comes from there, the sandbox on demand, and `uv tool` installs the same.
    """
    wheels, place = tmp_path / "wheels", tmp_path / "venv"
    done(UV, "build", "-q", "--wheel", "-o", wheels, ROOT / "sandbox")
    extra = f"heliostat[sandbox] @ {wheel.as_uri()}"
    done(sys.executable, "-m", "pip", "wheel", "-q", "-f", wheels, "-w", wheels, extra)
    venv.create(place, with_pip=True)
    nowhere = {"HOME": str(tmp_path), "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels)}

    done(place / "bin" / "pip", "install", "-q", "--no-cache-dir", "heliostat", **nowhere)

    assert "heliostat_sandbox" not in done(place / "bin" / "pip", "list")
    assert done(place / "bin" / "heliostat", "--version", PYTHONPATH="").startswith("heliostat ")
    lines = done(place / "bin" / "heliostat", "prepare", folder=tmp_path, PYTHONPATH="")
    assert "kept loops that copy records" in lines
    assert "<title>Heliostat</title>" in page_of(place / "bin" / "heliostat", tmp_path)
    done(place / "bin" / "pip", "install", "-q", "--no-cache-dir", "heliostat[sandbox]", **nowhere)
    assert "up" in done(place / "bin" / "heliostat", "sandbox", "--help", PYTHONPATH="")
    tools = {"UV_TOOL_DIR": str(tmp_path / "tools"), "UV_TOOL_BIN_DIR": str(tmp_path / "bin")}
    tool = "tool", "install", "-q", "--offline", "--no-index", "--find-links", wheels, "heliostat"
    done(UV, *tool, **tools)
    assert done(tmp_path / "bin" / "heliostat", "--version", PYTHONPATH="").startswith("heliostat ")


def page_of(program: Path, folder: Path) -> str:
    """Return what `heliostat serve` of an installation shows in a browser."""
    config = folder / "heliostat.yaml"
    config.write_text(json.dumps(CONFIG))
    words = [program, "serve", "--listen", "127.0.0.1:0", "-c", config]
    environment = {**os.environ, "PYTHONPATH": ""}
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        try:
            address = next(filter(None, map(ADDRESS.search, process.stdout)))[0]
            return httpx.get(address, headers={"Accept": "text/html"}).text
        finally:
            process.terminate()
