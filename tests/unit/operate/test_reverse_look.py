"""What becomes of each topic on the way back, by what both clusters say of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest
from support.simulated_admin import SimulatedAdmin
from support.simulated_cluster import SimulatedCluster

from heliostat.config import LinkConfig, TopicsConfig
from heliostat.errors import BrokerError
from heliostat.handover.promotion import (
    LeaderEpoch,
    MirrorEnds,
    PartitionPromotion,
    PromotedBy,
    Promotion,
)
from heliostat.mm2.adopt_clusters import LinkClusters
from heliostat.names import LinkName, Offset, PartitionId, TopicName, TopicPartition
from heliostat.offsets.offset_map import MapReader
from heliostat.operate.reversing import comparing
from heliostat.operate.reversing.look import Look
from heliostat.operate.reversing.recreate import Recreating
from heliostat.operate.reversing.values import Evidence, ReturnState, Tail, TopicReturn
from heliostat.verify.reader import Bounds

A, B = TopicName("a"), TopicName("b")
WRITER = 7
EAST, WEST = "east", "west"


class Reader:
    """A reader of committed records of a simulated cluster."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.cluster = cluster

    def bounds(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Bounds]:
        logs = {each: self.cluster.topics[each.topic].logs[each.partition] for each in partitions}
        return {
            each: Bounds(log.start, min([*log.open.values(), log.end]))
            for each, log in logs.items()
        }


def rows_of(
    _: object, partition: TopicPartition, start: int, stop: int, view: object
) -> Iterator[Any]:
    del partition, view
    yield from ((offset, 7, b"k", b"v", []) for offset in range(start, stop))


@dataclass
class Sides:
    """The old source and the new primary, with two topics of three records that were switched."""

    old: SimulatedCluster = field(default_factory=lambda: SimulatedCluster(EAST))
    new: SimulatedCluster = field(default_factory=lambda: SimulatedCluster(WEST))
    link: LinkConfig = field(default_factory=lambda: LinkConfig(name="l", source=EAST, target=WEST))
    back: LinkConfig = field(
        default_factory=lambda: LinkConfig(
            name="m", source=WEST, target=EAST, topics=TopicsConfig(include=(A, B))
        )
    )
    made_anew: list[TopicName] = field(default_factory=list)
    epoch: LeaderEpoch | None = None

    def __post_init__(self) -> None:
        for cluster in (self.old, self.new):
            for name in (A, B):
                cluster.create(name)
                cluster.append(name, 3)

    def promotion(self, name: TopicName) -> Promotion:
        ids = self.old.topics[name].topic_id, self.new.topics[name].topic_id
        at = PartitionPromotion(Offset(3), Offset(3), self.epoch)
        clusters = self.old.cluster_id, self.new.cluster_id
        ends = MirrorEnds(name, *clusters, *ids, {PartitionId(0): at})
        return Promotion(name, PromotedBy.SWITCH, "ann", 1, ends=ends)

    def refusals(self, wanted: Collection[TopicName], _: object) -> dict[TopicName, str]:
        self.made_anew += wanted
        return dict.fromkeys(wanted, "a test")

    def look(self, tail: Tail = Tail.REFUSE) -> dict[TopicName, TopicReturn]:
        old, new = SimulatedAdmin(self.old), SimulatedAdmin(self.new)
        clusters = SimpleNamespace(
            source=new,
            target=old,
            source_access=self.new,
            target_access=self.old,
            source_id=self.new.cluster_id,
            link=self.back,
            name=LinkName("m"),
            known=dict,
        )
        anew: Any = SimpleNamespace(refusals=self.refusals, as_they_are=lambda _: {})
        look = Look(
            cast("LinkClusters", clusters), self.link, self.back, cast("Recreating", anew), tail
        )
        return {row.topic: row for row in look.topics({A: self.promotion(A), B: self.promotion(B)})}


