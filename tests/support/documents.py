"""What documents contain: links, anchors, commands and configurations, for the tests of them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any

import yaml
from support.tools import ROOT

DOCUMENTS = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "bench").glob("*.md")]
)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^ *```")
HEADING = re.compile(r"^#+ (.*)$")
ENDS_A_COMMAND = ("|", ">", ">>", "&&", ";", "||")
TOPICS_OF_AN_EXAMPLE = {"include": ["t"]}


@dataclass(frozen=True, slots=True)
class Block:
    """A block of code of a document."""

    file: Path
    line: int
    text: str


def blocks(file: Path) -> Iterator[Block]:
    """Return a document's blocks of code, fenced and indented ones."""
    lines, start, is_fenced = list[str](), 0, False
    before = ""
    for number, line in enumerate([*file.read_text().splitlines(), ""], 1):
        if FENCE.match(line):
            if lines:
                yield Block(file, start, "\n".join(lines))
            lines, start, is_fenced = [], number + 1, not is_fenced
        elif is_fenced or (line.startswith("    ") and (lines or not before.strip())):
            start = start if lines else number
            lines.append(line)
        elif lines and line.strip():
            yield Block(file, start, "\n".join(lines))
            lines = []
        elif lines:
            lines.append("")
        before = line
    if lines:
        yield Block(file, start, "\n".join(lines))


def commands(program: str) -> Iterator[tuple[str, list[str]]]:
    """Return each command of a program in any document: its place, and its words."""
    for file in DOCUMENTS:
        if file.parent.name == "reference":
            continue  # as `--help` prints them, with words behind them
        for block in blocks(file):
            text = re.sub(r"\\\n *", "", block.text)
            for line in text.splitlines():
                match = re.match(rf"\s*(?:\S*/)?{program} (.*)", line)
                if match and not line.lstrip().startswith(("-", "#")):
                    yield f"{file.relative_to(ROOT)}:{block.line}", command_words(match[1])


def command_words(line: str) -> list[str]:
    """Return the words of a command as a shell gives them, up to a comment, pipe or redirection."""
    said = list[str]()
    for word in shlex.split(line, comments=True):
        if word in ENDS_A_COMMAND:
            break
        said.append(word)
    return said


def configurations() -> Iterator[tuple[str, dict[str, Any]]]:
    """Return each configuration in a document, or a part of one: its place, and its values."""
    for file in DOCUMENTS:
        for block in blocks(file):
            try:
                value = yaml.safe_load(dedent(block.text))
            except yaml.YAMLError:
                continue
            if isinstance(value, dict):
                yield f"{file.relative_to(ROOT)}:{block.line}", value


def anchors(file: Path) -> set[str]:
    """Return the anchors of a document's headings, as a code host and the site make them."""
    found, is_fenced = list[str](), False
    for line in file.read_text().splitlines():
        is_fenced ^= bool(FENCE.match(line))
        match = HEADING.match(line)
        if match and not is_fenced:
            words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", match[1])
            found.append(re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-"))
    return set(found)
