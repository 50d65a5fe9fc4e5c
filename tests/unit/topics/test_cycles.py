"""Which mirrors may be mirrored again, and which would form a cycle."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from support.topic_plans import link, mirror, record, source, target, topic

from heliostat.names import ClusterId, LinkName, TopicName
from heliostat.topics.cycles import Feeds, Stage
from heliostat.topics.plan import plan_topics
from heliostat.topics.topic_plan import TopicPlan
from heliostat.topics.values import ClusterTopic, Feed, MirrorRecord

T, Q = TopicName("t"), TopicName("q")
A, B, C, D = (ClusterId(name) for name in "ABCD")
NEW, CLAIMED, BEGUN = Stage
COUNTS, WAITS = True, False


def feed(
    cluster: ClusterId, *through: ClusterTopic, has_begun: bool = True, name: str = "t", **more: Any
) -> Feed:
    """Another link's mirror `t` at our source A; of a topic of that cluster."""
    made = MirrorRecord(TopicName(name), T, None, None, cluster, "earliest", 1, through=through)
    return Feed(LinkName("other"), replace(made, **more), has_begun)


@pytest.mark.parametrize(
    ("stage", "has_begun", "gives_way"),
    [
        (NEW, True, True),
        (NEW, False, True),
        (CLAIMED, True, True),
        (CLAIMED, False, False),  # theirs is the smaller cluster id, A
        (BEGUN, True, False),
        (BEGUN, False, None),  # theirs is only a claim, and backs off
    ],
)
def test_of_two_links_the_one_that_has_begun_stays(
    stage: Stage, *, has_begun: bool, gives_way: bool | None
) -> None:
    """Given the same name at both sides / then by how far each has come, then by cluster id."""
    feeds = Feeds([feed(B, has_begun=has_begun)])
    loop = feeds.loop_of(ClusterTopic(A, T), ClusterTopic(B, T), stage, made=mirror())
    assert (None if loop is None else loop.gives_way) == gives_way
    assert loop is None or loop.comes_back


def test_of_two_claims_exactly_one_backs_off() -> None:
    """And of three in a ring, in each order of cluster ids."""
    for ring in ([A, B], [B, A], [A, B, C], [C, B, A], [B, D, C, A]):
        let_go = 0
        for at, here in enumerate(ring):
            there = ring[(at + 1) % len(ring)]
            before = [ClusterTopic(ring[at - back], T) for back in range(1, len(ring))]
            made = feed(before[0].cluster, *before[1:], has_begun=False)
            loop = Feeds([made]).loop_of(
                ClusterTopic(here, T), ClusterTopic(there, T), CLAIMED, made=mirror()
            )
            assert loop is not None
            let_go += loop.gives_way
        assert let_go == 1, ring


def test_a_chain_without_a_cycle_is_allowed_and_names_its_hops() -> None:
    way = (ClusterTopic(C, T), ClusterTopic(D, Q))
    feeds = Feeds([feed(C, ClusterTopic(D, Q)), feed(D, name="else", target=Q)])
    for stage in Stage:
        assert feeds.loop_of(ClusterTopic(A, T), ClusterTopic(B, T), stage, made=None) is None
        assert feeds.through(T, stage) == way
        assert feeds.through(TopicName("own"), stage) == ()
    closing = Feeds([feed(C, ClusterTopic(B, Q))])
    loop = closing.loop_of(ClusterTopic(A, T), ClusterTopic(B, T), BEGUN, made=mirror())
    assert loop is not None
    assert (loop.comes_back, loop.gives_way) == (True, True)


def test_another_links_claim_is_void_once_copying_has_begun() -> None:
    """Given a mirror that is copied / when a link claims its source / then that one backs off."""
    feeds = Feeds([feed(C, ClusterTopic(D, T), has_begun=False)])
    assert feeds.through(T, BEGUN) == ()
    assert feeds.through(T, CLAIMED) == (ClusterTopic(C, T), ClusterTopic(D, T))


