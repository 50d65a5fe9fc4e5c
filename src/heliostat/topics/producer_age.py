"""Where the target's brokers would not notice a record sent twice, said by name; reads only.

A broker forgets a producer `producer.id.expiration.ms` after the timestamps of its last records
(class `ProducerStateManager`): of older ones it checks no sequence (I4).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from heliostat.clusters.admin import EARLIEST, LATEST, NO_OFFSET, ClusterAdmin
from heliostat.clusters.retention import readable_ms
from heliostat.errors import BrokerError
from heliostat.names import Offset, PartitionId, TopicPartition
from heliostat.topics.topic_plan import Mirror

EXPIRATION_KEY = "producer.id.expiration.ms"
EXPIRATION_DEFAULT_MS = 86_400_000
"""Kafka's own default."""
NAMED_MAX = 3
"""A note names so many partitions."""


def producer_expiration_ms(target: ClusterAdmin) -> int:
    """How long the target's brokers remember a producer (I4); the default where it is hidden."""
    try:
        entry = target.describe_broker_configs().get(EXPIRATION_KEY)
    except BrokerError:
        entry = None
    value = entry.value if entry is not None else None
    return int(value or EXPIRATION_DEFAULT_MS)


FIRST_RECORD = 0
"""As a time in ms since the epoch: the first record that has one."""


PositionAt = Callable[[Mirror, PartitionId, Offset], Offset | None]
"""Source offset at which a mirror's partition goes on that ends there; None: that is not known."""


def old_backlog_note(
    mirrors: Iterable[Mirror],
    source: ClusterAdmin,
    target: ClusterAdmin,
    now_ms: int,
    position_at: PositionAt,
) -> str | None:
    """A remark about records that are still to be copied and older than brokers remember.

    Asks the leaders of both sides once, and the source's again only for partitions that are behind.
    """
    expiration_ms = producer_expiration_ms(target)
    mirrors = tuple(mirrors)
    positions, starts = _positions(mirrors, target)
    begun = set(positions)
    for partition, offset in _offsets(source, starts).items():
        positions[partition] = offset
    latest = _offsets(source, dict.fromkeys(positions, LATEST))
    _look_at_maps(positions, begun, latest, mirrors, position_at)
    behind = [p for p, end in latest.items() if p in positions and positions[p] < end]
    young = _offsets(source, dict.fromkeys(behind, now_ms - expiration_ms))
    # Before a compacted log's first record nothing stands, young or old.
    compacted = {mirror.source for mirror in mirrors if mirror.is_compacted}
    firsts = _offsets(source, {p: FIRST_RECORD for p in young if p.topic in compacted})
    old = {
        partition: (latest[partition] if first == NO_OFFSET else first)
        - max(positions[partition], firsts.get(partition, NO_OFFSET))
        for partition, first in young.items()
    }
    old = {partition: records for partition, records in old.items() if records > 0}
    if not old:
        return None
    named = ", ".join(str(partition) for partition in sorted(old)[:NAMED_MAX])
    more = f" and {len(old) - NAMED_MAX} more" if len(old) > NAMED_MAX else ""
    return (
        f"{sum(old.values())} records of {named}{more} are still to be copied and older than the "
        f"target's {EXPIRATION_KEY}={expiration_ms} ({readable_ms(expiration_ms)}): the brokers' "
        "check for duplicates does not cover them; that none is copied twice rests on the link "
        "having one owner, and on reading the target's end before anything is sent again"
    )


def _look_at_maps(
    positions: dict[TopicPartition, Offset],
    begun: Collection[TopicPartition],
    latest: Mapping[TopicPartition, Offset],
    mirrors: Sequence[Mirror],
    position_at: PositionAt,
) -> None:
    """Where a mirror ends before its source it may lack holes only: its map tells how far it is."""
    by_source = {mirror.source: mirror for mirror in mirrors}
    for partition in begun:
        end = positions[partition]
        if end < latest.get(partition, end):
            found = position_at(by_source[partition.topic], partition.partition, end)
            if found is None:
                del positions[partition]  # it stands stopped, which is told elsewhere
            else:
                positions[partition] = found


def _positions(
    mirrors: Iterable[Mirror], target: ClusterAdmin
) -> tuple[dict[TopicPartition, Offset], dict[TopicPartition, int]]:
    """Source offsets to go on from; and what to ask the source where nothing is copied yet."""
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
            elif number >= mirror.initial_partitions or mirror.start == "earliest":
                # Of a compacted log the first record may stand far behind the log's start.
                starts[partition] = FIRST_RECORD if mirror.is_compacted else EARLIEST
            elif mirror.start != "latest":
                starts[partition] = int(mirror.start)
    return positions, starts


def _offsets(
    source: ClusterAdmin, asked: Mapping[TopicPartition, int]
) -> dict[TopicPartition, Offset]:
    """What leaders answer; a partition without an answer has trouble of its own, told elsewhere."""
    if not asked:
        return {}
    answers = source.list_offsets(asked)
    return {p: a.offset for p, a in answers.items() if not isinstance(a, BrokerError)}
