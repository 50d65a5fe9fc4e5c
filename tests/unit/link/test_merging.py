"""What a driver knows of merged topics: ids before appends, notes of own ends, lost rows."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from heliostat.clusters.producer_rows import ProducersTopic
from heliostat.errors import ConnectionLost, StateIncomplete
from heliostat.link import merging
from heliostat.link.link_context import LinkContext
from heliostat.link.merging import Merging
from heliostat.merge.own_end import OwnNote
from heliostat.names import LinkName, Offset, PartitionId, ProducerId, TopicName, TopicPartition
from heliostat.records.copier.lane import PartitionCode, PartitionSpec
from heliostat.state.merged_notes import OwnNotes, StoredNotes

PLACE = TopicPartition(TopicName("t"), PartitionId(0))
TARGET = UUID(int=7)
SPEC = PartitionSpec(PLACE, PLACE, None, TARGET, Offset(0), 1000, True, merged_from=Offset(4))
ID = ProducerId(5)


class Rows:
    """Stands for a cluster's topic of producer ids."""

    def __init__(self, *_: object) -> None:
        self.rows: dict[ProducerId, LinkName] = {}
        self.now: ProducersTopic | None = ProducersTopic("x", Offset(3))
        self.hidden = 0
        """How many looks more do not show a topic that was just made."""

    def ensure(self, _: object) -> None:
        """There it is."""

    def read(self) -> dict[ProducerId, LinkName]:
        return dict(self.rows)

    def put(self, link: LinkName, ids: set[ProducerId]) -> None:
        self.rows |= dict.fromkeys(ids, link)

    def look(self) -> ProducersTopic | None:
        self.hidden -= 1
        return None if self.hidden >= 0 else self.now


class Notes:
    """Stands for the rows in the link's state."""

    def __init__(self, *_: object) -> None:
        self.stored = StoredNotes()
        self.keeps_out = False

    def put_format(self) -> None:
        self.keeps_out = True

    def read(self) -> StoredNotes:
        return StoredNotes(self.stored.seen, dict(self.stored.own), self.stored.unproven)

    def put_seen(self, seen: ProducersTopic) -> None:
        self.stored.seen = seen

    def put_own(self, notes: dict[TopicName, OwnNotes]) -> None:
        assert self.keeps_out, "an older version would still go on"
        self.stored.own |= notes

    def put_unproven(self, names: Iterable[TopicName]) -> None:
        self.stored.unproven = frozenset(names)


class World:
    """A link that begins again and again; what is durable stays."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.source, self.target, self.notes = Rows(), Rows(), Notes()
        sides = iter([])
        patch.setattr(merging, "ProducerRows", lambda *_: next(self._sides))
        patch.setattr(merging, "MergedNotes", lambda *_: self.notes)
        self._sides: Any = sides
        self.warned: list[str] = []
        self.now_s = 100.0

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def begin(self) -> Merging:
        self._sides = iter([self.source, self.target])
        context = SimpleNamespace(
            link=SimpleNamespace(name="l", state=SimpleNamespace(replication_factor=None)),
            source=SimpleNamespace(access=lambda: None),
            state=SimpleNamespace(clusters=None),
            clock=SimpleNamespace(monotonic_s=lambda: self.now_s, sleep=self.sleep),
            events=SimpleNamespace(warn=self.warned.append),
        )
        admin = cast("Any", None)
        made = Merging(cast("LinkContext", context), admin, admin)
        made.begin({ID})
        return made


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def told(made: Merging) -> OwnNote | None:
    return dict(made.lane([SPEC]).notes).get(0)


@pytest.mark.parametrize("hidden", [1, 30, 10**6])
def test_no_round_begins_before_the_sources_rows_are_known(world: World, hidden: int) -> None:
    world.source.hidden = hidden
    if hidden < 10**6:
        assert world.begin().lane([SPEC]).producers_id == "x"
        return
    with pytest.raises(ConnectionLost):
        world.begin()


def test_the_links_ids_are_in_their_rows_and_foreign_ones_of_its_name_stop_it(
    world: World,
) -> None:
    world.begin()
    assert world.target.rows == {ID: "l"}
    world.target.rows[ProducerId(4)] = LinkName("l")
    with pytest.raises(StateIncomplete):
        world.begin()


def test_a_closed_note_is_told_once_and_is_open_before(world: World) -> None:
    note = OwnNote(3, Offset(9), 1, is_closed=True)
    ended = cast("Any", SimpleNamespace(closed=[(PLACE, note)]))
    made = world.begin()
    assert told(made) is None
    made.round_ended({PLACE: SPEC}, ended)
    made.finish()
    assert world.notes.stored.own["t"].partitions == {0: note}
    made = world.begin()
    assert world.notes.stored.own["t"].partitions == {0: note._replace(is_closed=False)}
    assert told(made) == note
    assert told(made) == note._replace(is_closed=False)
    made.finish()
    assert not world.notes.stored.own["t"].partitions[PartitionId(0)].is_closed


def test_notes_come_with_reports_and_hold_for_one_target_topic(world: World) -> None:
    made = world.begin()
    report = cast("Any", SimpleNamespace(source=PLACE, own=OwnNote(6, Offset(20), 2)))
    made.turn([report], {PLACE: SPEC})
    assert told(made) == OwnNote(6, Offset(20), 2)
    assert world.notes.stored.own["t"].target_id == str(TARGET)
    world.notes.stored.own["t"] = OwnNotes("another", {PartitionId(0): OwnNote(6, Offset(20))})
    assert told(world.begin()) is None


@pytest.mark.parametrize(
    "now", [None, ProducersTopic("y", Offset(9)), ProducersTopic("x", Offset(2))]
)
def test_lost_rows_stop_all_and_are_not_noted(world: World, now: ProducersTopic | None) -> None:
    world.begin()
    world.source.now = now
    made = world.begin()
    [spec] = made.marked({PLACE: SPEC}).values()
    assert spec.fail_code == PartitionCode.PRODUCERS_LOST
    assert spec.why_fails
    assert world.notes.stored.seen == ProducersTopic("x", Offset(3))
    assert len(world.warned) == 1


def test_a_state_topic_that_was_gone_gets_all_that_is_known(world: World) -> None:
    """Also which topics may not begin: else one would begin anew once its row is gone twice."""
    left = frozenset({TopicName("older")})
    world.notes.stored.unproven = left
    made = world.begin()
    world.notes.stored = StoredNotes()
    made.restore()
    assert world.notes.stored.unproven == left
    assert world.notes.stored.seen is not None
