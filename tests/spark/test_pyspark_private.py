"""What we use of PySpark's private parts is there, and is what we take it for."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark import SparkContext

from heliostat.ops.pyspark_private import (
    active_context,
    gateway_of,
    java_process,
    jvm_of,
    scala_context,
    silence_accumulators,
)

pytestmark = [pytest.mark.spark, pytest.mark.core]


def test_a_sessions_private_parts_are_what_we_take_them_for(spark: Any) -> None:
    """Given a session / when its private parts are used / then each is what its docstring says."""
    context = spark.sparkContext
    assert active_context(SparkContext) is context
    assert gateway_of(SparkContext) is gateway_of(type(context)) is not None
    process = java_process(SparkContext)
    assert process is None or process.poll() is None
    assert scala_context(context).isStopped() is False
    assert scala_context(context).statusStore().executorList(True).size() >= 1
    scheduler = scala_context(context).taskScheduler()
    assert scheduler.getExecutorDecommissionState("driver").isEmpty() is True
    assert jvm_of(context).java.lang.Integer.parseInt("7") == 7
    assert callable(context._accumulatorServer.handle_error)
    silence_accumulators(context)
    assert context._accumulatorServer.handle_error(None, None) is None
