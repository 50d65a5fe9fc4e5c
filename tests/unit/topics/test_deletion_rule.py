"""In which mirrors deletions are followed: by the source's settings, or by pattern."""

from __future__ import annotations

import pytest
from support.topic_plans import link, mirror, record, source, target, topic

from heliostat.names import TopicName
from heliostat.slots import WHOLE_TOPIC, Slot
from heliostat.topics.deletion_rule import deletion_rule
from heliostat.topics.plan import plan_topics

ENDLESS = {"cleanup__policy": "delete", "retention__ms": "-1", "retention__bytes": "-1"}
APP = "app-KSTREAM-3-repartition"


@pytest.mark.parametrize(
    ("name", "settings", "follows"),
    [
        (APP, {}, True),
        ("orders", {}, None),
        ("app-KSTREAM-3-changelog", {}, None),
        ("app-repartition-copy", {}, None),
        (APP, {"retention__ms": "604800000"}, False),
        (APP, {"retention__bytes": "1000000"}, False),
        (APP, {"cleanup__policy": "compact,delete"}, False),
        (APP, {"cleanup__policy": "compact"}, False),
    ],
)
def test_by_default_only_repartition_topics_that_nothing_else_ends(
    name: str, settings: dict[str, str], *, follows: bool | None
) -> None:
    rule = deletion_rule(link().topics, topic(name, **{**ENDLESS, **settings}), WHOLE_TOPIC)
    assert (None if rule is None else rule.follows) is follows
    if rule is not None and rule.follows:
        assert rule.needs_exact
    elif rule is not None:
        (key, value) = next(iter(settings.items()))
        assert f"{key.replace('__', '.')}={value}" in rule.why


def test_settings_that_the_source_does_not_tell_are_not_taken_for_endless() -> None:
    without_bytes = {key: value for key, value in ENDLESS.items() if key != "retention__bytes"}
    rule = deletion_rule(link().topics, topic(APP, **without_bytes), WHOLE_TOPIC)
    assert rule is not None
    assert not rule.follows
    assert "no retention.bytes" in rule.why


@pytest.mark.parametrize("name", ["ess.orders", APP])
def test_a_listed_topic_follows_whatever_its_settings_and_offsets(name: str) -> None:
    config = link(follow_deletes=[r"ess\..*", r".*-repartition"]).topics
    rule = deletion_rule(config, topic(name, retention__ms="5"), WHOLE_TOPIC)
    assert rule is not None
    assert rule.follows
    assert not rule.needs_exact
    assert "topics.follow_deletes has " in rule.why
    assert deletion_rule(config, topic("essxorders"), WHOLE_TOPIC) is None


@pytest.mark.parametrize("name", ["orders", APP])
def test_never_where_other_links_write(name: str) -> None:
    rule = deletion_rule(link(follow_deletes="orders").topics, topic(name, **ENDLESS), Slot(0, 2))
    assert rule is not None
    assert not rule.follows
    assert "fan_in" in rule.why


def test_the_plan_tells_what_follows_and_why() -> None:
    """Given one of each kind / then the plan has a line for each reason, and is in sync."""
    topics = [topic(name, **ENDLESS) for name in ("a", "b", "c", APP)]
    topics.append(topic("x-repartition", retention__ms="7"))
    mirrors = [mirror(each.name, end=5, **ENDLESS) for each in topics[:-1]]
    mirrors.append(mirror("x-repartition", end=5, retention__ms="7"))
    known = {}
    for each in topics:
        own = ("cleanup.policy", "retention.bytes", "retention.ms")
        known |= record(each.name, *(own if each.name != "x-repartition" else own[2:]))
    plan = plan_topics(link(follow_deletes=["a", "b"]), source(*topics), target(*mirrors), known)
    assert plan.is_empty
    reason = "a repartition topic, which only its application's deletions end"
    why_not = "the source has retention.ms=7, so age or size may end it"
    assert plan.describe() == [
        "follow deletions in a: topics.follow_deletes has a",
        f"follow deletions in {APP}: {reason}",
        "follow deletions in b: topics.follow_deletes has b",
        f"note: x-repartition: its deletions are not followed: {why_not}",
    ]
    assert plan.to_json()["follow"][TopicName(APP)]["needs_exact"] is True


def test_never_in_promoted_mirrors() -> None:
    """Given a listed topic and a repartition topic whose mirrors were promoted / then no rule."""
    topics = [topic(name, **ENDLESS) for name in ("a", APP)]
    sides = source(*topics), target(*(mirror(each.name, end=5, **ENDLESS) for each in topics))
    known = record("a") | record(APP)
    promoted = {TopicName(each.name): "promoted" for each in topics}
    assert plan_topics(link(follow_deletes=["a"]), *sides, known).follow.keys() == promoted.keys()
    plan = plan_topics(link(follow_deletes=["a"]), *sides, known, given_away=promoted)
    assert not plan.follow
    assert not plan.mirrors


def test_a_pattern_that_matches_many_topics_is_one_line() -> None:
    topics = [topic(f"t{number}") for number in range(12)]
    plan = plan_topics(link(follow_deletes=".*"), source(*topics), target(), {})
    lines = [text for kind, text in plan.lines() if kind == "follow"]
    assert len(lines) == 1
    assert lines[0].endswith("and 2 more: topics.follow_deletes has .*")
