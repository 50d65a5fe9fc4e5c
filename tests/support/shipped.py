"""Examples as they are shipped, copied to a folder, and the commands of their pages."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

from support.tools import ROOT

EXAMPLES = ROOT / "docs" / "examples"
_COMMAND = re.compile(r"^ {4,}((?:heliostat|python) .+)$", re.MULTILINE)


def example_config(name: str, folder: Path) -> Path:
    """Copy an example into a folder that a run may write to; return its configuration."""
    shutil.copytree(EXAMPLES / name, folder / name)
    return folder / name / "heliostat.yaml"


def readme_commands(name: str) -> Iterator[list[str]]:
    """Yield the words of each command in an example's README, in order."""
    text = (EXAMPLES / name / "README.md").read_text(encoding="utf-8")
    for line in _COMMAND.findall(text):
        yield shlex.split(line, comments=True)


def readme_verbs(name: str, *verbs: str) -> Iterator[list[str]]:
    """Yield words of its `heliostat` commands with these verbs, without the file's name."""
    for program, *words in readme_commands(name):
        if program == "heliostat" and words[0] in verbs:
            if "-c" in words:
                place = words.index("-c")
                del words[place : place + 2]
            yield words
