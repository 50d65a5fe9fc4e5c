"""By leader epochs a truncated source is found, however far its log has grown again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from heliostat.clusters.admin import EpochEnd
from heliostat.errors import BrokerError
from heliostat.link.epochs import EpochBook, Lost, Parted, is_truncated, truncations
from heliostat.link.gaps import Copied, CopiedTopic
from heliostat.names import LeaderEpoch, Offset, PartitionId, TopicName, TopicPartition
from heliostat.records.lane import PartitionReport, PartitionState

T = TopicName("t")
P = TopicPartition(T, PartitionId(0))
ID = UUID(int=7)


def end(epoch: int, offset: int) -> EpochEnd:
    return EpochEnd(LeaderEpoch(epoch), Offset(offset))


@pytest.mark.parametrize(
    ("answer", "is_so"),
    [
        (end(3, 100), False),  # just what was copied
        (end(3, 900), False),
        (end(3, 99), True),
        (end(2, 900), True),  # its log has no such epoch
        (end(-1, -1), False),  # it knows no epochs
    ],
)
def test_a_log_that_ends_before_what_was_copied_was_truncated(
    answer: EpochEnd, is_so: bool
) -> None:
    assert is_truncated(Copied(100, 3), answer) is is_so


def asked(answers: dict[TopicPartition, Any]) -> Any:
    return SimpleNamespace(epoch_ends=lambda epochs: {p: answers[p] for p in epochs})


def test_where_it_parted_is_told_only_if_the_epoch_is_the_same() -> None:
    other = TopicPartition(T, PartitionId(1))
    dead = TopicPartition(T, PartitionId(2))
    answers = {P: end(3, 90), other: end(1, 50), dead: BrokerError("none", kafka_code=5)}
    known = dict.fromkeys([P, other, dead], Copied(100, 3))
    sound, blind = (TopicPartition(T, PartitionId(n)) for n in (3, 4))
    known |= dict.fromkeys([sound, blind], Copied(100, 3))
    source = asked({**answers, sound: end(3, 100), blind: end(-1, -1)})
    found = truncations(source, known)
    assert found == {P: Parted(Offset(90)), other: Parted(None), sound: None}
    assert truncations(source, {}) == {}


def report(
    position: int, *, copied: tuple[int, int] = (-1, -1), state: Any = PartitionState.COPYING
) -> PartitionReport:
    return PartitionReport(
        P, P, state, position, 1000, 0, 0, -1, -1, 5, copied_to=copied[0], copied_epoch=copied[1]
    )


def test_a_new_epoch_is_written_at_once_and_progress_in_time() -> None:
    book = EpochBook({})
    book.take([report(10, copied=(10, 3))], {T: ID})
    assert book.due(all_moved=False) == {T: CopiedTopic(str(ID), {PartitionId(0): Copied(10, 3)})}
    book.take([report(20, copied=(20, 3))], {T: ID})
    assert book.due(all_moved=False) == {}
    assert book.due(all_moved=True)[T].partitions == {PartitionId(0): Copied(20, 3)}
    assert book.due(all_moved=True) == {}
    book.take([report(30, copied=(30, 4))], {T: ID})
    assert book.due(all_moved=False) == {}  # not before the old epoch was asked about
    assert book.to_ask({P: 4}, [T]) == {P: Copied(20, 3)}
    book.confirm([P])
    assert book.due(all_moved=False)[T].partitions == {PartitionId(0): Copied(30, 4)}
    assert book.to_ask({P: 4}, [T]) == {}


def test_what_the_target_lost_is_told_once() -> None:
    book = EpochBook({T: CopiedTopic(str(ID), {PartitionId(0): Copied(100, 3)})})
    assert book.take([report(60)], {T: ID}) == [Lost(P, P, 60, 100)]
    assert book.take([report(60)], {T: ID}) == []


def test_stopped_and_unknown_partitions_and_other_topics_tell_nothing() -> None:
    book = EpochBook({T: CopiedTopic(str(ID), {PartitionId(0): Copied(100, 3)})})
    assert book.take([report(60, state=PartitionState.GAP)], {T: ID}) == []
    assert book.take([report(-1)], {T: ID}) == []
    assert book.take([report(60)], {}) == []
    assert book.take([report(60)], {T: UUID(int=8)}) == []  # another topic of that name


def test_only_changed_leaders_are_asked_about_and_all_at_the_beginning() -> None:
    book = EpochBook({T: CopiedTopic(str(ID), {PartitionId(0): Copied(100, 3)})})
    assert book.to_ask(None, [T]) == {P: Copied(100, 3)}
    assert book.to_ask({P: 3}, [T]) == {}
    assert book.to_ask({P: 4}, [T]) == {P: Copied(100, 3)}
    assert book.to_ask(None, []) == {}
    book.forget(P)
    assert book.to_ask(None, [T]) == {}


def test_a_stopped_partition_tells_what_it_has_copied_at_once() -> None:
    book = EpochBook({T: CopiedTopic(str(ID), {PartitionId(0): Copied(100, 3)})})
    stop = report(150, copied=(150, 3), state=PartitionState.GAP)
    assert book.take([stop], {T: ID}) == []
    assert book.due(all_moved=False)[T].partitions == {PartitionId(0): Copied(150, 3)}
