"""Both ends of what leads batches to Spark as rows, where pipelines share a lane."""

from __future__ import annotations

import threading
from pathlib import Path

import pyarrow as pa
import pytest

from heliostat.errors import PipelineRefused
from heliostat.names import PartitionId, TopicName, TopicPartition
from heliostat.records.rows.layout import SCHEMA
from heliostat.records.rows.row_names import MEMBER
from heliostat.records.rows.to_rows import ALL, Chunk
from heliostat.records.transport import row_pipe
from heliostat.records.transport.row_pipe import RowPipe, read_rows

MEMBERS = {"hide": 0, "other": 1}


def chunk(number: int, pipeline: str) -> Chunk:
    source = TopicPartition(TopicName(pipeline), PartitionId(number))
    return Chunk(number, source, memoryview(b"batch"), pipeline=pipeline)


def row_of(chunk: Chunk, _reads: object) -> pa.RecordBatch:
    """A row in place of the batch's records."""
    place = {"topic": chunk.source.topic, "partition": chunk.source.partition}
    return pa.RecordBatch.from_pylist([place], schema=SCHEMA)


def test_rows_say_which_of_the_lanes_pipelines_they_go_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given two pipelines of one lane / when batches go out / then each row has its pipeline's

    number, and what belongs to none of them never goes out.
    """
    monkeypatch.setattr(row_pipe, "rows_of", row_of)
    path = tmp_path / "rows"
    came: list[pa.RecordBatch] = []

    def read() -> None:
        came.extend(read_rows(path, 2, ALL, 0.0, tells_member=True))

    reader = threading.Thread(target=read)
    reader.start()
    pipe = RowPipe(path, iter(()), MEMBERS)
    try:
        for number, name in enumerate(["other", "hide", "other"]):
            pipe.send(chunk(number, name))
        with pytest.raises(PipelineRefused, match="without pipeline third has third-3"):
            pipe.send(chunk(3, "third"))
    finally:
        pipe.close()
        reader.join(60)
    records = [row for batch in came for row in batch.to_pylist() if row["partition"] >= 0]
    assert [(row["topic"], row[MEMBER]) for row in records] == [
        ("other", 1),
        ("hide", 0),
        ("other", 1),
    ]
