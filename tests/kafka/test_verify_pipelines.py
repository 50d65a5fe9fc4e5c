"""`verify` of topics with a pipeline: the mirror has what the pipeline makes of the source."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from support.clusters import ClusterPair, until
from support.command import Answer, heliostat
from support.links import RunningLink, ends
from support.piped import Topic, write_link
from support.records import GZIP, Sample, encode, write_batches

from heliostat.clusters.admin import ClusterAdmin

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.thorough]

IN_PLACE: list[dict[str, Any]] = [
    {"drop_tombstones": True},
    {"drop_headers": ["secret"]},
    {"insert_headers": {"from": "summit's"}},
    {"insert_origin": {}},
    {"json_fields": {"drop": ["secret"], "mask": {"name": None}}},
]
AS_ROWS: list[dict[str, Any]] = [
    {"where": "value IS NULL OR decode(value, 'UTF-8') NOT LIKE 'drop%'"},
    {"set": {"timestamp": "timestamp + INTERVAL 1 HOUR", "headers": "slice(headers, 2, 9)"}},
    {"set": {"value": "encode(cast(cast(decode(value, 'UTF-8') AS int) + 1 AS string), 'UTF-8')"}},
]


def whole(number: int) -> bytes:
    """A value at the source."""
    return b'{"n": %d, "secret":"s", "name":"me"}' % number


def cut(number: int) -> bytes:
    """The same at the target of `IN_PLACE`."""
    return b'{"n": %d, "name":""}' % number


def origin(topic: Topic, offset: int) -> tuple[tuple[str, bytes], ...]:
    """The headers that say where a record of partition 0 comes from."""
    with ClusterAdmin([topic.pair.source.bootstrap]) as admin:
        cluster = admin.cluster_id()
    places = {
        "cluster": cluster,
        "topic": topic.topic,
        "partition": 0,
        "offset": offset,
        "timestamp": topic.at_ms,
    }
    return tuple((f"origin.{name}", str(place).encode()) for name, place in places.items())


class Mirrored:
    """A link with two topics that go through each kind of pipeline, one of those compacted.

    It has copied all, and runs no more.
    """

    def __init__(self, pair: ClusterPair, folder: Path) -> None:
        self.in_place = Topic(pair, "in-place", partitions=2)
        self.compacted = Topic(pair, "compacted", configs={"cleanup.policy": "compact"})
        self.as_rows = Topic(pair, "as-rows")
        self.plain = Topic(pair, "plain")
        topics = (self.in_place, self.compacted, self.as_rows, self.plain)
        self.config = write_link(
            folder,
            *topics,
            pipelines=[
                self.in_place.pipeline(*IN_PLACE),
                self.compacted.pipeline(*IN_PLACE),
                self.as_rows.pipeline(*AS_ROWS),
            ],
            errors={"transform": {"policy": "skip"}},
        )
        self.in_place.write(whole(1), None, whole(2), codec=GZIP)
        self.in_place.write(whole(3))
        self.in_place.write(whole(0), None, None, partition=1)
        self.compacted.write(whole(1), whole(2))
        self.as_rows.write(b"1", b"drop", None, b"2", codec=GZIP)
        self.as_rows.write(b"3", b"no number", b"4", b"drop")
        self.plain.write(b"plain")
        wanted = dict(zip((each.topic for each in topics), ([3, 1], [2], [5], [1]), strict=True))
        partitions = {name: len(each) for name, each in wanted.items()}
        target = pair.target.bootstrap
        with RunningLink(self.config) as running:
            until(lambda: ends(target, partitions) == wanted, running.text, timeout_s=180)

    def compared(self, *words: str) -> tuple[Answer, dict[str, Any]]:
        done = heliostat(self.config, "verify", "--json", *words)
        assert done.stdout, done.said
        return done, done.json


@pytest.fixture(scope="module")
def mirrored(cluster_pair: ClusterPair, tmp_path_factory: pytest.TempPathFactory) -> Mirrored:
    return Mirrored(cluster_pair, tmp_path_factory.mktemp("verified"))


def counts(report: dict[str, Any]) -> tuple[int, ...]:
    return tuple(report[each] for each in ("records", "lost", "doubled", "reordered", "different"))


def test_mirrors_of_pipelines_are_compared_with_what_those_make(mirrored: Mirrored) -> None:
    """Given pipelines that are done on the bytes of batches and as rows, and a rule that skips a

    record at which one fails / when their mirrors are compared / then nothing differs, records that
    they drop are neither lost nor lagging, and the report names that record.
    """
    values = mirrored.in_place.values()
    assert [value for value in values if value != cut(0)] == [cut(1), cut(2), cut(3)]
    done, report = mirrored.compared()
    assert (done.returncode, report["clean"], report["not_compared"]) == (0, True, [])
    assert counts(report) == (12, 0, 0, 0, 0)
    assert report["not_copied_yet"] == 0
    ((topic, note),) = (
        (each["topic"], note) for each in report["details"] for note in each["notes"]
    )
    assert topic == mirrored.as_rows.topic
    assert note.startswith(
        "the pipeline fails at 1 record, first at offset 5: [CAST_INVALID_INPUT]"
    )


def test_what_differs_from_records_done_on_bytes_is_found(mirrored: Mirrored) -> None:
    """Given a pipeline that is done on the bytes of batches / when its mirror lacks a record, and

    one has a header too many / then each is found at its offset.
    """
    topic = mirrored.in_place
    topic.write(whole(4), whole(5), None, whole(6))
    kept = (("kept", None), ("from", b"summit's"))
    right = Sample(b"k", cut(4), topic.at_ms, (*kept, *origin(topic, 4)))
    left = Sample(b"k", cut(5), topic.at_ms, (("secret", b"1"), *kept, *origin(topic, 5)))
    planted = encode([right, left])
    write_batches(topic.pair.target.bootstrap, topic.topic, [planted])
    done, report = mirrored.compared("--topic", topic.topic, "--complete")
    assert done.returncode == 1
    assert (report["lost"], report["different"]) == (1, 1)
    (detail,) = (each for each in report["details"] if each["differences"])
    found = {each["kind"]: each["source_offset"] for each in detail["differences"]}
    assert found == {"different": 5, "lost": 7}
    assert report["first_difference"]["field"] == "header"


def test_rows_of_another_pipeline_differ(mirrored: Mirrored, tmp_path: Path) -> None:
    """Given a mirror of a pipeline of rows / when it is compared with another pipeline / then all

    records differ.
    """
    config = mirrored.config.read_text()
    other = tmp_path / "other.yaml"

    def compared(interval: str) -> tuple[Answer, dict[str, Any]]:
        other.write_text(config.replace("INTERVAL 1 HOUR", interval))
        done = heliostat(other, "verify", "--json", "--topic", mirrored.as_rows.topic)
        assert done.stdout, done.said
        return done, done.json

    done, report = compared("INTERVAL 2 HOUR")
    assert (done.returncode, counts(report)[1:]) == (1, (0, 0, 0, 5))
    assert report["first_difference"]["field"] == "timestamp"


@pytest.mark.parametrize(
    ("step", "why"),
    [
        ({"where": "timestamp > INTERVAL 1 COW"}, "PARSE_SYNTAX_ERROR"),
        ({"where": "decode(value, 'UTF-8') RLIKE '['"}, "INVALID_PARAMETER_VALUE.PATTERN"),
        ({"function": "no_such_module:steps"}, "no_such_module"),
    ],
    ids=["no SQL", "a regex", "no function"],
)
def test_a_refused_pipeline_ends_the_comparison_of_its_own_topics_alone(
    mirrored: Mirrored, tmp_path: Path, step: dict[str, Any], why: str
) -> None:
    """Given a link of which Spark refuses a pipeline / when it is verified / then its topics are

    not compared and say why, in the words of `plan`, and all others are compared.
    """
    topic, other = mirrored.as_rows, tmp_path / "other.yaml"
    config = yaml.safe_load(mirrored.config.read_text())
    config["links"][0]["pipelines"][2] = topic.pipeline(step)
    other.write_text(yaml.safe_dump(config))
    done = heliostat(other, "verify", "--json")
    assert done.stdout, done.said
    assert done.returncode == 1
    report = done.json
    (left,) = report["not_compared"]
    assert (left["source"], left["is_problem"]) == (topic.topic, True)
    assert "PIPELINE_REFUSED" in left["reason"]
    assert why in left["reason"]
    assert report["partitions"] == 4
    assert report["records"] >= 7


def test_what_compaction_may_have_removed_is_told_as_not_compared(mirrored: Mirrored) -> None:
    """Given a compacted topic whose mirror lacks a record / when it is compared / then it is no

    difference, as each side is cleaned by keys of its own, but the report says from where on.
    """
    topic = mirrored.compacted
    topic.write(whole(3))
    done, report = mirrored.compared("--topic", topic.topic, "--complete")
    assert (done.returncode, report["clean"]) == (0, True)
    (left,) = report["not_compared"]
    assert left["reason"].startswith("from offset 2 on it differs, which may be right")
