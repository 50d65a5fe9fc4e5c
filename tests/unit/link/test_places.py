"""Lanes that take turns, where there are more than Spark runs at once."""

from __future__ import annotations

from typing import Any

import pytest

from heliostat.config import Config, LinkConfig
from heliostat.errors import SparkUnavailable
from heliostat.link.lane_packing import PIPELINE_LANES
from heliostat.link.pipeline_rules import pipelines_of
from heliostat.link.places import (
    TURN_S,
    Places,
    Turns,
    begins_note,
    few_places_text,
    least_lanes,
    places_note,
)
from heliostat.link.shared_lanes import together
from heliostat.names import LaneId, LinkName, PartitionId, TopicName, TopicPartition
from heliostat.records.copier.lane import PartitionReport, PartitionState, RoundReport

PLAIN = LaneId(0)
SECONDS = 600


def piped(number: int) -> LaneId:
    return LaneId(PIPELINE_LANES * (number + 1))


class Simulated:
    """Lanes whose rounds begin, copy and end as they are told, second by second."""

    def __init__(self, count: int, lanes: list[LaneId]) -> None:
        self.now_s = 0.0
        self.count = count
        self.places = Places(lambda: self.count, lambda: self.now_s)
        self.turns = Turns(LinkName("link"), self.places)
        self.lanes = lanes
        self.running: dict[LaneId, float] = {}
        """Since when."""
        self.begins_s = 3.0
        self.copied_s = dict.fromkeys(lanes, 0.0)
        self.pauses_s = dict.fromkeys(lanes, 0.0)
        """The longest times without copying."""
        self._paused_s = dict.fromkeys(lanes, 0.0)

    def run(self, seconds: int) -> None:
        for _ in range(seconds):
            self.now_s += 1
            for lane in self.lanes:
                if lane not in self.running and self.turns.wait_s(lane, 0.0) == 0.0:
                    self.running[lane] = self.now_s
            assert len(self.running) <= self.count
            for lane in self.lanes:
                if self._copies(lane):
                    self.copied_s[lane] += 1
                    self._paused_s[lane] = 0
                self._paused_s[lane] += 1
                self.pauses_s[lane] = max(self.pauses_s[lane], self._paused_s[lane])
            self._take_turns()

    def _copies(self, lane: LaneId) -> bool:
        return self.now_s >= self.running.get(lane, self.now_s) + self.begins_s

    def _take_turns(self) -> None:
        for lane in list(self.running):
            if self._copies(lane):
                self.places.counts(self.turns._taker(lane), 0.0)
            if self.places.is_over(self.turns._taker(lane)):
                self.end(lane)

    def end(self, lane: LaneId) -> None:
        del self.running[lane]
        self.turns.leave(lane)


