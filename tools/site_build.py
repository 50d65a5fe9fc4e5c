"""Builds the site of docs/: `python tools/site_build.py FOLDER`; fails at a broken link.

MkDocs and its theme stand in `requirements.site.lock` and are installed once into the cache, beside
the project's packages, since nothing else needs them.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from heliostat_sandbox.jars import cache_folder

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements.site.lock"
INSTALLED_WITHIN_S = 600
BUILT_WITHIN_S = 600


def packages() -> Path:
    """Return the folder with the packages of the lock file, installed there once."""
    version = hashlib.sha256(LOCK.read_bytes()).hexdigest()[:12]
    folder = cache_folder() / f"site-{version}"
    if not (folder / "mkdocs").is_dir():
        words = ["install", "-q", "--no-deps", "--require-hashes", "--target", str(folder)]
        command = [sys.executable, "-m", "pip", *words, "-r", str(LOCK)]
        subprocess.run(command, check=True, timeout=INSTALLED_WITHIN_S)
    return folder


def build(folder: Path) -> subprocess.CompletedProcess[str]:
    """Build the site into a folder; what MkDocs said is in `stderr`."""
    variables = {
        **os.environ,
        "PYTHONPATH": str(packages()),
        "NO_MKDOCS_2_WARNING": "1",  # an advertisement, not about our files
    }
    command = [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(folder)]
    return subprocess.run(
        command,
        cwd=ROOT,
        env=variables,
        capture_output=True,
        text=True,
        check=False,
        timeout=BUILT_WITHIN_S,
    )


def main(arguments: Sequence[str]) -> int:
    """Build it and say where it is, or what is wrong."""
    (folder,) = arguments
    done = build(Path(folder).absolute())
    if done.returncode:
        print(done.stderr, file=sys.stderr, end="")
        return 1
    print(f"site: {folder}/index.html; with search: python -m http.server -d {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
