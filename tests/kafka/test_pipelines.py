"""Records go through pipelines of Spark on their way, in order, exactly once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.clusters import ClusterPair, until
from support.command import heliostat
from support.holes import read_if_there
from support.links import RunningLink, ends
from support.piped import Piped, Topic, problems_of, write_link
from support.provoked import Provoked
from support.records import GZIP

from heliostat.clusters.admin import ClusterAdmin
from heliostat.config import load_config

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.thorough]

DAY_MS = 86_400_000
HIDE: list[dict[str, Any]] = [
    {"where": "value IS NULL OR decode(value, 'UTF-8') NOT LIKE 'drop%'"},
    {"drop_headers": ["secret"]},
    {"insert_headers": {"from": "summit's"}},
    {"set": {"value": "encode(upper(decode(value, 'UTF-8')), 'UTF-8')"}},
]
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
NUMBER = "encode(cast(cast(decode(value, 'UTF-8') AS int) + 1 AS string), 'UTF-8')"


def only_even(frame: Any) -> Any:
    """A user's function, which knows nothing of rows that are no records."""
    return frame.filter("offset % 2 = 0")


def raising(_frame: Any) -> Any:
    """No pipeline: it raises when it is called."""
    raise KeyError("no such table")


class Changed:
    """A link with topics that go through a pipeline each, some of them no good, and one without."""

    running: RunningLink

    def __init__(self, pair: ClusterPair, folder: Path) -> None:
        self.pair = pair
        self.hidden = Topic(pair, "hidden")
        self.fields = Topic(pair, "fields")
        self.numbers = Topic(pair, "numbers", partitions=2)
        self.misspelt = Topic(pair, "misspelt")
        self.missing = Topic(pair, "missing")
        self.texts = Topic(pair, "texts")
        self.raising = Topic(pair, "raising")
        self.plain = Topic(pair, "plain")
        self.config = write_link(
            folder,
            *(self.hidden, self.fields, self.numbers, self.plain),
            *(self.misspelt, self.missing, self.texts, self.raising),
            pipelines=[
                self.hidden.pipeline(*HIDE),
                self.fields.pipeline(JSON_STEP, {"function": f"{__name__}:only_even"}),
                self.numbers.pipeline({"set": {"value": NUMBER}}),
                self.misspelt.pipeline({"where": "valu IS NULL"}),
                self.missing.pipeline({"function": "no_such_module:function"}),
                self.texts.pipeline({"where": "'abc'"}),
                self.raising.pipeline({"function": f"{__name__}:raising"}),
            ],
        )

    def text(self) -> str:
        return self.running.text()

    def stops(self, *topics: Topic) -> list[dict[str, Any]]:
        """Return what the status says of topics that are not copied."""
        names = {each.topic for each in topics}
        return [each for each in problems_of(self.config) if each["source"] in names]


@pytest.fixture(scope="module")
def changed(
    cluster_pair: ClusterPair, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Changed]:
    made = Changed(cluster_pair, tmp_path_factory.mktemp("changed"))
    made.hidden.write(b"one", b"drop this", None, b"two")
    made.hidden.write(b"drop", codec=GZIP)
    made.hidden.write(b"three", b"four", codec=GZIP)
    values = [b"%d" % n for n in range(300)]
    values[201] = b"cancelled [BROKER_FEE]"  # what an error of ours might say
    made.numbers.write(*values[:150])
    made.numbers.write(*values[150:])
    for topic in (made.misspelt, made.missing, made.texts, made.raising):
        topic.write(b"secret")
    made.plain.write(b"plain")
    with RunningLink(made.config) as made.running:
        yield made


def test_records_are_changed_filtered_and_copied_in_order(changed: Changed) -> None:
    """Given a topic with a pipeline / when records come, before and while the link runs, in

    batches of all kinds / then the target has what the pipeline makes of them, and a topic without
    one has its records as they were.
    """
    topic, plain = changed.hidden, changed.plain
    expected: list[bytes | None] = [b"ONE", None, b"TWO", b"THREE", b"FOUR"]
    until(lambda: topic.values() == expected, changed.text, timeout_s=180)
    until(lambda: plain.values() == [b"plain"], "the plain one", timeout_s=30)
    for number in range(30):
        topic.write(b"n%d" % number, b"drop")
        expected.append(b"N%d" % number)
    plain.write(b"plain too")
    until(lambda: topic.values() == expected, lambda: f"{topic.values()}", timeout_s=60)
    until(lambda: len(plain.values()) == 2, "the plain one", timeout_s=30)
    headers = [row[4] for row in topic.read()]
    assert all(each == (("kept", None), ("from", b"summit's")) for each in headers)
    assert not changed.stops(topic, plain)
    assert not changed.running.has_ended


def test_fields_of_json_are_changed(changed: Changed) -> None:
    """Given a step for JSON fields and a function with a filter / when records come one by one /

    then each field is what the step makes of it, a tombstone stays one, and none waits for more.
    """
    topic = changed.fields
    rows = [
        {"id": n, "name": "secret", "price": 1.5 * n, "at": {"x": 1.0, "y": None}, "more": 1}
        for n in range(80)
    ]
    for row in rows[:10]:
        topic.write(json.dumps(row).encode())
    until(lambda: len(topic.values()) == 5, lambda: f"{topic.values()}", timeout_s=60)
    topic.write(None, *(json.dumps(row).encode() for row in rows[10:]))
    until(lambda: len(topic.values()) == 34, lambda: f"{len(topic.values())}", timeout_s=60)
    found = topic.read()
    assert not changed.running.has_ended
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


