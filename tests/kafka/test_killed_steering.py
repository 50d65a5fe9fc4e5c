"""`kill -9` of a link's driver and of `serve` while they carry out wishes and orders, on brokers.

Each step is killed in `tests/unit/link/test_killed_steering.py`; here two whole processes are.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.clusters import ClusterPair, create_topic, fresh_name, until
from support.command import heliostat
from support.links import LinkProcess, ends, kill, wait_level, write_config
from support.records import Sample, encode, write_everywhere
from support.served import Served
from support.steering_operator import Operator

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.long]

PARTITIONS = 2
KEY = {"Idempotency-Key": "one restart"}
DONE_WITHIN_S = 120.0


class Scene:
    """A link with one topic, and whoever answers for it."""

    def __init__(self, pair: ClusterPair, folder: Path) -> None:
        self.source, self.target = pair.source.bootstrap, pair.target.bootstrap
        self.topic = create_topic(pair.source, fresh_name("killed"), partitions=PARTITIONS)
        self.name = fresh_name("link")
        self.config = write_config(
            folder,
            self.source,
            self.target,
            name=self.name,
            topics={"include": [self.topic], "refresh_interval_s": 1},
            lanes={"lease_s": 5},
        )
        self.topics = {self.topic: PARTITIONS}

    def write(self) -> None:
        batch = encode([Sample(b"k", b"v", int(time.time() * 1000))])
        write_everywhere(self.source.split(","), self.topics, batch)

    def status(self) -> dict[str, Any]:
        [status] = heliostat(self.config, "status", "--json").json
        return dict(status)

    def orders(self) -> list[dict[str, Any]]:
        """Return the orders that the driver tells of."""
        return list(self.status()["driver"].get("wishes", {}).get("orders", []))

    @contextmanager
    def served(self) -> Iterator[Served]:
        made = Served(self.config)
        try:
            yield made
        finally:
            made.process.kill()
            made.process.communicate(timeout=15)

    def ask(self, served: Served, verb: str, wait_s: float = 0.0) -> dict[str, Any]:
        url = f"{served.url}api/v1/links/{self.name}/{verb}?wait_s={wait_s}"
        until(lambda: httpx.get(f"{served.url}api/v1/links/{self.name}").status_code == 200, "it")
        answer = httpx.post(url, headers=KEY, timeout=30)
        assert answer.status_code in {200, 202}, answer.text
        return dict(answer.json())


@pytest.fixture
def scene(cluster_pair: ClusterPair, tmp_path: Path) -> Scene:
    return Scene(cluster_pair, tmp_path)


def test_a_wish_and_an_order_outlive_the_driver_that_was_to_carry_them_out(scene: Scene) -> None:
    """Given a running link / when it is paused and restarted, and its driver killed at once / then

    the next one is paused, and the order was done once, or is told as cut short.
    """
    scene.write()
    with scene.served() as served:
        with LinkProcess(scene.config) as first:
            wait_level(first, scene.source, scene.target, scene.topics)
            scene.ask(served, "restart")
            scene.ask(served, "pause")
            first.kill_driver()
        scene.write()
        with LinkProcess(scene.config) as second:
            until(lambda: scene.status()["state"] == "paused", second.text, DONE_WITHIN_S)
            until(
                lambda: [each["stage"] for each in scene.orders()] in (["done"], ["cut_short"]),
                second.text,
                DONE_WITHIN_S,
            )
            again = scene.ask(served, "restart", wait_s=15)
            assert again["is_repeated"], again
            assert len(scene.orders()) == 1
            assert ends(scene.target, scene.topics)[scene.topic] == [1] * PARTITIONS
            scene.ask(served, "resume")
            wait_level(second, scene.source, scene.target, scene.topics)
            assert second.stop() == 0, second.text()


def test_a_wish_and_an_order_outlive_the_service_that_wrote_them(scene: Scene) -> None:
    """Given a running link / when `serve` is killed while it is asked / then who asks the next one

    again finds both done, and the order once.
    """
    scene.write()
    with LinkProcess(scene.config) as link:
        wait_level(link, scene.source, scene.target, scene.topics)
        for verb in ("restart", "pause"):
            with scene.served() as served:
                until(lambda s=served: s.answer(f"api/v1/links/{scene.name}")[0] == 200, link.text)
                asking = threading.Thread(target=_ask_in_vain, args=(scene, served, verb))
                asking.start()
                time.sleep(0.1)  # it may have written it, or not
                served.process.kill()
                asking.join()
            with scene.served() as served:
                told = scene.ask(served, verb, wait_s=15)
                assert told["is_done"], told
        assert len(scene.orders()) == 1, json.dumps(scene.orders())
        assert scene.orders()[0]["stage"] == "done"
        assert scene.status()["state"] == "paused"
        assert link.stop() == 0, link.text()


def test_an_operator_with_many_wishes_at_once_loses_no_record(scene: Scene) -> None:
    """Given a running link / when it is paused, limited, preferred, restarted, stopped and changed,

    and its workers and driver are killed meanwhile / then all is copied once nothing is wished.
    """
    scene.write()
    wished = {scene.name: (str(scene.topic), str(scene.topic))}
    with LinkProcess(scene.config) as first:
        wait_level(first, scene.source, scene.target, scene.topics)
        operator = Operator(scene.config, first.text, wished)
        operator.burden()
        kill(first.workers())
        scene.write()
        operator.stop_and_start()
        operator.change()
        operator.burden()
        first.kill_driver()
    scene.write()
    with LinkProcess(scene.config) as second:
        Operator(scene.config, second.text, wished).relieve()
        wait_level(second, scene.source, scene.target, scene.topics)
        assert ends(scene.target, scene.topics)[scene.topic] == [3] * PARTITIONS
        stages = {each["stage"] for each in scene.orders()}
        assert stages <= {"done", "cut_short"}, scene.orders()
        assert second.stop() == 0, second.text()


def _ask_in_vain(scene: Scene, served: Served, verb: str) -> None:
    with suppress(httpx.HTTPError, AssertionError):
        scene.ask(served, verb, wait_s=15)
