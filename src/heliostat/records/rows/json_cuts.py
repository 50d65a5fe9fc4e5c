"""Fields left out, masked and renamed in the bytes of JSON objects, in compiled code.

No value is decoded and encoded again: a new object is runs of the old one and constants, one after
the other. So what is not named keeps its bytes, whatever a library would make of it: numbers of any
size, the order of fields, escapes. Fields are those of the outermost object.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import numpy as np
from numba import types

from heliostat.errors import TransformFailed
from heliostat.ops.compiled import compiled, inlined
from heliostat.records.batches.compiled_bytes import BYTES, copy_bytes
from heliostat.records.rows.json_changes import JsonChanges
from heliostat.records.rows.json_walk import (
    BACKSLASH,
    COMMA,
    FALSE,
    MINUS,
    NINE,
    NULL,
    OBJECT,
    OBJECT_END,
    QUOTE,
    TRUE,
    ZERO,
    after_colon,
    after_space,
    after_string,
    after_value,
    hex_digit,
    object_flaw,
)

LEFT, FAILS, MANY = -1, -2, -3
"""What becomes of contents for which there are no edits: they stay what they are; they can't be
changed; there is no room for so many."""
# Columns of an edit: whether it is a constant, and where it begins and ends: in the constants, or
# in the record's batch.
IS_CONSTANT, FROM, TO, EDIT_COLUMNS = range(4)
# Columns of a rule: where its field's name is, and whether that is left out; where its new name is
# (-1: it keeps the old one), and what that has for a number (-1: no other rule gives it); then what
# is put into strings, numbers, booleans and all else (-1: it stays what it is).
_NAME, _NAME_END, _IS_DROPPED, _NEW, _NEW_END, _GIVEN, _MASKS = range(7)
_RULE_COLUMNS = _MASKS + 8
_STRING, _NUMBER, _BOOLEAN, _OTHER, _NULL = range(5)
_NONE = -1
EDITS_AT_FIRST = 32
_INT = types.int64
_INTS = types.int64[::1]
ROWS = types.int64[:, ::1]


class JsonRules(NamedTuple):
    """The same as the compiled loop takes it."""

    rows: Any
    """int64, a row for each field that is named."""
    constants: bytes
    """What its numbers are places in."""
    grows: int
    """By how much an object can grow in which no name is there twice; bytes."""


def rules_of(changes: JsonChanges, before: int = 0) -> JsonRules:
    """Return the rules of changes; their constants lie behind `before` bytes of others."""
    masks, renames = dict(changes.masks), dict(changes.renames)
    new_names = {name: number for number, name in enumerate(dict.fromkeys(renames.values()))}
    constants, grows = bytearray(), 0
    rows: list[list[int]] = []

    def put(content: bytes) -> tuple[int, int]:
        begin = before + len(constants)
        constants.extend(content)
        return begin, before + len(constants)

    for name in dict.fromkeys([*masks, *renames, *changes.drops, *new_names]):
        new = renames.get(name, name)
        row = [*put(name.encode()), int(new in changes.drops)]
        row += put(_text(new)) if name in renames else (_NONE, _NONE)
        row.append(new_names.get(new, _NONE))
        instead = _masks(masks[name]) if name in masks else ()
        for content in instead:
            row += put(content)
        rows.append([*row, *[_NONE] * (_RULE_COLUMNS - len(row))])
        grows += len(_text(new)) + max(map(len, instead), default=0)
    table = np.array(rows, np.int64).reshape(-1, _RULE_COLUMNS)
    return JsonRules(table, bytes(constants), grows)


def _text(text: str) -> bytes:
    return json.dumps(text, ensure_ascii=False).encode()


def _masks(instead: str | None) -> tuple[bytes, bytes, bytes, bytes]:
    """Return what is put into strings, numbers, booleans, and arrays and objects."""
    if instead is None:
        return b'""', b"0", b"false", b"null"
    text = _text(instead)
    data = np.frombuffer(instead.encode(), np.uint8)
    is_value = bool(len(data)) and after_value(data, 0, len(data), 0) == len(data)
    kind = _kind(data[0]) if is_value else _OTHER
    number = instead.encode() if kind == _NUMBER else text
    return text, number, instead.encode() if kind == _BOOLEAN else text, text


@inlined(_INT(_INT))
def _kind(first: int) -> Any:
    """Return of which kind a value is by its first byte."""
    if first == QUOTE:
        return _STRING
    if first == MINUS or ZERO <= first <= NINE:
        return _NUMBER
    if first in (TRUE, FALSE):
        return _BOOLEAN
    return _NULL if first == NULL else _OTHER


@compiled(types.UniTuple(_INT, 2)(BYTES, _INT))
def _unit(data: Any, position: int) -> Any:
    r"""Return the number of the `\uXXXX` at `position`, and where it ends."""
    number = np.int64(0)
    for place in range(position + 2, position + 6):
        number = number << 4 | hex_digit(data[place])
    return number, position + 6


@compiled(types.UniTuple(_INT, 2)(BYTES, _INT, _INT))
def _escaped(data: Any, position: int, end: int) -> Any:
    """Return the character that an escape in a string of valid JSON is, and where it ends."""
    kind = data[position + 1]
    if kind != 0x75:  # u
        code_point = np.int64(kind)
        for letter, character in ((0x62, 8), (0x66, 12), (0x6E, 10), (0x72, 13), (0x74, 9)):
            if kind == letter:  # b f n r t
                code_point = np.int64(character)
        return code_point, position + 2
    number, position = _unit(data, position)
    is_high = 0xD800 <= number < 0xDC00 and end - position >= 6
    if is_high and data[position] == BACKSLASH and data[position + 1] == 0x75:
        low, after = _unit(data, position)
        if 0xDC00 <= low < 0xE000:
            return 0x10000 + (number - 0xD800 << 10 | low - 0xDC00), after
    return number, position


@compiled(_INT(_INT, _INT, _INT))
def _utf8(character: int, place: int, more: int) -> Any:
    """Return the byte number `place` of a character that has `more` bytes behind its first."""
    if not more:
        return character
    bits = character >> 6 * (more - place)
    if place:
        return 0x80 | bits & 0x3F
    return bits | (0xC0 if more == 1 else 0xE0 if more == 2 else 0xF0)


@inlined(types.boolean(BYTES, _INT, _INT, BYTES, _INT, _INT))
def _is_name(  # noqa: PLR0917 - compiled without keywords
    data: Any, position: int, end: int, names: Any, name: int, name_end: int
) -> Any:
    """Return whether what is between the quotes of a valid string is this name."""
    while position < end and name < name_end:
        if data[position] != BACKSLASH:
            if data[position] != names[name]:
                return False
            position, name = position + 1, name + 1
            continue
        character, position = _escaped(data, position, end)
        more = (character >= 0x80) + (character >= 0x800) + (character >= 0x10000)
        if name_end - name <= more:
            return False
        for place in range(more + 1):
            if _utf8(character, place, more) != names[name + place]:
                return False
        name += more + 1
    return position == end and name == name_end


@inlined(_INT(BYTES, _INT, _INT, ROWS, _INT, _INT, BYTES))
def _rule_of(  # noqa: PLR0917 - compiled without keywords
    data: Any, begin: int, end: int, rules: Any, first: int, stop: int, names: Any
) -> Any:
    """Return the row of the rule for a name without its quotes, or -1."""
    has_escape = False
    for place in range(begin, end):
        has_escape |= data[place] == BACKSLASH
    for row in range(first, stop):
        name, name_end = rules[row, _NAME], rules[row, _NAME_END]
        may_be = has_escape or name_end - name == end - begin
        if may_be and _is_name(data, begin, end, names, name, name_end):
            return row
    return np.int64(_NONE)


@inlined(_INT(ROWS, _INT, _INT, _INT, _INT))
def _put(edits: Any, count: int, is_constant: int, begin: int, end: int) -> Any:
    """Add an edit, for which there is room; return how many there are."""
    if begin == end:
        return count
    edits[count, IS_CONSTANT], edits[count, FROM], edits[count, TO] = is_constant, begin, end
    return count + 1


@inlined(types.UniTuple(_INT, 3)(BYTES, types.UniTuple(_INT, 4), _INT, _INTS, _INT, ROWS))
def _changed_member(  # noqa: PLR0917 - compiled without keywords
    data: Any, places: Any, run: int, rule: Any, count: int, edits: Any
) -> Any:
    """Add the edits of a member that is kept.

    Returns where the run goes on, how many edits there are, and whether it is changed.
    """
    name, name_end, value, value_end = places
    kind, changed = _kind(data[value]), 0
    if rule[_NEW] >= 0:
        count = _put(edits, count, 0, run, name)
        count = _put(edits, count, 1, rule[_NEW], rule[_NEW_END])
        run, changed = name_end, 1
    if rule[_MASKS] >= 0 and kind != _NULL:
        mask = _MASKS + 2 * kind
        count = _put(edits, count, 0, run, value)
        count = _put(edits, count, 1, rule[mask], rule[mask + 1])
        run, changed = value_end, 1
    return run, count, changed


@inlined(types.boolean(_INTS, _INT, _INTS))
def _gives_again(rule: Any, row: int, given: Any) -> Any:
    """Note which rule gave a member its name; return whether another one gave the same."""
    number = rule[_GIVEN]
    if number < 0:
        return False
    before, given[number] = given[number], row
    return before not in (_NONE, row)


@inlined(_INT(BYTES, _INT, _INT, ROWS, _INT, _INT, BYTES, ROWS, _INTS))
def json_edits(  # noqa: C901, PLR0911, PLR0912, PLR0917 - one compiled loop
    data: Any,
    begin: int,
    end: int,
    rules: Any,
    first: int,
    stop: int,
    constants: Any,
    edits: Any,
    given: Any,
) -> Any:
    """Fill `edits` with what the object in `data[begin:end]` becomes by `rules[first:stop]`.

    `given` has room for a number of each new name. Returns how many edits there are, or `LEFT`,
    `FAILS`, `MANY`.
    """
    position = after_space(data, begin, end)
    if position >= end or data[position] != OBJECT:
        return FAILS
    for number in range(len(given)):
        given[number] = _NONE
    # What is copied as a run begins at `run`; -1: a field was left out, and none is kept since.
    run: Any = begin
    comma: Any = np.int64(_NONE)
    count, changed = np.int64(0), np.int64(0)
    position = kept_end = after_space(data, position + 1, end)
    is_first, is_empty = True, position < end and data[position] == OBJECT_END
    while not is_empty:
        name, name_end = position, after_string(data, position, end)
        value = after_colon(data, name_end, end)
        position = value if value < 0 else after_value(data, value, end, 1)
        if position < 0:
            return FAILS
        if count + 5 > len(edits):
            return MANY
        row = _rule_of(data, name + 1, name_end - 1, rules, first, stop, constants)
        if row >= 0 and rules[row, _IS_DROPPED]:
            if run >= 0:
                count = _put(edits, count, 0, run, kept_end)
            run, changed = np.int64(_NONE), np.int64(1)
        else:
            if run < 0:  # with the comma before it, which parts it from the last one
                run = name if is_first else comma
            if row >= 0:
                if _gives_again(rules[row], row, given):
                    return FAILS
                places = (name, name_end, value, position)
                run, count, own = _changed_member(data, places, run, rules[row], count, edits)
                changed |= own
            is_first, kept_end = False, position
        position = after_space(data, position, end)
        if position >= end or (data[position] != COMMA and data[position] != OBJECT_END):
            return FAILS
        if data[position] == OBJECT_END:
            break
        comma, position = position, after_space(data, position + 1, end)
    if after_space(data, position + 1, end) != end:
        return FAILS
    if not changed:
        return LEFT
    return _put(edits, count, 0, position if run < 0 else run, end)


@inlined(_INT(_INT, ROWS))
def edited_bytes(count: int, edits: Any) -> Any:
    """Return how many bytes there are after these edits."""
    size = np.int64(0)
    for number in range(count):
        size += edits[number, TO] - edits[number, FROM]
    return size


@inlined(_INT(types.uint8[::1], _INT, BYTES, _INT, ROWS, BYTES))
def write_edits(  # noqa: PLR0917 - compiled without keywords
    out: Any, position: int, data: Any, count: int, edits: Any, constants: Any
) -> Any:
    """Write what the edits make, for which there is room; return where it ends in `out`."""
    for number in range(count):
        begin = edits[number, FROM]
        size = edits[number, TO] - begin
        if edits[number, IS_CONSTANT]:
            copy_bytes(out, position, constants, begin, size)
        else:
            copy_bytes(out, position, data, begin, size)
        position += size
    return position


class JsonCutter:
    """Changes one object after the other, for rows of Spark."""

    def __init__(self, changes: JsonChanges) -> None:
        self._changes = changes
        rows, constants, _ = rules_of(changes)
        self._rules, self._constants = rows, np.frombuffer(constants, np.uint8)
        self._given = np.empty(len(rows), np.int64)
        self._edits = np.empty((EDITS_AT_FIRST, EDIT_COLUMNS), np.int64)

    def cut(self, content: bytes) -> bytes:
        """Return an object as the changes leave it.

        Raises
        ------
        TransformFailed
            It is no JSON object, or would have two fields of one name.
        """
        data = np.frombuffer(content, np.uint8)
        while True:
            count = json_edits(
                *(data, 0, len(data), self._rules, 0, len(self._rules)),
                *(self._constants, self._edits, self._given),
            )
            if count != MANY:
                break
            self._edits = np.empty((2 * len(self._edits), EDIT_COLUMNS), np.int64)
        if count == FAILS:
            raise TransformFailed(why_not(self._changes, content))
        if count == LEFT:
            return content
        out = np.empty(edited_bytes(count, self._edits), np.uint8)
        write_edits(out, 0, data, count, self._edits, self._constants)
        return out.tobytes()


def check_object(content: bytes) -> None:
    """Check that contents are a JSON object and nothing else.

    Raises
    ------
    TransformFailed
        They are not.
    """
    flaw = object_flaw(np.frombuffer(content, np.uint8), 0, len(content))
    if flaw >= 0:
        raise TransformFailed(flaw_text(flaw))


def flaw_text(flaw: int) -> str:
    """Return why contents are no object, of the byte that can't be there."""
    return f"it is no JSON object: its byte {flaw} can't be there"


def why_not(changes: JsonChanges, content: bytes) -> str:
    """Return why contents can't be changed."""
    flaw = object_flaw(np.frombuffer(content, np.uint8), 0, len(content))
    if flaw >= 0:
        return flaw_text(flaw)
    names = dict(changes.renames)
    given = [names.get(name, name) for name in json.loads(content)]
    twice = next(name for name in given if name in names.values() and given.count(name) > 1)
    return f"two of its fields would have the name {twice}"
