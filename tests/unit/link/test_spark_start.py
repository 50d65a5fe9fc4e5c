"""Spark's start on a thread: what comes of it is known where it is awaited."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from heliostat.errors import SparkUnavailable
from heliostat.link import spark_start
from heliostat.link.spark_start import SparkStart
from heliostat.ops import compiled_ahead
from heliostat.ops.jvm_output import to_stderr

CONFIG: Any = SimpleNamespace(
    spark=SimpleNamespace(master="local[2]", conf={"spark.ui.enabled": "true"}, task_cpus=0.5)
)
LINKS: Any = [SimpleNamespace(name="a", pipelines=()), SimpleNamespace(name="b", pipelines=())]


@pytest.fixture(autouse=True)
def all_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled_ahead, "is_there", lambda: True)


def test_it_starts_at_once_and_is_awaited_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Given links / when Spark's start is begun / then it goes on by itself, as configured."""
    may_end, asked = threading.Event(), list[Any]()

    def rounds(*args: object, **named: object) -> str:
        asked.append((args, named))
        assert may_end.wait(10)
        return "rounds"

    monkeypatch.setattr(spark_start, "SparkRounds", rounds)
    starting = SparkStart(CONFIG, LINKS)
    may_end.set()
    assert starting.rounds() == "rounds"
    assert asked[0][1].pop("tell") is to_stderr
    assert asked == [
        (
            ("heliostat a,b", "local[2]", {"spark.ui.enabled": "true"}),
            {"task_cpus": 0.5, "has_pipelines": False, "has_rows": False},
        )
    ]


def test_a_failure_is_raised_where_spark_is_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Given no Java / when Spark is awaited / then the error is the one of the start."""

    def fails(*args: object, **named: object) -> None:
        raise SparkUnavailable("no Java")

    monkeypatch.setattr(spark_start, "SparkRounds", fails)
    with pytest.raises(SparkUnavailable, match="no Java"):
        SparkStart(CONFIG, LINKS).rounds()
