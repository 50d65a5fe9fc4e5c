"""A turn in place: what a dry run leaves alone, what one refusal stops, and what is merged."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from heliostat.config import Config
from heliostat.errors import Refused
from heliostat.handover.opening import Opened, Part
from heliostat.merge.own_end import OwnNote
from heliostat.names import ClusterId, LinkName, Offset, PartitionId, TopicName, TopicPartition
from heliostat.operate import rolling, turning
from heliostat.operate.crossing import wait_until_crossed
from heliostat.operate.rolling import RollingStage, RollingTopic, rolling_topics
from heliostat.operate.source_writers import writers_of
from heliostat.operate.turning import Turned, _Judgement, turn_in_place
from heliostat.state.link_state import Starts, Stored
from heliostat.state.merged_notes import OwnNotes
from heliostat.topics.values import MirrorRecord

T, U, V, W = (TopicName(name) for name in "tuvw")
ZERO, ONE = PartitionId(0), PartitionId(1)


def config(naming: str = "merge") -> Config:
    topics = {"include": ["t", "u"], "naming": naming}
    away = {"name": "away", "source": "a", "target": "b", "topics": topics}
    back = {"name": "back", "source": "b", "target": "a", "topics": topics}
    clusters = {alias: {"bootstrap": [f"{alias}:9092"]} for alias in ("a", "b")}
    return Config.model_validate({"clusters": clusters, "links": [away, back]})


def record(name: TopicName, *, is_merged: bool) -> MirrorRecord:
    return MirrorRecord(name, name, None, None, ClusterId("A"), "earliest", 1, is_merged=is_merged)


class World:
    """A link of a mirror, of one that was merged in place and has grown since, and of a topic that

    was merged from its beginning, which has no cut: a link back would leave out what is before it.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, refused: dict[TopicName, Refused]) -> None:
        self.calls: list[str] = []
        note = OwnNotes("id", {ZERO: OwnNote(Offset(9), Offset(9), 1)})
        starts = {
            T: Starts(
                *(None, {ZERO: Offset(0), ONE: Offset(0)}, {}, {ZERO: Offset(4), ONE: Offset(6)}),
                cuts={ZERO: Offset(4)},
            ),
            W: Starts(None, {ZERO: Offset(0)}, merged={ZERO: Offset(7)}),
            U: Starts(None, {ZERO: Offset(0)}),
        }
        mirrors = {name: record(name, is_merged=name != U) for name in (T, U, W)}
        self.stored = Stored(mirrors=mirrors, starts=starts)
        judged = _Judgement(self.stored, [T, U, W], {U: note}, refused)
        state = SimpleNamespace(close=lambda: None, read=lambda: self.stored)

        @contextmanager
        def desk(*_: object) -> Iterator[Any]:
            yield SimpleNamespace(target=None)

        @contextmanager
        def claimed(*_: object) -> Iterator[Any]:
            self.calls.append("claim")
            yield SimpleNamespace(hold=lambda _: self.calls.append("hold"))

        def write(*_: object) -> dict[TopicName, Starts]:
            self.calls.append("write")
            return {U: Starts(None, merged={ZERO: Offset(9)}, cuts={ZERO: Offset(9)})}

        def give_way(*_: object) -> None:
            self.calls.append("give way")

        for module in (turning, rolling):
            monkeypatch.setattr(module, "wish_desk", desk)
            monkeypatch.setattr(module, "LinkState", lambda *_: state)
        monkeypatch.setattr(turning, "claimed", claimed)
        monkeypatch.setattr(turning, "ask_to_give_way", give_way)
        monkeypatch.setattr(turning, "_judge", lambda *_: judged)
        monkeypatch.setattr(turning, "_write", write)


CUTS = {TopicPartition(T, ZERO): Offset(4), TopicPartition(U, ZERO): Offset(9)}


def test_a_dry_run_tells_the_same_and_leaves_the_link_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, both = World(monkeypatch, {}), config()
    tried = turn_in_place(both, both.links[0], dry_run=True)
    assert tried == Turned(LinkName("away"), CUTS, (U,), is_tried=True)
    assert world.calls == []
    done = turn_in_place(both, both.links[0])
    assert (done.cuts, done.topics, done.partitions) == (CUTS, (U,), 1)
    assert done.start_lines() == ["t:0:4", "u:0:9"]
    assert world.calls == ["give way", "claim", "hold", "write"]


