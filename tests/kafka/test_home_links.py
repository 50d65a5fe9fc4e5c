"""Links that are made by API: durable on the home, followed, changed and deleted; with brokers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.clusters import ClusterPair, create_topic, fresh_name, until
from support.command import heliostat
from support.links import RunningLink, wait_level
from support.records import Sample, encode, write_everywhere
from unit.status.test_truth import DRIVER

from heliostat.access import access_of
from heliostat.cli.main import run
from heliostat.clusters.admin import ClusterAdmin
from heliostat.clusters.keyed_topic import KeyedTopic
from heliostat.config import ConfigFile, read_config_file
from heliostat.config.defined import WholeConfig
from heliostat.definitions.follow import HomeFollower
from heliostat.errors import Refused
from heliostat.names import ClusterId, LinkName, TopicName
from heliostat.operate.link_definitions import (
    Asker,
    NoSuchLink,
    StaleGeneration,
    change_link,
    create_link,
    definition_of,
    list_definitions,
)
from heliostat.operate.link_removal import Removal, delete_link
from heliostat.state.link_state import LinkState
from heliostat.state_topics import (
    DEFINITIONS_TOPIC,
    DRIVER_KEY,
    progress_topic,
    wishes_topic,
)
from heliostat.topics.values import MirrorRecord

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.thorough]
ANN = Asker("ann", "a trial")


class Scene:
    """A file without links whose home is the target, and who follows it."""

    def __init__(self, pair: ClusterPair, folder: Path) -> None:
        self.target = pair.target.bootstrap.split(",")
        self.pair = pair
        path = folder / "heliostat.yaml"
        clusters = {
            "east": {"bootstrap": pair.source.bootstrap.split(",")},
            "west": {"bootstrap": self.target},
        }
        content = {"clusters": clusters, "service": {"home": "west"}, "links": []}
        path.write_text(yaml.safe_dump(content))
        self.file: ConfigFile = read_config_file(path)
        self.name = LinkName(fresh_name("home"))
        self.changes: list[WholeConfig] = []
        self.told: list[str] = []

    def link(self, *topics: str) -> dict[str, Any]:
        return {"source": "east", "target": "west", "topics": {"include": [*topics]}}

    def names(self) -> set[str]:
        return {link.name for link in self.changes[-1].config.links} if self.changes else set()

    def topics(self) -> set[TopicName]:
        with ClusterAdmin(access_of(self.target)) as admin:
            return {*admin.describe_topics()}


@pytest.fixture
def scene(cluster_pair: ClusterPair, tmp_path: Path) -> Iterator[Scene]:
    made = Scene(cluster_pair, tmp_path)
    follower = HomeFollower(
        lambda: made.file, lambda look: made.changes.append(look.whole), made.told.append
    )
    follower.start()
    yield made
    follower.stop()


def test_a_link_is_followed_from_its_beginning_to_its_end(scene: Scene) -> None:
    """Given who follows a home / when a link is made, changed and deleted / then it is told soon;

    who means another generation is refused, and garbage in the topic is told and ignored.
    """
    name, prefix = scene.name, fresh_name("wanted")
    made = create_link(scene.file, name, scene.link(f"{prefix}-a"), ANN)
    began_s = time.monotonic()
    until(lambda: name in scene.names(), "the link is known")
    assert time.monotonic() - began_s < 2.0
    with KeyedTopic(scene.target, DEFINITIONS_TOPIC) as topic:
        topic.write(f"link/{name}", {"content": "no map", "by": "eve", "at_ms": 1})
        topic.write("nothing", {"x": 1})
    until(lambda: any("is ignored" in text for text in scene.told), lambda: str(scene.told))
    assert definition_of(scene.file, name).generation == made.generation
    patch = {"topics": {"include": [f"{prefix}-b"]}}
    changed = change_link(scene.file, name, patch, ANN, is_whole=False, expected=made.generation)
    assert changed.notes == ()
    until(
        lambda: scene.changes[-1].config.link(name).topics.include == (f"{prefix}-b",),
        "the change is known",
    )
    with pytest.raises(StaleGeneration):
        change_link(scene.file, name, patch, ANN, is_whole=False, expected=made.generation)
    assert [link.name for link in list_definitions(scene.file).links if link.name == name]
    delete_link(scene.file, name, ANN, Removal(), expected=changed.generation)
    until(lambda: name not in scene.names(), "it is gone")
    with pytest.raises(NoSuchLink):
        definition_of(scene.file, name)


def test_topics_go_with_a_link_that_has_no_owner(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    """Given a link that has run / when it is deleted with all it has made / then its own topics go,

    and mirrors that are still those it made, once its driver is silent; nothing else does.
    """
    name, mirror, other = scene.name, fresh_name("mirror"), fresh_name("other")
    for topic in (mirror, other):
        create_topic(scene.pair.target, topic)
    create_link(scene.file, name, {**scene.link(mirror, other), "lanes": {"lease_s": 2}}, ANN)
    until(lambda: name in scene.names(), "the link is known")
    link = scene.changes[-1].config.link(name)
    with ClusterAdmin(access_of(scene.target)) as admin:
        ids = {each: row.topic_id for each, row in admin.describe_topics([mirror, other]).items()}
    with closing(LinkState(link, scene.file.config.clusters[link.target])) as state:
        state.ensure()
        records = {
            topic: MirrorRecord(topic, topic, None, found, ClusterId("c"), "earliest", 1)
            for topic, found in ((mirror, ids[mirror]), (other, ids[mirror]))
        }
        state.put_mirrors(records)
    with KeyedTopic(scene.target, wishes_topic(name)) as wishes:
        wishes.ensure(1)
    with KeyedTopic(scene.target, progress_topic(name)) as progress:
        now_ms = time.time_ns() // 1_000_000
        progress.write(DRIVER_KEY, {**DRIVER, "at_ms": now_ms, "state": "running"})
    removal = Removal(state=True, mirrors=True)
    with pytest.raises(Refused, match="still has an owner"):
        delete_link(scene.file, name, ANN, removal, within_s=0)
    until(lambda: name not in scene.names(), "nobody runs it any more")
    assert {mirror, wishes_topic(name)} <= scene.topics()
    words = ("links", "delete", name, "--state", "--mirrors", "-c", str(scene.file.path))
    assert run([*words, "--dry-run"]) == 0
    assert f"topic {mirror} would be deleted" in capsys.readouterr().out
    answer = delete_link(scene.file, name, ANN, removal)
    assert answer.topics[0] == mirror
    assert answer.notes == (f"{other} stays: it can't be shown to be the topic that the link made",)
    until(lambda: mirror not in scene.topics(), "the mirror is gone")
    assert other in scene.topics()
    assert not [topic for topic in scene.topics() if topic.startswith(f"heliostat.{name}.")]
    with pytest.raises(NoSuchLink):
        delete_link(scene.file, name, ANN, removal)


def test_verbs_and_a_run_know_the_links_of_the_home(scene: Scene) -> None:
    """Given a link that is in no file / then it is paused before it ever ran, run, and seen."""
    topic = create_topic(scene.pair.source)
    words = {"include": [topic], "refresh_interval_s": 1}
    content = {**scene.link(), "topics": words, "lanes": {"lease_s": 5}}
    create_link(scene.file, scene.name, content, ANN)
    paused = heliostat(scene.file.path, "pause", scene.name, "--wait", "0")
    assert paused.returncode == 1, paused.said
    assert "has no owner now" in paused.stdout
    [status] = heliostat(scene.file.path, "status", "--link", scene.name, "--json").json
    assert (status["state"], status["wish"]["state"]) == ("unknown", "paused")
    assert "has no owner now" in status["wish_waits"]
    only = scene.file.path.read_text().replace(
        "links: []", "links: []\nspark: {master: 'local[3]'}"
    )
    scene.file.path.write_text(only)
    batch = encode([Sample(b"k", b"v", time.time_ns() // 1_000_000)])
    write_everywhere(scene.pair.source.bootstrap.split(","), {topic: 1}, batch)
    with RunningLink(scene.file.path, only=scene.name) as link:
        until(lambda: state_of(scene) == "paused", link.text)
        resumed = heliostat(scene.file.path, "resume", scene.name, "--json", "--wait", "90")
        assert resumed.json["is_done"], resumed.said
        wait_level(
            link, *(each.bootstrap for each in (scene.pair.source, scene.pair.target)), {topic: 1}
        )
        listing = heliostat(scene.file.path, "links", "list", "--json").json
        [row] = [row for row in listing["items"] if row["name"] == scene.name]
        assert (row["state"], row["origin"], row["owner"] != "") == ("running", "home", True)
        assert link.stop() == 0, link.text()
    delete_link(scene.file, scene.name, ANN, Removal(state=True, mirrors=True))


def test_a_run_takes_part_in_links_that_come_change_and_go(scene: Scene) -> None:
    """Given a run without links / when one is made, changed, deleted by others / then it follows;

    what the link has made goes with it once it has let it go.
    """
    source, target = (each.bootstrap for each in (scene.pair.source, scene.pair.target))
    first, second = create_topic(scene.pair.source), create_topic(scene.pair.source)
    text = scene.file.path.read_text()
    scene.file.path.write_text(f"{text}spark: {{master: 'local[3]'}}\n")
    batch = encode([Sample(b"k", b"v", time.time_ns() // 1_000_000)])
    write_everywhere(source.split(","), {first: 1, second: 1}, batch)
    with RunningLink(scene.file.path, only=scene.name) as link:
        words = {"include": [first], "refresh_interval_s": 1}
        content = {**scene.link(), "topics": words, "lanes": {"lease_s": 5}}
        create_link(scene.file, scene.name, content, ANN)
        wait_level(link, source, target, {first: 1})
        patch = {"topics": {"include": [first, second]}}
        change_link(scene.file, scene.name, patch, ANN, is_whole=False)
        wait_level(link, source, target, {second: 1})
        answer = delete_link(scene.file, scene.name, ANN, Removal(state=True, mirrors=True))
        assert {first, second} < {*answer.topics}
        assert link.code is None, link.text()
        until(lambda: not {first, second} & scene.topics(), "the mirrors are gone")
        assert not [each for each in scene.topics() if each.startswith(f"heliostat.{scene.name}.")]
        assert link.stop() == 0, link.text()


def state_of(scene: Scene) -> str:
    [status] = heliostat(scene.file.path, "status", "--link", scene.name, "--json").json
    return str(status["state"])
