"""A link's figures, taken each five seconds and cut into the records of its history; pure.

Each minute has one record of the link, and one of topics: of the busiest and the worst, each ten
minutes of all others that have changed, and each hour of all, so that who reads some hours knows
those that never change. What happens has records of its own, so that who follows it need not wait.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from heliostat.names import TopicName, TopicPartition
from heliostat.records.copier.lane import PartitionState
from heliostat.status.history import Point, merged, point_of
from heliostat.status.history_positions import POSITIONS_KEY, PositionMinutes
from heliostat.status.history_records import (
    EVENTS_KEY,
    LINK_KEY,
    TOPICS_KEY,
    LinkMinute,
    PastEvent,
    TopicsMinute,
    encode_events,
    encode_link,
    encode_topics,
    kept_exactly,
)
from heliostat.status.latencies import Percentiles
from heliostat.status.order import ordered
from heliostat.status.reports import Copied
from heliostat.status.values import LinkStatus, TopicStatus

MINUTE_MS, TICK_MS, HOUR_MS = 60_000, 600_000, 3_600_000
WORST, BUSIEST = 100, 200
"""Topics of each minute: at most so many, the worst of them first."""
TOPICS_MAX = 5_000
"""Topics of one record: some 100 kB of the 1 MiB that it may have."""
EVENTS_MAX = 200
"""Events of a minute."""
TEXT_MAX = 1_000
"""Characters of an event."""
STATE_ORDER = tuple(state.value for state in reversed(PartitionState))
"""A topic's state is that of its worst partition."""

Latencies = Mapping[TopicName, Percentiles]
Record = tuple[bytes, bytes]
_Written = tuple[float | str, ...]


class Figures(NamedTuple):
    """What is taken of a link at one moment; topics are asked for once a minute."""

    status: LinkStatus
    copied: Callable[[], Copied]
    """Records and bytes copied so far."""
    latencies: Callable[[], Latencies]
    """Latencies by topic of the last minute."""
    positions: Callable[[], Mapping[TopicPartition, int]] = dict
    """Next source offsets to copy."""


class _Sums(NamedTuple):
    """Records and bytes copied so far by topic, and when that was."""

    at_ms: int
    copied: Mapping[str, tuple[int, int]]

    def rates(self, since: _Sums, topic: str) -> tuple[float, float]:
        """Return records and bytes a second since earlier ones."""
        seconds = max(1.0, (self.at_ms - since.at_ms) / 1000)
        records, size = self.copied.get(topic, (0, 0))
        before = since.copied.get(topic, (0, 0))
        return max(0, records - before[0]) / seconds, max(0, size - before[1]) / seconds


