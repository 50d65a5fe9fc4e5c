"""Mirrors of other links at the target are not taken."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock
from uuid import UUID

import pytest
from support.simulated_admin import SimulatedAdmin
from support.simulated_cluster import SimulatedCluster

from heliostat.config import ClusterConfig, LinkConfig
from heliostat.errors import BrokerError
from heliostat.link.known import Known
from heliostat.link.mirror_memory import MirrorMemory
from heliostat.names import (
    ClusterId,
    LinkName,
    Offset,
    PartitionId,
    TopicId,
    TopicName,
    TopicPartition,
)
from heliostat.other_links import at_target as other_links
from heliostat.other_links.at_target import OtherLinks, new_mirrors, other_links_at
from heliostat.other_links.claims import Claims
from heliostat.slots import Slot
from heliostat.state_topics import link_of_state_topic
from heliostat.topics.apply import ApplyReport
from heliostat.topics.topic_plan import CreateTopic, TopicPlan
from heliostat.topics.values import MirrorRecord

OURS, THEIRS = LinkName("ours"), LinkName("their.s")
TOPIC = TopicName("t")
ID, OTHER_ID = UUID(int=1), UUID(int=2)


def record(
    target: TopicName = TOPIC, target_id: TopicId | None = ID, source: TopicName = TOPIC
) -> MirrorRecord:
    return MirrorRecord(source, target, None, target_id, ClusterId("c"), "earliest", 1)


class Topics:
    """A target's topics, and what state topics hold."""

    def __init__(self) -> None:
        self.cluster = SimulatedCluster()
        self.cluster.create(TOPIC).topic_id = ID
        self.rows: dict[str, dict[str, Any]] = {}
        self.read: list[str] = []
        self.strange: dict[str, Offset] = {}

    def state_of(self, link: LinkName, *records: MirrorRecord) -> None:
        topic = f"heliostat.{link}.state"
        self.cluster.create(topic)
        self.rows[topic] = {
            "producer": {"producer_id": 1},
            **{f"mirror/{each.source}": each.to_json() for each in records},
        }

    def open(self, _: Any, topic: str) -> Any:
        def read_sound() -> tuple[dict[str, Any], dict[str, Offset]]:
            self.read.append(topic)
            return self.rows[topic], self.strange

        return SimpleNamespace(read_sound=read_sound, close=lambda: None)


@pytest.fixture
def there(monkeypatch: pytest.MonkeyPatch) -> Topics:
    made = Topics()
    monkeypatch.setattr(other_links, "KeyedTopic", made.open)
    return made


def claims(there: Topics, *wanted: TopicName) -> Mapping[TopicName, LinkName]:
    found = _other_links(there).claims(wanted)
    assert not found.unsure
    return found.by


def _other_links(there: Topics, **topics: Any) -> OtherLinks:
    ours = {"name": OURS, "source": "a", "target": "b", "topics": {"include": [".*"], **topics}}
    target = ClusterConfig(bootstrap=("127.0.0.1:1",))
    link = LinkConfig.model_validate(ours)
    return other_links_at(link, target, SimulatedAdmin(there.cluster), ClusterId("source"))


def test_another_links_mirror_is_found_and_our_own_is_not_taken(there: Topics) -> None:
    """Given two links' states / when one asks / then what the other has of the names it wants."""
    there.state_of(OURS, record())
    there.state_of(THEIRS, record(), record(TopicName("u"), source=TopicName("u")))
    assert claims(there, TOPIC) == {TOPIC: THEIRS}
    assert there.read == [f"heliostat.{THEIRS}.state"]


def test_a_state_without_a_leader_is_not_waited_for(there: Topics) -> None:
    """Given a state topic whose broker is gone / when one asks / then what is new is unsure."""
    there.state_of(THEIRS, record())
    topic = TopicName(f"heliostat.{THEIRS}.state")
    there.cluster.fail("describe_topics", 5, TopicPartition(topic, PartitionId(0)))
    found = _other_links(there).claims([TOPIC])
    assert (found.by, list(found.unsure), there.read) == ({}, [TOPIC], [])
    assert "has no leader" in found.unsure[TOPIC]


def test_no_state_is_read_without_new_mirrors(there: Topics) -> None:
    there.state_of(THEIRS, record())
    assert claims(there) == {}
    assert not there.read


@pytest.mark.parametrize(
    ("now", "was", "is_theirs"),
    [(ID, ID, True), (OTHER_ID, ID, False), (ID, None, True), (None, ID, True)],
)
def test_a_recreated_topic_is_no_longer_theirs(
    there: Topics, now: TopicId | None, was: TopicId | None, *, is_theirs: bool
) -> None:
    """Given another link's record / when the topic is of another id / then it is free."""
    there.cluster.topics[TOPIC].topic_id = now
    there.state_of(THEIRS, record(target_id=was))
    assert bool(claims(there, TOPIC)) is is_theirs


def test_a_deleted_mirror_still_belongs_to_the_link_that_will_recreate_it(there: Topics) -> None:
    there.cluster.delete(TOPIC)
    there.state_of(THEIRS, record())
    assert claims(there, TOPIC) == {TOPIC: THEIRS}


@pytest.mark.parametrize(
    ("topic", "link"),
    [
        ("heliostat.a.state", "a"),
        ("heliostat.a.b.state", "a.b"),
        ("heliostat.a.control", None),
        ("a.state", None),
    ],
)
def test_state_topics_are_known_by_their_names(topic: str, link: str | None) -> None:
    assert link_of_state_topic(TopicName(topic)) == link


