"""How many round trips stand one after the other, with the target far away: a budget for each.

Where one fails: is what came in addition needed, and can't it be asked beside something else? Runs
differ by a few round trips, as a link's loops are counted, too, so one more may pass unnoticed:
each budget is a little above what was measured.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.clusters import HEAP_MB, create_topic, until
from support.links import RunningLink, looking_at, write_config
from support.records import Sample, encode, write_everywhere

from heliostat.clusters.admin import LATEST
from heliostat.names import PartitionId, TopicName, TopicPartition
from heliostat_sandbox import Cluster, ClusterSpec, FarLine, start_many
from heliostat_sandbox.exchanges import Exchange, read_exchanges, round_trips

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.thorough]

ROUND_TRIP_S = 0.15
WAITING = ("heliostat-status", "heliostat-wishes", "heliostat-east-to-west")
"""Clients whose fetches wait for records: reports, wishes, and lanes."""
RECORD = Sample(b"k", b"v", int(time.time() * 1000))
QUIET_S = 5.0
WITHIN_S, LOOK_S = 60.0, 0.02
CREATE_TOPICS = 19
WRITES = (0, 22, 24, 26)
"""Produce and what belongs to transactions: loops write once a second, whatever else is done."""
START, TAKE_OVER, NEW_TOPIC, STOP, REFRESH = 60, 43, 17, 15, 10


@dataclass(frozen=True, slots=True)
class Far:
    """Two clusters, the target far away, and what passes the line."""

    source: Cluster
    target: Cluster
    exchanges: Path
    config: Path

    def cost(self, from_s: float, to_s: float) -> float:
        """Return the round trips in that time (monotonic s)."""
        noted = read_exchanges(self.exchanges)
        return round_trips(noted, from_s, to_s, ROUND_TRIP_S, WAITING)

    def warm_up(self, folder: Path) -> None:
        """Let Spark's session start its workers: what passes meanwhile would be counted."""
        folder.mkdir()
        near = self.source.bootstrap, self.target.bootstrap
        topic = create_topic(self.source, "near", partitions=4)
        self.written(topic, 4)
        with RunningLink(write_config(folder, *near, name="near", topics={"include": ["near"]})):
            self.until_copied(topic, 1)

    def written(self, topic: TopicName, partitions: int) -> None:
        """Write a record into each partition of a source topic."""
        write_everywhere(self.source.bootstrap.split(","), {topic: partitions}, encode([RECORD]))

    def asked(self, from_s: float) -> list[Exchange]:
        """Return what was asked since then."""
        return [each for each in read_exchanges(self.exchanges) if each.asked_s >= from_s]

    def until_created(self, topic: TopicName) -> float:
        """Wait until the target has a topic; return when (monotonic s)."""

        def is_there() -> bool:
            info = looking_at(
                self.target.bootstrap, lambda admin: admin.describe_topics([topic])[topic]
            )
            return info.error is None

        until(is_there, f"topic {topic}")
        return time.monotonic()

    def until_copied(self, topic: TopicName, records: int) -> float:
        """Wait until the first partition's mirror has so many; return when (monotonic s)."""
        place = TopicPartition(TopicName(topic), PartitionId(0))

        def is_there() -> bool:
            found = looking_at(
                self.target.bootstrap, lambda admin: admin.list_offsets({place: LATEST})
            )[place]
            return getattr(found, "offset", 0) >= records

        until_s = time.monotonic() + WITHIN_S
        while not is_there():
            assert time.monotonic() < until_s, f"{records} records of {topic}"
            time.sleep(LOOK_S)  # not longer and longer, as `until`: that would be counted
        return time.monotonic()


@pytest.fixture(scope="module")
def far(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Far]:
    folder = tmp_path_factory.mktemp("far")
    exchanges = folder / "exchanges"
    line = FarLine(ROUND_TRIP_S * 1000, exchanges=exchanges)
    specs = [ClusterSpec("east", heap_mb=HEAP_MB), ClusterSpec("west", heap_mb=HEAP_MB, line=line)]
    both = start_many(specs)
    with both[0] as source, both[1] as target:
        config = write_config(
            folder,
            source.bootstrap,
            target.bootstrap_far,
            topics={"include": ["far.*"], "refresh_interval_s": 2},
        )
        made = Far(source, target, exchanges, config)
        made.warm_up(folder / "near")
        yield made


def within(what: str, cost: float, budget: float) -> None:
    print(f"round trips, {what}: {cost:.1f} of {budget}", file=sys.stderr)
    assert cost <= budget, f"{what}: {cost:.1f} round trips, {budget} at most"


def test_a_start_a_refresh_a_new_topic_and_a_stop_cost_so_many_round_trips(far: Far) -> None:
    """Given a target far away / then each of these costs no more than its budget."""
    topic = create_topic(far.source, "far.first", partitions=4)
    far.written(topic, 4)
    began_s = time.monotonic()
    with RunningLink(far.config) as link:
        copied_s = far.until_copied(topic, 1)
        within("start to the first record", far.cost(began_s, copied_s), START)

        time.sleep(QUIET_S)  # what a start does besides is over
        from_s = time.monotonic()
        time.sleep(QUIET_S)
        asked = [each for each in far.asked(from_s) if each.api_key not in WRITES]
        turns = sum(each.api_key == CREATE_TOPICS for each in asked)
        busy = round_trips(asked, from_s, time.monotonic(), ROUND_TRIP_S, WAITING)
        within("a refresh without changes", busy / turns, REFRESH)

        new = create_topic(far.source, "far.second")
        far.written(new, 1)
        created_s = far.until_created(new)
        within("a new topic", far.cost(created_s, far.until_copied(new, 1)), NEW_TOPIC)

        stopped_s = time.monotonic()
        assert link.stop() == 0, link.text()
        within("a stop", far.cost(stopped_s, time.monotonic()), STOP)

    far.written(topic, 4)
    began_s = time.monotonic()
    with RunningLink(far.config):
        again_s = far.until_copied(topic, 2)
        within("a take-over to the next record", far.cost(began_s, again_s), TAKE_OVER)
