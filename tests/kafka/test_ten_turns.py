"""Switched and reversed ten times under load, Avro included: nothing is lost, nothing doubled."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import Consumer, Producer
from support.avro_clients import AvroReader, AvroWriter
from support.clusters import ClusterPair, create_topic, fresh_name
from support.links import RunningLink, ends, wait_for
from support.registry_double import RegistryDouble
from support.registry_server import RegistryServer
from support.toy import foo

from heliostat.clusters.admin import ClusterAdmin
from heliostat.config import Config, load_config
from heliostat.handover.desk import SwitchOptions
from heliostat.handover.run import RunState
from heliostat.names import GroupId
from heliostat.operate.reverse import reverse
from heliostat.operate.reversing.values import ReturnState
from heliostat.operate.switch import SwitchWish, plan_switch, switch
from heliostat_sandbox.registry import SandboxRegistry

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.long]

TURNS = 10
FAST = SwitchOptions(still_s=3.0, producers_s=60.0, watch_s=0.0)
WRITE_S = 2.0
SITES = ("east", "west")


class Load:
    """A producer of numbers, plain and as Avro, that runs until it is stopped."""

    def __init__(self, turns: Turns, site: str, number: int) -> None:
        self._turns = turns
        self._is_over = threading.Event()
        bootstrap = turns.sites[site]
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
        # Each turn registers a version of its own.
        fields = [f"f{each}" for each in range(number)]
        schema = foo(turns.avro, *fields)
        with AvroWriter(bootstrap, turns.registries[site], schema) as writer:
            self._values = writer
            self._encode(-1)
            self._thread = threading.Thread(target=self._run)
            self._thread.start()
            time.sleep(WRITE_S)
            self.stop()

    def _encode(self, number: int) -> bytes:
        [value] = self._values.encode(self._turns.avro, {"bar": str(number), "baz": 0.0})
        return value

    def _run(self) -> None:
        turns = self._turns
        while not self._is_over.wait(0.01):
            number = turns.written
            self._producer.produce(turns.plain, str(number).encode(), partition=number % 2)
            self._producer.produce(turns.avro, self._encode(number), partition=0)
            turns.written += 1
            self._producer.poll(0)
        assert self._producer.flush(30) == 0

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join()


class Turns:
    """Two clusters, a link each way under way, a plain topic and one of Avro."""

    def __init__(
        self, pair: ClusterPair, folder: Path, strategy: str, registries: dict[str, str]
    ) -> None:
        self.sites = {"east": pair.source.bootstrap, "west": pair.target.bootstrap}
        self.registries = registries
        prefix = fresh_name("turns")
        self.plain = create_topic(pair.source, f"{prefix}-plain", partitions=2)
        self.avro = create_topic(pair.source, f"{prefix}-avro")
        self.group = fresh_name("readers")
        self.names = {("east", "west"): fresh_name("there"), ("west", "east"): fresh_name("back")}
        self.written = 0
        self.file = folder / "both.yaml"
        clusters: dict[str, Any] = {
            name: {
                "bootstrap": site.split(","),
                "schema_registry": {"urls": registries[name]},
            }
            for name, site in self.sites.items()
        }
        links = [
            {
                "name": name,
                "source": way[0],
                "target": way[1],
                "topics": {"include": [f"{prefix}-.*"], "refresh_interval_s": 1},
                "lanes": {"lease_s": 5},
                "groups": {"sync": True, "include": [self.group], "interval_s": 1},
                "schemas": {"strategy": strategy, "interval_s": 1},
            }
            for way, name in self.names.items()
        ]
        config = {"clusters": clusters, "spark": {"master": "local[4]"}, "links": links}
        self.file.write_text(yaml.safe_dump(config))
        self.config: Config = load_config(self.file)
        self.odd: list[int] = []
        """Numbers that only the plain topic has."""
        self.seen: list[int] = []
        """What the group has read, in all turns and at both sides."""

    def turn(self, number: int) -> None:
        """Write where the primary is, switch to the other site, and reverse."""
        here, there = SITES[number % 2], SITES[1 - number % 2]
        links = {link.name: link for link in self.config.links}
        link, back = links[self.names[here, there]], links[self.names[there, here]]
        Load(self, here, number)
        self.seen += self.read(here, self.group)
        wish = SwitchWish((self.plain, self.avro), FAST, "a test")

        def is_possible() -> bool:
            """Whether the link has begun again, and has taken the topics over."""
            plan = plan_switch(self.config, link, wish)
            print(time.strftime("%H:%M:%S"), [each.text for each in plan.problems])
            return plan.is_possible

        wait_for("the link has taken over", is_possible)
        run = switch(self.config, link, wish)
        assert run.state is RunState.DONE, run
        self.written_at_once(there)
        for _ in range(30):  # until the registries' versions are level
            done = reverse(self.config, link, back, by="a test")
            states = {each.state for each in done.topics}
            if states <= {ReturnState.READY, ReturnState.DONE}:
                break
            time.sleep(1.0)
        assert states <= {ReturnState.READY, ReturnState.DONE}, list(done.describe())
        print(time.strftime("%H:%M:%S"), f"turn {number}", [*done.describe()])

    def written_at_once(self, site: str) -> None:
        """Write one record at the new primary before anything leads back."""
        producer = Producer({"bootstrap.servers": self.sites[site]})
        producer.produce(self.plain, str(self.written).encode(), partition=0)
        assert producer.flush(30) == 0
        self.odd.append(self.written)
        self.written += 1

    def read(self, site: str, group: str) -> list[int]:
        """Read the plain topic to its end as a member of a group, and commit."""
        settings = {"group.id": group, "auto.offset.reset": "earliest"}
        consumer = Consumer(
            {"bootstrap.servers": self.sites[site], "enable.auto.commit": False, **settings}
        )
        consumer.subscribe([self.plain])
        numbers: list[int] = []
        until_s = time.monotonic() + 20.0
        while time.monotonic() < until_s:
            message = consumer.poll(0.2)
            if message is None or message.error():
                continue
            numbers.append(int(message.value() or b"-1"))
            until_s = time.monotonic() + 2.0
        if numbers:
            consumer.commit(asynchronous=False)
        consumer.close()
        return numbers

    def check_avro(self, site: str) -> None:
        """Check that each Avro record can be decoded there, and is there once."""
        wanted = [each for each in range(self.written) if each not in self.odd]
        with AvroReader(self.sites[site], self.registries[site], self.avro) as reader:
            wait_for("all is read", lambda: len(reader.seen) >= len(wanted), 60.0)
            assert not reader.failures
            assert [int(each["bar"]) for each in reader.records()] == wanted

    def are_level(self) -> bool:
        topics = {self.plain: 2, self.avro: 1}
        east, west = (ends(self.sites[site], topics) for site in SITES)
        return east == west

    def offsets_of_group(self, site: str) -> dict[str, int]:
        with ClusterAdmin(self.config.clusters[site].access()) as admin:
            [rows] = admin.committed_offsets([GroupId(self.group)]).values()
        assert isinstance(rows, dict)
        return {str(partition): row.offset for partition, row in rows.items()}


@pytest.fixture
def registries(request: pytest.FixtureRequest) -> Iterator[tuple[str, dict[str, str]]]:
    """A strategy, and a registry for each site: real ones give ids of their own."""
    strategy: str = request.param
    with ExitStack() as stack:
        if strategy == "rewrite":
            real = [stack.enter_context(SandboxRegistry.start()) for _ in SITES]
            urls = [each.url for each in real]
        else:
            doubles = [stack.enter_context(RegistryServer(RegistryDouble())) for _ in SITES]
            urls = [each.url for each in doubles]
        yield strategy, dict(zip(SITES, urls, strict=True))


@pytest.mark.parametrize(
    ("registries", "count"), [("preserve", 2), ("rewrite", TURNS)], indirect=["registries"]
)
def test_turns_lose_and_double_nothing(
    cluster_pair: ClusterPair, tmp_path: Path, registries: tuple[str, dict[str, str]], count: int
) -> None:
    """Given a load, plain and as Avro, a new version of its schema each turn, and a group / when

    it is switched and reversed, ten times, while both links run / then each record is at both sides
    once, at equal offsets, decodable, and the group has read each once.
    """
    turns = Turns(cluster_pair, tmp_path, *registries)
    with RunningLink(turns.file) as links:
        for number in range(count):
            turns.turn(number)
        primary = SITES[count % 2]
        Load(turns, primary, count)
        turns.seen += turns.read(primary, turns.group)
        wait_for("both sides are level", turns.are_level, 120.0)
        for site in SITES:
            assert sorted(turns.read(site, fresh_name("auditor"))) == [*range(turns.written)]
            turns.check_avro(site)
        wait_for("published", lambda: len({*map(_shown, map(turns.offsets_of_group, SITES))}) == 1)
        assert sorted(turns.seen) == [*range(turns.written)]
        assert links.code is None


def _shown(offsets: dict[str, int]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(offsets.items()))
