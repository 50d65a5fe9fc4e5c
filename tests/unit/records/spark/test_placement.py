"""Rounds are spread over executors by their cores."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from heliostat.ops.spark_session import Executor
from heliostat.records.spark.placement import Placement, lanes_for


def executors(*cores: int) -> list[Executor]:
    return [Executor(str(number), "host", count) for number, count in enumerate(cores)]


@given(st.lists(st.integers(1, 8), min_size=1, max_size=6), st.integers(1, 40))
def test_rounds_are_balanced_over_executors(cores: list[int], rounds: int) -> None:
    """Given executors / when rounds are placed / then moving none of them would balance better."""
    placement, there = Placement(), executors(*cores)
    chosen = [placement.take(f"l/{number}", 0, there) for number in range(rounds)]
    taken = Counter(one.number for one in chosen if one is not None)
    assert taken.total() == rounds
    heaviest = max(taken[each.number] / each.cores for each in there)
    least_after_one_more = min((taken[each.number] + 1) / each.cores for each in there)
    assert heaviest <= least_after_one_more


def test_a_lane_stays_where_it_was() -> None:
    """Given lanes in balance / when their rounds follow each other / then nobody moves."""
    placement, there = Placement(), executors(2, 2)
    names = [f"l/{n}" for n in range(4)]
    before = {name: placement.take(name, 0, there) for name in names}
    for name in reversed(names):
        placement.give_back(name, 0)
        assert placement.take(name, 0, there) == before[name]


def test_a_new_executor_gets_its_share_as_rounds_end() -> None:
    """Given four lanes on one executor / when one joins / then two each after one round."""
    placement, names = Placement(), [f"l/{n}" for n in range(4)]
    for name in names:
        placement.take(name, 0, executors(2))
    where = {}
    for name in names:
        placement.give_back(name, 0)
        chosen = placement.take(name, 0, executors(2, 2))
        assert chosen is not None
        where[name] = chosen.number
    assert Counter(where.values()) == {"0": 2, "1": 2}


def test_lanes_of_a_dead_executor_go_to_the_others() -> None:
    """Given two executors / when one is gone / then its lanes run on the other."""
    placement = Placement()
    gone, left = executors(1, 1)
    assert placement.take("l/0", 0, [gone, left]) == gone
    placement.give_back("l/0", 0)
    assert placement.take("l/0", 0, [left]) == left
    assert placement.take("l/1", 0, []) is None


def test_one_lane_per_core() -> None:
    """Given executors / when lanes are counted / then one a core, at least one."""
    assert (lanes_for(executors(2, 3)), lanes_for([])) == (5, 1)


def test_a_round_that_begins_before_the_last_has_ended_stays_there() -> None:
    """Given two lanes apart / when a lane's next round overlaps its last / then no change."""
    placement, there = Placement(), executors(1, 1)
    for lane in ("l/0", "l/1"):
        first, second = placement.take(lane, 7, there), placement.take(lane, 8, there)
        assert first == second == there[int(lane[-1])]
        placement.give_back(lane, 7)


def test_lanes_that_were_alone_spread_again_one_by_one() -> None:
    """Given all lanes on the executor that was left / when another comes / then half move there."""
    placement = Placement()
    for number in range(4):
        placement.take(f"l/{number}", 0, executors(2))
    there, moved = executors(2, 2), 0
    while (lane := placement.misplaced(there)) is not None:
        placement.give_back(lane, moved)
        moved += 1
        chosen = placement.take(lane, moved, there)
        assert chosen is not None
        assert chosen.number == "1"
    assert moved == 2


def test_lanes_of_an_executor_that_leaves_begin_elsewhere() -> None:
    """Given one that is decommissioned / then its lanes leave it; with none left nobody moves."""
    placement = Placement()
    placement.take("l/0", 0, executors(1))
    placement.take("l/1", 0, executors(1, 1))
    assert placement.misplaced(executors(1)) == "l/1"
    assert placement.misplaced([]) is None
