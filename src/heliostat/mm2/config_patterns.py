"""Convert MirrorMaker 2's lists of regular expressions into ours.

It joins a list's entries with `|` and matches whole names. We match whole names entry by entry, in
Python's syntax, and take an entry of only those characters that names may have, dots included, as
a name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from heliostat.config import compile_pattern, is_plain_name
from heliostat.errors import ConfigError
from heliostat.mm2.config_values import Setting

_QUOTED = re.compile(r"\\Q(.*?)(?:\\E|$)", re.DOTALL)
_GROUP = re.compile(r"\(\?<(?=[A-Za-z])")
_CLASSES = {
    r"\p{Alpha}": "[a-zA-Z]",
    r"\p{Digit}": "[0-9]",
    r"\p{Alnum}": "[a-zA-Z0-9]",
    r"\p{Lower}": "[a-z]",
    r"\p{Upper}": "[A-Z]",
    r"\p{L}": "[a-zA-Z]",
    r"\p{N}": "[0-9]",
}
"""Java's character classes, reduced to the characters that names may have."""
_JAVA_ONLY = re.compile(r"&&|\\[pPhHRXzZG]|\\[xkN]\{")
"""Syntax that Python lacks, or reads differently; so is a set within a set (`_NESTED_SET`)."""
_NESTED_SET = re.compile(r"(?<!\\)\[[^\]\\]*(?<!\\)\[")


def patterns_of(setting: Setting) -> list[str]:
    """Convert the entries of a list.

    Raises
    ------
    ConfigError
        An entry can't be written in Python's syntax. Omitting it would select other names.
    """
    return [_named(entry) for entry in _converted(setting.entries(), setting.origin.name)]


def _named(entry: str) -> str:
    r"""Return an expression that matches one name, such as `a\.b`, as that name."""
    name = entry.replace(r"\.", ".")
    is_name = is_plain_name(name) and name.count(".") == entry.count(r"\.")
    return name if is_name else entry


def patterns_in(entries: Iterable[str], where: str) -> list[str]:
    """Convert entries that are not from one property; `where` names them in errors."""
    return _converted(entries, where)


def _converted(entries: Iterable[str], where: str) -> list[str]:
    patterns: list[str] = []
    problems: list[str] = []
    for entry in entries:
        text = _QUOTED.sub(lambda match: re.escape(match[1]), entry)
        text = _GROUP.sub("(?P<", text)
        for java, ours in _CLASSES.items():
            text = text.replace(java, ours)
        if _JAVA_ONLY.search(text) or _NESTED_SET.search(text):
            problems.append(f"{where}: only Java supports this expression (got {entry!r})")
            continue
        if text.count("{") != text.count("}"):
            problems.append(
                f"{where}: lists are split at every comma, even in braces (got {entry!r})"
            )
            continue
        try:
            compile_pattern(text)
        except ValueError as error:
            problems.append(f"{where}: {error} (got {entry!r})")
            continue
        patterns.append(text)
    if problems:
        raise ConfigError(
            "some regular expressions can't be converted",
            problems=tuple(problems),
            hint="write them so that Java and Python read them alike; omitting one would select "
            "other names",
        )
    return patterns


def named_with_dots(entries: Iterable[str]) -> list[str]:
    """Return entries whose dots matched any character, and match only dots in a link."""
    return [entry for entry in entries if is_plain_name(entry) and "." in entry]
