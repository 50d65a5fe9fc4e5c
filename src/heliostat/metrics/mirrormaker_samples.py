"""A link's figures under the names of MirrorMaker 2's metrics; pure.

Only what can be told truly: where nothing of ours is what a name means, there is no series.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from heliostat.config import LinkConfig, MetricsConfig
from heliostat.metrics import mirrormaker_families as m
from heliostat.metrics.families import Family
from heliostat.metrics.link_samples import WatchedLink, kept_topics
from heliostat.metrics.text import Samples, labels
from heliostat.names import PartitionId, TopicName, TopicPartition
from heliostat.status.latencies import Percentiles
from heliostat.status.snapshot import SILENT_AFTER_S
from heliostat.status.values import LinkStatus, PartitionStatus

TASK_STATE_OF = {"running": "running", "paused": "paused", "halted": "failed"}


class MirrorMakerSamples:
    """Writes the samples of one link.

    Parameters
    ----------
    link
        The link.
    config
        What is measured.
    """

    def __init__(self, link: LinkConfig, config: MetricsConfig) -> None:
        names = config.mirrormaker2
        given: dict[str, str] = {} if names is None else names.labels or {}
        self._config = config
        self._link = {**given, "source": link.source, "target": link.target}
        self._flow = f"{link.source}->{link.target}"

    def write(self, samples: Samples, watched: WatchedLink) -> None:
        """Add the link's samples."""
        status = watched.observation.status
        self._write_workers(samples, status)
        self._write_groups(samples, status)
        kept, latencies = kept_topics(status, self._config), watched.latencies()
        targets = {TopicName(topic.source): topic.target for topic in status.topics}
        copied = watched.observation.totals.copied
        for item in watched.partitions():
            source = TopicName(item.source)
            if source in kept:
                totals = copied.get(TopicPartition(source, PartitionId(item.partition)), (0, 0))
                target = targets.get(source, item.source)
                self._write_partition(samples, item, target, totals, latencies.get(source))

    def _write_partition(
        self,
        samples: Samples,
        item: PartitionStatus,
        target: str,
        totals: tuple[int, int],
        latency: Percentiles | None,
    ) -> None:
        place = {"topic": target, "partition": item.partition}
        mirror = labels({**self._link, "destination": self._link["target"], **place})
        records, size = totals
        samples.add(m.RECORD_COUNT, mirror, records)
        samples.add(m.RECORD_RATE, mirror, item.records_per_s)
        samples.add(m.BYTE_COUNT, mirror, size)
        rate = item.records_per_s * size / records if records else 0.0
        samples.add(m.BYTE_RATE, mirror, round(rate, 2))
        if latency is not None:
            values = (latency.p50_ms, latency.mean_ms, latency.min_ms, latency.max_ms)
            for families in (m.RECORD_AGE, m.LATENCY):
                for family, value in zip(families, values, strict=True):
                    samples.add(family, mirror, round(value, 1))
        lag = labels({**self._client(max(item.lane, 0), "replication-consumer"), **place})
        _add_each(samples, m.RECORDS_LAG, lag, item.lag_records)

    def _client(self, lane: int, name: str) -> dict[str, str]:
        """Return the labels of a lane's client: JMX quotes names with special characters."""
        plain = f"{self._flow}|MirrorSourceConnector-{lane}|{name}"
        return {**self._link, "clientid": f'"{plain}"', "client_id": plain}

    def _write_workers(self, samples: Samples, status: LinkStatus) -> None:
        mine, interchange = labels(self._link), status.driver.get("interchange", {})
        connectors = 1 + ("heartbeat" in interchange) + bool(status.driver.get("groups"))
        is_driven = status.state in {"running", "paused"}
        _add_each(samples, m.CONNECTORS, mine, connectors if is_driven else 0)
        _add_each(samples, m.TASKS, mine, len(status.lanes) if is_driven else 0)
        _add_each(samples, m.REBALANCING, mine, 0)
        connector = {**self._link, "connector": f'"{self._flow}.MirrorSourceConnector"'}
        counts: Counter[str] = Counter()
        for lane in status.lanes:
            number, use = lane["lane"], lane.get("process")
            if use is not None:
                consumer = labels(self._client(number, "replication-consumer"))
                _add_each(samples, m.INCOMING, consumer, use["read_bytes"])
                producer = labels(self._client(number, "producer"))
                _add_each(samples, m.OUTGOING, producer, use["written_bytes"])
            state = _task_state(status.state, lane)
            counts[state] += 1
            of_task = labels({**connector, "task": number, "status": state})
            samples.add(m.CONNECTOR_STATUS, of_task, 1)
        counts["total"] = len(status.lanes)
        for state, family in m.TASK_COUNTS.items():
            samples.add(family, labels(connector), counts[state])

    def _write_groups(self, samples: Samples, status: LinkStatus) -> None:
        took_ms: Mapping[str, int] = status.driver.get("groups", {}).get("took_ms", {})
        if took_ms:
            _add_each(samples, m.CHECKPOINT_LATENCY, labels(self._link), sum(took_ms.values()))


def _task_state(state: str, lane: Mapping[str, Any]) -> str:
    if state == "running" and lane["heard_s_ago"] > SILENT_AFTER_S:
        return "unassigned"
    return TASK_STATE_OF.get(state, "unassigned")


def _add_each(
    samples: Samples, families: Sequence[Family], labelled: str, value: float | None
) -> None:
    for family in families:
        samples.add(family, labelled, value)
