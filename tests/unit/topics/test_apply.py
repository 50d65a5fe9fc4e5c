"""Each answer of the target is awaited and looked at: what failed is told, per topic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from heliostat.clusters.admin import (
    ConfigEntry,
    ConfigSource,
    NewTopic,
    PartitionInfo,
    TopicInfo,
)
from heliostat.errors import BrokerError
from heliostat.names import (
    BrokerId,
    ClusterId,
    LeaderEpoch,
    Offset,
    PartitionId,
    TopicName,
    TopicPartition,
)
from heliostat.topics.apply import VISIBLE_TIMEOUT_S, apply_plan
from heliostat.topics.topic_plan import CreateTopic, GrowTopic, Mirror, SetConfigs, TopicPlan
from heliostat.topics.values import MirrorRecord

A, B = TopicName("a"), TopicName("b")


class Clock:
    now_s = 0.0

    def monotonic_s(self) -> float:
        return self.now_s

    def wall_ms(self) -> int:
        return round(self.now_s * 1000)

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


@dataclass
class Target:
    """Answers as told; topics are led, and settings in effect, after some looks."""

    refused: Mapping[TopicName, BrokerError] = field(default_factory=dict)
    looks_until_led: int = 0
    looks_until_answering: int = 0
    looks_until_in_effect: int = 0
    configs: dict[TopicName, dict[str, str | None]] = field(default_factory=dict)

    def create_topics(self, topics: Iterable[NewTopic]) -> dict[TopicName, UUID | BrokerError]:
        return {t.name: self.refused.get(t.name, UUID(int=ord(t.name))) for t in topics}

    def grow_partitions(self, topics: Mapping[TopicName, int]) -> dict[TopicName, object]:
        return {name: self.refused.get(name) for name in topics}

    def alter_configs(self, changes: Mapping[TopicName, dict]) -> dict[TopicName, object]:
        self.configs = {name: dict(values) for name, values in changes.items()}
        return {name: self.refused.get(name) for name in changes}

    def describe_configs(self, topics: Iterable[TopicName], keys: list[str]) -> dict:
        self.looks_until_in_effect -= 1
        in_effect = self.looks_until_in_effect < 0

        def entry(value: str | None) -> ConfigEntry:
            if not in_effect:
                return ConfigEntry("old", ConfigSource.TOPIC, False, False, False)
            source = ConfigSource.DEFAULT if value is None else ConfigSource.TOPIC
            return ConfigEntry(value or "default", source, value is None, False, False)

        return {
            name: {key: entry(value) for key, value in self.configs[name].items() if key in keys}
            for name in topics
        }

    def describe_topics(self, names: Iterable[TopicName]) -> dict[TopicName, TopicInfo]:
        self.looks_until_led -= 1
        leader = BrokerId(1) if self.looks_until_led < 0 else None
        partitions = tuple(
            PartitionInfo(PartitionId(n), leader, LeaderEpoch(0), (), ()) for n in range(2)
        )
        return {n: TopicInfo(n, UUID(int=ord(n)), partitions, False) for n in names}

    def list_log_ends(self, partitions: Iterable[TopicPartition]) -> dict:
        self.looks_until_answering -= 1
        silent = BrokerError("no leader", kafka_code=6)
        return {p: Offset(0) if self.looks_until_answering < 0 else silent for p in partitions}


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


def test_new_topics_are_awaited_and_get_their_ids():
    clock = Clock()
    target = Target(looks_until_led=3, looks_until_answering=2)
    report = apply_plan(creating(A, B), target, clock)
    assert report.created == (A, B)
    assert [m.target_id for m in report.mirrors] == [UUID(int=97), UUID(int=98)]
    assert [r.target_id for r in report.remember] == [UUID(int=97), UUID(int=98)]
    assert target.looks_until_answering < 0  # leaders were asked until they answered
    assert 0 < clock.now_s < 1


def test_one_that_is_refused_is_told_and_not_copied():
    error = BrokerError("policy", kafka_code=44)
    report = apply_plan(creating(A, B), Target(refused={A: error}), Clock())
    assert report.failed == {A: error}
    assert [m.source for m in report.mirrors] == [r.source for r in report.remember] == [B]


def test_waiting_for_leaders_ends():
    clock = Clock()
    report = apply_plan(creating(A), Target(looks_until_led=10**9), clock)
    assert report.failed[A].kafka_name == "LEADER_NOT_AVAILABLE"
    assert (report.created, report.mirrors, report.remember) == ((), (), ())
    assert VISIBLE_TIMEOUT_S < clock.now_s < VISIBLE_TIMEOUT_S + 1


def test_partitions_that_are_refused_hold_the_mirror_back():
    plan = TopicPlan(grow=(GrowTopic(A, A, 1, 2),), mirrors=(mirror(A),))
    error = BrokerError("no", kafka_code=44)
    report = apply_plan(plan, Target(refused={A: error}), Clock())
    assert (report.grown, report.mirrors, report.failed) == ((), (), {A: error})
    assert apply_plan(plan, Target(), Clock()).grown == (A,)


def test_a_refused_setting_holds_the_mirror_back_only_where_appends_need_it():
    refusing = Target(refused={A: BrokerError("no", kafka_code=40)})
    drift = apply_plan(changing("retention.ms", "5"), refusing, Clock())
    assert ([m.source for m in drift.mirrors], list(drift.failed)) == ([A], [A])
    assert drift.remember == ()  # it was not synced
    needed = apply_plan(changing("compression.type", "producer"), refusing, Clock())
    assert (needed.mirrors, list(needed.failed)) == ((), [A])


def test_settings_are_awaited():
    for value in ("5", None):
        clock = Clock()
        plan = changing("retention.ms", value)
        report = apply_plan(plan, Target(looks_until_in_effect=3), clock)
        assert (report.configured, report.failed) == ((A,), {})
        assert clock.now_s > 0
        report = apply_plan(plan, Target(looks_until_in_effect=10**9), Clock())
        assert "not in effect" in report.failed[A].text


def test_an_empty_plan_asks_nothing():
    report = apply_plan(TopicPlan(mirrors=(mirror(A),)), Target(), Clock())
    assert (report.mirrors, report.failed) == ((mirror(A),), {})
