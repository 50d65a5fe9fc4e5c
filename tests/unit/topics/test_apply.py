"""Each answer of the target is waited for and checked: failures are reported per topic."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from support.simulated_admin import SimulatedAdmin
from support.simulated_cluster import SimulatedCluster

from heliostat.clusters.kafka_codes import THROTTLING_QUOTA_EXCEEDED
from heliostat.names import ClusterId, PartitionId, TopicName, TopicPartition
from heliostat.topics.apply import VISIBLE_TIMEOUT_S, ApplyReport, apply_plan, count_topics
from heliostat.topics.topic_plan import CreateTopic, GrowTopic, Mirror, SetConfigs, TopicPlan
from heliostat.topics.values import MirrorRecord

A, B = TopicName("a"), TopicName("b")
LEADER_NOT_AVAILABLE, NOT_LEADER = 5, 6


class Clock:
    now_s = 0.0

    def monotonic_s(self) -> float:
        return self.now_s

    def wall_ms(self) -> int:
        return round(self.now_s * 1000)

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


def target(
    refused: Mapping[TopicName, int] | None = None,
    *there: TopicName,
    looks_until_led: int = 0,
    looks_until_answering: int = 0,
    looks_until_in_effect: int = 0,
) -> SimulatedCluster:
    """Topics are led, and settings in effect, after some looks; some are refused."""
    made = SimulatedCluster()
    for name in there:
        made.create(name, configs={"retention.ms": "4"})
    for name, code in (refused or {}).items():
        for method in ("create_topics", "grow_partitions", "alter_configs"):
            made.fail(method, code, name)
    last = [TopicPartition(name, PartitionId(1)) for name in (A, B)]
    made.fail("describe_topics", LEADER_NOT_AVAILABLE, *last, times=looks_until_led)
    made.fail("list_log_ends", NOT_LEADER, *last, times=looks_until_answering)
    made.settings_behind = looks_until_in_effect
    return made


def apply(plan: TopicPlan, cluster: SimulatedCluster, clock: Clock | None = None) -> ApplyReport:
    return apply_plan(plan, SimulatedAdmin(cluster), clock or Clock())


def mirror(name: TopicName) -> Mirror:
    return Mirror(name, name, None, None, 2, 2, "earliest", 1, False, False)


def record(name: TopicName) -> MirrorRecord:
    return MirrorRecord(name, name, None, None, ClusterId("A"), "earliest", 2)


def creating(*names: TopicName) -> TopicPlan:
    return TopicPlan(
        create=tuple(CreateTopic(name, name, 2, 1, {}) for name in names),
        mirrors=tuple(mirror(name) for name in names),
        remember=tuple(record(name) for name in names),
    )


def changing(key: str, value: str | None) -> TopicPlan:
    change = SetConfigs(A, A, {key: value}, {})
    return TopicPlan(configure=(change,), mirrors=(mirror(A),), remember=(record(A),))


def test_new_topics_are_waited_for_and_get_their_ids():
    clock = Clock()
    cluster = target(looks_until_led=3, looks_until_answering=2)
    report = apply(creating(A, B), cluster, clock)
    assert report.created == (A, B)
    ids = [cluster.topics[name].topic_id for name in (A, B)]
    assert ids[0] not in {None, ids[1]}
    assert [m.target_id for m in report.mirrors] == ids
    assert [r.target_id for r in report.remember] == ids
    assert len(cluster.asked("describe_topics")) == 3 + 2 + 1
    assert len(cluster.asked("list_log_ends")) == 2 + 1  # until leaders answered
    assert 0 < clock.now_s < 1


def test_a_refused_topic_is_reported_and_not_copied():
    report = apply(creating(A, B), target({A: 44}))
    assert codes(report) == {A: 44}
    assert [m.source for m in report.mirrors] == [r.source for r in report.remember] == [B]


def test_waiting_for_leaders_times_out():
    clock = Clock()
    report = apply(creating(A), target(looks_until_led=10**9), clock)
    assert report.failed[A].kafka_name == "LEADER_NOT_AVAILABLE"
    assert (report.created, report.mirrors, report.remember) == ((), (), ())
    assert VISIBLE_TIMEOUT_S < clock.now_s < VISIBLE_TIMEOUT_S + 1


def test_partitions_that_are_refused_hold_the_mirror_back():
    plan = TopicPlan(grow=(GrowTopic(A, A, 1, 2),), mirrors=(mirror(A),))
    report = apply(plan, target({A: 44}, A))
    assert (report.grown, report.mirrors, codes(report)) == ((), (), {A: 44})
    cluster = target(None, A)
    assert apply(plan, cluster).grown == (A,)
    assert len(cluster.topics[A].logs) == 2


def test_a_topic_grows_while_another_of_its_partitions_has_no_leader():
    """Given a broker that is gone / when topics are created and grow / then nobody waits for it."""
    clock = Clock()
    cluster = target(None, A)
    cluster.fail("describe_topics", 5, TopicPartition(A, PartitionId(0)))
    plan = TopicPlan(
        create=(CreateTopic(B, B, 2, 1, {}),),
        grow=(GrowTopic(A, A, 1, 2),),
        mirrors=(mirror(A), mirror(B)),
    )
    report = apply(plan, cluster, clock)
    assert (report.grown, report.created, codes(report)) == ((A,), (B,), {})
    assert [m.source for m in report.mirrors] == [A, B]
    assert clock.now_s < 1


def test_a_refused_setting_holds_the_mirror_back_only_where_appends_need_it():
    drift = apply(changing("retention.ms", "5"), target({A: 40}, A))
    assert ([m.source for m in drift.mirrors], codes(drift)) == ([A], {A: 40})
    assert drift.remember == ()  # it was not synced
    needed = apply(changing("compression.type", "producer"), target({A: 40}, A))
    assert (needed.mirrors, codes(needed)) == ((), {A: 40})


def test_an_invalid_setting_is_reported():
    """Given a plan with an unknown setting / when applied / then reported as if refused."""
    report = apply(changing("retention.ms", "long"), target(None, A))
    assert codes(report) == {A: 40}


def test_settings_are_waited_for():
    for value in ("5", None):
        clock = Clock()
        plan = changing("retention.ms", value)
        cluster = target(None, A, looks_until_in_effect=3)
        report = apply(plan, cluster, clock)
        assert (report.configured, report.failed) == ((A,), {})
        assert cluster.topics[A].configs == ({} if value is None else {"retention.ms": value})
        assert clock.now_s > 0
        report = apply(plan, target(None, A, looks_until_in_effect=10**9))
        assert "not in effect" in report.failed[A].text


def test_an_empty_plan_sends_no_request():
    cluster = target()
    report = apply(TopicPlan(mirrors=(mirror(A),)), cluster)
    assert (report.mirrors, report.failed) == ((mirror(A),), {})
    assert all(not call.items for call in cluster.calls)


def codes(report: ApplyReport) -> dict[TopicName, int]:
    return {name: error.kafka_code for name, error in report.failed.items()}


def test_topics_are_counted_by_what_was_made_of_them() -> None:
    names = [TopicName(name) for name in "abcd"]
    plan = TopicPlan(mirrors=tuple(map(mirror, names)), left_out={TopicName("x"): "a circle"})
    applied = ApplyReport((), (), (), {}, (mirror(names[0]),), ())
    counts = count_topics(plan, applied, {names[1]})
    assert counts == {"mirrored": 1, "refused": 1, "left_out": 1, "waiting": 2}


def test_nothing_more_is_created_once_the_controllers_quota_is_used_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Given a quota that refuses a topic / then what was created is copied first, and later
    requests are not sent."""
    monkeypatch.setattr("heliostat.topics.apply.TOPICS_PER_REQUEST", 2)
    names = [TopicName(name) for name in ("a", "b", "c", "d")]
    create = tuple(CreateTopic(name, name, 2, 1, {}) for name in names)
    cluster = target({B: THROTTLING_QUOTA_EXCEEDED})
    report = apply(TopicPlan(create=create, mirrors=tuple(map(mirror, names))), cluster)
    assert cluster.asked("create_topics") == [("a", "b")]
    assert report.created == ("a",)
    assert [each.source for each in report.mirrors] == ["a"]
    assert {error.kafka_name for error in report.failed.values()} == {"THROTTLING_QUOTA_EXCEEDED"}
    assert list(report.failed) == ["b", "c", "d"]
