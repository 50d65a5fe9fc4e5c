"""`heliostat <verb>` as a script calls it, in this process: a new process costs seconds.

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
    """Output and exit code of a verb, as from `subprocess.run`."""

    returncode: int
    stdout: str
    stderr: str

    @property
    def said(self) -> str:
        """All output, for a failing test."""
        return self.stdout + self.stderr

    @property
    def json(self) -> Any:
        """What `--json` printed."""
        return json.loads(self.stdout)


def heliostat(config: Path, *words: str, questions: str = "") -> Answer:
    """Call a verb through the program's entry point, so that errors become text and exit code.

    Parameters
    ----------
    config
        The file that `-c` names.
    words
        The verb and its options.
    questions
        Text on its standard input.
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
    """Return the JSON of a verb that may end with exit code 0 or 1."""
    answer = heliostat(config, *words, "--json")
    assert answer.returncode in {0, 1}, answer.said
    return answer.json
