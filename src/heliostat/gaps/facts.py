"""Fresh facts about stopped partitions from both clusters; nothing is guessed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from heliostat.clusters.admin import EARLIEST, LATEST, ClusterAdmin, ConfigEntry, ListedOffset
from heliostat.errors import BrokerError
from heliostat.gaps.choices import CAUSE_OF_CODE, Cause, Facts
from heliostat.gaps.ledger import CopiedTopic, GapLedger, GapRow, copied_of
from heliostat.gaps.source_truncation import truncations
from heliostat.merge.shared_records import SharedEnd
from heliostat.names import Offset, PartitionId, TopicName, TopicPartition, id_text
from heliostat.offsets.ends_then_maps import EndsThenMaps
from heliostat.offsets.marks import MirrorId
from heliostat.offsets.offset_map import Break, MapReader, OffsetMap
from heliostat.topics.values import MirrorRecord


class SharedAsk(NamedTuple):
    """A merged partition of which the source has lost what was copied."""

    source: TopicPartition
    target: TopicPartition
    known: OffsetMap
    """Its map."""
    end: Offset
    """How many records the link has appended."""
    same_below: Offset | None
    """Source offset below which nothing was lost, by leader epochs; None: these say nothing."""
    is_compacted: bool
    jump: Break | None = None
    """Where it went on by the last decision: of what is before, the map may tell wrong offsets."""

    @property
    def is_before_jump(self) -> bool:
        """Whether all since that decision is lost: then the epoch's end is exact.

        What was noted since is not before it, and an epoch that ends before what was noted of it
        was cut there. Only what has crossed since a note is not told by epochs.
        """
        if self.jump is None or self.same_below is None:
            return False
        return self.same_below < self.jump.source


class OwnRecords(Protocol):
    """Asks what a link has appended to merged partitions; raises as `gather`."""

    def ends(self, mirrors: Iterable[MirrorId]) -> Mapping[TopicPartition, Offset | str]:
        """Return how many records these are, or why that is not known."""
        ...

    def shared_end(self, ask: SharedAsk) -> SharedEnd | None:
        """Return up to where the source still has them; None: that can't be told."""
        ...

    def close(self) -> None:
        """Close the connections."""
        ...


NOT_TOLD = "the target's leader does not tell"
NOT_THERE = Offset(0)
"""Start and end of a partition that does not exist."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A partition to ask about; `begin` is the source offset at which its mirror began."""

    source: TopicPartition
    target: TopicPartition
    begin: Offset
    is_dense: bool = True
    jump: Break | None = None
    """Where it went on by the last decision, if there was one."""


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


def with_jumps(asks: Iterable[Ask], ledger: GapLedger, record: MirrorRecord) -> list[Ask]:
    """Return asks with where each went on by the last decision on this target topic."""
    rows, target_id = ledger.jumps(), id_text(record.target_id)
    return [
        replace(ask, jump=row.jump)
        if (row := rows.get(ask.source)) is not None and row.target_id == target_id
        else ask
        for ask in asks
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
    own: OwnRecords | None = None,
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
    own
        Asks what the link has appended; None: it merges no topics.
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
    target_id, cause = id_text(record.target_id), cause or CAUSE_OF_CODE[code]
    numbers, known = _own_ends(record, asks, own), seen.maps
    is_asked = cause in {Cause.SOURCE_TRUNCATED, Cause.SKIPPED}
    diverged = _diverged(source, asks, copied, record, at_source) if is_asked else {}
    found: list[Facts] = []
    for ask, (start, end, there, target_end) in seen.ends.items():
        if known.is_lost(ask.target, target_id):
            continue
        offset_map = known.of(ask.target, target_id)
        stand = _Stand(target_end, Offset(0), diverged.get(ask.source, _NOWHERE))
        if numbers is not None:
            stand = _own_stand(ask, numbers.get(ask.target, NOT_TOLD), offset_map, stand, own)
        facts = Facts(
            *(ask.source, ask.target, cause, code),
            position=max(stand.begin, offset_map.source_of(stand.end)),  # not known: all
            source_start=start,
            source_end=end,
            target_start=there if numbers is None else NOT_THERE,
            target_end=stand.end,
            is_dense=ask.is_dense and offset_map.is_identity and numbers is None,
            is_gone=ask.source.partition >= at_source,
            is_known_truncated=ask.source in diverged,
            copied_to=_copied_to(copied, ask.source, record),
            fills=offset_map.is_filled or (fills and offset_map.is_identity),
        )
        found.append(_standing(facts, ask, stand, record))
    return found


def _standing(facts: Facts, ask: Ask, stand: _Stand, record: MirrorRecord) -> Facts:
    """Return facts with where the mirror stands, and what it is."""
    return replace(
        facts,
        diverged_at=stand.parted.at,
        shared_epoch=stand.parted.epoch,
        own_end_unknown=stand.unknown,
        begin=ask.begin,
        is_shared=record.slot.is_shared,
        is_merged=record.is_merged,
    )


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


class _Parted(NamedTuple):
    """From where on a source has others than what was copied, and the epoch of what is before."""

    at: Offset | None
    epoch: int


_NOWHERE = _Parted(None, -1)


class _Stand(NamedTuple):
    """Where a mirror ends; its first record is of a source offset `begin`."""

    end: Offset
    begin: Offset
    parted: _Parted
    unknown: str = ""
    """Why its end is not known."""


def _own_ends(
    record: MirrorRecord, asks: Sequence[Ask], own: OwnRecords | None
) -> Mapping[TopicPartition, Offset | str] | None:
    """Return how much the link has appended to each partition; None: only it writes there."""
    if not record.is_merged:
        return None
    target_id = id_text(record.target_id)
    return {} if own is None else own.ends([(ask.target, target_id) for ask in asks])


def _own_stand(
    ask: Ask,
    number: Offset | str,
    known: OffsetMap,
    noted: _Stand,
    own: OwnRecords | None,
) -> _Stand:
    """Return where a merged partition stands; where its source was cut, contents show exactly.

    What is copied twice where others write stays there, so nothing is guessed.
    """
    if isinstance(number, str):
        return _Stand(NOT_THERE, ask.begin, _NOWHERE, number)
    found, parted = _NOWHERE, noted.parted
    if own is not None and parted is not _NOWHERE:
        asked = SharedAsk(
            *(ask.source, ask.target, known, number, parted.at), not ask.is_dense, ask.jump
        )
        shared = own.shared_end(asked)
        if shared is not None:
            found = _Parted(shared.offset, parted.epoch if shared.epoch < 0 else shared.epoch)
    return _Stand(number, ask.begin if known.is_identity else Offset(0), found)


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
    at_source: int,
) -> dict[TopicPartition, _Parted]:
    """Return partitions whose source lost copied records, by its leader epochs.

    An epoch that a leader does not know may have been compacted away unless all offsets are
    records.
    """
    rows = copied_of(copied, id_text(record.source_id))
    notes = {
        ask.source: rows[ask.source.partition]
        for ask in asks
        if ask.source.partition in rows and ask.source.partition < at_source
    }
    compacted = set() if all(ask.is_dense for ask in asks) else {record.source}
    answers = truncations(source, notes, compacted)
    return {
        partition: _Parted(divergence.at, notes[partition].epoch)
        for partition, divergence in answers.items()
        if divergence is not None
    }
