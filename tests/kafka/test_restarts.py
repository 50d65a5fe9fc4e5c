"""Links begin anew as ordered and as they halted, and the target remembers it.

A link that halted for a topic of its own goes on once that is repaired and somebody says so.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from support.clusters import ClusterPair, create_topic, fresh_name, until
from support.command import heliostat
from support.links import RunningLink, wait_level, write_config
from support.records import Sample, encode, write_batches, write_everywhere

from heliostat.clusters.admin import ClusterAdmin
from heliostat.clusters.keyed_topic import KeyedTopic
from heliostat.errors import BrokerError
from heliostat.names import LinkName, TopicName
from heliostat.state_topics import wishes_topic
from heliostat.wishes.order import Order, begun_key
from heliostat.wishes.wish import Place

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.thorough]

PARTITIONS = 2


class Scene:
    """A link of its own with a topic."""

    def __init__(self, pair: ClusterPair, folder: Path) -> None:
        self.source, self.target = pair.source.bootstrap, pair.target.bootstrap
        self.topic = create_topic(pair.source, fresh_name("restarted"), partitions=PARTITIONS)
        self.topics = {self.topic: PARTITIONS}
        self.name = fresh_name("link")
        self.config = write_config(
            folder,
            self.source,
            self.target,
            name=self.name,
            topics={"include": [self.topic], "refresh_interval_s": 1},
            lanes={"count": 1},
        )
        self.write()

    def write(self) -> None:
        batch = encode([Sample(b"k", b"v", int(time.time() * 1000))])
        write_everywhere(self.source.split(","), self.topics, batch)

    def level(self, link: RunningLink) -> None:
        wait_level(link, self.source, self.target, self.topics)

    def restart(self, *words: str, code: int = 0) -> dict[str, Any]:
        answer = heliostat(self.config, "restart", self.name, "--json", *words)
        assert answer.returncode == code, answer.said
        told: dict[str, Any] = answer.json
        return told

    def status(self) -> dict[str, Any]:
        [status] = heliostat(self.config, "status", "--json").json
        return dict(status)


@pytest.fixture
def scene(cluster_pair: ClusterPair, tmp_path: Path) -> Scene:
    return Scene(cluster_pair, tmp_path)


def test_an_order_is_done_once_and_one_that_was_begun_elsewhere_is_not(scene: Scene) -> None:
    """Given a running link / when it is to restart / then all lanes begin anew and copying goes on;

    an order that another owner had begun is told as cut short.
    """
    wishes = KeyedTopic(scene.target.split(","), wishes_topic(LinkName(scene.name)))
    with RunningLink(scene.config) as link, wishes:
        scene.level(link)
        before = scene.status()["driver"]["generations"]
        tried = scene.restart("--dry-run")
        assert (tried["lanes"], tried["orders"]) == (1, [])
        told = scene.restart("--why", "a test", "--by", "ops")
        assert told["is_done"], told
        [order] = told["orders"]
        assert (order["stage"], order["by"]) == ("done", "ops")
        assert "1 lane began anew" in order["text"]
        print(f"restart: {told['took_s']} s")
        scene.write()
        scene.level(link)
        after = scene.status()["driver"]["generations"]
        assert after["0"] > before["0"]
        assert scene.restart("--topic", scene.topic)["orders"][0]["text"] == (
            "nothing of it was stopped"
        )
        begun = Order.new(Place(), "ops", 1)
        wishes.write_many(
            {
                begun_key(begun.order_id): {"instance": "another", "host": "there", "at_ms": 1},
                begun.key: begun.to_json(),
            }
        )
        until(lambda: "is not repeated (there)" in link.text(), link.text)
        stages = [each["stage"] for each in scene.status()["driver"]["wishes"]["orders"]]
        assert stages == ["done", "done", "cut_short"]
        assert scene.status()["driver"]["generations"] == after
        assert link.stop() == 0, link.text()
    waits = scene.restart("--wait", "1", code=1)
    assert "has no owner now" in waits["waits"]


def test_a_blocked_partition_is_tried_again_once_its_cause_is_gone(scene: Scene) -> None:
    """Given a record that is too large for its mirror / then its partition stays blocked, whoever

    restarts it; once the limit is raised a restart of the topic copies it, and lanes go on.
    """
    limit, large = "max.message.bytes", encode([Sample(b"k", bytes(2_000_000), 1)])
    with ClusterAdmin(scene.source.split(",")) as admin:
        admin.alter_configs({scene.topic: {limit: "3000000"}})
        until(lambda: _is_written(scene, large), "the broker takes it")
        admin.alter_configs({scene.topic: {limit: "1000000"}})
        with RunningLink(scene.config) as link:
            until(lambda: _codes(scene) == ["TOO_LARGE"], link.text)
            [order] = scene.restart("--topic", f"{scene.topic}-0", "--wait", "60")["orders"]
            assert order["text"] == "1 stopped partition is tried again"
            until(lambda: _codes(scene) == ["TOO_LARGE"], link.text)
            before = scene.status()["driver"]["generations"]
            admin.alter_configs({scene.topic: {limit: "3000000"}})
            until(lambda: _is_tried(scene) and _codes(scene) == [], link.text)
            scene.level(link)
            assert scene.status()["driver"]["generations"] == before
            assert link.stop() == 0, link.text()


def _is_written(scene: Scene, batch: bytes) -> bool:
    """Write a batch, once the broker has heard that it may be so large."""
    try:
        write_batches(scene.source.split(","), scene.topic, [batch])
    except BrokerError:
        return False
    return True


def _codes(scene: Scene) -> list[str]:
    return [each["code"] for each in scene.status()["problems"]]


def _is_tried(scene: Scene) -> bool:
    """Order it: the first one may come before the mirror's limit is raised."""
    told = scene.restart("--topic", scene.topic, "--wait", "60")
    return bool(told["is_done"])


def test_a_link_that_halted_rests_is_shown_and_goes_on_as_ordered(
    scene: Scene, cluster_pair: ClusterPair
) -> None:
    """Given a topic of its own that is none / then it halts, tries again at once, and rests;

    any machine is shown why; once the topic is repaired an order begins it again.
    """
    spoilt = TopicName(f"heliostat.{scene.name}.gaps")
    create_topic(cluster_pair.target, spoilt, configs={"cleanup.policy": "delete"})
    with RunningLink(scene.config) as link, ClusterAdmin(scene.target.split(",")) as admin:
        until(lambda: "(restart 2 of 7)" in link.text(), link.text)
        assert not link.has_ended
        until(lambda: scene.status()["state"] == "halted", link.text)
        status = scene.status()
        assert (status["restarts"]["code"], status["restarts"]["phase"]) == ("REFUSED", "waits")
        assert "it begins again in" in status["why_not_in_sync"][0]
        waits = scene.restart("--wait", "5", code=1)
        assert f"the link has halted: [REFUSED] topic {spoilt}" in waits["waits"]
        assert "begins again, as it was ordered" in link.text()
        admin.alter_configs({spoilt: {"cleanup.policy": "compact"}})
        told = scene.restart("--wait", "60")
        assert told["is_done"], told
        scene.level(link)
        status = scene.status()
        assert (status["state"], status["restarts"]["phase"]) == ("running", "runs")
        assert status["restarts"]["count"] == 0, "as it was ordered"
        assert status["restarts"]["total"] >= 3
        orders = [each["stage"] for each in status["driver"]["wishes"]["orders"]]
        assert orders == ["done", "done"], "the one that waited is done, too"
        assert link.stop() == 0, link.text()
