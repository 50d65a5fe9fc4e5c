"""What lies in a history topic: it comes back as it was, is small, and odd records are told."""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from heliostat.clusters.foreign_records import NOT_A_ROW
from heliostat.clusters.log_writer import NewRecord, _batch
from heliostat.clusters.wire.lent import WrittenTopic
from heliostat.names import PartitionId, ProducerId, TopicName, TopicPartition
from heliostat.status.history import Point
from heliostat.status.history_minutes import BUSIEST, Figures, HistoryMinutes, Record
from heliostat.status.history_positions import LEARNT_AFTER
from heliostat.status.history_records import (
    TOPICS_KEY,
    LinkMinute,
    PastEvent,
    TopicsMinute,
    decode_link,
    decode_topics,
    encode_link,
    encode_topics,
)
from heliostat.status.latencies import Percentiles
from heliostat.status.past import TopicLine
from heliostat.status.reports import Copied
from heliostat.status.values import LinkStatus, TopicStatus

DAY_BYTES_MAX = 50_000_000
REPLICAS = 3
EFD_TOPICS = 3_348
HOUR_MS = 3_600_000
BEGIN_MS = 1_700_000_000_000 // HOUR_MS * HOUR_MS
POINT = Point(BEGIN_MS, 10.0, 100.0, 1, 0.5, 2.0, 9.0, "running")


def test_a_minute_of_a_link_comes_back_as_it_was() -> None:
    unknown = replace(POINT, lag_records=None, lag_s=None, latency_p50_ms=None)
    minute = LinkMinute(POINT, (unknown, POINT), (PastEvent(3, "WARN", "t-0 is blocked"),))
    assert decode_link(encode_link(minute)) == minute


@pytest.mark.parametrize("about", [(), ("t", 3, "X"), ("t", None, ""), ("t", 3, "X", "later")])
def test_what_an_event_is_about_comes_back_of_any_version(about: tuple[Any, ...]) -> None:
    row = (3, "WARN", "text", *about)
    value = encode_link(LinkMinute(POINT, (), (row,)))  # type: ignore[arg-type]  # of a version
    assert decode_link(value).events == (PastEvent(*row[:6]),)


def test_topics_come_back_to_three_digits_all_or_one() -> None:
    points = {
        "b": replace(POINT, records_per_s=1234.567, lag_records=None, state="gap"),
        "a": POINT,
        "ab": replace(POINT, lag_records=123_456_789, lag_s=None),
    }
    value = encode_topics(TopicsMinute(POINT.at_ms, True, points))
    minute = decode_topics(value)
    assert minute.points.keys() == points.keys()
    assert minute.is_tick
    assert minute.points["a"] == POINT
    assert minute.points["b"].records_per_s == pytest.approx(1234.567, rel=1e-3)
    assert minute.points["b"].state == "gap"
    assert minute.points["b"].lag_records is None
    assert minute.points["ab"].lag_records == pytest.approx(123_456_789, rel=1e-3)
    for name in points:
        assert decode_topics(value, (name,)).points == {name: minute.points[name]}
    assert not decode_topics(value, ("c", "", "a\nab")).points.keys() & {"c", ""}
    assert not decode_topics(encode_topics(TopicsMinute(7, False, {})), ("a",)).points


def _odd_values() -> Iterator[bytes | None]:
    good = encode_topics(TopicsMinute(POINT.at_ms, True, {"a": POINT}))
    link = encode_link(LinkMinute(POINT))
    yield from (None, b"", b"\x01", b'{"a": 1}', b"\x02" + good[1:], good[:-4], link[:-4])
    yield from (b"\x01" + zlib.compress(text) for text in (b"", b"[]", b"7\n", b"{}\n", b"\xff\n"))
    head = b'{"at_ms":1,"tick":true,"count":9,"names":1,"states":[],"columns":[]}\na'
    yield from (b"\x01" + zlib.compress(head), b"\x01" + zlib.compress(bytes(9 << 20)))


@pytest.mark.parametrize("value", list(_odd_values()))
def test_what_is_no_row_raises_what_readers_tell_of(value: bytes | None) -> None:
    for decode in (decode_link, decode_topics):
        with pytest.raises(NOT_A_ROW):
            decode(value)


def test_damaged_rows_raise_nothing_else() -> None:
    chance = random.Random(3)
    good = zlib.decompress(encode_topics(TopicsMinute(POINT.at_ms, True, {"a": POINT}))[1:])
    for _ in range(2_000):
        content = bytearray(good)
        content[chance.randrange(len(good))] = chance.randrange(256)
        value = b"\x01" + zlib.compress(bytes(content), 1)
        for only in (None, ("a",)):
            try:
                decode_topics(value, only)
            except NOT_A_ROW:
                continue


