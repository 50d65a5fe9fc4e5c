"""The driver's side of lost offset maps: mapped mirrors stop, exact ones continue.

I2  Nothing is appended to a mapped mirror whose map is not known to reach its end. If rows of the
    maps' topic are gone, mapped mirrors are stopped, durably, until their maps are rebuilt.
I7  A mirror that is shown to be exact continues.

A mirror may have become a mapped one since the maps were last read. So each mirror that is not
known as mapped must be shown to be exact: by the ledger's note of how far was copied, or by the
record before its end, which must equal the source's of the same offset, and no later one.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from heliostat.access import ClusterAccess
from heliostat.clusters.admin import ClusterAdmin
from heliostat.clusters.plain_records import PlainReader, PlainRecord
from heliostat.clusters.record_digest import digest_of
from heliostat.errors import BrokerError, ConnectionLost, OffsetMapLost
from heliostat.framed_ids import headers_without_ids, without_id
from heliostat.gaps.ledger import CopyNote
from heliostat.names import Offset, PartitionId, TopicName, TopicPartition, id_text
from heliostat.offsets.marks import MapMarks, Mapped, MapTopic, Marks, MirrorId
from heliostat.offsets.pruning import MapPruning, StartsOf
from heliostat.offsets.store import OffsetMaps
from heliostat.ops.events import Events, shortened
from heliostat.records.copier.lane import PartitionReport, PartitionSpec, PartitionState
from heliostat.state.link_state import Starts
from heliostat.topics.values import MirrorRecord

NOTES_MAX = 3
"""How many records the notes list one by one."""
NAMED_MAX = 5
"""How many mirrors an event names."""
BEHIND_RECORDS = 500
"""Source offsets after a mirror's end that are searched for a record equal to its last one."""


class RememberedPartition(NamedTuple):
    """One partition of a mirror, by the link's records."""

    source: TopicPartition
    mirror: TopicPartition
    target_id: str
    start: Offset
    """Source offset at which it begins."""

    @property
    def name(self) -> MirrorId:
        """Name of its map."""
        return self.mirror, self.target_id


CopiedLookup = Callable[[TopicPartition], CopyNote | None]
"""Returns how far a source partition was copied, by the ledger; None if not known."""


