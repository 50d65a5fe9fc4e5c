from __future__ import annotations

import json
import random
from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.topic_plans import INHERITED, entries, link, mirror, record, source, target, topic

from heliostat.clusters.admin import ConfigEntry, ConfigSource
from heliostat.config import FORCED_CONFIGS, FOREVER_MS
from heliostat.errors import BrokerError
from heliostat.names import ClusterId, LinkName, Offset, PartitionId, TopicName
from heliostat.topics.plan import plan_topics
from heliostat.topics.values import MirrorRecord, TargetTopics


def test_a_new_topic_is_created_with_its_settings_and_those_that_raw_batches_need():
    plan = plan_topics(
        link(), source(topic(retention__ms="5", min__insync__replicas="2")), target(), {}
    )
    (create,) = plan.create
    assert (create.partitions, create.replication_factor) == (2, 3)
    assert create.configs == {**FORCED_CONFIGS, "retention.ms": "5"}
    (made,) = plan.mirrors
    assert (made.target_id, made.initial_partitions, made.start) == (None, 2, "earliest")
    (remembered,) = plan.remember
    assert remembered.synced_configs == ("retention.ms",)
    assert not plan.is_empty


def test_a_synced_pair_has_an_empty_plan():
    plan = plan_topics(
        link(),
        source(topic(retention__ms="5")),
        target(mirror(end=99, retention__ms="5")),
        record("t", "retention.ms"),
    )
    assert plan.is_empty
    assert plan.describe() == []
    assert len(plan.mirrors) == 1


def test_a_mirror_keeps_its_id_without_a_new_one_and_gets_one_if_unknown():
    """Its map is found by it."""
    unknown = replace(mirror(end=99), topic_id=None)
    plan = plan_topics(link(), source(topic()), target(unknown), record())
    assert [made.target_id for made in plan.mirrors] == [UUID(int=7)]
    assert not plan.remember
    nameless = {name: replace(row, target_id=None) for name, row in record().items()}
    plan = plan_topics(link(), source(topic()), target(mirror(end=99)), nameless)
    assert [row.target_id for row in plan.remember] == [UUID(int=7)]


def test_an_existing_empty_topic_becomes_the_mirror():
    plan = plan_topics(link(), source(topic()), target(mirror(partitions=1)), {})
    assert [(g.has, g.wants) for g in plan.grow] == [(1, 2)]
    assert plan.remember[0].target_id == UUID(int=7)
    assert plan.describe() == ["grow t: 1 → 2 partitions", "remember t as the mirror of t"]


def test_new_partitions_are_added_and_start_at_their_beginning():
    start = link(start="latest")
    plan = plan_topics(start, source(topic(partitions=5)), target(mirror(end=9)), record())
    assert [(g.has, g.wants) for g in plan.grow] == [(2, 5)]
    (made,) = plan.mirrors
    assert (made.partitions, made.initial_partitions) == (5, 2)
    assert made.start == "earliest"  # as it was when the mirror was made
    assert "another partition" in plan.notes[0]


@pytest.mark.parametrize(
    ("before", "start", "expected"),
    [
        (None, "latest", "latest"),
        ({"t", "other"}, "latest", "latest"),
        ({"other"}, "latest", "earliest"),
        ({"other"}, "earliest", "earliest"),
        ({"other"}, {"timestamp": "2026-01-02T00:00:00Z"}, "1767312000000"),
    ],
)
def test_latest_is_for_topics_of_the_links_beginning(before, start, expected):
    """Given a topic that came later / then all of it is copied."""
    seen = replace(source(topic()), at_beginning=before and frozenset(before))
    plan = plan_topics(link(start=start), seen, target(), {})
    assert [made.start for made in plan.mirrors] == [expected]


