"""Where a link's source ended when its lanes last saw it, once nobody can ask it any more.

Lanes go on reporting the end that they saw last, and that it is old; when it was seen stands in an
earlier report. The topic of reports holds an hour: later on that is known no more.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import closing

from heliostat.access import Reachable
from heliostat.clusters.foreign_records import NOT_A_ROW
from heliostat.clusters.recent_records import RecentRecords
from heliostat.handover.promotion import SourceSeen
from heliostat.names import LinkName, Offset, TopicPartition
from heliostat.records.copier.lane import PartitionReport
from heliostat.records.transport.progress_reports import decode_progress
from heliostat.state_topics import progress_topic
from heliostat.status.board import LANE_PREFIX

BACK_S = (40.0, 120.0, 300.0, 600.0, 1200.0, 2400.0, 3600.0)
"""How far reading goes back, step by step: a source that is gone leaves few reports."""
NOT_SEEN_MS = -1


class EndsSeen:
    """The ends of a source's logs, by reports in any order. No I/O; not thread-safe.

    Of reports that a lane wrote while it could ask the source the latest counts: a source that lost
    records ends earlier than it did.
    """

    def __init__(self) -> None:
        self.ends: dict[TopicPartition, SourceSeen] = {}

    def take(self, item: PartitionReport, at_ms: int) -> None:
        """Take a lane's report of a partition, written at `at_ms`."""
        end = Offset(max(item.high_watermark, item.position))
        if item.high_watermark < 0:
            return
        seen_ms = NOT_SEEN_MS if item.is_end_old else at_ms
        before = self.ends.get(item.source)
        if before is None or seen_ms > before.at_ms:
            self.ends[item.source] = SourceSeen(end, seen_ms)
        elif before.at_ms == NOT_SEEN_MS and end > before.end:
            self.ends[item.source] = SourceSeen(end, NOT_SEEN_MS)

    def are_known(self, partitions: Iterable[TopicPartition]) -> bool:
        """Return whether it is known of all these when they were seen."""
        return all(
            place in self.ends and self.ends[place].at_ms != NOT_SEEN_MS for place in partitions
        )


def ends_seen(
    link: LinkName,
    target: Reachable,
    partitions: Collection[TopicPartition],
    is_over: Callable[[], bool],
) -> Mapping[TopicPartition, SourceSeen]:
    """Return where these source partitions ended when they were last seen, as far as is known.

    Parameters
    ----------
    is_over
        Returns whether to go back no further: what was read until then is returned.

    Raises
    ------
    ConnectionLost, BrokerError
        The target does not answer.
    """
    ends, wanted = EndsSeen(), set(partitions)
    with closing(RecentRecords(target, progress_topic(link))) as progress:
        newest = progress.newest() if progress.exists() else None
        if newest is None:
            return {}
        newest_ms, end = newest
        for back_s in BACK_S:
            begin = progress.seek(newest_ms - int(back_s * 1000))
            if begin < end:
                _read(progress, end, ends, wanted)
                end = begin
            if is_over() or ends.are_known(wanted):
                break
    return {place: source_end for place, source_end in ends.ends.items() if place in wanted}


def _read(
    progress: RecentRecords, end: Offset, ends: EndsSeen, wanted: Collection[TopicPartition]
) -> None:
    topics = {place.topic for place in wanted}
    for record in progress.read_to(end):
        if not record.key.startswith(LANE_PREFIX):
            continue
        try:
            own = [topic for topic in record.value["topics"] if topic[0] in topics]
            lane_progress = decode_progress({**record.value, "topics": own})
        except NOT_A_ROW:
            continue  # whoever shows the status tells it
        for item in lane_progress.report.partitions:
            ends.take(item, lane_progress.at_ms)
