"""Expired records and recreated topics: stopped, reported, decided on, recorded (I6)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.clusters import ClusterPair, create_topic, fresh_name, until
from support.command import heliostat
from support.faults import Stage, stage_on
from support.links import End, ends_or_errors, wait_for
from support.provoked import Provoked
from support.records import Sample, encode, values_at, write_batches

from heliostat.clusters.admin import EARLIEST, ClusterAdmin
from heliostat.names import Offset, PartitionId, TopicName, TopicPartition
from heliostat_sandbox import Cluster

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.thorough]


@pytest.fixture(scope="module")
def stage(
    cluster_pair: ClusterPair, tmp_path_factory: pytest.TempPathFactory, spark: SparkSession
) -> Iterator[Stage]:
    policies = {"topics": {".*-by-policy-.*": "continue"}}
    folder = tmp_path_factory.mktemp("gaps")
    with stage_on(cluster_pair, folder, spark, link={"gaps": policies}) as made:
        yield made


def create(stage: Stage, name: str, **options: Any) -> TopicName:
    """Create a topic that the link copies."""
    return create_topic(stage.source, fresh_name(f"{stage.prefix}-{name}"), **options)


def now_ms() -> int:
    return int(time.time() * 1000)


def write(cluster: Cluster, topic: TopicName, values: range, *, partition: int = 0) -> None:
    at_ms = now_ms()
    batch = encode([Sample(b"k", b"%d" % value, at_ms) for value in values])
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


@pytest.mark.core
@pytest.mark.provokes("SOURCE_OVERTOOK", "gap:source_overtook")
def test_retention_overtakes_the_link(stage: Stage, provoked: Provoked) -> None:
    """Given a link that was stopped too long / when a person or a policy decides / then it goes on

    after a recorded gap, with the mirror as it is or emptied.
    """
    topic = create(stage, "overtaken", partitions=2)
    by_policy, by_restart = create(stage, "by-policy"), create(stage, "by-restart")
    places = ((topic, 0), (topic, 1), (by_policy, 0), (by_restart, 0))
    for name, partition in places:
        write(stage.source, name, range(100), partition=partition)
    for name, copied in ((topic, [100, 100]), (by_policy, [100]), (by_restart, [100])):
        wait_ends(stage, name, copied)
    stage.stop_link()
    for name, partition in places:
        write(stage.source, name, range(100, 200), partition=partition)
    trim(stage.source, topic, 150)
    trim(stage.source, by_policy, 120)
    trim(stage.source, by_restart, 150)
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
    wait_stopped(stage, by_restart, "SOURCE_OVERTOOK")
    resolve(stage, by_restart, "restart")
    continue_overtaken(stage, topic)
    provoked("gap:source_overtook", rows_of(stage, topic)[0])
    wait_emptied(stage, by_restart)
    wait_for("sums", lambda: stage.status().driver.get("gaps", {}).get("records_lost", 0) >= 70)


def continue_overtaken(stage: Stage, topic: TopicName) -> None:
    """Choose it: the mirror continues after the expired records, and goes on."""
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
    wait_for("no complaint", lambda: stops_of(stage, topic) == [])


def wait_emptied(stage: Stage, topic: TopicName) -> None:
    """The mirror is emptied, and the rest copied."""
    wait_ends(stage, topic, [150])
    assert values_at(stage.target.bootstrap, topic, 100, 50) == list(range(150, 200))
    with ClusterAdmin([stage.target.bootstrap]) as admin:
        which = TopicPartition(topic, PartitionId(0))
        start = admin.list_offsets({which: EARLIEST})[which]
    assert getattr(start, "offset", start) == 100


@pytest.mark.core
@pytest.mark.provokes("gap:target_diverged")
def test_restart_removes_foreign_records(stage: Stage, provoked: Provoked) -> None:
    """Given a mirror with foreign records / when restart is chosen / then it is exact again."""
    topic = create(stage, "foreign")
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


@pytest.mark.provokes("gap:skipped")
def test_an_operator_skips_records_of_a_stopped_link(stage: Stage, provoked: Provoked) -> None:
    """Given a link that was stopped / when records are skipped / then it goes on behind them once

    it starts; they are in the ledger, and listed by `verify`, which finds nothing lost.
    """
    topic = create(stage, "skipped", partitions=2)
    for partition in (0, 1):
        write(stage.source, topic, range(100), partition=partition)
    wait_ends(stage, topic, [100, 100])
    words = ("offsets", "skip", topic, "0", "--by", "ops", "--yes", "--to")
    refused = heliostat(stage.config, *words, "150")
    assert (refused.returncode, "is not stopped" in refused.said) == (1, True), refused.said
    assert heliostat(stage.config, "stop", stage.name).returncode == 0
    for partition in (0, 1):
        write(stage.source, topic, range(100, 200), partition=partition)
    for wrong in ("99", "201"):
        assert heliostat(stage.config, *words, wrong).returncode == 1
    _, tried = said(stage, *words, "150", "--dry-run")
    assert (tried["items"][0]["first"], tried["items"][0]["count"]) == (100, 50)
    assert rows_of(stage, topic) == []
    for _ in range(2):  # the second time it is so already
        said(stage, *words, "150")
    (row,) = rows_of(stage, topic)
    assert (row["first"], row["last"], row["count"], row["jump"]) == (100, 149, 50, [100, 150])
    provoked("gap:skipped", row)
    assert heliostat(stage.config, "start", stage.name).returncode == 0
    wait_ends(stage, topic, [150, 200])
    assert values_at(stage.target.bootstrap, topic, 95, 55) == [*range(95, 100), *range(150, 200)]
    report = stage.verify([topic])
    assert report.is_clean, report.lines()
    assert (report.records, report.behind_records) == (350, 0)
    [gone] = report.not_compared
    assert (gone.records, "user ops" in gone.reason) == (50, True)


RECREATED = {"fewer": 10, "more": 300}
"""Records of a recreated source, whose mirror has 100."""


@pytest.mark.provokes("gap:source_recreated", "gap:target_deleted")
def test_topics_recreated_while_the_link_runs(stage: Stage, provoked: Provoked) -> None:
    """Given mirrors / when sources are deleted and recreated / then refused until decided; by

    policy, new records are appended. A mirror that was deleted is recreated, the loss recorded.
    """
    topics = {create(stage, name, partitions=2): count for name, count in RECREATED.items()}
    by_policy, without_mirror = create(stage, "by-policy-anew"), create(stage, "without-mirror")
    for topic in (*topics, by_policy, without_mirror):
        write(stage.source, topic, range(100))
    for topic in topics:
        wait_ends(stage, topic, [100, 0])
    for topic in (by_policy, without_mirror):
        wait_ends(stage, topic, [100])
    for topic, records in (*topics.items(), (by_policy, 300)):
        delete_topic(stage.source, topic)
        create_topic(stage.source, topic)
        write(stage.source, topic, range(1000, 1000 + records))
    trim(stage.source, without_mirror, 60)
    delete_topic(stage.target, without_mirror)

    check_appended(stage, by_policy)
    rows = wait_for("a row", lambda: rows_of(stage, without_mirror))
    lost = [(row["cause"], row["first"], row["last"], row["count"]) for row in rows]
    assert lost == [("target_deleted", 0, 59, None)]
    provoked("gap:target_deleted", rows[0])
    wait_ends(stage, without_mirror, [100])
    for topic, records in topics.items():
        provoked("gap:source_recreated", restart_recreated(stage, topic, records))
    report = stage.verify([*topics])
    assert report.is_clean, report.lines()
    assert report.records == sum(topics.values())


def check_appended(stage: Stage, topic: TopicName) -> None:
    """The new topic's records follow those of the old one."""
    wait_ends(stage, topic, [400])
    assert values_at(stage.target.bootstrap, topic, 90, 310) == [
        *range(90, 100),
        *range(1000, 1300),
    ]
    (row,) = rows_of(stage, topic)
    assert (row["first"], row["last"], row["count"]) == (100, None, None)
    write(stage.source, topic, range(1300, 1310))
    wait_ends(stage, topic, [410])


