"""The link's own state: its topics are deleted, and the wall clock is stepped."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from support.faults import Stage, SteppedClock, Trial, stage_of
from support.links import wait_for
from support.records import Sample, encode, write_batches

from heliostat.clusters.admin import ClusterAdmin
from heliostat.names import LinkName, TopicName
from heliostat.state.link_state import control_topic, progress_topic
from heliostat.state_topics import state_topic

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.thorough]

LINK = LinkName("east-to-west")
LEASE_S = 4
ROUNDS_RECORDS = 900
"""What the load brings in some 3 s: more than a round."""


@pytest.fixture(scope="module")
def clock(tmp_path_factory: pytest.TempPathFactory) -> SteppedClock:
    return SteppedClock(tmp_path_factory.mktemp("clock"))


@pytest.fixture(scope="module")
def stage(
    tmp_path_factory: pytest.TempPathFactory, spark: SparkSession, clock: SteppedClock
) -> Iterator[Stage]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in clock.environment.items():
            patch.setenv(name, value)
        folder = tmp_path_factory.mktemp("topics")
        with stage_of(folder, spark, link={"lanes": {"lease_s": LEASE_S}}) as made:
            yield made


@pytest.fixture
def own_clock(stage: Stage, clock: SteppedClock) -> Iterator[SteppedClock]:
    """Run the link in a process of its own, which lives by this clock."""
    stage.has_process = True
    stage.start_link()
    yield clock
    stage.has_process = False
    stage.start_link()


def some(count: int, now_ms: int = 1_790_000_000_000) -> bytes:
    return encode([Sample(b"k", b"foreign %d" % number, now_ms) for number in range(count)])


def test_clock_of_the_links_machine_stepped(stage: Stage, own_clock: SteppedClock) -> None:
    """Given a link under load / when its wall clock steps an hour forth and back / then exact."""
    with Trial(stage) as trial:
        for step_s in (3600.0, 0.0, -3600.0, 0.0):
            own_clock.step(step_s)
            trial.wait_copied(ROUNDS_RECORDS)
            if step_s > 0:
                told_ms = stage.status().driver["at_ms"]
                assert told_ms > time.time() * 1000 + 3_500_000  # it did jump


@pytest.mark.parametrize("name", ["progress", "control", "state"])
def test_state_topic_deleted_while_the_link_runs(stage: Stage, name: str) -> None:
    """Given a running link / when a state topic is deleted / then recreated, nothing lost."""
    topic = {"progress": progress_topic, "control": control_topic, "state": state_topic}[name](LINK)
    with Trial(stage) as trial, ClusterAdmin([stage.target.bootstrap]) as admin:
        before = stage.remembered()
        assert before.producer_id is not None
        assert trial.topic in before.mirrors
        assert trial.topic in before.starts
        assert admin.delete_topics([TopicName(topic)]) == {topic: None}
        wait_for("word of it", lambda: f"{topic} was gone at the target" in stage.text())
        trial.wait_copied(ROUNDS_RECORDS)
        after = stage.remembered()
        assert after.producer_id == before.producer_id
        assert after.mirrors == before.mirrors
        assert after.starts == before.starts


def test_state_topics_deleted_while_the_link_is_stopped(stage: Stage) -> None:
    """Given a stopped link / when its state is deleted / then refused with a hint; no harm."""
    with Trial(stage) as trial:
        trial.wait_copied(300)
    assert stage.link is not None
    assert stage.link.stop() == 0
    names = [TopicName(name(LINK)) for name in (state_topic, control_topic, progress_topic)]
    with ClusterAdmin([stage.target.bootstrap]) as admin:
        assert admin.delete_topics(names) == dict.fromkeys(names)
    before = trial.target_ends()
    stage.start_link()
    write_batches(stage.source.bootstrap, trial.topic, [some(10)])
    said = wait_for("word of the refused mirror", lambda: stage.said_of(trial.topic))
    assert trial.topic in said[0]
    with Trial(stage) as fresh:  # a new topic is copied
        fresh.wait_copied(300)
    assert trial.target_ends() == before