class Readers:
    """Readers of both sides, of which there is one."""

    def __init__(self, old: SimulatedCluster, new: SimulatedCluster, _: object) -> None:
        self._both = SimpleNamespace(source=Reader(old), target=Reader(new))

    def each(self, items: Any, work: Callable[[Any, Any], list[Any]]) -> list[Any]:
        return work(self._both, items)

    def close(self) -> None: ...


@pytest.fixture
def sides(monkeypatch: pytest.MonkeyPatch) -> Sides:
    monkeypatch.setattr(comparing, "SeveralReaders", Readers)
    monkeypatch.setattr(comparing, "rows_of", rows_of)
    monkeypatch.setattr(comparing, "read_maps", lambda *_: MapReader())
    monkeypatch.setattr("heliostat.operate.reversing.look.PlainReader", _NoReader)
    return Sides()


class _NoReader:
    def __init__(self, *_: object, **__: object) -> None: ...

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


def states(rows: dict[TopicName, TopicReturn]) -> list[ReturnState]:
    return [rows[name].state for name in (A, B)]


def test_an_open_transaction_is_named_and_refuses_its_topic_only(sides: Sides) -> None:
    """Given a transaction at the old source that has not ended / when it is looked at / then its

    topic is refused, by its producer's names; the other one can be copied back.
    """
    sides.old.append_open(A, WRITER)
    sides.old.transactional_ids[WRITER] = "writer"
    rows = sides.look(Tail.RECREATE)
    assert states(rows) == [ReturnState.REFUSED, ReturnState.READY]
    assert rows[A].why == "a transaction is open there: a-0 from offset 3 by producer 7 (writer)"
    assert not sides.made_anew


def test_brokers_that_name_no_producer_show_it_all_the_same(sides: Sides) -> None:
    """Given brokers before 2.8 / when a transaction is open / then its topic is refused as well."""
    sides.old.append_open(A, WRITER)
    sides.old.fail("open_transactions", 35)
    rows = sides.look(Tail.RECREATE)
    assert states(rows) == [ReturnState.REFUSED, ReturnState.READY]
    assert "a-0 can't be read from offset 3 on: a transaction is open" in rows[A].why
    assert not sides.made_anew
    sides.old.fail("open_transactions", 29)
    with pytest.raises(BrokerError):
        sides.look()


@pytest.mark.parametrize(
    ("tail", "state", "words"),
    [
        (Tail.REFUSE, ReturnState.REFUSED, "--tail says what becomes of them"),
        (Tail.KEEP, ReturnState.READY, "they stay, and offsets differ behind them"),
        (Tail.LEAVE, ReturnState.LEFT, "up to 2 records at east never crossed"),
        (Tail.RECREATE, ReturnState.REFUSED, "a test"),
    ],
)
def test_a_tail_is_dealt_with_as_asked(
    sides: Sides, tail: Tail, state: ReturnState, words: str
) -> None:
    """Given a topic with a tail, and one without / when one says what becomes of tails / then it

    does, and the other topic is copied back: one that is left is not written.
    """
    sides.old.append(A, 2)
    rows = sides.look(tail)
    assert states(rows) == [state, ReturnState.READY]
    assert words in rows[A].why
    assert sides.made_anew == ([A] if tail is Tail.RECREATE else [])


def test_what_shows_that_logs_are_equal_is_told(sides: Sides) -> None:
    """Given a new primary that has deleted what was copied / when looked at / then leader epochs

    decide, and are told; without, or by what they deny, it is not equal.
    """
    sides.new.topics[A].logs[0].start = 3
    assert "no leader epoch shows" in sides.look()[A].why
    sides.epoch = LeaderEpoch(0, Offset(3))
    row = sides.look()[A]
    assert [part.evidence for part in row.partitions] == [Evidence.LEADER_EPOCHS]
    assert "1 of 1 partitions by the leader epochs of east only" in row.why
    assert sides.look()[B].why == "both logs are equal up to the promotion"
    sides.old.topics[A].logs[0].start = 3
    assert "1 of 1 partitions have no record below it at east" in sides.look()[A].why
