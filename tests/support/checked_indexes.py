"""Runs tests of compiled code again, compiled so that each index is checked."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

IS_CHECKED = os.environ.get("NUMBA_BOUNDSCHECK") == "1"


def pass_with_checked_indexes(scratch: Path, *files: Path) -> None:
    """All tests of these files, in a process of their own.

    Numba keeps no note of the setting: what is compiled with checks has a folder of its own, beside
    what is kept without, or else in `scratch`.
    """
    kept = os.environ.get("NUMBA_CACHE_DIR")
    cache = Path(kept) / "checked" if kept else scratch
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *map(str, files)],
        env={**os.environ, "NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(cache)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]
