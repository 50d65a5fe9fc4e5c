"""One topic that two sites write, between two real brokers, with links in both directions."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from kafka import KafkaProducer
from support.cleaning import read_committed
from support.clusters import HEAP_MB, ClusterPair, create_topic, fresh_name
from support.command import heliostat, said
from support.links import LinkProcess, RunningLink, ends, kill, wait_for
from support.provoked import Provoked

from heliostat.clusters.admin import ClusterAdmin
from heliostat.names import Offset, PartitionId, TopicName, TopicPartition
from heliostat.state_topics import PRODUCERS_TOPIC
from heliostat_sandbox import Cluster

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.thorough]

PARTITIONS = 2
BEFORE = 20
"""Records of each site and partition from before the links."""
PAUSE_S = 0.004


class Producer:
    """Another client's producer at a site: it counts in each partition."""

    def __init__(self, site: str, bootstrap: str, topic: str) -> None:
        self._site, self._topic = site, topic
        self._producer = KafkaProducer(bootstrap_servers=bootstrap.split(","), acks="all")
        self._end = threading.Event()
        self.written = [0] * PARTITIONS
        self._thread = threading.Thread(target=self._run)

    def write(self, count: int) -> None:
        for _ in range(count):
            for partition in range(PARTITIONS):
                value = b"%s %06d" % (self._site.encode(), self.written[partition])
                self._producer.send(self._topic, value=value, partition=partition)
                self.written[partition] += 1
        self._producer.flush()

    @contextmanager
    def at_work(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._end.set()
            self._thread.join()

    def _run(self) -> None:
        while not self._end.wait(PAUSE_S):
            self.write(1)

    def close(self) -> None:
        self._producer.close()


def config_of(folder: Path, sites: Mapping[str, str], topic: str) -> Path:
    path = folder / "heliostat.yaml"
    ways = [("summit", "base"), ("base", "summit")]
    config = {
        "clusters": {alias: {"bootstrap": each.split(",")} for alias, each in sites.items()},
        "spark": {"master": "local[2]"},
        "defaults": {
            "lanes": {"lease_s": 5},
            "topics": {"include": [f"{topic}.*"], "naming": "merge", "refresh_interval_s": 1},
        },
        "links": [
            {"name": fresh_name(f"{one}-{other}"), "source": one, "target": other}
            for one, other in ways
        ],
    }
    path.write_text(yaml.safe_dump(config))
    return path


def is_level(sites: Mapping[str, str], topic: str, wanted: list[int]) -> bool:
    there = [ends(bootstrap, {topic: PARTITIONS})[topic] for bootstrap in sites.values()]
    return all(now >= goal for row in there for now, goal in zip(row, wanted, strict=True))


def assert_merged(
    sites: Mapping[str, str],
    topic: str,
    producers: list[Producer],
    begins: list[list[int]] | None = None,
    *,
    repeats_max: int = 0,
) -> None:
    """Each record of a site's own log once at each site, in its order; `begins`: the first left.

    A producer whose broker is killed may write a few twice: then the other site has them twice.
    """
    firsts = begins or [[0] * PARTITIONS] * len(producers)
    for partition in range(PARTITIONS):
        logs = {
            site: [row[3] or b"" for row in read_committed(bootstrap, topic, partition)]
            for site, bootstrap in sites.items()
        }
        count = 0
        for site, producer, first in zip(sites, producers, firsts, strict=True):
            own = [each for each in logs[site] if each.startswith(site.encode())]
            numbers = range(first[partition], producer.written[partition])
            assert sorted({*own}) == [b"%s %06d" % (site.encode(), number) for number in numbers]
            assert len(own) - len(numbers) <= repeats_max, (site, len(own), len(numbers))
            count += len(own)
            for other, values in logs.items():
                mine = [each for each in values if each.startswith(site.encode())]
                assert mine == own, (site, other, partition, len(mine), len(own))
        assert {len(values) for values in logs.values()} == {count}


EXPIRED = {
    "producer.id.expiration.check.interval.ms": "300",
    "producer.id.expiration.ms": "1000",
}
"""Every producer is forgotten a second after the timestamp of its last record."""
REPEATS_MAX = 10
CHAOS_S = 1.0
"""Between two faults: a link has begun by then."""


def stops(config: Path) -> list[dict[str, Any]]:
    return [row for status in said(config, "status") for row in status["problems"]]


@pytest.mark.provokes("PRODUCERS_LOST", "refused:merge")
def test_two_sites_write_one_topic_and_each_has_each_record_once(
    cluster_pair: ClusterPair, tmp_path: Path, provoked: Provoked
) -> None:
    """Given producers at both sites and both links / when their driver is killed / then nothing
    lacks, is there twice, or is out of a site's order; what works on mirrors alone is refused. When
    the rows of producer ids are deleted / then nothing is copied any more.
    """
    topic = fresh_name("merged")
    sites = {"summit": cluster_pair.source.bootstrap, "base": cluster_pair.target.bootstrap}
    for cluster in (cluster_pair.source, cluster_pair.target):
        create_topic(cluster, topic, partitions=PARTITIONS)
        create_topic(cluster, f"{topic}-keys", configs={"cleanup.policy": "compact"})
    producers = [Producer(site, bootstrap, topic) for site, bootstrap in sites.items()]
    for each in producers:
        each.write(BEFORE)
    config = config_of(tmp_path, sites, topic)
    with producers[0].at_work(), producers[1].at_work():
        with LinkProcess(config) as link:
            wait_for("records of the other site", lambda: is_level(sites, topic, [100, 100]))
            link.kill_driver()
        with RunningLink(config):
            marks = [sum(each.written[n] for each in producers) for n in range(PARTITIONS)]
            wait_for("records since the kill", lambda: is_level(sites, topic, marks))
    with RunningLink(config) as link:
        wanted = [sum(each.written[n] for each in producers) for n in range(PARTITIONS)]
        wait_for("both sites level", lambda: is_level(sites, topic, wanted))
        assert_merged(sites, topic, producers)
        answer = heliostat(config, "verify")
        assert answer.returncode == 1, answer.said
        assert "merges its topics" in answer.said
        provoked("refused:merge", said(config, "plan")[0]["refuse"][f"{topic}-keys"])
        with ClusterAdmin(sites["summit"].split(",")) as admin:
            admin.delete_topics([TopicName(PRODUCERS_TOPIC)])
        wait_for("stopped partitions", lambda: stops(config))
        for each in stops(config):
            provoked("PRODUCERS_LOST", each)
        assert link.stop() == 0
    for each in producers:
        each.close()


@pytest.mark.long
def test_forgotten_producers_killed_brokers_and_emptied_logs_do_no_harm(tmp_path: Path) -> None:
    """Given brokers that forget producers at once / when workers and brokers are killed /
    then each record is once at each site. When all is level, the links have ended and all records
    are deleted / then links go on with the next one: a closed note says where.
    """
    with ExitStack() as stack:
        clusters = {
            site: stack.enter_context(Cluster.start(site, settings=EXPIRED, heap_mb=HEAP_MB))
            for site in ("summit", "base")
        }
        sites = {site: cluster.bootstrap for site, cluster in clusters.items()}
        topic = fresh_name("merged")
        for cluster in clusters.values():
            create_topic(cluster, topic, partitions=PARTITIONS)
        producers = [Producer(site, bootstrap, topic) for site, bootstrap in sites.items()]
        config = config_of(tmp_path, sites, topic)
        link = stack.enter_context(LinkProcess(config))
        with producers[0].at_work(), producers[1].at_work():
            wait_for("records of the other site", lambda: is_level(sites, topic, [100, 100]))
            for cluster in clusters.values():
                kill(link.workers())
                time.sleep(CHAOS_S)
                cluster.brokers[0].kill()
                cluster.brokers[0].start()
                time.sleep(CHAOS_S)
        wanted = [sum(each.written[n] for each in producers) for n in range(PARTITIONS)]
        wait_for("both sites level", lambda: is_level(sites, topic, wanted))
        assert_merged(sites, topic, producers, repeats_max=REPEATS_MAX)
        assert link.stop() == 0
        for bootstrap in sites.values():
            delete_all(bootstrap, topic)
        level = ends(sites["base"], {topic: PARTITIONS})[topic]
        begins = [list(each.written) for each in producers]
        for each in producers:
            each.write(BEFORE)
        stack.enter_context(LinkProcess(config))
        wait_for("new records", lambda: is_level(sites, topic, [n + 2 * BEFORE for n in level]))
        assert_merged(sites, topic, producers, begins)
        for each in producers:
            each.close()


def delete_all(bootstrap: str, topic: str) -> None:
    every = [TopicPartition(TopicName(topic), PartitionId(n)) for n in range(PARTITIONS)]
    with ClusterAdmin(bootstrap.split(",")) as admin:
        admin.delete_records(dict.fromkeys(every, Offset(-1)))
