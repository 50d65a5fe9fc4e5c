"""MirrorMaker 2's lists of expressions as our lists.

It joins a list's entries with `|` and matches whole names. So do we, entry by entry; but an entry
made of a name's characters only is a name to us, dots included, and the expressions are Python's.
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
"""Of the characters that names may have."""
_JAVA_ONLY = re.compile(r"&&|\\[pPhHRXzZG]|\\[xkN]\{")
"""Means something else in Python, or nothing; also a set within a set."""
_NESTED_SET = re.compile(r"(?<!\\)\[[^\]\\]*(?<!\\)\[")


def patterns_of(setting: Setting) -> list[str]:
    """A list's entries as ours.

    Raises
    ------
    ConfigError
        An entry can't be said in Python's expressions. To leave it out would select other names.
    """
    return _converted(setting.entries(), setting.origin.name)


def patterns_in(entries: Iterable[str], where: str) -> list[str]:
    """The same for entries that are not from one list."""
    return _converted(entries, where)


def _converted(entries: Iterable[str], where: str) -> list[str]:
    found: list[str] = []
    problems: list[str] = []
    for entry in entries:
        text = _QUOTED.sub(lambda match: re.escape(match[1]), entry)
        text = _GROUP.sub("(?P<", text)
        for java, ours in _CLASSES.items():
            text = text.replace(java, ours)
        if _JAVA_ONLY.search(text) or _NESTED_SET.search(text):
            problems.append(f"{where}: only Java understands this expression (got {entry!r})")
            continue
        if text.count("{") != text.count("}"):
            problems.append(f"{where}: a list is split at commas, also in braces (got {entry!r})")
            continue
        try:
            compile_pattern(text)
        except ValueError as error:
            problems.append(f"{where}: {error} (got {entry!r})")
            continue
        found.append(text)
    if problems:
        raise ConfigError(
            "expressions can't be taken over",
            problems=tuple(problems),
            hint="write them so that both understand them; to leave one out would select other "
            "names",
        )
    return found


def named_with_dots(entries: Iterable[str]) -> list[str]:
    """Entries whose dots were any character to MirrorMaker 2, and are dots to us."""
    return [entry for entry in entries if is_plain_name(entry) and "." in entry]
