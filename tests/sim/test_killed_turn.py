"""A turn of a mirror in place that is killed at each of its steps, before it or behind its effect.

The verb is the real one (`operate.turning`), the lane is the real one over model logs; the target's
topics of rows are not. After each kill the link goes on by what is durable there: as a mirror, or
as a merged topic. Called again the turn finishes, and no record is lost or doubled.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from sim.merged_sites import Sites
from sim.seeds import seeds
from sim.test_merge_simulation import run
from sim.test_rolling_simulation import MirrorOf, mirrored

from heliostat.config import Config
from heliostat.errors import Refused
from heliostat.names import (
    BrokerId,
    ClusterId,
    LinkName,
    Offset,
    PartitionId,
    ProducerId,
    TopicId,
    TopicName,
    TopicPartition,
)
from heliostat.operate import turning
from heliostat.records.copier.lane import NO_IDS, SchemaIds
from heliostat.state.link_state import Starts, Stored
from heliostat.state.merged_notes import OwnNotes
from heliostat.topics.values import MirrorRecord

T, FIRST = TopicName("t"), PartitionId(0)
HERE, THERE = TopicId(int=1), TopicId(int=2)
PLACE = TopicPartition(T, FIRST)
LINK = {"name": "l", "source": "east", "target": "west", "topics": {"naming": "merge"}}
CONFIG = Config.model_validate(
    {
        "clusters": {"east": {"bootstrap": ["e:1"]}, "west": {"bootstrap": ["w:1"]}},
        "links": [LINK],
    }
)
STEPS_MAX = 30
"""More than a turn has."""


class Died(BaseException):
    """The process was killed."""


@dataclass
class Desk:
    """What is durable at the target, and the process that turns the mirror and may die."""

    mirror: MirrorOf
    rows: Stored
    own: dict[TopicName, OwnNotes] = field(default_factory=dict)
    is_format_noted: bool = False
    steps: int = 0
    dies_at: int = -1
    after_effect: bool = False
    written: list[str] = field(default_factory=list)
    has_begun: bool = False
    """Whether the link goes on as one that merges."""

    @property
    def is_merged(self) -> bool:
        return self.rows.mirrors[T].is_merged

    def step(self, effect: Callable[[], Any] = lambda: None) -> Any:
        """Do one step; the process dies at one of them, before it or behind it."""
        self.steps += 1
        dies = self.steps - 1 == self.dies_at
        if dies and not self.after_effect:
            raise Died
        found = effect()
        if dies:
            raise Died
        return found

    def put(self, name: str, effect: Callable[[], Any]) -> None:
        self.step(lambda: (effect(), self.written.append(name)))

    # -- as `LinkState` --------------------------------------------------------------------------

    @property
    def marks(self) -> Any:
        return SimpleNamespace(read=lambda: SimpleNamespace(lost=frozenset(), names=frozenset))

    def read(self) -> Stored:
        return self.step(
            lambda: Stored(
                producer_id=self.rows.producer_id,
                producers=self.rows.producers,
                mirrors=dict(self.rows.mirrors),
                starts=dict(self.rows.starts),
            )
        )

    def announced_schema_ids(self) -> SchemaIds:
        return NO_IDS

    def put_starts(self, starts: Mapping[TopicName, Starts]) -> None:
        self.put("starts", lambda: self.rows.starts.update(starts))

    def put_mirrors(self, records: Mapping[TopicName, MirrorRecord]) -> None:
        self.put("mirrors", lambda: self.rows.mirrors.update(records))

    # -- as `MergedNotes` and `ProducerRows` -----------------------------------------------------

    def put_format(self) -> None:
        self.put("format", lambda: setattr(self, "is_format_noted", True))

    def put_own(self, notes: Mapping[TopicName, OwnNotes]) -> None:
        self.put("own", lambda: self.own.update(notes))

    def ensure(self, _: int | None) -> None:
        self.step()

    def put_ids(self, link: LinkName, ids: Iterable[ProducerId]) -> None:
        self.put("ids", lambda: self.site.rows.update(dict.fromkeys(ids, link)))

    @property
    def site(self) -> Any:
        return self.mirror.link.target

    def close(self) -> None:
        """Nothing to close."""

    # -- as `ClusterAdmin` and `WireCluster` -----------------------------------------------------

    def describe_configs(self, names: Collection[TopicName], _: Any) -> Mapping[TopicName, Any]:
        policy = {"cleanup.policy": SimpleNamespace(value="delete")}
        return self.step(lambda: dict.fromkeys(names, policy))

    def metadata(self, _: Any, *, confirmed: bool) -> Mapping[TopicName, Any]:
        assert confirmed
        leader = SimpleNamespace(broker=BrokerId(1), epoch=self.site.logs[0].leader_epoch)
        row = SimpleNamespace(topic_id=THERE, error=0, partitions={FIRST: leader})
        return self.step(lambda: {T: row})

    def list_ranges(self, *_: Any, replica_id: int) -> Any:
        assert replica_id < -1  # the log's end, whatever of it is confirmed
        log = self.site.logs[0]
        return self.step(lambda: ({PLACE: log.start}, {PLACE: log.end}))

    def last_batches(self, *_: Any) -> Mapping[int, tuple[int, int] | None]:
        return self.step(lambda: {0: self.mirror.stand().last})

    def maps(self, *_: Any) -> Any:
        found = self.mirror.world.offset_map(0)
        return self.step(lambda: SimpleNamespace(lost=(), maps={}, of=lambda *_: found))

    @contextmanager
    def claimed(self, *_: Any) -> Iterator[Any]:
        """The driver's rounds have ended, or it is dead, and what it sent may be under way."""
        self.step(self.mirror.kill)
        yield SimpleNamespace(hold=lambda _: self.step())

    def turn(self) -> turning.Turned:
        return turning.turn_in_place(CONFIG, CONFIG.links[0])

    # -- the link --------------------------------------------------------------------------------

    def go_on(self, turns: int) -> None:
        """The link begins again by what is durable, and copies."""
        if self.is_merged:
            self.begin_merged()
        for _ in range(turns):
            self.mirror.link.source.write(self.mirror.link.world.clock.wall_ms())
            if self.is_merged:
                self.mirror.link.turn()
                self.mirror.link.note()
                self.mirror.world.settle_late()
            else:
                self.mirror.turn()

    def begin_merged(self) -> None:
        """Once: from here on its notes move."""
        if not self.has_begun:
            self.has_begun = True
            assert {*self.rows.producers} <= {*self.site.rows}
            note, begins = self.own[T].partitions[FIRST], self.rows.starts[T]
            assert begins.merged == {FIRST: note.complete_to}
            assert self.is_format_noted
            self.mirror.merge_by(note)


