"""How a link's limits are divided among its lanes, by what these have used."""

from __future__ import annotations

import pytest

from heliostat.link.limit_shares import LimitShares, Need, shares
from heliostat.names import LaneId, TopicName
from heliostat.records.copier.lane import RoundReport
from heliostat.records.copier.lane_limits import NO_LIMITS, ByteLimits, LimitUse

T, U = TopicName("t"), TopicName("u")
A, B, C = LaneId(0), LaneId(1), LaneId(2)
IDLE, SHORT = Need(0.0, is_short=False), Need(300.0, is_short=True)


@pytest.mark.parametrize(
    ("needs", "expected"),
    [
        ({}, {}),
        ({A: None}, {A: 900}),
        ({A: None, B: None, C: None}, {A: 300, B: 300, C: 300}),
        ({A: SHORT, B: IDLE, C: IDLE}, {A: 840, B: 30, C: 30}),
        ({A: SHORT, B: Need(100.0, is_short=False), C: IDLE}, {A: 720, B: 150, C: 30}),
        ({A: SHORT, B: SHORT, C: IDLE}, {A: 435, B: 435, C: 30}),
        ({A: SHORT, B: SHORT, C: Need(500.0, is_short=False)}, {A: 300, B: 300, C: 300}),
        ({A: IDLE, B: IDLE, C: IDLE}, {A: 300, B: 300, C: 300}),
    ],
)
def test_who_needs_less_leaves_the_rest_to_others(
    needs: dict[LaneId, Need | None], expected: dict[LaneId, int]
) -> None:
    assert shares(900, needs) == expected


def reported(lane: LaneId, generation: int, use: LimitUse) -> RoundReport:
    return RoundReport(lane, generation, 1, 0, 0, "", [], limits=[use])


class Lanes:
    """Lanes that use what they get, or less."""

    def __init__(self, limit: int, wants: dict[LaneId, int]) -> None:
        self.wants = wants
        self.shares = LimitShares()
        self.shares.become(ByteLimits(limit))
        self.used = dict.fromkeys(wants, 0)
        self.held_ms = dict.fromkeys(wants, 0)
        self.second = 0.0

    def pass_second(self) -> dict[LaneId, int]:
        """Return what each lane has used in a second."""
        self.second += 1.0
        told = self.shares.of(dict.fromkeys(self.wants, ()))
        moved = {lane: min(self.wants[lane], told[lane].link) for lane in self.wants}
        for lane, size in moved.items():
            self.used[lane] += size
            self.held_ms[lane] += 900 * (size < self.wants[lane])
            use = LimitUse(None, self.used[lane], self.held_ms[lane])
            self.shares.reported(reported(lane, 1, use), self.second)
        assert sum(each.link for each in told.values()) <= 1_000
        return moved


def test_shares_follow_the_need() -> None:
    """Given lanes of which one wants more than its part / then it gets what others leave, soon;

    and when another one wants more it gets its part back.
    """
    lanes = Lanes(1_000, {A: 5_000, B: 100, C: 0})
    for _ in range(4):
        lanes.pass_second()
    assert lanes.pass_second() == {A: pytest.approx(1_000 - 150 - 33, abs=2), B: 100, C: 0}
    lanes.wants[C] = 5_000
    for _ in range(4):
        lanes.pass_second()
    moved = lanes.pass_second()
    assert moved[A] == moved[C] == pytest.approx(425, abs=2)
    assert moved[B] == 100
    [row] = lanes.shares.report()
    assert row["used_bytes_per_second"] == sum(moved.values())
    assert float(str(row["throttled_s"])) > 4


def test_a_topic_is_divided_among_lanes_that_have_it() -> None:
    known = LimitShares()
    assert known.of({A: {T}}) == {A: NO_LIMITS}
    assert known.become(ByteLimits(900, ((T, 100), (U, 60))))
    assert not known.become(ByteLimits(900, ((T, 100), (U, 60))))
    assert known.of({A: {T, U}, B: {T}, C: set()}) == {
        A: ByteLimits(300, ((T, 50), (U, 60))),
        B: ByteLimits(300, ((T, 50),)),
        C: ByteLimits(300),
    }
    assert [row["topic"] for row in known.report()] == [None, T, U]


def test_another_round_of_a_lane_counts_from_its_own_begin() -> None:
    known = LimitShares()
    known.become(ByteLimits(900))
    known.reported(reported(A, 1, LimitUse(None, 5_000, 0)), 1.0)
    known.reported(reported(A, 2, LimitUse(None, 10, 0)), 2.0)
    known.reported(reported(A, 2, LimitUse(None, 20, 0)), 2.1)  # too soon to tell
    known.reported(reported(A, 2, LimitUse(None, 110, 500)), 3.0)
    [row] = known.report()
    assert row == {"topic": None, "used_bytes_per_second": 100, "throttled_s": 0.5}
