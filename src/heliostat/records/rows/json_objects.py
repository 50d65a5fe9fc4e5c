"""Objects of which no schema is known, changed record by record: what each change does.

Each value that no change names is copied as the bytes that it is. What Kafka's own transformations
make of such records, `tests/peer` compares.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from heliostat.date_patterns import DatePattern
from heliostat.errors import TransformFailed
from heliostat.records.rows.header_steps import Origin
from heliostat.records.rows.json_changes import JsonChanges, ObjectChanges, TimeChange
from heliostat.records.rows.json_cuts import JsonCutter
from heliostat.records.rows.json_members import (
    Members,
    flat,
    member,
    members_of,
    object_of,
    only,
    text_of,
    value_in,
    with_value,
)
from heliostat.records.rows.json_walk import after_value

INTEGER_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_FLOATS = {"float": np.float32, "double": np.float64}
NULL, _FALSE = b"null", b"false"
_NS_PER_MS = 1_000_000
_KINDS = {
    b"{": "an object",
    b"[": "an array",
    b'"': "text",
    b"t": "true or false",
    b"f": "true or false",
    b"n": "null",
}
_INTEGER = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?")

Places = Mapping[Origin, int | str]


class Changed(NamedTuple):
    """What becomes of a record's content."""

    content: bytes | None
    key: bytes | None = None
    """The object of the fields that become the key; None: it stays."""
    headers: tuple[tuple[str, bytes | None], ...] = ()
    """What is added behind its headers."""