@pytest.mark.parametrize(
    ("own", "there", "synced", "changes"),
    [
        ({"retention__ms": "5"}, {"retention__ms": "5"}, ("retention.ms",), {}),
        ({"retention__ms": "5"}, {"retention__ms": "6"}, ("retention.ms",), {"retention.ms": "5"}),
        ({"retention__ms": "5"}, {}, (), {"retention.ms": "5"}),
        ({}, {"retention__ms": "5"}, ("retention.ms",), {"retention.ms": None}),
        ({}, {"retention__ms": "5"}, (), {}),  # an override at the target alone
        ({}, {}, ("retention.ms",), {}),
        ({"min__insync__replicas": "2"}, {}, (), {}),  # excluded
        ({"compression__type": "zstd"}, {}, (), {}),  # forced to producer, and is
        ({}, {"compression__type": "zstd"}, (), {"compression.type": "producer"}),
        ({}, {"message__timestamp__type": "LogAppendTime"}, (), None),
        ({"max__message__bytes": "9000000"}, {}, (), {"max.message.bytes": "9000000"}),
        ({"max__message__bytes": "2"}, {}, (), {}),  # a floor: never lowered
        ({}, {"max__message__bytes": "9000000"}, (), {}),
        ({"segment__bytes": "2000000"}, {}, (), {"segment.bytes": "2000000"}),
        (
            {"segment__bytes": "2000000", "max__message__bytes": "3000000"},
            {},
            (),
            {"max.message.bytes": "3000000", "segment.bytes": "3000000"},
        ),
        ({}, {"segment__bytes": "1048580"}, (), {"segment.bytes": "1048588"}),
        ({}, {"segment__bytes": "2000000"}, ("segment.bytes",), {"segment.bytes": None}),
        ({"new__config": "1"}, {}, (), {}),  # unknown to the target's brokers
    ],
)
def test_settings_of_an_existing_mirror(own, there, synced, changes):
    if changes is None:
        changes = {"message.timestamp.type": "CreateTime"}
    plan = plan_topics(
        link(), source(topic(**own)), target(mirror(end=1, **there)), record("t", *synced)
    )
    assert {k: v for c in plan.configure for k, v in c.changes.items()} == changes
    assert not plan.refuse
    assert ("does not know new.config" in "".join(plan.notes)) == ("new__config" in own)


def test_without_sync_only_what_is_pinned_and_needed_is_kept():
    config = link(sync_configs=False, config_set={"flush.ms": "7"})
    there = mirror(end=1, compression__type="zstd", retention__ms="6")
    known = record("t", "retention.ms")
    plan = plan_topics(config, source(topic(retention__ms="5")), target(there), known)
    assert plan.configure[0].changes == {"compression.type": "producer", "flush.ms": "7"}
    assert not plan.remember


def test_pinned_settings_win_and_are_unset_when_no_longer_pinned():
    pinned = link(config_set={"retention.ms": "7"})
    there = target(mirror(end=1, retention__ms="5"))
    plan = plan_topics(pinned, source(topic(retention__ms="5")), there, record())
    assert plan.configure[0].changes == {"retention.ms": "7"}
    assert plan.remember[0].synced_configs == ("retention.ms",)
    there = target(mirror(end=1, retention__ms="7"))
    plan = plan_topics(link(), source(topic()), there, record("t", "retention.ms"))
    assert plan.configure[0].changes == {"retention.ms": None}


def test_effective_values_are_synced_when_asked_for():
    lag = entries(ConfigSource.STATIC_BROKER, min__compaction__lag__ms="604800000")
    one = replace(topic(), configs=lag)
    assert (
        "min.compaction.lag.ms"
        not in plan_topics(link(), source(one), target(), {}).create[0].configs
    )
    config = link(sync_broker_values=True)
    create = plan_topics(config, source(one), target(), {}).create[0]
    assert create.configs["min.compaction.lag.ms"] == "604800000"
    assert "retention.ms" not in create.configs  # the target's brokers give the same
    shorter = replace(target(), inherited={**INHERITED, "retention.ms": "1"})
    create = plan_topics(config, source(one), shorter, {}).create[0]
    assert create.configs["retention.ms"] == "604800000"


def test_a_target_with_unknown_defaults_has_nothing_unset():
    """Given a setting that was synced as an effective value / it stays until more is known."""
    config = link(sync_broker_values=True)
    there = target(mirror(end=1, min__compaction__lag__ms="5"), inherited={})
    known = record("t", "min.compaction.lag.ms")
    assert plan_topics(config, source(topic()), there, known).is_empty


