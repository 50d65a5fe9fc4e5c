"""`heliostat export`: records of any topic as Parquet files, or in another topic of its cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from heliostat.clock import SystemClock
from heliostat.clusters.admin import ClusterAdmin
from heliostat.config import STATE_TOPIC_PREFIX, Config
from heliostat.errors import ConfigError, Refused
from heliostat.exporting.exported import exported
from heliostat.exporting.to_topic import TopicCopy
from heliostat.names import Alias, PartitionId, TopicName, TopicPartition
from heliostat.operate.dead_letters import require_plain_topic
from heliostat.operate.destination import Destination, Exporter, FileExporter
from heliostat.operate.reach import require_answer
from heliostat.rescue.target_log import ClusterLog
from heliostat.verify.read_requests import Isolation
from heliostat.verify.reader import LogReader
from heliostat.verify.stream import PartitionStream


@dataclass(frozen=True, slots=True)
class ExportedPartition:
    """What was, or would be, exported of a partition."""

    partition: TopicPartition
    start: int
    """First offset that was asked for and is there."""
    stop: int
    """The end, not included."""
    records: int
    """Written now, without those that were there already."""


@dataclass(frozen=True, slots=True)
class TopicExport:
    """What became of an export."""

    topic: TopicName
    partitions: tuple[ExportedPartition, ...]
    destination: Destination
    is_tried: bool

    @property
    def records(self) -> int:
        """Records that were written."""
        return sum(row.records for row in self.partitions)

    def to_json(self) -> dict[str, Any]:
        """Return the answer for `--json`."""
        return {
            "topic": self.topic,
            "records": self.records,
            "destination": self.destination.to_json(),
            "is_tried": self.is_tried,
            "partitions": [
                {
                    "partition": row.partition.partition,
                    "start": row.start,
                    "stop": row.stop,
                    "records": row.records,
                }
                for row in self.partitions
            ],
        }


@dataclass(frozen=True, slots=True)
class ExportRange:
    """Which records of a topic.

    Parameters
    ----------
    partitions
        Their numbers; none: all.
    start, stop
        Offsets `[start, stop)`, in every partition; None: from the log's start, to its end.
    is_committed
        Whether records of open and aborted transactions are left out.
    """

    partitions: Sequence[int] = ()
    start: int | None = None
    stop: int | None = None
    is_committed: bool = True


def export_topic(
    config: Config,
    alias: str,
    topic: TopicName,
    what: ExportRange,
    destination: Destination,
    *,
    dry_run: bool = False,
) -> TopicExport:
    """Write records of a topic into files, or another topic of its cluster.

    A second run with the same offsets writes the same files again, and into a topic what is not
    there yet.

    Raises
    ------
    ConfigError
        There is no such cluster.
    Refused
        There is no such topic or partition, or the other topic can't take records.
    ConnectionLost, BrokerError
        The cluster does not answer, or refuses.
    """
    if Alias(alias) not in config.clusters:
        names = ", ".join(config.clusters)
        raise ConfigError(f"there is no cluster {alias}", hint=f"there are {names}")
    cluster = config.clusters[Alias(alias)]
    require_answer(cluster)
    isolation = Isolation.READ_COMMITTED if what.is_committed else Isolation.READ_UNCOMMITTED
    access = cluster.access()
    with (
        LogReader(access, isolation) as reader,
        LogReader(access, Isolation.READ_UNCOMMITTED) as all_records,
        ClusterAdmin(access) as admin,
    ):
        if destination.topic is not None:
            for link in config.links:
                if link.target == alias:
                    require_plain_topic(config, link, destination.topic, admin)
        exporter = _exporter(admin, all_records, topic, destination)
        rows = []
        for partition in _partitions(admin, topic, what.partitions):
            bounds = reader.bounds([partition])[partition]
            start = max(bounds.start, what.start or 0)
            stop = max(start, min(bounds.end, bounds.end if what.stop is None else what.stop))
            written = 0
            if not dry_run and start < stop:
                stream = PartitionStream(reader, partition, start, stop)
                written = exporter.write(exported(partition, stream, start, stop))
            rows.append(ExportedPartition(partition, start, stop, written))
        return TopicExport(topic, tuple(rows), destination, dry_run)


def _partitions(
    admin: ClusterAdmin, topic: TopicName, numbers: Sequence[int]
) -> list[TopicPartition]:
    info = admin.describe_topics([topic])[topic]
    if info.error is not None:
        raise Refused(f"topic {topic} is not there, or can't be described")
    present = sorted(row.partition for row in info.partitions)
    missing = sorted(set(numbers) - set(present))
    if missing:
        raise Refused(f"{topic} has {len(present)} partitions, and no {missing[0]}")
    wanted = [PartitionId(number) for number in numbers] or present
    return [TopicPartition(topic, number) for number in wanted]


def _exporter(
    admin: ClusterAdmin, reader: LogReader, topic: TopicName, destination: Destination
) -> Exporter:
    if destination.folder is not None:
        return FileExporter(destination.folder, destination.file_bytes)
    assert destination.topic is not None
    into = destination.topic
    if into == topic or into.startswith(STATE_TOPIC_PREFIX):
        raise Refused(f"records of {topic} can't be written to {into}")
    info = admin.describe_topics([into])[into]
    if info.error is not None:
        raise Refused(f"topic {into} is not there, or can't be described")
    log = ClusterLog(admin, reader, SystemClock())
    return TopicCopy(log, into, len(info.partitions), admin.cluster_id())
