"""What a link of merged topics plans: topics that both sites have, and what it refuses."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.topic_plans import link, mirror, record, source, target, topic

from heliostat.names import ClusterId, LinkName, TopicName
from heliostat.topics.plan import plan_topics
from heliostat.topics.topic_plan import RefusalCode, TopicPlan
from heliostat.topics.values import Feed, MirrorRecord, SourceTopics

T = TopicName("t")
MERGE = link(naming="merge")


def feed(name: str, cluster: str, *, merged: bool = True) -> Feed:
    """A link into topic `t` of the source."""
    made = MirrorRecord(T, T, None, None, ClusterId(cluster), "earliest", 2, is_merged=merged)
    return Feed(LinkName(name), made, has_begun=True)


def fed(*feeds: Feed) -> SourceTopics:
    return replace(source(topic(retention__ms="5")), feeds=feeds)


def planned(there: SourceTopics, known: dict[TopicName, MirrorRecord] | None = None) -> TopicPlan:
    return plan_topics(MERGE, there, target(mirror(end=9, retention__ms="7")), known or {})


def test_a_topic_that_both_sites_write_is_merged_and_keeps_its_settings() -> None:
    """Given records at the target, and the link back / then nothing is refused or changed."""
    plan = planned(fed(feed("back", "B")))
    assert not plan.refuse
    assert not plan.left_out
    assert not plan.configure
    assert [each.is_merged for each in plan.remember] == [True]
    assert not plan.notes


def test_a_site_whose_records_never_come_is_named() -> None:
    plan = planned(fed())
    assert plan.notes == ("no link merges t from b to a: records written at b never get to a",)


def test_a_link_that_copies_into_the_source_without_merging_is_refused() -> None:
    plan = planned(fed(feed("back", "B"), feed("other", "C", merged=False)))
    assert plan.refuse[T].code == RefusalCode.MERGE
    assert plan.refuse[T].reason == "t at a is merged, and other copies into it without merging"


def test_a_topic_of_a_lost_state_does_not_begin_anew() -> None:
    """Given a topic that the link may have merged, by a state that was lost / then it is refused:
    it would append all again. Once it has its row it goes on.
    """
    there, here = fed(feed("back", "B")), target(mirror(end=9))
    [refused] = plan_topics(MERGE, there, here, {}, unproven={T}).refuse.values()
    assert refused.code == RefusalCode.MERGE
    assert "state rebuild" in refused.hint
    known = record(is_merged=True)
    assert not plan_topics(MERGE, there, here, known, unproven={T}).refuse
    assert not plan_topics(link(), there, target(), {}, unproven={T}).refuse


def test_a_compacted_topic_is_refused() -> None:
    plan = plan_topics(MERGE, source(topic(cleanup__policy="compact")), target(), {})
    assert plan.refuse[T].code == RefusalCode.MERGE
    assert "topics.merge_compacted" in plan.refuse[T].hint


def test_a_compacted_topic_is_merged_where_that_is_set_and_the_plan_says_what_it_means() -> None:
    allowed = link(naming="merge", merge_compacted=True)
    there = replace(source(topic(cleanup__policy="compact")), feeds=(feed("back", "B"),))
    plan = plan_topics(allowed, there, target(mirror(end=9, cleanup__policy="compact")), {})
    assert not plan.refuse
    [note] = plan.notes
    assert note.startswith("t is compacted and merged: of a key that several sites write, each")


@pytest.mark.parametrize("merged", [False, True])
def test_a_mirror_does_not_become_the_other_kind(merged: bool) -> None:
    known = record(is_merged=not merged)
    asked = MERGE if merged else link()
    plan = plan_topics(asked, source(topic()), target(mirror(end=9)), known)
    assert plan.refuse[T].code == RefusalCode.MERGE


def test_deletions_are_not_followed() -> None:
    name = "a-repartition"
    endless = {"cleanup__policy": "delete", "retention__ms": "-1", "retention__bytes": "-1"}
    plan = plan_topics(MERGE, source(topic(name, **endless)), target(), {})
    assert not plan.follow


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("fan_in", {"slot": 0, "of": 2}),
        ("follow_deletes", ["t"]),
        ("offsets", "exact"),
        ("protect", True),
    ],
)
def test_settings_that_delete_or_close_do_not_go_with_it(key: str, value: object) -> None:
    with pytest.raises(ValueError, match="naming merge does not go with"):
        link(naming="merge", **{key: value})
