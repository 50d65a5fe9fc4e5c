"""Records go through pipelines of Spark on their way, in order, exactly once."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml
from support.clusters import ClusterPair, until
from support.command import heliostat
from support.holes import read, transactions
from support.links import RunningLink, ends
from support.piped import Piped
from support.provoked import Provoked
from support.records import GZIP

from heliostat.clusters.admin import ClusterAdmin
from heliostat.config import load_config
from heliostat.names import TopicName
from heliostat.records.spark.pipeline import WORKER_DAEMON

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.thorough]

AT_MS = int(time.time() * 1000)
DAY_MS = 86_400_000
HIDE: list[dict[str, Any]] = [
    {"where": "value IS NULL OR decode(value, 'UTF-8') NOT LIKE 'drop%'"},
    {"drop_headers": ["secret"]},
    {"insert_headers": {"from": "summit's"}},
    {"set": {"value": "encode(upper(decode(value, 'UTF-8')), 'UTF-8')"}},
]


def test_records_are_changed_filtered_and_copied_in_order(
    cluster_pair: ClusterPair, tmp_path: Path
) -> None:
    """Given a topic with a pipeline / when records come, before and while the link runs, in

    batches of all kinds / then the target has what the pipeline makes of them, and a topic without
    one has its records as they were.
    """
    piped = Piped(cluster_pair, tmp_path, *HIDE)
    piped.write(b"one", b"drop this", None, b"two")
    piped.write(b"drop", codec=GZIP)
    piped.write(b"three", b"four", codec=GZIP)
    piped.write(b"plain", topic=piped.plain)
    expected: list[bytes | None] = [b"ONE", None, b"TWO", b"THREE", b"FOUR"]
    with RunningLink(piped.config) as link:
        until(lambda: piped.values() == expected, lambda: f"{piped.values()}", timeout_s=60)
        until(lambda: piped.values(piped.plain) == [b"plain"], "the plain one", timeout_s=30)
        for number in range(30):
            piped.write(b"n%d" % number, b"drop")
            expected.append(b"N%d" % number)
        piped.write(b"plain too", topic=piped.plain)
        until(lambda: piped.values() == expected, lambda: f"{piped.values()}", timeout_s=60)
        until(lambda: len(piped.values(piped.plain)) == 2, "the plain one", timeout_s=30)
        headers = [row[4] for row in piped.read()]
        assert all(each == (("kept", None), ("from", b"summit's")) for each in headers)
        assert not piped.problems()
        assert not link.has_ended


JSON_STEP: dict[str, Any] = {
    "json_fields": {
        "schema_ddl": "id bigint, name string, price double, at struct<x: double, y: double>",
        "where": "fields.price < 100",
        "set": {"twice": "fields.price * 2"},
        "cast": {"price": "string"},
        "mask": {"name": None},
        "rename": {"id": "number"},
        "flatten": "_",
        "to_key": ["number"],
    }
}


def test_fields_of_json_are_changed(cluster_pair: ClusterPair, tmp_path: Path) -> None:
    """Given a step for JSON fields and a function with a filter / when records come one by one /

    then each field is what the step makes of it, a tombstone stays one, and none waits for more.
    """
    function = {"function": f"{__name__}:only_even"}
    piped = Piped(cluster_pair, tmp_path, JSON_STEP, function)
    rows = [
        {"id": n, "name": "secret", "price": 1.5 * n, "at": {"x": 1.0, "y": None}, "more": 1}
        for n in range(80)
    ]
    with RunningLink(piped.config) as link:
        for row in rows[:10]:
            piped.write(json.dumps(row).encode())
        until(lambda: len(piped.values()) == 5, lambda: f"{piped.values()}", timeout_s=60)
        piped.write(None, *(json.dumps(row).encode() for row in rows[10:]))
        until(lambda: len(piped.values()) == 34, lambda: f"{len(piped.values())}", timeout_s=60)
        found = piped.read()
        assert not link.has_ended
    # The offset of row n is n, and n + 1 after the tombstone, which is at 10.
    kept = [None, *(row for row in rows if row["price"] < 100)]
    expected = [row for row in kept if row is None or offset_of(row["id"]) % 2 == 0]
    assert len(found) == len(expected)
    by_number = {json.loads(value)["number"]: (key, value) for _, key, value, *_ in found if value}
    assert sum(value is None for _, _, value, *_ in found) == 1
    for row in expected:
        if row is None:
            continue
        key, value = by_number[row["id"]]
        assert json.loads(key) == {"number": row["id"]}
        assert json.loads(value) == {
            "number": row["id"],
            "name": "",
            "price": str(row["price"]),
            "twice": 2 * row["price"],
            "at_x": 1.0,
            "at_y": None,
        }


def offset_of(number: int) -> int:
    return number if number < 10 else number + 1


def only_even(frame: Any) -> Any:
    """A user's function, which knows nothing of rows that are no records."""
    return frame.filter("offset % 2 = 0")


