"""Fields cut out of framed Avro records and JSON objects, in compiled code.

`avro.cuts` says what becomes of the records of each Avro schema, `json_cuts` of JSON objects: what
is new is runs of what was there, and constants, one after the other. Contents that begin with an id
of none of these schemas fail, as do those that are no record of theirs, or no object; null stays
null.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numba import types

from heliostat.framed_ids import FRAME_BYTES
from heliostat.ops.compiled import inlined
from heliostat.records.batches.compiled_bytes import BYTES
from heliostat.records.rows.avro_walk import LIST, NODES, field_ends
from heliostat.records.rows.json_changes import JsonChanges
from heliostat.records.rows.json_cuts import (
    EDIT_COLUMNS,
    EDITS_AT_FIRST,
    FAILS,
    FROM,
    IS_CONSTANT,
    LEFT,
    ROWS,
    TO,
    json_edits,
    rules_of,
    why_not,
)

# Columns of a place: what a record's key, or value, is, and which rows of cuts or rules are for it.
_KIND, _FIRST, _STOP = range(3)
_NOT_CUT, _AVRO, _JSON = range(3)
# Columns of a cut: its schema's id, the schema's row in `nodes`, and its rows of pieces.
_ID, _ROOT, _PIECES, _PIECES_END = range(4)
# A piece is like an edit, but what is no constant begins and ends with a field of these numbers.
_INT = types.int64
_INTS = types.int64[::1]


@dataclass(frozen=True, slots=True)
class Cut:
    """What becomes of the records of one schema.

    Parameters
    ----------
    schema_id
        Its id at the source.
    nodes, children, fields
        See `avro.spans.Walk`.
    pieces
        Of a new record, in order, with its frame: bytes, or first and last of a run of fields.
    """

    schema_id: int
    nodes: Any
    children: Any
    fields: int
    pieces: tuple[bytes | tuple[int, int], ...]


def _no_reason(column: str, _content: bytes) -> str:
    raise AssertionError(f"no {column} has Avro's fields cut")


@dataclass(frozen=True, slots=True)
class FieldCuts:
    """What becomes of records' keys and values, by their schemas; None: they are left alone.

    Parameters
    ----------
    why_no_avro
        Says why contents of a column (`key`, `value`) can't be cut as Avro.
    """

    keys: tuple[Cut, ...] | JsonChanges | None
    values: tuple[Cut, ...] | JsonChanges | None
    why_no_avro: Callable[[str, bytes], str] = _no_reason

    def why(self, column: str, content: bytes) -> str:
        """Return why contents of a column can't be cut."""
        changes = self.keys if column == "key" else self.values
        if isinstance(changes, JsonChanges):
            return why_not(changes, content)
        return self.why_no_avro(column, content)


class Tables(NamedTuple):
    """The same as the compiled loop takes it: int64, and bytes."""

    places: Any
    """Of key and value."""
    cuts: Any
    """In order of place and id."""
    nodes: Any
    children: Any
    pieces: Any
    ends: Any
    """Room for where the fields of a key, and of a value, end."""
    rules: Any
    given: Any
    """Room, see `json_edits`."""
    constants: Any


def new_edits(room: int) -> Any:
    """Return room for so many edits of a key, and of a value."""
    return np.empty((2, room, EDIT_COLUMNS), np.int64)


class _TablesBeingMade:
    def __init__(self) -> None:
        self.places: list[tuple[int, int, int]] = []
        self.cuts: list[tuple[int, int, int, int]] = []
        self.nodes: list[Any] = [np.zeros((0, 3), np.int64)]
        self.children: list[Any] = [np.zeros(1, np.int64)]
        self.pieces: list[tuple[int, int, int]] = []
        self.rules: list[Any] = [rules_of(JsonChanges()).rows]
        self.constants = bytearray()
        self.fields = self.most_pieces = self.grows = 0

    def add_avro(self, cuts: tuple[Cut, ...]) -> None:
        first, most = len(self.cuts), 0
        for cut in sorted(cuts, key=lambda avro_cut: avro_cut.schema_id):
            root, before = sum(map(len, self.nodes)), sum(map(len, self.children))
            own = cut.nodes.copy()
            # Only those with children have their place among these, others a size or a count.
            own[:, 1] += np.where(own[:, 2] > 0, before, 0)
            self.nodes.append(own)
            self.children.append(cut.children + root)
            start, size = len(self.pieces), len(self.constants)
            for piece in cut.pieces:
                if isinstance(piece, bytes):
                    begin = len(self.constants)
                    self.constants += piece
                    self.pieces.append((1, begin, len(self.constants)))
                else:
                    self.pieces.append((0, *piece))
            self.cuts.append((cut.schema_id, root, start, len(self.pieces)))
            most = max(most, len(self.constants) - size)
            self.fields = max(self.fields, cut.fields)
            self.most_pieces = max(self.most_pieces, len(cut.pieces))
        self.places.append((_AVRO, first, len(self.cuts)))
        self.grows += most

    def add_json(self, changes: JsonChanges) -> None:
        first = sum(map(len, self.rules))
        rows, constants, grows = rules_of(changes, len(self.constants))
        self.rules.append(rows)
        self.constants += constants
        self.places.append((_JSON, first, first + len(rows)))
        self.grows += grows