@pytest.mark.core
def test_a_pipeline_is_tried_without_a_link(cluster_pair: ClusterPair, tmp_path: Path) -> None:
    """Given records of all kinds / when a pipeline is tried / then it shows what it makes of each,

    and at which it fails, and nothing is written.
    """
    where = "value IS NULL OR decode(value, 'UTF-8') != '3'"
    piped = Piped(cluster_pair, tmp_path, {"where": where}, {"set": {"value": NUMBER}})
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
def test_pipelines_that_spark_can_not_run_copy_nothing(
    changed: Changed, provoked: Provoked
) -> None:
    """Given pipelines that are no good / when the link runs / then their topics stop and say why,

    nothing of them is copied unchanged, and other topics are copied; `plan` knows it beforehand.
    """
    reasons = {
        changed.misspelt: "valu",
        changed.missing: "no_such_module",
        changed.texts: "not boolean",
        changed.raising: "KeyError",
    }
    until(lambda: b"plain" in changed.plain.values(), "the plain one", timeout_s=60)
    until(lambda: len(changed.stops(*reasons)) == len(reasons), "all stops", timeout_s=30)
    planned = heliostat(changed.config, "plan")
    assert planned.returncode == 1
    for topic, why in reasons.items():
        assert any(topic.topic in line and why in line for line in planned.said.splitlines())
    for topic, why in reasons.items():
        (stop,) = changed.stops(topic)
        assert stop["state"] == "blocked"
        assert why in stop["reason"]
        provoked("PIPELINE_REFUSED", stop)
        assert topic.values() == []


@pytest.mark.provokes("TRANSFORM_FAILED")
def test_a_record_that_fails_stops_its_partition_there_and_no_other(
    changed: Changed, provoked: Provoked
) -> None:
    """Given a step that fails at some record / when it comes amid others / then all before it are

    copied, its partition stops with its offset and what Spark said, and the other one goes on;
    after the pipeline was changed, it continues there, as does one that was refused.
    """
    topic = changed.numbers
    until(lambda: len(topic.values()) == 201, changed.text, timeout_s=120)
    until(lambda: bool(changed.stops(topic)), "the stop", timeout_s=30)
    (stop,) = changed.stops(topic)
    assert (stop["state"], stop["partition"], stop["position"]) == ("blocked", 0, 201)
    assert "source offset 201" in stop["reason"]
    assert "CAST_INVALID_INPUT" in stop["reason"]
    provoked("TRANSFORM_FAILED", stop)
    topic.write(b"7", partition=1)
    target, ended = changed.pair.target.bootstrap, {topic.topic: 2}
    until(lambda: ends(target, ended)[topic.topic] == [201, 1], "the other one", timeout_s=30)
    expected: list[bytes | None] = [b"%d" % (n + 1) for n in range(300)]
    assert topic.values() == expected[:201]
    changed.running.stop()
    config = changed.config.read_text()
    assert "AS int" in config
    mended = config.replace("cast(cast(", "cast(try_cast(").replace("valu IS", "key IS NOT")
    changed.config.write_text(mended)
    expected[201] = None
    with RunningLink(changed.config):
        until(lambda: topic.values() == expected, lambda: f"{len(topic.values())}", timeout_s=120)
        until(lambda: changed.misspelt.values() == [b"secret"], "the refused one", timeout_s=120)
        until(lambda: not changed.stops(topic, changed.misspelt), "no stop", timeout_s=30)


def test_a_link_for_each_period_names_mirrors_by_time(
    cluster_pair: ClusterPair, tmp_path: Path
) -> None:
    """Given two links of one topic, each with a name and a filter for its period, as docs say

    / then each record is in the mirror of its period, in order.
    """
    topic = Topic(cluster_pair)
    now_ms = topic.at_ms
    cut_ms = now_ms - DAY_MS
    config = yaml.safe_load(write_link(tmp_path, topic).read_text())
    [link] = config["links"]
    periods = {
        "before": f"timestamp < timestamp_millis({cut_ms})",
        "after": f"timestamp >= timestamp_millis({cut_ms})",
    }
    config["links"] = [
        {
            **link,
            "name": f"{link['name']}-{period}",
            "topics": {**link["topics"], "naming": {"format": "${topic}." + period}},
            "pipelines": [topic.pipeline({"where": where})],
        }
        for period, where in periods.items()
    ]
    path = tmp_path / "periods.yaml"
    path.write_text(yaml.safe_dump(config))
    for age_days, value in ((2, b"a"), (0, b"b"), (3, b"c"), (0, b"d")):
        topic.at_ms = now_ms - age_days * DAY_MS
        topic.write(value)
    target = cluster_pair.target.bootstrap
    expected = {"before": [b"a", b"c"], "after": [b"b", b"d"]}
    with RunningLink(path) as link_run:

        def found() -> dict[str, list[bytes | None]]:
            rows = {each: read_if_there(target, f"{topic.topic}.{each}") for each in expected}
            return {each: [row[2] for row in some] for each, some in rows.items()}

        until(lambda: found() == expected, lambda: f"{found()}", timeout_s=90)
        assert not link_run.has_ended
