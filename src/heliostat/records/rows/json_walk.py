"""Where the parts of a JSON text lie in its bytes: a walk compiled by Numba.

It takes what RFC 8259 calls JSON, in UTF-8 and without a byte order mark, and nothing else: what
one reader takes for a field and another does not must not get past a step that hides it. Each
function returns where its part ends, or `~n`, a negative number: at byte n there is something else.

Rules as in `batches.reencode`: an index is compared with the end of the data before it is used.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from heliostat.ops.compiled import compiled, inlined
from heliostat.records.batches.compiled_bytes import BYTES, load64

DEPTH_MAX = 200
"""Arrays and objects within each other: bytes can claim any number, and each takes a frame of the
stack."""
QUOTE, BACKSLASH, COMMA, COLON = map(ord, '"\\,:')
OBJECT, OBJECT_END, _ARRAY, _ARRAY_END = map(ord, "{}[]")
ZERO, NINE, MINUS = map(ord, "09-")
TRUE, FALSE, NULL = map(ord, "tfn")
"""What the words begin with."""
_PLUS, _POINT, _LETTER_U, _LETTER_E, _LETTER_F = map(ord, "+.uef")
_LOWER = 0x20
"""Bit by which a small letter differs from a capital one."""
_TAB, _NEWLINE, _RETURN, _SPACE = map(ord, "\t\n\r ")
_UNICODE_ESCAPE_BYTES = 6
_EACH, _TOP_BITS = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)
_INT = types.int64
_WHERE = _INT(BYTES, _INT, _INT)


@inlined(_WHERE)
def after_space(data: Any, position: int, end: int) -> Any:
    """Return where white space that may begin at `position` ends."""
    while position < end and data[position] <= _SPACE:
        byte = data[position]
        if byte not in (_SPACE, _NEWLINE, _RETURN, _TAB):
            return position
        position += 1
    return position


@compiled(_INT(_INT))
def hex_digit(byte: int) -> Any:
    """Return the value of a hexadecimal digit, or -1."""
    if ZERO <= byte <= NINE:
        return byte - ZERO
    letter = byte | _LOWER
    return letter - 0x61 + 10 if 0x61 <= letter <= _LETTER_F else np.int64(-1)


@compiled(_WHERE)
def _after_escape(data: Any, position: int, end: int) -> Any:
    if end - position < 2:
        return ~end
    kind = data[position + 1]
    if kind == _LETTER_U:
        for place in range(position + 2, min(position + _UNICODE_ESCAPE_BYTES, end)):
            if hex_digit(data[place]) < 0:
                return ~place
        return position + _UNICODE_ESCAPE_BYTES if end - position >= _UNICODE_ESCAPE_BYTES else ~end
    # " \ / b f n r t
    if kind in (0x22, 0x5C, 0x2F, 0x62, 0x66, 0x6E, 0x72, 0x74):
        return position + 2
    return ~(position + 1)


@compiled(_WHERE)
def _after_wide(data: Any, position: int, end: int) -> Any:
    """Return where a character of several bytes ends (RFC 3629: no longer form, no surrogate)."""
    first = data[position]
    low, high, more = 0x80, 0xBF, 1
    if first < 0xC2 or first > 0xF4:
        return ~position
    if first >= 0xF0:
        more = 3
        if first == 0xF0:
            low = 0x90
        elif first == 0xF4:
            high = 0x8F
    elif first >= 0xE0:
        more = 2
        if first == 0xE0:
            low = 0xA0
        elif first == 0xED:
            high = 0x9F
    for place in range(position + 1, position + 1 + more):
        if place >= end or not low <= data[place] <= high:
            return ~place
        low, high = 0x80, 0xBF
    return position + 1 + more


@inlined(types.boolean(types.uint64))
def _are_plain(eight: int) -> Any:
    """Return whether eight bytes of a string stand for themselves, as most do: ASCII, no escape."""
    quotes, escapes = eight ^ _EACH * np.uint64(QUOTE), eight ^ _EACH * np.uint64(BACKSLASH)
    # Of bytes in one number: any is 0 (the first two), or below a number (the third).
    marks = (quotes - _EACH) & ~quotes | (escapes - _EACH) & ~escapes
    marks |= (eight - _EACH * np.uint64(_SPACE)) & ~eight
    return (marks | eight) & _TOP_BITS == np.uint64(0)


@inlined(_WHERE)
def after_string(data: Any, position: int, end: int) -> Any:
    """Return where a string ends, behind its quotes."""
    if position >= end or data[position] != QUOTE:
        return ~position
    position += 1
    while position < end:
        while end - position >= 8 and _are_plain(load64(data, position)):
            position += 8
        if position == end:
            break
        byte = data[position]
        if byte == QUOTE:
            return position + 1
        if byte == BACKSLASH:
            position = _after_escape(data, position, end)
        elif byte < _SPACE:
            return ~position
        elif byte < 0x80:
            position += 1
        else:
            position = _after_wide(data, position, end)
        if position < 0:
            return position
    return ~end


@inlined(_WHERE)
def _after_digits(data: Any, position: int, end: int) -> Any:
    if position >= end or not ZERO <= data[position] <= NINE:
        return ~position
    while position < end and ZERO <= data[position] <= NINE:
        position += 1
    return position


@inlined(_WHERE)
def _after_number(data: Any, position: int, end: int) -> Any:
    if data[position] == MINUS:
        position += 1
    if position < end and data[position] == ZERO:
        position += 1
    else:
        position = _after_digits(data, position, end)
    if 0 <= position < end and data[position] == _POINT:
        position = _after_digits(data, position + 1, end)
    if 0 <= position < end and data[position] | _LOWER == _LETTER_E:
        position += 1
        if position < end and (data[position] == _PLUS or data[position] == MINUS):
            position += 1
        position = _after_digits(data, position, end)
    return position


@inlined(_WHERE)
def _after_word(data: Any, position: int, end: int) -> Any:
    first = data[position]
    # rue, alse, ull
    if first == TRUE:
        rest = (0x72, 0x75, 0x65, 0)
    elif first == FALSE:
        rest = (0x61, 0x6C, 0x73, 0x65)
    else:
        rest = (0x75, 0x6C, 0x6C, 0)
    for byte in rest:
        if byte:
            position += 1
            if position >= end or data[position] != byte:
                return ~position
    return position + 1


@inlined(_WHERE)
def after_colon(data: Any, position: int, end: int) -> Any:
    """Return where a member's value begins whose name ends at `position`, or is damaged there."""
    if position < 0:
        return position
    position = after_space(data, position, end)
    if position >= end or data[position] != COLON:
        return ~position
    return after_space(data, position + 1, end)


