"""A dead letter holds all of its record, whatever is null in it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as some

from heliostat.clusters.plain_records import PlainRecord
from heliostat.errors import ProtocolError
from heliostat.gaps.choices import Cause
from heliostat.gaps.dead_letters import DeadLetter
from heliostat.names import Offset, PartitionId, TopicName, TopicPartition

P = TopicPartition(TopicName("orders"), PartitionId(3))
LETTER = DeadLetter(
    source=P,
    offset=Offset(7),
    last=Offset(7),
    is_batch=False,
    timestamp_ms=5,
    key=b"k",
    value=b"v",
    headers=(("a", b"1"),),
    cause=Cause.RECORD_FAILED,
    reason="no number",
    mirror=TopicName("orders"),
    decided_by="policy",
    at_ms=9,
)
BYTES = some.none() | some.binary(max_size=5)


def stored(letter: DeadLetter) -> PlainRecord:
    record = letter.to_record()
    return PlainRecord(0, record.timestamp_ms, record.key, record.value, tuple(record.headers))


@given(
    key=BYTES,
    value=BYTES,
    headers=some.lists(some.tuples(some.text(max_size=3), BYTES), max_size=3),
    is_batch=some.booleans(),
)
def test_it_is_the_same_when_read(
    key: bytes | None,
    value: bytes | None,
    headers: list[tuple[str, bytes | None]],
    *,
    is_batch: bool,
) -> None:
    letter = replace(LETTER, key=key, value=value, headers=tuple(headers), is_batch=is_batch)
    record = stored(letter)
    assert record.value is not None  # null means that it was dropped
    assert record.key == b"orders/3/7"
    assert DeadLetter.from_record(record) == letter


@pytest.mark.parametrize(
    "headers", [(), (("a", b"1"),), (("heliostat.dead-letter", b"{}"),)], ids=str
)
def test_a_record_of_others_is_none(headers: tuple[tuple[str, bytes | None], ...]) -> None:
    with pytest.raises(ProtocolError):
        DeadLetter.from_record(stored(LETTER)._replace(headers=headers))