class Efd:
    """An EFD's topics: half are silent, a few are busy, and all lags and latencies waver."""

    def __init__(self) -> None:
        self.chance = random.Random(7)
        chance, systems = self.chance, [f"CSC{number}" for number in range(60)]
        self.names = [
            f"lsst.sal.{chance.choice(systems)}.logevent_{chance.getrandbits(40):x}"
            for _ in range(EFD_TOPICS)
        ]
        self.rates = [
            0.0 if number % 2 else min(100.0, chance.paretovariate(0.6) * 0.05)
            for number in range(EFD_TOPICS)
        ]
        self.copied: Copied = {
            TopicPartition(TopicName(name), PartitionId(0)): (0, 0) for name in self.names
        }

    def figures(self, at_ms: int, seconds: float = 5.0) -> Figures:
        """Return what is seen after so many seconds more."""
        chance, topics = self.chance, list[TopicStatus]()
        for (key, sums), rate in zip(self.copied.items(), self.rates, strict=True):
            mean = rate * seconds
            count = max(0, round(chance.gauss(mean, mean**0.5)))
            if count:
                self.copied[key] = sums[0] + count, sums[1] + count * chance.randint(200, 900)
            lag, age = (chance.randint(0, 3), chance.random()) if count else (0, None)
            row = TopicStatus(key.topic, key.topic, 1, rate, rate * 500, lag, age, {"copying": 1})
            topics.append(row)
        waver = chance.random
        status = LinkStatus(
            *("efd", at_ms, "running", topics, EFD_TOPICS, 3_000 * waver(), 1e6 * waver()),
            *(chance.randint(0, 300), waver(), 50 * waver(), 500 * waver()),
            *({"copying": EFD_TOPICS}, [], {}, [], [], {}),
        )
        copied = dict(self.copied)
        positions = {place: records for place, (records, _) in copied.items()}
        return Figures(status, lambda: copied, self._latencies, lambda: positions)

    def _latencies(self) -> dict[TopicName, Percentiles]:
        exact = self.chance.randint
        return {
            TopicName(name): Percentiles(2.0 ** exact(2, 5), 2.0 ** exact(4, 9), 1, 1, 1)
            for name, rate in zip(self.names, self.rates, strict=True)
            if rate > 0.01
        }


def _batch_bytes(records: list[Record]) -> int:
    rows = [NewRecord(key, value) for key, value in records]
    batch, count = _batch(WrittenTopic(producer_id=ProducerId(7)), rows, 1 << 20)
    assert count == len(rows)
    return len(batch)


def test_a_day_of_an_efd_fits_its_bound_on_all_replicas() -> None:
    efd, minutes = Efd(), HistoryMinutes()
    written: dict[str, list[int]] = {"first": [], "hour": [], "ten": [], "minute": []}
    counts: list[int] = []
    for minute in range(22):
        records = minutes.take(efd.figures(BEGIN_MS + minute * 60_000, 60.0))
        if not records:
            continue
        (_, link), (_, topics), _ = records
        kind = "hour" if minute == 1 else "minute" if minute % 10 != 1 else "ten"
        if kind == "minute" and minute <= LEARNT_AFTER + 2:
            kind = "first"  # of a driver, which does not know yet which partitions move
        written[kind].append(_batch_bytes(records) + (12 - 1) * len(link))  # 12 points, not one
        counts.append(len(decode_topics(topics).points))
    _, hour, ten, one = (sum(sizes) / len(sizes) for sizes in written.values())
    day_bytes = 24 * (hour + 5 * ten + 54 * one)
    assert REPLICAS * day_bytes <= DAY_BYTES_MAX, f"{day_bytes / 1e6:.1f} MB a day"
    assert counts[0] == EFD_TOPICS
    assert max(counts[1:9]) <= BUSIEST
    assert EFD_TOPICS / 4 < counts[10] < EFD_TOPICS, "what does not change is not written"


def _taken(minutes: HistoryMinutes, minute: int, copied: Copied, lag: int = 0) -> list[Record]:
    """Take a minute of a link with the topics `busy` and `idle`."""
    topics = [
        TopicStatus("busy", "busy", 1, 5.0, 50.0, lag, None, {"copying": 1}),
        TopicStatus("idle", "idle", 1, 0.0, 0.0, 0, None, {"copying": 1}),
    ]
    status = LinkStatus(
        *("l", BEGIN_MS + minute * 60_000, "running", topics, 2, 5.0, 50.0, lag, None, 1.0, 2.0),
        *({"copying": 2}, [], {}, [], [], {}),
    )
    return minutes.take(Figures(status, lambda: copied, dict))


def _line(records: list[Record], topic: str) -> list[Point]:
    line = TopicLine()
    for key, value in records:
        if key == TOPICS_KEY:
            line.take(decode_topics(value), topic)
    return line.points


def test_a_topics_rate_is_that_of_its_minute_and_an_idle_one_has_a_point_each_ten() -> None:
    minutes, records = HistoryMinutes(), list[Record]()
    busy = TopicPartition(TopicName("busy"), PartitionId(0))
    for minute in range(32):
        records += _taken(minutes, minute, {busy: (1_000 + 60 * minute * minute, 0)})
    rates = [point.records_per_s for point in _line(records, "busy")]
    assert rates[:4] == [1.0, 3.0, 5.0, 7.0], "what was copied before it began is not counted"
    idle = _line(records, "idle")
    assert [(point.at_ms - BEGIN_MS) // 60_000 for point in idle] == [0, 10, 20, 30]
    assert {point.records_per_s for point in idle} == {0.0}


def test_a_time_of_which_nothing_was_written_shows_as_such_and_twice_written_rows_once() -> None:
    first = _taken(HistoryMinutes(), 0, {}) or _two_minutes(0)
    points = _line([*first, *first, *_two_minutes(60)], "busy")
    assert [point.state for point in points] == ["copying", "unknown", "unknown", "copying"]


def _two_minutes(minute: int) -> list[Record]:
    minutes = HistoryMinutes()
    _taken(minutes, minute, {})
    return _taken(minutes, minute + 1, {})


def test_events_are_written_with_their_minute_and_of_very_many_the_rest_is_counted() -> None:
    minutes = HistoryMinutes()
    _taken(minutes, 0, {})
    minutes.add_events(PastEvent(number, "INFO", "x" * 5_000) for number in range(300))
    (_, value), _ = _taken(minutes, 1, {})
    events = decode_link(value).events
    assert len(events) == 201
    assert events[-1].text == "100 more events are not kept"
    (_, value), _ = _taken(minutes, 2, {})
    assert not decode_link(value).events
