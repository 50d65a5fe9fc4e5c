"""The link's own state: its topics are deleted, and the wall clock is stepped."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial

import pytest
from pyspark.sql import SparkSession
from support.clusters import ClusterPair, create_topic, fresh_name
from support.faults import Stage, SteppedClock, Trial, stage_on
from support.links import ends, wait_for
from support.records import Sample, encode, write_batches

from heliostat.clusters.admin import ClusterAdmin
from heliostat.names import LinkName, TopicName
from heliostat.state_topics import control_topic, progress_topic, state_topic

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.thorough]

LEASE_S = 4
RECORDS = 900
"""What the load brings in some 3 s: lanes report, and the driver answers, a few times."""
STATE_TOPICS: tuple[Callable[[LinkName], str], ...] = (progress_topic, control_topic, state_topic)


@pytest.fixture(scope="module")
def clock(tmp_path_factory: pytest.TempPathFactory) -> SteppedClock:
    return SteppedClock(tmp_path_factory.mktemp("clock"))


@pytest.fixture(scope="module")
def stage(
    cluster_pair: ClusterPair,
    tmp_path_factory: pytest.TempPathFactory,
    spark: SparkSession,
    clock: SteppedClock,
) -> Iterator[Stage]:
    """Give a link that runs in a process of its own at first, which lives by that clock."""
    folder, link = tmp_path_factory.mktemp("topics"), {"lanes": {"lease_s": LEASE_S}}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in clock.environment.items():
            patch.setenv(name, value)
        with stage_on(cluster_pair, folder, spark, has_process=True, link=link) as made:
            yield made


def some(count: int) -> bytes:
    now_ms = int(time.time() * 1000)
    return encode([Sample(b"k", b"%d" % number, now_ms) for number in range(count)])


def says(stage: Stage, word: str) -> bool:
    return word in stage.text()


def test_clock_of_the_links_machine_stepped(stage: Stage, clock: SteppedClock) -> None:
    """Given a link under load / when its wall clock steps an hour forth and back / then exact."""
    with Trial(stage) as trial:
        for step_s in (3600.0, -3600.0):
            clock.step(step_s)
            trial.wait_copied(RECORDS)
            if step_s > 0:
                shown_ms = stage.status().driver["at_ms"]
                assert shown_ms > time.time() * 1000 + 3_500_000  # it did jump
        clock.step(0.0)


def test_state_topics_deleted_while_the_link_runs(stage: Stage) -> None:
    """Given a running link / when a state topic is deleted / then recreated, nothing lost.

    Each in turn, under load.
    """
    stage.stop_link()
    stage.has_process = False
    stage.start_link()
    with Trial(stage) as trial, ClusterAdmin([stage.target.bootstrap]) as admin:
        before = stage.remembered()
        assert before.producer_id is not None
        assert trial.topic in before.mirrors
        assert trial.topic in before.starts
        for name in STATE_TOPICS:
            topic = TopicName(name(stage.name))
            assert admin.delete_topics([topic]) == {topic: None}
            word = f"{topic} was gone at the target"
            wait_for("word of it", partial(says, stage, word))
            trial.wait_copied(RECORDS)
            after = stage.remembered()
            assert after.producer_id == before.producer_id
            assert after.mirrors == before.mirrors
            assert after.starts == before.starts


def test_state_topics_deleted_while_the_link_is_stopped(stage: Stage) -> None:
    """Given a stopped link / when its state is deleted / then refused with a hint; no harm."""
    topic = create_topic(stage.source, fresh_name(stage.prefix))

    def wait_copied(topic: TopicName, count: int) -> None:
        write_batches(stage.source.bootstrap, topic, [some(count)])
        wait_for("the copy", lambda: target_ends(topic) == [count])

    def target_ends(topic: TopicName) -> list[int]:
        return ends(stage.target.bootstrap, {topic: 1})[topic]

    wait_copied(topic, 30)
    stage.stop_link()
    names = [TopicName(name(stage.name)) for name in STATE_TOPICS]
    with ClusterAdmin([stage.target.bootstrap]) as admin:
        assert admin.delete_topics(names) == dict.fromkeys(names)
    stage.start_link()
    write_batches(stage.source.bootstrap, topic, [some(10)])
    said = wait_for("word of the refused mirror", lambda: stage.said_of(topic))
    assert topic in said[0]
    another = create_topic(stage.source, fresh_name(stage.prefix))
    wait_copied(another, 30)
    assert target_ends(topic) == [30]
