"""Names or regular expressions: how the entries of every include and exclude list are read."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Annotated, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Strict

_NAME = re.compile(r"[a-zA-Z0-9._-]+")
PATTERN_CHARACTERS_MAX = 10_000
"""A longer entry is a mistake (a whole list pasted as one string), not an expression."""


def is_plain_name(entry: str) -> bool:
    """Whether an entry has only characters that topic names may have.

    Such an entry is taken as that one name: in `lsst.sal.ESS` a dot is a dot. Everything else is a
    regular expression that must match the whole name.
    """
    return _NAME.fullmatch(entry) is not None


@lru_cache(maxsize=4096)
def compile_pattern(entry: str) -> re.Pattern[str]:
    """Compile an entry; use `fullmatch` on the result.

    Raises
    ------
    ValueError
        The entry is empty, too long or no regular expression; the text says why.
    """
    if not entry:
        raise ValueError("an empty entry matches nothing")
    if len(entry) > PATTERN_CHARACTERS_MAX:
        raise ValueError(f"longer than {PATTERN_CHARACTERS_MAX} characters")
    if is_plain_name(entry):
        return re.compile(re.escape(entry))
    try:
        return re.compile(entry)
    except (re.error, RecursionError, OverflowError) as problem:
        raise ValueError(f"bad regex: {problem}") from None


def as_entries(value: object) -> object:
    """A plain string is one entry; it is never split on commas."""
    return (value,) if isinstance(value, str) else value


def _check_pattern(entry: str) -> str:
    compile_pattern(entry)
    return entry


Pattern: TypeAlias = Annotated[str, AfterValidator(_check_pattern)]
Patterns: TypeAlias = Annotated[
    tuple[Pattern, ...], Strict(strict=False), BeforeValidator(as_entries)
]
