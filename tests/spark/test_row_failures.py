"""Whether a record is to blame for what ended rows of Spark: exceptions say it, not their text."""

from __future__ import annotations

import os
import pickle
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from heliostat.errors import ConnectionLost
from heliostat.records.copier.blame import Blame, blame_of
from heliostat.records.spark.frames import session_of_rows
from heliostat.records.spark.row_failures import blame_by_classes
from heliostat.records.spark.row_workers import CopyRows

pytestmark = [pytest.mark.spark, pytest.mark.thorough]

WORDS = "cancelled [CONNECTION_LOST] [BROKER_FEE] java.io.EOFException ExecutorLost it hangs"


def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        pass
    yield pa.RecordBatch.from_pydict({"value": [WORDS]})


def killed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from rows(batches)
    os.kill(os.getpid(), signal.SIGKILL)


def slow(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from rows(batches)
    time.sleep(10)


def same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def raising(_batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    raise ValueError(WORDS)
    yield


def blamed(frame: DataFrame) -> Blame:
    with pytest.raises(Exception) as caught:  # noqa: PT011 - of PySpark or py4j
        frame.collect()
    return blame_by_classes(caught.value)


def test_only_classes_say_whose_fault_it_is(spark: SparkSession) -> None:
    """Given a record with all words of other errors / when expressions, functions, workers and jobs

    fail / then a record is to blame for the first two, and perhaps for the third.
    """
    session = session_of_rows(spark)

    def lane(reader: Any = rows) -> DataFrame:
        return session.range(0, 1, 1, 1).mapInArrow(reader, "value string")

    for expression in (
        "cast(value AS int)",
        "raise_error(value)",
        "assert_true(value = '')",
        "to_json(from_json(value, 'id int', map('mode', 'FAILFAST')))",
        "decode(unhex('ff'), 'UTF-8') || value",
    ):
        frame = lane().selectExpr(f"{expression} AS value")
        assert blamed(frame.mapInArrow(same, frame.schema)) is Blame.RECORD, expression
    assert blamed(lane().mapInArrow(raising, "value string")) is Blame.RECORD
    assert blamed(lane(killed).mapInArrow(same, "value string")) is Blame.UNSURE
    timer = threading.Timer(2.0, spark.sparkContext.cancelAllJobs)
    timer.start()
    assert blamed(lane(slow).mapInArrow(same, "value string")) is Blame.NONE
    timer.join()


def test_what_the_copier_raises_comes_as_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Given an error of ours in the copier's worker / then it is a row, and keeps its class."""

    def lost(*_: object) -> None:
        raise ConnectionLost(WORDS)

    monkeypatch.setattr(CopyRows, "_copied", lost)
    lane: Any = None
    (batch,) = CopyRows(lane, "", ())(iter(()))
    error = pickle.loads(batch.column("report")[0].as_py())  # noqa: S301 - made here
    assert isinstance(error, ConnectionLost)
    assert blame_of(error) is Blame.NONE