def test_new_mirrors_are_those_that_the_link_has_not_had() -> None:
    assert new_mirrors({}, [record()]) == {TOPIC}
    assert new_mirrors({TOPIC: record()}, [record(target_id=OTHER_ID)]) == set()
    assert new_mirrors({TOPIC: record(TopicName("u"))}, [record()]) == {TOPIC}


def test_of_two_links_that_start_together_the_one_that_sees_the_other_backs_off() -> None:
    """Given our claim is written / when another link's is there, too / then it is not ours."""
    kept, lost = TopicName("kept"), TOPIC
    mirrors = tuple(SimpleNamespace(source=name, target=name) for name in (kept, lost))
    state = Mock()
    memory = replace(
        _memory(state),
        other_links=lambda wanted: Claims({lost: THEIRS}) if lost in wanted else Claims(),
    )
    known = Known({kept: record(kept), lost: record(lost)}, {})
    applied = ApplyReport((), (), (), {}, mirrors, ())  # type: ignore[arg-type]  # stand-ins
    assert memory.let_go(known, applied, {kept, lost}).mirrors == mirrors[:1]
    state.drop_mirrors.assert_called_once_with([lost])
    assert known.mirrors.keys() == {kept}


def test_a_link_with_another_slot_does_not_conflict(there: Topics) -> None:
    """Given another link's mirror with slot 1 of 2 / then ours with slot 0 of 2 may join it."""
    there.state_of(THEIRS, replace(record(), slot=Slot(1, 2)))
    assert claims(there, TOPIC) == {TOPIC: THEIRS}
    for slot, of, found in ((0, 2, {}), (1, 2, {TOPIC: THEIRS}), (0, 3, {TOPIC: THEIRS})):
        ours = _other_links(there, fan_in={"slot": slot, "of": of})
        assert ours.claims([TOPIC]).by == found


@pytest.mark.parametrize(
    ("strange", "rows", "unsure"),
    [
        ({"mirror/t": Offset(7)}, {}, {"t", "a.t"}),
        ({"mirror/other": Offset(7)}, {}, set()),
        ({"b'\\xff'": Offset(7)}, {}, set()),
        ({}, {"mirror/t": {"no": "mirror"}}, {"t", "a.t"}),
        ({}, {"mirror/t": {**record().to_json(), "target": 5}}, {"t", "a.t"}),
        ({}, {"what": {"no": "row"}}, set()),
    ],
)
def test_only_mirrors_that_a_bad_row_may_hide_are_unsure(
    there: Topics, strange: dict[str, Offset], rows: dict[str, Any], unsure: set[str]
) -> None:
    """Given another link's state with a bad record / when asked / then only some are unsure."""
    there.state_of(THEIRS, record(TopicName("u"), source=TopicName("u")))
    there.rows[f"heliostat.{THEIRS}.state"].update(rows)
    there.strange = strange
    wanted = [TopicName(name) for name in ("t", "a.t", "u", "free")]
    found = _other_links(there).claims(wanted)
    assert found.by == {"u": THEIRS}
    assert set(found.unsure) == unsure
    assert bool(found.notes) is bool(strange or unsure)
    if strange:
        assert "at offset 7" in found.notes[0]


def _memory(state: Mock) -> MirrorMemory:
    return MirrorMemory(state, other_links=lambda _: Claims(), upstream=Mock())


def test_no_mirror_is_copied_before_it_was_remembered() -> None:
    """Given a refused setting that no append needs / then the mirror is ours all the same."""
    wanted = replace(record(target_id=None), synced_configs=("retention.ms",))
    plan = TopicPlan(remember=(wanted,))
    mirrors = (SimpleNamespace(source=TOPIC, target=TOPIC, target_id=ID),)
    failed = {TOPIC: BrokerError("no", kafka_code=40)}
    applied = ApplyReport((), (), (), failed, mirrors, ())  # type: ignore[arg-type]  # stand-ins
    state, known = Mock(), Known({}, {})
    assert _memory(state).remember(known, plan, applied) == {TOPIC}
    assert known.mirrors == {TOPIC: record()}
    state.put_mirrors.assert_called_once_with({TOPIC: record()}, made=set())
    was = known.mirrors[TOPIC] = replace(record(), synced_configs=("segment.bytes",))
    assert not _memory(state).remember(known, plan, applied)
    assert known.mirrors == {TOPIC: was}, "what it has synced before it may unset still"


def test_a_topic_about_to_be_created_stays_noted_until_known(there: Topics) -> None:
    """Given two topics to create / when one fails / then its row stays, as it may appear yet."""
    one, two = TopicName("one"), TopicName("two")
    records = tuple(record(name, None, name) for name in (one, two, TOPIC))
    creates = tuple(CreateTopic(name, name, 1, 1, {}) for name in (one, two))
    plan = TopicPlan(create=creates, remember=records)
    state, known = Mock(), Known({}, {})
    memory = _memory(state)
    memory.announce(known, plan)
    state.put_making.assert_called_once_with(list(records[:2]))
    failed = {two: BrokerError("no", kafka_code=7)}
    applied = ApplyReport((one,), (), (), failed, (), (records[0], records[2]))
    memory.remember(known, plan, applied)
    assert known.making == {two}
    made, remembered = state.method_calls
    assert (made[0], remembered[0]) == ("put_making", "put_mirrors")
    assert remembered.kwargs == {"made": {one}}
