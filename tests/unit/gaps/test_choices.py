"""The effect of each choice: counts, where the mirror continues, and what is not possible."""

from __future__ import annotations

from dataclasses import replace

import pytest

from heliostat.gaps.choices import Cause, Facts, GapChoice, effect_of, still_holds, why_not
from heliostat.invariants import gap_is_recorded
from heliostat.names import Offset, PartitionId, TopicName, TopicPartition
from heliostat.offsets.offset_map import Break

PARTITION = TopicPartition(TopicName("t"), PartitionId(0))


def choices_of(facts: Facts) -> tuple[GapChoice, ...]:
    return tuple(choice for choice in GapChoice if effect_of(facts, choice) is not None)


def facts(cause: Cause, **changes: object) -> Facts:
    """A mirror that waits for source offset 100, where the source holds 150 to 199."""
    made = Facts(
        source=PARTITION,
        target=PARTITION,
        cause=cause,
        code="X",
        position=Offset(100),
        source_start=Offset(150),
        source_end=Offset(200),
        target_start=Offset(20),
        target_end=Offset(100),
        is_dense=True,
    )
    return replace(made, **changes)  # type: ignore[arg-type]  # fields by name


@pytest.mark.parametrize("choice", [GapChoice.CONTINUE, GapChoice.RESTART])
def test_expired_records_are_counted_and_the_mirror_continues_after_them(choice: GapChoice) -> None:
    effect = effect_of(facts(Cause.SOURCE_OVERTOOK), choice)
    assert effect is not None
    assert (effect.first, effect.last, effect.count) == (100, 149, 50)
    assert effect.jump == Break(100, 150)
    assert effect.empties is (choice is GapChoice.RESTART)
    assert not effect.recreates
    assert gap_is_recorded(100, effect.jump.source, [(effect.first, effect.last)])


def test_offsets_of_a_compacted_source_give_no_record_count() -> None:
    effect = effect_of(facts(Cause.SOURCE_OVERTOOK, is_dense=False), GapChoice.CONTINUE)
    assert effect is not None
    assert effect.count is None
    assert "at most 50" in effect.records


def test_a_truncated_source_continues_at_the_divergence() -> None:
    truncated = facts(
        Cause.SOURCE_TRUNCATED,
        source_start=Offset(0),
        source_end=Offset(95),
        diverged_at=Offset(90),
    )
    effect = effect_of(truncated, GapChoice.CONTINUE)
    assert effect is not None
    assert (effect.first, effect.last, effect.count) == (90, 99, 0)
    assert effect.jump == Break(100, 90)


def test_records_expired_since_the_divergence_are_not_waited_for() -> None:
    truncated = facts(
        Cause.SOURCE_TRUNCATED,
        source_start=Offset(95),
        source_end=Offset(120),
        diverged_at=Offset(90),
    )
    effect = effect_of(truncated, GapChoice.CONTINUE)
    assert effect is not None
    assert effect.jump == Break(100, 95)


def test_an_unknown_divergence_is_not_guessed() -> None:
    truncated = facts(Cause.SOURCE_TRUNCATED, source_start=Offset(0), source_end=Offset(95))
    assert effect_of(truncated, GapChoice.CONTINUE) is None
    assert "not known" in why_not(truncated, GapChoice.CONTINUE)
    restart = effect_of(truncated, GapChoice.RESTART)
    assert restart is not None
    assert restart.count is None
    assert (restart.jump, restart.empties) == (Break(100, 0), True)


def test_a_recreated_source_continues_after_the_old_records_or_replaces_them() -> None:
    anew = facts(Cause.SOURCE_RECREATED, source_start=Offset(0), source_end=Offset(10))
    behind, instead = effect_of(anew, GapChoice.CONTINUE), effect_of(anew, GapChoice.RESTART)
    assert behind is not None
    assert instead is not None
    assert (behind.first, behind.last, behind.count) == (100, None, None)
    assert behind.jump == Break(100, 0)
    assert instead.recreates
    assert instead.jump is None


def test_a_deleted_partition_cannot_be_continued() -> None:
    gone = facts(Cause.SOURCE_RECREATED, is_gone=True)
    assert effect_of(gone, GapChoice.CONTINUE) is None
    assert "fewer partitions" in why_not(gone, GapChoice.CONTINUE)
    assert effect_of(gone, GapChoice.RESTART) is not None


@pytest.mark.parametrize("cause", [Cause.TARGET_RECREATED, Cause.TARGET_DIVERGED])
def test_nothing_continues_after_foreign_records(cause: Cause) -> None:
    assert effect_of(facts(cause), GapChoice.CONTINUE) is None
    assert why_not(facts(cause), GapChoice.CONTINUE)
    restart = effect_of(facts(cause), GapChoice.RESTART)
    assert restart is not None
    assert restart.recreates
    assert (restart.first, restart.last, restart.count) == (0, 149, 150)  # the source has no more


def test_a_topic_that_other_links_fill_too_is_not_deleted() -> None:
    """Given a fan-in / when its source was recreated / then it can continue, not restart."""
    shared = facts(Cause.SOURCE_RECREATED, is_shared=True)
    assert choices_of(shared) == (GapChoice.CONTINUE, GapChoice.WAIT)
    assert "other links" in why_not(shared, GapChoice.RESTART)
    own = facts(Cause.SOURCE_OVERTOOK, is_shared=True)
    assert GapChoice.RESTART in choices_of(own)  # its own partition's records alone are deleted


