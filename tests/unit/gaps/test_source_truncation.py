"""Leader epochs show a truncated source, however far its log has grown again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from support.simulated_admin import SimulatedAdmin
from support.simulated_cluster import SimulatedCluster

from heliostat.clusters.admin import EpochEnd
from heliostat.gaps.ledger import CopiedTopic, CopyNote
from heliostat.gaps.source_truncation import (
    Divergence,
    EpochBook,
    LostRange,
    is_truncated,
    truncations,
)
from heliostat.names import LeaderEpoch, Offset, PartitionId, TopicName, TopicPartition
from heliostat.records.copier.lane import PartitionReport, PartitionSpec, PartitionState

T = TopicName("t")
P = TopicPartition(T, PartitionId(0))
ID = UUID(int=7)
OTHER = TopicPartition(TopicName("other"), PartitionId(0))


def end(epoch: int, offset: int) -> EpochEnd:
    return EpochEnd(LeaderEpoch(epoch), Offset(offset))


@pytest.mark.parametrize(
    ("answer", "is_so", "is_so_if_compacted"),
    [
        (end(3, 100), False, False),  # just what was copied
        (end(3, 900), False, False),
        (end(3, 99), True, True),
        (end(2, 900), True, False),  # its log has no such epoch, or no more
        (end(2, 99), True, True),
        (end(-1, -1), False, False),  # it knows no epochs
    ],
)
def test_a_log_that_ends_before_what_was_copied_was_truncated(
    answer: EpochEnd, is_so: bool, is_so_if_compacted: bool
) -> None:
    assert is_truncated(CopyNote(100, 3), answer) is is_so
    assert is_truncated(CopyNote(100, 3), answer, is_compacted=True) is is_so_if_compacted


def led(source: SimulatedCluster, partition: int, *epochs: tuple[int, int]) -> TopicPartition:
    """A partition whose leaders' epochs ended at these offsets."""
    log = source.topics[T].logs[partition]
    for epoch, until in epochs:
        log.lead(epoch)
        source.append(T, until - log.end, partition=partition)
    return TopicPartition(T, PartitionId(partition))


def test_the_divergence_is_known_only_for_the_same_epoch() -> None:
    source = SimulatedCluster()
    source.create(T, 5)
    led(source, 0, (3, 90), (4, 200))
    other = led(source, 1, (1, 50), (4, 200))
    dead = led(source, 2, (3, 90))
    sound = led(source, 3, (3, 100))
    blind = led(source, 4, (1, 200))
    source.fail("epoch_ends", 5, dead)
    known = dict.fromkeys([P, other, dead, sound, blind], CopyNote(100, 3))
    found = truncations(SimulatedAdmin(source), known)
    assert found == {P: Divergence(Offset(90)), other: Divergence(None), sound: None}
    assert truncations(SimulatedAdmin(source), {}) == {}


def test_a_compacted_log_may_lack_an_epoch_and_have_lost_nothing() -> None:
    source = SimulatedCluster()
    source.create(T, 2)
    lacking = led(source, 0, (1, 200), (4, 300))
    shorter = led(source, 1, (1, 90), (4, 300))
    known = dict.fromkeys([lacking, shorter], CopyNote(100, 3))
    lost = Divergence(None)
    assert truncations(SimulatedAdmin(source), known) == {lacking: lost, shorter: lost}
    assert truncations(SimulatedAdmin(source), known, {T}) == {lacking: None, shorter: lost}


def report(
    position: int,
    *,
    copied: tuple[int, int] = (-1, -1),
    state: Any = PartitionState.COPYING,
    target_end: int = -1,
) -> PartitionReport:
    found = PartitionReport(P, P, state, position, 1000, 0, 0, -1, -1, 5, target_end=target_end)
    return replace(found, copied_to=copied[0], copied_epoch=copied[1])


def test_a_new_epoch_is_written_at_once_and_progress_in_time() -> None:
    book = EpochBook({})
    book.take([report(10, copied=(10, 3))], {T: ID})
    assert book.due(all_moved=False) == {T: CopiedTopic(str(ID), {PartitionId(0): CopyNote(10, 3)})}
    book.take([report(20, copied=(20, 3))], {T: ID})
    assert book.due(all_moved=False) == {}
    assert book.due(all_moved=True)[T].partitions == {PartitionId(0): CopyNote(20, 3)}
    assert book.due(all_moved=True) == {}
    book.take([report(30, copied=(30, 4))], {T: ID})
    assert book.due(all_moved=False) == {}  # not before the old epoch was asked about
    assert book.to_ask({P: 4}, [T]) == {P: CopyNote(20, 3)}
    book.confirm([P])
    assert book.due(all_moved=False)[T].partitions == {PartitionId(0): CopyNote(30, 4)}
    assert book.to_ask({P: 4}, [T]) == {}


