"""Offset maps that lost rows: which mirrors stop, which continue, and what is durable."""

from __future__ import annotations

from typing import Any
from unittest.mock import MagicMock, Mock

import pytest
from support.simulated_admin import SimulatedAdmin
from support.simulated_cluster import SimulatedCluster

from heliostat.access import access_of
from heliostat.clusters.plain_records import LogBounds, PlainRecord
from heliostat.errors import BrokerError, OffsetMapLost
from heliostat.gaps.ledger import CopyNote
from heliostat.names import (
    ClusterId,
    LinkName,
    Offset,
    PartitionId,
    TopicId,
    TopicName,
    TopicPartition,
)
from heliostat.offsets import keeper as map_keeper
from heliostat.offsets.keeper import (
    MapKeeper,
    RememberedPartition,
    _digest,
    _digest_without_ids,
    ends_alike,
)
from heliostat.offsets.map_rows import RowKey, Stamp
from heliostat.offsets.marks import MapMarks, Mapped, MapTopic, MirrorId
from heliostat.offsets.offset_map import Break, MapReader, MapRow
from heliostat.records.copier.lane import PartitionReport, PartitionSpec, PartitionState
from heliostat.state.link_state import Starts
from heliostat.topics.values import MirrorRecord

ID = TopicId(int=7)
WAS, NOW = MapTopic("old", 0, 5), MapTopic("new", 0, 0)
WHY = "topic maps has lost rows: it was deleted and recreated"


@pytest.mark.parametrize(
    ("was", "now", "is_lost"),
    [
        (("a", 0, 5), ("a", 0, 5), False),
        (("a", 0, 5), ("a", 0, 9), False),
        (("a", 0, 5), ("b", 0, 9), True),
        (("a", 0, 5), ("a", 1, 9), True),
        (("a", 3, 5), ("a", 3, 9), False),
        (("a", 0, 5), ("a", 0, 4), True),
        (("", 0, 5), ("b", 0, 5), False),  # before Kafka 2.8 there were no ids
        (("a", 0, 5), ("", 0, 4), True),
    ],
)
def test_lost_rows_are_recognized(was: Any, now: Any, *, is_lost: bool) -> None:
    assert bool(MapTopic(*was).why_lost(MapTopic(*now))) is is_lost


class StateTopic:
    """Stands for the state topic."""

    topic = TopicName("heliostat.l.state")

    def __init__(self) -> None:
        self.rows: dict[str, Any] = {"mirror/t": {}, "owner": {}}

    def read_all(self) -> dict[str, Any]:
        return dict(self.rows)

    def write(self, key: str, value: Any) -> None:
        self.write_many({key: value})

    def write_many(self, values: dict[str, Any]) -> None:
        for key, value in values.items():
            self.rows.pop(key, None)
            if value is not None:
                self.rows[key] = value


class Maps:
    """Stands for `OffsetMaps`: a topic that is replaced by another one."""

    def __init__(self) -> None:
        self.now = WAS
        self.known: MapTopic | None = None
        self.mapped: set[MirrorId] = set()
        self.lost: set[MirrorId] = set()
        self.written_over: dict[MirrorId, str] = {}

    def spoiled(self) -> dict[MirrorId, str]:
        found, self.written_over = self.written_over, {}
        return found

    def strange(self) -> tuple[str, ...]:
        return ("one", "two", "three", "four", "five")

    def begin(self, known: MapTopic | None, lost: Any) -> None:
        self.known, self.lost = known, set(lost)

    def refresh(self) -> None:
        if self.known is not None and self.known.why_lost(self.now):
            raise OffsetMapLost(WHY)
        self.known = self.now

    def has_all_of(self, was: MapTopic) -> bool:
        return not was.why_lost(self.now)

    @property
    def topic(self) -> str:
        return "maps"

    def names(self) -> frozenset[MirrorId]:
        return frozenset(self.mapped)

    def begin_again(self, lost: Any) -> None:
        self.known, self.lost, self.mapped = self.now, set(lost), set()

    def set_lost(self, lost: Any) -> None:
        self.lost = set(lost)


def partition(topic: str, number: int = 0) -> TopicPartition:
    return TopicPartition(TopicName(topic), PartitionId(number))


def name(topic: str, number: int = 0) -> MirrorId:
    return partition(topic, number), str(ID)


