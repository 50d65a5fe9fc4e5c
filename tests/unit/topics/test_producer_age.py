"""What preflight says of records that are older than brokers remember producers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any, cast

from heliostat.clusters.admin import EARLIEST, LATEST, NO_OFFSET, ClusterAdmin
from heliostat.names import Offset, PartitionId, TopicName, TopicPartition
from heliostat.topics.producer_age import EXPIRATION_KEY, old_backlog_note
from heliostat.topics.topic_plan import Mirror

HOUR_MS = 3_600_000
NOW_MS = 1000 * HOUR_MS
ESS = TopicName("ESS")


class Source:
    """One partition's records, by their age in hours; answers as leaders do."""

    def __init__(self, **ages_h: list[int]) -> None:
        self.times = {
            TopicPartition(TopicName(name), PartitionId(0)): [
                NOW_MS - age * HOUR_MS for age in ages
            ]
            for name, ages in ages_h.items()
        }
        self.asked: list[Mapping[TopicPartition, int]] = []

    def list_offsets(self, specs: Mapping[TopicPartition, int]) -> dict[TopicPartition, Any]:
        self.asked.append(specs)
        return {p: SimpleNamespace(offset=self._offset(p, spec)) for p, spec in specs.items()}

    def _offset(self, partition: TopicPartition, spec: int) -> int:
        times = self.times[partition]
        if spec == EARLIEST:
            return 0
        if spec == LATEST:
            return len(times)
        return next((at for at, time in enumerate(times) if time >= spec), NO_OFFSET)


class Target:
    """Where copying has got to, and what its brokers are set to."""

    def __init__(self, ends: Mapping[TopicName, int]) -> None:
        self._ends = ends

    def list_log_ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Offset]:
        return {p: Offset(self._ends.get(p.topic, 0)) for p in partitions}

    def describe_broker_configs(self) -> dict[str, Any]:
        return {EXPIRATION_KEY: SimpleNamespace(value=str(24 * HOUR_MS))}


def note(source: Source, ends: dict[TopicName, int], start: str = "earliest") -> str | None:
    mirrors = [
        Mirror(p.topic, p.topic, None, None, 1, 1, start, 1_000_000, False, False)
        for p in source.times
    ]
    return old_backlog_note(
        mirrors,
        cast("ClusterAdmin", source),
        cast("ClusterAdmin", Target(ends)),
        NOW_MS,
    )


def test_old_records_to_copy_are_counted_and_the_setting_is_named() -> None:
    """Given 3 of 5 records older than a day / when 1 is copied / then 2 are told of."""
    found = note(Source(ESS=[90, 60, 30, 5, 1]), {ESS: 1})
    assert found is not None
    assert found.startswith("2 records of ESS-0 ")
    assert "producer.id.expiration.ms=86400000 (1 d)" in found


def test_all_old_records_count_where_none_is_young() -> None:
    """Given only old ones and no mirror yet / when asked / then all are told of."""
    found = note(Source(ESS=[90, 60, 30]), {})
    assert found is not None
    assert found.startswith("3 records")


def test_nothing_is_said_without_old_records_to_copy() -> None:
    """Given young ones, copied ones, or a mirror from now on / when asked / then nothing."""
    assert note(Source(ESS=[5, 1]), {}) is None
    assert note(Source(ESS=[90, 5, 1]), {ESS: 1}) is None
    assert note(Source(ESS=[90, 60]), {}, start="latest") is None
    assert note(Source(ESS=[90, 5]), {}, start=str(NOW_MS - 6 * HOUR_MS)) is None


def test_partitions_in_sync_are_not_asked_by_time() -> None:
    """Given a pair in sync / when asked / then one question was enough."""
    source = Source(ESS=[90, 60])
    assert note(source, {ESS: 2}) is None
    assert len(source.asked) == 1
