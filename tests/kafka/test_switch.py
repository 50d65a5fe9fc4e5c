"""A planned switch: each record is at the target once, and groups read none again."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from support.clusters import ClusterPair, create_topic, fresh_name
from support.links import RunningLink, ends, wait_for, write_config

from heliostat.config import load_config
from heliostat.errors import Refused
from heliostat.handover.desk import Compared, SwitchOptions
from heliostat.handover.run import Run, RunState, StepState
from heliostat.operate.switch import SwitchWish, last_run, plan_switch, switch

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.thorough]

PARTITIONS = 2
FAST = SwitchOptions(still_s=1.0, producers_s=20.0, watch_s=1.0)
WHOLE = replace(FAST, verify=Compared.ALL)


class Writing:
    """A producer that writes numbers until it is stopped."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "linger.ms": 5, "enable.idempotence": True}
        )
        self._topic = topic
        self._is_over = threading.Event()
        self.written = 0
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._is_over.wait(0.005):
            self._producer.produce(
                self._topic, str(self.written).encode(), partition=self.written % PARTITIONS
            )
            self.written += 1
            self._producer.poll(0)
        self._producer.flush(30)

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join()


def read_all(bootstrap: str, group: str, topic: str, *, at_least: int = 0) -> list[int]:
    """Read as a member of a group, commit, and return the numbers."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    numbers: list[int] = []
    until_s = time.monotonic() + 15.0
    while time.monotonic() < until_s and not 0 < at_least <= len(numbers):
        message = consumer.poll(0.2)
        if message is None or message.error():
            continue
        numbers.append(int(message.value() or b"-1"))
        until_s = time.monotonic() + 2.0
    if numbers:
        consumer.commit(asynchronous=False)
    consumer.close()
    return numbers


class Scene:
    """A link of one topic, whose groups are synced."""

    def __init__(self, pair: ClusterPair, folder: Path) -> None:
        self.source, self.target = pair.source.bootstrap, pair.target.bootstrap
        self.topic = create_topic(pair.source, fresh_name("switched"), partitions=PARTITIONS)
        self.group = fresh_name("readers")
        self.config_file = write_config(
            folder,
            self.source,
            self.target,
            topics={"include": [self.topic], "refresh_interval_s": 1},
            groups={"sync": True, "include": [self.group], "interval_s": 1},
        )
        self.config = load_config(self.config_file)
        [self.link] = self.config.links

    def wait_copying(self) -> None:
        """Wait until the link has copied something."""

        def is_copied() -> bool:
            return all(end > 0 for end in ends(self.target, {self.topic: PARTITIONS})[self.topic])

        wait_for("something is copied", is_copied, 90.0)

    def switch(self, options: SwitchOptions = FAST, **wished: bool) -> Run:
        wish = SwitchWish((self.topic,), options, "a test", **wished)
        return switch(self.config, self.link, wish, _print)


def _print(run: Run) -> None:
    step = next((each for each in run.steps if each.state is StepState.RUNNING), None)
    print(time.strftime("%H:%M:%S"), run.state, step and (step.name, step.text))


@pytest.fixture
def scene(cluster_pair: ClusterPair, tmp_path: Path) -> Scene:
    return Scene(cluster_pair, tmp_path)


def test_a_switch_moves_producers_and_groups(scene: Scene) -> None:
    """Given a producer and a group at the source / when the link is switched / then each record is

    at the target once, and the group reads none again.
    """
    with RunningLink(scene.config_file) as link:
        writing = Writing(scene.source, scene.topic)
        scene.wait_copying()
        first = read_all(scene.source, scene.group, scene.topic, at_least=100)
        threading.Timer(6.0, writing.stop).start()
        plan = plan_switch(scene.config, scene.link, SwitchWish((scene.topic,), FAST))
        assert plan.is_possible, plan.problems
        run = scene.switch(WHOLE)
        assert run.state is RunState.DONE, run
        more = Writing(scene.target, scene.topic)
        time.sleep(0.5)
        more.stop()
        then = read_all(scene.target, scene.group, scene.topic)
        every = read_all(scene.target, fresh_name("auditor"), scene.topic)
        link.kill_all()
    assert sorted(every) == sorted([*range(writing.written), *range(more.written)])
    assert sorted([*first, *then]) == sorted(every)


def test_a_writer_past_the_fence_sends_it_back_and_a_run_that_dies_is_carried_on(
    scene: Scene,
) -> None:
    """Given a producer that writes on / when the link is switched / then it is named, the run

    goes back and copying goes on; the next run, which is killed, waits for a transaction when it is
    carried on.
    """
    with RunningLink(scene.config_file) as link:
        writing = Writing(scene.source, scene.topic)
        scene.wait_copying()
        back = scene.switch(replace(FAST, producers_s=2.0))
        assert back.state is RunState.WENT_BACK
        still = back.step("still")
        assert still.state is StepState.FAILED
        assert re.search(rf"{scene.topic}-[01]: \d+ records came, by producer \d+", still.text)
        command = [sys.executable, "-m", "heliostat.cli.entry", "switch", "east-to-west", "--yes"]
        words = ["--topics", scene.topic, "--producers-wait", "300", "-c", str(scene.config_file)]
        with subprocess.Popen([*command, *words, "--still-s", "1"]) as process:
            wait_for("it waits for producers", lambda: _state_of(scene, "still"), 60.0)
            with pytest.raises(Refused, match="another process"):
                scene.switch()
            process.kill()
        begun = last_run(scene.config, scene.link)
        assert begun is not None
        assert begun.state is RunState.UNDER_WAY
        payments = Producer({"bootstrap.servers": scene.source, "transactional.id": scene.group})
        payments.init_transactions(30)
        payments.begin_transaction()
        payments.produce(scene.topic, b"-1", partition=0)
        payments.flush(30)
        threading.Timer(14.0, writing.stop).start()
        threading.Timer(16.0, payments.commit_transaction, (30,)).start()
        run = scene.switch()
        assert (run.id, run.state) == (begun.id, RunState.DONE)
        every = read_all(scene.target, fresh_name("auditor"), scene.topic)
        link.kill_all()
    assert sorted(every) == list(range(-1, writing.written))


def _state_of(scene: Scene, step: str) -> bool:
    run = last_run(scene.config, scene.link)
    return run is not None and run.step(step).state is StepState.RUNNING
