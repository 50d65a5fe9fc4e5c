"""Decisions on partitions of merged topics: they go on, and nothing is deleted or there twice."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import pytest
from support import gap_turns
from support.gap_turns import OLD_ID, RECORD, P, T, Turns, copying, log_of, side, stopped, write
from unit.gaps.test_choices import choices_of, facts

from heliostat.gaps.choices import OF_RECORDS, Cause, GapChoice, effect_of, still_holds, why_not
from heliostat.gaps.facts import SharedAsk
from heliostat.gaps.ledger import CopyNote
from heliostat.merge.shared_records import SharedEnd
from heliostat.names import Offset, PartitionId, TopicPartition
from heliostat.offsets.marks import MirrorId
from heliostat.offsets.offset_map import Break, OffsetMap

GO_ON = OF_RECORDS | {Cause.SOURCE_OVERTOOK, Cause.SOURCE_TRUNCATED, Cause.SOURCE_RECREATED}
NUMBER = 40
"""How many records the link has appended, in a log of a hundred."""


@pytest.mark.parametrize("cause", [each for each in Cause if each is not Cause.TAIL_DROPPED])
def test_what_goes_on_in_a_merged_topic_deletes_nothing_and_doubles_nothing(cause: Cause) -> None:
    merged = facts(cause, is_merged=True, diverged_at=Offset(90), source_start=Offset(0))
    if cause is Cause.RECORD_CORRUPT:
        assert choices_of(merged) == (GapChoice.WAIT,)  # where its batch ends is looked up
        return
    found = set(choices_of(merged))
    letters = {GapChoice.DEAD_LETTER} if cause in OF_RECORDS else set()
    goes_on = {GapChoice.CONTINUE} if cause in GO_ON else set()
    assert found == {GapChoice.WAIT, *goes_on, *letters}
    assert (
        why_not(merged, GapChoice.RESTART)
        == "nothing is deleted in a topic that others write as well"
    )
    assert why_not(merged, GapChoice.CONTINUE) or GapChoice.CONTINUE in found


@pytest.mark.parametrize("cause", [Cause.TARGET_UNKNOWN, Cause.TARGET_TRUNCATED])
def test_what_might_be_there_twice_says_so(cause: Cause) -> None:
    assert "there twice" in why_not(facts(cause, is_merged=True), GapChoice.CONTINUE)


def test_without_a_known_number_nothing_goes_on() -> None:
    unknown = facts(Cause.SOURCE_OVERTOOK, is_merged=True, own_end_unknown="a part is gone")
    assert choices_of(unknown) == (GapChoice.WAIT,)
    assert "(a part is gone)" in why_not(unknown, GapChoice.CONTINUE)


def test_it_goes_on_behind_what_others_write() -> None:
    effect = effect_of(facts(Cause.SOURCE_OVERTOOK, is_merged=True), GapChoice.CONTINUE)
    assert effect is not None
    assert (effect.jump, effect.empties, effect.recreates) == (Break(100, 150), False, False)
    assert "what others write" in effect.consumers


def test_a_source_that_lost_what_others_brought_alone_is_read_on() -> None:
    """Given a cut behind the last own record / then that is decided, and no record is passed."""
    lost = facts(
        Cause.SOURCE_TRUNCATED,
        is_merged=True,
        source_start=Offset(0),
        diverged_at=Offset(110),
        copied_to=Offset(120),
    )
    assert still_holds(lost)
    assert not still_holds(replace(lost, copied_to=Offset(110)))
    effect = effect_of(lost, GapChoice.CONTINUE)
    assert effect is not None
    assert (effect.jump, effect.first, effect.last, effect.count) == (Break(100, 100), 110, 109, 0)


# -- the driver --------------------------------------------------------------------------------


class Own:
    """What the target's log shows of the link's own records."""

    def __init__(self) -> None:
        self.number: Offset | str = Offset(NUMBER)
        self.shared: SharedEnd | None = SharedEnd(Offset(32), 3)
        self.asked: list[SharedAsk] = []
        self.is_closed = False

    def ends(self, mirrors: Iterable[MirrorId]) -> Mapping[TopicPartition, Offset | str]:
        return {mirror: self.number for mirror, _ in mirrors}

    def shared_end(self, ask: SharedAsk) -> SharedEnd | None:
        self.asked.append(ask)
        return self.shared

    def close(self) -> None:
        self.is_closed = True


class Merged(Turns):
    """A source [0, 40) of epoch 3, all of which is among a hundred records at the target."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.own = Own()
        monkeypatch.setattr(gap_turns, "RECORD", replace(RECORD, is_merged=True))
        super().__init__(source=side(OLD_ID, 0, NUMBER, 3), own=self.own)
        self.turn(copying(NUMBER, NUMBER, 3))

    def cut(self, at: int) -> None:
        log_of(self.source).truncate(at)
        write(self.source, 500)
        self.turn(copying(NUMBER, NUMBER, 3))

    def go_on(self) -> None:
        self.decide(GapChoice.CONTINUE, "SOURCE_TRUNCATED")
        self.turn(stopped(NUMBER, "SOURCE_TRUNCATED"))


