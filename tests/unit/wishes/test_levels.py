"""Limits and priorities as rows, and which of several counts; rates as people write them."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any
from unittest.mock import Mock

import pytest

from heliostat.link.wish_part import Steering, changes_between
from heliostat.names import LaneId, Offset, PartitionId, TopicName, TopicPartition
from heliostat.operate.levels import concerned
from heliostat.records.copier.lane import PartitionSpec
from heliostat.records.copier.lane_limits import ByteLimits, Priority
from heliostat.wishes import levels
from heliostat.wishes.levels import (
    LIMITED_TOPICS_MAX,
    Level,
    Levels,
    Limit,
    Preference,
    Said,
    is_level,
)
from heliostat.wishes.rate import rate_of, rate_text
from heliostat.wishes.wish import Wishes

SAID = Said("ops", 1, "so")
T, U = TopicName("t"), TopicName("u")
HIGH, NORMAL, LOW = Priority.HIGH, Priority.NORMAL, Priority.LOW


def limit(topic: TopicName | None, rate: int | None) -> Limit:
    return Limit(topic, rate, SAID)


def prefer(topics: str, priority: Priority) -> Preference:
    return Preference(topics, priority, SAID)


def taken(*levels: Level) -> Levels:
    found = Levels()
    for each in levels:
        found.take(each.key, each.to_json())
    return found


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("20MB/s", 20_000_000),
        ("1.5 MiB/s", 1_572_864),
        ("500kB/s", 500_000),
        ("2KiB/s", 2_048),
        ("1GB/s", 10**9),
        ("1000B/s", 1_000),
        ("none", None),
    ],
)
def test_a_rate_is_read(text: str, rate: int | None) -> None:
    assert rate_of(text) == rate


@pytest.mark.parametrize(
    "text",
    ["20", "20MB", "20 mb/s", "20KB/s", "MB/s", "-1MB/s", "1e6B/s", "0MB/s", "999B/s", "2000GB/s",
     "20MB/s ", "None", "", "٣MB/s", "20Mb/s", "20MB/min"],
)  # fmt: skip
def test_what_is_no_rate(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no limit|pause"):
        rate_of(text)


@pytest.mark.parametrize(
    ("rate", "text"),
    [(20_000_000, "20 MB/s"), (1_500_000, "1.5 MB/s"), (1_572_864, "1572864 B/s"),
     (1_000, "1 kB/s"), (2_250_000_000, "2.25 GB/s"), (None, "none")],
)  # fmt: skip
def test_a_rate_is_written(rate: int | None, text: str) -> None:
    assert rate_text(rate) == text
    if rate is not None:
        assert rate_of(text) == rate


@pytest.mark.parametrize(
    "level",
    [limit(None, 5_000), limit(T, None), limit(TopicName("a.b-c_1"), 10**12),
     prefer("t", HIGH), prefer("a.*", LOW), prefer("*", NORMAL)],
)  # fmt: skip
def test_a_row_is_read_as_it_was_written(level: Level) -> None:
    assert is_level(level.key)
    assert type(level).from_json(level.key, level.to_json()) == level


ROW: dict[str, Any] = {"bytes_per_second": 5_000, "by": "ops", "at_ms": 1}
PREFERRED: dict[str, Any] = {"priority": "high", "by": "ops", "at_ms": 1}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("limit/", ROW),
        ("limit/a/0", ROW),
        ("limit/a*", ROW),
        ("limit", {**ROW, "bytes_per_second": 1}),
        ("limit", {**ROW, "bytes_per_second": "5MB/s"}),
        ("limit", {**ROW, "bytes_per_second": True}),
        ("limit", {**ROW, "bytes_per_second": 5_000.5}),
        ("limit", {**ROW, "by": 7}),
        ("limit", {"by": "ops", "at_ms": 1}),
        ("priority", PREFERRED),
        ("priority/", PREFERRED),
        ("priority/[a]", PREFERRED),
        ("priority/a", {**PREFERRED, "priority": "urgent"}),
        ("priority/a", {**PREFERRED, "at_ms": "soon"}),
    ],
)
def test_what_is_no_row(key: str, value: dict[str, Any]) -> None:
    """Given garbage / then it is refused, and what was wished before counts on."""
    known = taken(limit(None, 9_000), prefer("a", LOW))
    with pytest.raises((ValueError, LookupError, TypeError)):
        known.take(key, value)
    assert known.limit_of(None) == 9_000
    assert known.priority_of(TopicName("a")) is LOW


def test_limits_of_link_and_topics_are_apart_and_none_lifts_one() -> None:
    known = taken(limit(None, 9_000), limit(U, 2_000), limit(T, 1_000), limit(U, None))
    assert known.byte_limits() == ByteLimits(9_000, ((T, 1_000),))
    copied = known.copy()
    known.take("limit", None)
    assert (known.limit_of(None), copied.limit_of(None)) == (None, 9_000)
    assert known.is_wished(limit(U, None))
    assert not known.is_wished(limit(T, 2_000))


def test_more_topics_than_can_be_limited_are_left_out() -> None:
    known = taken(limit(None, 9_000), *(limit(TopicName(f"t{n:04}"), 1_000) for n in range(200)))
    limits = known.byte_limits()
    assert (limits.link, len(limits.topics)) == (9_000, LIMITED_TOPICS_MAX)


@pytest.mark.parametrize(
    ("levels", "expected"),
    [
        ([], NORMAL),
        ([prefer("a.b", HIGH)], HIGH),
        ([prefer("a.c", HIGH)], NORMAL),
        ([prefer("a.*", HIGH)], HIGH),
        ([prefer("a.*", HIGH), prefer("a.b", LOW)], LOW),
        ([prefer("a.b", LOW), prefer("a.*", HIGH)], HIGH),  # the newest one counts
        ([prefer("a.b", LOW), prefer("a.*", HIGH), prefer("a.b", LOW)], LOW),
        ([prefer("*", LOW), prefer("a.b", NORMAL)], NORMAL),
        ([prefer("aXb", HIGH)], NORMAL),
    ],
)
def test_the_newest_priority_counts(levels: list[Level], expected: Priority) -> None:
    assert taken(*levels).priority_of(TopicName("a.b")) is expected


def test_what_is_wished_already() -> None:
    known = taken(prefer("a", LOW), prefer("*", HIGH))
    assert known.is_wished(prefer("*", HIGH))
    assert not known.is_wished(prefer("a", LOW)), "the newer one covers it"
    assert taken().is_wished(prefer("a", NORMAL))


def test_lanes_are_told_priorities_and_limits() -> None:
    wishes = Wishes()
    given: list[dict[str, Priority]] = []
    limits: list[ByteLimits] = []
    steering = Steering(
        lambda wanted, told: (
            limits.append(told),
            given.append(
                {spec.source.topic: spec.priority for specs in wanted.values() for spec in specs}
            ),
        )[-1],
        lambda: wishes,
        Mock(),
    )
    places = [TopicPartition(TopicName(name), PartitionId(0)) for name in "tu"]
    specs = [
        PartitionSpec(each, each, None, None, Offset(0), 1, is_compacted=False) for each in places
    ]
    steering.assign({LaneId(0): tuple(specs)})
    for level in (prefer("*", LOW), prefer("t", HIGH), limit(U, 5_000)):
        wishes.levels.take(level.key, level.to_json())
    steering.again()
    assert given == [{"t": NORMAL, "u": NORMAL}, {"t": HIGH, "u": LOW}]
    assert limits == [ByteLimits(), ByteLimits(0, ((U, 5_000),))]


def test_changes_are_told_in_a_line_each() -> None:
    before, now = Wishes(), Wishes()
    for level in (limit(None, 20_000_000), limit(T, 5_000), prefer("a.*", HIGH)):
        now.levels.take(level.key, level.to_json())
    assert changes_between(before, now) == [
        "the link is limited to 20 MB/s: ops wishes so, so",
        "t is limited to 5 kB/s: ops wishes so, so",
        "a.* has high priority: ops wishes so, so",
    ]
    assert changes_between(now, before) == [
        "the link has no limit any more",
        "t has no limit any more",
    ]


def test_thousands_of_names_are_looked_up_and_only_patterns_are_compared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Given a pattern amid 3,000 names / when 3,000 topics ask / then each compares it at most."""
    compared: list[str] = []

    def match(name: str, pattern: str) -> bool:
        compared.append(pattern)
        return fnmatchcase(name, pattern)

    monkeypatch.setattr(levels, "fnmatchcase", match)
    names = [TopicName(f"t{n}") for n in range(3_000)]
    old, new = names[:1_500], names[1_500:]
    older, newer = ([prefer(name, LOW) for name in some] for some in (old, new))
    known = taken(*older, prefer("*", HIGH), *newer)
    assert [known.priority_of(name) for name in old] == [HIGH] * len(old)
    assert compared == ["*"] * len(old)
    assert [known.priority_of(name) for name in new] == [LOW] * len(new)
    assert len(compared) == len(old)
    assert concerned(newer, names) == set(new)
    assert len(compared) == len(old)


def test_levels_concern_the_topics_that_they_name() -> None:
    names = [TopicName(name) for name in ("a.b", "a.c", "d")]
    assert concerned([limit(None, 5_000)], names) == set(names)
    assert concerned([limit(names[0], 5_000), limit(TopicName("x"), 5_000)], names) == {"a.b"}
    assert concerned([prefer("a.*", LOW), prefer("d", LOW)], names) == set(names)