def tables_of(cuts: FieldCuts | None) -> tuple[Tables, int, Any]:
    """Return the tables of cuts, by how many bytes a record may grow, and room for edits."""
    made = _TablesBeingMade()
    for changes in (None, None) if cuts is None else (cuts.keys, cuts.values):
        if changes is None:
            made.places.append((_NOT_CUT, 0, 0))
        elif isinstance(changes, JsonChanges):
            made.add_json(changes)
        else:
            made.add_avro(changes)
    rules = np.concatenate(made.rules)
    tables = Tables(
        np.array(made.places, np.int64),
        np.array(made.cuts, np.int64).reshape(-1, 4),
        np.concatenate(made.nodes),
        np.concatenate(made.children),
        np.array(made.pieces, np.int64).reshape(-1, 3),
        np.zeros((2, made.fields + 1), np.int64),
        rules,
        np.zeros(len(rules), np.int64),
        np.frombuffer(bytes(made.constants), np.uint8),
    )
    return tables, made.grows, new_edits(max(EDITS_AT_FIRST, made.most_pieces))


@inlined(_INT(_INT, _INT, _INT, ROWS))
def _row_of(number: int, first: int, stop: int, cuts: Any) -> Any:
    while first < stop:
        middle = (first + stop) // 2
        if cuts[middle, _ID] < number:
            first = middle + 1
        else:
            stop = middle
    return first


@inlined(_INT(BYTES, _INT, _INT, _INTS, ROWS, NODES, LIST, ROWS, _INTS, ROWS))
def _avro_edits(  # noqa: PLR0917 - compiled without keywords
    data: Any,
    position: int,
    size: int,
    place: Any,
    cuts: Any,
    nodes: Any,
    children: Any,
    pieces: Any,
    ends: Any,
    edits: Any,
) -> Any:
    """Fill `edits` with what becomes of the record of `size` bytes at `position`; return how many.

    `ends` is filled with where its fields end.
    """
    if size < FRAME_BYTES or data[position]:
        return FAILS
    number = np.int64(0)
    for byte in range(1, FRAME_BYTES):
        number = number << 8 | np.int64(data[position + byte])
    row = _row_of(number, place[_FIRST], place[_STOP], cuts)
    if row == place[_STOP] or cuts[row, _ID] != number:
        return FAILS
    begin, root = position + FRAME_BYTES, cuts[row, _ROOT]
    if not field_ends(data, begin, position + size, nodes, children, root, ends):
        return FAILS
    first = cuts[row, _PIECES]
    count = cuts[row, _PIECES_END] - first
    for index in range(count):
        piece, edit = pieces[first + index], edits[index]
        is_constant = piece[IS_CONSTANT]
        edit[IS_CONSTANT] = is_constant
        edit[FROM] = piece[FROM] if is_constant else ends[piece[FROM]]
        edit[TO] = piece[TO] if is_constant else ends[piece[TO] + 1]
    return count


TABLES = types.Tuple((ROWS, ROWS, NODES, LIST, ROWS, ROWS, ROWS, _INTS, BYTES))
"""Numba's type of `Tables`."""


@inlined(_INT(BYTES, _INT, _INT, _INT, TABLES, ROWS))
def edits_of(  # noqa: PLR0917 - compiled without keywords
    data: Any, position: int, size: int, column: int, tables: Any, edits: Any
) -> Any:
    """Fill `edits` with what becomes of a key (0), or value (1), of `size` bytes at `position`.

    A size of -1: it is null. Returns how many edits there are, or `LEFT`, `FAILS`, `MANY`.
    """
    places, cuts, nodes, children, pieces, ends, rules, given, constants = tables
    place = places[column]
    if place[_KIND] == _NOT_CUT or size < 0:
        return LEFT
    if place[_KIND] == _AVRO:
        return _avro_edits(
            *(data, position, size, place, cuts, nodes, children, pieces, ends[column], edits)
        )
    first, stop = place[_FIRST], place[_STOP]
    return json_edits(data, position, position + size, rules, first, stop, constants, edits, given)
