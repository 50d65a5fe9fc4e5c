"""When a mirror of a stopped link may go on at a later offset, and what becomes a gap then."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from support.gap_turns import OLD_ID, Turns, copying, ended, log_of, side, stopped, write

from heliostat.errors import Refused
from heliostat.gaps.choices import Cause, Facts, GapChoice
from heliostat.gaps.ledger import CopyNote, GapRow
from heliostat.gaps.skips import Standing, skip_effect
from heliostat.invariants import gap_is_recorded
from heliostat.names import ClusterId, Offset, PartitionId, TopicName, TopicPartition
from heliostat.offsets.offset_map import Break
from heliostat.records.copier.lane import PartitionReport, PartitionState
from heliostat.topics.values import MirrorRecord

T = TopicName("t")
P = TopicPartition(T, PartitionId(0))
RECORD = MirrorRecord(T, T, UUID(int=1), UUID(int=2), ClusterId("c"), "earliest", 1)
FACTS = Facts(
    source=P,
    target=P,
    cause=Cause.SKIPPED,
    code="",
    position=Offset(100),
    source_start=Offset(0),
    source_end=Offset(200),
    target_start=Offset(20),
    target_end=Offset(100),
    is_dense=True,
)
STOP = PartitionReport(
    P, P, PartitionState.GAP, *(100, -1, 0, 0, -1, -1, 5, "SOURCE_OVERTOOK", "records are gone")
)


def standing(**changes: Any) -> Standing:
    """Return a mirror that ends at 100, as its link left it; fields of its facts by their names."""
    names = {"jump", "note", "adopted", "stop", "last_sequence"}
    own = {name: changes.pop(name) for name in names & changes.keys()}
    known = {"note": CopyNote(100, 3, 100), **own}
    return Standing(replace(FACTS, **changes), RECORD, **known)


def row(jump: Break | None, target_id: int = 2) -> GapRow:
    """Return a row of the ledger that moves the mirror."""
    return GapRow(
        *(T, PartitionId(0), Offset(100), Offset(119), 20, Cause.SKIPPED, 7),
        *(GapChoice.CONTINUE, "user ops", T, str(UUID(int=1)), str(UUID(int=target_id))),
        jump=jump,
    )


@pytest.mark.parametrize(
    ("last_sequence", "fills", "is_sure"),
    [(99, False, True), (98, False, False), (100, False, False), (99, True, False)],
)
def test_a_record_that_landed_after_the_last_note_is_known_by_its_sequence(
    last_sequence: int, *, fills: bool, is_sure: bool
) -> None:
    """Given a mirror that ends behind what its link noted / then its producer says whose it is."""
    at = standing(note=CopyNote(99, 3, 99), last_sequence=last_sequence, fills=fills)
    assert at.is_as_left() is is_sure


def test_what_lies_between_is_a_gap_and_the_mirror_goes_on_behind_it() -> None:
    found = skip_effect(standing(), Offset(150))
    assert found is not None
    _, effect = found
    assert (effect.first, effect.last, effect.count) == (100, 149, 50)
    assert effect.jump == Break(100, 150)
    assert (effect.empties, effect.recreates) == (False, False)
    assert gap_is_recorded(100, effect.jump.source, [(effect.first, effect.last)])
    assert "offsets of both sides differ from there on" in effect.consumers


def test_everything_up_to_the_end_may_be_left_out() -> None:
    found = skip_effect(standing(), Offset(200))
    assert found is not None
    assert (found[1].last, found[1].jump) == (199, Break(100, 200))


def test_what_goes_on_there_anyway_is_no_gap() -> None:
    assert skip_effect(standing(), Offset(100)) is None


def test_holes_that_the_link_has_passed_are_no_loss() -> None:
    passed = standing(note=CopyNote(130, 3, 100), is_dense=False)
    assert skip_effect(passed, Offset(130)) is None
    found = skip_effect(passed, Offset(150))
    assert found is not None
    assert (found[1].first, found[1].last, found[1].count) == (130, 149, None)


def test_records_that_expired_before_they_were_copied_are_in_the_same_gap() -> None:
    found = skip_effect(standing(source_start=Offset(120)), Offset(150))
    assert found is not None
    assert (found[1].first, found[1].last) == (100, 149)


def test_of_an_exact_mirror_the_hole_is_filled() -> None:
    found = skip_effect(standing(fills=True), Offset(150))
    assert found is not None
    assert "source offset 150 at target offset 150" in found[1].consumers
    assert "differ" not in found[1].consumers


def test_after_a_gap_that_is_recorded_already_it_goes_further_and_not_back() -> None:
    """Given a mirror that has not gone on yet after a gap / when more is skipped / then that alone

    is another gap; the same again is none.
    """
    pending = standing(jump=row(Break(100, 120)))
    assert skip_effect(pending, Offset(120)) is None
    found = skip_effect(pending, Offset(150))
    assert found is not None
    assert (found[1].first, found[1].last, found[1].jump) == (120, 149, Break(100, 150))
    with pytest.raises(Refused, match="up to offset 119"):
        skip_effect(pending, Offset(110))


@pytest.mark.parametrize("jump", [row(Break(90, 120)), row(Break(100, 120), 9), row(None)])
def test_rows_of_other_places_and_mirrors_move_nothing(jump: GapRow) -> None:
    assert skip_effect(standing(jump=jump), Offset(100)) is None


@pytest.mark.parametrize(
    ("changes", "to", "text", "hint"),
    [
        ({}, 99, "hold records twice", "delete its topic at the target"),
        ({}, 201, "can't go on at 201", "the first that can be chosen is 100, the last is 200"),
        ({"source_start": Offset(120)}, 110, "has offsets 120 to 199", "chosen is 120"),
        ({"is_gone": True}, 150, "no partition t-0 any more", "heliostat plan"),
        ({"stop": STOP}, 150, "stopped: SOURCE_OVERTOOK", "heliostat resolve t 0"),
        ({"begin": Offset(100)}, 150, "holds no record", "topics.start with a file"),
        ({"target_end": Offset(105)}, 150, "ends at 105, and the link left it at 100", "start"),
        ({"target_end": Offset(90)}, 150, "ends at 90, and the link left it at 100", "start"),
        ({"note": None}, 150, "did not note how far it copied", "start the link"),
        ({"note": CopyNote(90, 3)}, 150, "only that it copied up to source offset 90", "start"),
        ({"is_known_truncated": True}, 150, "lost records of t-0", "then heliostat resolve t 0"),
    ],
)
def test_what_may_not_be_skipped_says_why_and_what_to_do(
    changes: dict[str, Any], to: int, text: str, hint: str
) -> None:
    with pytest.raises(Refused, match=text) as refused:
        skip_effect(standing(**changes), Offset(to))
    assert hint in refused.value.hint


def test_a_mirror_that_was_taken_over_is_known_by_its_end() -> None:
    taken = standing(note=None, adopted=Offset(100), begin=Offset(100))
    assert skip_effect(taken, Offset(150)) is not None
    with pytest.raises(Refused, match="did not note"):
        skip_effect(standing(note=None, adopted=Offset(95)), Offset(150))


def test_a_note_without_the_targets_end_counts_by_its_source_offset() -> None:
    assert skip_effect(standing(note=CopyNote(100, 3)), Offset(150)) is not None


def test_copied_records_that_the_source_has_lost_come_before_what_is_skipped() -> None:
    """Given a recorded skip, and copied records that are lost then / then the position is the old

    one: these wait for a decision.
    """
    lost = standing(jump=row(Break(100, 120)), is_known_truncated=True, diverged_at=Offset(95))
    assert lost.at_position().position == 100


def test_a_row_names_a_cause_that_older_versions_know_and_its_own() -> None:
    """Given a skip / then versions that halt at a cause they don't know find one that they know."""
    skipped = row(Break(100, 120))
    stored = skipped.to_row()
    assert (stored["cause"], stored["exact_cause"]) == ("tail_dropped", "skipped")
    assert GapRow.from_json(stored) == skipped
    assert skipped.to_json()["cause"] == "skipped"


