"""Reports backlogs of which the target's brokers would not detect duplicates; reads only.

A broker forgets a producer `producer.id.expiration.ms` after the timestamps of its last records
(class `ProducerStateManager`): it checks no sequence of older ones (I4).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from heliostat.clusters.admin import EARLIEST, LATEST, NO_OFFSET, ClusterAdmin
from heliostat.clusters.retention import readable_ms
from heliostat.errors import BrokerError
from heliostat.names import Offset, PartitionId, TopicPartition
from heliostat.ops.asked import asked_at_once
from heliostat.topics.topic_plan import Mirror

EXPIRATION_KEY = "producer.id.expiration.ms"
EXPIRATION_DEFAULT_MS = 86_400_000
"""Kafka's own default."""
NAMED_MAX = 3
"""How many partitions a note names."""


def producer_expiration_ms(target: ClusterAdmin) -> int:
    """How long the target's brokers remember a producer (I4); the default if it can't be read."""
    try:
        entry = target.describe_broker_configs().get(EXPIRATION_KEY)
    except BrokerError:
        entry = None
    value = entry.value if entry is not None else None
    return int(value or EXPIRATION_DEFAULT_MS)


FIRST_RECORD = 0
"""A timestamp (ms since the epoch): ListOffsets finds the first record with a timestamp by it."""


PositionAt = Callable[[Mirror, PartitionId, Offset], Offset | None]
"""Source offset to copy next, by a mirror's partition and log end; None if it is not known."""


def old_backlog_note(
    mirrors: Iterable[Mirror],
    source: ClusterAdmin,
    target: ClusterAdmin,
    now_ms: int,
    position_at: PositionAt,
) -> str | None:
    """Return a note on records still to be copied and older than brokers remember; or None.

    Asks the leaders of both sides once, and the source's again only for partitions with lag.
    """
    mirrors = tuple(mirrors)
    asks: dict[str, Callable[[], Any]] = {
        "positions": partial(_positions, mirrors, target),
        "expiration": partial(producer_expiration_ms, target),
    }
    (positions, starts), expiration_ms = asked_at_once(asks).values()
    begun = set(positions)
    begins, latest = asked_at_once(
        {
            "begins": partial(_offsets, source, starts),
            "ends": partial(_offsets, source, dict.fromkeys([*positions, *starts], LATEST)),
        }
    ).values()
    # Else it has no record from there on.
    positions |= {partition: offset for partition, offset in begins.items() if offset != NO_OFFSET}
    _look_at_maps(positions, begun, latest, mirrors, position_at)
    behind = [p for p, end in latest.items() if p in positions and positions[p] < end]
    # Before a compacted log's first record there is nothing, young or old.
    compacted = {mirror.source for mirror in mirrors if mirror.is_compacted}
    young, firsts = asked_at_once(
        {
            "young": partial(_offsets, source, dict.fromkeys(behind, now_ms - expiration_ms)),
            "firsts": partial(
                _offsets, source, {p: FIRST_RECORD for p in behind if p.topic in compacted}
            ),
        }
    ).values()
    old = {
        partition: (latest[partition] if first == NO_OFFSET else first)
        - max(positions[partition], firsts.get(partition, Offset(0)))
        for partition, first in young.items()
        if firsts.get(partition) != NO_OFFSET
    }
    old = {partition: records for partition, records in old.items() if records > 0}
    if not old:
        return None
    named = ", ".join(str(partition) for partition in sorted(old)[:NAMED_MAX])
    more = f" and {len(old) - NAMED_MAX} more" if len(old) > NAMED_MAX else ""
    return (
        f"{sum(old.values())} records of {named}{more} are still to be copied and older than the "
        f"target's {EXPIRATION_KEY}={expiration_ms} ({readable_ms(expiration_ms)}): the brokers' "
        "check for duplicates does not cover them; that none is copied twice depends on the link "
        "having one owner, and on reading the target's end before anything is sent again"
    )


def _look_at_maps(
    positions: dict[TopicPartition, Offset],
    begun: Collection[TopicPartition],
    latest: Mapping[TopicPartition, Offset],
    mirrors: Sequence[Mirror],
    position_at: PositionAt,
) -> None:
    """Correct positions of mirrors that end before their source: they may lack only holes."""
    by_source = {mirror.source: mirror for mirror in mirrors}
    for partition in begun:
        end = positions[partition]
        if end < latest.get(partition, end):
            position = position_at(by_source[partition.topic], partition.partition, end)
            if position is None:
                del positions[partition]  # it is stopped, which is reported elsewhere
            else:
                positions[partition] = position


def _positions(
    mirrors: Iterable[Mirror], target: ClusterAdmin
) -> tuple[dict[TopicPartition, Offset], dict[TopicPartition, int]]:
    """Source offsets to copy next; and timestamps to ask the source if nothing is copied yet."""
    ends = target.list_log_ends(
        mirror.mirror_of(PartitionId(number))
        for mirror in mirrors
        for number in range(mirror.partitions)
    )
    positions: dict[TopicPartition, Offset] = {}
    starts: dict[TopicPartition, int] = {}
    for mirror in mirrors:
        for number in range(mirror.partitions):
            partition = TopicPartition(mirror.source, PartitionId(number))
            end = ends[mirror.mirror_of(PartitionId(number))]
            if not isinstance(end, BrokerError) and end > 0:
                positions[partition] = end
            elif number in mirror.given:
                positions[partition] = mirror.given[PartitionId(number)]
            elif number >= mirror.initial_partitions or mirror.start == "earliest":
                # A compacted log's first record may be far after the log's start.
                starts[partition] = FIRST_RECORD if mirror.is_compacted else EARLIEST
            elif mirror.start != "latest":
                starts[partition] = int(mirror.start)
    return positions, starts


def _offsets(
    source: ClusterAdmin, asked: Mapping[TopicPartition, int]
) -> dict[TopicPartition, Offset]:
    """Offsets from the leaders; why a partition has none is reported elsewhere."""
    if not asked:
        return {}
    answers = source.list_offsets(asked)
    return {p: a.offset for p, a in answers.items() if not isinstance(a, BrokerError)}
