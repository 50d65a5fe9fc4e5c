"""Positions in Connect's offsets topic: exact bytes, and the result of a whole topic."""

from __future__ import annotations

import json

import pytest

from heliostat.mm2.connect_offsets import (
    ConnectOffsetsRecord,
    FlowName,
    Position,
    decode_key,
    encode_key,
    encode_value,
    flows_of,
    offsets_topic,
    positions_of,
)
from heliostat.names import Alias, Offset, PartitionId, TopicName, TopicPartition

FLOW = FlowName("MirrorSourceConnector", Alias("A"))
KEY = b'["MirrorSourceConnector",{"cluster":"A","partition":3,"topic":"orders"}]'
ORDERS = TopicPartition(TopicName("orders"), PartitionId(3))


def stored(offset: int | None, *, key: bytes = KEY, partition: int = 7) -> ConnectOffsetsRecord:
    value = None if offset is None else json.dumps({"offset": offset}).encode()
    return ConnectOffsetsRecord(key, value, partition)


def test_keys_and_values_are_connects_own_bytes() -> None:
    assert encode_key(FLOW, ORDERS) == KEY
    assert decode_key(KEY) == (FLOW, ORDERS)
    assert encode_value(1001) == b'{"offset":1000}'
    assert encode_value(1) == b'{"offset":0}'
    assert encode_value(0) is None  # no offset says "from the beginning", a removed key does
    assert offsets_topic(Alias("A")) == "mm2-offsets.A.internal"


def test_the_last_record_of_a_key_counts_with_the_largest_step_before_it() -> None:
    rows = [stored(10), stored(500), stored(510)]
    assert positions_of(rows, FLOW) == {ORDERS: Position(Offset(510), 7, 490)}
    assert positions_of(rows[:1], FLOW) == {ORDERS: Position(Offset(10), 7, None)}


def test_a_removed_position_is_none_and_starts_over() -> None:
    assert positions_of([stored(10), stored(None)], FLOW) == {}
    assert positions_of([stored(10), stored(None), stored(3)], FLOW) == {
        ORDERS: Position(Offset(3), 7)
    }


def test_of_two_live_values_the_lower_one_counts() -> None:
    rows = [stored(90, partition=2), stored(40, partition=7)]
    assert positions_of(rows, FLOW)[ORDERS].copied == 40
    assert positions_of(rows[::-1], FLOW)[ORDERS].copied == 40


@pytest.mark.parametrize(
    "key",
    [
        b'["MirrorCheckpointConnector",{"partition":3,"topic":"A.orders","group":"g1"}]',
        b'["MirrorHeartbeatConnector",{"sourceClusterAlias":"A","targetClusterAlias":"B"}]',
        b'["MirrorSourceConnector",{"cluster":"C","partition":3,"topic":"orders"}]',
        b'["other",{"cluster":"A","partition":3,"topic":"orders"}]',
        b'["jdbc",null]',
        b"[]",
        b"\xff",
        b"",
    ],
)
def test_keys_of_other_connectors_and_flows_are_ignored(key: bytes) -> None:
    assert positions_of([stored(5, key=key)], FLOW) == {}


@pytest.mark.parametrize("value", [b"", b"7", b'{"offset":"7"}', b'{"offset":-1}', b"null"])
def test_values_without_an_offset_count_as_none(value: bytes) -> None:
    assert positions_of([ConnectOffsetsRecord(KEY, value, 0)], FLOW) == {}


def test_flows_are_named() -> None:
    other = b'["copy",{"cluster":"east","partition":0,"topic":"t"}]'
    assert flows_of([stored(5), stored(5, key=other), stored(1, key=b"x")]) == {
        FLOW,
        FlowName("copy", Alias("east")),
    }
