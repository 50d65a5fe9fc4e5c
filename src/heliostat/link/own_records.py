"""What a link has appended to merged topics, as both sites' logs say it now: for decisions.

A lane looks up how many records these are before it appends any (`transport.own_ends`). Here the
same is asked by who decides, with the link's notes; and where the source has lost some of them.
"""

from __future__ import annotations

import struct
from collections.abc import Hashable, Iterable, Iterator
from contextlib import ExitStack, closing

from heliostat.access import Reachable, access_of
from heliostat.clusters.producer_rows import ProducerReader
from heliostat.clusters.wire.lent import lent_clusters
from heliostat.config import LinkConfig
from heliostat.errors import BatchError, BrokerError, ProtocolError
from heliostat.framed_ids import headers_without_ids, without_id
from heliostat.gaps.facts import SharedAsk
from heliostat.groups.merged_site import NO_LEADER, MergedSite, SiteLook
from heliostat.link.pipeline_rules import pipeline_of
from heliostat.merge.crossing import Crossing
from heliostat.merge.landed_log import UnknownPlaceError
from heliostat.merge.shared_records import PlacedRecord, SharedEnd, shared_end
from heliostat.names import LinkName, Offset, ProducerId, TopicPartition, id_text
from heliostat.offsets.marks import MirrorId
from heliostat.verify.origin import LinkIds, Origin, OwnRecords
from heliostat.verify.read_requests import Isolation
from heliostat.verify.reader import LogReader
from heliostat.verify.stream import PartitionStream
from heliostat.verify.stream_values import HEADER_BYTES, Batch, ConsumedRecord

CLIENT_ID = "heliostat-own-records"
WITHIN_S = 30.0
LOOK_BYTES = 256 * 1024 * 1024
"""Most bytes of the target's logs that a driver reads at a time: its next look goes on."""
EPOCH = struct.Struct(">i")
EPOCH_AT = 12


class OwnRecordsLook:
    """Asks both sites; used by one thread.

    Parameters
    ----------
    link
        Its configuration.
    source, target
        Both sites.
    look_bytes
        Most bytes that one look at ends reads; None: as many as it takes.
    """

    def __init__(
        self,
        link: LinkConfig,
        source: Reachable,
        target: Reachable,
        look_bytes: int | None = LOOK_BYTES,
    ) -> None:
        self._link, self._name = link, LinkName(link.name)
        self._hides_ids = link.schemas.strategy == "rewrite"
        self._source, self._target = source, target
        self._look_bytes = look_bytes
        self._opened = ExitStack()
        self._site: MergedSite | None = None

    def close(self) -> None:
        """Close the connections."""
        self._opened.close()
        self._site = None

    def _merged_site(self) -> MergedSite:
        if self._site is None:
            clusters, are_ours = lent_clusters(self._target, CLIENT_ID, WITHIN_S)
            if are_ours:
                self._opened.callback(clusters.close)
            site = MergedSite(clusters, self._look_bytes)
            self._site = self._opened.enter_context(closing(site))
        return self._site

    def ends(self, mirrors: Iterable[MirrorId]) -> dict[TopicPartition, Offset | str]:
        """Return how many records have landed in each partition, or why that is not known.

        Raises
        ------
        ConnectionLost, BrokerError, ProtocolError
            The target does not answer.
        """
        asked = list(mirrors)
        with self._merged_site().look({mirror.topic for mirror, _ in asked}) as seen:
            return {mirror: self._end(seen, mirror, topic_id) for mirror, topic_id in asked}

    def _end(self, seen: SiteLook, mirror: TopicPartition, topic_id: str) -> Offset | str:
        crossing, log = seen.of_link(self._name, mirror), seen.logs.get(mirror)
        if log is None or id_text(log.topic_id) != topic_id:
            return NO_LEADER
        if isinstance(crossing, str):
            return crossing
        try:
            return Offset(crossing.landed.count)
        except UnknownPlaceError as error:
            return str(error)

    def shared_end(self, ask: SharedAsk) -> SharedEnd | None:
        """Return up to where the source still has what was copied; None: that can't be told.

        Of what has come through a pipeline it can't: the target has other records, or lacks some.

        Raises
        ------
        ConnectionLost
            A site does not answer.
        """
        if ask.is_before_jump:
            return SharedEnd(Offset(ask.same_below or 0), -1)
        if pipeline_of(self._link, ask.source.topic):
            return None
        try:
            with (
                self._merged_site().look({ask.target.topic}) as seen,
                LogReader(access_of(self._source), Isolation.READ_COMMITTED) as source,
                LogReader(access_of(self._target), Isolation.READ_UNCOMMITTED) as target,
            ):
                crossing = seen.of_link(self._name, ask.target)
                if not isinstance(crossing, Crossing):
                    return None
                both = _BothLogs(ask, seen, crossing, source, target, hides_ids=self._hides_ids)
                both.ids = LinkIds(self._ids(self._source), self._ids(self._target))
                return shared_end(
                    both.read,
                    both.lowest,
                    ask.same_below,
                    ask.known.source_of(ask.end),
                    is_compacted=ask.is_compacted,
                )
        except (BatchError, BrokerError, ProtocolError, UnknownPlaceError):
            return None

    def _ids(self, cluster: Reachable) -> frozenset[int]:
        """Return the ids of all links at the source, and of this one at the target."""
        with closing(ProducerReader(cluster)) as reader:
            rows: dict[ProducerId, LinkName] = reader.read()[0]
        is_all = cluster is self._source
        return frozenset(number for number, name in rows.items() if is_all or name == self._name)