@pytest.mark.provokes("TRANSFORM_FAILED")
def test_a_record_that_fails_stops_its_partition_there_and_no_other(
    cluster_pair: ClusterPair, tmp_path: Path, provoked: Provoked
) -> None:
    """Given a step that fails at some record / when it comes amid others / then all before it are

    copied, its partition stops with its offset and what Spark said, and the other one goes on;
    after the pipeline was changed, it continues there.
    """
    number = "encode(cast(cast(decode(value, 'UTF-8') AS int) + 1 AS string), 'UTF-8')"
    piped = Piped(cluster_pair, tmp_path, {"set": {"value": number}})
    values = [b"%d" % n for n in range(300)]
    values[201] = b"no number"
    piped.write(*values[:150])
    piped.write(*values[150:])
    with RunningLink(piped.config):
        until(lambda: len(piped.values()) == 201, lambda: f"{len(piped.values())}", timeout_s=60)
        until(lambda: bool(piped.problems()), "the stop", timeout_s=30)
        (stop,) = piped.problems()
        assert (stop["state"], stop["partition"], stop["position"]) == ("blocked", 0, 201)
        assert "source offset 201" in stop["reason"]
        assert "CAST_INVALID_INPUT" in stop["reason"]
        provoked("TRANSFORM_FAILED", stop)
        piped.write(b"7", partition=1)
        ended = {piped.topic: 2}
        until(
            lambda: ends(cluster_pair.target.bootstrap, ended)[piped.topic] == [201, 1],
            "the other partition",
            timeout_s=30,
        )
        assert piped.values() == [b"%d" % (n + 1) for n in range(201)]
    config = piped.config.read_text()
    assert "AS int" in config
    piped.config.write_text(config.replace("cast(cast(", "cast(try_cast("))
    with RunningLink(piped.config):
        until(lambda: len(piped.values()) == 300, lambda: f"{len(piped.values())}", timeout_s=60)
        until(lambda: not piped.problems(), "no stop", timeout_s=30)
    assert piped.values() == [None if n == 201 else b"%d" % (n + 1) for n in range(300)]


def test_a_pipeline_is_tried_without_a_link(cluster_pair: ClusterPair, tmp_path: Path) -> None:
    """Given records of all kinds / when a pipeline is tried / then it shows what it makes of each,

    and at which it fails, and nothing is written.
    """
    number = "encode(cast(cast(decode(value, 'UTF-8') AS int) + 1 AS string), 'UTF-8')"
    steps = (
        {"where": "value IS NULL OR decode(value, 'UTF-8') != '3'"},
        {"set": {"value": number}},
    )
    piped = Piped(cluster_pair, tmp_path, *steps)
    piped.write(b"1", b"2", b"3", None, b"x", b"5", codec=GZIP)
    (link,) = load_config(piped.config).links
    words = ["try", link.name, piped.topic, "--last", "5"]
    done = heliostat(piped.config, *words, "--json")
    assert done.returncode == 1
    found = done.json["records"]
    assert [(each["offset"], each["verdict"]) for each in found] == [
        (1, "changed"),
        (2, "filtered out"),
        (3, "unchanged"),
        (4, "fails"),
        (5, "changed"),
    ]
    assert [each["after"] and each["after"]["value"] for each in found] == ["3", *[None] * 3, "6"]
    assert "CAST_INVALID_INPUT" in found[3]["error"]
    assert 'value: "2" -> "3"' in heliostat(piped.config, *words).said
    with ClusterAdmin([cluster_pair.target.bootstrap]) as admin:
        assert admin.describe_topics([piped.topic])[piped.topic].error is not None


