"""The table of steps and faults of what moves a link: switch, way back, failover, tail rescue.

At a step of a verb the links' driver is killed, or a side's broker, or the verb itself before or
behind it; then the same command is called again until it is done. All else is as in life: a load,
a group, a source that is lost and comes back with a tail. A turn goes from one site to the other by
a switch, and home by a failover. The verb's own deaths, each by itself, are in tables without
brokers: `unit/handover/test_steps.py`, `unit/operate/test_promotion.py`,
`unit/operate/test_reverse_cut_short.py` and `unit/rescue/test_appending.py`.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer
from confluent_kafka import TopicPartition as KafkaPartition
from mutations.run import turn_of
from support.clusters import create_topic, fresh_name
from support.holes import transactions
from support.links import LinkProcess, ends, wait_for
from support.stopped_verb import MARK, steps_of

from heliostat.clusters.admin import ClusterAdmin, CommittedOffset
from heliostat.errors import BrokerError
from heliostat.names import GroupId, Offset, PartitionId, TopicPartition
from heliostat_sandbox import Cluster

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

DRIVER, SOURCE, TARGET, BOTH = "driver", "source", "target", "driver and source"
KILLS = (BOTH, TARGET)
"""In turns, from step to step and from commit to commit."""
SINGLE = (DRIVER, SOURCE, TARGET, "die before", "die behind")
VERBS = ("switch", "reverse", "failover", "tail", "reverse again")
"""In a turn; the last one makes a topic anew that has a tail."""
PARTS = (("switch",), ("failover", "tail", "reverse again"))
AWAY_S = 1.0
TRIES, TRY_AGAIN_S = 40, 1.0
Plan = dict[str, str]
"""The fault at each step; one that has been goes."""
Value = bytes | None


def verb_of(name: str) -> str:
    """Return the verb of a turn's part."""
    return name.split(maxsplit=1)[0]


def possible(name: str, faults: tuple[str, ...]) -> list[str]:
    """Return the faults that a verb can have: a failover's source is gone anyway."""
    if name != "failover":
        return [*faults]
    return [DRIVER if each == BOTH else each for each in faults if each != SOURCE]


