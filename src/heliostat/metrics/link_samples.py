"""The samples of one link, from what is observed of it; pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice

from heliostat.config import LinkConfig, MetricsConfig, compile_pattern
from heliostat.metrics import families as f
from heliostat.metrics.meter_samples import (
    write_configuration,
    write_meters,
    write_processes,
    write_requests,
    write_rights,
    write_schemas,
)
from heliostat.metrics.text import Samples, labels
from heliostat.names import PartitionId, TopicName, TopicPartition
from heliostat.status.cluster_watch import Reach
from heliostat.status.follower import Observation
from heliostat.status.latencies import Percentiles
from heliostat.status.loss import summed_losses
from heliostat.status.values import LinkStatus, PartitionStatus, TopicStatus

OTHER = "(other)"
"""Stands for topics without series of their own; no topic can have that name."""
PARTITIONS_MAX = 200
LATE_S = 60.0
GAP_STATES = ("gap",)


@dataclass(frozen=True, slots=True)
class WatchedLink:
    """A link and its clusters, as they were observed at one moment."""

    observation: Observation
    source: Reach
    target: Reach
    partitions: Callable[[], list[PartitionStatus]] = list
    """Returns all its partitions."""
    latencies: Callable[[], Mapping[TopicName, Percentiles]] = dict
    """Returns the latencies of topics of which something was copied lately."""
    retention: Callable[[], Mapping[TopicName, float]] = dict
    """Returns for how many seconds the source keeps records of topics, where that is known."""


class LinkSamples:
    """Writes the samples of one link.

    Parameters
    ----------
    link
        The link.
    config
        What is measured.
    """

    def __init__(self, link: LinkConfig, config: MetricsConfig) -> None:
        self._names = {"link": link.name, "source": link.source, "target": link.target}
        self._labels = labels(self._names)
        self._config = config
        self._topic_labels: dict[TopicName, str] = {}

    def write(self, samples: Samples, watched: WatchedLink) -> int:
        """Add the link's samples; return how many topics have no series of their own."""
        status = watched.observation.status
        self._write_link(samples, status)
        self._write_reach(samples, watched)
        counts = watched.observation.totals.latency.counts
        samples.add_latency(f.COPY_LATENCY, self._labels, counts)
        kept = kept_topics(status, self._config)
        others = [topic for topic in status.topics if topic.source not in kept]
        for topic in status.topics:
            if topic.source in kept:
                self._write_topic(samples, self._labels_of(TopicName(topic.source)), topic)
        if others:
            self._write_topic(samples, self._labels_of(TopicName(OTHER)), _sum_of(others))
        self._write_copied(samples, watched.observation, kept)
        self._write_told(samples, watched, kept)
        write_meters(samples, self._labels, status)
        write_configuration(samples, self._labels, status)
        write_requests(samples, self._labels, watched.observation.totals.requests)
        self._write_partitions(samples, watched)
        return len(others)

    def write_standby(self, samples: Samples) -> None:
        """Add that the link's driver here waits while another drives it."""
        samples.add(f.LINK_STATE, f'{self._labels},state="standby"', 1)

    def _labels_of(self, topic: TopicName) -> str:
        labelled = self._topic_labels.get(topic)
        if labelled is None:
            labelled = self._topic_labels[topic] = labels({**self._names, "topic": topic})
        return labelled

    def _write_link(self, samples: Samples, status: LinkStatus) -> None:
        mine, driver = self._labels, status.driver
        for state in f.LINK_STATES:
            samples.add(f.LINK_STATE, f'{mine},state="{state}"', int(state == status.state))
        samples.add(f.LINK_IN_SYNC, mine, int(status.is_in_sync()))
        samples.add(f.LOSS_EXACT, mine, int(status.would_be_lost.truth == "exact"))
        at_ms = driver.get("at_ms")
        samples.add(f.OWNER_RENEWED, mine, None if at_ms is None else at_ms / 1000)
        samples.add(f.TAKEOVERS, mine, driver.get("claim"))
        samples.add(f.PARTITIONS_STUCK, mine, driver.get("no_progress", {}).get("count"))
        restarts = status.restarts or {}
        next_ms = restarts.get("next_ms")
        samples.add(f.LINK_RESTARTS, mine, restarts.get("total"))
        samples.add(f.LINK_RESTART_NEXT, mine, None if next_ms is None else next_ms / 1000)
        if status.state == "halted":
            phase, code = restarts.get("phase", ""), restarts.get("code", "")
            samples.add(f.LINK_HALTED, labels({**self._names, "phase": phase, "code": code}), 1)
        samples.add(f.LANES, mine, len(status.lanes))
        for lane in status.lanes:
            labelled = f'{mine},lane="{lane["lane"]}"'
            samples.add(f.LANE_SILENT, labelled, max(0.0, lane["heard_s_ago"]))
            samples.add(f.LANE_BYTES, labelled, lane["bytes_per_s"])
        # The report names a hundred refused topics at most, but it counts all.
        here = {"mirrored": len(status.topics), "refused": len(status.refused)}
        for state, count in (driver.get("topics") or here).items():
            samples.add(f.TOPICS, f'{mine},state="{state}"', count)
        for kind, count in (status.drift or {}).get("kinds", {}).items():
            samples.add(f.DRIFT, f'{mine},kind="{kind}"', count)
        open_gaps = sum(item.state in GAP_STATES for item in status.problems)
        samples.add(f.GAP_DECISIONS, mine, open_gaps)
        for side, line in (("source", status.source_line), ("target", status.target_line)):
            if line is not None:
                labelled = f'{mine},side="{side}"'
                samples.add(f.LINE_ROUND_TRIP, labelled, line.round_trip_ms / 1000)
                samples.add(f.LINE_BYTES, labelled, line.in_flight_bytes)
        for limit in status.limits:
            labelled = labels({**self._names, "topic": limit["topic"] or ""})
            samples.add(f.LIMIT_BYTES, labelled, limit["bytes_per_second"])
            samples.add(f.LIMIT_THROTTLED, labelled, limit["throttled_s"])
        samples.add(f.HEARTBEAT_AGE, mine, status.heartbeat_age_s)
        write_rights(samples, mine, driver)
        schemas = driver.get("schemas")
        samples.add(f.SCHEMA_WAITING, mine, len(schemas.get("waiting", ())) if schemas else None)
        if schemas:
            write_schemas(samples, mine, schemas)

    def _write_reach(self, samples: Samples, watched: WatchedLink) -> None:
        for side, reach in (("source", watched.source), ("target", watched.target)):
            for broker, answers in sorted(reach.brokers.items()):
                labelled = f'{self._labels},side="{side}",broker="{broker}"'
                samples.add(f.BROKER_REACHABLE, labelled, int(answers))
        samples.add(f.SOURCE_END_AGE, self._labels, watched.source.answered_s_ago)

    def _write_topic(self, samples: Samples, labelled: str, topic: TopicStatus) -> None:
        samples.add(f.LAG_RECORDS, labelled, topic.lag_records)
        samples.add(f.LAG_SECONDS, labelled, topic.lag_s)
        samples.add(f.LAG_UNKNOWN, labelled, topic.unknown)
        samples.add(f.LOSS_RECORDS, labelled, topic.would_be_lost.records)
        samples.add(f.LOSS_SECONDS, labelled, topic.would_be_lost.age_s)
        for state, count in sorted(topic.states.items()):
            samples.add(f.TOPIC_PARTITIONS, f'{labelled},state="{state}"', count)

    def _write_copied(
        self, samples: Samples, observation: Observation, kept: set[TopicName]
    ) -> None:
        sums: dict[TopicName, tuple[int, int]] = dict.fromkeys(kept, (0, 0))
        for partition, (records, size) in observation.totals.copied.items():
            topic = partition.topic if partition.topic in kept else TopicName(OTHER)
            was = sums.get(topic, (0, 0))
            sums[topic] = (was[0] + records, was[1] + size)
        for topic, (records, size) in sums.items():
            labelled = self._labels_of(topic)
            samples.add(f.RECORDS_COPIED, labelled, records)
            samples.add(f.BYTES_COPIED, labelled, size)

    def _write_told(self, samples: Samples, watched: WatchedLink, kept: set[TopicName]) -> None:
        """Add what is known of topics beside their status."""
        for topic, latency in watched.latencies().items():
            if topic in kept:
                labelled = self._labels_of(topic)
                samples.add(f.TOPIC_LATENCY, f'{labelled},q="p50"', round(latency.p50_ms) / 1000)
                samples.add(f.TOPIC_LATENCY, f'{labelled},q="p99"', round(latency.p99_ms) / 1000)
        for topic, seconds in watched.retention().items():
            if topic in kept:
                samples.add(f.TOPIC_RETENTION, self._labels_of(topic), seconds)

    def write_processes(self, samples: Samples, status: LinkStatus, *, with_driver: bool) -> None:
        """Add what the processes of the link have used; `with_driver` for one link of a driver."""
        write_processes(samples, self._labels, status, with_driver=with_driver)

    def _write_partitions(self, samples: Samples, watched: WatchedLink) -> None:
        status, which = watched.observation.status, self._config.partitions
        is_late = any((topic.lag_s or 0.0) > LATE_S for topic in status.topics)
        if which == "none" or (which == "problems" and not is_late and not status.problems):
            return
        chosen, copied = watched.partitions(), watched.observation.totals.copied
        if which == "problems":
            late = (p for p in chosen if p.code or (p.lag_s or 0.0) > LATE_S)
            chosen = list(islice(late, PARTITIONS_MAX))
        for item in chosen:
            labelled = f'{self._labels_of(TopicName(item.source))},partition="{item.partition}"'
            samples.add(f.PARTITION_LAG_RECORDS, labelled, item.lag_records)
            samples.add(f.PARTITION_LAG_SECONDS, labelled, item.lag_s)
            samples.add(f.PARTITION_LOSS_RECORDS, labelled, item.would_be_lost.records)
            samples.add(f.PARTITION_LOSS_SECONDS, labelled, item.would_be_lost.age_s)
            samples.add(f.PARTITION_SOURCE_END, labelled, _known(item.source_end))
            samples.add(f.PARTITION_POSITION, labelled, _known(item.position))
            partition = TopicPartition(TopicName(item.source), PartitionId(item.partition))
            records, size = copied.get(partition, (0, 0))
            samples.add(f.PARTITION_RECORDS_COPIED, labelled, records)
            samples.add(f.PARTITION_BYTES_COPIED, labelled, size)
            if item.code:
                samples.add(f.PARTITION_STATE, f'{labelled},state="{item.state}"', 1)
                since_s = item.since_ms / 1000
                samples.add(f.PARTITION_STOPPED, f'{labelled},code="{item.code}"', since_s)


def kept_topics(status: LinkStatus, config: MetricsConfig) -> set[TopicName]:
    """Return the topics with series of their own, by their names: series must not come and go."""
    include = [compile_pattern(entry).fullmatch for entry in config.topics.include]
    names = (TopicName(topic.source) for topic in status.topics)
    own = sorted(name for name in names if any(matches(name) for matches in include))
    return set(own[: config.topics.max])


def _known(offset: int) -> int | None:
    return offset if offset >= 0 else None


def _sum_of(topics: list[TopicStatus]) -> TopicStatus:
    """Return the sum of topics; a lag is not known where one of them is not."""
    every = TopicStatus(OTHER, OTHER)
    records = [topic.lag_records for topic in topics]
    ages = [topic.lag_s for topic in topics]
    every.lag_records = None if None in records else sum(filter(None, records))
    every.lag_s = None if None in ages else max((age for age in ages if age), default=0.0)
    every.would_be_lost = summed_losses(topic.would_be_lost for topic in topics)
    for topic in topics:
        every.unknown += topic.unknown
        for state, count in topic.states.items():
            every.states[state] = every.states.get(state, 0) + count
    return every
