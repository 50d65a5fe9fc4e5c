"""Write a link's lists of names and regular expressions as MirrorMaker 2 reads them.

The reverse of `config_patterns`: a plain name's dots match dots only, and what only Python reads so
is refused, as it would select other names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from heliostat.config import is_plain_name
from heliostat.errors import ConfigError
from heliostat.mm2.config_patterns import patterns_in

_GROUP = re.compile(r"\(\?P<")
_ONLY_PYTHON = re.compile(
    r"\(\?P[=>]|\(\?\(|\(\?#|\(\?[a-z]*[aLu][a-z-]*[:)]|\(\?[a-z]+\)|\\[NU0-9]"
)
"""Syntax that Java lacks or reads differently; flags and numbers of groups among it, as entries are
joined to one expression."""
_BRACE = re.compile(r"(?<!\\)\{(?!\d+,?\d*\})")
"""A brace that Python takes as it is, and Java for the beginning of a repetition."""


def java_list(entries: Iterable[str], where: str) -> str:
    """Return the entries as one list of regular expressions.

    Parameters
    ----------
    entries
        Names, or expressions in Python's syntax.
    where
        The key of the list, for messages.

    Raises
    ------
    ConfigError
        MirrorMaker 2 would read an entry in another way.
    """
    list_entries: list[str] = []
    problems: list[str] = []
    for entry in entries:
        if is_plain_name(entry):
            list_entries.append(entry.replace(".", r"\."))
            continue
        reason = _why_not(entry)
        if reason:
            problems.append(f"{where}: {reason} (got {entry!r})")
        else:
            list_entries.append(_GROUP.sub("(?<", entry))
    if problems:
        raise ConfigError(
            "some regular expressions can't be list_entries for MirrorMaker 2",
            problems=tuple(problems),
            hint="write them so that Java and Python read them alike; omitting one would select "
            "other names",
        )
    return ",".join(list_entries)


def _why_not(entry: str) -> str:
    """Return why MirrorMaker 2 can't have this entry; empty if it can."""
    if "," in entry:
        return "MirrorMaker 2 splits lists at every comma, even in braces"
    if entry != entry.strip():
        return "MirrorMaker 2 leaves out blanks around an entry"
    if _ONLY_PYTHON.search(entry) or _BRACE.search(entry):
        return "only Python reads this expression so"
    try:
        again = patterns_in([_GROUP.sub("(?<", entry)], "")
    except ConfigError:
        return "Java reads this expression in another way"
    return "" if again == [entry] else "Java reads this expression in another way"
