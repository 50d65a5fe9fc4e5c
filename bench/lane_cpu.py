"""Processor time of one lane at a steady rate: its copier in this process, without Spark or driver.

It shows in half a minute what a change of the data path costs or saves; `compare latency` takes
minutes, and counts all processes. Two brokers, a topic of eight partitions, the load of `load.py`.
"""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from clusters import Pair, create_topic, pair_of_clusters
from stamped import Stream, write_streams

from heliostat.access import ClusterAccess, access_of
from heliostat.clock import SystemClock
from heliostat.clusters.admin import ClusterAdmin
from heliostat.clusters.keyed_topic import KeyedTopic
from heliostat.clusters.wire.connection import DialSettings
from heliostat.names import LaneId, LinkName, Offset, PartitionId, TopicName, TopicPartition
from heliostat.records.copier.copier import Copier
from heliostat.records.copier.hooks import Hooks
from heliostat.records.copier.lane import CopySettings, LaneSpec, PartitionSpec
from heliostat.records.copier.late_sends import KilledWhenLate
from heliostat.records.spark.copy_round import network_of
from heliostat.records.spark.warm_up import warm_up

TOPIC, MAPS, PARTITIONS = "lane-cpu", "lane-cpu.maps", 8
VALUE_BYTES = 200
WARM_S = 3.0
SPARE_S = 30.0
REPORT_EVERY_S = 1.0
BATCH_BYTES_MAX = 1024 * 1024


def lane_of(
    source: ClusterAccess,
    target: ClusterAccess,
    topic: TopicName,
    partitions: int,
    *,
    lease_s: float,
    target_ms: float,
) -> LaneSpec:
    """Describe a lane with all partitions of the topic, of a link without a driver."""
    ids = []
    for access in (source, target):
        with ClusterAdmin(access) as admin:
            ids.append(admin.describe_topics([topic])[topic].topic_id)
    with ClusterAdmin(target) as admin:
        producer_id = admin.init_producer_id()
    with KeyedTopic(target, MAPS) as maps:
        maps.ensure(1)
    places = [TopicPartition(topic, PartitionId(n)) for n in range(partitions)]
    return LaneSpec(
        link=LinkName("lane-cpu"),
        lane=LaneId(0),
        generation=1,
        round_number=0,
        lease_s=lease_s,
        source_access=source,
        target_access=target,
        producer_id=producer_id,
        partitions=tuple(
            PartitionSpec(at, at, ids[0], ids[1], Offset(0), BATCH_BYTES_MAX, is_compacted=False)
            for at in places
        ),
        control_topic="",
        progress_topic="",
        settings=CopySettings(latency_target_s=target_ms / 1000),
        offsets_topic=MAPS,
    )


@contextlib.contextmanager
def loading(source: str, stream: Stream, rate: float, seconds: float) -> Iterator[None]:
    """Send records to the source until the block ends."""
    with tempfile.TemporaryDirectory() as name:
        streams = Path(name, "streams.json")
        write_streams(streams, [stream])
        words = ("--bootstrap", source, "--streams", str(streams), "--rate", str(rate))
        more = ("--seconds", str(seconds), "--rows", str(Path(name, "rows")))
        load = Path(__file__).with_name("load.py")
        process = subprocess.Popen(
            [sys.executable, str(load), *words, *more],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdout.readline()  # it is ready
            process.stdin.write(b"go\n")
            process.stdin.flush()
            yield
        finally:
            process.kill()
            process.wait()


def run_lane(lane: LaneSpec, is_over: Callable[[Copier], bool]) -> None:
    """Run the lane's copier in this thread until it is over; it is asked often."""
    clock = SystemClock()
    with (
        contextlib.closing(network_of(lane, clock, DialSettings(client_id="lane-cpu"))) as network,
        contextlib.closing(KilledWhenLate()) as late_sends,
    ):
        copier = Copier(lane, network, clock)
        copier.run(
            Hooks(
                lambda: is_over(copier),
                Reports().are_due,
                lambda _: None,
                answered=lambda: 1,
                late_sends=late_sends,
            )
        )


class Reports:
    """Reports of a lane without a driver, one a second."""

    def __init__(self) -> None:
        self._last_s = time.monotonic()

    def are_due(self) -> bool:
        """Whether a second has passed since the last report."""
        if time.monotonic() < self._last_s + REPORT_EVERY_S:
            return False
        self._last_s = time.monotonic()
        return True


class Measured:
    """Counts a lane's records and processor time, from `WARM_S` on, for so many seconds."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._began_s = time.monotonic()
        self._first: tuple[int, float] | None = None
        self.records = 0
        self.cpu_s = 0.0

    @property
    def has_begun(self) -> bool:
        """Whether it counts."""
        return self._first is not None

    def is_over(self, copier: Copier) -> bool:
        """Look at the clock; True when all is measured."""
        passed_s = time.monotonic() - self._began_s
        if passed_s < WARM_S or (self._first and passed_s < WARM_S + self._seconds):
            return False
        now = sum(item.progress.records for item in copier.partitions), time.thread_time()
        if self._first is None:
            self._first = now
            return False
        self.records, self.cpu_s = now[0] - self._first[0], now[1] - self._first[1]
        return True


def measure(pair: Pair, rate: float, seconds: float, target_ms: float = 2.0) -> Measured:
    """Copy under load and count."""
    for bootstrap in (pair.source, pair.target):
        create_topic(bootstrap, TOPIC, PARTITIONS)
    warm_up()
    lasts_s = WARM_S + seconds + SPARE_S
    sides = access_of([pair.source]), access_of([pair.target])
    lane = lane_of(*sides, TopicName(TOPIC), PARTITIONS, lease_s=lasts_s, target_ms=target_ms)
    stream = Stream(TOPIC, PARTITIONS, 1.0, VALUE_BYTES)
    with loading(pair.source, stream, rate, lasts_s):
        measured = Measured(seconds)
        run_lane(lane, measured.is_over)
    return measured


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=float, default=500.0, help="records a second")
    parser.add_argument("--seconds", type=float, default=12.0)
    parser.add_argument("--latency-target-ms", type=float, default=2.0)
    given = parser.parse_args()
    with pair_of_clusters(small=True) as pair:
        measured = measure(pair, given.rate, given.seconds, given.latency_target_ms)
    if not measured.records:
        print("nothing was copied", file=sys.stderr)
        return 1
    print(
        f"{measured.records} records in {given.seconds:g} s: "
        f"{measured.cpu_s / measured.records * 1e6:.0f} us of processor time a record, "
        f"{measured.cpu_s / given.seconds:.3f} cores"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
