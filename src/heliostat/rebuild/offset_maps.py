"""Rebuild offset maps whose rows are gone, from the contents of both logs; the link may run.

    look     which maps are lost, by the marks that the driver has made              reads only
    align    all records of both sides, several partitions at once                   reads only
    write    rows of the map, read back, then the mark that it is rebuilt

No round copies a marked partition (I2), so the mirror's log end does not move: it is checked before
and after reading. A running driver finds the new mark within `refresh_interval_s`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from typing import Any

from heliostat.clusters.admin import ClusterAdmin
from heliostat.config import Config, LinkConfig
from heliostat.errors import BatchError, BrokerError, PipelineRefused, Refused, TransformFailed
from heliostat.gaps.ledger import GapLedger, copied_of
from heliostat.names import LinkName, PartitionId, TopicName, TopicPartition, id_text, is_still
from heliostat.offsets.map_rows import RowKey, Stamp
from heliostat.offsets.marks import MirrorId
from heliostat.offsets.offset_map import Break, MapRow, OffsetMap
from heliostat.offsets.store import OffsetMaps
from heliostat.rebuild.alignment import Contents, NotAligned, align
from heliostat.rebuild.compared_rows import OpenPipes, ViewsOf, compared_rows
from heliostat.rebuild.merged_maps import MergedMaps, merged_maps
from heliostat.rebuild.proof import NotProved
from heliostat.rebuild.several_readers import SeveralReaders
from heliostat.state.link_state import LinkState
from heliostat.topics.values import MirrorRecord
from heliostat.verify.both_logs import rows_of
from heliostat.verify.both_readers import BothReaders
from heliostat.verify.reader import LogReader
from heliostat.verify.schema_ids import Views
from heliostat.verify.stream import PartitionStream

ROW_BREAKS = 2000
"""The most breaks in one row of the offset map."""


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """The result for one partition of a mirror.

    Parameters
    ----------
    why_not
        Why its map can't be rebuilt; empty if it was.
    extents
        Number of runs of equal distance in the map.
    records
        Number of the mirror's records that were aligned.
    """

    source: TopicPartition
    target: TopicPartition
    why_not: str
    extents: int = 0
    records: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class _Lost:
    """A partition whose map must be rebuilt."""

    source: TopicPartition
    name: MirrorId
    record: MirrorRecord

    @property
    def target(self) -> TopicPartition:
        return self.name[0]


class _Why(Exception):
    """Why a map can't be rebuilt, in words."""


def rebuild_maps(
    config: Config,
    link: LinkConfig,
    open_pipes: OpenPipes,
    topic: TopicName | None = None,
    partition: PartitionId | None = None,
) -> Iterator[Rebuilt]:
    """Rebuild lost maps of a link: all, those of a source topic, or one.

    Each is durable when it is yielded. Memory: 16 bytes a record, both sides of as many partitions
    as there are `READERS`.
    Of a mirror with a pipeline, what it makes of the source's records now is compared.

    Raises
    ------
    Refused
        No such map is lost.
    ConnectionLost, BrokerError
        A cluster does not answer; what was yielded before is done.
    SparkUnavailable, RegistryError, RegistryUnreachable, RegistryAnswerInvalid
        See `compared_rows`.
    """
    source_access = config.clusters[link.source].access()
    target_access = config.clusters[link.target].access()
    with ExitStack() as stack:
        state = stack.enter_context(closing(LinkState(link, config.clusters[link.target])))
        lost = _lost(state, link, topic, partition)
        ledger = stack.enter_context(
            closing(GapLedger(LinkName(link.name), config.clusters[link.target].access()))
        )
        ledger.read()
        readers = stack.enter_context(closing(SeveralReaders(source_access, target_access)))
        at_source = stack.enter_context(ClusterAdmin(source_access))
        at_target = stack.enter_context(ClusterAdmin(target_access))
        mirrors = {one.source.topic: one.target.topic for one in lost}
        views_of = stack.enter_context(compared_rows(link, mirrors, open_pipes))
        merged = None
        if link.topics.merges:
            opened = merged_maps(
                *(link, source_access, state),
                ledger=ledger,
                at_source=at_source,
                at_target=at_target,
            )
            merged = stack.enter_context(opened)
        rebuilding = _Rebuilding(state, ledger, at_source, at_target, views_of, merged)
        yield from readers.each(lost, rebuilding.all_of, together=1)


@dataclass(frozen=True, slots=True)
class _Rebuilding:
    """Rebuilds maps, several at once."""

    state: LinkState
    ledger: GapLedger
    at_source: ClusterAdmin
    at_target: ClusterAdmin
    views_of: ViewsOf
    merged: MergedMaps | None = None
    """Tells maps of merged topics; None: they are of mirrors that only the link writes."""

    def all_of(self, readers: BothReaders, lost: Iterable[_Lost]) -> list[Rebuilt]:
        """Rebuild these maps with readers of both sides."""
        return [self._one(readers, each) for each in lost]

    def _one(self, readers: BothReaders, one: _Lost) -> Rebuilt:
        try:
            _refuse_other_topics(one, self.at_source, self.at_target)
            if self.merged is not None:
                return self._merged(readers, one, self.merged)
            is_compacted = _is_compacted(self.at_source, one.source.topic)
            end = _end(self.at_target, one.target)
            views = self.views_of(one.source)
            theirs = _mirror_of(readers.target, one.target, end, views)
            bounds = readers.source.bounds([one.source])[one.source]
            rows = rows_of(readers.source, one.source, bounds.start, bounds.end, views.of_source)
            ours = Contents.of(rows)
            noted = _noted_end(self.ledger, one, end)
            breaks = align(ours, theirs, is_compacted=is_compacted, goes_on_at=noted)
            _refuse_moved(self.at_target, one.target, end)
            _write(self.state, one.name, breaks)
        except (
            *(_Why, NotAligned, NotProved),
            *(BatchError, PipelineRefused, TransformFailed),
        ) as error:
            return Rebuilt(one.source, one.target, str(error))
        return Rebuilt(one.source, one.target, "", len(breaks) + 1, len(theirs))

    def _merged(self, readers: BothReaders, one: _Lost, merged: MergedMaps) -> Rebuilt:
        views = self.views_of(one.source)
        found = merged.map_of(readers, one.source, one.record, views)
        breaks = found.proof.breaks or ()
        _write(self.state, one.name, breaks, found.known_from)
        return Rebuilt(one.source, one.target, "", len(breaks) + 1, found.proof.compared)


