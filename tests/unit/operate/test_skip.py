"""`heliostat offsets skip` over simulated clusters: who may skip what, and when nothing is done."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from click.testing import CliRunner, Result
from support.gap_turns import log_of, side
from support.ledger import KeptTopic, ledger_on
from support.simulated_admin import SimulatedAdmin

from heliostat.cli import skip as command
from heliostat.cli.skip import skip_command
from heliostat.config import Config
from heliostat.errors import BrokerError, Refused
from heliostat.gaps.choices import Cause
from heliostat.gaps.ledger import CopiedTopic, CopyNote
from heliostat.names import ClusterId, LinkName, Offset, PartitionId, TopicName, TopicPartition
from heliostat.offsets.offset_map import MapReader
from heliostat.operate import skip as verb
from heliostat.operate.skip import skip, skipped_positions
from heliostat.records.copier.lane import PartitionReport, PartitionState
from heliostat.state.link_state import Starts, Stored
from heliostat.topics.values import MirrorRecord
from heliostat.wishes.wish import Place, Wish, WishedState, Wishes

T = TopicName("t")
P = TopicPartition(T, PartitionId(0))
SOURCE_ID, TARGET_ID = UUID(int=1), UUID(int=3)
STOP = Wish(Place(), WishedState.STOPPED, "ops", 5)
GO_ON = Wish(Place(), WishedState.RUNNING, "ops", 6)


def config(**topics: Any) -> Config:
    """Return a link from a to b."""
    return Config.model_validate(
        {
            "clusters": {alias: {"bootstrap": [f"{alias}:1"]} for alias in "ab"},
            "links": [{"name": "l", "source": "a", "target": "b", "topics": topics}],
        }
    )


class Book:
    """What is wished of the link."""

    def __init__(self) -> None:
        self.wishes = Wishes()
        self.wishes.take(STOP)
        self.position = Offset(7)
        self.news: list[Wish] = []

    def read(self) -> None:
        """Nothing is new."""

    def consume(self, wait_s: float) -> bool:
        del wait_s
        for wish in self.news:
            self.wishes.take(wish)
        return bool(self.news)


class World:
    """A stopped link whose mirror has [0, 100) of a source's [0, 200)."""

    def __init__(self) -> None:
        self.source, self.target = side(SOURCE_ID, 0, 200, 3), side(TARGET_ID, 0, 100)
        self.topic = KeptTopic()
        ledger = ledger_on(self.topic)
        ledger.put_copied({T: CopiedTopic(str(SOURCE_ID), {P.partition: CopyNote(100, 3, 100)})})
        mirror = MirrorRecord(T, T, SOURCE_ID, TARGET_ID, ClusterId("c"), "earliest", 1)
        starts = Starts(TARGET_ID, {PartitionId(0): Offset(0), PartitionId(1): Offset(0)})
        self.stored = Stored(mirrors={T: mirror}, starts={T: starts})
        self.book, self.answered, self.now_s = Book(), 7, 0.0

    @contextmanager
    def desk(self, *_: object) -> Iterator[Any]:
        wishes = {"wishes": {"answered": self.answered}}
        board = SimpleNamespace(driver=wishes, driver_at_ms=1)
        reader = SimpleNamespace(board=board, read=lambda _: None)
        clock = SimpleNamespace(monotonic_s=self._later, wall_ms=lambda: 1_000)
        yield SimpleNamespace(
            link=LinkName("l"), book=self.book, reader=reader, clock=clock, target=None
        )

    def _later(self) -> float:
        self.now_s += 1.0
        return self.now_s

    def admin(self, access: Any, _: str) -> SimulatedAdmin:
        is_source = access.described.startswith("a")
        return SimulatedAdmin(self.source if is_source else self.target)

    def rows(self) -> list[dict[str, Any]]:
        return [row for key, row in self.topic.kept.items() if key.startswith("gap/")]

    def skip(self, to: int, place: TopicPartition = P, **options: Any) -> verb.Skipped:
        made = config()
        return skip(made, made.links[0], {place: Offset(to)}, by="ann", **options)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World()
    monkeypatch.setattr(verb, "require_answer", lambda *_: None)
    monkeypatch.setattr(verb, "wish_desk", made.desk)
    monkeypatch.setattr(verb, "ClusterAdmin", made.admin)
    monkeypatch.setattr(verb, "read_maps", lambda *_: MapReader())
    monkeypatch.setattr(verb, "GapLedger", lambda *_: ledger_on(made.topic))
    state = SimpleNamespace(read=lambda: made.stored, close=lambda: None)
    monkeypatch.setattr(verb, "LinkState", lambda *_: state)
    return made


def test_a_row_is_written_once_and_shown_until_the_link_goes_on(world: World) -> None:
    """Given a stopped link / when records are skipped, twice / then one row says so; the position

    is shown as the new one until the mirror has gone on behind it.
    """
    made = config()
    assert skipped_positions(made, made.links[0]) == {}
    tried = world.skip(150, dry_run=True)
    assert (tried.is_tried, world.rows()) == (True, [])
    for _ in range(2):
        answer = world.skip(150)
    [row] = world.rows()
    assert (row["first"], row["last"], row["count"], row["jump"]) == (100, 149, 50, (100, 150))
    assert (row["exact_cause"], row["decided_by"]) == (Cause.SKIPPED.value, "user ann")
    assert (answer.rows, answer.items[0].to_json()["records"]) == ([], "none")
    assert skipped_positions(made, made.links[0]) == {P: 150}
    world.target.append(T, 10)
    assert skipped_positions(made, made.links[0]) == {}


