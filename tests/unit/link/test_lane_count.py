"""How many lanes there are while Spark's cores come and go."""

import pytest

from heliostat.link.lane_count import (
    FEWER_AFTER_S,
    GUESS_LASTS_S,
    LANE_BYTES_PER_S,
    LANE_PARTITIONS,
    LaneCount,
)


class Cores:
    def __init__(self) -> None:
        self.number = 4
        self.now_s = 1000.0

    def lanes(self, configured: int | str = "auto", links: int = 1) -> LaneCount:
        return LaneCount(
            configured,
            lambda: self.number,
            lambda: 4 * self.number,
            lambda: links,
            lambda: self.now_s,
        )

    def needed(self) -> LaneCount:
        """`auto` by load."""
        return LaneCount(
            "auto",
            lambda: self.number,
            lambda: 4 * self.number,
            lambda: 1,
            lambda: self.now_s,
            by_load=True,
        )


def test_a_configured_number_holds_as_far_as_there_is_room() -> None:
    """Given a fixed number / then so many, but not more than can run at once: they would wait."""
    cores = Cores()
    assert cores.lanes(7)() == 7
    assert cores.lanes(17)() == 16
    assert cores.lanes(9, links=2)() == 8
    assert cores.lanes(9, links=99)() == 1


def test_pipelines_have_as_many_as_there_is_room_for_beside_the_others() -> None:
    """Given room for 16 and one of each pipeline / then a pipeline gets one, and what is left."""
    lanes = Cores().lanes(12)
    assert lanes() == 12
    assert lanes(4, None, "a") == 5
    assert lanes(4, None, "b") == 1
    assert lanes() == 12
    assert Cores().lanes(1)(4, None, "a") == 1


def test_lanes_of_a_pipeline_follow_its_own_load() -> None:
    """Given a busy pipeline and idle topics / when asked / then each has as many as it needs."""
    cores = Cores()
    lanes = cores.needed()
    assert [lanes(8, None), lanes(8, None, "a")] == [4, 4]
    cores.now_s += GUESS_LASTS_S
    for _ in range(2):
        found = [lanes(8, 10.0), lanes(8, LANE_BYTES_PER_S * 2.5, "a")]
        cores.now_s += GUESS_LASTS_S
    assert found == [1, 3]


def test_room_that_is_lost_reduces_a_configured_number_after_a_minute() -> None:
    cores = Cores()
    lanes = cores.lanes(7)
    assert lanes() == 7
    cores.number = 1
    assert lanes() == 7
    cores.now_s += FEWER_AFTER_S
    assert lanes() == 4
    cores.number = 4
    assert lanes() == 7


def test_links_share_the_cores() -> None:
    """Given four cores / when there are three or nine links / then at least one lane each."""
    cores = Cores()
    assert [cores.lanes(links=links)() for links in (1, 3, 9)] == [4, 1, 1]


def test_more_cores_are_used_at_once() -> None:
    """Given lanes on four cores / when there are six / then six lanes."""
    cores = Cores()
    lanes = cores.lanes()
    assert lanes() == 4
    cores.number = 6
    assert lanes() == 6


def test_cores_that_return_soon_change_nothing() -> None:
    """Given lanes / when cores go and return / then nothing changed, and the wait starts again."""
    cores = Cores()
    lanes = cores.lanes()
    lanes()
    for number in (2, 4, 2):
        cores.number = number
        assert lanes() == 4
        cores.now_s += FEWER_AFTER_S - 1
    assert lanes() == 4


def test_missing_cores_reduce_lanes_after_a_minute() -> None:
    """Given lanes / when cores are missing for a minute / then fewer lanes, and more again."""
    cores = Cores()
    lanes = cores.lanes()
    lanes()
    cores.number = 1
    assert lanes() == 4
    cores.now_s += FEWER_AFTER_S
    assert lanes() == 1
    cores.number = 4
    assert lanes() == 4


@pytest.mark.parametrize(
    ("partitions", "bytes_per_s", "lanes"),
    [
        (8, None, 4),
        (8, 0.0, 1),
        (8, LANE_BYTES_PER_S * 1.01, 2),
        (LANE_PARTITIONS * 2 + 1, 0.0, 3),
        (8, LANE_BYTES_PER_S * 100, 4),
    ],
)
def test_lanes_by_load(partitions: int, bytes_per_s: float | None, lanes: int) -> None:
    """Given four cores / when partitions or bytes are few or many / then as many lanes."""
    assert Cores().needed()(partitions, bytes_per_s) == lanes


def test_cores_idle_for_a_minute_are_released_and_used_again_at_once() -> None:
    """Given lanes on all cores / when load is low for long, then high / then one lane, then all."""
    cores = Cores()
    lanes = cores.needed()
    assert lanes(8, None) == 4
    assert lanes(8, 10.0) == 4
    cores.now_s += GUESS_LASTS_S - 1
    assert lanes(8, 10.0) == 4
    cores.now_s += 1
    assert lanes(8, 10.0) == 1  # those were a guess
    for _ in range(2):
        assert lanes(8, LANE_BYTES_PER_S * 3.5) == 4
        assert lanes(8, 10.0) == 4
        cores.now_s += FEWER_AFTER_S - 1
        assert lanes(8, 10.0) == 4
        cores.now_s += 1
        assert lanes(8, 10.0) == 1