@pytest.mark.parametrize(
    ("stage", "has_begun", "gives_way"),
    [(NEW, True, True), (NEW, False, True), (CLAIMED, True, True), (CLAIMED, False, False)],
)
def test_a_mirror_that_would_be_copied_back_under_another_name(
    stage: Stage, *, has_begun: bool, gives_way: bool
) -> None:
    """Given `t` of the target is copied to `back` here / then `q` is not copied into that `t`."""
    back = feed(B, has_begun=has_begun, target=TopicName("back"), source_id=UUID(int=7))
    feeds = Feeds([back])
    loop = feeds.loop_of(ClusterTopic(A, Q), ClusterTopic(B, T), stage, made=mirror(number=7))
    assert loop is not None
    assert (loop.comes_back, loop.gives_way) == (False, gives_way)
    assert (
        feeds.loop_of(ClusterTopic(A, Q), ClusterTopic(B, T), BEGUN, made=mirror(number=7)) is None
    )
    assert (
        feeds.loop_of(ClusterTopic(A, Q), ClusterTopic(B, T), stage, made=mirror(number=8)) is None
    ), "anew"
    assert feeds.loop_of(ClusterTopic(A, Q), ClusterTopic(B, T), stage, made=None) is None, (
        "not there"
    )


def planned(
    made: Feed,
    known: dict[TopicName, MirrorRecord] | None = None,
    begun: tuple[TopicName, ...] = (),
    **topics: object,
) -> TopicPlan:
    """The plan of the link from A to B with one topic `t`, into which `made` writes."""
    here = replace(source(topic()), feeds=(made,))
    there = target() if known is None else target(mirror(end=3 if begun else 0))
    return plan_topics(link(**topics), here, there, known or {}, begun=begun)


def test_a_topic_selected_by_pattern_is_left_out_and_a_named_one_refused() -> None:
    """Given a topic from the target / then no error for `.*`, a code for its own name."""
    plan = planned(feed(B))
    assert plan.left_out == {T: "its records come from b: link other made it"}
    assert plan.is_empty
    assert plan.describe() == ["leave out t: its records come from b: link other made it"]
    assert plan.to_json()["left_out"] == plan.left_out
    named = planned(feed(B, ClusterTopic(C, Q)), include=["t", ".*"])
    assert not named.left_out
    assert not named.mirrors
    assert named.refuse[T].code == "cycle"
    assert "by way of 1 more" in named.refuse[T].reason
    assert "heliostat.other.state at a" in named.refuse[T].hint


def test_a_claim_is_dropped_or_waits_and_names_the_origin_of_its_records() -> None:
    lost = planned(feed(B, has_begun=True), record())
    assert lost.let_go == (T,)
    assert lost.left_out
    assert not lost.is_empty
    waits = planned(feed(B, has_begun=False), record())
    assert (waits.let_go, waits.left_out) == ((), {})
    assert "waits until that one" in waits.refuse[T].reason
    assert [each.through for each in waits.remember] == [(ClusterTopic(B, T),)]


def test_a_mirror_that_was_copied_back_until_now_is_refused_not_just_left_out() -> None:
    """Given both have copied / then what only comes back stays ours, in a ring one backs off."""
    back = planned(feed(B, name="q"), record(), (T,))
    assert back.refuse[T].code == "cycle"
    assert not back.let_go
    ring = planned(feed(B), record(), (T,))
    assert "waits" in ring.refuse[T].reason
    other = planned(feed(B, ClusterTopic(A, Q)), record(source_cluster=C), (T,))
    assert other.refuse[T].code == "cycle"


def test_a_chain_is_remembered_with_its_hops_also_when_it_changes() -> None:
    plan = planned(feed(C, ClusterTopic(D, Q)))
    [kept] = plan.remember
    assert kept.through == (ClusterTopic(C, T), ClusterTopic(D, Q))
    assert MirrorRecord.from_json(kept.to_json()) == kept
    later = planned(feed(C), {T: replace(kept, target_id=UUID(int=7))}, (T,))
    assert [each.through for each in later.remember] == [(ClusterTopic(C, T),)]
    assert later.mirrors
    assert planned(feed(C), {later.remember[0].source: later.remember[0]}, (T,)).is_empty