def test_brokers_before_3_6_have_another_timestamp_limit():
    old = {k: v for k, v in INHERITED.items() if "er.max.ms" not in k and "before" not in k}
    assert len(old) == len(INHERITED) - 2
    limit = "message.timestamp.difference.max.ms"
    plan = plan_topics(link(), source(topic()), target(inherited={**old, limit: FOREVER_MS}), {})
    assert plan.create[0].configs == {
        "compression.type": "producer",
        "message.timestamp.type": "CreateTime",
        limit: FOREVER_MS,
    }


def test_a_partition_added_to_a_mirror_by_hand_stops_nothing_and_is_noted():
    """Given a mirror of two partitions / when it has three / then the two are still copied."""
    plan = plan_topics(link(), source(topic()), target(mirror(partitions=3, end=9)), record("t"))
    assert (plan.refuse, [each.partitions for each in plan.mirrors]) == ({}, [2])
    assert [("has 3 partitions, the source has 2" in note) for note in plan.notes] == [True]


@pytest.mark.parametrize("is_new", [True, False])
@pytest.mark.parametrize(("kept", "is_told"), [("5", True), ("10", False), ("-1", False)])
def test_a_mirror_with_shorter_retention_is_noted(kept, is_told, is_new):
    """Given the target's own retention / when it is shorter / then noted, before records expire."""
    there = () if is_new else (mirror(partitions=2, retention__ms=kept),)
    one = topic(retention__ms="10")
    plan = plan_topics(link(config_set={"retention.ms": kept}), source(one), target(*there), {})
    told = "t (retention.ms 5 ms instead of 10 ms)"
    assert [told in note for note in plan.notes] == [True] * is_told


def test_of_many_mirrors_with_shorter_retention_a_few_are_named():
    names = "abcde"
    topics = [topic(name, retention__ms="10") for name in names]
    plan = plan_topics(link(config_set={"retention.ms": "5"}), source(*topics), target(), {})
    [note] = plan.notes
    assert [f"{name} (" in note for name in names] == [True, True, True, False, False]
    assert "and 2 more" in note


def test_replication_factor_is_capped_and_noted():
    plan = plan_topics(link(), source(topic()), target(brokers=1), {})
    assert plan.create[0].replication_factor == 1
    assert plan.notes == ("t: replication factor 1 instead of 3, the target has 1 brokers",)
    plan = plan_topics(link(replication_factor=2), source(topic()), target(), {})
    assert plan.create[0].replication_factor == 2


REFUSALS = {
    "internal": (link(), replace(topic(), is_internal=True), target(), {}),
    "name": (link(naming={"prefix": "x" * 249}), topic(), target(), {}),
    "source_changed": (
        link(),
        topic(),
        target(mirror(end=1)),
        record(source_cluster=ClusterId("C")),
    ),
    "renamed": (link(naming={"prefix": "x."}), topic(), target(), record()),
    "source_recreated": (link(), topic(number=2), target(mirror(end=1)), record()),
    "target_recreated": (link(), topic(), target(mirror(end=1, number=8)), record()),
    "target_not_ours": (link(), topic(), target(mirror(end=1)), {}),
    "target_has_more_partitions": (link(), topic(), target(mirror(partitions=3)), {}),
    "replication_factor": (link(replication_factor=4), topic(), target(), {}),
    "unreadable": (
        link(),
        topic(),
        target(unreadable={TopicName("t"): BrokerError("no right", kafka_code=29)}),
        {},
    ),
}


@pytest.mark.parametrize("code", REFUSALS)
def test_refusals(code):
    config, one, there, known = REFUSALS[code]
    plan = plan_topics(config, source(one), there, known)
    refusal = plan.refuse[TopicName("t")]
    assert refusal.code == code
    assert refusal.hint
    assert not (plan.mirrors)
    assert not (plan.create)
    assert not (plan.grow)
    assert not (plan.configure)
    assert not (plan.remember)
    assert not plan.is_empty


