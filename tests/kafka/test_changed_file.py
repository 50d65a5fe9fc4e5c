"""The configuration file of running links: what changes takes effect, and disturbs nothing else."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.clusters import ClusterPair, create_topic, fresh_name, until
from support.links import RunningLink, wait_level, write_config
from support.records import Sample, encode, write_everywhere

from heliostat.names import TopicName

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.thorough]

PARTITIONS = 2


class Scene:
    """A process with a link of one topic, of three that its source has, and its file."""

    def __init__(self, pair: ClusterPair, folder: Path) -> None:
        self.source, self.target = pair.source.bootstrap, pair.target.bootstrap
        prefix = fresh_name("changed")
        self.first, self.further, self.other = (
            create_topic(pair.source, f"{prefix}-{letter}", partitions=PARTITIONS)
            for letter in "abc"
        )
        self.config = write_config(
            folder,
            self.source,
            self.target,
            name=fresh_name("link"),
            topics={"include": [self.first], "refresh_interval_s": 60},
        )
        self.given: dict[str, Any] = yaml.safe_load(self.config.read_text())
        [self.link] = self.given["links"]
        self.process: RunningLink

    def save(self, *links: dict[str, Any]) -> None:
        """Write the file anew, as an editor does."""
        fresh = self.config.with_suffix(".new")
        fresh.write_text(yaml.safe_dump({**self.given, "links": list(links)}))
        fresh.replace(self.config)

    def copy(self, *topics: TopicName) -> None:
        """Write a record into each partition of topics, and wait until it is copied."""
        batch = encode([Sample(b"k", b"v", int(time.time() * 1000))])
        partitions = dict.fromkeys(topics, PARTITIONS)
        write_everywhere(self.source.split(","), partitions, batch)
        wait_level(self.process, self.source, self.target, partitions)

    def driver(self, link: int = 0) -> dict[str, Any]:
        """Return the newest report of a link's driver."""
        assert self.process.running is not None
        return dict(self.process.running.statuses()[link].driver)

    def rounds(self) -> dict[str, int]:
        """Return the generation of each lane's round; none: it has not reported yet."""
        return dict(self.driver().get("generations", {}))

    def loops(self) -> set[str]:
        return {str(loop["name"]).rpartition(" ")[2] for loop in self.driver()["loops"]}

    def notes(self, link: int = 0) -> str:
        return "\n".join(self.driver(link)["notes"])

    def says(self, words: str) -> None:
        until(lambda: words in self.process.text(), words)


def test_a_file_changes_while_its_links_copy(cluster_pair: ClusterPair, tmp_path: Path) -> None:
    """Given a running link / when its file changes / then what it says is done, beside its rounds:

    a further topic, groups and another pace; an invalid file changes nothing; a further link comes,
    and goes only once a person has confirmed it.
    """
    scene = Scene(cluster_pair, tmp_path)
    with RunningLink(scene.config, follows_file=True) as process:
        scene.process = process
        scene.copy(scene.first)
        until(scene.rounds, "rounds are told")
        rounds = scene.rounds()
        topics = {"include": [scene.first, scene.further], "refresh_interval_s": 50}
        wider = {**scene.link, "topics": topics, "groups": {"sync": True}}
        scene.save(wider)
        scene.copy(scene.first, scene.further)
        scene.says(f"topics.include +{scene.further} (while it copies)")
        until(lambda: "groups" in scene.loops(), "groups are synced")
        scene.save({**wider, "lanes": {"count": 0}})
        scene.says("is refused and changes nothing: links[0].lanes.count")
        until(lambda: "lanes.count" in scene.notes(), "the status says so")
        second = {**scene.link, "name": fresh_name("second"), "topics": {"include": [scene.other]}}
        scene.save(wider, second)
        scene.copy(scene.other)
        until(lambda: "lanes.count" not in scene.notes(), "the file is well again")
        scene.save(wider)
        scene.says("the link is gone from the file: held back")
        scene.copy(scene.other)
        until(lambda: "send SIGHUP to apply" in scene.notes(1), "the status says so")
        process.confirm.set()
        scene.says(f"link {second['name']} ends")
        until(lambda: len(process.running.kept) == 1 if process.running else False, "it has ended")
        scene.copy(scene.first, scene.further)
        until(lambda: rounds.items() <= scene.rounds().items(), process.text)
        scene.save({**wider, "groups": {"sync": False}, "records": {"join_below_bytes": 0}})
        scene.says("records.join_below_bytes 262144 → 0 (the link begins anew)")
        scene.copy(scene.first, scene.further)
        until(lambda: scene.rounds() and scene.rounds() != rounds, "it began anew")
        assert "groups" not in scene.loops()
        assert process.stop() == 0, process.text()