def whole(turn: int) -> dict[str, Plan]:
    """Return plans with a kill at each step of a switch, or of the others; four turns have all.

    The next turn has the other kind there.
    """
    plans: dict[str, Plan] = {name: {} for name in VERBS}
    for name in PARTS[turn // len(KILLS) % len(PARTS)]:
        kinds = possible(name, KILLS)
        for number, step in enumerate(steps_of(verb_of(name))):
            plans[name][step] = kinds[(turn + number) % len(kinds)]
    return plans


def handful(turn: int) -> dict[str, Plan]:
    """Return plans with one fault each, others with each turn."""
    rng = random.Random(turn)
    return {
        name: {rng.choice(steps_of(verb_of(name))): rng.choice(possible(name, SINGLE))}
        for name in VERBS
    }


class Load:
    """A producer of numbers, until it is stopped; survives brokers that come back."""

    def __init__(self, bootstrap: str, topic: str, first: int) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
        self._topic, self.next = topic, first
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._is_over.wait(0.01):
            self._producer.produce(self._topic, str(self.next).encode(), partition=self.next % 2)
            self.next += 1
            self._producer.poll(0)

    def stop(self, *, lets_finish: bool = True) -> int:
        """Stop it; return the number after the last one. What is not sent may be left."""
        if self._thread.is_alive():
            self._is_over.set()
            self._thread.join()
            if lets_finish:
                assert self._producer.flush(60) == 0
            else:
                self._producer.purge()
        return self.next


class Scene:
    """Two sites of one broker, a link each way under way, a plain topic and one with holes."""

    def __init__(self, start_cluster: Callable[..., Cluster], folder: Path, offsets: str) -> None:
        self.sites = {name: start_cluster(name) for name in ("east", "west")}
        self.folder = folder
        prefix = fresh_name("step")
        east = self.sites["east"]
        self.plain = create_topic(east, f"{prefix}-plain", partitions=2)
        self.holed = create_topic(east, f"{prefix}-holed")
        self.group = GroupId(f"{prefix}-readers")
        self.file = folder / "both.yaml"
        links = [
            {
                "name": name,
                "source": source,
                "target": target,
                "topics": {
                    "include": [f"{prefix}-.*"],
                    "refresh_interval_s": 1,
                    "offsets": offsets,
                },
                "lanes": {"lease_s": 4},
                "groups": {"sync": True, "include": [self.group], "interval_s": 1},
            }
            for name, source, target in (("there", "east", "west"), ("home", "west", "east"))
        ]
        clusters = {name: {"bootstrap": [site.bootstrap]} for name, site in self.sites.items()}
        config = {"clusters": clusters, "spark": {"master": "local[4]"}, "links": links}
        self.file.write_text(yaml.safe_dump(config))
        self.driver = LinkProcess(self.file)
        self.rng = random.Random(7)
        self.number = 0
        self.had: list[tuple[str, str, str]] = []
        """Faults that have been: verb, step, kind."""
        self._back: list[threading.Thread] = []

    # -- faults ------------------------------------------------------------------------------------

    def fault(self, kind: str, source: str) -> None:
        """Kill the driver, or the broker of a side, which comes back after a while."""
        if DRIVER in kind:
            self.driver.kill_all()
            self.driver = LinkProcess(self.file)
        if kind == DRIVER:
            return
        site = source if SOURCE in kind else {"east": "west", "west": "east"}[source]
        [broker] = self.sites[site].brokers
        self.mend()  # it may be away still
        broker.kill()
        thread = threading.Thread(target=lambda: (time.sleep(AWAY_S), broker.start()))
        thread.start()
        self._back.append(thread)

    def mend(self) -> None:
        """Wait until all brokers are back."""
        while self._back:
            self._back.pop().join()

    def call(
        self, source: str, plan: Plan, *words: str, at: Mapping[str, Callable[[], object]] = {}
    ) -> None:
        """Call a verb until it is done, with a fault at each step of the plan.

        `at` has what is done before a step, once.
        """
        left, said = dict(at), ""
        for number in range(TRIES):
            code, said = self._called(source, plan, words, left, f"{words[0]}-{number}")
            if code == 0:
                self.mend()
                assert not plan, f"steps that were not reached: {plan}"
                return
            time.sleep(TRY_AGAIN_S)
        raise AssertionError(f"{words} is not done: {said}\n{self.driver.text()[-3000:]}")

    def _called(
        self,
        source: str,
        plan: Plan,
        words: tuple[str, ...],
        at: dict[str, Callable[[], object]],
        name: str,
    ) -> tuple[int, str]:
        command = [sys.executable, "-m", "support.stopped_verb", *words, "-c", str(self.file)]
        log = self.folder / f"{name}-{time.monotonic_ns()}.log"
        with (
            log.open("w") as errors,
            subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            ) as verb,
        ):
            assert verb.stdout is not None
            assert verb.stdin is not None
            other = []
            for line in verb.stdout:
                if not line.startswith(MARK):
                    other.append(line)
                    continue
                step, when = json.loads(line.removeprefix(MARK))
                if when == "before" and step in at:
                    at.pop(step)()
                verb.stdin.write(f"{self._at_step(source, plan, words[0], step, when)}\n")
                verb.stdin.flush()
        said = "".join(other) + log.read_text()
        print(time.strftime("%H:%M:%S"), *words[:2], verb.returncode, said[-600:])
        return verb.returncode, said

    def _at_step(self, source: str, plan: Plan, verb: str, step: str, when: str) -> str:
        kind = plan.get(step, "")
        if not kind or (when == "behind") != (kind == "die behind"):
            return "go"
        del plan[step]
        print(time.strftime("%H:%M:%S"), f"  {step}: {kind}")
        self.had.append((verb, step, kind))
        if kind.startswith("die"):
            return "die"
        self.fault(kind, source)
        return "go"

    # -- what is there -----------------------------------------------------------------------------

    def bootstrap(self, site: str) -> str:
        return self.sites[site].bootstrap

    def ends(self, site: str) -> dict[str, list[int]]:
        return ends(self.bootstrap(site), {self.plain: 2, self.holed: 1})

    def values(self, site: str, *topics: str) -> Counter[Value]:
        """Return what a reader of committed records sees of these topics, or of both."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap(site),
                "group.id": "nobody",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
            }
        )
        places = [(self.plain, 0), (self.plain, 1), (self.holed, 0)]
        wanted = [each for each in places if each[0] in (topics or (self.plain, self.holed))]
        seen, left = Counter[Value](), set(wanted)
        try:
            consumer.assign([KafkaPartition(*each, OFFSET_BEGINNING) for each in wanted])
            until_s = time.monotonic() + 30.0
            while left and time.monotonic() < until_s:
                message = consumer.poll(0.5)
                if message is None:
                    continue
                if message.error() is None:
                    seen[message.value()] += 1
                elif message.error().code() == KafkaError._PARTITION_EOF:
                    left.discard((message.topic(), message.partition()))
        finally:
            consumer.close()
        assert not left, f"not read to the end: {left}"
        return seen

    def write_once(self, site: str) -> None:
        """Write one number, as the first producer of a new primary."""
        producer = Producer({"bootstrap.servers": self.bootstrap(site)})
        producer.produce(self.plain, str(self.number).encode(), partition=0)
        assert producer.flush(30) == 0
        self.number += 1

    def commit(self, site: str) -> list[int]:
        """Let the group have read all that is there; return its offsets."""
        offsets = self.ends(site)[self.plain]
        rows = {
            TopicPartition(self.plain, PartitionId(n)): CommittedOffset(Offset(end))
            for n, end in enumerate(offsets)
        }

        def is_done() -> bool:
            [answers] = admin.commit_offsets({self.group: rows}).values()
            return not isinstance(answers, BrokerError) and set(answers.values()) == {None}

        with ClusterAdmin([self.bootstrap(site)]) as admin:
            wait_for("a commit", is_done, 60.0)
        return offsets

    def committed(self, site: str) -> list[int]:
        with ClusterAdmin([self.bootstrap(site)]) as admin:
            [rows] = admin.committed_offsets([self.group]).values()
        assert not isinstance(rows, BrokerError)
        return [int(row.offset) for _, row in sorted(rows.items())]

    def wait_level(self) -> None:
        """Wait until both sites have the same records."""
        wait_for("level", lambda: self.values("east") == self.values("west"), 120.0)

    # -- a turn ------------------------------------------------------------------------------------

    def turn(self, plans: Mapping[str, Plan]) -> None:
        """Switch from east to west, reverse, lose west, fail over, rescue its tail, and reverse."""
        transactions(self.bootstrap("east"), self.holed, self.rng, 6)
        self.switch(plans["switch"])
        self.write_once("west")
        self.call("west", plans["reverse"], "reverse", "there", "home", "--yes")
        self.wait_level()
        self.fail_over(plans["failover"])
        self.rescue(plans["tail"])
        words = ("reverse", "home", "there", "--tail", "recreate", "--yes")
        self.call("east", plans["reverse again"], *words)
        self.wait_level()
        assert self.ends("east")[self.plain] == self.ends("west")[self.plain]

    def switch(self, plan: Plan) -> None:
        before, first = self.values("east"), self.number
        load = Load(self.bootstrap("east"), self.plain, self.number)
        read_to: list[list[int]] = []

        def stop() -> None:
            self.mend()
            self.number = load.stop()
            read_to.append(self.commit("east"))

        words = ("--still-s", "1", "--watch-s", "1", "--lag-threshold", "100000")
        try:
            self.call("east", plan, "switch", "there", "--yes", *words, at={"still": stop})
        finally:
            load.stop()
        there = self.values("west")
        assert there == before + Counter(str(n).encode() for n in range(first, self.number))
        assert set(self.values("west", self.plain).values()) == {1}
        assert self.committed("west") == read_to[0], "no record is read again or skipped"

    def fail_over(self, plan: Plan) -> None:
        """Kill the source under load, and fail over what it has copied."""
        load = Load(self.bootstrap("west"), self.plain, self.number)
        time.sleep(1.0)
        read_to = self.commit("west")
        time.sleep(1.0)
        self.sites["west"].brokers[0].kill()
        self.number = load.stop(lets_finish=False)
        self.call("west", plan, "failover", "home", "--yes")
        assert all(
            place <= old for place, old in zip(self.committed("east"), read_to, strict=True)
        ), "no record is skipped"
        self.write_once("east")

    def rescue(self, plan: Plan) -> None:
        """Start the lost source again, and append what never crossed."""
        self.sites["west"].brokers[0].start()
        tail = self.values("west", self.plain) - self.values("east", self.plain)
        producer = Producer({"bootstrap.servers": self.bootstrap("west")})
        producer.produce(self.plain, str(self.number).encode(), partition=0)  # some in any case
        assert producer.flush(30) == 0
        tail[str(self.number).encode()] += 1
        self.number += 1
        before = self.values("east")
        self.call("west", plan, "tail", "append", "home", "--yes")
        assert self.values("east") - before == tail
        assert set(self.values("east", self.plain).values()) == {1}


@contextmanager
def running_scene(
    start_cluster: Callable[..., Cluster], folder: Path, offsets: str = "auto"
) -> Iterator[Scene]:
    scene = Scene(start_cluster, folder, offsets)
    try:
        yield scene
    finally:
        scene.mend()
        scene.driver.kill_all()


@pytest.mark.thorough
def test_one_fault_at_a_step_of_each_verb(
    start_cluster: Callable[..., Cluster], tmp_path: Path
) -> None:
    """Given a fault at a step of each verb, others with each commit, holes that are filled or not /

    when it is called until it is done / then each record is at both sides once, and the group skips
    none.
    """
    turn = turn_of()
    offsets = "exact" if turn % 2 else "auto"
    with running_scene(start_cluster, tmp_path, offsets) as scene:
        scene.turn(handful(turn))
        assert len(scene.had) == len(VERBS)
        if offsets == "exact":
            assert scene.ends("east") == scene.ends("west")


@pytest.mark.long
def test_each_kill_at_each_step_of_each_verb(
    start_cluster: Callable[..., Cluster], tmp_path: Path
) -> None:
    """Given driver and source, or the target, killed at every step of a switch or of the others /

    when each verb is called until it is done / then each record is at both sides once, and the
    group skips none. Four commits have the whole table.
    """
    plans = whole(turn_of())
    wanted = {(verb_of(name), step) for name, plan in plans.items() for step in plan}
    with running_scene(start_cluster, tmp_path) as scene:
        scene.turn(plans)
        assert {(verb, step) for verb, step, _ in scene.had} == wanted
