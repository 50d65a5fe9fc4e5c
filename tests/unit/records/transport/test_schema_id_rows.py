"""Announcements of schema ids, written and read back."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from heliostat.records.copier.lane import NO_IDS, SchemaIds
from heliostat.records.transport.schema_id_rows import (
    encode_schema_ids,
    ranges_of,
    schema_ids_in,
)

IDS = st.frozensets(st.integers(0, 2**31 - 1) | st.integers(0, 40), max_size=60)


@given(IDS, IDS)
def test_ids_come_back_as_they_were(readable: frozenset[int], foreign: frozenset[int]) -> None:
    ids = SchemaIds(ranges_of(readable), ranges_of(foreign))
    told = json.loads(json.dumps(encode_schema_ids("here", ids)))
    assert schema_ids_in(told, "here") == ids
    found = schema_ids_in(told, "here")
    assert {n for a, b in found.readable for n in range(a, b + 1)} == readable


def test_ids_of_other_registries_are_none() -> None:
    told = encode_schema_ids("there", SchemaIds(((1, 5),)))
    assert schema_ids_in(told, "here") == NO_IDS


def test_ids_in_a_row_are_one_range() -> None:
    assert ranges_of([3, 1, 2, 9, 3]) == ((1, 3), (9, 9))
    told = encode_schema_ids("r", SchemaIds(ranges_of(range(1, 10_001))))
    assert told["readable"] == [1, 10_000]
