"""Clients of Kafka Connect's API, unchanged: fetched by who needs them, run as commands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Self

from support.fetched import python_packages

END_S = 15
FOLDER = Path(__file__).parent


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
            env={**os.environ, **env, "PYTHONPATH": str(python_packages(lock))},
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