@pytest.mark.parametrize("sync_acls", [True, False])
def test_producers_are_let_in_by_the_turn(
    monkeypatch: pytest.MonkeyPatch, *, sync_acls: bool
) -> None:
    """Given a mirror whose `Write` was kept ready / when it is merged / then it is granted, as they

    move one by one from here on. A part that fails is told, and undoes nothing.
    """
    world, both = World(monkeypatch, {}), config()
    access = both.links[0].access.model_copy(update={"sync_acls": sync_acls})
    link = both.links[0].model_copy(update={"access": access})
    asked: list[Any] = []

    def opening_of(*given: Any, dry_run: bool) -> dict[Part, Any]:
        asked.append((list(given[-1]), dry_run))
        return {part: lambda part=part: Opened(part, "not all", "DENIED", "") for part in Part}

    monkeypatch.setattr(turning, "opening_of", opening_of)
    monkeypatch.setattr(turning, "ClusterAdmin", lambda *_: SimpleNamespace(close=lambda: None))
    tried, done = (turn_in_place(both, link, dry_run=dry) for dry in (True, False))
    assert "write" in world.calls
    if not sync_acls:
        assert (asked, tried.opening, done.opening) == ([], (), ())
        return
    assert asked == [([T, U, W], True), ([T, U, W], False)]
    assert [outcome.part for outcome in done.opening] == [Part.RIGHTS]
    assert done.to_json()["opening"][0]["code"] == "DENIED"
    assert "rights: not all is open (DENIED)" in done.text()


def test_one_that_can_not_be_merged_stops_all(monkeypatch: pytest.MonkeyPatch) -> None:
    world, both = World(monkeypatch, {V: Refused("v is compacted")}), config()
    tried = turn_in_place(both, both.links[0], dry_run=True)
    assert (tried.refused, tried.to_json()["is_possible"]) == ({V: "v is compacted"}, False)
    assert "none would be" in tried.text()
    with pytest.raises(Refused, match="v is compacted"):
        turn_in_place(both, both.links[0])
    assert world.calls == ["give way", "claim"]


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_link_that_mirrors_is_refused(dry_run: bool) -> None:
    """No cluster of it is asked: there is none here."""
    mirrors = config("same")
    with pytest.raises(Refused, match="mirrors its topics"):
        turn_in_place(mirrors, mirrors.links[0], dry_run=dry_run)
    with pytest.raises(Refused, match="merges no topics"):
        writers_of(mirrors, mirrors.links[0])
    with pytest.raises(Refused, match="merges no topics"):
        wait_until_crossed(mirrors, mirrors.links[0], [T], 1.0)


def test_how_far_each_topic_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Given a link that merges / when it is asked / then its state says which topics are merged;

    of one that mirrors no cluster is asked.
    """
    world, both = World(monkeypatch, {}), config()
    ends = SimpleNamespace(partitions={ZERO: None, PartitionId(1): None})
    given = SimpleNamespace(promotion=SimpleNamespace(ends=ends))
    world.stored.promoted[V] = cast("Any", given)
    merged_stage = RollingStage.MERGED
    stages = merged_stage, RollingStage.MIRROR, RollingStage.GIVEN_AWAY, merged_stage
    topics = tuple(
        RollingTopic(name, stage, count)
        for name, stage, count in zip((T, U, V, W), stages, (2, 1, 2, 1), strict=True)
    )
    assert rolling_topics(world.stored) == topics
    standing = rolling.rolling_of(both, both.links[0])
    assert (standing.topics, standing.backs) == (topics, (LinkName("back"),))
    mirror, merged, given_away, back = standing.describe()
    assert mirror.startswith("1 topics (1 partitions) are still mirrors: nothing of them is copied")
    assert (merged, given_away) == (
        "2 topics (3 partitions) are merged",
        "1 topics (2 partitions) are given away",
    )
    assert back == "back brings records back"
    world.stored.promoted[V] = cast("Any", SimpleNamespace(promotion=SimpleNamespace(ends=None)))
    assert rolling_topics(world.stored)[-2].partitions is None, "what is not known is not 0"
    monkeypatch.setattr(rolling, "wish_desk", None)
    mirrors = config("same")
    assert not rolling.rolling_of(mirrors, mirrors.links[0]).merges
