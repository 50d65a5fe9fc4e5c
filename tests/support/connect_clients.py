"""Clients of Kafka Connect's API, unchanged: fetched by who needs them, run as commands."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Self

from heliostat_sandbox.jars import cache_folder

FETCH_WITHIN_S, END_S = 600, 15
FOLDER = Path(__file__).parent


def fetched(lock: str) -> Path:
    """Return the folder with the packages of a lock file; install them into the cache once."""
    file = FOLDER / f"{lock}.lock"
    version = hashlib.sha256(file.read_bytes()).hexdigest()[:12]
    folder = cache_folder() / f"{lock}-{version}"
    if not folder.is_dir():
        words = ["install", "-q", "--no-deps", "--require-hashes", "--target", str(folder)]
        command = [sys.executable, "-m", "pip", *words, "-r", str(file)]
        subprocess.run(command, check=True, timeout=FETCH_WITHIN_S)
    return folder


class Client:
    """A command of a package, as a process that runs one after another; ends with its block.

    Parameters
    ----------
    lock
        Lock file with the package.
    start
        Module and function that the command calls.
    options
        What stands before each command's own words, such as where the API is.
    env
        Variables that it reads.
    """

    def __init__(self, lock: str, start: str, options: list[str], env: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", str(FOLDER / "connect_commands.py"), start, *options],
            env={**os.environ, **env, "PYTHONPATH": str(fetched(lock))},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate(timeout=END_S)

    def run(self, *words: str) -> tuple[int, str]:
        """Return the exit code, and all that it printed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(words) + "\n")
        self._process.stdin.flush()
        code, text = json.loads(self._process.stdout.readline())
        return code, text
