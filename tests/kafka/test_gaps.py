"""Expired records and recreated topics: stopped, reported, decided on, recorded (I6)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.clusters import create_topic, fresh_name, until
from support.command import heliostat
from support.faults import Stage, stage_of
from support.links import End, ends_or_errors, wait_for
from support.provoked import Provoked
from support.records import Sample, encode, values_at, write_batches

from heliostat.clusters.admin import EARLIEST, ClusterAdmin
from heliostat.names import Offset, PartitionId, TopicName, TopicPartition
from heliostat_sandbox import Cluster

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.core]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[Stage]:
    policies = {"topics": {"fault-by-policy-.*": "continue"}}
    with stage_of(tmp_path_factory.mktemp("gaps"), spark, link={"gaps": policies}) as made:
        yield made


def write(cluster: Cluster, topic: TopicName, values: range, *, partition: int = 0) -> None:
    now_ms = int(time.time() * 1000)
    batch = encode([Sample(b"k", b"%d" % value, now_ms) for value in values])
    write_batches(cluster.bootstrap, topic, [batch], partition=partition)


def target_ends(stage: Stage, topic: TopicName, partitions: int = 1) -> list[End]:
    return ends_or_errors(stage.target.bootstrap, {topic: partitions})[topic]


def wait_ends(stage: Stage, topic: TopicName, wanted: list[int]) -> None:
    try:
        wait_for("the copy", lambda: target_ends(stage, topic, len(wanted)) == wanted)
    except AssertionError as error:
        seen = target_ends(stage, topic, len(wanted))
        raise AssertionError(f"{error}\n{topic}: {seen}\n{stage.text()}") from None


def delete_topic(cluster: Cluster, topic: TopicName) -> None:
    with ClusterAdmin([cluster.bootstrap]) as admin:
        assert admin.delete_topics([topic]) == {topic: None}
        until(lambda: admin.describe_topics([topic])[topic].error is not None, "its end")


def trim(cluster: Cluster, topic: TopicName, before: int, *, partition: int = 0) -> None:
    """As retention does."""
    which = TopicPartition(topic, PartitionId(partition))
    with ClusterAdmin([cluster.bootstrap]) as admin:
        assert admin.delete_records({which: Offset(before)}) == {which: before}


def said(stage: Stage, *words: str) -> tuple[int, Any]:
    """Return the JSON output of a verb, and its exit code."""
    answer = heliostat(stage.config, *words, "--json")
    assert answer.returncode in {0, 1}, answer.said
    return answer.returncode, answer.json


def stops_of(stage: Stage, topic: TopicName) -> list[dict[str, Any]]:
    _, reports = said(stage, "gaps")
    return [item for item in reports[0]["stopped"] if item["topic"] == topic]


def rows_of(stage: Stage, topic: TopicName) -> list[dict[str, Any]]:
    _, reports = said(stage, "gaps")
    return [row for row in reports[0]["rows"] if row["topic"] == topic]


def wait_stopped(stage: Stage, topic: TopicName, code: str) -> dict[str, Any]:
    def found() -> Any:
        return next((item for item in stops_of(stage, topic) if item["code"] == code), None)

    try:
        stopped: dict[str, Any] = wait_for(f"{topic} stopped for {code}", found)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{stage.said_of(topic)}\n{stage.text()}") from None
    return stopped


def resolve(stage: Stage, topic: TopicName, choice: str, *words: str) -> None:
    said(stage, "resolve", topic, *words, "--choose", choice, "--by", "ops", "--yes")


@pytest.mark.provokes("SOURCE_OVERTOOK", "gap:source_overtook")
def test_retention_overtakes_the_link_and_continue_is_chosen(
    stage: Stage, provoked: Provoked
) -> None:
    """Given a link that was stopped too long / when continue is chosen / then it continues."""
    topic = create_topic(stage.source, fresh_name("fault-overtaken"), partitions=2)
    by_policy = create_topic(stage.source, fresh_name("fault-by-policy"))
    for name, partition in ((topic, 0), (topic, 1), (by_policy, 0)):
        write(stage.source, name, range(100), partition=partition)
    wait_ends(stage, topic, [100, 100])
    wait_ends(stage, by_policy, [100])
    stage.stop_link()
    for name, partition in ((topic, 0), (topic, 1), (by_policy, 0)):
        write(stage.source, name, range(100, 200), partition=partition)
    trim(stage.source, topic, 150)
    trim(stage.source, by_policy, 120)
    stage.start_link()

    wait_ends(stage, by_policy, [180])  # recorded, and not waited
    (row,) = rows_of(stage, by_policy)
    assert (row["first"], row["last"], row["count"], row["decided_by"]) == (100, 119, 20, "policy")
    assert values_at(stage.target.bootstrap, by_policy, 95, 85) == [
        *range(95, 100),
        *range(120, 200),
    ]

    stopped = wait_stopped(stage, topic, "SOURCE_OVERTOOK")
    assert (stopped["partition"], stopped["state"]) == (0, "gap")
    provoked("SOURCE_OVERTOOK", stopped)
    wait_ends(stage, topic, [100, 200])  # the other partition continues (I7)
    _, explained = said(stage, "resolve", topic, "0")
    effect = explained[0]["choices"]["continue"]
    assert (effect["first"], effect["last"], effect["count"]) == (100, 149, 50)
    resolve(stage, topic, "continue", "0")
    wait_ends(stage, topic, [150, 200])
    assert values_at(stage.target.bootstrap, topic, 95, 55) == [*range(95, 100), *range(150, 200)]
    write(stage.source, topic, range(200, 210))
    wait_ends(stage, topic, [160, 200])
    (row,) = rows_of(stage, topic)
    assert (row["decided_by"], row["is_done"]) == ("user ops", True)
    provoked("gap:source_overtook", row)
    wait_for("no complaint", lambda: stops_of(stage, topic) == [])
    wait_for("sums", lambda: stage.status().driver.get("gaps", {}).get("records_lost", 0) >= 70)


@pytest.mark.thorough
def test_retention_overtakes_the_link_and_restart_is_chosen(stage: Stage) -> None:
    """Given an overtaken mirror / when restart is chosen / then emptied, and the rest copied."""
    topic = create_topic(stage.source, fresh_name("fault-restart"))
    write(stage.source, topic, range(100))
    wait_ends(stage, topic, [100])
    stage.stop_link()
    write(stage.source, topic, range(100, 200))
    trim(stage.source, topic, 150)
    stage.start_link()
    wait_stopped(stage, topic, "SOURCE_OVERTOOK")
    resolve(stage, topic, "restart")
    wait_ends(stage, topic, [150])
    assert values_at(stage.target.bootstrap, topic, 100, 50) == list(range(150, 200))
    with ClusterAdmin([stage.target.bootstrap]) as admin:
        which = TopicPartition(topic, PartitionId(0))
        start = admin.list_offsets({which: EARLIEST})[which]
    assert getattr(start, "offset", start) == 100


@pytest.mark.thorough
def test_source_topic_recreated_with_policy_continue(stage: Stage) -> None:
    """Given a recreated source / when its policy is continue / then its records are appended."""
    topic = create_topic(stage.source, fresh_name("fault-by-policy-anew"))
    write(stage.source, topic, range(100))
    wait_ends(stage, topic, [100])
    delete_topic(stage.source, topic)
    create_topic(stage.source, topic)
    write(stage.source, topic, range(1000, 1300))
    wait_ends(stage, topic, [400])
    assert values_at(stage.target.bootstrap, topic, 90, 310) == [
        *range(90, 100),
        *range(1000, 1300),
    ]
    (row,) = rows_of(stage, topic)
    assert (row["first"], row["last"], row["count"]) == (100, None, None)
    write(stage.source, topic, range(1300, 1310))
    wait_ends(stage, topic, [410])


@pytest.mark.provokes("gap:source_recreated")
@pytest.mark.parametrize("records", [10, 300], ids=["fewer", "more"])
def test_source_topic_recreated(stage: Stage, records: int, provoked: Provoked) -> None:
    """Given a mirror / when its source is deleted and recreated / then refused until decided."""
    topic = create_topic(stage.source, fresh_name("fault-anew"), partitions=2)
    write(stage.source, topic, range(100), partition=0)
    wait_ends(stage, topic, [100, 0])
    delete_topic(stage.source, topic)
    create_topic(stage.source, topic)
    write(stage.source, topic, range(1000, 1000 + records))
    assert wait_stopped(stage, topic, "source_recreated")["partition"] is None
    assert target_ends(stage, topic, 2) == [100, 0]

    _, explained = said(stage, "resolve", topic)
    assert [item["choices"]["continue"]["possible"] for item in explained] == [True, False]
    assert "fewer partitions" in explained[1]["choices"]["continue"]["why_not"]
    resolve(stage, topic, "restart")
    wait_ends(stage, topic, [records])
    row = rows_of(stage, topic)[0]
    assert (row["cause"], row["choice"], row["decided_by"]) == (
        "source_recreated",
        "restart",
        "user ops",
    )
    assert (row["first"], row["last"], row["count"]) == (100, None, None)
    provoked("gap:source_recreated", row)
    wait_for("no complaint", lambda: stops_of(stage, topic) == [])
    report = stage.verify([topic])
    assert report.is_clean, report.lines()
    assert report.records == records


@pytest.mark.thorough
@pytest.mark.provokes("gap:target_recreated")
def test_target_topic_recreated_by_others(stage: Stage, provoked: Provoked) -> None:
    """Given a mirror / when others delete it and write their own / then refused until decided."""
    topic = create_topic(stage.source, fresh_name("fault-taken"))
    write(stage.source, topic, range(100))
    wait_ends(stage, topic, [100])
    trim(stage.source, topic, 40)
    stage.stop_link()
    delete_topic(stage.target, topic)
    create_topic(stage.target, topic)
    write(stage.target, topic, range(7))
    stage.start_link()
    wait_stopped(stage, topic, "target_recreated")
    _, explained = said(stage, "resolve", topic)
    assert explained[0]["choices"]["continue"]["possible"] is False
    resolve(stage, topic, "restart")
    wait_ends(stage, topic, [100])
    (row,) = rows_of(stage, topic)
    provoked("gap:target_recreated", row)
    assert (row["cause"], row["first"], row["last"], row["count"]) == (
        "target_recreated",
        0,
        39,
        40,
    )


@pytest.mark.provokes("gap:target_diverged")
def test_restart_removes_foreign_records(stage: Stage, provoked: Provoked) -> None:
    """Given a mirror with foreign records / when restart is chosen / then it is exact again."""
    topic = create_topic(stage.source, fresh_name("fault-foreign"))
    write(stage.source, topic, range(100))
    wait_ends(stage, topic, [100])
    write(stage.target, topic, range(5))
    write(stage.source, topic, range(100, 200))
    stopped = wait_for("it to stop", lambda: stops_of(stage, topic))[0]
    assert stopped["state"] == "diverged"
    resolve(stage, topic, "restart", "0")
    wait_ends(stage, topic, [200])
    (row,) = rows_of(stage, topic)
    provoked("gap:target_diverged", row)
    report = stage.verify([topic])
    assert report.is_clean, report.lines()


@pytest.mark.thorough
@pytest.mark.provokes("gap:target_deleted")
def test_mirror_deleted_after_its_source_was_trimmed(stage: Stage, provoked: Provoked) -> None:
    """Given a trimmed source / when its mirror is deleted / then recreated, the loss recorded."""
    topic = create_topic(stage.source, fresh_name("fault-gone"))
    write(stage.source, topic, range(100))
    wait_ends(stage, topic, [100])
    trim(stage.source, topic, 60)
    delete_topic(stage.target, topic)
    rows = wait_for("a row", lambda: rows_of(stage, topic))
    found = [(row["cause"], row["first"], row["last"], row["count"]) for row in rows]
    assert found == [("target_deleted", 0, 59, None)]
    provoked("gap:target_deleted", rows[0])
    wait_ends(stage, topic, [100])


@pytest.mark.thorough
@pytest.mark.provokes("TOO_LARGE", "gap:record_too_large")
def test_a_record_too_large_is_skipped_by_decision(stage: Stage, provoked: Provoked) -> None:
    """Given a limit lowered after a large record / when continue is chosen / then it continues."""
    limit = {"max.message.bytes": "3000000"}
    topic = create_topic(stage.source, fresh_name("fault-large"), configs=limit)
    write(stage.source, topic, range(10))
    large = encode([Sample(b"k", bytes(2_000_000), int(time.time() * 1000))])
    write_batches(stage.source.bootstrap, topic, [large])
    write(stage.source, topic, range(11, 20))
    wait_ends(stage, topic, [20])
    stage.stop_link()
    with ClusterAdmin([stage.source.bootstrap]) as admin:
        assert admin.alter_configs({topic: {"max.message.bytes": "1000000"}}) == {topic: None}
    delete_topic(stage.target, topic)
    stage.start_link()

    stopped = wait_stopped(stage, topic, "TOO_LARGE")
    assert (stopped["partition"], stopped["state"], stopped["position"]) == (0, "blocked", 10)
    provoked("TOO_LARGE", stopped)
    wait_ends(stage, topic, [10])
    resolve(stage, topic, "continue", "0")
    wait_ends(stage, topic, [19])
    (row,) = rows_of(stage, topic)
    assert (row["first"], row["last"], row["count"]) == (10, 10, 1)
    provoked("gap:record_too_large", row)
    assert values_at(stage.target.bootstrap, topic, 0, 19) == [*range(10), *range(11, 20)]


@pytest.mark.provokes("RECORD_REFUSED", "gap:record_refused")
def test_a_record_without_a_key_is_skipped_by_decision(stage: Stage, provoked: Provoked) -> None:
    """Given a topic compacted later / when an old keyless record is refused / then it continues.

    Records before it in the same batch are copied: the gap is that record only.
    """
    topic = create_topic(stage.source, fresh_name("fault-keyless"))
    by_policy = create_topic(stage.source, fresh_name("fault-by-policy-keyless"))
    for name in (topic, by_policy):
        write(stage.source, name, range(5))
        now_ms = int(time.time() * 1000)
        keyless = encode([Sample(b"k", b"5", now_ms), Sample(None, b"6", now_ms)])
        write_batches(stage.source.bootstrap, name, [keyless])
        write(stage.source, name, range(7, 10))
        wait_ends(stage, name, [10])
    stage.stop_link()
    for name in (topic, by_policy):
        with ClusterAdmin([stage.source.bootstrap]) as admin:
            assert admin.alter_configs({name: {"cleanup.policy": "compact"}}) == {name: None}
        delete_topic(stage.target, name)
    stage.start_link()

    stopped = wait_stopped(stage, topic, "RECORD_REFUSED")
    assert (stopped["partition"], stopped["state"], stopped["position"]) == (0, "blocked", 6)
    provoked("RECORD_REFUSED", stopped)
    wait_ends(stage, topic, [6])
    resolve(stage, topic, "continue", "0")
    for name in (topic, by_policy):
        wait_ends(stage, name, [9])
        (row,) = rows_of(stage, name)
        found = (row["cause"], row["first"], row["last"], row["count"])
        assert found == ("record_refused", 6, 6, 1)
        provoked("gap:record_refused", row)
        assert values_at(stage.target.bootstrap, name, 0, 9) == [*range(6), *range(7, 10)]