class HistoryMinutes:
    """Cuts the figures of one link into records. Not thread-safe."""

    def __init__(self) -> None:
        self._fine: list[Point] = []
        self._events: list[PastEvent] = []
        self._events_of_minute = self._unwritten_events = 0
        self._minute_sums = self._tick_sums = _Sums(0, {})
        self._tick = self._hour = -1
        self._positions = PositionMinutes()
        self._written: dict[str, _Written] = {}
        """Each topic's figures as written last."""

    def add_events(self, events: Iterable[PastEvent]) -> None:
        """Add what happened; of very many in a minute the first are kept, and the rest counted."""
        for event in events:
            if self._events_of_minute < EVENTS_MAX:
                self._events.append(event._replace(text=event.text[:TEXT_MAX]))
                self._events_of_minute += 1
            else:
                self._unwritten_events += 1

    def new_events(self) -> list[Record]:
        """Return the record of the events that no record has yet, if there are any."""
        events, self._events = self._events, []
        return [(EVENTS_KEY, encode_events(events))] if events else []

    def take(self, figures: Figures) -> list[Record]:
        """Take a moment; return the records of the minute that it ends, if it is the next one's."""
        point = point_of(figures.status)
        if not self._minute_sums.at_ms:  # what was copied before is no figure of this minute
            sums = _Sums(point.at_ms, _by_topic(figures.copied()))
            self._minute_sums = self._tick_sums = sums
        is_next = bool(self._fine) and point.at_ms // MINUTE_MS != self._fine[0].at_ms // MINUTE_MS
        records = self._cut(figures) if is_next else []
        self._fine.append(point)
        return records

    def end(self, figures: Figures) -> list[Record]:
        """Take the last moment, of a link that stops; return the records of what was not."""
        self._fine.append(replace(point_of(figures.status), state="no_owner"))
        return self._cut(figures)

    def _cut(self, figures: Figures) -> list[Record]:
        minute = LinkMinute(merged(self._fine), tuple(self._fine), tuple(self._last_events()))
        topics = self._topics(figures, self._fine[-1].at_ms)
        positions = self._positions.take(figures.positions(), figures.status.at_ms)
        self._fine = []
        return [
            (LINK_KEY, encode_link(minute)),
            *((TOPICS_KEY, encode_topics(part)) for part in _parts(topics)),
            *(() if positions is None else [(POSITIONS_KEY, positions)]),
        ]

    def _last_events(self) -> list[PastEvent]:
        events, more = self._events, self._unwritten_events
        self._events, self._unwritten_events, self._events_of_minute = [], 0, 0
        if more:
            text = f"{more} more events are not kept"
            events.append(PastEvent(self._fine[-1].at_ms, "WARN", text))
        return events

    def _topics(self, figures: Figures, at_ms: int) -> TopicsMinute:
        topics = figures.status.topics
        worst = ordered(topics, "lag")[:WORST]
        chosen = {topic.source for topic in worst if _is_worth_it(topic)}
        for topic in ordered(topics, "rate"):
            if len(chosen) >= BUSIEST or not topic.records_per_s:
                break
            chosen.add(topic.source)
        sums = _Sums(figures.status.at_ms, _by_topic(figures.copied()))
        is_tick, is_hour = at_ms // TICK_MS != self._tick, at_ms // HOUR_MS != self._hour
        latencies, points = figures.latencies(), dict[str, Point]()
        for topic in topics:
            name, is_chosen = topic.source, topic.source in chosen
            if not (is_chosen or is_tick):
                continue
            rates = sums.rates(self._minute_sums if is_chosen else self._tick_sums, name)
            point = _point_of_topic(topic, at_ms, rates, latencies.get(TopicName(name)))
            written = _as_written(point)
            if is_hour or written != self._written.get(name):
                points[name], self._written[name] = point, written
        self._minute_sums = sums
        if is_tick:
            self._tick_sums = sums
            gone = self._written.keys() - {topic.source for topic in topics}
            for name in gone:
                del self._written[name]
        self._tick, self._hour = at_ms // TICK_MS, at_ms // HOUR_MS
        return TopicsMinute(at_ms, is_tick, points)


def _parts(minute: TopicsMinute) -> Iterator[TopicsMinute]:
    """Yield a minute in parts that fit a record."""
    rows = list(minute.points.items())
    for place in range(0, max(1, len(rows)), TOPICS_MAX):
        yield replace(minute, points=dict(rows[place : place + TOPICS_MAX]))


def _is_worth_it(topic: TopicStatus) -> bool:
    is_troubled = topic.states.keys() - {PartitionState.COPYING.value}
    return bool(is_troubled or topic.lag_records or topic.lag_records is None)


def _by_topic(copied: Copied) -> dict[str, tuple[int, int]]:
    sums: dict[str, tuple[int, int]] = {}
    partition: TopicPartition
    for partition, (records, size) in copied.items():
        before = sums.get(partition.topic, (0, 0))
        sums[partition.topic] = (before[0] + records, before[1] + size)
    return sums


def _point_of_topic(
    topic: TopicStatus, at_ms: int, rates: tuple[float, float], latency: Percentiles | None
) -> Point:
    state = next((state for state in STATE_ORDER if topic.states.get(state)), "unknown")
    return Point(
        at_ms,
        *rates,
        topic.lag_records,
        topic.lag_s,
        None if latency is None else latency.p50_ms,
        None if latency is None else latency.p99_ms,
        state,
    )


def _as_written(point: Point) -> _Written:
    """Return what two points must share so that the later is not written."""
    figures = (
        point.records_per_s,
        point.bytes_per_s,
        point.lag_records,
        point.lag_s,
        point.latency_p50_ms,
        point.latency_p99_ms,
    )
    kept = (kept_exactly(figure) for figure in figures)
    return (*(-1.0 if math.isnan(figure) else figure for figure in kept), point.state)
