"""Schemathesis, which asks all that an OpenAPI document allows and more: fetched by who needs it.

Its packages stand in a lock file of their own, so that nobody else has to install them.
"""

from __future__ import annotations

import hashlib
import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

from heliostat_sandbox.jars import cache_folder

LOCK = Path(__file__).with_name("schemathesis.lock")
FETCH_WITHIN_S = 600


def schemathesis() -> Any:
    """Return the module; install it into the cache if that lacks it."""
    version = hashlib.sha256(LOCK.read_bytes()).hexdigest()[:12]
    folder = cache_folder() / f"schemathesis-{version}"
    if not (folder / "schemathesis").is_dir():
        words = ["install", "-q", "--no-deps", "--require-hashes", "--target", str(folder)]
        command = [sys.executable, "-m", "pip", *words, "-r", str(LOCK)]
        subprocess.run(command, check=True, timeout=FETCH_WITHIN_S)
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    return importlib.import_module("schemathesis")
