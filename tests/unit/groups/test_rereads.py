"""What a group would read again if it moved to the target now: every case of its offsets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.groups.test_group_plan import GROUP, HERE, HOLES, THERE, Scene, at, listed, sent
from unit.groups.test_group_turns import LOADING, G, World

from heliostat.groups.followed import IDLE_AFTER_S
from heliostat.groups.plan import GroupDecision
from heliostat.groups.rereads import LISTED_MAX, NOT_KNOWN, Reread, reread_in, reread_of
from heliostat.groups.rereads import rereads_report as report
from heliostat.groups.values import CommitDecision, Reason
from heliostat.names import GroupId, Offset
from heliostat.offsets.offset_map import OffsetMap

CASES = {
    "published exactly": (Scene(target=at(50), sent=sent(50)), 0, False),
    "published behind": (Scene(target=at(20), sent=sent(20)), 30, False),
    "never published": (Scene(), 50, True),
    "never published, the mirror begins later": (Scene(start=30), 20, True),
    "ahead: consumers at the target have read on": (Scene(target=at(70)), 0, False),
    "beyond the mirror's end": (Scene(target=at(120)), 50, True),
    "below the mirror's start": (Scene(start=30, target=at(20), sent=sent(20)), 20, True),
    "not landed, published up to the end": (Scene(source=130, target=at(100)), 0, False),
    "not landed, published behind": (Scene(source=130, target=at(60)), 40, False),
    "held back by members at the target": (
        Scene(target=at(20), sent=sent(20), state="Stable"),
        30,
        False,
    ),
    "below the start at both": (Scene(source=10, start=30), 0, True),
    "mapped, exact": (Scene(source=50, breaks=HOLES, target=at(40)), 0, False),
    "mapped, behind": (Scene(source=70, end=60, breaks=HOLES, target=at(18)), 32, False),
    "mapped, never published": (Scene(source=70, end=60, breaks=HOLES), 50, True),
    "a hole at the end that is covered": (
        Scene(source=130, end=100, copied_to=130, target=at(100)),
        0,
        False,
    ),
    "set back at the source": (Scene(source=10, target=at(50), sent=sent(50)), 0, False),
}


@pytest.mark.parametrize(("scene", "records", "begins_anew"), CASES.values(), ids=CASES.keys())
def test_records_read_again(scene: Scene, records: int, begins_anew: bool) -> None:
    row = scene.row()
    assert (row.reread_now, row.begins_anew) == (records, begins_anew)


@given(
    st.integers(0, 150),
    st.integers(0, 60),
    st.integers(60, 120),
    st.none() | st.integers(0, 130),
    st.booleans(),
)
def test_it_is_the_number_of_records_that_a_consumer_reads_twice(
    source: int, start: int, end: int, there: int | None, has_holes: bool
) -> None:
    """Count them one by one: target offsets whose source offset is below the group's."""
    breaks = HOLES if has_holes else ()
    offsets = OffsetMap.of(breaks)
    row = Scene(
        source=source,
        start=start,
        end=end,
        breaks=breaks,
        target=None if there is None else at(there),
    ).row()
    begin = start if there is None or not start <= there <= end else there
    twice = [each for each in range(begin, end) if offsets.source_of(Offset(each)) < source]
    assert row.reread_now == len(twice)


def decided(*rows: CommitDecision, problem: str = "") -> GroupDecision:
    return GroupDecision(GROUP, listed(), None, rows, problem, GROUP)


def row(reason: Reason, reread: int | None, *, anew: bool = False) -> CommitDecision:
    return CommitDecision(
        HERE,
        THERE,
        Offset(9),
        None,
        None,
        None,
        reason,
        "why",
        reread_now=reread,
        begins_anew=anew,
    )


def test_a_group_is_the_sum_of_its_partitions() -> None:
    synced, behind = row(Reason.SYNCED, 0), row(Reason.REFUSED, 7)
    new = row(Reason.PUBLISH, 5, anew=True)
    absent, untold = row(Reason.NOT_MIRRORED, None), row(Reason.NOT_TOLD, None)
    assert reread_in([]) == Reread(0)
    assert reread_in([synced]) == Reread(0)
    assert reread_in([synced, behind, new]) == Reread(12, anew=1)
    assert reread_in([absent]) == Reread(0, without_mirror=1)
    assert reread_in([untold]) == Reread(None, unknown=1)
    assert reread_in([behind, untold, absent]) == Reread(7, unknown=1, without_mirror=1)
    assert reread_of(decided(behind)) == Reread(7)
    assert reread_of(decided(problem="the source does not answer")) == NOT_KNOWN


def test_the_report_is_limited_and_the_most_come_first() -> None:
    rereads = {GroupId(f"g{number:02}"): Reread(number) for number in range(30)}
    rereads[GroupId("x")] = NOT_KNOWN
    found = report(rereads, moving=2, is_synced=True)
    most = found.pop("most")
    assert found == {
        "records": sum(range(30)),
        "groups": 29,
        "unknown": 1,
        "moving": 2,
        "sync": True,
    }
    assert isinstance(most, dict)
    assert next(iter(most.items())) == ("g29", 29)
    assert len(most) == LISTED_MAX


# -- as the link's turns tell it --------------------------------------------------------------


def test_the_report_tells_what_groups_would_read_again() -> None:
    world = World()
    world.commit(10)
    world.commit(30, GroupId("h"))
    world.turn()
    told = world.sync.report()["rereads"]
    assert told == {
        "records": 0,
        "groups": 0,
        "unknown": 0,
        "moving": 2,
        "most": {},
        "sync": True,
    }
    world.target.join(G)  # its offset is held back from now on
    world.commit(25, live=True)
    world.turn(IDLE_AFTER_S + 1)
    told = world.sync.report()["rereads"]
    assert told == {
        "records": 15,
        "groups": 1,
        "unknown": 0,
        "moving": 1,
        "most": {"g": 15},
        "sync": True,
    }
    assert world.sync.followed[G].reread.records == 15
    world.target.leave(G)
    world.source.leave(G)
    world.turn(IDLE_AFTER_S + 1)
    assert world.sync.report()["rereads"]["moving"] == 0  # type: ignore[index]  # a dict
    assert world.sync.followed[G].reread.records == 0


def test_without_sync_all_that_was_read_is_read_again() -> None:
    world = World(sync=False)
    world.commit(40)
    assert world.turn() is None
    told = world.sync.report()["rereads"]
    assert isinstance(told, dict)
    assert (told["records"], told["sync"]) == (40, False)
    assert world.sync.followed[G].reread.anew == 1


def test_of_a_group_that_its_broker_does_not_list_more_may_be_read() -> None:
    world = World()
    world.commit(10)
    world.turn()
    world.turn(IDLE_AFTER_S + 1)
    assert world.sync.report()["rereads"]["moving"] == 0  # type: ignore[index]  # a dict
    world.source.fail("list_groups", LOADING)
    world.turn()
    assert world.sync.report()["rereads"]["moving"] > 0  # type: ignore[index]  # a dict


def test_what_would_be_read_again_is_not_known_while_the_source_tells_no_offsets() -> None:
    world = World()
    world.commit(10, live=True)
    world.turn()
    world.source.fail("committed_offsets", LOADING)
    world.turn()
    assert world.sync.report()["rereads"]["unknown"] == 1  # type: ignore[index]  # a dict
    assert world.sync.followed[G].reread.records is None
