"""Shows what a pipeline makes of a topic's last records; nothing is written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from heliostat.config import Config, LinkConfig
from heliostat.errors import Refused
from heliostat.link.pipeline_rules import pipeline_of, pipelines_of
from heliostat.names import PartitionId, TopicName, TopicPartition
from heliostat.records.spark.trial import TriedRecord, trial_session, tried
from heliostat.verify.reader import Isolation, LogReader

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Trial:
    """A pipeline, and what it makes of the records tried."""

    topic: TopicName
    pipeline: str
    records: list[TriedRecord]

    @property
    def failed(self) -> list[TriedRecord]:
        """Those at which it fails."""
        return [each for each in self.records if each.error]


def try_pipeline(config: Config, link: LinkConfig, topic: TopicName, last: int) -> Trial:
    """Put the last records of each partition of a source topic through its pipeline.

    Parameters
    ----------
    config, link
        The configuration, and a link of it.
    topic
        Topic of the source.
    last
        How many offsets before the end of each partition.

    Raises
    ------
    Refused
        The topic has no pipeline, or is not at the source.
    PipelineRefused
        Spark can't run the pipeline.
    SparkUnavailable
        Spark can't be started.
    ConnectionLost, BrokerError
        The source does not answer or refuses.
    """
    name = pipeline_of(link, topic)
    if not name:
        raise Refused(f"no pipeline of link {link.name} has topic {topic}")
    import pyarrow as pa

    tables = [pa.Table.from_batches([each]) for each in _rows(config, link, topic, last)]
    found: list[TriedRecord] = []
    with trial_session(config.spark.conf) as session:
        for table in tables:
            if table.num_rows:
                found += tried(session, pipelines_of(link)[name], table)
    return Trial(topic, name, found)


def _rows(
    config: Config, link: LinkConfig, topic: TopicName, last: int
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of each partition's last records."""
    from heliostat.records.batches.batch import next_offset
    from heliostat.records.rows.to_rows import Chunk, rows_of, whole_batches

    access = config.clusters[link.source].access()
    with LogReader(access, Isolation.READ_COMMITTED) as reader:
        view = reader.topics([topic]).get(topic)
        if view is None:
            raise Refused(f"topic {topic} is not at {link.source}, or can't be described there")
        partitions = [TopicPartition(topic, PartitionId(each)) for each in sorted(view.leaders)]
        for one, bounds in reader.bounds(partitions).items():
            position = max(bounds.start, bounds.end - last)
            while position < bounds.end:
                data = reader.fetch({one: position})[one].data
                end, error = whole_batches(memoryview(data), 0, len(data))
                if error is not None or not end:
                    text = "its batches can't be read" if error is None else error.text
                    raise Refused(f"{one} at offset {position}: {text}")
                rows = rows_of(Chunk(0, one, memoryview(data)[:end], position, bounds.end))
                yield rows
                position = next_offset(data, 0, end) or bounds.end