def deletions(world: Turns) -> list[str]:
    return [each for each in world.done if each.startswith(("empty", "delete"))]


@pytest.fixture
def merged(monkeypatch: pytest.MonkeyPatch) -> Merged:
    return Merged(monkeypatch)


def test_it_goes_on_at_the_cut_that_contents_show(merged: Merged) -> None:
    """Given records copied since the noted epoch / then these that the source still has stay."""
    merged.cut(30)
    merged.go_on()
    [ask] = merged.own.asked
    assert (ask.end, ask.same_below, ask.is_compacted) == (NUMBER, 30, False)
    (row,) = merged.rows()
    assert (row.first, row.last, row.count, row.is_done) == (32, 39, 0, True)
    assert merged.spec().jump == Break(NUMBER, 32)
    assert merged.done == ["write gap", "write decision"]


def test_a_second_election_after_the_decision_is_found(merged: Merged) -> None:
    """Given a cut below that of the decision, and a log that has grown since / then it stops."""
    merged.own.shared = SharedEnd(Offset(30), -1)
    merged.cut(30)
    merged.go_on()
    assert merged.keeper.copied_to(P) == CopyNote(Offset(30), 3)
    assert merged.spec().truncated == ""
    merged.told()
    merged.cut(20)
    assert "from offset 20 on" in merged.spec().truncated
    merged.go_on()
    assert [each.jump for each in merged.own.asked] == [None, Break(NUMBER, 30)]


@pytest.mark.parametrize(
    ("jump", "same_below", "is_exact"),
    [
        (None, 20, False),
        (Break(9, 30), None, False),
        (Break(9, 30), 30, False),
        (Break(9, 30), 29, True),
    ],
)
def test_an_epoch_that_ends_before_the_last_decision_ends_at_the_cut(
    jump: Break | None, same_below: int | None, *, is_exact: bool
) -> None:
    below = None if same_below is None else Offset(same_below)
    ask = SharedAsk(P, P, OffsetMap(), Offset(9), below, is_compacted=False, jump=jump)
    assert ask.is_before_jump is is_exact


def test_nothing_is_decided_where_contents_show_no_cut(merged: Merged) -> None:
    merged.own.shared = None
    merged.cut(30)
    merged.go_on()
    assert (merged.rows(), merged.spec().jump) == ([], None)
    assert "it is not known from which offset" in str(merged.events.warn.call_args)


def test_no_row_or_decision_deletes_anything_there(merged: Merged) -> None:
    """Given a decision to restart, by whatever way it came / then nothing is passed or deleted."""
    merged.cut(30)
    merged.decide(GapChoice.RESTART, "SOURCE_TRUNCATED")
    merged.turn(stopped(NUMBER, "SOURCE_TRUNCATED"))
    assert (merged.rows(), deletions(merged)) == ([], [])
    merged.go_on()
    (row,) = merged.rows()
    merged.ledger.record([replace(row, is_done=False)])
    merged.done.clear()
    merged.turn()
    assert (merged.rows()[0].is_done, deletions(merged)) == (False, [])


def test_a_number_that_is_not_told_is_waited_for(merged: Merged) -> None:
    merged.own.number = "its log is being read"
    merged.cut(30)
    merged.go_on()
    assert merged.rows() == []
    assert "its log is being read" in str(merged.events.warn.call_args)
    assert merged.ledger.decision_for(T, PartitionId(0), "SOURCE_TRUNCATED") is not None
    merged.own.number = Offset(NUMBER)
    merged.turn(stopped(NUMBER, "SOURCE_TRUNCATED"))
    assert merged.spec().jump == Break(NUMBER, 32)


def test_its_connections_are_closed_with_the_ledger(merged: Merged) -> None:
    merged.keeper.close()
    assert merged.own.is_closed