class _BothLogs:
    """The records of one partition that are the source's own, at both sides.

    Parameters
    ----------
    ask
        What is asked.
    seen, crossing
        The target as of one look, and what the link has brought there.
    source, target
        Readers.
    hides_ids
        Whether the target has other schema ids in its records.
    """

    def __init__(
        self,
        ask: SharedAsk,
        seen: SiteLook,
        crossing: Crossing,
        source: LogReader,
        target: LogReader,
        *,
        hides_ids: bool,
    ) -> None:
        self._ask, self._log, self._landed = ask, seen.logs[ask.target], crossing.landed
        self._source, self._target = source, target
        self._hides_ids = hides_ids
        bounds = source.bounds([ask.source])[ask.source]
        self._end = bounds.end
        first = max(self._landed.before(self._log.start), ask.known.known_from)
        self._first = Offset(0) if ask.jump is None else Offset(ask.jump.target)
        begins = ask.known.source_of(max(first, self._first))
        self.lowest = Offset(max(bounds.start, begins))
        self.ids = LinkIds(frozenset(), frozenset())
        """Read after the ends of both logs."""

    def read(self, start: Offset) -> tuple[Iterable[PlacedRecord], Iterable[PlacedRecord]]:
        """Return the records of both sides from a source offset on."""
        return self._at_source(start), self._at_target(start)

    def _at_source(self, start: Offset) -> Iterator[PlacedRecord]:
        stream = PartitionStream(self._source, self._ask.source, start, self._end)
        for batch in Origin(self.ids, 0, 0, 0).of_site(stream):
            epoch = _epoch_of(batch)
            for row in batch.rows(start, self._end):
                yield PlacedRecord(row[0], self._content(row), epoch)

    def _at_target(self, start: Offset) -> Iterator[PlacedRecord]:
        known, end = self._ask.known, self._ask.end
        first = max(known.target_of(start), self._first)
        place = self._landed.place_of(first)
        number = self._landed.before(place)
        stream = PartitionStream(self._target, self._ask.target, place, self._log.end)
        origin = Origin(self.ids, place, self._log.end, number, to_end=False)
        for batch in OwnRecords(stream, origin, first, end):
            for row in batch.rows(first, end):
                yield PlacedRecord(known.source_of(row[0]), self._content(row))

    def _content(self, row: ConsumedRecord) -> Hashable:
        _, timestamp_ms, key, value, headers = row
        if self._hides_ids:
            key, value = without_id(key), without_id(value)
            return timestamp_ms, key, value, headers_without_ids(tuple(headers))
        return timestamp_ms, key, value, tuple(headers)


def _epoch_of(batch: Batch) -> int:
    if len(batch.data) < HEADER_BYTES:
        return -1
    (epoch,) = EPOCH.unpack_from(batch.data, EPOCH_AT)
    return int(epoch)