def test_nothing_is_lost_by_a_restart_where_the_source_has_all() -> None:
    restart = effect_of(facts(Cause.TARGET_DIVERGED, source_start=Offset(0)), GapChoice.RESTART)
    assert restart is not None
    assert (restart.first, restart.last, restart.count) == (0, -1, 0)


@pytest.mark.parametrize("cause", list(Cause))
def test_waiting_is_always_possible_and_skips_nothing(cause: Cause) -> None:
    effect = effect_of(facts(cause), GapChoice.WAIT)
    assert effect is not None
    assert (effect.jump, effect.empties, effect.recreates) == (None, False, False)


def test_late_reports_are_checked_against_the_clusters() -> None:
    assert still_holds(facts(Cause.SOURCE_OVERTOOK))
    assert not still_holds(facts(Cause.SOURCE_OVERTOOK, position=Offset(150)))
    assert still_holds(facts(Cause.SOURCE_TRUNCATED, position=Offset(201)))
    assert not still_holds(facts(Cause.SOURCE_TRUNCATED, position=Offset(200)))
    assert not still_holds(facts(Cause.SOURCE_TRUNCATED))
    assert still_holds(facts(Cause.SOURCE_TRUNCATED, diverged_at=Offset(99)))
    assert not still_holds(facts(Cause.SOURCE_TRUNCATED, diverged_at=Offset(100)))


@pytest.mark.parametrize(
    ("first", "end", "recorded", "is_so"),
    [
        (100, 150, [(100, 149)], True),
        (100, 150, [(100, 148)], False),
        (100, 150, [(101, 149)], False),
        (100, 150, [(120, 149), (100, 119)], True),
        (100, 150, [(100, 118), (120, 149)], False),
        (100, 150, [(90, None)], True),
        (100, 100, [], True),
        (100, 101, [], False),
    ],
)
def test_only_recorded_offsets_may_be_skipped(
    first: int, end: int, recorded: list[tuple[int, int | None]], is_so: bool
) -> None:
    assert gap_is_recorded(first, end, recorded) is is_so


def test_only_the_record_too_large_is_skipped_and_never_read_again() -> None:
    stopped = facts(Cause.RECORD_TOO_LARGE, source_start=Offset(0))
    effect = effect_of(stopped, GapChoice.CONTINUE)
    assert effect is not None
    assert (effect.first, effect.last, effect.count) == (100, 100, 1)
    assert effect.jump == Break(100, 101)
    assert gap_is_recorded(100, effect.jump.source, [(effect.first, effect.last)])
    assert effect_of(stopped, GapChoice.RESTART) is None
    assert "same record" in why_not(stopped, GapChoice.RESTART)


TRUNCATED = facts(
    Cause.SOURCE_TRUNCATED,
    source_start=Offset(0),
    source_end=Offset(95),
    diverged_at=Offset(90),
    fills=True,
)


@pytest.mark.parametrize(
    "stuck",
    [
        TRUNCATED,
        facts(Cause.SOURCE_RECREATED, source_start=Offset(0), fills=True),
        facts(Cause.SOURCE_TRUNCATED, diverged_at=Offset(99), source_start=Offset(0), fills=True),
    ],
)
def test_a_mirror_with_equal_offsets_never_goes_back(stuck: Facts) -> None:
    """Given a filled mirror / when its source goes back / then only a new mirror can take it."""
    assert choices_of(stuck) == (GapChoice.RESTART, GapChoice.WAIT)
    assert "offsets are to stay equal" in why_not(stuck, GapChoice.CONTINUE)
    restart = effect_of(stuck, GapChoice.RESTART)
    assert restart is not None
    assert (restart.recreates, restart.empties, restart.jump) == (True, False, None)
    shared = replace(stuck, is_shared=True)
    assert choices_of(shared) == (GapChoice.WAIT,)
    assert "fan-in" in why_not(shared, GapChoice.RESTART)


def test_a_filled_mirror_that_does_not_go_back_is_not_recreated() -> None:
    """Given one whose source begins at its end or later / then as any other."""
    for start in (Offset(100), Offset(150)):
        gap = facts(Cause.SOURCE_OVERTOOK, source_start=start, fills=True)
        effects = effect_of(gap, GapChoice.CONTINUE), effect_of(gap, GapChoice.RESTART)
        jump = Break(100, start)
        assert [effect and (effect.jump, effect.recreates) for effect in effects] == [
            (jump, False)
        ] * 2
    unknown = facts(Cause.TARGET_UNKNOWN, source_start=Offset(0), fills=True)
    effects = effect_of(unknown, GapChoice.CONTINUE), effect_of(unknown, GapChoice.RESTART)
    assert [effect and effect.recreates for effect in effects] == [False, True]


def test_other_partitions_of_a_recreated_mirror_lose_only_expired_records() -> None:
    """Given a mirror recreated for one partition / then the others lose only expired records."""
    sound = facts(Cause.SOURCE_TRUNCATED, source_start=Offset(30), fills=True, is_recreated=True)
    both = (
        effect_of(sound, GapChoice.RESTART),
        effect_of(replace(TRUNCATED, is_recreated=True), GapChoice.RESTART),
    )
    assert [effect and (effect.first, effect.last, effect.count) for effect in both] == [
        (0, 29, 30),
        (90, 99, 0),
    ]
    alone = effect_of(replace(sound, fills=False, source_start=Offset(150)), GapChoice.RESTART)
    assert alone is not None
    assert alone.recreates