def restart_recreated(stage: Stage, topic: TopicName, records: int) -> dict[str, Any]:
    """Choose it: the mirror is as the new topic is. Return the row of the old one's records."""
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
    wait_for("no complaint", lambda: stops_of(stage, topic) == [])
    return row


@pytest.mark.provokes(
    "TOO_LARGE",
    "RECORD_REFUSED",
    "gap:target_recreated",
    "gap:record_too_large",
    "gap:record_refused",
)
def test_mirrors_recreated_while_the_link_was_stopped(stage: Stage, provoked: Provoked) -> None:
    """Given a stopped link / when others recreate a mirror and write their own / then it is refused

    until decided. When a mirror is created anew and refuses a record, too large or without a key /
    then by decision or policy that record only is skipped: those of its batch are copied.
    """
    foreign = create(stage, "recreated")
    large = create(stage, "large", configs={"max.message.bytes": "3000000"})
    keyless, by_policy = both = create(stage, "keyless"), create(stage, "by-policy-keyless")
    write(stage.source, foreign, range(100))
    large_batch = encode([Sample(b"k", bytes(2_000_000), now_ms())])
    write_around(stage, large, range(10), large_batch, range(11, 20))
    batch = encode([Sample(b"k", b"5", now_ms()), Sample(None, b"6", now_ms())])
    for topic in both:
        write_around(stage, topic, range(5), batch, range(7, 10))
    for topic, end in ((foreign, 100), (large, 20), (keyless, 10), (by_policy, 10)):
        wait_ends(stage, topic, [end])
    trim(stage.source, foreign, 40)
    stage.stop_link()
    settings = {
        large: {"max.message.bytes": "1000000"},
        **{topic: {"cleanup.policy": "compact"} for topic in both},
    }
    with ClusterAdmin([stage.source.bootstrap]) as admin:
        assert admin.alter_configs(settings) == dict.fromkeys(settings)
    for topic in (foreign, large, *both):
        delete_topic(stage.target, topic)
    create_topic(stage.target, foreign)
    write(stage.target, foreign, range(7))
    stage.start_link()

    provoked("gap:target_recreated", restart_foreign(stage, foreign))
    for topic, code, place in ((large, "TOO_LARGE", 10), (keyless, "RECORD_REFUSED", 6)):
        provoked(code, continue_after(stage, topic, code, place))
    for topic, cause, place, end in (
        (large, "record_too_large", 10, 19),
        (keyless, "record_refused", 6, 9),
        (by_policy, "record_refused", 6, 9),
    ):
        wait_ends(stage, topic, [end])
        (row,) = rows_of(stage, topic)
        assert (row["first"], row["last"], row["count"]) == (place, place, 1)
        provoked(f"gap:{cause}", row)
        copied = [*range(place), *range(place + 1, end + 1)]
        assert values_at(stage.target.bootstrap, topic, 0, end) == copied


