"""`heliostat <verb>` as a script calls it, in this process: a start of its own costs seconds.

What only a process shows (signals, kill -9, imports, what the shell sees) is tested with one.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from heliostat.cli.main import run


@dataclass(frozen=True, slots=True)
class Answer:
    """What a verb has said, as of `subprocess.run`."""

    returncode: int
    stdout: str
    stderr: str

    @property
    def said(self) -> str:
        """All of it, for a failing test."""
        return self.stdout + self.stderr

    @property
    def json(self) -> Any:
        """What `--json` printed."""
        return json.loads(self.stdout)


def heliostat(config: Path, *words: str, questions: str = "") -> Answer:
    """Call a verb through the door that the program has, so that errors end as text and code.

    Parameters
    ----------
    config
        The file that `-c` names.
    words
        The verb and its options.
    questions
        What it reads from its standard input.
    """
    out, err = io.StringIO(), io.StringIO()
    with contextlib.ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setattr(sys, "stdin", io.StringIO(questions))
        stack.enter_context(contextlib.redirect_stdout(out))
        stack.enter_context(contextlib.redirect_stderr(err))
        try:
            code = run([*words, "-c", str(config)])
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 1
    return Answer(code, out.getvalue(), err.getvalue())


def said(config: Path, *words: str) -> Any:
    """What a verb that may find something (exit code 1) says in JSON."""
    answer = heliostat(config, *words, "--json")
    assert answer.returncode in {0, 1}, answer.said
    return answer.json
