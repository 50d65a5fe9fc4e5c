"""Ids and GUIDs of records, one by one."""

from __future__ import annotations

from uuid import UUID

import pytest

from heliostat.framed_ids import (
    GUID_FRAME_BYTES,
    guid_number,
    headers_without_ids,
    id_in_header,
    ids_of_record,
    shown_id,
)

GUID = UUID("b4cbd4ab-6a26-9c2e-61a1-d8a4c1ea5f8c").bytes
FRAME = b"\0\0\0\0\5"
KEY, VALUE = "__key_schema_id", "__value_schema_id"


@pytest.mark.parametrize("first", [0, 1, 127, 128, 255])
def test_a_guid_is_known_by_a_negative_number_of_64_bits(first: int) -> None:
    for last in (0, 1, 255):
        number = guid_number(bytes([first] * 7 + [last] * 9))
        assert -(2**63) <= number < 0
    assert guid_number(bytes([first] * 7 + [2] * 9)) != guid_number(bytes([first] * 7 + [5] * 9))


def test_people_see_as_much_of_a_guid_as_is_known() -> None:
    assert shown_id(guid_number(GUID)) == "GUID b4cbd4ab-6a26-9c2..."
    assert (shown_id(0), shown_id(7)) == ("0", "7")


@pytest.mark.parametrize(
    ("content", "number"),
    [
        (None, None),
        (b"", None),
        (FRAME, 5),
        (FRAME + b"more", 5),
        (b"\0\x80\0\0\5", None),
        (b"\1" + GUID, guid_number(GUID)),
        (b"\1" + GUID + b"\0", guid_number(GUID)),
        (b"\1" + GUID[1:], None),
        (b"\2" + GUID, None),
    ],
)
def test_a_header_has_an_id_or_a_guid(content: bytes | None, number: int | None) -> None:
    """Given what a header for an id may have / then its id, and none in front of the value."""
    assert id_in_header(content) == number
    in_front = 5 if number is None else None
    found = ids_of_record(FRAME, FRAME, [(VALUE, content), ("h", FRAME)])
    assert found == (5, in_front, () if number is None else (number,))
    found = ids_of_record(FRAME, FRAME, [(KEY, content)])
    assert found == (in_front, 5, () if number is None else (number,))


def test_ids_and_guids_can_be_left_out_of_headers() -> None:
    headers = [(KEY, FRAME + b"x"), (VALUE, b"\1" + GUID + b"x"), (KEY, None), ("h", FRAME)]
    none = bytes(5) + b"x", b"\1" + bytes(GUID_FRAME_BYTES - 1) + b"x"
    shown = ((KEY, none[0]), (VALUE, none[1]), (KEY, None), ("h", FRAME))
    assert headers_without_ids(headers) == shown