def _lost(
    state: LinkState, link: LinkConfig, topic: TopicName | None, partition: PartitionId | None
) -> list[_Lost]:
    marks, stored = state.marks.read(), state.read()
    found = [
        _Lost(TopicPartition(name, number), (mirror, topic_id), record)
        for mirror, topic_id in sorted(marks.lost)
        for name, record in stored.mirrors.items()
        if record.target == mirror.topic and id_text(record.target_id) == topic_id
        if (number := record.slot.source_partition(mirror.partition)) is not None
        if topic in {None, name} and partition in {None, number}
    ]
    if not found:
        which = (
            "" if topic is None else f" of {topic}" + ("" if partition is None else f"-{partition}")
        )
        raise Refused(
            f"link {link.name} has no offset map{which} that is lost",
            hint="a running link finds lost maps within a refresh: see `heliostat status`",
        )
    state.offsets.begin(marks.topic, marks.lost)
    return found


def _refuse_other_topics(one: _Lost, source: ClusterAdmin, target: ClusterAdmin) -> None:
    for admin, name, known, side in (
        (source, one.record.source, one.record.source_id, "source"),
        (target, one.record.target, one.record.target_id, "target"),
    ):
        info = admin.describe_topics([name])[name]
        if info.error is not None:
            raise _Why(f"the {side} topic {name} can't be read: {info.error.text}")
        if not is_still(known, info.topic_id):
            raise _Why(f"the {side} topic {name} was deleted and recreated")


def _is_compacted(source: ClusterAdmin, topic: TopicName) -> bool:
    configs = source.describe_configs([topic], ["cleanup.policy"])[topic]
    if isinstance(configs, BrokerError):
        raise _Why(f"the settings of {topic} can't be read: {configs.text}")
    return "compact" in (configs["cleanup.policy"].value or "")


def _end(target: ClusterAdmin, partition: TopicPartition) -> int:
    end = target.list_log_ends([partition], confirmed=True)[partition]
    if isinstance(end, BrokerError):
        raise _Why(f"the log end of {partition} can't be read: {end.text}")
    return end


def _noted_end(ledger: GapLedger, one: _Lost, end: int) -> int | None:
    """Return the source offset below which all was copied, if noted for this end of the mirror."""
    copied = copied_of(ledger.copied.get(one.record.source), id_text(one.record.source_id))
    row = copied.get(one.source.partition)
    return row.offset if row is not None and row.end == end else None


def _refuse_moved(target: ClusterAdmin, partition: TopicPartition, end: int) -> None:
    if _end(target, partition) != end:
        raise _Why("something was appended to the mirror meanwhile; try again")


def _mirror_of(target: LogReader, partition: TopicPartition, end: int, views: Views) -> Contents:
    """Read all records of a mirror; the one before its end must be among them."""
    bounds = target.bounds([partition])[partition]
    if bounds.end != end:
        raise _Why(f"{partition} is not on all its replicas yet; try again")
    stream = PartitionStream(target, partition, bounds.start, end)
    batches = views.of_target(stream)
    found = Contents.of(row for batch in batches for row in batch.rows(bounds.start, end))
    if stream.control_batches:
        raise _Why("its holes were filled with markers, and only the lost map had their number")
    if found.offsets and found.offsets[-1] != end - 1:
        raise _Why(f"the record before its end {end} is gone: nothing shows where it ended")
    return found


def _write(state: LinkState, name: MirrorId, breaks: Iterable[Break], known_from: int = 0) -> None:
    """Write rows with the newest round's stamp; durable and read back before the mark."""
    stamp = state.offsets.fresh().stamp_of(*name)
    if not put_map(state.offsets, name, breaks, stamp, known_from):
        raise _Why("another writer has put other rows into its map; check who else runs this link")
    state.marks.put_rebuilt([name])


def put_map(
    maps: OffsetMaps,
    name: MirrorId,
    breaks: Iterable[Break],
    stamp: Stamp,
    known_from: int = 0,
) -> bool:
    """Write a rebuilt map and read it back; return whether both are equal.

    Parameters
    ----------
    known_from
        Breaks before it are not known, as no log has records there.
    """
    wanted = OffsetMap.of(breaks)
    maps.put(map_rows(*name, wanted.breaks(), stamp))
    if known_from:  # behind the rows: they begin at 0
        maps.put_known_from(name, known_from)
        wanted.forget_before(known_from)
    return maps.known_breaks(name) == tuple(wanted.breaks())


def map_rows(
    mirror: TopicPartition, topic_id: str, breaks: Iterable[Break], stamp: Stamp
) -> Iterator[MapRow]:
    """Yield rows that replace whatever exists of a map."""
    all_of_it = list(breaks)
    if not all_of_it or all_of_it[0].target:
        all_of_it.insert(0, Break(0, 0))
    for at in range(0, len(all_of_it), ROW_BREAKS):
        some = tuple(all_of_it[at : at + ROW_BREAKS])
        yield MapRow(RowKey(mirror, topic_id, some[0].target, stamp), some)
