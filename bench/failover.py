"""`bench/compare failover`: the source is killed under load, and a group moves to the target.

A producer writes numbers at the source, a group reads them there, commits each second, and a
replicator publishes its offsets each 5 s. Then the source is killed. Ours is failed over by the
command of its users; MirrorMaker 2 has none, so its clients move at once. A producer goes on at the
target, and the group begins there. Measured from the kill: when the target takes the first new
record, and when the group reads the first one; of the old numbers, which the group reads again, and
which it never reads though the target has them. Ours is then switched, as planned, on clusters of
its own: MirrorMaker 2 has no such thing. It fails where a floor does not hold.
"""

from __future__ import annotations

import argparse
import json
import logging
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import live_main
import live_report
import machine
import ours
import peer
import report
from clusters import KAFKA_VERSION, Pair, create_topics, pair_of_clusters
from confluent_kafka import Consumer
from groups import OFTEN, PRECISE, SYNCED
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError, KafkaTimeoutError
from measure import Part, Tree, running
from rich.console import Console
from rich.table import Table

from heliostat_sandbox import find_java

SILENT = logging.getLogger("failover clients")
"""Clients whose cluster was killed say so each second."""
SILENT.addHandler(logging.NullHandler())
SILENT.propagate = False
NAME, PLANNED = "failover", "planned"
TOPIC, GROUP = "moved-live", "moved-readers"
PARTITIONS = 4
COMMIT_EVERY_MS = 1_000
POLL_MS, POLL_RECORDS = 100, 1_000
STOPS_S = 3.0
"""How long after a switch was begun its producer is stopped, and its group as long after that."""
ACCEPTED_WITHIN_S = 5.0
"""From the command to the first record that the target takes, where the link's owner answers."""
NEW = b"new"
"""Begins the value of a record that was written at the target."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """The load, how long it runs before the kill, and how long is waited afterwards."""

    rate: int = 2_000
    load_s: float = 90.0
    ready_s: float = 180.0
    moved_s: float = 180.0


SMALL = Scenario(rate=200, load_s=10.0)


class Writing:
    """Writes numbers at a rate until it is stopped, or its cluster is gone."""

    def __init__(self, bootstrap: str, topic: str, rate: int, prefix: bytes = b"") -> None:
        self._producer = KafkaProducer(bootstrap_servers=bootstrap.split(","), acks="all")
        self._topic, self._rate, self._prefix = topic, rate, prefix
        self._is_over = threading.Event()
        self.accepted_s: float | None = None
        """When the first record was acknowledged, by the monotonic clock."""
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        number, began_s = 0, time.monotonic()
        while not self._is_over.wait(0.005):
            while number < (time.monotonic() - began_s) * self._rate:
                value = self._prefix + b"%d" % number
                sent = self._producer.send(self._topic, value, partition=number % PARTITIONS)
                if self.accepted_s is None:
                    sent.add_callback(self._accept)
                number += 1

    def _accept(self, _: object) -> None:
        self.accepted_s = self.accepted_s or time.monotonic()

    def stop(self, *, is_dead: bool = False) -> None:
        """Stop; a dead cluster is not waited for."""
        self._is_over.set()
        self._thread.join()
        try:
            self._producer.close(timeout=0 if is_dead else 30)
        except KafkaTimeoutError:  # what a dead cluster has not taken is left
            if not is_dead:
                raise


class Reading:
    """A member of the group, which reads until it is stopped."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._bootstrap, self._topic = bootstrap, topic
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": GROUP,
                "auto.offset.reset": "earliest",
                "auto.commit.interval.ms": COMMIT_EVERY_MS,
                "logger": SILENT,
            }
        )
        self._consumer.subscribe([topic])
        self._is_over = threading.Event()
        self.numbers: list[int] = []
        self.read_ms: list[float] = []
        """When each was read, by the wall clock."""
        self.failure: Exception | None = None
        """What has ended its thread."""
        self.first_new_s: float | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._is_over.is_set():
                for message in self._consumer.consume(POLL_RECORDS, POLL_MS / 1000):
                    if message.error() is None:
                        self._take(message.value() or b"")
        except Exception as error:  # noqa: BLE001 - named where its reader is missed
            self.failure = error

    def await_new(self, within_s: float) -> str:
        """Wait for the first new record; return why none came, empty: one did."""
        until_s = time.monotonic() + within_s
        while self.first_new_s is None and self.failure is None and time.monotonic() < until_s:
            time.sleep(0.05)
        return "" if self.first_new_s is not None else self._trouble()

    def _trouble(self) -> str:
        """Return what is known of a reader that reads nothing new."""
        partitions = sorted(each.partition for each in self._consumer.assignment())
        words = [
            f"its thread {'runs' if self._thread.is_alive() else 'has ended'}"
            + (f" by {self.failure!r}" if self.failure else ""),
            f"it has partitions {partitions} of {self._topic}",
            f"it has read {len(self.numbers)} numbers",
        ]
        try:
            admin = KafkaAdminClient(bootstrap_servers=self._bootstrap.split(","))
            try:
                words.append(f"the group: {admin.describe_groups([GROUP])}")
            finally:
                admin.close()
        except KafkaError as error:
            words.append(f"the group can't be described: {error!r}")
        return "; ".join(words)

    def since(self, at_ms: float) -> int:
        """Return how many numbers were read from then on."""
        return sum(each >= at_ms for each in self.read_ms)

    def _take(self, value: bytes) -> None:
        if value.startswith(NEW):
            self.first_new_s = self.first_new_s or time.monotonic()
        else:
            self.numbers.append(int(value))
            self.read_ms.append(time.time() * 1000)

    def stop(self, *, is_dead: bool = False) -> None:
        """Stop; a dead cluster takes no last commit, and is not waited for."""
        self._is_over.set()
        self._thread.join()
        close = threading.Thread(target=self._consumer.close, daemon=True)
        close.start()
        if not is_dead:
            close.join()