@pytest.mark.parametrize("state", [PartitionState.COPYING, PartitionState.DIVERGED])
def test_where_a_source_lost_holes_only_what_was_copied_since_is_noted(state: Any) -> None:
    """Given holes at the end of the copy / when another leader writes there / then it is noted.

    Whoever decides on a later loss goes by that epoch's end: by the former one's, what was copied
    since would be copied again.
    """
    book = EpochBook({T: CopiedTopic(str(ID), {PartitionId(0): CopyNote(53, 0, 31)})})
    assert book.take([report(31, copied=(53, 0), target_end=31)], {T: ID}) == []
    assert book.topics()[T].partitions == {PartitionId(0): CopyNote(53, 0, 31)}
    assert book.take([report(47, copied=(47, 1), state=state, target_end=47)], {T: ID}) == []
    (note,) = book.topics()[T].partitions.values()
    assert note[:2] == (47, 1)
    assert book.due(all_moved=False)
    assert book.take([report(53, copied=(53, 0), target_end=47)], {T: ID}) == []  # a late one
    assert book.to_ask({P: 2}, [T]) == {P: note}


def test_a_round_that_has_read_a_log_anew_tells_more() -> None:
    book = EpochBook({T: CopiedTopic(str(ID), {PartitionId(0): CopyNote(53, 0)})})
    spec = copied_spec()
    book.note(spec, CopyNote(47, 1))
    assert book.row_of(spec) == CopyNote(47, 1)
    book.settle_noted(is_over=True)
    assert book.topics()[T].partitions == {PartitionId(0): CopyNote(47, 1)}


def test_a_loss_at_the_target_is_reported_once() -> None:
    book = EpochBook({T: CopiedTopic(str(ID), {PartitionId(0): CopyNote(100, 3)})})
    assert book.take([report(60)], {T: ID}) == [LostRange(P, P, 60, 100)]
    assert book.take([report(60)], {T: ID}) == []


@pytest.mark.parametrize(
    ("before", "now", "lost"), [(79, 79, False), (79, 78, True), (79, 80, False), (-1, 79, True)]
)
def test_a_mirror_with_an_unchanged_end_has_lost_nothing(
    before: int, now: int, *, lost: bool
) -> None:
    """Given markers after a mirror's end / when the next round reads them again / then no loss."""
    book = EpochBook({})
    assert book.take([report(82, copied=(82, 3), target_end=before)], {T: ID}) == []
    expected = [LostRange(P, P, 79, 82)] if lost else []
    assert book.take([report(79, copied=(79, 3), target_end=now)], {T: ID}) == expected
    assert book.take([report(82, copied=(82, 3), target_end=now)], {T: ID}) == []


@pytest.mark.parametrize(
    ("end", "found", "lost"), [(0, 0, False), (7, 7, False), (7, 8, False), (7, 6, True)]
)
def test_a_round_that_has_appended_nothing_notes_the_end_too(
    end: int, found: int, *, lost: bool
) -> None:
    """Given a round that saw only records that a pipeline leaves out / when another driver begins

    at the end that it noted, and passes them again / then nothing was lost; at a lower end it was.
    """
    book = EpochBook({})
    assert book.take([report(850, copied=(850, 3), target_end=end)], {T: ID}) == []
    written = book.due(all_moved=True)
    assert written[T].partitions == {P.partition: CopyNote(Offset(850), 3, end)}
    expected = [LostRange(P, P, 9, 850)] if lost else []
    assert EpochBook(written).take([report(9, target_end=found)], {T: ID}) == expected


def test_the_end_of_a_deleted_topic_of_that_name_is_ignored() -> None:
    book = EpochBook({})
    book.take([report(82, copied=(82, 3), target_end=70)], {T: ID})
    other = {T: UUID(int=8)}
    book.take([report(60, copied=(60, 3), target_end=80)], other)
    assert book.take([report(50, target_end=79)], other) == [LostRange(P, P, 50, 60)]


def test_stopped_and_unknown_partitions_and_other_topics_are_ignored() -> None:
    book = EpochBook({T: CopiedTopic(str(ID), {PartitionId(0): CopyNote(100, 3)})})
    assert book.take([report(60, state=PartitionState.GAP)], {T: ID}) == []
    assert book.take([report(-1)], {T: ID}) == []
    assert book.take([report(60)], {}) == []
    assert book.take([report(60)], {T: UUID(int=8)}) == []  # another topic of that name


def test_all_leaders_are_checked_first_then_changed_ones_only() -> None:
    book = EpochBook({T: CopiedTopic(str(ID), {PartitionId(0): CopyNote(100, 3)})})
    assert book.to_ask(None, [T]) == {P: CopyNote(100, 3)}
    assert book.to_ask({P: 3}, [T]) == {}
    assert book.to_ask({P: 4}, [T]) == {P: CopyNote(100, 3)}
    assert book.to_ask(None, []) == {}
    book.forget(P)
    assert book.to_ask(None, [T]) == {}


def test_a_stopped_partitions_progress_is_noted_at_once() -> None:
    book = EpochBook({T: CopiedTopic(str(ID), {PartitionId(0): CopyNote(100, 3)})})
    stop = report(150, copied=(150, 3), state=PartitionState.GAP)
    assert book.take([stop], {T: ID}) == []
    assert book.due(all_moved=False)[T].partitions == {PartitionId(0): CopyNote(150, 3)}