@compiled(_INT(BYTES, _INT, _INT, _INT))
def after_value(  # noqa: C901, PLR0911 - one compiled loop
    data: Any, position: int, end: int, depth: int
) -> Any:
    """Return where a value ends; it lies within `depth` others."""
    if position >= end or depth > DEPTH_MAX:
        return ~position
    first = data[position]
    if first == QUOTE:
        return after_string(data, position, end)
    if first == MINUS or ZERO <= first <= NINE:
        return _after_number(data, position, end)
    if first in (TRUE, FALSE, NULL):
        return _after_word(data, position, end)
    if first not in (OBJECT, _ARRAY):
        return ~position
    close = OBJECT_END if first == OBJECT else _ARRAY_END
    position = after_space(data, position + 1, end)
    if position < end and data[position] == close:
        return position + 1
    while True:
        if first == OBJECT:
            position = after_colon(data, after_string(data, position, end), end)
            if position < 0:
                return position
        position = after_value(data, position, end, depth + 1)
        if position < 0:
            return position
        position = after_space(data, position, end)
        if position < end and data[position] == close:
            return position + 1
        if position >= end or data[position] != COMMA:
            return ~position
        position = after_space(data, position + 1, end)


@compiled(_WHERE)
def object_flaw(data: Any, position: int, end: int) -> Any:
    """Return where `data[position:end]` is not what an object alone would be; -1: it is one."""
    position = after_space(data, position, end)
    if position >= end or data[position] != OBJECT:
        return position
    position = after_value(data, position, end, 0)
    if position < 0:
        return ~position
    position = after_space(data, position, end)
    return position if position < end else np.int64(-1)
