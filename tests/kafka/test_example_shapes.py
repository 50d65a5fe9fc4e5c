"""Examples of other shapes as shipped: one topic moved, both ways, three sites into one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from support.avro_clients import AvroReader, AvroWriter
from support.clusters import HEAP_MB, create_topic, until
from support.command import heliostat, said
from support.links import RunningLink, ends, wait_level
from support.registry_double import RegistryDouble
from support.registry_server import RegistryServer
from support.shipped import example_config, readme_verbs
from support.toy import JANE, JOHN, LATER, foo, subjects, topics_of, with_own

from heliostat_sandbox import Cluster, ClusterSpec, start_many

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.long]

SITES = ("summit", "base", "tucson", "central")
COUNT = 50


class Sites:
    """Four clusters with a registry each; ids mean other schemas at each of them."""

    def __init__(self, stack: ExitStack) -> None:
        specs = [ClusterSpec(f"shape-{name}", heap_mb=HEAP_MB) for name in SITES]
        clusters = [stack.enter_context(cluster) for cluster in start_many(specs)]
        self.clusters = dict(zip(SITES, clusters, strict=True))
        self.registries = {
            name: stack.enter_context(RegistryServer(with_own(5) if number else RegistryDouble()))
            for number, name in enumerate(SITES)
        }

    def name(self, patch: pytest.MonkeyPatch, **called: str) -> None:
        """Set variables of an example: which site is what it calls so."""
        for alias, site in called.items():
            patch.setenv(f"{alias.upper()}_BOOTSTRAP", self.clusters[site].bootstrap)
            patch.setenv(f"{alias.upper()}_REGISTRY", self.registries[site].url)

    def writer(self, site: str, schema: str) -> AvroWriter:
        return AvroWriter(self.clusters[site].bootstrap, self.registries[site].url, schema)

    def reader(self, site: str, topic: str) -> AvroReader:
        return AvroReader(self.clusters[site].bootstrap, self.registries[site].url, topic)


@pytest.fixture(scope="module")
def sites() -> Iterator[Sites]:
    with ExitStack() as stack:
        yield Sites(stack)


def read(cluster: Cluster, count: int) -> list[int]:
    """Read so many numbers of `orders` as its group, and commit."""
    settings = {"auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": "orders-billing", **settings}
    )
    consumer.subscribe(["orders"])
    numbers: list[int] = []
    try:
        while len(numbers) < count:
            message = consumer.poll(30)
            assert message is not None, f"{numbers}, and no more for 30 s"
            assert message.error() is None, message.error()
            numbers.append(int(message.value() or b"-1"))
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    return numbers


def test_one_topic_is_moved_as_its_page_says(
    sites: Sites, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given records and a group that has read some / when the page's commands are given in order /

    then each record is at the new cluster once, and the group goes on where it was.
    """
    sites.name(monkeypatch, old="summit", new="base")
    old, new = sites.clusters["summit"], sites.clusters["base"]
    config = example_config("move-one-topic", tmp_path)
    create_topic(old, "orders", partitions=1)
    create_topic(old, "other")
    producer = Producer({"bootstrap.servers": old.bootstrap})
    for number in range(COUNT):
        producer.produce("orders", str(number).encode(), partition=0)
    producer.flush(30)
    first = read(old, COUNT // 2)
    commands = list(readme_verbs("move-one-topic", "plan", "verify", "groups", "switch"))
    assert [words[0] for words in commands] == ["plan", "verify", "groups", "switch", "switch"]
    plan, verify, groups, dry, switch = commands
    assert heliostat(config, *plan).returncode == 1
    with RunningLink(config) as link:
        wait_level(link, old.bootstrap, new.bootstrap, {"orders": 1})
        done = heliostat(config, *verify)
        assert done.returncode == 0, done.said
        until(lambda: heliostat(config, *groups).returncode == 0, link.text)
        done = heliostat(config, *dry)
        assert done.returncode in {0, 1}, done.said
        report = tmp_path / "switch.md"
        switch[switch.index("--report") + 1] = str(report)
        done = heliostat(config, *switch, "--yes", "--still-s", "3", "--watch-s", "1")
        assert done.returncode == 0, done.said + link.text()
    assert report.read_text()
    assert sorted([*first, *read(new, COUNT - len(first))]) == list(range(COUNT))
    assert ends(new.bootstrap, {"orders": 1}) == {"orders": [COUNT]}
    assert "other" not in topics_of(new, "other")


def test_both_ways_by_prefix_with_schemas(
    sites: Sites, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given one topic and one id at both sides, for other schemas / when both links run / then each

    side decodes the other's records, and nothing comes back.
    """
    sites.name(monkeypatch, east="base", west="tucson")
    config = example_config("both-ways", tmp_path)
    topic = "metrics.cpu"
    for site in ("base", "tucson"):
        create_topic(sites.clusters[site], topic)
    with (
        RunningLink(config) as link,
        sites.reader("tucson", f"east.{topic}") as in_the_west,
        sites.reader("base", f"west.{topic}") as in_the_east,
        sites.writer("base", foo("east")) as east,
        sites.writer("tucson", foo("west", "qux")) as west,
    ):
        east.write(topic, JOHN, JANE)
        west.write(topic, LATER)
        in_the_west.wait([JOHN, JANE])
        in_the_east.wait([LATER])
        assert {int.from_bytes(value[1:5], "big") for value in east.encode(topic, JOHN)} == {
            int.from_bytes(value[1:5], "big") for value in west.encode(topic, LATER)
        }, "the same id at both sides"
        assert heliostat(config, "schemas", "status").returncode == 0
        for site, other in (("base", "west"), ("tucson", "east")):
            assert topics_of(sites.clusters[site], topic) == {topic: 1, f"{other}.{topic}": 1}
            names = {f"{topic}-value", f"{other}.{topic}-value"}
            assert subjects(sites.registries[site], topic) == names
        assert link.stop() == 0, link.text()


def test_three_sites_fill_one_topic_with_schemas(
    sites: Sites, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given one topic at three sites with schemas of their own / when all run into one / then one

    consumer decodes all records, by partitions of their sites.
    """
    sites.name(monkeypatch, **{name: name for name in SITES})
    config = example_config("three-sites", tmp_path)
    topic = "weather.wind"
    records = {"summit": JOHN, "base": JANE, "tucson": LATER}
    for site, partitions in (("summit", 1), ("base", 2), ("tucson", 1)):
        create_topic(sites.clusters[site], topic, partitions=partitions)
    with RunningLink(config) as link, sites.reader("central", topic) as reader, ExitStack() as all_:
        for site, record in records.items():
            schema = foo(site, "qux") if site == "tucson" else foo(site)
            writer = all_.enter_context(sites.writer(site, schema))
            writer.write(topic, record)
            if site == "base":
                writer.write(topic, JOHN, partition=1)
        reader.wait([JOHN], [JANE], [LATER], [], [JOHN])
        states = {row["link"]: row["state"] for row in said(config, "status")}
        assert set(states.values()) == {"running"}, states
        assert len(states) == 3
        assert heliostat(config, "schemas", "status").returncode == 0
        assert subjects(sites.registries["central"], topic) == {f"{topic}-value"}
        assert link.stop() == 0, link.text()