class World:
    """A link with two mirrors of two partitions, as its driver comes and goes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cluster = SimulatedCluster()
        self.state, self.maps, self.events = StateTopic(), Maps(), Mock()
        self.exact: dict[TopicPartition, bool | BrokerError] = {}
        self.copied: dict[TopicPartition, CopyNote] = {}
        self.mirrors: dict[TopicName, MirrorRecord] = {}
        self.starts: dict[TopicName, Starts] = {}
        for topic in (TopicName("m"), TopicName("e")):
            self.cluster.create(topic, partitions=2)
            for number in range(2):
                self.cluster.append(topic, 10, partition=number)
            self.mirrors[topic] = MirrorRecord(
                topic, topic, None, ID, ClusterId("c"), "earliest", 2
            )
            begins = {PartitionId(number): Offset(0) for number in range(2)}
            self.starts[topic] = Starts(ID, begins)
        monkeypatch.setattr(map_keeper, "PlainReader", MagicMock())
        monkeypatch.setattr(map_keeper, "ends_alike", self._ends_alike)
        self.keeper = self.driver()

    def _ends_alike(self, _source: Any, _target: Any, one: RememberedPartition, *_: Any) -> bool:
        found = self.exact.get(one.mirror, True)
        if isinstance(found, BrokerError):
            raise found
        return found

    def marks(self) -> MapMarks:
        made = MapMarks("127.0.0.1:1", LinkName("l"))
        made._topic = self.state  # type: ignore[assignment]  # a stand-in
        return made

    def driver(self) -> MapKeeper:
        """Another one, of what is durable."""
        self.maps.known = None
        keeper = MapKeeper(
            self.maps,  # type: ignore[arg-type]  # as above
            self.marks(),
            source=access_of("127.0.0.1:1"),
            target_access=access_of("127.0.0.1:1"),
            target=SimulatedAdmin(self.cluster),
            copied=self.copied.get,
            events=self.events,
        )
        keeper.begin()
        return keeper

    def look(self, *reports: PartitionReport) -> dict[str, str]:
        """A turn; what may not be copied, and why."""
        self.keeper.look(self.mirrors, self.starts, reports)
        specs = {
            each: PartitionSpec(each, each, None, ID, Offset(0), 1 << 20, is_compacted=False)
            for topic in self.mirrors
            for each in (partition(topic), partition(topic, 1))
        }
        found = self.keeper.with_lost(specs)
        return {str(each): spec.map_lost for each, spec in found.items() if spec.map_lost}


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World(monkeypatch)
    made.maps.mapped = {name("m")}
    assert made.look() == {}
    return made


def test_the_state_topic_records_who_has_a_map_and_where(world: World) -> None:
    marks = world.marks().read()
    assert marks.topic == WAS
    assert marks.mapped == {"m": Mapped(TopicName("m"), str(ID), frozenset({PartitionId(0)}))}
    world.maps.mapped.add(name("m", 1))
    world.maps.mapped.add(name("other"))  # of no mirror of the link's any more
    world.look()
    assert world.marks().read().names() == {name("m"), name("m", 1)}


def test_mapped_mirrors_stop_for_all_drivers_and_others_continue(world: World) -> None:
    world.maps.now = NOW
    world.keeper = world.driver()
    for _ in range(2):
        found = world.look()
        assert list(found) == ["m-0"]
        assert WHY in found["m-0"]
        assert "offsets rebuild" in found["m-0"]
        assert world.maps.lost == {name("m")}
        assert world.marks().read().topic == NOW
        world.keeper = world.driver()
    assert world.events.warn.call_count == 1


def test_a_map_that_was_read_but_not_noted_yet_counts_as_mapped(world: World) -> None:
    world.maps.mapped.add(name("e", 1))
    world.maps.now = NOW
    assert set(world.look()) == {"m-0", "e-1"}


def test_a_mirror_not_shown_to_be_exact_is_lost_too(world: World) -> None:
    world.exact = {partition("e"): False, partition("e", 1): False}
    world.copied[partition("e", 1)] = CopyNote(10, 1, 10)  # by the ledger it is
    world.maps.now = NOW
    assert set(world.look()) == {"m-0", "e-0"}


@pytest.mark.parametrize("copied", [CopyNote(11, 1, 10), CopyNote(10, 1, -1), CopyNote(9, 1, 9)])
def test_only_a_note_of_the_current_end_shows_it(world: World, copied: CopyNote) -> None:
    world.exact = {partition("e"): False}
    world.copied[partition("e")] = copied
    world.maps.now = NOW
    assert set(world.look()) == {"m-0", "e-0"}


def test_a_mirror_that_cannot_be_read_now_waits_and_is_checked_again(world: World) -> None:
    """Nothing of it is noted yet, nor the id of the maps' topic: all is found again."""
    world.exact = {partition("e"): BrokerError("no leader", kafka_code=6)}
    world.cluster.fail("list_log_ends", 6, partition("e", 1))
    world.maps.now = NOW
    assert set(world.look()) == {"m-0", "e-0", "e-1"}
    assert world.marks().read().topic == WAS
    assert world.marks().read().lost.keys() == {name("m")}
    world.keeper = world.driver()
    assert set(world.look()) == {"m-0", "e-0", "e-1"}
    world.cluster.heal()
    world.exact = {partition("e"): False}
    assert set(world.look()) == {"m-0", "e-0"}
    assert world.marks().read().topic == NOW