@pytest.mark.parametrize(
    ("config", "one", "there", "reason"),
    [
        (link(config_set={"max.message.bytes": 5}), topic(), target(), "config_set pins"),
        (
            link(sync_configs=False),
            topic(),
            target(mirror(end=1, cleanup__policy="compact")),
            "is compacted, the source is not",
        ),
        (
            link(replication_factor=1),
            topic(),
            target(inherited={**INHERITED, "min.insync.replicas": "2"}),
            "each append would fail",
        ),
        (
            link(),
            topic(),
            target(
                replace(
                    mirror(end=1),
                    configs={
                        **mirror().configs,
                        "compression.type": ConfigEntry(
                            "zstd", ConfigSource.TOPIC, False, True, False
                        ),
                    },
                )
            ),
            "may not be changed",
        ),
    ],
)
def test_settings_that_would_make_appends_fail(config, one, there, reason):
    plan = plan_topics(config, source(one), there, record() if there.topics else {})
    refusal = plan.refuse[TopicName("t")]
    assert (refusal.code, reason in refusal.reason) == ("configs", True)


def test_names_that_collide_in_kafka_are_refused():
    plan = plan_topics(link(), source(topic("a.b"), topic("a_b"), topic("c")), target(), {})
    assert {name: refusal.code for name, refusal in plan.refuse.items()} == {
        "a.b": "name_collision",
        "a_b": "name_collision",
    }
    assert [m.source for m in plan.mirrors] == ["c"]


def test_a_topic_that_another_link_writes_is_refused():
    claimed = {TopicName("t"): LinkName("other")}
    plan = plan_topics(link(), source(topic()), target(), {}, claimed)
    assert plan.refuse[TopicName("t")].reason == "link other writes into t as well"


def test_a_topic_that_may_be_another_links_waits():
    """Given an unknown owner / when planned / then refused, with the reason."""
    unsure = {TopicName("t"): "link other does not tell"}
    plan = plan_topics(link(), source(topic(), topic("u")), target(), {}, unsure=unsure)
    refusal = plan.refuse[TopicName("t")]
    assert (refusal.code, refusal.reason) == ("maybe_two_links", "link other does not tell")
    assert [m.source for m in plan.mirrors] == ["u"]


def test_an_unreadable_source_topic_refuses_that_topic_only():
    blind = replace(
        source(topic("b")), unreadable={TopicName("a"): BrokerError("no right", kafka_code=29)}
    )
    plan = plan_topics(link(), blind, target(), {})
    assert list(plan.refuse) == ["a"]
    assert [m.source for m in plan.mirrors] == ["b"]


@pytest.mark.parametrize("there", [[], [mirror(number=8)]])
def test_a_deleted_mirror_is_copied_again(there):
    """Given a deleted target topic, also one recreated empty by others / then copied again."""
    plan = plan_topics(link(), source(topic(number=2)), target(*there), record())
    assert not plan.refuse
    assert plan.remember[0].source_id == UUID(int=2)
    assert plan.notes == ("t: its mirror is gone, it is copied again",)


def test_a_mirror_of_an_unreadable_topic_is_unchanged():
    """Given a mirror / when source or target can't be read for a moment / then nothing changes."""
    error = BrokerError("no right", kafka_code=29)
    blind = replace(source(), unreadable={TopicName("t"): error})
    plan = plan_topics(link(), blind, target(mirror(end=1)), record())
    assert (plan.notes, plan.remember, plan.refuse[TopicName("t")].code) == ((), (), "unreadable")
    plan = plan_topics(
        link(), source(topic()), target(unreadable={TopicName("t"): error}), record()
    )
    assert (plan.notes, plan.remember, plan.create) == ((), (), ())
    assert plan.refuse[TopicName("t")].code == "unreadable"


