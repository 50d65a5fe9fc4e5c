"""A hundred links of one process: when each has its first record at the target, and what it takes.

Two brokers, a topic of two partitions with some records for each link. The driver's threads and
memory are looked at every few seconds, and once more when all has been quiet for a minute.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import yaml
from clusters import Pair, pair_of_clusters
from footprint import DRIVER, TOTAL, WORKER, footprint
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic

HELIOSTAT = Path(sys.executable).with_name("heliostat")
PARTITIONS, RECORDS = 2, 20
LOOK_S, STOP_S = 3.0, 120.0


def write_config(pair: Pair, links: int, file: Path) -> None:
    """Write a configuration with a link for each topic."""
    config = {
        "clusters": {"east": {"bootstrap": [pair.source]}, "west": {"bootstrap": [pair.target]}},
        "spark": {"master": "local[*]"},
        "links": [
            {
                "name": f"link-{number:03}",
                "source": "east",
                "target": "west",
                "topics": {"include": [topic_of(number)]},
            }
            for number in range(links)
        ],
    }
    file.write_text(yaml.safe_dump(config))


def topic_of(link: int) -> str:
    """Return the topic of a link."""
    return f"topic-{link:03}"


def fill(source: str, links: int) -> None:
    """Create the topics and write some records into each."""
    admin = KafkaAdminClient(bootstrap_servers=source)
    admin.create_topics([NewTopic(topic_of(link), PARTITIONS, 1) for link in range(links)])
    admin.close()
    producer = KafkaProducer(bootstrap_servers=source)
    for link in range(links):
        for number in range(RECORDS):
            producer.send(topic_of(link), b"%d" % number, partition=number % PARTITIONS)
    producer.flush()
    producer.close()


class Arrivals:
    """When the first record of each link was at the target."""

    def __init__(self, target: str, links: int) -> None:
        self._client = KafkaConsumer(bootstrap_servers=target)
        self._links = links
        self.after_s: dict[str, float] = {}

    @property
    def is_whole(self) -> bool:
        """Whether each link has one."""
        return len(self.after_s) == self._links

    def look(self, after_s: float) -> None:
        """Ask for the ends of the mirrors that had none."""
        topics = self._client.topics()
        wanted = {topic_of(link) for link in range(self._links)} & topics - self.after_s.keys()
        places = [TopicPartition(topic, part) for topic in wanted for part in range(PARTITIONS)]
        ends = self._client.end_offsets(places) if places else {}
        for place, end in ends.items():
            if end:
                self.after_s.setdefault(place.topic, after_s)

    def close(self) -> None:
        """Close the connection."""
        self._client.close()


def watch(driver: psutil.Popen, arrivals: Arrivals, quiet_s: float, within_s: float) -> int:
    """Look until all has been there for `quiet_s`; return the most threads of the driver."""
    began_s, whole_s, threads_max = time.monotonic(), 0.0, 0
    while (passed_s := time.monotonic() - began_s) < within_s:
        time.sleep(LOOK_S)
        if driver.poll() is not None:
            raise SystemExit(f"the driver has ended with {driver.returncode}")
        threads_max = max(threads_max, driver.num_threads())
        if not arrivals.is_whole:
            arrivals.look(passed_s + LOOK_S)
        elif whole_s == 0.0:
            whole_s = passed_s
        elif passed_s > whole_s + quiet_s:
            break
    return threads_max


def measure(pair: Pair, links: int, quiet_s: float, within_s: float, folder: Path) -> list[str]:
    """Run the links and return what was seen, a line each."""
    fill(pair.source, links)
    write_config(pair, links, file := folder / "heliostat.yaml")
    arrivals = Arrivals(pair.target, links)
    with (folder / "log").open("wb") as log:
        driver = psutil.Popen(
            [HELIOSTAT, "run", "-c", file, "--no-serve"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        try:
            threads_max = watch(driver, arrivals, quiet_s, within_s)
            held, cores = footprint(driver), driver.cpu_percent(LOOK_S) / 100
            driver.terminate()
            began_s = time.monotonic()
            code = driver.wait(STOP_S)
        finally:
            if driver.is_running():
                driver.kill()
            arrivals.close()
    after_s = sorted(arrivals.after_s.values()) or [0.0]
    return [
        (
            f"{len(arrivals.after_s)} of {links} links have their first record: after "
            f"{after_s[0]:.0f} s the first, {statistics.median(after_s):.0f} s half, "
            f"{after_s[-1]:.0f} s the last"
        ),
        f"threads of the driver: {threads_max} at most, {held[DRIVER]['threads']:.0f} when idle",
        f"cores of the driver when idle: {cores:.2f}",
        (
            f"memory (shared pages once): {held[TOTAL]['pss_mb']:.0f} MB, of it "
            f"{held[WORKER]['processes']:.0f} workers with {held[WORKER]['pss_mb']:.0f} MB"
        ),
        f"stopped with {code} after {time.monotonic() - began_s:.1f} s",
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--links", type=int, default=100)
    parser.add_argument("--quiet-s", type=float, default=60.0, help="until it is looked at")
    parser.add_argument("--minutes", type=float, default=6.0, help="at most")
    given = parser.parse_args()
    within_s = given.minutes * 60
    with pair_of_clusters() as pair, tempfile.TemporaryDirectory() as folder:
        print("\n".join(measure(pair, given.links, given.quiet_s, within_s, Path(folder))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