@pytest.mark.parametrize("is_running", [True, False])
def test_a_rebuilt_map_lets_its_mirror_continue(world: World, is_running: bool) -> None:
    world.maps.now = NOW
    assert set(world.look()) == {"m-0"}
    world.marks().put_rebuilt([name("m")])
    if not is_running:
        world.keeper = world.driver()
    assert world.look() == {}
    assert world.maps.lost == set()
    marks = world.marks().read()
    assert (marks.lost, marks.rebuilt) == ({}, set())


@pytest.mark.parametrize("is_running", [True, False])
def test_a_loss_that_was_none_is_taken_back(world: World, is_running: bool) -> None:
    """Given a deposed broker that knew no newer rows / when a later look shows them / then all

    mirrors go on, whichever driver looks; a map that was lost for another reason stays so.
    """
    world.maps.now = WAS._replace(end=3)
    world.maps.written_over = {name("e"): "foreign"}
    assert set(world.look()) == {"m-0", "e-0"}
    assert world.marks().read().had == {name("m"): WAS}
    assert set(world.look()) == {"m-0", "e-0"}
    world.maps.now = WAS._replace(end=9)
    if not is_running:
        world.keeper = world.driver()
    assert set(world.look()) == {"e-0"}
    marks = world.marks().read()
    assert (set(marks.lost), marks.had) == ({name("e")}, {})
    assert world.maps.lost == {name("e")}


def test_only_the_mirror_of_an_overwritten_row_stops(world: World) -> None:
    """Given a foreign record under a row's key / then that mirror stops, for all drivers."""
    world.maps.written_over = {name("m"): WHY}
    for _ in range(2):
        assert set(world.look()) == {"m-0"}
        world.keeper = world.driver()
    assert world.marks().read().lost == {name("m"): WHY}


def stopped(
    topic: str, state: PartitionState = PartitionState.BLOCKED, code: str = OffsetMapLost.code
) -> PartitionReport:
    """Return the report of a lane that has compared a mirror with its map."""
    one = partition(topic)
    return PartitionReport(one, one, state, 0, 9, 0, 0, -1, -1, 5, code, f"{WHY} (hint: x)")


def test_a_loss_found_by_a_lane_stops_its_mirror_for_all_drivers_until_rebuilt(
    world: World,
) -> None:
    assert set(world.look(stopped("e"))) == {"e-0"}
    world.keeper = world.driver()
    assert WHY in world.look()["e-0"]
    assert world.marks().read().lost == {name("e"): WHY}
    world.marks().put_rebuilt([name("e")])
    assert world.look(stopped("e")) == {}  # its previous report
    assert world.marks().read().lost == {}


def test_other_stops_and_mirrors_of_other_links_are_no_lost_maps(world: World) -> None:
    others = (
        stopped("e", PartitionState.RETRYING),
        stopped("e", code="TARGET_TRUNCATED"),
        stopped("of another link"),
    )
    assert world.look(*others) == {}


def test_a_mirror_held_back_by_the_keeper_is_not_lost_for_that(world: World) -> None:
    world.exact = {partition("e"): BrokerError("no leader", kafka_code=6)}
    world.maps.now = NOW
    assert "e-0" in world.look()
    assert "e-0" in world.look(stopped("e"))
    world.exact = {}
    assert set(world.look(stopped("e"))) == {"m-0"}