@dataclass(slots=True)
class Moved:
    """What the move came to; times in seconds from the kill."""

    command_s: float | None = None
    said_again: int | None = None
    said_at_most: int | None = None
    published_ms: int | None = None
    """When the group's offsets were published last."""
    lines: list[str] = field(default_factory=list)


def run(given: argparse.Namespace, folder: Path) -> int:
    """Measure the requested parts, each on its own clusters, and report."""
    scenario = SMALL if given.small else Scenario()
    shape = {"rate": scenario.rate, "load_s": scenario.load_s, "partitions": PARTITIONS}
    results = live_report.earlier(given.json, shape) if given.json else {}
    about: dict[str, Any] = {}
    for name in (each for each in live_main.REPLICATORS if each in given.part):
        with pair_of_clusters(small=given.small) as pair:
            about = about or machine.describe(find_java(), KAFKA_VERSION, pair.logs)
            results[name] = {NAME: measured(name, scenario, pair, folder / name)}
        if name == "ours":
            with pair_of_clusters(small=given.small) as pair:
                results[name][PLANNED] = planned(scenario, pair, folder / PLANNED)
        live_main.note(f"{name}: {results[name]}")
        if given.json:
            parts = {part: {"cases": dict(cases)} for part, cases in results.items()}
            head = {"scenario": NAME, "shape": shape, "machine": about}
            report.write(given.json, {**head, **parts})
    show(results)
    lines = [line for name, blocks in results.items() for line in broken(name, blocks)]
    for line in lines:
        live_main.note(line)
    return 1 if lines else 0


