"""Rebuilding a link's state: what is written, in which order, and what is waited for."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from heliostat.clusters.admin import ConfigEntry, ConfigSource
from heliostat.config import LinkConfig
from heliostat.errors import ConnectionLost, Refused
from heliostat.invariants import first_generation
from heliostat.names import ClusterId, LinkName, Offset, PartitionId, TopicName, TopicPartition
from heliostat.offsets.map_rows import RowKey, Stamp
from heliostat.offsets.marks import Mapped, MapTopic, Marks, MirrorId
from heliostat.offsets.offset_map import Break, MapReader, MapRow
from heliostat.rebuild.look import _at_beginning
from heliostat.rebuild.plan import PartitionRebuild, RebuildPlan, TopicRebuild
from heliostat.rebuild.proof import Kind, NotProved, Proof
from heliostat.rebuild.state import _end_rounds, _rounds_last_s, write_state
from heliostat.state.link_state import Starts, Stored
from heliostat.state.ownership import owner_lasts_s
from heliostat.topics.values import MirrorRecord
from heliostat.verify.compaction import Cleaning

ID = UUID(int=7)
MAPS = MapTopic("maps", 0, 9)
ORDERS, EXACT = TopicName("orders"), TopicName("exact")


def record(name: TopicName) -> MirrorRecord:
    return MirrorRecord(name, TopicName(f"A.{name}"), None, ID, ClusterId("c"), "earliest", 3)


def partition(number: int, found: Proof | NotProved | None, end: int = 12) -> PartitionRebuild:
    return PartitionRebuild(PartitionId(number), Offset(20), Offset(end), found)


def proof(kind: Kind, start: int, position: int, breaks: Any = None) -> Proof:
    return Proof(kind, Offset(start), Offset(position), 5, breaks)


MAPPED = TopicRebuild(
    record(ORDERS),
    (
        partition(0, proof(Kind.MAPPED, 2, 14, (Break(0, 2),))),
        partition(1, proof(Kind.FILLED, 0, 12)),
        partition(2, None, 0),
    ),
)
PLAIN = TopicRebuild(record(EXACT), (partition(0, proof(Kind.EXACT, 3, 12)),))
BROKEN = TopicRebuild(
    record(EXACT),
    (partition(0, proof(Kind.EXACT, 0, 12)), partition(1, NotProved("it differs", 4))),
)


class Memory:
    """Stand-in of the link's state: the writes, in order; with planned failures."""

    def __init__(self, fails_at: str = "", marks: Marks | None = None) -> None:
        self.fails_at = fails_at
        self.writes: list[str] = []
        self.reader = MapReader()
        self.kept: dict[str, Any] = {}
        self.claim = 0
        self.announced: list[tuple[int, Mapping[Any, Any]]] = []
        self.offsets = self
        self.marks = SimpleNamespace(
            read=lambda: marks or Marks(),
            put_mapped=lambda found: self._wrote("mapped", found),
            put_topic=lambda found: self._wrote("topic", found),
            put_rebuilt=lambda found: self._wrote("rebuilt", found),
        )
        self.known = MAPS
        self.put_beginning = lambda found: self._wrote("beginning", found)
        self.put_starts = lambda found: self._wrote("starts", found)
        self.put_mirrors = lambda found: self._wrote("mirrors", found)

    def _wrote(self, what: str, found: Any) -> None:
        if what == self.fails_at:
            raise ConnectionLost("killed")
        self.writes.append(what)
        self.kept[what] = found

    def announce(self, told: Any) -> None:
        self.announced.append((self.claim, told.rounds))

    def fresh(self) -> MapReader:
        return self.reader.copy()

    def put(self, rows: Any) -> None:
        some: list[MapRow] = list(rows)
        self._wrote("rows", some)
        for row in some:
            self.reader.take(row)

    def known_breaks(self, name: MirrorId) -> tuple[Break, ...]:
        return tuple(self.reader.of(*name).breaks())


def at(number: int) -> MirrorId:
    return TopicPartition(TopicName("A.orders"), PartitionId(number)), str(ID)


def test_the_rows_that_make_mirrors_ours_are_written_last() -> None:
    state: Any = Memory()
    write_state(state, [MAPPED, PLAIN], frozenset({ORDERS}))
    assert state.writes == ["rows", "mapped", "topic", "beginning", "starts", "mirrors"]
    zero, one = PartitionId(0), PartitionId(1)
    twelve = Offset(12)
    assert state.kept["starts"] == {
        ORDERS: Starts(ID, {zero: Offset(2), one: Offset(0)}, {zero: twelve, one: twelve}),
        EXACT: Starts(ID, {zero: Offset(3)}, {zero: twelve}),
    }
    assert state.kept["mapped"] == {
        ORDERS: Mapped(TopicName("A.orders"), str(ID), frozenset({zero, one}))
    }
    assert list(state.reader.of(*at(0)).breaks()) == [Break(0, 2)]


@pytest.mark.parametrize("where", ["rows", "mapped", "topic", "beginning", "starts", "mirrors"])
def test_a_rebuild_killed_halfway_can_be_repeated(where: str) -> None:
    """Nothing of it makes a mirror ours before the last write."""
    state: Any = Memory(where)
    with pytest.raises(ConnectionLost):
        write_state(state, [MAPPED, PLAIN], frozenset())
    assert "mirrors" not in state.kept
    state.fails_at = ""
    write_state(state, [MAPPED, PLAIN], frozenset())
    assert set(state.kept["mirrors"]) == {ORDERS, EXACT}
    assert list(state.reader.of(*at(0)).breaks()) == [Break(0, 2)]