def skip(world: Turns, to: int) -> None:
    """An operator skips records while no driver runs; the next one begins."""
    skipped = replace(row(Break(100, to), 3), last=Offset(to - 1), count=to - 100, text="some")
    world.ledger.record([skipped])
    world.keeper.begin()


def test_what_an_operator_skipped_is_told_and_the_lane_goes_on_behind_it() -> None:
    """Given a mirror copied to 100 / when a driver begins after a skip / then it tells who skipped

    what, and lanes know where to go on; nothing is told again once records behind it are copied.
    """
    world = Turns()
    world.turn(copying(100, copied_to=100, epoch=0))
    world.keeper.round_ended({P: world.spec()}, ended(100, 0, 100))
    world.keeper.close()
    skip(world, 150)
    assert world.spec().jump == Break(100, 150)
    told = [call.args[0] for call in world.events.warn.call_args_list]
    by_whom = "as an operator has set the offset forwards; continue, decided by user ops"
    assert told == [f"t-0: left out, {by_whom}: some"]
    world.keeper.round_ended({P: world.spec()}, ended(160, 0, 110))
    world.keeper.close()
    world.events.reset_mock()
    world.keeper.begin()
    assert world.events.warn.call_args_list == []
    assert world.keeper.report()["records_lost"] == 50


def test_copied_records_that_the_source_lost_stop_a_mirror_that_is_to_skip() -> None:
    """Given a skip that is recorded / when the source loses copied records / then it stops there,

    and continues with what the source has instead.
    """
    world = Turns(source=side(OLD_ID, 0, 200, 3))
    world.turn(copying(100, copied_to=100, epoch=3))
    world.keeper.close()
    skip(world, 150)
    log_of(world.source).truncate(90)
    write(world.source, 200)
    world.turn()
    assert world.spec().jump is None
    assert "from offset 90 on" in world.spec().truncated
    world.decide(GapChoice.CONTINUE, "SOURCE_TRUNCATED")
    report = stopped(100, "SOURCE_TRUNCATED")
    world.turn(report)
    world.turn(report)
    assert world.spec().jump == Break(100, 90)
