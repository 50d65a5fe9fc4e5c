"""Topics that are deleted, or written by others: reported clearly, and others are unaffected."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from support.clusters import create_topic, fresh_name
from support.faults import Stage, Trial, small_load, stage_of
from support.links import ends, wait_for
from support.records import Sample, encode, write_batches

from heliostat.clusters.admin import ClusterAdmin

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.thorough]

FOUND = ("FOREIGN_TAIL", "APPENDED_ELSEWHERE", "TARGET_REFUSES_SEQUENCE")


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[Stage]:
    with stage_of(tmp_path_factory.mktemp("topics"), spark) as made:
        yield made


def some(count: int, now_ms: int = 1_790_000_000_000) -> bytes:
    return encode([Sample(b"k", b"foreign %d" % number, now_ms) for number in range(count)])


def test_topic_deleted_at_the_source(stage: Stage) -> None:
    """Given two mirrors / when the source of one is deleted / then reported, its mirror is kept."""
    doomed = create_topic(stage.source, fresh_name("fault-doomed"), partitions=2)
    for partition in range(2):
        write_batches(stage.source.bootstrap, doomed, [some(40)], partition=partition)
    with Trial(stage) as trial:
        target = stage.target.bootstrap
        wait_for("the copy", lambda: ends(target, {doomed: 2})[doomed] == [40, 40])
        with ClusterAdmin([stage.source.bootstrap]) as admin:
            assert admin.delete_topics([doomed]) == {doomed: None}
        gone = f"{doomed} is gone at the source; its mirror stays as it is"
        wait_for("word of it", lambda: gone in stage.status().notes)
        # Lanes that still had it complain until the next reports; then nothing is left to complain.
        wait_for("no complaint", lambda: stage.said_of(doomed) == [])
        trial.wait_copied(300)
        assert ends(target, {doomed: 2})[doomed] == [40, 40]


def test_foreign_write_into_a_mirror(stage: Stage) -> None:
    """Given a mirror / when a stranger appends to a partition / then DIVERGED, others continue."""
    hurt = small_load(fresh_name("fault-hurt"), partitions=2, rate_hz=100.0, batch_records=1)
    other = small_load(fresh_name("fault"))
    with Trial(stage, other, beside=[hurt]) as trial:
        topic = {hurt.topic: 2}
        wait_for("a copy", lambda: min(ends(stage.target.bootstrap, topic)[hurt.topic]) > 0)
        write_batches(stage.target.bootstrap, hurt.topic, [some(3)], partition=1)

        def diverged() -> object:
            found = [one for one in stage.status().problems if one.source == hurt.topic]
            return next((one for one in found if one.state == "diverged"), None)

        told = wait_for("a partition that has diverged", diverged)
        assert told.partition == 1
        # Whether an append or a round that begins meets it first is chance.
        assert told.code in FOUND, told
        before = ends(stage.target.bootstrap, topic)[hurt.topic]
        trial.wait_copied(1500)  # several rounds on
        after = ends(stage.target.bootstrap, topic)[hurt.topic]
        assert after[0] > before[0]
        assert after[1] == before[1]
        assert diverged()
