"""What lies in a link's history topic: minutes of the link and of its topics, as bytes; pure.

    key `link`      a minute of the link: one point for it, those at 5 s, and what happened
    key `topics`    a minute of topics: some of them, all that changed, or all
    key `positions`    how far partitions are copied, see `history_positions`
    key `events`    what happened, at once; a minute of the link has only those that came with it

A value is a version and compressed content. Figures of topics are columns of numbers of 32 bits in
which three digits count, so that compression finds them alike, and one topic's are read without
the others'. Fields and columns that a later version adds are passed over; a value of another
version, or one that somebody else wrote, raises one of `NOT_A_ROW`.
"""

from __future__ import annotations

import json
import math
import struct
import sys
import zlib
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from typing import Any, NamedTuple

from heliostat.status.history import Point

LINK_KEY, TOPICS_KEY, EVENTS_KEY = b"link", b"topics", b"events"
VERSION = 1
VALUE_MAX = 8 << 20
"""Most bytes of a value's content: 5,000 topics have less than 2 MiB."""
FIELDS = tuple(field.name for field in fields(Point))
_FIGURES = tuple(name for name in FIELDS if name not in ("at_ms", "state"))
_WHOLE = frozenset({"lag_records"})
_MANTISSA_MASK, _MANTISSA_HALF = 0xFFFF_E000, 0x1000
"""Ten bits of a mantissa are kept: one part in two thousand."""


class PastEvent(NamedTuple):
    """What happened, as the driver noticed it."""

    at_ms: int
    level: str
    text: str
    topic: str = ""
    """What it is about, as far as it is about one thing: see `Subject`."""
    partition: int | None = None
    code: str = ""


