"""One topic that two sites write, between two real brokers, with links in both directions."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from kafka import KafkaProducer
from support.cleaning import read_committed
from support.clusters import ClusterPair, create_topic, fresh_name
from support.command import heliostat, said
from support.links import LinkProcess, RunningLink, ends, wait_for
from support.provoked import Provoked

from heliostat.clusters.admin import ClusterAdmin
from heliostat.names import TopicName
from heliostat.state_topics import PRODUCERS_TOPIC

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


def assert_merged(sites: Mapping[str, str], topic: str, producers: list[Producer]) -> None:
    """Each record once at each site, each site's in its order."""
    for bootstrap in sites.values():
        for partition in range(PARTITIONS):
            values = [row[3] or b"" for row in read_committed(bootstrap, topic, partition)]
            for site, producer in zip(sites, producers, strict=True):
                mine = [each for each in values if each.startswith(site.encode())]
                wanted = [
                    b"%s %06d" % (site.encode(), n) for n in range(producer.written[partition])
                ]
                assert mine == wanted, (site, bootstrap, partition, len(mine), len(wanted))
            assert len(values) == sum(each.written[partition] for each in producers)


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