class MapKeeper:
    """Checks whether all rows are there; used only by the driver's reconciliation.

    Parameters
    ----------
    maps, marks
        The maps, and the marks of what is mapped or lost.
    source, target_access
        Both clusters, to read records of mirrors that may be mapped.
    target
        Target cluster connection, which is asked where mirrors end.
    copied
        Returns how far a source partition was copied.
    events
        Log that reports lost and rebuilt maps.
    hides_ids
        Whether records are compared without their schema ids, as mirrors have others.
    starts_of
        Tells where maps of merged topics begin to matter: they are by numbers; None: of mirrors.
    """

    def __init__(
        self,
        maps: OffsetMaps,
        marks: MapMarks,
        *,
        source: ClusterAccess,
        target_access: ClusterAccess,
        target: ClusterAdmin,
        copied: CopiedLookup,
        events: Events,
        hides_ids: bool = False,
        starts_of: StartsOf | None = None,
    ) -> None:
        self._maps = maps
        self._store = marks
        self._source = source
        self._target_access = target_access
        self._target = target
        self._copied = copied
        self._events = events
        self._digest = _digest_without_ids if hides_ids else _digest
        self._pruning = MapPruning(maps, target, time.monotonic, starts_of)
        self._marks = Marks()
        self._unsettled: dict[MirrorId, str] = {}
        """Mirrors that can't be read now: their maps may be lost, and why that is in doubt."""

    def begin(self) -> None:
        """Read the marks of earlier runs."""
        self._marks = self._store.read()
        self._take_rebuilt(self._marks)
        self._maps.begin(self._marks.topic, self._marks.lost)

    def restore(self) -> None:
        """Write all that is known into a recreated state topic."""
        if self._marks.topic is not None:
            self._store.put_topic(self._marks.topic)
        self._store.put_mapped(self._marks.mapped)
        self._store.put_lost(self._marks.lost, self._marks.had)

    def look(
        self,
        mirrors: Mapping[TopicName, MirrorRecord],
        starts: Mapping[TopicName, Starts],
        reports: Iterable[PartitionReport] = (),
    ) -> None:
        """Read new rows of the maps, and stop mirrors whose maps may lack rows.

        Parameters
        ----------
        mirrors, starts
            The link's records of its mirrors, and of where their partitions begin.
        reports
            Reports of the lanes' newest plans: lanes compare mirrors with their maps, and with what
            this keeper knows. Their findings are recorded before rebuilt maps are read.

        Raises
        ------
        ConnectionLost, BrokerError
            The target does not answer; the next reconciliation tries again.
        """
        self._keep_lost(self._found_by_lanes(mirrors, reports))
        if self._marks.lost:
            self._take_rebuilt(self._store.read())
            self._take_back()
        if self._unsettled:
            open_ones = [o for o in _partitions(mirrors, starts) if o.name in self._unsettled]
            self._settle(open_ones, self._unsettled)
        try:
            self._maps.refresh()
        except OffsetMapLost as error:
            self._lose(list(_partitions(mirrors, starts)), error.text)
            self._maps.refresh()
        self._keep_lost(self._maps.spoiled())
        new = self._maps.names() - self._marks.names()
        if new:
            self._note_mapped(
                partition for partition in _partitions(mirrors, starts) if partition.name in new
            )
        now = self._maps.known
        if now is not None and now != self._marks.topic and not self._unsettled:
            self._store.put_topic(now)
            self._marks.topic = now
        self._pruning.look()

    def with_lost(
        self, specs: Mapping[TopicPartition, PartitionSpec]
    ) -> dict[TopicPartition, PartitionSpec]:
        """Return the specs, with partitions marked that must not be copied as their map is lost."""
        lost = self._marks.lost | self._unsettled
        marked_specs = dict(specs)
        for source, spec in specs.items() if lost else ():
            why = lost.get((spec.target, id_text(spec.target_topic_id)))
            if why is not None:
                marked_specs[source] = replace(spec, map_lost=f"{why} (hint: {OffsetMapLost.hint})")
        return marked_specs

    def notes(self) -> tuple[str, ...]:
        """Report records in the maps' topic that are no rows and concern no mirror."""
        return tuple(shortened(self._maps.strange(), NOTES_MAX, "such records"))

    # -- what is lost --------------------------------------------------------------------------

    def _found_by_lanes(
        self, mirrors: Mapping[TopicName, MirrorRecord], reports: Iterable[PartitionReport]
    ) -> dict[MirrorId, str]:
        """Mirrors that lanes stopped for their maps, and why; not those that only we hold back."""
        reasons: dict[MirrorId, str] = {}
        for report in reports:
            record = mirrors.get(report.source.topic)
            is_lost = report.state is PartitionState.BLOCKED and report.code == OffsetMapLost.code
            if record is not None and is_lost:
                name = report.target, id_text(record.target_id)
                if name not in self._unsettled:
                    reasons[name] = report.reason.partition(" (hint: ")[0]
        return reasons

    def _lose(self, partitions: list[RememberedPartition], why: str) -> None:
        """Mark the map of each mirror that is not shown to be exact as lost, as rows are gone.

        The marks are durable before the topic is accepted as it is now.
        """
        mapped = self._marks.names() | self._maps.names()
        lost = {partition.name: why for partition in partitions if partition.name in mapped}
        self._keep_lost(lost, self._maps.known)
        self._settle(
            [partition for partition in partitions if partition.name not in mapped],
            dict.fromkeys((partition.name for partition in partitions), why),
        )
        self._maps.begin_again(self._marks.lost | self._unsettled)

    def _settle(self, asked: list[RememberedPartition], why: Mapping[MirrorId, str]) -> None:
        """Find out which of these are exact; the map of each other is lost, or unsettled."""
        lost: dict[MirrorId, str] = {}
        unsettled: dict[MirrorId, str] = {}
        for partition, is_exact in self._exact(asked):
            if is_exact is None:
                unsettled[partition.name] = why[partition.name]
            elif not is_exact:
                lost[partition.name] = why[partition.name]
        self._keep_lost(lost)
        self._unsettled = unsettled
        self._maps.set_lost(self._marks.lost | unsettled)

    def _keep_lost(self, lost: Mapping[MirrorId, str], had: MapTopic | None = None) -> None:
        new = {name: why for name, why in lost.items() if name not in self._marks.lost}
        if not new:
            return
        self._marks.had |= {} if had is None else dict.fromkeys(new, had)
        self._store.put_lost(new, self._marks.had)
        self._marks.lost.update(new)
        self._events.warn(
            f"{next(iter(new.values()))}: {len(new)} mapped partition(s) are stopped until "
            f"their map is rebuilt ({OffsetMapLost.hint}): {_named(new)}"
        )

    def _exact(
        self, asked: list[RememberedPartition]
    ) -> Iterator[tuple[RememberedPartition, bool | None]]:
        """Yield whether mirrors are exact up to their end; None if that can't be checked now."""
        if not asked:
            return
        if self._pruning is None:  # others' records at the target show nothing
            yield from ((partition, False) for partition in asked)
            return
        ends = self._target.list_log_ends([partition.mirror for partition in asked], confirmed=True)
        looks: list[tuple[RememberedPartition, Offset]] = []
        for partition in asked:
            end = ends.get(partition.mirror)
            if end is None or isinstance(end, BrokerError):
                yield partition, None
            elif end == 0 or _is_noted_exact(self._copied(partition.source), end):
                yield partition, True
            else:
                looks.append((partition, end))
        if looks:
            with (
                PlainReader(self._source, committed=False) as source,
                PlainReader(self._target_access, committed=False) as target,
            ):
                for partition, offset in looks:
                    try:
                        yield partition, ends_alike(source, target, partition, offset, self._digest)
                    except (BrokerError, ConnectionLost):
                        yield partition, None

    # -- what is mapped, and what was rebuilt ---------------------------------------------------

    def _note_mapped(self, partitions: Iterable[RememberedPartition]) -> None:
        """Record that these have maps, so that a loss of these maps is noticed."""
        new: dict[TopicName, Mapped] = {}
        for partition in partitions:
            name = partition.source.topic
            was = new.get(name, self._marks.mapped.get(name))
            if was is None or was.target_id != partition.target_id:
                was = Mapped(partition.mirror.topic, partition.target_id, frozenset())
            new[name] = replace(was, partitions=was.partitions | {partition.mirror.partition})
        self._store.put_mapped(new)
        self._marks.mapped.update(new)

    def _take_rebuilt(self, now: Marks) -> None:
        """Continue with rebuilt maps; only a mark that says so counts, not a missing one."""
        if not now.rebuilt:
            return
        self._forget_lost(now.rebuilt)
        self._maps.set_lost(self._marks.lost | self._unsettled)
        self._events.info(f"offset maps rebuilt, copying continues: {_named(now.rebuilt)}")

    def _take_back(self) -> None:
        """Continue with maps whose topic has all rows that it had when they seemed to be lost."""
        by_topic = defaultdict[MapTopic, list[MirrorId]](list)
        for name in self._marks.lost.keys() & self._marks.had.keys():
            by_topic[self._marks.had[name]].append(name)
        whole = [n for had, names in by_topic.items() if self._maps.has_all_of(had) for n in names]
        if whole:
            self._forget_lost(whole)
            self._maps.begin_again(self._marks.lost | self._unsettled)
            self._events.info(
                f"all rows of {self._maps.topic} are there: the broker that lacked them had been "
                f"deposed; copying continues: {_named(whole)}"
            )

    def _forget_lost(self, names: Iterable[MirrorId]) -> None:
        gone = list(names)
        for name in gone:
            self._marks.lost.pop(name, None)
            self._marks.had.pop(name, None)
        self._store.forget(gone)


