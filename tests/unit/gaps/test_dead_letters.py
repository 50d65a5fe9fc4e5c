"""A dead letter holds all of its record, whatever is null in it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as some

from heliostat.clusters.kafka_codes import MESSAGE_TOO_LARGE
from heliostat.clusters.plain_records import PlainRecord
from heliostat.errors import BrokerError, ProtocolError
from heliostat.gaps.choices import Cause
from heliostat.gaps.dead_letters import DeadLetter, DeadLetters
from heliostat.names import LinkName, Offset, PartitionId, TopicName, TopicPartition
from heliostat.records.batches.encode import decode_batches

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
    source_id=some.sampled_from(["", "0d6f"]),
)
def test_it_is_the_same_when_read(
    key: bytes | None,
    value: bytes | None,
    headers: list[tuple[str, bytes | None]],
    *,
    is_batch: bool,
    source_id: str,
) -> None:
    fields = {"is_batch": is_batch, "source_id": source_id}
    letter = replace(LETTER, key=key, value=value, headers=tuple(headers), **fields)
    record = stored(letter)
    assert record.value is not None  # null means that it was dropped
    assert record.key == (b"orders/3/7/0d6f" if source_id else b"orders/3/7")
    assert DeadLetter.from_record(record) == letter


@pytest.mark.parametrize(
    "headers", [(), (("a", b"1"),), (("heliostat.dead-letter", b"{}"),)], ids=str
)
def test_a_record_of_others_is_none(headers: tuple[tuple[str, bytes | None], ...]) -> None:
    with pytest.raises(ProtocolError):
        DeadLetter.from_record(stored(LETTER)._replace(headers=headers))


def test_a_letter_of_an_earlier_version_has_no_topic_id() -> None:
    """Given a letter that was written before letters had ids / then it is read, under its key."""
    record = stored(LETTER)
    (*_, (name, about)) = record.headers
    assert about is not None
    earlier = about.replace(b'"topic_id": "", ', b"")
    assert earlier != about
    letter = DeadLetter.from_record(
        record._replace(headers=(*record.headers[:-1], (name, earlier)))
    )
    assert letter == LETTER
    assert letter.name.encode() == record.key  # so that it can be dropped


def test_several_letters_are_all_written_and_one_that_is_too_large_as_well() -> None:
    """Given letters of records in a row / when one is too large / then there is room, and all are

    durable. Those of a topic that was recreated have keys of their own.
    """
    admin: Any = Mock()
    admin.describe_topics.return_value = {"heliostat.l.dead-letters": Mock(error=None)}
    admin.alter_configs.side_effect = dict.fromkeys
    keys: list[bytes | None] = []
    refused = [2]

    def append(batches: dict[TopicPartition, bytes]) -> dict[TopicPartition, Any]:
        ((at, batch),) = batches.items()
        ((_, _, key, _),) = decode_batches(batch)
        if len(keys) in refused:
            refused.clear()
            return {at: BrokerError("too large", kafka_code=MESSAGE_TOO_LARGE)}
        keys.append(key)
        return {at: 0}

    admin.append.side_effect = append
    letters = [replace(LETTER, source_id="a"), replace(LETTER, source_id="b"), LETTER]
    letters.append(replace(LETTER, offset=Offset(8)))
    DeadLetters(LinkName("l"), Mock()).put(letters, admin)
    assert keys == [b"orders/3/7/a", b"orders/3/7/b", b"orders/3/7", b"orders/3/8"]
