"""Steps about headers and tombstones: the same on batches' bytes as in Spark."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from support.header_steps import left, random_headers, random_steps
from support.records import LZ4, Sample, encode

from heliostat.names import PartitionId, TopicName, TopicPartition
from heliostat.records.copier.pipeline_steps import Pipeline
from heliostat.records.rows.header_steps import Origin
from heliostat.records.rows.in_place import InPlace
from heliostat.records.rows.to_rows import Chunk, rows_of
from heliostat.records.spark.frames import session_of_rows
from heliostat.records.spark.trial import tried

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.thorough]

NOWHERE = dict.fromkeys(Origin, "")
P = TopicPartition(TopicName("orders"), PartitionId(0))


def test_spark_makes_the_same_of_each_record(spark: SparkSession) -> None:
    """Given random steps and headers / when done by Spark and on bytes / then nothing differs."""
    session = session_of_rows(spark)
    rng = random.Random(7)
    for _ in range(12):
        samples = [
            Sample(b"k", rng.choice([None, b"", b"v"]), 1000 + number, random_headers(rng))
            for number in range(20)
        ]
        steps = random_steps(rng)
        chunk = Chunk(1, P, encode(samples, LZ4))
        by_bytes, error = InPlace(steps).applied(chunk)
        assert error is None
        pipeline = Pipeline("p", tuple(steps))
        assert pipeline.is_in_place
        by_spark = tried(session, pipeline, pa.Table.from_batches([rows_of(chunk)]))
        expected = [each.after for each in by_spark if each.after is not None]
        assert rows_of(Chunk(1, P, by_bytes)).to_pylist() == expected
        assert len(expected) == sum(
            left(steps, s.headers, s.value, NOWHERE) is not None for s in samples
        )
