"""Which partitions are fetched apart, how much their answers hold, and when they may be fetched."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from heliostat.names import TopicName
from heliostat.records.copier.lane_buckets import (
    ANSWER_BYTES_MAX,
    ANSWER_BYTES_MIN,
    FAR_ANSWER_BYTES_MAX,
    HIGH,
    LOW,
    SMALL_ANSWER_BYTES,
    UNLIMITED,
    LaneBuckets,
    whole_bytes,
)
from heliostat.records.copier.lane_limits import NO_LIMITS, ByteLimits, LimitUse, Priority

T, U = TopicName("t"), TopicName("u")


def item(index: int, topic: TopicName, priority: Priority = Priority.NORMAL) -> Any:
    source = SimpleNamespace(topic=topic)
    return SimpleNamespace(index=index, spec=SimpleNamespace(source=source, priority=priority))


def test_without_limits_and_priorities_nothing_is_special() -> None:
    buckets = LaneBuckets(NO_LIMITS, 0.0)
    assert buckets.sets([item(0, T), item(1, U)]) == {}
    assert buckets.is_usual
    assert not buckets.are_any
    assert buckets.answer_bytes(0, is_far=False) == UNLIMITED
    assert buckets.uses() == []


def test_a_limited_topic_is_apart_whatever_its_priority() -> None:
    items = [
        item(0, T, Priority.HIGH),
        item(1, U, Priority.HIGH),
        item(2, U, Priority.LOW),
        item(3, U),
    ]
    buckets = LaneBuckets(ByteLimits(topics=((T, 1_000_000),)), 0.0)
    own = buckets.sets(items)[0]
    assert buckets.sets(items) == {0: own, 1: HIGH, 2: LOW}
    assert own not in {HIGH, LOW}
    assert buckets.has_high
    buckets.become(ByteLimits(topics=((U, 1_000_000),)), 1.0)
    other = buckets.sets(items)
    assert other == {0: HIGH, 1: other[1], 2: other[1], 3: other[1]}
    assert other[1] != own, "answers under way are still those of the other topic"


@pytest.mark.parametrize(
    ("rate", "is_far", "size"),
    [
        (1_000, False, ANSWER_BYTES_MIN),
        (2_000_000, False, 1 << 18),
        (500_000_000, False, ANSWER_BYTES_MAX),
        (500_000_000, True, FAR_ANSWER_BYTES_MAX),
    ],
)
def test_an_answer_holds_a_part_of_a_second(rate: int, size: int, *, is_far: bool) -> None:
    buckets = LaneBuckets(ByteLimits(link=rate), 0.0)
    assert buckets.answer_bytes(0, is_far=is_far) == size


def test_beside_high_priority_answers_are_small() -> None:
    buckets = LaneBuckets(ByteLimits(link=500_000_000), 0.0)
    buckets.sets([item(0, T), item(1, U, Priority.HIGH)])
    assert buckets.answer_bytes(0, is_far=False) == SMALL_ANSWER_BYTES
    assert buckets.answer_bytes(HIGH, is_far=False) == ANSWER_BYTES_MAX


def test_debts_are_of_their_sets_and_of_the_link() -> None:
    buckets = LaneBuckets(ByteLimits(1_000_000, ((T, 100_000),)), 0.0)
    own = buckets.sets([item(0, T)])[0]
    buckets.take(own, 525_000, 0.0)
    assert buckets.free_at_s(own) == pytest.approx(5.0)
    assert buckets.free_at_s(0) == pytest.approx(0.275)
    assert buckets.free_at_s(HIGH) < 0.0, "it does not wait for what others used"
    buckets.take(0, 0, 6.0)
    buckets.take(own, 0, 6.0)
    assert buckets.uses() == [LimitUse(None, 525_000, 275), LimitUse(T, 525_000, 5_000)]
    buckets.become(ByteLimits(1_000_000), 6.0)
    assert buckets.free_at_s(own) < 6.0


@pytest.mark.parametrize("cut", [0, 1, 40, 60])
def test_a_batch_that_is_cut_does_not_count(cut: int) -> None:
    whole = b"\0" * 8 + (49).to_bytes(4, "big") + b"\0" * 49
    data = bytearray(b"xx" + whole + whole)
    assert whole_bytes(data, 2, len(data) - cut) == (1 if cut else 2) * len(whole)
    assert whole_bytes(bytearray(20), 0, 20) == 0, "it has no valid length"
