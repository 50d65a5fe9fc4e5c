"""Limits and priorities in a lane, by the production `Copier` over a simulated line.

A limited topic keeps its limit and holds up no other one; topics of high priority keep their
latency while others catch up.
"""

from __future__ import annotations

import pytest
from sim.limited_world import LimitedScene

from heliostat.names import TopicName
from heliostat.records.copier.lane_limits import ByteLimits, Priority

MB = 1_000_000
NORMAL, HIGH = Priority.NORMAL, Priority.HIGH


def limit_of(topic: str, rate: int) -> ByteLimits:
    return ByteLimits(topics=((TopicName(topic), rate),))


def percentile(ages_ms: list[int], share: float) -> int:
    return ages_ms[int(share * (len(ages_ms) - 1))]


def quiet_ages(priority: Priority = NORMAL) -> list[int]:
    scene = LimitedScene({"live": priority, "slow": NORMAL}, ByteLimits())
    scene.run(5.0, "live")
    return scene.ages_ms("live")


@pytest.mark.parametrize(
    ("rate", "batch", "partitions"),
    [
        (2 * MB, 16_000, 3),
        (2 * MB, 150_000, 2),
        pytest.param(20 * MB, 100_000, 1, marks=pytest.mark.thorough),
    ],
)
def test_a_limited_topic_keeps_its_limit_and_others_their_latency(
    rate: int, batch: int, partitions: int
) -> None:
    """Given a backlog of a limited topic / then it is copied at its limit, whatever its batches,

    in little memory, and another topic's records arrive as soon as without it.
    """
    quiet = quiet_ages()
    scene = LimitedScene(
        {"live": NORMAL, "slow": NORMAL}, limit_of("slow", rate), partitions=partitions
    )
    scene.write("slow", batch, count=13 * rate // batch // partitions)
    scene.run(12.0, "live")
    for since_s in (0.0, 1.0, 1.5):
        copied = scene.bytes_of("slow", since_s, since_s + 10.0)
        assert copied == pytest.approx(10 * rate, rel=0.05), since_s
    assert scene.network.largest < max(4 * MB, rate // 2)
    assert percentile(scene.ages_ms("live"), 0.99) <= 1.5 * percentile(quiet, 0.99)
    scene.checked()


def test_a_limit_changes_while_it_is_copied_and_none_lifts_it() -> None:
    scene = LimitedScene({"slow": NORMAL}, limit_of("slow", 2 * MB))
    scene.write("slow", 50_000, count=3_000)
    scene.run(5.0)
    scene.limits = limit_of("slow", 4 * MB)
    scene.run(5.0)
    assert scene.bytes_of("slow", 0.0, 5.0) == pytest.approx(10 * MB, rel=0.08)
    assert scene.bytes_of("slow", 5.0, 10.0) == pytest.approx(20 * MB, rel=0.08)
    scene.limits = ByteLimits()
    scene.run(5.0)
    assert scene.bytes_of("slow") == pytest.approx(3_000 * 50_000, rel=0.01)
    scene.checked()


def test_a_link_is_limited_as_a_whole() -> None:
    """Given backlogs of two topics / then the link's limit holds for both together, and each gets

    something of it.
    """
    scene = LimitedScene({"one": NORMAL, "two": NORMAL}, ByteLimits(link=3 * MB), partitions=3)
    for topic in ("one", "two"):
        scene.write(topic, 20_000, count=1_000)
    scene.run(11.0)
    parts = [scene.bytes_of(topic, 0.5, 10.5) for topic in ("one", "two")]
    assert sum(parts) == pytest.approx(30 * MB, rel=0.05)
    assert min(parts) > 5 * MB
    scene.checked()


def test_live_records_under_a_limit_that_is_not_reached_are_not_late() -> None:
    quiet = quiet_ages()
    scene = LimitedScene({"live": NORMAL, "slow": NORMAL}, limit_of("live", MB))
    scene.run(5.0, "live")
    assert len(scene.ages_ms("live")) == len(quiet)
    assert percentile(scene.ages_ms("live"), 0.99) <= 1.5 * percentile(quiet, 0.99)


def test_one_batch_may_be_larger_than_what_the_limit_allows_at_once() -> None:
    scene = LimitedScene({"slow": NORMAL}, limit_of("slow", 100_000))
    scene.write("slow", 200_000, count=30)
    scene.run(41.0)
    assert scene.bytes_of("slow", 0.0, 40.0) == pytest.approx(4 * MB, rel=0.1)


@pytest.mark.parametrize("limits", [ByteLimits(), ByteLimits(link=25 * MB)])
def test_high_priority_keeps_its_latency_while_others_catch_up(limits: ByteLimits) -> None:
    quiet = quiet_ages(HIGH)
    scene = LimitedScene({"live": HIGH, "old": NORMAL}, limits, partitions=2)
    scene.write("old", 100_000, count=1_500)
    scene.run(5.0, "live", every_s=0.02)
    assert scene.bytes_of("old") > 50 * MB
    ages_ms = scene.ages_ms("live")
    assert len(ages_ms) > 200
    assert percentile(ages_ms, 0.99) <= 2 * percentile(quiet, 0.99)
    scene.checked()
