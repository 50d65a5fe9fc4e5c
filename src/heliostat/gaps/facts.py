"""Fresh facts about stopped partitions from both clusters; nothing is guessed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from heliostat.clusters.admin import EARLIEST, LATEST, ClusterAdmin, ConfigEntry, ListedOffset
from heliostat.errors import BrokerError
from heliostat.gaps.choices import CAUSE_OF_CODE, Cause, Facts
from heliostat.gaps.ledger import CopiedTopic, GapRow, copied_of
from heliostat.gaps.source_truncation import Divergence, truncations
from heliostat.names import Offset, PartitionId, TopicName, TopicPartition, id_text
from heliostat.offsets.ends_then_maps import EndsThenMaps
from heliostat.offsets.offset_map import MapReader
from heliostat.topics.values import MirrorRecord

NOT_THERE = Offset(0)
"""Start and end of a partition that does not exist."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A partition to ask about; `begin` is the source offset at which its mirror began."""

    source: TopicPartition
    target: TopicPartition
    begin: Offset
    is_dense: bool = True


def asks_of(
    record: MirrorRecord,
    partitions: Iterable[PartitionId],
    begins: Mapping[PartitionId, Offset],
    configs: Mapping[str, ConfigEntry] | BrokerError | None,
) -> list[Ask]:
    """Return what to ask of a mirror's partitions, which began at source offsets `begins`.

    `configs` are the source topic's settings; unless they are known to exclude compaction, not
    every offset is taken for a record.
    """
    known = {} if configs is None or isinstance(configs, BrokerError) else configs
    policy = known.get("cleanup.policy")
    is_dense = policy is not None and "compact" not in (policy.value or "")
    return [
        Ask(
            TopicPartition(record.source, number),
            record.mirror_of(number),
            begins.get(number, Offset(0)),
            is_dense,
        )
        for number in sorted(partitions)
    ]


def gather(
    source: ClusterAdmin,
    target: ClusterAdmin,
    asks: Sequence[Ask],
    *,
    record: MirrorRecord,
    code: str,
    maps: Callable[[], MapReader],
    copied: CopiedTopic | None,
    fills: bool = False,
    cause: Cause | None = None,
) -> list[Facts]:
    """Return facts of a mirror's partitions, except those whose leaders do not all answer.

    Parameters
    ----------
    code
        The code of their stop; empty: they are not stopped.
    maps
        Reads the link's offset maps, see `EndsThenMaps`.
    copied
        How far and from which leader epoch each was copied, for finding where a source diverged.
    fills
        Whether the link fills holes (`topics.offsets: exact`); a mapped mirror stays so.
    cause
        What they are asked for, where no code says it.

    Raises
    ------
    ConnectionLost, BrokerError
        A cluster does not answer at all, or the maps can't be read.
    """
    at_source, at_target = _partitions(source, record.source), _partitions(target, record.target)
    if at_source is None or at_target is None:
        return []
    seen = EndsThenMaps(lambda: _bounds(source, target, asks, at_source, at_target), maps)
    known, target_id = seen.maps, id_text(record.target_id)
    cause = cause or CAUSE_OF_CODE[code]
    diverged: dict[TopicPartition, Divergence] = {}
    if cause in {Cause.SOURCE_TRUNCATED, Cause.SKIPPED}:
        existing = [ask for ask in asks if ask.source.partition < at_source]
        diverged = _diverged(source, existing, copied, record)
    found: list[Facts] = []
    for ask, (start, end, there, target_end) in seen.ends.items():
        if known.is_lost(ask.target, target_id):
            continue
        offset_map, divergence = known.of(ask.target, target_id), diverged.get(ask.source)
        found.append(
            Facts(
                source=ask.source,
                target=ask.target,
                cause=cause,
                code=code,
                position=max(Offset(0), offset_map.source_of(target_end)),  # not known: all
                source_start=start,
                source_end=end,
                target_start=there,
                target_end=target_end,
                is_dense=ask.is_dense and offset_map.is_identity,
                diverged_at=None if divergence is None else divergence.at,
                begin=ask.begin,
                is_gone=ask.source.partition >= at_source,
                is_known_truncated=divergence is not None,
                is_shared=record.slot.is_shared,
                copied_to=_copied_to(copied, ask.source, record),
                fills=offset_map.is_filled or (fills and offset_map.is_identity),
            )
        )
    return found