def _partitions(
    mirrors: Mapping[TopicName, MirrorRecord], starts: Mapping[TopicName, Starts]
) -> Iterator[RememberedPartition]:
    """Yield partitions that may have been copied so far: each that has a beginning."""
    for name, record in mirrors.items():
        row = starts.get(name)
        if row is not None and row.target_id == record.target_id:
            for number, start in row.offsets.items():
                source = TopicPartition(name, PartitionId(number))
                mirror = record.mirror_of(PartitionId(number))
                yield RememberedPartition(source, mirror, id_text(record.target_id), start)


def _is_noted_exact(copied: CopyNote | None, end: int) -> bool:
    """Whether all was copied up to source offset `end` when the target ended there."""
    return copied is not None and copied.end == copied.offset == end


def ends_alike(
    source: PlainReader,
    target: PlainReader,
    partition: RememberedPartition,
    end: int,
    digest: Callable[[PlainRecord], bytes],
) -> bool:
    """Whether the record before a mirror's end equals the source's of that offset, and no later.

    If the mirror is mapped, its last record is at a later offset at the source: then the source's
    record of the same offset differs, or an equal one follows.
    """
    bounds = (
        target.bounds([partition.mirror])[partition.mirror],
        source.bounds([partition.source])[partition.source],
    )
    last = end - 1
    if bounds[0].start >= end <= partition.start:
        return True  # its start was aligned, and nothing was copied yet
    if last < bounds[0].start or not bounds[1].start <= last < bounds[1].end:
        return False  # gone at one side: nothing shows it
    ours = [digest(record) for record in target.read(partition.mirror, last, end)]
    there = source.read(partition.source, last, min(bounds[1].end, end + BEHIND_RECORDS))
    theirs = [(record.offset, digest(record)) for record in there]
    return len(ours) == 1 and [offset for offset, other in theirs if other == ours[0]] == [last]


def _digest(record: PlainRecord) -> bytes:
    return digest_of(record.key, record.value, record.headers, record.timestamp_ms)


def _digest_without_ids(record: PlainRecord) -> bytes:
    contents = without_id(record.key), without_id(record.value)
    return digest_of(*contents, headers_without_ids(record.headers), record.timestamp_ms)


def _named(names: Iterable[MirrorId]) -> str:
    shown = sorted(str(mirror) for mirror, _ in names)
    more = f" and {len(shown) - NAMED_MAX} more" if len(shown) > NAMED_MAX else ""
    return ", ".join(shown[:NAMED_MAX]) + more
