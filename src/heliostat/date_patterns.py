"""Times as text by patterns of Java's `SimpleDateFormat`, in UTC, as Kafka's converters write them.

The letters that have one meaning wherever and whenever they are read: `y M d H h m s S a E Z X`,
text in single quotes, and everything that is no letter.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)
_PART = re.compile(r"'(?P<quoted>(?:[^']|'')*)'|(?P<letter>[A-Za-z])(?P=letter)*|[^A-Za-z']+")
_NUMBERS = frozenset("yMdHhmsS")
_ZONES = {
    "Z": r"([+-]\d\d\d\d)",
    "X": r"(Z|[+-]\d\d)",
    "XX": r"(Z|[+-]\d\d\d\d)",
    3 * "X": r"(Z|[+-]\d\d:\d\d)",
}
_HALVES = ("AM", "PM")
_SHORT = 3
_NAMED = 3
"""From so many letters on, a month is its name."""
_LONG = 4


class _Part(NamedTuple):
    letter: str
    """Empty: `text` stands for itself."""
    text: str

    @property
    def is_number(self) -> bool:
        is_name = self.letter == "M" and len(self.text) >= _NAMED
        return self.letter in _NUMBERS and bool(self.letter) and not is_name


class DatePattern:
    """One pattern.

    Parameters
    ----------
    pattern
        Such as `yyyy-MM-dd'T'HH:mm:ss.SSSX`.

    Raises
    ------
    ValueError
        It has a letter that is not known here.
    """

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self._parts = list(_parts(pattern))
        self._letters = [part.letter for part in self._parts]
        following = [*self._parts[1:], _Part("", "")]
        texts = (_reading(p, after) for p, after in zip(self._parts, following, strict=True))
        self._regex = re.compile("".join(texts))

    def written(self, time_ms: int) -> str:
        """Return a time in milliseconds since the epoch as text.

        Raises
        ------
        OverflowError
            It is in no year from 1 to 9999.
        """
        time = _EPOCH + time_ms * _MS
        return "".join(
            _WRITE[p.letter](time, len(p.text)) if p.letter else p.text for p in self._parts
        )

    def read(self, text: str) -> int:
        """Return the time at the beginning of a text, in milliseconds since the epoch.

        Raises
        ------
        ValueError
            It is no such time.
        """
        match = self._regex.match(text)
        if match is None:
            raise ValueError(f"it is not of the pattern {self.pattern}")
        by_letter = dict(zip(filter(None, self._letters), match.groups(), strict=True))
        time = _time({letter: _number(letter, part) for letter, part in by_letter.items()})
        return (time - _EPOCH) // _MS


def _parts(pattern: str) -> Iterator[_Part]:
    position = 0
    while position < len(pattern):
        match = _PART.match(pattern, position)
        if match is None:
            raise ValueError(f"{pattern}: a quote is not closed")
        position, text, letter = match.end(), match[0], match["letter"]
        if letter is None:
            quoted = match["quoted"]
            yield _Part("", text if quoted is None else quoted.replace("''", "'") or "'")
            continue
        if letter not in _WRITE or text == "yy" or (letter == "X" and len(text) > _SHORT):
            raise ValueError(
                f"{pattern}: {text} is not among the letters that have one meaning everywhere: "
                "yyyy M d H h m s S a E Z X"
            )
        yield _Part(letter, text)


def _reading(part: _Part, following: _Part) -> str:
    """Return the regular expression of what a part reads."""
    if not part.letter:
        return re.escape(part.text)
    if part.is_number:
        # Where numbers touch, each has as many digits as letters.
        return rf"(\d{{{len(part.text)}}})" if following.is_number else r"(\d+)"
    if part.letter in "ME":
        names = MONTHS if part.letter == "M" else DAYS
        choices = (name for full in names for name in (full, full[:_SHORT]))
        return f"((?i:{'|'.join(dict.fromkeys(choices))}))"
    if part.letter == "a":
        return "((?i:AM|PM))"
    return _ZONES[part.text if part.letter == "X" else "Z"]


def _number(letter: str, text: str) -> int:
    """Return what a part of a time says; of zones in minutes."""
    if letter in "ZX":
        if text == "Z":
            return 0
        minutes = int(text[1:3]) * 60 + int(text[-2:] if len(text) > _SHORT else 0)
        return -minutes if text[0] == "-" else minutes
    if letter == "a":
        return _HALVES.index(text.upper())
    if letter in "ME" and not text.isdigit():
        names = MONTHS if letter == "M" else DAYS
        return 1 + [name[:_SHORT] for name in names].index(text[:_SHORT].capitalize())
    return int(text)


def _time(parts: dict[str, int]) -> datetime:
    zone = parts.get("Z", parts.get("X", 0))
    hour = parts["h"] % 12 + 12 * parts.get("a", 0) if "h" in parts else parts.get("H", 0)
    day = datetime(parts.get("y", 1970), parts.get("M", 1), parts.get("d", 1), tzinfo=UTC)
    seconds = hour * 3600 + (parts.get("m", 0) - zone) * 60 + parts.get("s", 0)
    return day + timedelta(seconds=seconds, milliseconds=parts.get("S", 0))


def _month(time: datetime, count: int) -> str:
    if count >= _NAMED:
        return MONTHS[time.month - 1][: None if count >= _LONG else _SHORT]
    return f"{time.month:0{count}d}"


def _padded(number: Callable[[datetime], int]) -> Callable[[datetime, int], str]:
    return lambda time, count: f"{number(time):0{count}d}"


_WRITE: dict[str, Callable[[datetime, int], str]] = {
    "y": _padded(lambda time: time.year),
    "M": _month,
    "d": _padded(lambda time: time.day),
    "H": _padded(lambda time: time.hour),
    "h": _padded(lambda time: (time.hour + 11) % 12 + 1),
    "m": _padded(lambda time: time.minute),
    "s": _padded(lambda time: time.second),
    "S": _padded(lambda time: time.microsecond // 1000),
    "a": lambda time, _: _HALVES[time.hour >= 12],
    "E": lambda time, count: DAYS[time.weekday()][: None if count >= _LONG else _SHORT],
    "Z": lambda _time, _: "+0000",
    "X": lambda _time, _: "Z",
}
