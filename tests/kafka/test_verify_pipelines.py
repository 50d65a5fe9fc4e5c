"""`verify` of topics with a pipeline: the mirror has what the pipeline makes of the source."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.clusters import ClusterPair, until
from support.command import Answer, heliostat
from support.links import RunningLink, ends
from support.piped import Piped
from support.records import GZIP, Sample, encode, write_batches

from heliostat.clusters.admin import ClusterAdmin

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.thorough]

IN_PLACE: list[dict[str, Any]] = [
    {"drop_tombstones": True},
    {"drop_headers": ["secret"]},
    {"insert_headers": {"from": "summit's"}},
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


def plant(piped: Piped, *rows: Sample) -> None:
    """Write records into the mirror that no link has written."""
    write_batches(piped.pair.target.bootstrap, piped.topic, [encode(list(rows), 0)])


def compared(piped: Piped, *words: str) -> tuple[Answer, dict[str, Any]]:
    done = heliostat(piped.config, "verify", "--json", *words)
    assert done.stdout, done.said
    return done, done.json


def counts(report: dict[str, Any]) -> tuple[int, ...]:
    return tuple(report[each] for each in ("records", "lost", "doubled", "reordered", "different"))


def test_records_done_on_bytes_are_compared_with_rows(
    cluster_pair: ClusterPair, tmp_path: Path
) -> None:
    """Given a pipeline that is done on the bytes of batches / when its mirror is compared / then

    nothing differs, and records that it drops are neither lost nor lagging; a record that the
    mirror lacks and one with a header too many are found, each at its offset.
    """
    piped = Piped(cluster_pair, tmp_path, *IN_PLACE)
    piped.write(whole(1), None, whole(2), codec=GZIP)
    piped.write(whole(3))
    piped.write(b"plain", topic=piped.plain)
    piped.write(whole(0), None, None, partition=1)
    with RunningLink(piped.config):
        wanted = {piped.topic: [3, 1], piped.plain: [1]}
        partitions = {name: len(each) for name, each in wanted.items()}
        target = cluster_pair.target.bootstrap
        until(lambda: ends(target, partitions) == wanted, lambda: f"{piped.values()}", timeout_s=90)
    assert [value for value in piped.values() if value != cut(0)] == [cut(1), cut(2), cut(3)]
    done, report = compared(piped)
    assert (done.returncode, report["clean"], report["not_compared"]) == (0, True, [])
    assert counts(report) == (5, 0, 0, 0, 0)
    assert report["not_copied_yet"] == 0
    piped.write(whole(4), whole(5), None, whole(6))
    kept = (("kept", None), ("from", b"summit's"))
    left = Sample(b"k", cut(5), piped.at_ms, (("secret", b"1"), *kept))
    plant(piped, Sample(b"k", cut(4), piped.at_ms, kept), left)
    done, report = compared(piped, "--topic", piped.topic, "--complete")
    assert done.returncode == 1
    assert (report["lost"], report["different"]) == (1, 1)
    (detail,) = (each for each in report["details"] if each["differences"])
    found = {each["kind"]: each["source_offset"] for each in detail["differences"]}
    assert found == {"different": 5, "lost": 7}
    assert report["first_difference"]["field"] == "header"


def test_rows_are_compared_and_a_record_at_which_the_pipeline_fails_is_told(
    cluster_pair: ClusterPair, tmp_path: Path
) -> None:
    """Given a pipeline of rows, and a rule that skips a record at which it fails / when the mirror

    is compared / then nothing differs, and the report names that record; with another pipeline
    all records differ, and with one that Spark refuses none is compared.
    """
    rule = {"transform": {"policy": "skip"}}
    piped = Piped(cluster_pair, tmp_path, *AS_ROWS, errors=rule)
    piped.write(b"1", b"drop", None, b"2", codec=GZIP)
    piped.write(b"3", b"no number", b"4", b"drop")
    with RunningLink(piped.config):
        until(lambda: len(piped.values()) == 5, lambda: f"{piped.values()}", timeout_s=90)
    done, report = compared(piped, "--topic", piped.topic)
    assert (done.returncode, report["clean"], counts(report)) == (0, True, (5, 0, 0, 0, 0))
    (detail,) = (each for each in report["details"] if each["notes"])
    (note,) = detail["notes"]
    assert note.startswith(
        "the pipeline fails at 1 record, first at offset 5: [CAST_INVALID_INPUT]"
    )
    config = piped.config.read_text()
    piped.config.write_text(config.replace("INTERVAL 1 HOUR", "INTERVAL 2 HOUR"))
    done, report = compared(piped, "--topic", piped.topic)
    assert (done.returncode, counts(report)[1:]) == (1, (0, 0, 0, 5))
    assert report["first_difference"]["field"] == "timestamp"
    piped.config.write_text(config.replace("INTERVAL 1 HOUR", "INTERVAL 1 COW"))
    done, report = compared(piped, "--topic", piped.topic)
    assert done.returncode == 1
    assert {each["is_problem"] for each in report["not_compared"]} == {True}
    reason = report["not_compared"][0]["reason"]
    assert "PIPELINE_REFUSED" in reason
    assert "PARSE_SYNTAX_ERROR" in reason


def test_what_compaction_may_have_removed_is_told_as_not_compared(
    cluster_pair: ClusterPair, tmp_path: Path
) -> None:
    """Given a compacted topic whose mirror lacks a record / when it is compared / then it is no

    difference, as each side is cleaned by keys of its own, but the report says from where on.
    """
    piped = Piped(cluster_pair, tmp_path, *IN_PLACE)
    with ClusterAdmin([cluster_pair.source.bootstrap]) as admin:
        assert admin.alter_configs({piped.topic: {"cleanup.policy": "compact"}}) == {
            piped.topic: None
        }
    piped.write(whole(1), whole(2))
    with RunningLink(piped.config):
        until(lambda: len(piped.values()) == 2, lambda: f"{piped.values()}", timeout_s=90)
    _, report = compared(piped, "--topic", piped.topic)
    assert (report["clean"], counts(report), report["not_compared"]) == (True, (2, 0, 0, 0, 0), [])
    piped.write(whole(3))
    done, report = compared(piped, "--topic", piped.topic, "--complete")
    assert (done.returncode, report["clean"]) == (0, True)
    (left,) = report["not_compared"]
    assert left["reason"].startswith("from offset 2 on it differs, which may be right")