def broken(name: str, blocks: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Name what did not end, and the floors that do not hold for ours."""
    lines = [
        f"{name}, {key}: it did not end: {block['why_not'] or 'see the replicator'}"
        for key, block in blocks.items()
        if not block["finished"]
    ]
    if name != "ours" or lines:
        return lines
    lost, moved = blocks[NAME], blocks[PLANNED]
    floors = {
        f"failover: {lost['skipped']} records were skipped": lost["skipped"] == 0,
        f"failover: of {lost['said_at_most']} records {lost['read_again']} were read again": (
            lost["read_again"] <= lost["said_at_most"]
        ),
        f"failover: {lost['read_again']} records were read again, and {lost['read_since']} were "
        "read since offsets were published": (
            lost["read_since"] is None or lost["read_again"] <= lost["read_since"]
        ),
        f"failover: {lost['begun_to_accepted_s']} s from the command to the first record": (
            lost["begun_to_accepted_s"] <= ACCEPTED_WITHIN_S
        ),
        f"switch: {moved['skipped']} records were skipped": moved["skipped"] == 0,
        f"switch: {moved['read_again']} records were read again": moved["read_again"] == 0,
    }
    return [line for line, holds in floors.items() if not holds]


def measured(name: str, scenario: Scenario, pair: Pair, folder: Path) -> dict[str, Any]:
    """Load, kill the source, move, and read what there is."""
    create_topics(pair.source, {TOPIC: PARTITIONS})
    part, mirror, file = replicator_of(name, pair, folder)
    with running(part) as process:
        tree = Tree(process.pid)
        writing = Writing(pair.source, TOPIC, scenario.rate)
        is_ready = wait_ready(pair.target, mirror, scenario.ready_s)
        there = Reading(pair.source, TOPIC)
        time.sleep(scenario.load_s)
        tree.look()
        killed_s = time.monotonic()
        pair.a.brokers[0].kill()
        writing.stop(is_dead=True)
        there.stop(is_dead=True)
        begun_s = time.monotonic()
        moved = fail_over(file, killed_s) if name == "ours" else Moved()
        more = Writing(pair.target, mirror, scenario.rate, NEW)
        here = Reading(pair.target, mirror)
        why_not = here.await_new(scenario.moved_s)
        time.sleep(2 * COMMIT_EVERY_MS / 1000)
        more.stop()
        here.stop()
    landed = numbers_of(pair.target, mirror)
    return {
        "finished": is_ready and not why_not,
        "why_not": why_not,
        "command_s": moved.command_s,
        "accepted_s": since(killed_s, more.accepted_s),
        "begun_to_accepted_s": since(begun_s, more.accepted_s),
        "first_new_s": since(killed_s, here.first_new_s),
        **read_twice(there, here, landed),
        "said_again": moved.said_again,
        "said_at_most": moved.said_at_most,
        "read_since": read_since(there, moved),
    }


def read_since(there: Reading, moved: Moved) -> int | None:
    """Return what was read at the source since its last published offset; None: not known.

    That offset is of the last commit before, which may be as old as the time between two.
    """
    if moved.published_ms is None:
        return None
    return there.since(moved.published_ms - COMMIT_EVERY_MS)


def read_twice(there: Reading, here: Reading, landed: set[int]) -> dict[str, int]:
    """Return what the group has read, at which side, and what of it never or again."""
    before, after = set(there.numbers), set(here.numbers)
    return {
        "read_at_source": len(there.numbers),
        "landed": len(landed),
        "read_again": len(before & after),
        "skipped": len(landed - before - after),
    }


def planned(scenario: Scenario, pair: Pair, folder: Path) -> dict[str, Any]:
    """Load, switch, stop producer and group as an operator does, and read what there is.

    Times are from when the producer was stopped.
    """
    create_topics(pair.source, {TOPIC: PARTITIONS})
    part, mirror, file = replicator_of("ours", pair, folder)
    with running(part):
        writing = Writing(pair.source, TOPIC, scenario.rate)
        is_ready = wait_ready(pair.target, mirror, scenario.ready_s)
        there = Reading(pair.source, TOPIC)
        time.sleep(scenario.load_s)
        words = ["switch", ours.LINK, "--yes", "-c", str(file)]
        command = [sys.executable, "-m", "heliostat.cli.entry", *words]
        began_s = time.monotonic()
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as verb:
            time.sleep(STOPS_S)
            writing.stop()
            stopped_s = time.monotonic()
            time.sleep(STOPS_S)
            there.stop()
            is_done = verb.wait(scenario.moved_s) == 0
        took_s = since(began_s, time.monotonic())
        more = Writing(pair.target, mirror, scenario.rate, NEW)
        here = Reading(pair.target, mirror)
        why_not = here.await_new(scenario.moved_s)
        more.stop()
        here.stop()
    return {
        "finished": is_ready and is_done and not why_not,
        "why_not": why_not,
        "command_s": took_s,
        "accepted_s": since(stopped_s, more.accepted_s),
        "first_new_s": since(stopped_s, here.first_new_s),
        **read_twice(there, here, numbers_of(pair.target, mirror)),
        "said_at_most": 0,
    }


def replicator_of(name: str, pair: Pair, folder: Path) -> tuple[Part, str, Path]:
    """Return the command to start, the mirror's name, and the folder's configuration."""
    if name == "ours":
        wanted = ours.config(*pair.ways(), [TOPIC])
        wanted["links"][0]["groups"] = {"sync": True, "include": [GROUP]}
        command = ours.command(folder, wanted)
        part = live_main.live_part(name, command, folder, signal.SIGTERM)
        return part, ours.PREFIX + TOPIC, folder / ours.CONFIG_FILE
    often = {"sync.group.offsets.interval.seconds": "5", **OFTEN}
    best = {**peer.CANDIDATES["2 tasks, 5 in flight"], **PRECISE} if name == "mm2_tuned" else {}
    properties = peer.properties(*pair.ways(), TOPIC, "none", best)
    command = peer.command(find_java(), folder, {**properties, **often, **best, **SYNCED})
    part = live_main.live_part(name, command, folder, signal.SIGKILL)
    return part, peer.target_topic(TOPIC), folder


def wait_ready(bootstrap: str, mirror: str, within_s: float) -> bool:
    """Wait until something of the topic is at the target."""
    until_s = time.monotonic() + within_s
    while time.monotonic() < until_s:
        if numbers_of(bootstrap, mirror, enough=1):
            return True
        time.sleep(1.0)
    return False


def fail_over(file: Path, killed_s: float) -> Moved:
    """Call the command that users call; return how long after the kill it had ended."""
    words = ["failover", ours.LINK, "--yes", "--json", "-c", str(file)]
    done = subprocess.run(
        [sys.executable, "-m", "heliostat.cli.entry", *words],
        capture_output=True,
        text=True,
        check=False,
    )
    took_s = round(time.monotonic() - killed_s, 2)
    if done.returncode != 0:
        raise SystemExit(f"heliostat failover: {done.stderr}")
    said = json.loads(done.stdout)
    again = [row["again"] for row in said["groups"]]
    known = None if None in again else sum(again)
    published = [row["published_ms"] for row in said["groups"]]
    at_most = sum(row["at_most"] for row in said["groups"])
    return Moved(took_s, known, at_most, min(published, default=None))


def numbers_of(bootstrap: str, topic: str, enough: int | None = None) -> set[int]:
    """Return the numbers of the source that a topic has, read without a group."""
    consumer = KafkaConsumer(bootstrap_servers=bootstrap.split(","), enable_auto_commit=False)
    try:
        partitions = [
            TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic) or ()
        ]
        numbers: set[int] = set()
        if not partitions:
            return numbers
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)
        ends = consumer.end_offsets(partitions)
        while any(consumer.position(each) < end for each, end in ends.items()):
            for records in consumer.poll(timeout_ms=POLL_MS).values():
                values = (record.value for record in records)
                numbers |= {int(value) for value in values if not value.startswith(NEW)}
            if enough is not None and len(numbers) >= enough:
                break
        return numbers
    finally:
        consumer.close()


def since(began_s: float, at_s: float | None) -> float | None:
    """Return the seconds between, to a hundredth."""
    return None if at_s is None else round(at_s - began_s, 2)


def show(results: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> None:
    """Print the table."""
    table = Table("part")
    keys = {
        "command_s": "command ended s",
        "accepted_s": "first accepted s",
        "begun_to_accepted_s": "from the command s",
        "first_new_s": "first new read s",
        "read_at_source": "read before",
        "read_again": "read again",
        "said_at_most": "said, at most",
        "skipped": "skipped",
    }
    for heading in keys.values():
        table.add_column(heading, justify="right")
    for name, blocks in results.items():
        for case, block in blocks.items():
            cells = [block.get(key) for key in keys]
            words = ("-" if cell is None else f"{cell:,}" for cell in cells)
            table.add_row(name if case == NAME else f"{name}, {case}", *words)
    Console(width=140).print(table)