def test_what_a_partition_had_copied_is_written_as_it_stops_and_not_again() -> None:
    book = EpochBook({T: CopiedTopic(str(ID), {PartitionId(0): CopyNote(100, 3)})})
    book.take([report(150, copied=(150, 3))], {T: ID})
    assert book.due(all_moved=False) == {}
    stop = report(150, copied=(150, 3), state=PartitionState.GAP)
    book.take([stop], {T: ID})
    assert book.due(all_moved=False)[T].partitions == {PartitionId(0): CopyNote(150, 3)}
    other = replace(report(9, copied=(9, 3)), source=TopicPartition(T, PartitionId(1)))
    book.take([other, stop], {T: ID})
    book.due(all_moved=False)
    book.take([replace(other, position=10, copied_to=10), stop], {T: ID})
    assert book.due(all_moved=False) == {}


@pytest.mark.parametrize(("position", "lost"), [(99, True), (100, False), (101, False)])
def test_only_a_position_that_went_back_is_a_loss(position: int, *, lost: bool) -> None:
    """Given a mirror that has all below 100 / when it reports its position / then by that."""
    book = EpochBook({T: CopiedTopic(str(ID), {P.partition: CopyNote(Offset(100), 3)})})
    expected = [LostRange(P, P, position, 100)] if lost else []
    assert book.take([report(position)], {T: ID}) == expected


@pytest.mark.parametrize("state", list(PartitionState))
def test_a_partition_that_copies_was_checked_until_it_is_forgotten(state: PartitionState) -> None:
    """Given a report without an epoch / then its records were found to be the source's."""
    book = EpochBook({})
    book.take([report(60, state=state)], {T: ID})
    assert book.has_begun(copied_spec()) == (state is PartitionState.COPYING)
    assert not book.has_begun(copied_spec(UUID(int=8)))
    book.forget(P)
    assert not book.has_begun(copied_spec())


def copied_spec(topic_id: UUID = ID) -> PartitionSpec:
    return PartitionSpec(P, P, topic_id, None, Offset(0), 1000, is_compacted=False)


def test_the_end_of_a_round_is_known_before_its_reports() -> None:
    """Given late reports / when rounds end / then lanes get the ends, and a close writes them.

    Of another topic of that name, and without an epoch, nothing is used.
    """
    book = EpochBook({})
    book.note(copied_spec(), CopyNote(40, -1))
    assert book.row_of(copied_spec()) is None
    book.note(copied_spec(), CopyNote(50, 3))
    assert book.row_of(copied_spec()) == CopyNote(50, 3)
    assert book.row_of(copied_spec(UUID(int=8))) is None
    assert book.take([report(45, copied=(45, 3))], {T: ID}) == []
    assert book.row_of(copied_spec()) == CopyNote(50, 3)
    book.take([report(60, copied=(60, 3))], {T: ID})
    assert book.row_of(copied_spec()) == CopyNote(60, 3)
    book.note(copied_spec(), CopyNote(70, 3))
    book.note(
        PartitionSpec(OTHER, OTHER, ID, None, Offset(0), 1000, is_compacted=False), CopyNote(5, 1)
    )
    book.settle_noted(is_over=True)
    written = book.due(all_moved=True)
    assert written[T].partitions == {PartitionId(0): CopyNote(70, 3)}
    assert written[OTHER.topic].partitions == {PartitionId(0): CopyNote(5, 1)}


def test_while_lanes_run_only_the_targets_end_comes_from_rounds() -> None:
    """Given a round that ended further than reports show / then no report seems to go back."""
    book = EpochBook({})
    book.take([report(50, copied=(50, 3))], {T: ID})
    book.note(copied_spec(), CopyNote(60, 3, 58))
    book.settle_noted(is_over=False)
    assert book.take([report(55, copied=(55, 3))], {T: ID}) == []
    assert book.due(all_moved=True)[T].partitions == {PartitionId(0): CopyNote(55, 3)}
    book.take([report(60, copied=(60, 3))], {T: ID})
    book.settle_noted(is_over=False)
    assert book.due(all_moved=True)[T].partitions == {PartitionId(0): CopyNote(60, 3, 58)}


def test_a_rounds_end_before_a_settled_gap_is_forgotten() -> None:
    book = EpochBook({})
    book.note(copied_spec(), CopyNote(50, 3))
    book.forget(P)
    assert book.row_of(copied_spec()) is None


@pytest.mark.parametrize(
    ("position", "records", "state", "end"),
    [
        (60, 5, PartitionState.COPYING, 58),
        (61, 5, PartitionState.COPYING, -1),  # after a marker: the mirror's end is elsewhere
        (60, 0, PartitionState.COPYING, 58),  # that round passed holes only
        (60, 5, PartitionState.GAP, -1),
    ],
)
def test_rounds_get_the_mirrors_end_from_reports_alone(
    position: int, records: int, state: PartitionState, end: int
) -> None:
    """Given no round that ended / then the next one knows the expected end, and sees a loss."""
    book = EpochBook({})
    answered = report(position, copied=(60, 3), state=state, target_end=58)
    book.take([replace(answered, records=records)], {T: ID})
    assert book.row_of(copied_spec()) == CopyNote(60, 3, end)