def test_of_many_foreign_records_a_few_are_reported(world: World) -> None:
    assert world.keeper.notes() == ("one", "two", "three", "and 2 more such records")


def test_lost_state_resumes_no_stopped_mirror(world: World) -> None:
    """Given a mark of a lost map / when the state topic is emptied / then it still counts.

    What the driver knows is written again.
    """
    world.maps.now = NOW
    world.look()
    world.state.rows = {}
    assert set(world.look()) == {"m-0"}
    world.keeper.restore()
    world.keeper = world.driver()
    assert set(world.look()) == {"m-0"}
    assert world.marks().read().topic == NOW


class Log:
    """Stands for a `PlainReader` of one log."""

    def __init__(self, values: dict[int, str], start: int, end: int) -> None:
        self.values, self.range = values, LogBounds(start, end)

    def bounds(self, partitions: list[TopicPartition]) -> dict[TopicPartition, LogBounds]:
        return dict.fromkeys(partitions, self.range)

    def read(self, _partition: TopicPartition, start: int, end: int) -> list[PlainRecord]:
        found = ((at, value) for at, value in self.values.items() if start <= at < end)
        return [PlainRecord(at, 5, None, value.encode(), ()) for at, value in found]


@pytest.mark.parametrize(
    ("source", "target", "is_exact"),
    [
        ({8: "a", 9: "b"}, {8: "a", 9: "b"}, True),
        ({8: "a", 9: "b", 11: "c"}, {8: "a", 9: "b"}, True),
        ({8: "a", 9: "b"}, {8: "x", 9: "a"}, False),
        ({8: "a", 9: "a", 11: "a"}, {8: "a", 9: "a"}, False),  # which of them it is nothing tells
        ({8: "a"}, {8: "a", 9: "b"}, False),
        ({8: "a", 9: "b"}, {8: "a"}, False),
        ({}, {}, False),
    ],
)
def test_the_record_before_the_end_shows_whether_offsets_are_equal(
    source: dict[int, str], target: dict[int, str], *, is_exact: bool
) -> None:
    one = RememberedPartition(partition("t"), partition("t"), "", Offset(0))
    logs: list[Any] = [Log(source, 0, 12), Log(target, 0, 10)]
    assert ends_alike(logs[0], logs[1], one, 10, _digest) is is_exact


def test_gone_records_show_nothing_but_a_mirror_only_aligned_is_exact() -> None:
    values = {8: "a", 9: "b"}
    whole: Any = Log(values, 0, 10)
    emptied: Any = Log({}, 10, 10)
    for start, source, target, expected in (
        (0, whole, emptied, False),
        (0, emptied, whole, False),
        (10, whole, emptied, True),
        (20, whole, emptied, True),
        (20, whole, whole, True),
    ):
        one = RememberedPartition(partition("t"), partition("t"), "", Offset(start))
        assert ends_alike(source, target, one, 10, _digest) is expected


def test_a_lost_map_is_never_read_as_a_map() -> None:
    """Otherwise it would be another mirror's, or an exact one's."""
    reader = MapReader(lost=frozenset({name("m")}))
    row = MapRow(RowKey(partition("m"), str(ID), 4, Stamp(1, 0)), (Break(4, 6),))
    reader.take(row)
    assert reader.is_lost(*name("m"))
    with pytest.raises(OffsetMapLost):
        reader.of(*name("m"))
    assert reader.tail(*name("m"), 10) is None
    assert reader.copy().lost == reader.lost
    assert reader.stamp_of(*name("m")) == Stamp(1, 0)
    assert reader.of(*name("e")).is_identity


def test_where_ids_are_replaced_the_record_before_the_end_is_compared_without() -> None:
    """Given another schema id at the target / then it is the same record, but no other byte."""
    one = RememberedPartition(partition("t"), partition("t"), "", Offset(0))
    source: Any = Log({8: "a", 9: "\0\0\0\0\1b"}, 0, 12)
    for value, is_exact in (("\0\0\0\0\2b", True), ("\0\0\0\0\2c", False), ("\1\0\0\0\1b", False)):
        target: Any = Log({8: "a", 9: value}, 0, 10)
        assert ends_alike(source, target, one, 10, _digest_without_ids) is is_exact
        assert not ends_alike(source, target, one, 10, _digest)
