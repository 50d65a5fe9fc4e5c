"""Announcements of schema ids, written and read back."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from heliostat.framed_ids import guid_number
from heliostat.records.copier.lane import NO_IDS, SchemaIds
from heliostat.records.transport.schema_id_rows import (
    encode_schema_ids,
    ranges_of,
    schema_ids_in,
    schema_ids_of,
)

IDS = st.frozensets(st.integers(0, 2**31 - 1) | st.integers(0, 40), max_size=60)


@given(IDS, IDS)
def test_ids_come_back_as_they_were(readable: frozenset[int], foreign: frozenset[int]) -> None:
    ids = SchemaIds(ranges_of(readable), ranges_of(foreign))
    told = json.loads(json.dumps(encode_schema_ids("here", ids)))
    assert schema_ids_in(told, "here") == ids
    found = schema_ids_in(told, "here")
    assert {n for a, b in found.readable for n in range(a, b + 1)} == readable


@given(
    st.dictionaries(st.integers(0, 40) | st.integers(0, 2**31 - 1), st.integers(0, 60), max_size=60)
)
def test_ids_of_the_target_come_back_with_them(ids: dict[int, int]) -> None:
    told = json.loads(json.dumps(encode_schema_ids("here", schema_ids_of(ids.items(), [7, 8]))))
    found = schema_ids_in(told, "here")
    shifts = found.shifts or (0,) * len(found.readable)
    moved = zip(found.readable, shifts, strict=True)
    assert {n: n + shift for (a, b), shift in moved for n in range(a, b + 1)} == ids
    assert found.foreign == ((7, 8),)


def test_guids_come_back_by_what_they_are_known_by() -> None:
    """Given GUIDs, of which some are others at the target / then those are told as well."""
    same, moved, new = bytes(range(16)), b"\xff" * 16, b"new one of 16 by"
    foreign = [guid_number(b"\7" * 16), 8]
    ids = schema_ids_of([(1, 1)], foreign, [(moved, new), (same, same)])
    told = json.loads(json.dumps(encode_schema_ids("here", ids)))
    assert schema_ids_in(told, "here") == ids
    numbers = sorted((guid_number(moved), guid_number(same)))
    assert ids.readable == (*((each, each) for each in numbers), (1, 1))
    shifts = {guid_number(moved): -guid_number(moved), guid_number(same): 0}
    assert ids.shifts == (*(shifts[each] for each in numbers), 0)
    assert ids.guids == (new,)
    assert ids.foreign == tuple((each, each) for each in sorted(foreign))
    assert schema_ids_of([(1, 1)], (), [(same, same)]).shifts == ()


def test_ids_that_are_the_same_at_the_target_need_no_shifts() -> None:
    assert schema_ids_of([(1, 1), (2, 2)], ()) == SchemaIds(((1, 2),))
    mixed = schema_ids_of([(1, 1), (2, 2), (3, 7), (4, 8), (6, 10)], ())
    assert mixed == SchemaIds(((1, 2), (3, 4), (6, 6)), (), (0, 4, 4))


def test_an_announcement_without_shifts_is_of_ids_that_stay() -> None:
    """Given what a driver of an earlier version has written / then its ids are the target's."""
    told = encode_schema_ids("here", SchemaIds(((1, 5),)))
    del told["shifts"]
    assert schema_ids_in(told, "here") == SchemaIds(((1, 5),))


def test_ids_of_other_registries_are_none() -> None:
    told = encode_schema_ids("there", SchemaIds(((1, 5),)))
    assert schema_ids_in(told, "here") == NO_IDS


def test_ids_in_a_row_are_one_range() -> None:
    assert ranges_of([3, 1, 2, 9, 3]) == ((1, 3), (9, 9))
    told = encode_schema_ids("r", SchemaIds(ranges_of(range(1, 10_001))))
    assert told["readable"] == [1, 10_000]
