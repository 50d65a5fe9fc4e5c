"""Steps about headers and tombstones: the same on batches' bytes as in Spark, and in a link."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from support.clusters import ClusterPair, until
from support.header_steps import left, random_headers, random_steps
from support.links import RunningLink
from support.piped import Piped
from support.records import GZIP, LZ4, Sample, encode

from heliostat.names import PartitionId, TopicName, TopicPartition
from heliostat.records.copier.pipeline_steps import Pipeline
from heliostat.records.rows.in_place import InPlace
from heliostat.records.rows.to_rows import Chunk, rows_of
from heliostat.records.spark.frames import session_of_rows
from heliostat.records.spark.trial import tried

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.thorough]

P = TopicPartition(TopicName("orders"), PartitionId(0))
STEPS: list[dict[str, Any]] = [
    {"drop_with_header": {"name": "skip"}},
    {"drop_tombstones": True},
    {"drop_headers": ["secret"]},
    {"rename_headers": {"kept": "held"}},
    {"insert_headers": {"from": "summit's"}},
]


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
        assert len(expected) == sum(left(steps, s.headers, s.value) is not None for s in samples)


def test_a_link_filters_and_changes_without_rows(cluster_pair: ClusterPair, tmp_path: Path) -> None:
    """Given such steps alone / when records come, before and while the link runs, and after it was

    restarted / then the target has what the steps make of them, in order, once.
    """
    piped = Piped(cluster_pair, tmp_path, *STEPS)
    piped.write(b"one", None, b"two")
    piped.write(b"three", None, codec=GZIP)
    piped.plain.write(b"plain")
    expected: list[bytes | None] = [b"one", b"two", b"three"]
    for run in range(2):
        with RunningLink(piped.config) as link:
            until(lambda: piped.values() == expected, lambda: f"{piped.values()}", timeout_s=60)
            for number in range(30):
                piped.write(b"n%d %d" % (run, number), None)
                expected.append(b"n%d %d" % (run, number))
            until(lambda: piped.values() == expected, lambda: f"{piped.values()}", timeout_s=60)
            # A lane that has just begun may still wait for its lease.
            until(lambda: not piped.problems(), lambda: f"{piped.problems()}", timeout_s=20)
            assert not link.has_ended
    headers = {row[4] for row in piped.read()}
    assert headers == {(("held", None), ("from", b"summit's"))}
    assert piped.plain.values() == [b"plain"]
