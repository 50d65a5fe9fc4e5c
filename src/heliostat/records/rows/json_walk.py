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
def after_space(data: Any, at: int, end: int) -> Any:
    """Return where white space that may begin at `at` ends."""
    while at < end and data[at] <= _SPACE:
        byte = data[at]
        if byte not in (_SPACE, _NEWLINE, _RETURN, _TAB):
            return at
        at += 1
    return at


@compiled(_INT(_INT))
def hex_digit(byte: int) -> Any:
    """Return the value of a hexadecimal digit, or -1."""
    if ZERO <= byte <= NINE:
        return byte - ZERO
    letter = byte | _LOWER
    return letter - 0x61 + 10 if 0x61 <= letter <= _LETTER_F else np.int64(-1)


@compiled(_WHERE)
def _after_escape(data: Any, at: int, end: int) -> Any:
    if end - at < 2:
        return ~end
    kind = data[at + 1]
    if kind == _LETTER_U:
        for place in range(at + 2, min(at + _UNICODE_ESCAPE_BYTES, end)):
            if hex_digit(data[place]) < 0:
                return ~place
        return at + _UNICODE_ESCAPE_BYTES if end - at >= _UNICODE_ESCAPE_BYTES else ~end
    # " \ / b f n r t
    if kind in (0x22, 0x5C, 0x2F, 0x62, 0x66, 0x6E, 0x72, 0x74):
        return at + 2
    return ~(at + 1)


@compiled(_WHERE)
def _after_wide(data: Any, at: int, end: int) -> Any:
    """Return where a character of several bytes ends (RFC 3629: no longer form, no surrogate)."""
    first = data[at]
    low, high, more = 0x80, 0xBF, 1
    if first < 0xC2 or first > 0xF4:
        return ~at
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
    for place in range(at + 1, at + 1 + more):
        if place >= end or not low <= data[place] <= high:
            return ~place
        low, high = 0x80, 0xBF
    return at + 1 + more


@inlined(types.boolean(types.uint64))
def _are_plain(eight: int) -> Any:
    """Return whether eight bytes of a string stand for themselves, as most do: ASCII, no escape."""
    quotes, escapes = eight ^ _EACH * np.uint64(QUOTE), eight ^ _EACH * np.uint64(BACKSLASH)
    # Of bytes in one number: any is 0 (the first two), or below a number (the third).
    found = (quotes - _EACH) & ~quotes | (escapes - _EACH) & ~escapes
    found |= (eight - _EACH * np.uint64(_SPACE)) & ~eight
    return (found | eight) & _TOP_BITS == np.uint64(0)


@inlined(_WHERE)
def after_string(data: Any, at: int, end: int) -> Any:
    """Return where a string ends, behind its quotes."""
    if at >= end or data[at] != QUOTE:
        return ~at
    at += 1
    while at < end:
        while end - at >= 8 and _are_plain(load64(data, at)):
            at += 8
        if at == end:
            break
        byte = data[at]
        if byte == QUOTE:
            return at + 1
        if byte == BACKSLASH:
            at = _after_escape(data, at, end)
        elif byte < _SPACE:
            return ~at
        elif byte < 0x80:
            at += 1
        else:
            at = _after_wide(data, at, end)
        if at < 0:
            return at
    return ~end


@inlined(_WHERE)
def _after_digits(data: Any, at: int, end: int) -> Any:
    if at >= end or not ZERO <= data[at] <= NINE:
        return ~at
    while at < end and ZERO <= data[at] <= NINE:
        at += 1
    return at


@inlined(_WHERE)
def _after_number(data: Any, at: int, end: int) -> Any:
    if data[at] == MINUS:
        at += 1
    if at < end and data[at] == ZERO:
        at += 1
    else:
        at = _after_digits(data, at, end)
    if 0 <= at < end and data[at] == _POINT:
        at = _after_digits(data, at + 1, end)
    if 0 <= at < end and data[at] | _LOWER == _LETTER_E:
        at += 1
        if at < end and (data[at] == _PLUS or data[at] == MINUS):
            at += 1
        at = _after_digits(data, at, end)
    return at


@inlined(_WHERE)
def _after_word(data: Any, at: int, end: int) -> Any:
    first = data[at]
    # rue, alse, ull
    if first == TRUE:
        rest = (0x72, 0x75, 0x65, 0)
    elif first == FALSE:
        rest = (0x61, 0x6C, 0x73, 0x65)
    else:
        rest = (0x75, 0x6C, 0x6C, 0)
    for byte in rest:
        if byte:
            at += 1
            if at >= end or data[at] != byte:
                return ~at
    return at + 1


@inlined(_WHERE)
def after_colon(data: Any, at: int, end: int) -> Any:
    """Return where the value of a member begins whose name ends at `at`, or is damaged there."""
    if at < 0:
        return at
    at = after_space(data, at, end)
    if at >= end or data[at] != COLON:
        return ~at
    return after_space(data, at + 1, end)


@compiled(_INT(BYTES, _INT, _INT, _INT))
def after_value(  # noqa: C901, PLR0911 - one compiled loop
    data: Any, at: int, end: int, depth: int
) -> Any:
    """Return where a value ends; it lies within `depth` others."""
    if at >= end or depth > DEPTH_MAX:
        return ~at
    first = data[at]
    if first == QUOTE:
        return after_string(data, at, end)
    if first == MINUS or ZERO <= first <= NINE:
        return _after_number(data, at, end)
    if first in (TRUE, FALSE, NULL):
        return _after_word(data, at, end)
    if first not in (OBJECT, _ARRAY):
        return ~at
    close = OBJECT_END if first == OBJECT else _ARRAY_END
    at = after_space(data, at + 1, end)
    if at < end and data[at] == close:
        return at + 1
    while True:
        if first == OBJECT:
            at = after_colon(data, after_string(data, at, end), end)
            if at < 0:
                return at
        at = after_value(data, at, end, depth + 1)
        if at < 0:
            return at
        at = after_space(data, at, end)
        if at < end and data[at] == close:
            return at + 1
        if at >= end or data[at] != COMMA:
            return ~at
        at = after_space(data, at + 1, end)


@compiled(_WHERE)
def object_flaw(data: Any, at: int, end: int) -> Any:
    """Return where `data[at:end]` is not what an object alone would be; -1: it is one."""
    at = after_space(data, at, end)
    if at >= end or data[at] != OBJECT:
        return at
    at = after_value(data, at, end, 0)
    if at < 0:
        return ~at
    at = after_space(data, at, end)
    return at if at < end else np.int64(-1)