class JsonObjects:
    """Changes one record's object after the other.

    Parameters
    ----------
    changes
        What is changed.
    """

    def __init__(self, changes: ObjectChanges) -> None:
        self._changes = changes
        self._cutter = None if changes.cut == JsonChanges() else JsonCutter(changes.cut)
        self._patterns = {c.pattern: DatePattern(c.pattern) for c in changes.times if c.pattern}
        whole = [name for name, _ in changes.casts] + [change.field for change in changes.times]
        self._is_whole = bool(whole) and not any(whole)
        self._computes = bool(changes.inserts or changes.places or any(whole))
        self._needs_members = self._computes or bool(changes.headers)
        self._needs_members_again = bool(changes.only or changes.flattens or changes.key_fields)

    def changed(self, content: bytes | None, places: Places) -> Changed:
        """Return what becomes of content; null stays null.

        Raises
        ------
        TransformFailed
            It is no JSON, or no object, or a field is not what a change needs.
        """
        changes = self._changes
        if content is None:
            return Changed(None)
        headers: tuple[tuple[str, bytes | None], ...] = ()
        key = None
        if self._is_whole:
            content = self._converted(_value(content), "")
        if self._needs_members:
            members = self._computed(members_of(content), places)
            headers = tuple((new, _plain(value_in(members, name))) for name, new in changes.headers)
            content = object_of(members) if self._computes else content
        if self._cutter is not None:
            content = self._cutter.cut(content)
        if self._needs_members_again:
            members = members_of(content)
            members = only(members, changes.only) if changes.only else members
            members = flat(members, changes.flattens) if changes.flattens else members
            if changes.key_fields:
                key = object_of(
                    member(name, value_in(members, name) or NULL) for name in changes.key_fields
                )
            if changes.only or changes.flattens:
                content = object_of(members)
        return Changed(self._wrapped(content), key, headers)

    def _wrapped(self, content: bytes) -> bytes | None:
        """Return content after the last changes, those of which value is whole."""
        changes = self._changes
        value: bytes | None = content
        for name in changes.extracts:
            value = None if value in {None, NULL} else value_in(members_of(value), name)
        if value == NULL:
            value = None
        if changes.hoists and value is not None:
            value = object_of([member(changes.hoists, _value(value))])
        return value

    def _computed(self, members: Members, places: Places) -> Members:
        changes = self._changes
        for name, text in changes.inserts:
            members = with_value(members, name, text_of(text))
        for name, what in changes.places:
            place = places[what]
            value = text_of(place) if isinstance(place, str) else b"%d" % place
            members = with_value(members, name, value)
        if changes.casts or changes.times:
            members = [own._replace(value=self._converted(own.value, own.name)) for own in members]
        return members

    def _converted(self, value: bytes, name: str) -> bytes:
        """Return a field's value, or the whole one (no name), as casts and times leave it."""
        for field, kind in self._changes.casts:
            if field == name:
                value = _cast(value, kind, name)
        for change in self._changes.times:
            if change.field == name:
                value = self._time(value, change)
        return value

    def _time(self, value: bytes, change: TimeChange) -> bytes:
        if value == NULL:
            return value
        pattern = self._patterns.get(change.pattern)
        if value[:1] == b'"':
            if pattern is None:
                raise _wrong(change.field, value, "is text, and no format is given")
            try:
                time_ns = pattern.read(json.loads(value)) * _NS_PER_MS
            except (ValueError, OverflowError) as error:
                raise _wrong(change.field, value, f"is no time: {error}") from None
        else:
            number = _number(value)
            if not isinstance(number, int):
                raise _wrong(change.field, value, "is no time: neither text nor a whole number")
            time_ns = number * change.unit_ns
        if not change.is_text:
            return b"%d" % (time_ns // change.unit_ns)
        assert pattern is not None, "the configuration was checked"
        try:
            return text_of(pattern.written(time_ns // _NS_PER_MS))
        except OverflowError:
            raise _wrong(change.field, value, "is in no year from 1 to 9999") from None


def _value(content: bytes) -> bytes:
    """Return content that is one JSON value, without white space around it."""
    value = content.strip(b" \t\r\n")
    end = after_value(np.frombuffer(value, np.uint8), 0, len(value), 0)
    if end != len(value):
        flaw = end if end >= 0 else ~end
        raise TransformFailed(f"it is no JSON value: its byte {flaw} can't be there")
    return value


def _plain(value: bytes | None) -> bytes | None:
    """Return a value as a header has it: text without quotes, anything else as JSON."""
    if value is None or value == NULL:
        return None
    return json.loads(value).encode() if value[:1] == b'"' else value


def _number(value: bytes) -> int | float | None:
    """Return a JSON number, or None: it is something else."""
    if value[:1] not in b"-0123456789":
        return None
    try:
        return int(value)
    except ValueError:
        return float(value)


def _cast(value: bytes, kind: str, name: str) -> bytes:
    """Return a value as another type; what does not fit fails, and null stays null."""
    if value == NULL:
        return value
    if value[:1] in b"{[":
        raise _wrong(name, value, f"can't be cast to {kind}")
    is_text = value[:1] == b'"'
    text = json.loads(value) if is_text else value.decode()
    if kind == "string":
        return value if is_text else text_of(text)
    try:
        if kind == "boolean":
            return _boolean(value, text)
        if kind in _FLOATS:
            return _float(text, kind, is_text=is_text)
        return _integer(text, INTEGER_BITS[kind], is_text=is_text)
    except (ValueError, OverflowError):
        raise _wrong(name, value, f"can't be cast to {kind}") from None


def _boolean(value: bytes, text: str) -> bytes:
    number = _number(value)
    is_true = text.lower() == "true" if number is None else int(number) != 0
    return b"true" if is_true else _FALSE


def _float(text: str, kind: str, *, is_text: bool) -> bytes:
    if not is_text and text in {"true", "false"}:
        return b"1.0" if text == "true" else b"0.0"
    number: Any = _FLOATS[kind](text if _NUMBER.fullmatch(text.strip()) else "no number")
    if not math.isfinite(number):
        raise ValueError(text)
    return str(number).encode()


def _integer(text: str, bits: int, *, is_text: bool) -> bytes:
    if not is_text and text in {"true", "false"}:
        return b"1" if text == "true" else b"0"
    if _INTEGER.fullmatch(text):
        number = int(text)
    elif is_text:
        raise ValueError
    else:
        number = int(float(text))
    if not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise OverflowError
    return b"%d" % number


def _wrong(name: str, value: bytes, what: str) -> TransformFailed:
    where = f"its field {name}" if name else "it"
    # Never the value: a pipeline may be there to hide it.
    return TransformFailed(f"{where}, which is {_KINDS.get(value[:1], 'a number')}, {what}")
