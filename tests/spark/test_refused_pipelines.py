"""Pipelines that Spark can't run, as a link finds out before its first round."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.spark import shared_rounds

from heliostat.records.copier.pipeline_steps import CallFunction, Pipeline, Step, Where

pytestmark = [pytest.mark.spark, pytest.mark.core]


def counted(frame: Any) -> Any:
    """No pipeline: it gives back other rows than it was given."""
    return frame.selectExpr("count(*) AS value")


def shuffled(frame: Any) -> Any:
    """No pipeline: it loses the order."""
    return frame.repartition(2, "key")


REFUSED: dict[str, tuple[Step, str]] = {
    "unknown column": (Where("valu IS NULL"), "valu"),
    "chance": (Where("rand() < 0.5"), "another result each time"),
    "other columns": (CallFunction(f"{__name__}:counted"), "no column"),
    "a shuffle": (CallFunction(f"{__name__}:shuffled"), "Exchange"),
    "no function": (CallFunction("no_such_module:function"), "no_such_module"),
}


def test_pipelines_that_spark_can_not_run_are_refused(spark: SparkSession) -> None:
    """Given pipelines that are no good, and one that is / when Spark is asked / then it refuses

    those, each with the reason.
    """
    steps = {name: step for name, (step, _) in REFUSED.items()}
    pipelines = {
        name: Pipeline(name, (step,))
        for name, step in {**steps, "good": Where("value IS NULL")}.items()
    }
    found = shared_rounds().refused(pipelines)
    assert found.keys() == REFUSED.keys()
    for name, (_, why) in REFUSED.items():
        assert "PIPELINE_REFUSED" in found[name]
        assert why in found[name]
