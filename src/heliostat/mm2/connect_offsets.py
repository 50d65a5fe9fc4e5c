"""Positions of a MirrorMaker 2 in its Connect offsets topic, byte for byte.

Connect stores them schemaless (`OffsetStorageWriter`, `JsonConverter`): the key is a list of the
connector's name and the source partition, the value the offset of the last record that was copied
and acknowledged; copying continues after it. Connect looks a key up by its bytes, so the order of
the fields is part of the format (`MirrorUtils.wrapPartition`, order of a Java HashMap).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from heliostat.names import Alias, Offset, PartitionId, TopicName, TopicPartition

CONNECTOR = "MirrorSourceConnector"
"""The connector's name in dedicated mode, which is that of its class."""


@dataclass(frozen=True, slots=True)
class ConnectOffsetsRecord:
    """One record of the offsets topic.

    Parameters
    ----------
    partition
        Partition of the offsets topic. Connect would also read a live value of the same key in
        another partition, in no certain order.
    """

    key: bytes
    value: bytes | None
    partition: int


@dataclass(frozen=True, slots=True)
class Position:
    """Position that MirrorMaker 2 has committed for one source partition."""

    copied: Offset
    """The last source offset that it knows to be at the target."""
    partition: int
    """Partition of the offsets topic."""
    step: int | None = None
    """Largest number of offsets between two commits that the topic still has; None if only one."""


@dataclass(frozen=True, slots=True)
class FlowName:
    """What identifies a flow's positions: the connector's name, and its alias of the source."""

    connector: str
    alias: Alias


def offsets_topic(alias: Alias) -> TopicName:
    """Return the offsets topic of a source in dedicated mode; it is on the target."""
    return TopicName(f"mm2-offsets.{alias}.internal")


def encode_key(flow: FlowName, source: TopicPartition) -> bytes:
    """Return the key of a partition's position."""
    where = {"cluster": flow.alias, "partition": source.partition, "topic": source.topic}
    return json.dumps([flow.connector, where], separators=(",", ":"), ensure_ascii=False).encode()


def encode_value(next_offset: int) -> bytes | None:
    """Return the value with which copying continues at an offset; None, a tombstone, for 0."""
    if next_offset == 0:
        return None
    return json.dumps({"offset": next_offset - 1}, separators=(",", ":")).encode()


def decode_key(key: bytes | None) -> tuple[FlowName, TopicPartition] | None:
    """Return flow and partition that a key names; None for keys of other kinds of connectors."""
    try:
        connector, where = json.loads(key or b"")
        source = TopicPartition(TopicName(where["topic"]), PartitionId(where["partition"]))
        flow_partition = FlowName(connector, Alias(where["cluster"])), source
    except (ValueError, TypeError, KeyError):
        return None
    fits = isinstance(source.topic, str) and isinstance(source.partition, int)
    return flow_partition if fits and isinstance(connector, str) else None


def positions_of(
    rows: Iterable[ConnectOffsetsRecord], flow: FlowName
) -> dict[TopicPartition, Position]:
    """Return the positions of one flow.

    Of two live values for one source partition the lower counts: copying would begin there in the
    worst case, and records above it are found by content.

    Parameters
    ----------
    rows
        All records of the offsets topic, each partition in order.
    flow
        The flow.
    """
    latest: dict[tuple[TopicPartition, int], Position | None] = {}
    for row in rows:
        named = decode_key(row.key)
        if named is not None and named[0] == flow:
            where = named[1], row.partition
            latest[where] = _following(latest.get(where), _offset(row.value), row.partition)
    positions: dict[TopicPartition, Position] = {}
    for (source, _), position in sorted(latest.items(), key=lambda item: item[0]):
        if position is not None:
            former = positions.get(source)
            if former is None or position.copied < former.copied:
                positions[source] = position
    return positions


def _following(before: Position | None, copied: Offset | None, partition: int) -> Position | None:
    if copied is None:
        return None
    if before is None:
        return Position(copied, partition)
    return Position(copied, partition, max(before.step or 0, abs(copied - before.copied)))


def flows_of(rows: Iterable[ConnectOffsetsRecord]) -> frozenset[FlowName]:
    """Return all flows that have positions, for the message that one has none."""
    named = (decode_key(row.key) for row in rows)
    return frozenset(pair[0] for pair in named if pair is not None)


def _offset(value: bytes | None) -> Offset | None:
    if value is None:
        return None
    try:
        offset = json.loads(value)["offset"]
    except (ValueError, TypeError, KeyError):
        return None
    return Offset(offset) if isinstance(offset, int) and offset >= 0 else None
