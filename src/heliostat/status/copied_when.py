"""When a record was copied, by what lanes reported in the last hour: nothing is kept for it.

A position never goes back, so the report that first passed an offset is searched for by halving.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Protocol

from heliostat.access import Reachable
from heliostat.clusters.foreign_records import NOT_A_ROW
from heliostat.clusters.recent_records import Recent, RecentRecords
from heliostat.names import LinkName, Offset, TopicPartition
from heliostat.records.transport.progress_reports import (
    MOVED_EVERY_S,
    MOVED_MAX,
    REFRESH_S,
    decode_progress,
)
from heliostat.state_topics import progress_topic
from heliostat.status.board import LANE_PREFIX

HOUR_S = 3_600
NARROW_S = REFRESH_S + 10.0
"""Within this every partition of a running link is reported."""
TOLD_WITHIN_S = MOVED_EVERY_S + 1.5
"""A lane reports within this that a partition has moved, and reports each second."""
GAP_S = 3.0
"""A lane that was silent for longer may have noticed something long before it told it."""
POLL_S = 0.5


@dataclass(frozen=True, slots=True)
class Sighting:
    """One report of the lanes, and what it tells of one partition.

    Parameters
    ----------
    position
        Next source offset to copy; -1: the report does not tell it.
    reported
        Partitions of which it tells something.
    """

    at_s: float
    lane: int
    position: int
    reported: frozenset[tuple[str, int]] = field(default_factory=frozenset)


def copied_between(sightings: Iterable[Sighting], offset: Offset) -> tuple[float, float] | None:
    """Return the times between which a record was copied; None: no report has passed it.

    The first is 0 if no report from before is among them. A lane writes all that has moved at once,
    unless that is much: then each partition within `MOVED_EVERY_S`.

    Parameters
    ----------
    sightings
        Reports of one link in order.
    offset
        Source offset of the record.
    """
    rows = list(sightings)
    place = next((n for n, row in enumerate(rows) if row.position > offset), None)
    if place is None:
        return None
    first = rows[place]
    before = [row.at_s for row in rows[:place] if row.position >= 0]
    if not before:
        return 0.0, first.at_s
    lane = [row for row in rows if row.lane == first.lane]
    times = [row.at_s for row in lane if row.at_s < first.at_s]
    since_s = before[-1]
    began_s = first.at_s - TOLD_WITHIN_S
    if times and _is_steady([at_s for at_s in (*times, first.at_s) if at_s >= began_s - GAP_S]):
        since_s = max(since_s, began_s)
        window = [row for row in lane if times[-1] <= row.at_s <= times[-1] + TOLD_WITHIN_S]
        is_whole = lane[-1].at_s >= times[-1] + TOLD_WITHIN_S
        if is_whole and len(frozenset().union(*(row.reported for row in window))) <= MOVED_MAX:
            since_s = max(since_s, times[-1])
    return min(since_s, first.at_s), first.at_s


def _is_steady(times: list[float]) -> bool:
    return len(times) > 1 and all(b - a <= GAP_S for a, b in pairwise(times))


class Progress(Protocol):
    """What is read of a link's progress topic, as `RecentRecords` gives it."""

    def newest(self) -> tuple[int, Offset] | None:
        """When the newest record was written (ms), and the topic's end."""

    def seek(self, from_ms: int) -> object:
        """Begin with the first record from then on."""

    def poll(self, timeout_s: float) -> list[Recent]:
        """Records since the last poll."""


def read_copied_between(
    link: LinkName, target: Reachable, partition: TopicPartition, offset: Offset
) -> tuple[float, float] | None:
    """Return the times between which a record was copied, by a link's reports at its target.

    Raises
    ------
    ConnectionLost
        The target does not answer.
    """
    with closing(RecentRecords(target, progress_topic(link))) as progress:
        return search(progress, partition, offset) if progress.exists() else None


def search(
    progress: Progress, partition: TopicPartition, offset: Offset
) -> tuple[float, float] | None:
    """Return the times between which a record was copied, of a progress topic."""
    newest = progress.newest()
    if newest is None:
        return None
    newest_ms, end = newest
    low_s, high_s = newest_ms / 1000 - HOUR_S, newest_ms / 1000
    while high_s - low_s > NARROW_S:
        middle_s = (low_s + high_s) / 2
        sighting = next(_told(progress, partition, middle_s, end), None)
        if sighting is None or sighting.position > offset:
            high_s = middle_s
        else:
            low_s = max(middle_s, min(sighting.at_s, high_s))
    sightings: list[Sighting] = []
    passed_s: float | None = None
    for row in _sightings(progress, partition, low_s - NARROW_S, end):
        sightings.append(row)
        if passed_s is None and row.position > offset:
            passed_s = row.at_s
        if passed_s is not None and row.at_s > passed_s + 2 * TOLD_WITHIN_S:
            break
    return copied_between(sightings, offset)


def _told(
    progress: Progress, partition: TopicPartition, from_s: float, end: Offset
) -> Iterator[Sighting]:
    return (row for row in _sightings(progress, partition, from_s, end) if row.position >= 0)


def _sightings(
    progress: Progress, partition: TopicPartition, from_s: float, end: Offset
) -> Iterator[Sighting]:
    """Yield the lanes' reports written from a time on, up to the topic's end."""
    progress.seek(int(from_s * 1000))
    while True:
        records = progress.poll(POLL_S)
        for record in records:
            row = _sighting(record, partition)
            if row is not None:
                yield row
        if not records or records[-1].offset >= end - 1:
            return


def _sighting(record: Recent, partition: TopicPartition) -> Sighting | None:
    """Return what a record tells; None if it is no lane's report."""
    if not record.key.startswith(LANE_PREFIX):
        return None
    try:
        topics = record.value["topics"]
        own = [topic for topic in topics if topic[0] == partition.topic]
        progress = decode_progress({**record.value, "topics": own})
        reported = frozenset((topic[0], _number(row)) for topic in topics for row in topic[2])
    except NOT_A_ROW:
        return None  # whoever shows the status tells it
    rows = progress.report.partitions
    position = next((row.position for row in rows if row.source == partition), -1)
    return Sighting(progress.at_ms / 1000, progress.report.lane, position, reported)


def _number(row: Any) -> int:
    number = row[0][0] if isinstance(row[0], list) else row[0]
    return int(number)