def is_pending(row: GapRow, facts: Facts, record: MirrorRecord) -> bool:
    """Return whether the mirror has not gone on yet after that row's gap."""
    is_here = row.jump is not None and row.jump.target == facts.target_end
    return is_here and row.target_id == id_text(record.target_id)


def after_jump(facts: Facts, row: GapRow | None, record: MirrorRecord) -> Facts:
    """Return facts with the position after a recorded jump that the lane has not taken yet.

    Records that were copied, and that the source has lost, come before those that are skipped.
    """
    if row is None or row.jump is None or not is_pending(row, facts, record):
        return facts
    if row.cause is Cause.SKIPPED and facts.is_known_truncated:
        return facts
    return replace(facts, position=Offset(row.jump.source))


def _bounds(
    source: ClusterAdmin,
    target: ClusterAdmin,
    asks: Sequence[Ask],
    at_source: int,
    at_target: int,
) -> dict[Ask, tuple[Offset, Offset, Offset, Offset]]:
    """Ask for start and end at source and target; keeps partitions whose leaders all answer.

    What they say is recorded as a gap or stops a mirror, so all brokers confirm who leads.

    Partitions that do not exist count as empty.
    """
    sources = [ask.source for ask in asks if ask.source.partition < at_source]
    targets = [ask.target for ask in asks if ask.target.partition < at_target]
    source_starts = source.list_offsets(dict.fromkeys(sources, EARLIEST), confirmed=True)
    source_ends = source.list_offsets(dict.fromkeys(sources, LATEST))
    target_starts = target.list_offsets(dict.fromkeys(targets, EARLIEST), confirmed=True)
    target_ends = target.list_log_ends(targets)
    found: dict[Ask, tuple[Offset, Offset, Offset, Offset]] = {}
    for ask in asks:
        start = _offset(source_starts.get(ask.source, NOT_THERE))
        end = _offset(source_ends.get(ask.source, NOT_THERE))
        there = _offset(target_starts.get(ask.target, NOT_THERE))
        target_end = _offset(target_ends.get(ask.target, NOT_THERE))
        if start is None or end is None or there is None or target_end is None:
            continue
        found[ask] = start, end, there, target_end
    return found


def _partitions(cluster: ClusterAdmin, topic: TopicName) -> int | None:
    """Return a topic's number of partitions, 0 if it does not exist; None: not known now."""
    info = cluster.confirm_topics([topic])[topic]
    if info.error is not None:
        return 0 if info.is_missing else None
    return len(info.partitions)


def _offset(answer: ListedOffset | Offset | BrokerError) -> Offset | None:
    """Return the answered offset; None for an error."""
    if isinstance(answer, BrokerError):
        return None
    return Offset(answer.offset) if isinstance(answer, ListedOffset) else answer


def _copied_to(
    copied: CopiedTopic | None, partition: TopicPartition, record: MirrorRecord
) -> Offset | None:
    """Return how far this topic, of the same id, was copied, as the link noted."""
    row = copied_of(copied, id_text(record.source_id)).get(partition.partition)
    return None if row is None else Offset(row.offset)


def _diverged(
    source: ClusterAdmin,
    asks: Sequence[Ask],
    copied: CopiedTopic | None,
    record: MirrorRecord,
) -> dict[TopicPartition, Divergence]:
    """Return partitions whose source lost copied records, by its leader epochs.

    An epoch that a leader does not know may have been compacted away unless all offsets are
    records.
    """
    rows = copied_of(copied, id_text(record.source_id))
    notes = {ask.source: rows[ask.source.partition] for ask in asks if ask.source.partition in rows}
    compacted = set() if all(ask.is_dense for ask in asks) else {record.source}
    answers = truncations(source, notes, compacted)
    return {
        partition: divergence for partition, divergence in answers.items() if divergence is not None
    }
