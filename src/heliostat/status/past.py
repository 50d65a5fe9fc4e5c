"""Reads a link's history from its target: the link's own points and events, or one topic's.

It is read as a stream: in memory are one answer of the broker, and the points asked for.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from heliostat.clusters.foreign_records import NOT_A_ROW, ForeignRecords
from heliostat.clusters.log_reader import LogRecord
from heliostat.clusters.past_records import PastRecords
from heliostat.names import Offset, TopicName, TopicPartition
from heliostat.status.history import COARSE_S, FINE_S, Point, merged
from heliostat.status.history_positions import POSITIONS_KEY, Crossing, decode_positions
from heliostat.status.history_records import (
    EVENTS_KEY,
    LINK_KEY,
    TOPICS_KEY,
    PastEvent,
    TopicsMinute,
    decode_events,
    decode_link,
    decode_topics,
)

ALL_WITHIN_MS = 3_700_000
"""Within this, all topics are written once."""


@dataclass(slots=True)
class LinkPast:
    """What a link's history tells of it."""

    fine: list[Point] = field(default_factory=list)
    """Points at 5 s."""
    whole: list[Point] = field(default_factory=list)
    """Points of a minute."""
    events: list[PastEvent] = field(default_factory=list)


def read_link(
    topic: PastRecords, from_ms: int, foreign: ForeignRecords, *, fine_from_ms: int
) -> LinkPast:
    """Return a link's past from a time on, with points at 5 s from another on.

    Raises
    ------
    ConnectionLost, BrokerError
        The target does not answer, or refuses.
    """
    past = LinkPast()
    for record in topic.since(from_ms):
        if record.key in (TOPICS_KEY, POSITIONS_KEY):
            continue
        try:
            if record.key == EVENTS_KEY:
                past.events += _not_before(from_ms, decode_events(record.value))
                continue
            if record.key != LINK_KEY:
                raise KeyError(record.key)  # one way for all that is odd
            minute = decode_link(record.value, fine_from_ms)
        except NOT_A_ROW as error:
            foreign.note(topic.topic, record.offset, record.key, error)
            continue
        if minute.whole.at_ms >= from_ms:
            past.whole.append(minute.whole)
        past.fine += minute.fine
        past.events += _not_before(from_ms, minute.events)
    past.fine = with_breaks(past.fine, FINE_S)
    past.whole = with_breaks(past.whole, COARSE_S)
    past.events = sorted(dict.fromkeys(past.events))
    return past


def _not_before(from_ms: int, events: Iterable[PastEvent]) -> list[PastEvent]:
    return [event for event in events if event.at_ms >= from_ms]


def events_in(
    topic: TopicName, records: Iterable[LogRecord], foreign: ForeignRecords
) -> Iterator[PastEvent]:
    """Yield the events of a history's records, of whichever kind."""
    for record in records:
        try:
            if record.key == EVENTS_KEY:
                yield from decode_events(record.value)
            elif record.key == LINK_KEY:
                yield from decode_link(record.value, sys.maxsize).events
        except NOT_A_ROW as error:
            foreign.note(topic, record.offset, record.key, error)


def read_topic(topic: PastRecords, name: str, from_ms: int, foreign: ForeignRecords) -> list[Point]:
    """Return one topic's points from a time on; raises as `read_link`."""
    line = TopicLine()
    for record in topic.since(from_ms - ALL_WITHIN_MS):
        if record.key in (LINK_KEY, EVENTS_KEY, POSITIONS_KEY):
            continue
        try:
            if record.key != TOPICS_KEY:
                raise KeyError(record.key)  # one way for all that is odd
            minute = decode_topics(record.value, (name,))
        except NOT_A_ROW as error:
            foreign.note(topic.topic, record.offset, record.key, error)
            continue
        line.take(minute, name)
    return [point for point in line.points if point.at_ms >= from_ms]


def read_crossing(
    topic: PastRecords, place: TopicPartition, offset: Offset, from_ms: int, foreign: ForeignRecords
) -> tuple[float, float] | None:
    """Return between which times a record was copied, see `Crossing`; raises as `read_link`."""
    crossing = Crossing(place, offset)
    for record in topic.since(from_ms):
        if record.key == POSITIONS_KEY:
            try:
                crossing.take(decode_positions(record.value))
            except NOT_A_ROW as error:
                foreign.note(topic.topic, record.offset, record.key, error)
    return crossing.between()


BREAK_MS = 150_000
"""Minutes further apart than this: nobody drove the link between them."""


class TopicLine:
    """One topic's points out of minutes, in order."""

    def __init__(self) -> None:
        self.points: list[Point] = []
        self._last: Point | None = None
        self._at_ms = 0

    def take(self, minute: TopicsMinute, topic: str) -> None:
        """Add what a minute tells of it."""
        if minute.at_ms < self._at_ms:
            return  # written twice, as its answer was lost
        if minute.at_ms == self._at_ms:
            self._take_rest(minute.points.get(topic))
            return
        if self._at_ms and minute.at_ms - self._at_ms > BREAK_MS:
            self.points += unknown_between(self._at_ms, minute.at_ms)
            self._last = None
        self._at_ms = minute.at_ms
        point = minute.points.get(topic)
        if point is None and minute.is_tick and self._last is not None:
            point = replace(self._last, at_ms=minute.at_ms)
        if point is not None:
            self.points.append(point)
            self._last = point

    def _take_rest(self, point: Point | None) -> None:
        """Add what a later record of the same minute tells."""
        if point is not None:
            if self.points and self.points[-1].at_ms == point.at_ms:
                self.points.pop()
            self.points.append(point)
            self._last = point


def unknown_between(first_ms: int, second_ms: int) -> tuple[Point, Point]:
    """Return points that show a time of which nothing is known, between two of which it is."""
    nothing = Point(first_ms + 1_000, 0.0, 0.0, None, None, None, None, "unknown")
    return nothing, replace(nothing, at_ms=second_ms - 1_000)


def with_breaks(points: Iterable[Point], step_s: int) -> list[Point]:
    """Return points in order, each moment once, with the times between that nobody noted."""
    series: list[Point] = []
    for point in sorted(points, key=lambda point: point.at_ms):
        if series:
            apart_ms = point.at_ms - series[-1].at_ms
            if apart_ms <= 0:
                continue
            if apart_ms > 2_500 * step_s:
                series += unknown_between(series[-1].at_ms, point.at_ms)
        series.append(point)
    return series


def in_steps(points: Iterable[Point], step_s: int) -> list[Point]:
    """Return a point for each step of time that has any: means of rates, the worst of the rest."""
    steps: dict[int, list[Point]] = {}
    for point in points:
        steps.setdefault(point.at_ms // (step_s * 1000), []).append(point)
    return [merged(some) for _, some in sorted(steps.items())]
