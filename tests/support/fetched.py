"""Programs that only some tests need, fetched by them: nothing is installed on the machine."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from heliostat_sandbox.jars import cache_folder

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "heliostat-tests"
FETCH_WITHIN_S = 600


def python_packages(lock: str) -> Path:
    """Return the folder with the packages of `LOCK.lock` of this folder, installed there once.

    They stand in a lock file of their own, so that nobody else has to install them.
    """
    file = Path(__file__).with_name(f"{lock}.lock")
    version = hashlib.sha256(file.read_bytes()).hexdigest()[:12]
    folder = cache_folder() / f"{lock}-{version}"
    if not folder.is_dir():
        words = ["install", "-q", "--no-deps", "--require-hashes", "--target", str(folder)]
        command = [sys.executable, "-m", "pip", *words, "-r", str(file)]
        subprocess.run(command, check=True, timeout=FETCH_WITHIN_S)
    return folder


def debian_program(package: str, path: str) -> Path:
    """Return a program of a Debian package, on the path or unpacked once into the cache.

    Raises
    ------
    AssertionError
        It can be had in neither way; says what to do.
    """
    if (there := shutil.which(Path(path).name)) is not None:
        return Path(there)
    folder = CACHE / package
    if not (folder / path).is_file():
        _unpack(package, folder)
    return folder / path


def _unpack(package: str, folder: Path) -> None:
    assert shutil.which("apt-get"), f"install the package {package}: this is no Debian"
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as fresh:
        for command in (["apt-get", "download", package], ["apt-get", "update", "-qq"]):
            done = subprocess.run(command, cwd=fresh, capture_output=True, text=True, check=False)
            if done.returncode == 0 and command[1] == "download":
                break
        else:
            subprocess.run(["apt-get", "download", package], cwd=fresh, check=True)
        (file,) = Path(fresh).glob("*.deb")
        subprocess.run(["dpkg-deb", "-x", file, f"{fresh}/unpacked"], check=True)
        Path(fresh, "unpacked").rename(folder)


def go_program(package: str, requirements: str, corrected: tuple[str, str, str]) -> Path:
    """Return a program of a Go module, built once into the cache; takes some minutes then.

    Parameters
    ----------
    package
        Its path.
    requirements
        Lines of `go.mod` that name versions.
    corrected
        A file of what it requires, a text in it, and what stands there instead.

    Raises
    ------
    AssertionError
        There is no Go; says what to do.
    """

    def build(folder: Path, name: str) -> None:
        (folder / "go.mod").write_text(f"module fetched\n\ngo 1.22\n\n{requirements}")
        tools = f'//go:build tools\n\npackage main\n\nimport _ "{package}"\n'
        (folder / "tools.go").write_text(tools)
        _go(folder, "mod", "tidy")
        _go(folder, "mod", "vendor")
        file, wrong, right = folder / "vendor" / corrected[0], *corrected[1:]
        text = file.read_text(encoding="utf-8")
        assert wrong in text, f"{file} needs no correction"
        file.write_text(text.replace(wrong, right), encoding="utf-8")
        _go(folder, "build", "-mod=vendor", "-o", name, package)

    return _built_once(package, build)


def go_installed(package: str, version: str, tags: str) -> Path:
    """Return a program of a Go module as it is, built once into the cache with these tags.

    Raises
    ------
    AssertionError
        There is no Go; says what to do.
    """

    def build(folder: Path, _name: str) -> None:
        _go(folder, "install", "-tags", tags, f"{package}@{version}", GOBIN=str(folder))

    return _built_once(package, build)


def _built_once(package: str, build: Callable[[Path, str], None]) -> Path:
    name = re.sub(r"/v\d+$", "", package).rpartition("/")[2]  # a major version is no name
    folder = CACHE / f"go-{name}"
    if not (folder / name).is_file():
        assert shutil.which("go"), f"install Go, which builds {name}"
        folder.mkdir(parents=True, exist_ok=True)
        build(folder, name)
    return folder / name


def _go(folder: Path, *words: str, **variables: str) -> None:
    done = subprocess.run(
        ["go", *words],
        cwd=folder,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