def write_around(stage: Stage, topic: TopicName, before: range, batch: bytes, after: range) -> None:
    """Write a batch with numbers before and after it."""
    write(stage.source, topic, before)
    write_batches(stage.source.bootstrap, topic, [batch])
    write(stage.source, topic, after)


def restart_foreign(stage: Stage, topic: TopicName) -> dict[str, Any]:
    """Choose it: the mirror is as the source is. Return the row of what that lacks by now."""
    wait_stopped(stage, topic, "target_recreated")
    _, explained = said(stage, "resolve", topic)
    assert explained[0]["choices"]["continue"]["possible"] is False
    resolve(stage, topic, "restart")
    wait_ends(stage, topic, [100])
    (row,) = rows_of(stage, topic)
    lost = (row["cause"], row["first"], row["last"], row["count"])
    assert lost == ("target_recreated", 0, 39, 40)
    return row


def continue_after(stage: Stage, topic: TopicName, code: str, place: int) -> dict[str, Any]:
    """Choose it for a record that the mirror refuses; return the stop."""
    stopped = wait_stopped(stage, topic, code)
    assert (stopped["partition"], stopped["state"], stopped["position"]) == (0, "blocked", place)
    wait_ends(stage, topic, [place])
    resolve(stage, topic, "continue", "0")
    return stopped