def test_notes_of_a_later_run_stay() -> None:
    lost = {at(0): "rows are gone", (TopicPartition(TopicName("else"), PartitionId(0)), ""): "x"}
    state: Any = Memory(marks=Marks(topic=MapTopic("maps", 0, 4), lost=lost))
    write_state(state, [MAPPED], None)
    assert state.writes == ["rows", "mapped", "rebuilt", "starts", "mirrors"]
    assert state.kept["rebuilt"] == {at(0)}


def test_rows_of_another_writer_are_not_relied_on() -> None:
    state: Any = Memory()
    state.put = lambda rows: None  # a newer stamp has come
    with pytest.raises(Refused, match="another writer"):
        write_state(state, [MAPPED], None)
    assert state.writes == []


def test_an_exact_mirror_that_had_rows_gets_replacements() -> None:
    state: Any = Memory()
    name = TopicPartition(TopicName("A.exact"), PartitionId(0)), str(ID)
    state.reader.take(MapRow(RowKey(*name, 1, Stamp(4, 1)), (Break(1, 9),)))
    exact = TopicRebuild(record(EXACT), (partition(0, proof(Kind.EXACT, 0, 12, ())),))
    write_state(state, [exact], None)
    assert state.reader.of(*name).is_identity
    assert state.reader.stamp_of(*name) == Stamp(4, 1)
    plain: Any = Memory()
    write_state(plain, [exact], None)
    assert "rows" not in plain.writes


class Time:
    def __init__(self) -> None:
        self.now_s = 100.0

    def monotonic_s(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


@pytest.mark.parametrize("last_s", [0.0, 7.0])
def test_submitted_rounds_are_told_to_end_and_waited_for(last_s: float) -> None:
    clock: Any = Time()
    kept: list[float] = []
    owner: Any = SimpleNamespace(claim_number=3, keep=kept.append)
    state: Any = Memory()
    _end_rounds(state, owner, MapReader(), last_s, clock)
    assert clock.now_s == 100.0 + last_s
    assert len(kept) == -(-last_s // 2)  # the claim lasts meanwhile
    assert state.announced == [(3, {})]


def test_claims_continue_from_the_last_writer_of_the_maps() -> None:
    """Otherwise rows of the next owner would seem older, and be ignored (I10)."""
    maps = MapReader()
    maps.take(MapRow(RowKey(*at(0), 1, Stamp(first_generation(41) + 5, 1)), (Break(1, 9),)))
    owner: Any = SimpleNamespace(claim_number=1, keep=lambda _: None)
    state: Any = Memory()
    clock: Any = Time()
    _end_rounds(state, owner, maps, 0.0, clock)
    assert state.announced == [(41, {})]


def test_the_wait_is_as_long_as_a_lease() -> None:
    link = LinkConfig.model_validate(
        {"name": "l", "source": "a", "target": "b", "lanes": {"lease_s": 30}}
    )
    assert _rounds_last_s(link) == owner_lasts_s(30)


def test_unknown_selected_topics_count_as_younger_than_the_link() -> None:
    """`start: latest` must not skip records written to them since the state was lost."""
    names = tuple(map(TopicName, ("known", "other", "selected")))
    source = SimpleNamespace(names=names, topics=dict.fromkeys((names[0], names[2])))
    stored = Stored(mirrors={names[0]: record(names[0])})
    seen: Any = SimpleNamespace(source=source, stored=stored)
    assert _at_beginning(seen) == {"known", "other"}
    stored.at_beginning = frozenset()
    assert _at_beginning(seen) is None


def test_cleanup_of_each_side_is_read_from_its_settings() -> None:
    def entry(value: str | None) -> ConfigEntry:
        return ConfigEntry(value, ConfigSource.DEFAULT, True, False, False)

    some = {"cleanup.policy": entry("delete,compact"), "delete.retention.ms": entry("5")}
    assert Cleaning.of(some) == Cleaning(True, 5)
    assert Cleaning.of({}) == Cleaning(False, 86_400_000)


def test_an_unproved_partition_keeps_its_topic_refused() -> None:
    plan = RebuildPlan(
        LinkName("l"), (MAPPED, BROKEN), ("a note",), warnings={ORDERS: "it is too large"}
    )
    assert plan.taken == (MAPPED,)
    assert plan.has_refusals
    assert list(plan.describe()) == [
        "rebuild: orders → A.orders",
        (
            "  0: mapped: source end 20, target end 12; continues at source offset 14 (5 records "
            "compared, its offset map rebuilt)"
        ),
        (
            "  1: filled: source end 20, target end 12; continues at source offset 12 (5 records "
            "compared)"
        ),
        "  2: new: source end 20, target end 0; copied from its beginning",
        "refuse (partition 1 is not shown to be a copy of the source's): exact → A.exact",
        (
            "  0: exact: source end 20, target end 12; continues at source offset 12 (5 records "
            "compared)"
        ),
        "  1: refused: source end 20, target end 12; it differs",
        "note: orders is still not copied: it is too large",
        "note: a note",
    ]
    told = plan.to_json()["topics"][1]["partitions"]
    assert [(one["verdict"], one["differs_at"]) for one in told] == [
        ("exact", None),
        ("refused", 4),
    ]
    assert list(RebuildPlan(LinkName("l"), ()).describe()) == [
        "the link knows all its mirrors as its own"
    ]


def test_a_plan_says_what_the_state_lacks() -> None:
    plan = RebuildPlan(LinkName("l"), (), missing="its producer id")
    (note,) = list(plan.describe())[1:]
    assert note.startswith("note: the state lacks its producer id; that is made anew, and of ")
    assert plan.to_json()["missing"] == "its producer id"