def test_what_was_skipped_of_a_mirror_that_is_gone_moves_no_other(world: World) -> None:
    world.skip(150)
    made = config()
    world.stored.mirrors.clear()
    assert skipped_positions(made, made.links[0]) == {}


def test_further_records_are_skipped_before_the_link_starts_and_none_taken_back(
    world: World,
) -> None:
    world.skip(150)
    world.skip(170)
    assert [(row["first"], row["last"]) for row in world.rows()] == [(100, 149), (150, 169)]
    with pytest.raises(Refused, match="copied up to offset 169"):
        world.skip(160)


def test_a_link_that_is_not_stopped_skips_nothing(world: World) -> None:
    world.book.wishes.take(GO_ON)
    with pytest.raises(Refused, match="link l is not stopped"):
        world.skip(150)


def test_a_stop_that_its_owner_has_not_carried_out_is_waited_for_and_not_believed(
    world: World,
) -> None:
    world.answered = 6
    with pytest.raises(Refused, match="no owner of it says that it has"):
        world.skip(150)
    assert world.rows() == []


def test_a_link_that_is_started_meanwhile_says_so(world: World) -> None:
    world.book.news = [GO_ON]
    with pytest.raises(Refused, match="was started meanwhile"):
        world.skip(150)
    assert len(world.rows()) == 1


def test_of_several_partitions_all_skip_or_none(world: World) -> None:
    made = config()
    other = TopicPartition(TopicName("u"), PartitionId(0))
    with pytest.raises(Refused, match="no mirror of u yet") as refused:
        skip(made, made.links[0], {P: Offset(150), other: Offset(5)}, by="ann")
    assert "topics.start" in refused.value.hint
    assert world.rows() == []


@pytest.mark.parametrize(
    ("case", "text"),
    [
        ("no partition", "no mirror of t-7 yet"),
        ("gone", "the source has no partition t-1"),
        ("given away", "has given away its mirror of t"),
        ("stopped", "t-0 is stopped: TOO_LARGE"),
        ("recreated", "t was deleted and created again"),
        ("no leader", "t-0 can't be looked at"),
        ("truncated", "the source has lost records of t-0"),
        ("foreign", "t-0 ends at 110, and the link left it at 100"),
        ("other notes", "did not note how far it copied"),
    ],
)
def test_a_mirror_that_is_not_sound_skips_nothing(world: World, case: str, text: str) -> None:
    place = P
    if case == "no partition":
        place = TopicPartition(T, PartitionId(7))
    elif case == "gone":
        place = TopicPartition(T, PartitionId(1))
        world.target.topics[T].logs.append(log_of(world.target))
    elif case == "given away":
        world.stored.promoted[T] = Any  # type: ignore[assignment]  # only its name counts
    elif case == "stopped":
        words = (100, -1, 0, 0, -1, -1, 5, "TOO_LARGE", "it is too large")
        world.stored.stops[P] = PartitionReport(P, P, PartitionState.BLOCKED, *words)
    elif case == "recreated":
        world.source.topics[T].topic_id = UUID(int=9)
    elif case == "no leader":
        world.target.fail("list_log_ends", 6, P)
    elif case == "truncated":
        log_of(world.source).truncate(90)
        world.source.append(T, 110)
    elif case == "foreign":
        world.target.append(T, 10)
    else:
        ledger_on(world.topic).put_copied({T: CopiedTopic(str(UUID(int=8)), {})})
    with pytest.raises(Refused, match=text):
        world.skip(150, place)
    assert world.rows() == []


def test_a_topic_that_is_gone_is_the_clusters_error(world: World) -> None:
    del world.source.topics[T]
    with pytest.raises(BrokerError):
        world.skip(150)


def test_topics_that_others_write_skip_nothing() -> None:
    made = config(naming="merge")
    with pytest.raises(Refused, match="merges its topics"):
        skip(made, made.links[0], {P: Offset(150)}, by="ann")


def run(monkeypatch: pytest.MonkeyPatch, *words: str, answer: str = "") -> Result:
    monkeypatch.setattr(command, "known_config", lambda *_: config())
    options = ["-c", str(Path(__file__)), "--by", "ann", *words]
    return CliRunner().invoke(skip_command, ["t", "0", *options], input=answer)


def test_the_command_tells_asks_and_does_it(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = run(monkeypatch, "--to", "150", "--dry-run")
    assert "t-0: 50 records (source offsets 100 to 149) would be left out" in tried.stdout
    refused = run(monkeypatch, "--to", "150", answer="n\n")
    assert (refused.exit_code, world.rows()) == (1, [])
    assert "leave out 50 records" in refused.stderr
    done = run(monkeypatch, "--to", "150", answer="y\n")
    assert "are left out, once the link starts" in done.stdout
    again = run(monkeypatch, "--to", "150", "--yes", "--json")
    assert json.loads(again.stdout)["items"][0]["count"] == 0
    assert "goes on at source offset 150 anyway" in run(monkeypatch, "--to", "150").stdout
    assert len(world.rows()) == 1
