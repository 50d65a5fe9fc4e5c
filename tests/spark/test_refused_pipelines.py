"""Pipelines that Spark can't run, as a link finds out before its first round."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.spark import shared_rounds

from heliostat.records.copier.pipeline_steps import (
    CallFunction,
    JsonFields,
    Pipeline,
    SetColumns,
    Step,
    Where,
)

pytestmark = [pytest.mark.spark]


def counted(frame: Any) -> Any:
    """No pipeline: it gives back other rows than it was given."""
    return frame.selectExpr("count(*) AS value")


def shuffled(frame: Any) -> Any:
    """No pipeline: it loses the order."""
    return frame.repartition(2, "key")


def raising(_frame: Any) -> Any:
    """No pipeline: it looks for what is not there."""
    raise KeyError("no such table")


def timed(frame: Any) -> Any:
    """No pipeline: the clock stands still in it."""
    from pyspark.sql import functions as f

    return frame.where(f.col("timestamp") < f.now())


STANDS_STILL = "stand still"
REFUSED: dict[str, tuple[Step, str]] = {
    "unknown column": (Where("valu IS NULL"), "valu"),
    "a text": (Where("'abc'"), "of type string, not boolean"),
    "texts": (Where("decode(value, 'UTF-8')"), "of type string, not boolean"),
    "chance": (Where("rand() < 0.5"), "another result each time"),
    "a mask": (JsonFields("value", schema="id bigint", masks=(("id", "secret"),)), "secret"),
    "a number": (SetColumns((("timestamp", "unix_millis(timestamp)"),)), "timestamp_millis"),
    "a subquery": (Where("offset > (SELECT max(id) FROM range(3))"), "by itself"),
    "other columns": (CallFunction(f"{__name__}:counted"), "no column"),
    "a shuffle": (CallFunction(f"{__name__}:shuffled"), "Exchange"),
    "no function": (CallFunction("no_such_module:function"), "no_such_module"),
    "a function that raises": (CallFunction(f"{__name__}:raising"), "KeyError: 'no such table'"),
    "a function with a clock": (CallFunction(f"{__name__}:timed"), STANDS_STILL),
    "a constant that fails": (SetColumns((("value", "binary(string(1 / 0))"),)), "DIVIDE_BY_ZERO"),
    "a clock": (Where("timestamp > now()"), STANDS_STILL),
}
STANDING = (
    "timestamp > current_timestamp() - INTERVAL 1 DAY",
    "timestamp > now()",
    "timestamp > localtimestamp()",
    "date(timestamp) = current_date()",
    "date(timestamp) = curdate()",
    "offset < unix_timestamp()",
    "timestamp > 'yesterday'",
    "timestamp > timestamp 'now'",
    "timestamp > date'today'",
    "timestamp > cast('tomorrow' AS timestamp)",
    "topic = current_user()",
    "topic = session_user",
    "topic = current_database()",
    "topic = current_catalog()",
    "topic = current_timezone()",
)
CHANCE = (
    "topic = uuid()",
    "topic = input_file_name()",
    "offset = spark_partition_id()",
    "offset = monotonically_increasing_id()",
    "topic = randstr(3)",
    "shuffle(array(1, 2))[0] = 1",
    "offset < reflect('java.lang.System', 'currentTimeMillis')",
    "aes_encrypt(value, key) = value",
)


@pytest.mark.core
def test_pipelines_that_spark_can_not_run_are_refused(spark: SparkSession) -> None:
    """Given pipelines that are no good, whatever raises, and some that are / when Spark is asked /

    then it refuses those, each with the reason, and nothing else stops.
    """
    good: dict[str, Step] = {
        "good": Where("value IS NULL"),
        "moved": SetColumns((("timestamp", "timestamp_millis(unix_millis(timestamp) + 1)"),)),
        "a date": SetColumns((("timestamp", "date(timestamp)"),)),
        "a branch that may fail": SetColumns(
            (("key", "if(offset < 0, binary(string(1 / 0)), key)"),)
        ),
    }
    steps = {name: step for name, (step, _) in REFUSED.items()}
    pipelines = {name: Pipeline(name, (step,)) for name, step in {**steps, **good}.items()}
    found = shared_rounds().refused(pipelines)
    assert found.keys() == REFUSED.keys()
    for name, (_, why) in REFUSED.items():
        assert "PIPELINE_REFUSED" in found[name]
        assert why in found[name], found[name]


@pytest.mark.thorough
def test_what_differs_each_time_or_stands_still_is_refused(spark: SparkSession) -> None:
    """Given expressions of a moment, a session or chance / then each is refused, with its reason;

    others that look so are not.
    """
    fine = (
        "timestamp > timestamp '2026-11-27' AND topic != 'today'",
        "aes_encrypt(value, key, 'ECB') != value",
    )
    texts = (*STANDING, *CHANCE, *fine)
    found = shared_rounds().refused({text: Pipeline(text, (Where(text),)) for text in texts})
    assert found.keys() == {*STANDING, *CHANCE}
    for text in STANDING:
        assert STANDS_STILL in found[text], found[text]
    for text in CHANCE:
        assert "another result each time" in found[text], found[text]
