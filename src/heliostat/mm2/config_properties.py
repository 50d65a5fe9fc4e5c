"""Read Java's `.properties` files like `java.util.Properties.load`, with line numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from heliostat.errors import ConfigError

_BLANKS = " \t\f"
_SEPARATORS = "=:"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_UNICODE = re.compile(r"[0-9a-fA-F]{4}")
_LINE_ENDS = re.compile(r"\r\n|\r|\n")


class Property(NamedTuple):
    """One property, and the line on which it begins, counted from 1."""

    name: str
    value: str
    line: int


def read_properties(text: str) -> list[Property]:
    r"""Return all properties in the order of the file, with repeated ones; Java keeps the last.

    Parameters
    ----------
    text
        Contents of the file. Java reads it as ISO 8859-1; other characters are written `\uXXXX`.

    Raises
    ------
    ConfigError
        A `\u` is not followed by four hexadecimal digits.
    """
    return [_split(line, number) for number, line in _logical_lines(text)]


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield joined lines: one that ends in an odd number of backslashes continues in the next."""
    begun: str | None = None
    first = 0
    for number, line in enumerate(_LINE_ENDS.split(text), start=1):
        stripped = line.lstrip(_BLANKS)
        if begun is None:
            if not stripped or stripped[0] in "#!":
                continue
            begun, first = "", number
        begun += stripped
        if _goes_on(stripped):
            begun = begun[:-1]
            continue
        yield first, begun
        begun = None
    if begun:
        yield first, begun


def _goes_on(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _split(line: str, number: int) -> Property:
    end = 0
    while end < len(line) and line[end] not in _SEPARATORS + _BLANKS:
        end += 2 if line[end] == "\\" else 1
    rest = line[end:].lstrip(_BLANKS)
    if rest[:1] in tuple(_SEPARATORS):
        rest = rest[1:].lstrip(_BLANKS)
    return Property(_unescaped(line[:end], number), _unescaped(rest, number), number)


def _unescaped(text: str, number: int) -> str:
    parts: list[str] = []
    index = 0
    while index < len(text):
        if text[index] != "\\":
            parts.append(text[index])
            index += 1
        elif text[index + 1 : index + 2] == "u":
            digits = text[index + 2 : index + 6]
            if _UNICODE.fullmatch(digits) is None:
                raise ConfigError(f"line {number}: \\u needs four hexadecimal digits")
            parts.append(chr(int(digits, 16)))
            index += 6
        else:
            letter = text[index + 1 : index + 2]
            parts.append(_ESCAPES.get(letter, letter))
            index += 2
    return "".join(parts)
