"""Topics missing from a source's list: deleted, or hidden from the link's user."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest
from support.simulated_admin import SimulatedAdmin
from support.simulated_cluster import Call, SimulatedCluster

from heliostat.config import LinkConfig
from heliostat.names import ClusterId, TopicName
from heliostat.topics.observe import _doubted, observe, observe_source
from heliostat.topics.plan import plan_topics
from heliostat.topics.values import MirrorRecord, SourceTopics

UNKNOWN, NO_RIGHT = 3, 29
LINK = LinkConfig.model_validate(
    {"name": "l", "source": "a", "target": "b", "topics": {"include": ["t.*"]}}
)


def cluster(*listed: str, hidden: set[TopicName] | None = None) -> SimulatedCluster:
    made = SimulatedCluster()
    for name in listed:
        made.create(name)
    made.hidden = hidden or set()
    return made


def remembered(*names: str) -> dict[TopicName, MirrorRecord]:
    return {
        TopicName(name): MirrorRecord(
            TopicName(name), TopicName(name), UUID(int=1), UUID(int=1), ClusterId("c"), "latest", 1
        )
        for name in names
    }


def seen(*names: str) -> SourceTopics:
    return SourceTopics(ClusterId("c"), tuple(TopicName(name) for name in names), {})


@pytest.mark.parametrize("unreadable", [set[TopicName](), {TopicName("t1")}])
def test_a_mirrors_source_that_is_not_listed_is_described(unreadable: set[TopicName]) -> None:
    source = cluster("t2", hidden=unreadable)
    admin = SimulatedAdmin(source)
    found = _doubted(admin, LINK, seen("t2"), remembered("t1", "t2"))
    assert source.calls == [Call("confirm_topics", ("t1",))]
    assert set(found.unreadable) == unreadable


@pytest.mark.parametrize("names", [("t1", "t2"), ("t1", "other")])
def test_no_request_is_sent_while_all_selected_topics_are_listed(names: tuple[str, ...]) -> None:
    source = cluster("t1", "t2")
    admin = SimulatedAdmin(source)
    found = _doubted(admin, LINK, seen("t1", "t2"), remembered(*names))
    assert (source.calls, dict(found.unreadable)) == ([], {})


@pytest.mark.parametrize(("code", "unreadable"), [(UNKNOWN, set()), (NO_RIGHT, {"t1"})])
def test_a_listed_topic_with_hidden_settings_is_named(code: int, unreadable: set[str]) -> None:
    """Given topics of which one was deleted, or hidden / then the hidden one alone is reported."""
    source = cluster("t1", "t2")
    source.fail("describe_configs", code, TopicName("t1"))
    found = observe_source(SimulatedAdmin(source), LINK)
    assert (set(found.topics), set(found.unreadable)) == ({"t2"}, unreadable)


@pytest.mark.parametrize("is_recreated", [False, True])
def test_one_brokers_word_that_a_topic_is_gone_or_recreated_is_not_believed(
    is_recreated: bool,
) -> None:
    """Given a mirror made a moment ago / when a broker that lost touch knows what was before."""
    both = SimulatedCluster()
    if is_recreated:
        both.create("t1")
    both.depose()
    topic_id = both.create("t1").topic_id
    records = {
        name: replace(record, source_id=topic_id, target_id=topic_id)
        for name, record in remembered("t1").items()
    }
    admin = SimulatedAdmin(both)
    source, target = observe(admin, admin, LINK, records)
    assert set(source.unreadable) == {"t1"}, "it waits for a broker that knows it"
    assert target.topics[TopicName("t1")].topic_id == topic_id
    both.heal()
    source, _ = observe(admin, admin, LINK, records)
    assert (set(source.topics), set(source.unreadable)) == ({"t1"}, set())


def test_a_topic_that_all_brokers_say_is_gone_or_another_is() -> None:
    both = cluster("t1")
    old, gone = remembered("t1"), remembered("t2")
    admin = SimulatedAdmin(both)
    source, target = observe(admin, admin, LINK, {**old, **gone})
    assert not source.unreadable
    assert set(source.topics) == set(target.topics) == {"t1"}


def test_a_name_that_the_targets_topics_collide_with_is_refused_before_it_is_made() -> None:
    """Given a topic at the target that differs in `.` and `_` only / then the plan refuses."""
    source, target = cluster("t.a_b", "t.c", "t-d"), cluster("t_a.b", "t.c", "T-D", "t_d")
    seen, there = observe(SimulatedAdmin(source), SimulatedAdmin(target), LINK, {})
    assert there.colliding == {"t.a_b": "t_a.b"}
    refusal = plan_topics(LINK, seen, there, {}).refuse
    assert [(name, each.code) for name, each in refusal.items()] == [("t.a_b", "name_collision")]
    assert "the target's topic t_a.b only in . and _" in refusal[TopicName("t.a_b")].reason


def test_all_topics_of_the_target_are_listed_only_while_a_mirror_is_missing() -> None:
    source, target = cluster("t1", "t2"), cluster("t1")
    observe(SimulatedAdmin(source), SimulatedAdmin(target), LINK, {})
    assert target.asked("describe_topics") == [("t1", "t2"), ("t1",)]  # all
    target.create("t2")
    target.calls.clear()
    observe(SimulatedAdmin(source), SimulatedAdmin(target), LINK, {})
    assert target.asked("describe_topics") == [("t1", "t2")]
