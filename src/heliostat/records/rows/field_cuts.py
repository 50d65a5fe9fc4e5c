"""Fields cut out of framed Avro records, in compiled code.

`avro.cuts` says what becomes of the records of each schema: a new record is the new schema's id,
runs of the old record's fields, and constants, one after the other. All contents that begin with an
id of none of these schemas fail, as do those that are no record of theirs; null stays null.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numba import types

from heliostat.framed_ids import FRAME_BYTES
from heliostat.records.batches.compiled_bytes import BYTES, compiled, copy_bytes
from heliostat.records.rows.avro_walk import LIST, NODES, field_ends

LEFT, FAILS = -1, -2
"""What `cut_of` returns of contents that stay what they are, and of those that can't be cut."""
# Columns of a place: whether a record's key, or value, is cut, and which rows of cuts are for it.
_IS_CUT, _FIRST, _STOP = range(3)
# Columns of a cut: its schema's id, the schema's row in `nodes`, and its rows of pieces.
_ID, _ROOT, _PIECES, _PIECES_END = range(4)
# Columns of a piece: whether it is a constant, and where it begins and ends: in `constants`, or
# as numbers of fields.
_IS_CONSTANT, _FROM, _TO = range(3)
_INT = types.int64
_INTS = types.int64[::1]
_ROWS = types.int64[:, ::1]


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


@dataclass(frozen=True, slots=True)
class FieldCuts:
    """What becomes of records' keys and values, by their schemas; None: they are left alone.

    Parameters
    ----------
    why
        Says why contents of a column (`key`, `value`) can't be cut.
    """

    keys: tuple[Cut, ...] | None
    values: tuple[Cut, ...] | None
    why: Callable[[str, bytes], str]


class Tables(NamedTuple):
    """The same as the compiled loop takes it: int64, and bytes."""

    places: Any
    """Of key and value."""
    cuts: Any
    """In order of place and id."""
    nodes: Any
    children: Any
    pieces: Any
    constants: Any
    ends: Any
    """Room for where the fields of a key, and of a value, end."""
    constant_bytes: int
    """Most of them in one record."""


def tables_of(found: FieldCuts | None) -> Tables:
    """Return the tables of cuts; None: of none."""
    places: list[tuple[int, int, int]] = []
    rows: list[tuple[int, int, int, int]] = []
    nodes: list[Any] = [np.zeros((0, 3), np.int64)]
    children: list[Any] = [np.zeros(1, np.int64)]
    pieces: list[tuple[int, int, int]] = []
    constants, most, fields = bytearray(), 0, 0
    for cuts in (None, None) if found is None else (found.keys, found.values):
        first = len(rows)
        for each in sorted(cuts or (), key=lambda each: each.schema_id):
            root, before = sum(map(len, nodes)), sum(map(len, children))
            own = each.nodes.copy()
            # Only those with children have their place among these, others a size or a count.
            own[:, 1] += np.where(own[:, 2] > 0, before, 0)
            nodes.append(own)
            children.append(each.children + root)
            start, size = len(pieces), len(constants)
            for piece in each.pieces:
                if isinstance(piece, bytes):
                    pieces.append((1, len(constants), len(constants) + len(piece)))
                    constants += piece
                else:
                    pieces.append((0, *piece))
            rows.append((each.schema_id, root, start, len(pieces)))
            most, fields = max(most, len(constants) - size), max(fields, each.fields)
        places.append((int(cuts is not None), first, len(rows)))
    return Tables(
        np.array(places, np.int64),
        np.array(rows, np.int64).reshape(-1, 4),
        np.concatenate(nodes),
        np.concatenate(children),
        np.array(pieces, np.int64).reshape(-1, 3),
        np.frombuffer(bytes(constants), np.uint8),
        np.zeros((2, fields + 1), np.int64),
        most,
    )


@compiled(_INT(_INT, _INT, _INT, _ROWS))
def _row_of(number: int, first: int, stop: int, cuts: Any) -> Any:
    while first < stop:
        middle = (first + stop) // 2
        if cuts[middle, _ID] < number:
            first = middle + 1
        else:
            stop = middle
    return first


@compiled(_INT(BYTES, _INT, _INT, _INTS, _ROWS, NODES, LIST, _INTS))
def cut_of(  # noqa: PLR0917 - compiled without keywords
    data: Any, at: int, size: int, place: Any, cuts: Any, nodes: Any, children: Any, ends: Any
) -> Any:
    """Return the row of `cuts` for what is in `data[at:at + size]`, or `LEFT`, or `FAILS`.

    `ends` is filled with where its fields end. A size of -1: it is null.
    """
    if not place[_IS_CUT] or size < 0:
        return LEFT
    if size < FRAME_BYTES or data[at]:
        return FAILS
    number = np.int64(0)
    for byte in range(1, FRAME_BYTES):
        number = number << 8 | np.int64(data[at + byte])
    row = _row_of(number, place[_FIRST], place[_STOP], cuts)
    if row == place[_STOP] or cuts[row, _ID] != number:
        return FAILS
    begin = at + FRAME_BYTES
    is_record = field_ends(data, begin, at + size, nodes, children, cuts[row, _ROOT], ends)
    return row if is_record else FAILS


@compiled(_INT(_INT, _ROWS, _ROWS, _INTS))
def cut_bytes(row: int, cuts: Any, pieces: Any, ends: Any) -> Any:
    """Return how many bytes a new record has."""
    size = np.int64(0)
    for number in range(cuts[row, _PIECES], cuts[row, _PIECES_END]):
        piece = pieces[number]
        if piece[_IS_CONSTANT]:
            size += piece[_TO] - piece[_FROM]
        else:
            size += ends[piece[_TO] + 1] - ends[piece[_FROM]]
    return size


@compiled(_INT(types.uint8[::1], _INT, BYTES, _INT, _ROWS, _ROWS, BYTES, _INTS))
def write_cut(  # noqa: PLR0917 - compiled without keywords
    out: Any, at: int, data: Any, row: int, cuts: Any, pieces: Any, constants: Any, ends: Any
) -> Any:
    """Write a new record, for which there is room; return where it ends in `out`."""
    for number in range(cuts[row, _PIECES], cuts[row, _PIECES_END]):
        piece = pieces[number]
        if piece[_IS_CONSTANT]:
            size = piece[_TO] - piece[_FROM]
            copy_bytes(out, at, constants, piece[_FROM], size)
        else:
            begin = ends[piece[_FROM]]
            size = ends[piece[_TO] + 1] - begin
            copy_bytes(out, at, data, begin, size)
        at += size
    return at
