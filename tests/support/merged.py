"""Producers of sites that merge a topic, their links' configuration, and what both must have."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from itertools import permutations
from pathlib import Path
from typing import Any

import yaml
from kafka import KafkaProducer
from support.cleaning import read_committed
from support.clusters import fresh_name
from support.deadline import join
from support.links import ends

from heliostat.clusters.admin import ClusterAdmin
from heliostat.config import load_config
from heliostat.names import Offset, PartitionId, TopicName, TopicPartition
from heliostat.offsets.values import Why
from heliostat.operate.translators import open_translator

PARTITIONS = 2
PAUSE_S = 0.004
WRITTEN_WITHIN_S = 120.0
"""A broker that is killed is away for less; kafka-python itself would wait for ever."""


class SiteProducer:
    """Another client's producer at a site: it counts in each partition; `keys`: how many it has."""

    def __init__(self, site: str, bootstrap: str, topic: str, keys: int = 0) -> None:
        self._site, self._topic, self._keys = site, topic, keys
        self._producer = KafkaProducer(bootstrap_servers=bootstrap.split(","), acks="all")
        self._end = threading.Event()
        self._ends, self.last = 0, b""
        self.written = [0] * PARTITIONS
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name=f"producer of {site}", daemon=True)

    def write(self, count: int) -> None:
        for _ in range(count):
            for partition in range(PARTITIONS):
                value = b"%s %06d" % (self._site.encode(), self.written[partition])
                key = b"k%d" % (self.written[partition] % self._keys) if self._keys else None
                self._producer.send(self._topic, value=value, partition=partition, key=key)
                self.written[partition] += 1
        self._producer.flush(WRITTEN_WITHIN_S)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self.rest()

    def rest(self) -> None:
        """Write no more; fail if what was sent is not acknowledged, or was refused."""
        self._end.set()
        join(self._thread, f"the producer at {self._site} rests", 2 * WRITTEN_WITHIN_S)
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            while not self._end.wait(PAUSE_S):
                self.write(1)
        except Exception as failure:  # noqa: BLE001  # `rest` raises it
            self._failure = failure

    def end(self) -> None:
        """Write a last record into each partition, under a key of its own; it sorts as such."""
        name = self._site.encode()
        self.last = b"%s %06d end %03d" % (name, self.written[0] - 1, self._ends)
        self._ends += 1
        for partition in range(PARTITIONS):
            self._producer.send(self._topic, value=self.last, partition=partition, key=name)
        self._producer.flush(WRITTEN_WITHIN_S)

    def close(self) -> None:
        self._producer.close(WRITTEN_WITHIN_S)


class PipedTopic:
    """A topic of one partition that goes through a pipeline at each site, on batches' bytes.

    A third of the records is left out, by a header.
    """

    def __init__(self, sites: Mapping[str, str], topic: str) -> None:
        self._sites = sites
        self.name = f"{topic}-piped"
        self._written = 0
        self.pipeline = {
            "name": "marked",
            "topics": [self.name],
            "steps": [
                {"drop_with_header": {"name": "test"}},
                {"insert_headers": {"from": "elsewhere"}},
            ],
        }

    def write(self, count: int) -> None:
        for site, bootstrap in self._sites.items():
            with closing(KafkaProducer(bootstrap_servers=bootstrap.split(","))) as producer:
                for number in range(self._written, self._written + count):
                    headers = [("test", b"")] if number % 3 == 1 else []
                    value = b"%s %06d" % (site.encode(), number)
                    producer.send(self.name, value, headers=headers)
        self._written += count

    @property
    def crossed(self) -> list[int]:
        """Numbers of a site's records that the others get."""
        return [number for number in range(self._written) if number % 3 != 1]

    def is_level(self) -> bool:
        wanted = self._written + (len(self._sites) - 1) * len(self.crossed)
        there = [ends(bootstrap, {self.name: 1})[self.name] for bootstrap in self._sites.values()]
        return there == [[wanted]] * len(self._sites)

    def assert_merged(self) -> None:
        """Each site has its own as they were, and of others' what the pipeline leaves, in order."""
        for here, bootstrap in self._sites.items():
            rows = read_committed(bootstrap, self.name)
            for site in self._sites:
                is_own = site == here
                numbers = [*range(self._written)] if is_own else self.crossed
                headers = [] if is_own else [("from", b"elsewhere")]
                found = [row[3:] for row in rows if (row[3] or b"").startswith(site.encode())]
                if is_own:
                    found = [(value, []) for value, _ in found]
                wanted = [(b"%s %06d" % (site.encode(), number), headers) for number in numbers]
                assert found == wanted


def config_of(folder: Path, sites: Mapping[str, str], topic: str, **defaults: Any) -> Path:
    path = folder / "heliostat.yaml"
    ways = permutations(sites, 2)
    config = {
        "clusters": {alias: {"bootstrap": each.split(",")} for alias, each in sites.items()},
        "spark": {"master": "local[2]"},
        "defaults": {
            "lanes": {"lease_s": 5},
            "topics": {"include": [f"{topic}.*"], "naming": "merge", "refresh_interval_s": 1},
            **defaults,
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
    producers: list[SiteProducer],
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


def written(producers: list[SiteProducer]) -> list[int]:
    return [sum(each.written[number] for each in producers) for number in range(PARTITIONS)]


def assert_translated(config: Path, sites: Mapping[str, str], topic: str) -> None:
    """Each record of a site's own is found at the other one and back; others' are told as such."""
    loaded = load_config(config)
    link = next(each for each in loaded.links if each.source == "summit")
    with open_translator(loaded, link, [TopicName(topic)]) as translator:
        for number in map(PartitionId, range(PARTITIONS)):
            here, there = (
                {row[0]: row[3] or b"" for row in read_committed(each, topic, number)}
                for each in sites.values()
            )
            [summary] = translator.summaries(TopicName(topic), number)
            own = sum(value.startswith(b"summit") for value in here.values())
            assert summary.kind == "merged"
            assert (summary.landed or 0) >= own  # those that are gone count as well
            [one] = translator.partitions(TopicName(topic), number)
            for run in translator.merged_runs(one) or ():
                if run.target is not None and run.source in here:
                    assert here[run.source] == there[run.target]
            for at, value in here.items():
                to = translator.to_target(TopicName(topic), number, Offset(at))
                assert to.is_exact == value.startswith(b"summit")
                assert not to.is_exact or there[to.to_offset or 0] == value
            for at, value in there.items():
                to = translator.to_source(TopicName(topic), number, Offset(at))
                expected = None if value.startswith(b"summit") else Why.ELSEWHERE
                assert to.why is expected
                assert expected or here[to.to_offset or 0] == value


def delete_all(bootstrap: str, topic: str) -> None:
    every = [TopicPartition(TopicName(topic), PartitionId(n)) for n in range(PARTITIONS)]
    with ClusterAdmin(bootstrap.split(",")) as admin:
        admin.delete_records(dict.fromkeys(every, Offset(-1)))