@pytest.mark.provokes("PIPELINE_REFUSED")
@pytest.mark.parametrize(
    ("step", "why"),
    [
        ({"where": "valu IS NULL"}, "valu"),
        ({"where": "rand() < 0.5"}, "another result each time"),
        ({"function": f"{__name__}:counted"}, "no column"),
        ({"function": f"{__name__}:shuffled"}, "Exchange"),
        ({"function": "no_such_module:function"}, "no_such_module"),
    ],
    ids=["unknown column", "chance", "other columns", "a shuffle", "no function"],
)
def test_a_pipeline_that_spark_can_not_run_copies_nothing(
    cluster_pair: ClusterPair, tmp_path: Path, step: dict[str, Any], why: str, provoked: Provoked
) -> None:
    """Given a pipeline that is no good / when the link runs / then its topic stops and says why,

    nothing of it is copied unchanged, and other topics are copied.
    """
    piped = Piped(cluster_pair, tmp_path, step)
    piped.write(b"secret")
    piped.write(b"plain", topic=piped.plain)
    with RunningLink(piped.config):
        until(lambda: piped.values(piped.plain) == [b"plain"], "the plain one", timeout_s=60)
        until(lambda: len(piped.problems()) == 2, lambda: f"{piped.problems()}", timeout_s=30)
        for stop in piped.problems():
            assert stop["state"] == "blocked"
            assert why in stop["reason"]
            provoked("PIPELINE_REFUSED", stop)
        assert piped.values() == []


def counted(frame: Any) -> Any:
    """No pipeline: it gives back other rows than it was given."""
    return frame.selectExpr("count(*) AS value")


def shuffled(frame: Any) -> Any:
    """No pipeline: it loses the order."""
    return frame.repartition(2, "key")


def test_killed_workers_lose_and_double_nothing(cluster_pair: ClusterPair, tmp_path: Path) -> None:
    """Given a pipeline that filters and changes transactions / when its workers are killed while

    they copy / then the target has what it makes of each committed record, once and in order.
    """
    rng = random.Random(15)
    changed = "encode(concat('x', decode(value, 'UTF-8')), 'UTF-8')"
    where = "CAST(split_part(decode(value, 'UTF-8'), '-', 2) AS int) % 3 != 1"
    piped = Piped(cluster_pair, tmp_path, {"where": where}, {"set": {"value": changed}})
    source, killed = cluster_pair.source.bootstrap, 0
    with RunningLink(piped.config) as link:
        for turn in range(6):
            transactions(source, piped.topic, rng, 8)
            until(lambda: bool(piped.values()), "a first record", timeout_s=60)
            workers = workers_with_rows()
            if turn < 5 and workers:
                os.kill(rng.choice(workers), signal.SIGKILL)
                killed += 1
            transactions(source, piped.topic, rng, 8)
        expected = [
            b"x" + row[2]
            for row in read(source, piped.topic, "read_committed")
            if int(row[2].split(b"-")[1]) % 3 != 1
        ]
        until(
            lambda: len(piped.values()) >= len(expected),
            lambda: f"{len(expected)} records, has {len(piped.values())}",
            timeout_s=120,
        )
        assert not link.has_ended
    assert killed >= 2
    assert piped.values() == expected


def workers_with_rows() -> list[int]:
    """Both Python workers of tasks with a pipeline: they hold a Unix socket to one another."""
    found: list[int] = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            is_worker = WORKER_DAEMON in process.cmdline()
            if is_worker and process.net_connections("unix"):
                found.append(process.pid)
    return found


def test_a_link_for_each_period_names_mirrors_by_time(
    cluster_pair: ClusterPair, tmp_path: Path
) -> None:
    """Given two links of one topic, each with a name and a filter for its period, as docs say

    / then each record is in the mirror of its period, in order.
    """
    piped = Piped(cluster_pair, tmp_path)
    config = yaml.safe_load(piped.config.read_text())
    [link] = config["links"]
    cut_ms = piped.at_ms - DAY_MS
    periods = {
        "before": f"timestamp < timestamp_millis({cut_ms})",
        "after": f"timestamp >= timestamp_millis({cut_ms})",
    }
    config["links"] = [
        {
            **link,
            "name": f"{link['name']}-{period}",
            "topics": {**link["topics"], "naming": {"format": "${topic}." + period}},
            "pipelines": [{**link["pipelines"][0], "steps": [{"where": where}]}],
        }
        for period, where in periods.items()
    ]
    piped.config.write_text(yaml.safe_dump(config))
    now_ms = piped.at_ms
    for age_days, value in ((2, b"a"), (0, b"b"), (3, b"c"), (0, b"d")):
        piped.at_ms = now_ms - age_days * DAY_MS
        piped.write(value)
    expected = {"before": [b"a", b"c"], "after": [b"b", b"d"]}
    mirrors = {each: TopicName(f"{piped.topic}.{each}") for each in expected}
    with RunningLink(piped.config) as link_run:

        def found() -> dict[str, list[bytes | None]]:
            return {each: piped.values(mirror) for each, mirror in mirrors.items()}

        until(lambda: found() == expected, lambda: f"{found()}", timeout_s=90)
        assert not link_run.has_ended