def desk_of(sites: Sites, patch: pytest.MonkeyPatch) -> Desk:
    """A mirror with breaks, and its rows; patch the verb's view of the target."""
    mirror = mirrored(sites)
    sites.sites["B"].rows.clear()  # none was written for it as a mirror
    for each in (mirror.link, mirror.back):
        if each is mirror.back:
            each.target.rows.update({ProducerId(n): each.name for n in each.ids})
    ids = frozenset(map(ProducerId, mirror.link.ids))
    record = MirrorRecord(T, T, HERE, THERE, ClusterId("A"), "earliest", initial_partitions=1)
    begins = Starts(THERE, {FIRST: Offset(0)})
    rows = Stored(max(ids), ids, mirrors={T: record}, starts={T: begins})
    desk = Desk(mirror, rows)
    rows_of_ids = SimpleNamespace(ensure=desk.ensure, put=desk.put_ids, close=desk.close)

    @contextmanager
    def opened(*_: Any) -> Iterator[Any]:
        yield SimpleNamespace(target=None)

    patch.setattr(turning, "ask_to_give_way", lambda *_: desk.step(mirror.end))
    patch.setattr(turning, "wish_desk", opened)
    patch.setattr(turning, "claimed", desk.claimed)
    for name in ("LinkState", "MergedNotes"):
        patch.setattr(turning, name, lambda *_: desk)
    for name in ("ClusterAdmin", "WireCluster"):
        patch.setattr(turning, name, lambda *_: desk)
    patch.setattr(turning, "ProducerRows", lambda *_: rows_of_ids)
    patch.setattr(turning, "read_last_batches", desk.last_batches)
    patch.setattr(turning, "read_maps", desk.maps)
    return desk


@pytest.mark.thorough
@pytest.mark.parametrize("after_effect", [False, True])
def test_a_turn_that_dies_anywhere_finishes_when_it_is_called_again(
    monkeypatch: pytest.MonkeyPatch, *, after_effect: bool
) -> None:
    """Given a turn killed at one step, and maybe again / when the link has gone on, and the turn

    is called again / then it is merged at the cut that is told, and stays so; and each record is
    once at each site.
    """
    for seed in seeds(1 / 100):
        for dies_at in range(STEPS_MAX):
            sites = Sites(37_200_000 + STEPS_MAX * seed + dies_at, "AB")
            desk = desk_of(sites, monkeypatch)
            again = sites.chance.randrange(2 * STEPS_MAX)
            deaths = list(turned(desk, [dies_at, again], after_effect=after_effect))
            if not deaths:
                assert desk.written == ["format", "ids", "own", "starts", "mirrors"]
                break
            cuts = desk.turn().cuts
            assert cuts == {PLACE: desk.mirror.back.first}, sites.seed
            run(sites, steps=60)
            assert not [each.stopped for each in sites.links if each.stopped], sites.seed
            assert desk.turn().cuts == cuts
        else:
            raise AssertionError("it has not finished")


def test_one_whose_schema_ids_would_mean_nothing_stays_a_mirror(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    desk = desk_of(Sites(37_400_000, "AB"), monkeypatch)
    monkeypatch.setattr(turning, "why_other_ids", lambda *_: {T: "no version of t-value"})
    with pytest.raises(Refused, match="t can't become a merged topic in place: no version") as told:
        desk.turn()
    assert "schemas.strategy" in told.value.hint
    assert desk.written == []


def turned(desk: Desk, dies_at: list[int], *, after_effect: bool) -> Iterator[int]:
    """Turn until it has answered; yield where it died. Then others may write."""
    for number in [*dies_at, -1]:
        desk.dies_at, desk.after_effect, desk.steps = number, after_effect, 0
        try:
            desk.turn()
        except Died:
            yield number
            assert desk.is_merged == ("mirrors" in desk.written)
            desk.go_on(8)
        else:
            break
    assert desk.is_merged
    desk.dies_at = -1
    desk.begin_merged()
