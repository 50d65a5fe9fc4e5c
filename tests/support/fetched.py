"""Programs that only some tests need, fetched by them: nothing is installed on the machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "heliostat-tests"


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
