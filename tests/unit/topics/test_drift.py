"""Drift: where existing mirrors differ from what is wanted, and what of it is mended."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.topic_plans import entries, link, mirror, record, source, target, topic

from heliostat.clusters.admin import ConfigEntry, ConfigSource
from heliostat.names import TopicName
from heliostat.topics.drift import (
    REPORTED_MAX,
    DriftKind,
    drift_lines,
    drift_notes,
    drift_report,
    fewer_copies,
    left_over,
)
from heliostat.topics.plan import plan_topics
from heliostat.topics.topic_plan import TopicPlan
from heliostat.topics.values import SourceTopic, TargetTopic

T = TopicName("t")


def planned(
    there: SourceTopic, here: TargetTopic, *, brokers: int = 3, **topics: object
) -> TopicPlan:
    return plan_topics(link(**topics), source(there), target(here, brokers=brokers), record())


def shown(plan: TopicPlan) -> list[tuple[str, str, str | None, str | None, bool]]:
    return [
        (d.kind.value, d.setting, d.wants, d.has, d.is_mended)
        for d in (each.difference for each in plan.drift)
    ]


def inherited(found: SourceTopic, key: str, value: str) -> SourceTopic:
    entry = ConfigEntry(value, ConfigSource.STATIC_BROKER, False, False, False)
    return replace(found, configs={**found.configs, key: entry})


def test_a_synced_pair_has_no_drift():
    assert planned(topic(retention__ms="5"), mirror(end=9, retention__ms="5")).drift == ()


def test_a_new_mirror_has_no_drift():
    plan = plan_topics(link(), source(topic()), target(), {})
    assert plan.create
    assert plan.drift == ()
    empty = plan_topics(link(), source(topic(partitions=9)), target(mirror()), {})
    assert empty.grow
    assert empty.drift == ()


ALWAYS = "min.insync.replicas"


@pytest.mark.parametrize(
    ("there", "here", "topics", "expected"),
    [
        # a setting that the link follows
        ({"retention__ms": "5"}, {"retention__ms": "6"}, {}, ("config", "retention.ms", "5", "6")),
        # pinned: as pinned it is no drift, otherwise it is
        ({"retention__ms": "5"}, {"retention__ms": "7"}, {"config_set": {"retention.ms": "7"}}, ()),
        (
            {"retention__ms": "7"},
            {"retention__ms": "7"},
            {"config_set": {"retention.ms": "8"}},
            ("config", "retention.ms", "8", "7"),
        ),
        # excluded, or not followed
        ({"retention__ms": "5"}, {"retention__ms": "6"}, {"config_exclude": ["retention.*"]}, ()),
        ({"retention__ms": "5"}, {"retention__ms": "6"}, {"sync_configs": False}, ()),
        # set at the mirror by somebody else
        ({}, {"retention__ms": "6"}, {}, ("config", "retention.ms", "604800000", "6")),
        ({}, {"retention__ms": "604800000"}, {}, ()),
        ({}, {"retention__ms": "6"}, {"config_exclude": ["retention.*"]}, ()),
        ({}, {"retention__ms": "6"}, {"sync_configs": False}, ()),
        # what acknowledges
        ({"min__insync__replicas": "2"}, {}, {}, ("min_insync_replicas", ALWAYS, "2", "1")),
        (
            {"min__insync__replicas": "2"},
            {},
            {"config_exclude": ["x"]},
            ("config", ALWAYS, "2", "1"),
        ),
        (
            {"min__insync__replicas": "2"},
            {},
            {"config_exclude": [ALWAYS]},
            (),
        ),
        ({"min__insync__replicas": "2"}, {}, {"config_set": {ALWAYS: "1"}}, ()),
    ],
)
def test_settings_that_drift(
    there: dict[str, str],
    here: dict[str, str],
    topics: dict[str, object],
    expected: tuple[str, ...],
) -> None:
    plan = planned(topic(**there), mirror(end=9, **here), **topics)
    assert [row[:4] for row in shown(plan)] == ([expected] if expected else [])


def test_what_the_plan_changes_is_mended_and_told_with_its_reason():
    plan = planned(topic(retention__ms="5", partitions=4), mirror(end=9, partitions=2))
    assert shown(plan) == [
        ("partitions", "", "4", "2", True),
        ("config", "retention.ms", "5", "604800000", True),
    ]
    text = "configure t: set retention.ms=5 (was 604800000; the source has it)"
    assert plan.describe()[:2] == ["grow t: 2 → 4 partitions", text]
    assert not any(line.startswith("drift") for line in plan.describe())


def test_what_a_broker_of_the_source_gives_is_compared_where_it_acknowledges():
    """Effective: a topic's own value, else its broker's default."""
    two = inherited(topic(), ALWAYS, "2")
    (row,) = shown(planned(two, mirror(end=9)))
    assert row == ("min_insync_replicas", ALWAYS, "2", "1", False)
    assert shown(planned(two, mirror(end=9, min__insync__replicas="2"))) == []
    assert shown(planned(topic(), mirror(end=9, min__insync__replicas="2"))) == [], "more is safe"
    single = replace(mirror(end=9), replication_factor=1)
    kinds = {row[0] for row in shown(planned(two, single))}
    assert kinds == {"replication_factor"}, "one replica can't do more"
    followed = planned(two, mirror(end=9), sync_broker_values=True, config_exclude=["x"])
    assert shown(followed) == [("config", ALWAYS, "2", "1", True)]


@pytest.mark.parametrize(
    ("has", "brokers", "pinned", "expected"),
    [
        (3, 3, None, None),
        (1, 3, None, "3"),
        (1, 2, None, "2"),
        (1, 1, None, None),  # the target can't keep more
        (1, 3, 1, None),
        (1, 3, 2, "2"),
        (3, 3, 2, None),
    ],
)
def test_fewer_replicas_than_wanted(
    has: int, brokers: int, pinned: int | None, expected: str | None
) -> None:
    there = replace(mirror(end=9), replication_factor=has)
    plan = planned(topic(), there, brokers=brokers, replication_factor=pinned)
    found = [row for row in shown(plan) if row[0] == "replication_factor"]
    assert found == (
        [] if expected is None else [("replication_factor", "", expected, str(has), False)]
    )
    assert plan.is_empty, "the link can't change it"


def test_a_follower_of_a_shared_topic_leaves_its_settings_to_the_leader():
    shared = {"fan_in": {"slot": 1, "of": 2}}
    of = link(**shared).topics.slot
    there = mirror(end=9, partitions=4, retention__ms="6")
    known = record(slot=of)
    plan = plan_topics(link(**shared), source(topic()), target(there), known)
    assert plan.drift == ()
    short = mirror(end=9, partitions=2)
    plan = plan_topics(link(**shared), source(topic()), target(short), known)
    assert [row[:4] for row in shown(plan)] == [("partitions", "", "4", "2")]


def test_mirrors_with_the_same_difference_have_one_line():
    names = [f"t{number}" for number in range(5)]
    settings = entries()
    there = source(*(replace(topic(name), configs=settings) for name in names))
    shared = mirror().configs
    here = target(
        *(replace(mirror(name, end=9), configs=shared, replication_factor=1) for name in names)
    )
    records = {name: row for each in names for name, row in record(each).items()}
    plan = plan_topics(link(), there, here, records)
    assert len(plan.drift) == 5
    (line,) = drift_lines(plan.drift)
    assert line.startswith("t0, t1, t2 and 2 more: replication factor is 1, wanted 3: the source")
    assert [kind for kind, _ in plan.lines()] == ["drift"]
    (note,) = drift_notes(plan.drift)
    assert line in note
    report = drift_report(plan.drift)
    assert (report["count"], report["mirrors"]) == (5, 5)
    assert report["kinds"] == {
        each.value: 5 * (each.value == "replication_factor") for each in DriftKind
    }
    assert len(drift_report(plan.drift * 9)["items"]) == REPORTED_MAX


def test_what_was_mended_is_left_out_and_what_failed_is_not():
    there = replace(mirror(end=9), replication_factor=1)
    plan = planned(topic(retention__ms="5"), there)
    assert len(plan.drift) == 2
    rest = left_over(plan.drift, {T}, {})
    assert [each.difference.kind for each in rest] == [DriftKind.REPLICATION_FACTOR]
    assert len(left_over(plan.drift, {T}, {T})) == 2
    assert len(left_over(plan.drift, (), {})) == 2


def test_fewer_copies_are_named():
    assert fewer_copies({T: (3, 3), TopicName("u"): (3, 1)}) == ()
    (text,) = fewer_copies({T: (1, 3)})
    assert "fewer copies than the source: t (1 instead of 3)" in text
