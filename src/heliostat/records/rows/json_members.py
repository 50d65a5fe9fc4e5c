"""The members of one JSON object, each as the bytes that it has: found by a compiled walk."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import types

from heliostat.errors import TransformFailed
from heliostat.ops.compiled import compiled
from heliostat.records.batches.compiled_bytes import BYTES
from heliostat.records.rows.json_cuts import ROWS, flaw_text
from heliostat.records.rows.json_walk import (
    COMMA,
    OBJECT,
    OBJECT_END,
    after_colon,
    after_space,
    after_string,
    after_value,
)

_MANY = -(1 << 62)
_INT = types.int64
_ROOM_AT_FIRST = 64
_PLACES = 4


@compiled(_INT(BYTES, _INT, _INT, ROWS))
def _member_places(data: Any, position: int, end: int, places: Any) -> Any:
    """Fill in where names and values of the object in `data[position:end]` begin and end.

    Returns how many members there are, or `~n`: it is none because of byte n; or `_MANY`.
    """
    position = after_space(data, position, end)
    if position >= end or data[position] != OBJECT:
        return ~position
    position, count = after_space(data, position + 1, end), np.int64(0)
    is_empty = position < end and data[position] == OBJECT_END
    while not is_empty:
        name_end = after_string(data, position, end)
        value = after_colon(data, name_end, end)
        value_end = value if value < 0 else after_value(data, value, end, 1)
        if value_end < 0:
            return value_end
        if count == len(places):
            return np.int64(_MANY)
        places[count, 0], places[count, 1] = position, name_end
        places[count, 2], places[count, 3] = value, value_end
        count += 1
        position = after_space(data, value_end, end)
        if position >= end or (data[position] != COMMA and data[position] != OBJECT_END):
            return ~position
        if data[position] == OBJECT_END:
            break
        position = after_space(data, position + 1, end)
    position = after_space(data, position + 1, end)
    return count if position == end else ~position


class Member(NamedTuple):
    """A member of an object."""

    name: str
    quoted: bytes
    """Its name as it is written."""
    value: bytes


Members = list[Member]


def members_of(content: bytes) -> Members:
    """Return an object's members in their order.

    Raises
    ------
    TransformFailed
        It is no JSON object.
    """
    data, places = np.frombuffer(content, np.uint8), np.empty((_ROOM_AT_FIRST, _PLACES), np.int64)
    while (count := _member_places(data, 0, len(data), places)) == _MANY:
        places = np.empty((2 * len(places), _PLACES), np.int64)
    if count < 0:
        raise TransformFailed(flaw_text(~count))
    return [
        Member(_name(content[begin:end]), content[begin:end], content[value:value_end])
        for begin, end, value, value_end in places[:count].tolist()
    ]


def _name(quoted: bytes) -> str:
    return json.loads(quoted) if b"\\" in quoted else quoted[1:-1].decode()


def object_of(members: Iterable[Member]) -> bytes:
    """Return an object with these members."""
    return b"{" + b",".join(member.quoted + b":" + member.value for member in members) + b"}"


def text_of(text: str) -> bytes:
    """Return a text as JSON."""
    return json.dumps(text, ensure_ascii=False).encode()


def member(name: str, value: bytes) -> Member:
    """Return a member of this name."""
    return Member(name, text_of(name), value)


def value_in(members: Sequence[Member], name: str) -> bytes | None:
    """Return the value of a field; of several of one name the last, as most readers take it."""
    return next((own.value for own in reversed(members) if own.name == name), None)


def with_value(members: Members, name: str, value: bytes) -> Members:
    """Return members with a field set: where it was, or behind all others."""
    new: Members = []
    is_there = False
    for own in members:
        if own.name != name:
            new.append(own)
        elif not is_there:
            new.append(own._replace(value=value))
            is_there = True
    return new if is_there else [*new, member(name, value)]


def only(members: Iterable[Member], names: Collection[str]) -> Members:
    """Return the members with these names."""
    return [own for own in members if own.name in names]


def flat(members: Iterable[Member], joint: str, prefix: str = "") -> Members:
    """Return members with those of objects within in their place; an empty object has none.

    Raises
    ------
    TransformFailed
        Two would have one name.
    """
    new: Members = []
    for own in members:
        name = prefix + own.name
        if own.value[:1] == b"{":
            new += flat(members_of(own.value), joint, name + joint)
        else:
            new.append(own if not prefix else member(name, own.value))
    names = [own.name for own in new]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise TransformFailed(f"two of its fields would have the name {twice}")
    return new
