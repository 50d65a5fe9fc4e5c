"""Status, plan and log of a real link: never better than the truth, correct again afterwards."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from support.clusters import ClusterPair, create_topic, fresh_name
from support.command import Answer, heliostat
from support.links import RunningLink, ends, wait_for, write_config
from support.records import Sample, encode, open_transaction, write_batches

from heliostat.clusters.admin import ClusterAdmin
from heliostat.names import Offset, PartitionId, TopicPartition
from heliostat_sandbox import Cluster

pytestmark = [pytest.mark.kafka, pytest.mark.thorough]

LOOKS_MAX = 200
"""At a driver that begins."""
TOLD_WITHIN_S = 40.0
"""Silence is reported after 10 s, and other tests run meanwhile."""
RECORDS = 20


class Link:
    """A running link of one topic, and what an operator sees of it."""

    def __init__(self, pair: ClusterPair, folder: Path) -> None:
        self.pair = pair
        self.topic = create_topic(pair.source)
        self.name = fresh_name("link")
        self.config = write_config(
            folder,
            pair.source.bootstrap,
            pair.target.bootstrap,
            name=self.name,
            topics={"include": [self.topic], "refresh_interval_s": 1},
            lanes={"lease_s": 5, "count": 1},
        )

    def write(self) -> None:
        now_ms = int(time.time() * 1000)
        batch = encode([Sample(b"k", b"v", now_ms) for _ in range(RECORDS)])
        write_batches(self.pair.source.bootstrap, self.topic, [batch])

    def ends(self, cluster: Cluster) -> list[int]:
        return ends(cluster.bootstrap, {self.topic: 1})[self.topic]

    def status(self, *words: str) -> Answer:
        return heliostat(self.config, "status", *words)

    def wait_in_sync(self) -> None:
        """Wait until nothing is missing: what is younger than 10 s may be, by default."""
        wait_for("a clean status", lambda: self.status("--max-lag", "0").returncode == 0)

    def wait_told(self, words: str) -> None:
        def is_told() -> bool:
            answer = self.status()
            return answer.returncode == 1 and words in " ".join(answer.stdout.split())

        wait_for(f"`{words}` in the status", is_told, TOLD_WITHIN_S)


@pytest.fixture
def link(cluster_pair: ClusterPair, tmp_path: Path) -> Link:
    return Link(cluster_pair, tmp_path)


@pytest.mark.usefixtures("spark")
def test_a_hanging_transaction_is_reported_with_its_lag(link: Link) -> None:
    """Given 20 of 41 records held by an open transaction / when it is old / then it is named."""
    link.write()
    with RunningLink(link.config) as running:
        link.wait_in_sync()
        with open_transaction(link.pair.source.bootstrap, link.topic, "a writer that hangs"):
            link.write()
            link.wait_told(f"(a writer that hangs) is open since offset {RECORDS}")
            assert "holds back 21 records" in " ".join(link.status().stdout.split())
            assert link.ends(link.pair.target) == [RECORDS]
            wait_for("a line", lambda: "(a writer that hangs)" in running.text(), TOLD_WITHIN_S)
            assert link.status("--max-lag", "3600").returncode == 0
        link.wait_in_sync()
        end = f"{link.topic}-0: the transaction of producer"
        wait_for("its end", lambda: end in running.text(), TOLD_WITHIN_S)
        # A marker bears no record: in the mirror the next one stands in its place.
        assert link.ends(link.pair.target) == [2 * RECORDS + 1]


def frozen(running: RunningLink) -> list[psutil.Process]:
    """Pause the daemon that forks workers, then those that there are."""
    stopped: list[psutil.Process] = []
    for find in (running.worker_daemons, running.workers):
        for process in find():
            process.suspend()
            stopped.append(process)
    assert stopped, "there is no daemon yet"
    return stopped


@contextlib.contextmanager
def held_up(running: RunningLink) -> Iterator[None]:
    """Let no worker do anything."""
    stopped = frozen(running)
    try:
        yield
    finally:
        for process in stopped:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.resume()


@pytest.mark.usefixtures("spark")
def test_what_happened_while_no_driver_ran_is_reported(link: Link) -> None:
    """Given a link in sync that was stopped while its source continued / when

    it is started again, its lanes not yet at work / then its predecessor's reports don't count;
    of records that expired meanwhile `plan`, log and status tell.
    """
    link.write()
    with RunningLink(link.config) as running:
        link.wait_in_sync()
        assert running.stop() == 0
    assert heliostat(link.config, "plan").returncode == 0
    link.write()
    [stopped] = link.status("--json").json  # by both sides' logs
    assert (stopped["lag_records"], stopped["unknown"]) == (RECORDS, 0)
    assert 0 <= stopped["lag_s"] < 600
    partition = TopicPartition(link.topic, PartitionId(0))
    with ClusterAdmin(link.pair.source.bootstrap.split(",")) as admin:
        admin.delete_records({partition: Offset(2 * RECORDS)})
    link.write()
    plan = heliostat(link.config, "plan")
    assert plan.returncode == 1
    gone = f"source offsets {RECORDS} to {2 * RECORDS - 1} are gone"
    assert gone in plan.stdout
    assert "nothing to do" not in plan.stdout
    with contextlib.ExitStack() as held, RunningLink(link.config) as running:
        held.enter_context(held_up(running))
        answers = [link.status("--json")]
        while "lags by" not in str(answers[-1].json[0]["why_not_in_sync"]):
            assert len(answers) < LOOKS_MAX, answers[-1].json
            answers.append(link.status("--json"))
        assert {answer.returncode for answer in answers} == {1}
        [told] = answers[-1].json
        assert f"{link.topic} lags by {2 * RECORDS:,} records" in told["why_not_in_sync"]
        held.close()
        wait_for("a line", lambda: "is at a gap [SOURCE_OVERTOOK]" in running.text(), TOLD_WITHIN_S)
        link.wait_told("1 partitions are not copied as they should be")
        # Of a stopped partition, the age of what it does not have.
        [row] = link.status("--json").json[0]["topics"]
        assert row["lag_records"] == 2 * RECORDS
        assert 0 <= row["lag_s"] < 600


@pytest.mark.usefixtures("spark")
def test_frozen_workers_are_reported_though_the_driver_runs(link: Link) -> None:
    """Given a link in sync / when its workers are stopped / then exit code 1, a line, later 0."""
    link.write()
    with RunningLink(link.config) as running:
        link.wait_in_sync()
        with held_up(running):
            link.wait_told("has not reported for")
            wait_for("a line", lambda: "has not reported for" in running.text(), TOLD_WITHIN_S)
            assert "silent" in link.status().stdout
        link.write()
        link.wait_in_sync()
        assert link.ends(link.pair.target) == [2 * RECORDS]


@pytest.mark.usefixtures("spark")
def test_a_link_without_a_topic_is_not_in_sync(cluster_pair: ClusterPair, tmp_path: Path) -> None:
    """Given an include that matches nothing / when run / then reported, and exit code 1."""
    config = write_config(
        tmp_path,
        cluster_pair.source.bootstrap,
        cluster_pair.target.bootstrap,
        name=fresh_name("link"),
        topics={"include": [fresh_name("nothing")], "refresh_interval_s": 1},
    )
    with RunningLink(config) as running:
        wait_for("a note", lambda: "matches no topic of the source" in running.text())

        def is_told() -> bool:
            answer = heliostat(config, "status")
            return answer.returncode == 1 and "no topic of the source is selected" in answer.stdout

        wait_for("word of it", is_told, TOLD_WITHIN_S)