@dataclass(frozen=True, slots=True)
class LinkMinute:
    """A minute of a link."""

    whole: Point
    fine: tuple[Point, ...] = ()
    events: tuple[PastEvent, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicsMinute:
    """A minute of topics.

    Parameters
    ----------
    at_ms
        Its end (ms since the epoch).
    is_tick
        Whether all topics are meant: those without a point are as they were written last.
    points
        Figures by source topic.
    """

    at_ms: int
    is_tick: bool
    points: Mapping[str, Point]


def encode_link(minute: LinkMinute) -> bytes:
    """Return a record's value."""
    content = {
        "fields": FIELDS,
        "whole": astuple(minute.whole),
        "fine": [astuple(point) for point in minute.fine],
        "events": minute.events,
    }
    return packed(json.dumps(content, separators=(",", ":")).encode())


def decode_link(value: bytes | None, fine_from_ms: int = 0) -> LinkMinute:
    """Return a minute of a link, with points at 5 s from a time on.

    It raises one of `NOT_A_ROW` if it is none.
    """
    content = json.loads(unpacked(value))
    names = content["fields"]
    fine = content["fine"] if int(content["whole"][names.index("at_ms")]) >= fine_from_ms else ()
    points = [_point(names, row) for row in fine]
    return LinkMinute(
        _point(names, content["whole"]),
        tuple(point for point in points if point.at_ms >= fine_from_ms),
        tuple(map(_event, content["events"])),
    )


def encode_events(events: Iterable[PastEvent]) -> bytes:
    """Return a record's value."""
    return packed(json.dumps({"events": list(events)}, separators=(",", ":")).encode())


def decode_events(value: bytes | None) -> tuple[PastEvent, ...]:
    """Return the events of a record; it raises one of `NOT_A_ROW` if it is none."""
    return tuple(map(_event, json.loads(unpacked(value))["events"]))


def _event(row: Sequence[Any]) -> PastEvent:
    at_ms, level, text, *about = row
    topic, partition, code = (about + ["", None, ""][len(about) :])[:3]
    number = None if partition is None else int(partition)
    return PastEvent(int(at_ms), str(level), str(text), str(topic), number, str(code))


def _point(names: Sequence[str], row: Sequence[Any]) -> Point:
    by_name = dict(zip(names, row, strict=True))
    figures = {name: _number(by_name.get(name)) for name in _FIGURES}
    lag = figures["lag_records"]
    figures["lag_records"] = None if lag is None else int(lag)
    for name in ("records_per_s", "bytes_per_s"):
        figures[name] = figures[name] or 0.0
    at_ms, state = int(by_name["at_ms"]), str(by_name["state"])
    return Point(at_ms=at_ms, state=state, **figures)  # type: ignore[arg-type]  # by name


def _number(value: object) -> float | None:
    if value is None:
        return None
    if not isinstance(value, int | float) or not math.isfinite(value):
        raise TypeError("no number")
    return value


# -- topics ----------------------------------------------------------------------------------------


def kept_exactly(value: float | None) -> float:
    """Return a figure as a record holds it; not a number: it is not known."""
    if value is None:
        return math.nan
    (bits,) = struct.unpack("<I", struct.pack("<f", min(value, 3e38)))
    (kept,) = struct.unpack("<f", struct.pack("<I", (bits + _MANTISSA_HALF) & _MANTISSA_MASK))
    return float(kept)


def encode_topics(minute: TopicsMinute) -> bytes:
    """Return a record's value."""
    names = sorted(minute.points)
    points = [minute.points[name] for name in names]
    states = sorted({point.state for point in points})[:256]
    text = "\n".join(names).encode()
    head = {
        "at_ms": minute.at_ms,
        "tick": minute.is_tick,
        "count": len(names),
        "names": len(text),
        "states": states,
        "columns": _FIGURES,
    }
    parts = [json.dumps(head, separators=(",", ":")).encode(), b"\n", text]
    parts.append(bytes(states.index(point.state) for point in points))
    for figure in _FIGURES:
        column = array("f", [kept_exactly(getattr(point, figure)) for point in points])
        if sys.byteorder == "big":
            column.byteswap()
        flat = column.tobytes()
        parts += [flat[place::4] for place in range(4)]  # bytes of equal weight are alike
    return packed(b"".join(parts))


def decode_topics(value: bytes | None, only: Iterable[str] | None = None) -> TopicsMinute:
    """Return a minute of topics, or of some of them; raises one of `NOT_A_ROW` if it is none."""
    content = unpacked(value)
    first, _, rest = content.partition(b"\n")
    head = json.loads(first)
    count, size = int(head["count"]), int(head["names"])
    columns = [str(name) for name in head["columns"]]
    if count < 0 or size < 0 or len(rest) != size + count * (1 + 4 * len(columns)):
        raise ValueError("its length is not what it says")
    text, at_ms = rest[:size], int(head["at_ms"])
    places = _places(text, count, only)
    points: dict[str, Point] = {}
    for name, place in places:
        figures: dict[str, float | int | None] = dict.fromkeys(_FIGURES)
        for number, column in enumerate(columns):
            if column in figures:
                start = size + count + 4 * count * number + place
                (figure,) = struct.unpack("<f", rest[start : start + 4 * count : count])
                figures[column] = _shown(column, figure)
        state = str(head["states"][rest[size + place]])
        points[name] = _point(("at_ms", "state", *figures), (at_ms, state, *figures.values()))
    return TopicsMinute(at_ms, bool(head["tick"]), points)


def _places(text: bytes, count: int, only: Iterable[str] | None) -> list[tuple[str, int]]:
    """Return names with their places: of all topics, or of those that are there."""
    if only is None:
        names = text.decode().split("\n") if count else []
        if len(names) != count:
            raise ValueError("it has other names than it says")
        return [(name, place) for place, name in enumerate(names)]
    framed = b"\n" + text + b"\n"
    indexes = ((name, framed.find(f"\n{name}\n".encode())) for name in only if count)
    places = [(name, framed.count(b"\n", 0, index)) for name, index in indexes if index >= 0]
    if any(place >= count for _, place in places):
        raise ValueError("it has other names than it says")
    return places


def _shown(column: str, figure: float) -> float | int | None:
    if math.isnan(figure):
        return None
    if column in _WHOLE:
        return int(figure)
    return float(f"{figure:.4g}")


# -- values ----------------------------------------------------------------------------------------


def packed(content: bytes) -> bytes:
    """Return a record's value."""
    return bytes([VERSION]) + zlib.compress(content, 9)


def unpacked(value: bytes | None) -> bytes:
    """Return what `packed` was given; raises one of `NOT_A_ROW` if it is none of its values."""
    if not value:
        raise ValueError("it is empty")
    if value[0] != VERSION:
        raise ValueError(f"it has version {value[0]}, and {VERSION} is known")
    unpacking = zlib.decompressobj()
    try:
        content = unpacking.decompress(value[1:], VALUE_MAX)
    except zlib.error as error:
        raise ValueError("it can't be unpacked") from error
    if not unpacking.eof:
        raise ValueError("it has no end")
    return content
