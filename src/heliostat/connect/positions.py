"""Offsets of connectors: what was copied, as MirrorMaker 2 stores it, and changes of them; pure.

A mirror's position is where its log ends, not a number that can be set back: that is refused, as
records would be copied twice. Forwards, a gap is recorded (`operate.skip`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from heliostat.names import Offset, PartitionId, TopicName, TopicPartition
from heliostat.status.values import PartitionStatus

OFFSET_MAX = 2**63 - 1
TOPIC, PARTITION, CLUSTER, OFFSET = "topic", "partition", "cluster", "offset"


class OffsetsRefused(Exception):
    """What can't be done with offsets, in words."""


def offsets_of(alias: str, partitions: Iterable[PartitionStatus]) -> list[dict[str, Any]]:
    """Return the offset of the last record copied of each partition of which any was.

    Parameters
    ----------
    alias
        What the connector calls its source.
    """
    return [
        {
            "partition": {CLUSTER: alias, PARTITION: row.partition, TOPIC: row.source},
            "offset": {OFFSET: row.position - 1},
        }
        for row in partitions
        if row.position > 0
    ]


def change_of(
    wanted: Iterable[Mapping[str, Any]], partitions: Iterable[PartitionStatus]
) -> dict[TopicPartition, Offset]:
    """Return by source partition the offset to copy next, where it is to go forwards.

    Raises
    ------
    OffsetsRefused
        With the first entry that can't be read, or that would have records copied twice.
    """
    rows = {(row.source, row.partition): row for row in partitions}
    forwards: dict[TopicPartition, Offset] = {}
    for entry in wanted:
        partition, offset = entry.get("partition"), entry.get("offset")
        if not isinstance(partition, Mapping):
            raise OffsetsRefused("Source partition may not be null")
        topic, number = _place(partition)
        row = rows.get((topic, number))
        position = 0 if row is None else max(0, row.position)
        following = _following(f"{topic}-{number}", position, offset)
        if following > position:
            forwards[TopicPartition(TopicName(topic), PartitionId(number))] = Offset(following)
    return forwards


def check_reset(partitions: Iterable[PartitionStatus]) -> None:
    """Refuse to forget positions unless nothing was copied.

    Raises
    ------
    OffsetsRefused
        Something was.
    """
    full = [row for row in partitions if row.position > 0]
    if full:
        raise OffsetsRefused(
            f"{len(full)} mirrors hold records, {full[0].source}-{full[0].partition} among them: "
            "copied anew they would hold them twice; delete these topics at the target, or give "
            "the connector another source.cluster.alias or replication.policy.separator"
        )


def _place(partition: Mapping[str, Any]) -> tuple[str, int]:
    shown = "{" + ", ".join(f"{name}={value}" for name, value in sorted(partition.items())) + "}"
    for name in (CLUSTER, TOPIC, PARTITION):
        if partition.get(name) is None:
            raise OffsetsRefused(
                f"Source partition {shown} is missing the '{name}' key, which is required"
            )
    number = partition[PARTITION]
    if isinstance(number, bool) or not isinstance(number, int):
        raise OffsetsRefused(
            f"Source partition {shown} has an invalid value {number} for the '{PARTITION}' key, "
            "which must be an integer"
        )
    if number < 0:
        raise OffsetsRefused(
            f"Source partition {shown} has an invalid value {number} for the '{PARTITION}' key, "
            "which cannot be negative"
        )
    return str(partition[TOPIC]), number


def _following(place: str, position: int, offset: Any) -> int:
    """Return the offset after a wished one, which is not before the position; None: forget it."""
    if offset is None:
        if position:
            raise OffsetsRefused(
                f"{place}: its mirror holds records, so its position can't be forgotten: delete "
                "the topic at the target first"
            )
        return position
    value = offset.get(OFFSET) if isinstance(offset, Mapping) else None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < OFFSET_MAX:
        raise OffsetsRefused(
            f"{place}: the offset must be an object with an integer 'offset' that is not negative"
        )
    if value + 1 < position:
        raise OffsetsRefused(
            f"OFFSETS_GO_BACK: {place} was copied up to offset {position - 1}: its mirror would "
            "hold records twice; delete the topic at the target, so that it is copied again"
        )
    return value + 1
