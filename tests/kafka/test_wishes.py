"""What operators wish of a running link: carried out soon, kept through restarts, on any machine.

Topics are paused one by one, a mapped one among them, and the link as a whole, while records come;
at the end each record is at the target once.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from support.clusters import ClusterPair, create_topic, fresh_name, until
from support.command import Answer, heliostat
from support.links import RunningLink, ends, ends_or_errors, wait_level, write_config
from support.records import Sample, encode, write_everywhere, write_marked

from heliostat.clusters.keyed_topic import KeyedTopic
from heliostat.names import LinkName, TopicName
from heliostat.state_topics import wishes_topic

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.thorough]

PARTITIONS = 2
DONE_WITHIN_S = 5.0
"""Two are asked for; a test's machine does other things, too."""


class Scene:
    """A link of its own with three topics; the last one's mirror has a map."""

    def __init__(self, pair: ClusterPair, folder: Path) -> None:
        self.source, self.target = pair.source.bootstrap, pair.target.bootstrap
        self.cluster, self.prefix = pair.source, fresh_name("wished")
        self.plain, self.other = (
            create_topic(pair.source, f"{self.prefix}-{letter}", partitions=PARTITIONS)
            for letter in "ab"
        )
        self.mapped = create_topic(pair.source, f"{self.prefix}-mapped")
        write_marked(self.source.split(","), self.mapped, 3)
        self.topics = {self.plain: PARTITIONS, self.other: PARTITIONS}
        self.name = fresh_name("link")
        self.config = write_config(
            folder,
            self.source,
            self.target,
            name=self.name,
            topics={"include": [rf"{self.prefix}-.*"], "refresh_interval_s": 1},
        )
        self.write()

    def write(self, *topics: TopicName) -> None:
        """Write a record into each partition of topics, of both plain ones by default."""
        batch = encode([Sample(b"k", b"v", int(time.time() * 1000))])
        chosen = {topic: self.topics[topic] for topic in topics or self.topics}
        write_everywhere(self.source.split(","), chosen, batch)

    def wish(self, verb: str, *words: str) -> dict[str, Any]:
        answer = heliostat(self.config, verb, self.name, "--json", *words)
        assert answer.returncode == 0, answer.said
        told: dict[str, Any] = answer.json
        assert told["is_done"], told
        assert told["took_s"] < DONE_WITHIN_S, told
        return told

    def status(self) -> dict[str, Any]:
        [status] = heliostat(self.config, "status", "--json").json
        return dict(status)

    def topic(self, name: TopicName) -> dict[str, Any]:
        """Return its row of the status, once it is reported."""
        rows: list[dict[str, Any]] = []

        def is_there() -> bool:
            rows[:] = [row for row in self.status()["topics"] if row["source"] == name]
            return bool(rows)

        until(is_there, f"{name} is reported")
        return dict(rows[0])

    def at_target(self, topic: TopicName) -> Mapping[str, Any]:
        return ends(self.target, {topic: self.topics.get(topic, 1)})[topic]


@pytest.fixture
def scene(cluster_pair: ClusterPair, tmp_path: Path) -> Scene:
    return Scene(cluster_pair, tmp_path)


def test_topics_rest_and_go_on_beside_others(scene: Scene) -> None:
    """Given a link with records / when topics are paused / then others go on in the same rounds,

    the lag of those is told, and all is copied once they are resumed.
    """
    with RunningLink(scene.config) as link:
        wait_level(link, scene.source, scene.target, scene.topics)
        until(lambda: scene.topic(scene.mapped)["mapped"] == 1, "the map is told")
        before = scene.status()["driver"]["generations"]
        for topic in (scene.plain, scene.mapped):
            told = scene.wish("pause", "--topic", topic, "--why", "a test")
            assert told["places"] == told["changed"] == [topic]
        ended = scene.at_target(scene.plain), scene.at_target(scene.mapped)
        scene.write()
        write_marked(scene.source.split(","), scene.mapped, 2)
        wait_level(link, scene.source, scene.target, {scene.other: PARTITIONS})
        until(lambda: scene.topic(scene.plain)["lag_records"] == PARTITIONS, "its lag is told")
        row = scene.topic(scene.plain)
        assert row["states"] == {"paused": PARTITIONS}
        assert row["lag_s"] is not None
        assert (scene.at_target(scene.plain), scene.at_target(scene.mapped)) == ended
        status = scene.status()
        assert (status["state"], status["paused_count"]) == ("running", 2)
        assert status["paused"][0]["why"] == "a test"
        assert scene.wish("resume")["still_paused"] == sorted([scene.plain, scene.mapped])
        for topic in (scene.plain, scene.mapped):
            scene.wish("resume", "--topic", topic)
        wait_level(link, scene.source, scene.target, scene.topics)
        until(lambda: scene.topic(scene.mapped)["lag_records"] == 0, "the mapped one is level")
        after = scene.status()["driver"]["generations"]
        assert after.items() <= before.items(), "a round began anew; a lane may go by its load"
        assert link.stop() == 0, link.text()


def test_a_link_rests_stops_and_goes_on_whoever_runs_it(scene: Scene) -> None:
    """Given a paused link / then it rests under the next driver, too; stopped, nothing is changed;

    what is wished of a link without a driver waits, and garbage among the wishes is told.
    """
    with RunningLink(scene.config) as link:
        wait_level(link, scene.source, scene.target, scene.topics)
        scene.wish("pause", "--why", "the disk is full", "--by", "ops")
        assert link.stop() == 0, link.text()
    ended = {topic: scene.at_target(topic) for topic in scene.topics}
    scene.write()
    waiting: Answer = heliostat(scene.config, "pause", scene.name, "--topic", scene.other)
    assert waiting.returncode == 1, waiting.said
    assert "has no owner now" in waiting.stdout
    assert scene.status()["state"] == "no_owner"
    topic = KeyedTopic(scene.target.split(","), wishes_topic(LinkName(scene.name)))
    with topic:
        topic.write("state/x/y/z", {"state": "paused"})
        topic.write("state", {"state": "gone"})
    with RunningLink(scene.config) as link:
        until(lambda: scene.status()["state"] == "paused", link.text)
        status = scene.status()
        assert status["wish"]["by"] == "ops"
        assert any("ops wishes, the disk is full" in why for why in status["why_not_in_sync"])
        assert "is ignored" in link.text()
        scene.wish("stop")
        create_topic(scene.cluster, f"{scene.prefix}-new")
        time.sleep(3.0)  # three reconciliations that must not be
        assert scene.status()["state"] == "stopped"
        assert [scene.topic(each)["lag_records"] for each in scene.topics] == [PARTITIONS] * 2
        assert {each: scene.at_target(each) for each in scene.topics} == ended
        assert ends_or_errors(scene.target, {f"{scene.prefix}-new": 1}) != {
            f"{scene.prefix}-new": [0]
        }
        assert scene.wish("start")["still_paused"] == [scene.other]
        wait_level(link, scene.source, scene.target, {scene.plain: PARTITIONS})
        assert scene.at_target(scene.other) == ended[scene.other]
        until(lambda: scene.topic(scene.other)["partitions"] == PARTITIONS, "both are reported")
        scene.wish("resume", "--topic", f"{scene.other}-0")
        scene.wish("resume", "--topic", scene.other)
        wait_level(link, scene.source, scene.target, scene.topics)
        assert link.stop() == 0, link.text()