@pytest.mark.parametrize(
    ("config", "one", "there"),
    [
        (link(config_set={"max.message.bytes": 1048588}), topic(), target()),
        (
            link(replication_factor=2),
            topic(),
            target(inherited={**INHERITED, "min.insync.replicas": "2"}),
        ),
        (link(), topic(), target(mirror())),
        (link(naming={"prefix": "x" * 248}), topic(), target()),
    ],
    ids=["pinned as large", "as many replicas", "as many partitions", "as long a name"],
)
def test_a_setting_exactly_at_its_limit_is_not_refused(config, one, there):
    assert plan_topics(config, source(one), there, {}).refuse == {}


@pytest.mark.parametrize("partitions", [3, 4])
def test_a_target_with_more_partitions_is_refused_by_the_first(partitions):
    plan = plan_topics(link(), source(topic()), target(mirror(partitions=partitions)), {})
    assert plan.refuse[TopicName("t")].code == "target_has_more_partitions"


def test_a_source_topic_that_is_gone_is_noted_and_nothing_is_done():
    plan = plan_topics(link(), source(), target(mirror(end=1)), record())
    assert plan.notes == (
        "include .* matches no topic of the source",
        "t is gone at the source; its mirror stays as it is",
    )
    assert plan.is_empty


def test_an_unknown_log_end_is_not_taken_for_empty():
    blind = replace(mirror(), ends={PartitionId(0): Offset(0)})
    plan = plan_topics(link(), source(topic()), target(blind), {})
    assert plan.refuse[TopicName("t")].code == "unreadable"


def test_records_and_plans_survive_json():
    (one,) = record("t", "retention.ms").values()
    assert MirrorRecord.from_json(json.loads(json.dumps(one.to_json()))) == one
    plan = plan_topics(link(), source(topic("a"), topic("b")), target(mirror("b", end=3)), {})
    found = json.loads(json.dumps(plan.to_json()))
    assert found["create"][0]["target"] == "a"
    assert found["refuse"]["b"]["code"] == "target_not_ours"
    assert found["is_empty"] is False


OWN = st.dictionaries(
    st.sampled_from(["retention__ms", "flush__ms", "segment__bytes", "max__message__bytes"]),
    st.integers(1, 5_000_000).map(str),
)
SOURCES = st.dictionaries(
    st.sampled_from("abcde"), st.tuples(st.integers(1, 4), OWN), min_size=1, max_size=5
)


def done(plan, before: TargetTopics) -> TargetTopics:
    """What the target looks like once the plan is applied."""
    topics = dict(before.topics)
    for new in plan.create:
        own = {key.replace(".", "__"): value for key, value in new.configs.items()}
        made = mirror(new.target, new.partitions, number=ord(new.target))
        topics[new.target] = replace(made, configs=entries(**own))
    for more in plan.grow:
        ends = {PartitionId(p): Offset(0) for p in range(more.wants)}
        topics[more.target] = replace(topics[more.target], partitions=more.wants, ends=ends)
    for change in plan.configure:
        configs = dict(topics[change.target].configs)
        for key, value in change.changes.items():
            entry = ConfigEntry(value, ConfigSource.TOPIC, False, False, False)
            configs[key] = entries()[key] if value is None else entry
        topics[change.target] = replace(topics[change.target], configs=configs)
    return replace(before, topics=topics)


@given(SOURCES, SOURCES, st.randoms(use_true_random=False))
def test_applying_a_plan_leaves_nothing_to_do_and_order_does_not_matter(
    first, second, chance: random.Random
):
    known: dict[TopicName, MirrorRecord] = {}
    there = target()
    for state in (first, second):
        grown = {n: max(state[n][0], first.get(n, (0,))[0]) for n in state}
        topics = [topic(n, grown[n], **own) for n, (_, own) in state.items()]
        plan = plan_topics(link(), source(*topics), there, known)
        chance.shuffle(topics)
        assert plan_topics(link(), source(*topics), there, known) == plan
        assert not plan.refuse
        there = done(plan, there)
        ids = {t.name: t.topic_id for t in there.topics.values()}
        known |= {r.source: replace(r, target_id=ids[r.target]) for r in plan.remember}
        after = plan_topics(link(), source(*topics), there, known)
        assert after.is_empty, after.describe()