@pytest.mark.parametrize(("count", "lanes"), [(2, 6), (4, 13), (1, 3), (4, 4)])
def test_all_lanes_copy_where_there_are_more_than_places(count: int, lanes: int) -> None:
    """Given more pipelines than places / when time passes / then each has had about its share, and

    none has paused longer than all others need.
    """
    simulated = Simulated(count, [piped(each) for each in range(lanes)])
    simulated.run(SECONDS)
    share = min(1, count / lanes) * TURN_S / (TURN_S + 6)
    assert min(simulated.copied_s.values()) > 0.8 * SECONDS * share
    if count < lanes:
        rounds = -(-lanes // count)
        assert max(simulated.pauses_s.values()) <= rounds * (TURN_S + 6)


def test_lanes_without_a_pipeline_keep_their_place() -> None:
    """Given a lane without a pipeline beside more pipelines than places / then it never pauses, and

    when it begins anew it goes on at once.
    """
    simulated = Simulated(2, [piped(0), piped(1), piped(2), PLAIN])
    simulated.run(60)
    assert PLAIN in simulated.running
    since_s = simulated.running[PLAIN]
    simulated.run(300)
    assert simulated.running[PLAIN] == since_s
    simulated.end(PLAIN)
    assert simulated.turns.wait_s(PLAIN, 0.0) == 0.0
    assert min(simulated.copied_s.values()) > 3 * TURN_S


def test_a_lane_without_a_pipeline_gives_up_the_only_place() -> None:
    simulated = Simulated(1, [PLAIN, piped(0)])
    simulated.run(300)
    assert min(simulated.copied_s.values()) > 3 * TURN_S


def test_places_that_come_and_go_are_used() -> None:
    """Given lanes that wait / when there are more places / then they begin; and nobody who has left

    is waited for.
    """
    simulated = Simulated(1, [piped(0), piped(1), piped(2)])
    simulated.run(2)
    assert list(simulated.running) == [piped(0)]
    told = simulated.turns.report(simulated.lanes)
    assert told["waiting"] == {
        "10000": "begins its turn",
        "20000": "waits for its turn",
        "30000": "waits for its turn",
    }
    assert str(told["places"]).startswith("Spark runs 1 lanes at once, and there are 3, ")
    simulated.turns.leave(piped(1))
    simulated.lanes = [piped(0), piped(2)]
    simulated.count = 2
    simulated.run(5)
    assert list(simulated.running) == [piped(0), piped(2)]
    assert simulated.turns.report(simulated.lanes) == {"places": "", "waiting": {}}


@pytest.mark.parametrize("is_dead", [False, True])
def test_rounds_tell_why_there_is_no_place_at_all(*, is_dead: bool) -> None:
    def count() -> int:
        if is_dead:
            raise SparkUnavailable("its JVM has died")
        return 0

    turns = Turns(LinkName("link"), Places(count))
    assert [turns.wait_s(piped(each), 0.0) for each in range(3)] == [0.0] * 3


@pytest.mark.parametrize(
    ("moved", "state", "position", "is_over"),
    [
        (0, PartitionState.STARTING, -1, False),
        (0, PartitionState.COPYING, 3, False),
        (1, PartitionState.COPYING, 3, True),
        (0, PartitionState.COPYING, 5, True),
        (0, PartitionState.BLOCKED, 3, True),
    ],
    ids=["begins", "has copied nothing", "has copied", "is level", "is stopped"],
)
def test_a_turn_counts_from_when_something_was_copied(
    *, moved: int, state: PartitionState, position: int, is_over: bool
) -> None:
    """Given a round that takes longer to begin than a turn / then it is not ended before it has

    copied anything, unless it has nothing to copy.
    """
    simulated = Simulated(1, [piped(0), piped(1)])
    simulated.begins_s = 1e9
    simulated.run(1)
    at = TopicPartition(TopicName("t"), PartitionId(0))
    item = PartitionReport(at, at, state, position, 5, 0, 0, -1, -1, 0)
    report = RoundReport(piped(0), 1, 0, 0, 0, "", [item], moved=(9, moved))
    simulated.turns.reported(report)
    simulated.run(int(TURN_S) + 1)
    assert (piped(1) in simulated.running) == is_over


def test_many_links_without_pipelines_all_get_their_turn() -> None:
    """Given 30 lanes of links without a pipeline and 8 places / then all copy, about as long."""
    simulated = Simulated(8, [LaneId(number) for number in range(30)])
    simulated.run(SECONDS)
    copied = simulated.copied_s.values()
    assert min(copied) > 0.7 * max(copied)
    assert max(simulated.pauses_s.values()) < 5 * TURN_S


@pytest.mark.parametrize(
    ("links", "pipelines", "told"),
    [(8, 0, (False, False)), (9, 0, (True, True)), (4, 5, (True, False)), (4, 4, (False, False))],
)
def test_plan_says_of_a_link_that_its_lanes_will_wait(
    links: int, pipelines: int, told: tuple[bool, bool]
) -> None:
    """Given 8 places / then the first link, which has the pipelines, and the last are told so."""
    described: list[dict[str, Any]] = [
        {"name": f"l{number}", "source": "a", "target": "b"} for number in range(links)
    ]
    described[0]["pipelines"] = [
        {"name": f"p{number}", "topics": [f"t{number}"], "steps": [{"where": "key IS NOT NULL"}]}
        for number in range(pipelines)
    ]
    config = Config.model_validate(
        {
            "clusters": {name: {"bootstrap": [f"{name}:1"]} for name in "ab"},
            "spark": {"master": "local[2]", "task_cpus": 0.25},
            "links": described,
        }
    )
    notes = [places_note(config, link) for link in (config.links[0], config.links[-1])]
    assert tuple(map(bool, notes)) == told
    assert all("Spark runs 8 lanes at once" in note for found in notes for note in found)


def test_pipelines_share_lanes_where_they_can_and_plan_says_what_is_left() -> None:
    """Given pipelines as rows and on bytes / then few places are told with what is shared, and with

    how long lanes pause if that is not enough.
    """
    steps: list[list[dict[str, Any]]] = [
        [{"where": "true"}, {"set": {"key": "value"}}],
        [{"where": "true"}],
        [{"drop_headers": ["x"]}],
        [{"drop_tombstones": True}],
        [{"set": {"key": "value"}}, {"where": "true"}],  # a filter behind a change
        [{"function": "steps:valid"}],
    ]
    pipelines = [
        {"name": f"p{number}", "topics": [f"t{number}"], "steps": own}
        for number, own in enumerate(steps)
    ]
    link = LinkConfig.model_validate(
        {"name": "l", "source": "a", "target": "b", "pipelines": pipelines}
    )
    assert together(pipelines_of(link).values()) == (("p0", "p1"), ("p2", "p3"))
    assert (least_lanes([link]), least_lanes([link], are_shared=True)) == (7, 5)
    assert few_places_text([link], 7) == ""
    assert few_places_text([link], 6).endswith("which leaves 5")
    assert "pauses for about 30 s" in few_places_text([link], 4)


@pytest.mark.parametrize(("places", "within_s"), [(7, 34), (5, 34), (4, 64), (2, 94)])
def test_plan_tells_when_all_pipelines_have_begun(places: int, within_s: int) -> None:
    """Given five lanes, shared if they must / then checks, one beginning, and all turns count."""
    pipelines = [
        {"name": f"p{number}", "topics": [f"t{number}"], "steps": [step]}
        for number, step in enumerate(3 * [{"function": "steps:valid"}] + 2 * [{"where": "true"}])
    ]
    config = Config.model_validate(
        {
            "clusters": {name: {"bootstrap": [f"{name}:1"]} for name in "ab"},
            "spark": {"master": f"local[{places}]", "task_cpus": 1},
            "links": [{"name": "l", "source": "a", "target": "b", "pipelines": pipelines}],
        }
    )
    note = begins_note(config, 5, 3.5)
    assert note.startswith("Spark checks 5 pipelines as rows before the link's first record, 3.5 s")
    assert note.endswith(f"all of them copy within about {within_s} s")
