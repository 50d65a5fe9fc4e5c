"""The links of a process: those of its file and of its home, whichever changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from heliostat.config import Config, ConfigFile, LinkConfig, read_config_file
from heliostat.config.defined import with_definitions
from heliostat.definitions.definition import Definition, DefinitionKey, DefinitionKind
from heliostat.definitions.home_links import HomeLook
from heliostat.link.held_changes import NotInForce
from heliostat.link.links_in_force import LinksInForce
from heliostat.names import LinkName, Offset, TopicName
from heliostat.ops.events import Events

CLUSTERS = {"east": {"bootstrap": "e:1"}, "west": {"bootstrap": "w:1"}}
WAY = {"source": "east", "target": "west"}


class Running:
    """Notes which links are to run."""

    def __init__(self) -> None:
        self.runs: list[str] = []
        self.config: Config | None = None
        self.remarks: Mapping[LinkName, NotInForce] = {}
        self.told: list[tuple[str, str, bool]] = []
        """Of each line the link, the line, and whether the link ran then."""

    def change_to(self, config: Config, links: Sequence[LinkConfig]) -> None:
        self.config = config
        self.runs = [str(link.name) for link in links]

    def tell(self, link: LinkName, text: str) -> None:
        self.told.append((link, text, link in self.runs))

    def remark(self, remarks: Mapping[LinkName, NotInForce]) -> None:
        self.remarks = remarks

    def source_topics(self, _: LinkName) -> frozenset[TopicName]:
        return frozenset(TopicName(f"b{number}") for number in range(10))


class Scene:
    def __init__(self, folder: Path, only: str | None = None) -> None:
        self.path = folder / "heliostat.yaml"
        self.file = self.read("a")
        self.running, self.file_changes = Running(), 0
        self.events = Events(lambda: 0, None)
        self.definitions: dict[LinkName, dict[str, Any]] = {}
        self.rows: list[Definition] = []
        self.links = LinksInForce(
            self.file,
            self.file.config,
            self.running,  # type: ignore[arg-type]  # a part of it
            only,
            events=self.events,
            on_file=self.on_file,
        )

    def on_file(self) -> None:
        self.file_changes += 1

    def read(self, *names: str, sections: Any = None, **service: Any) -> ConfigFile:
        links = [{"name": name, **WAY, "topics": {"include": [f"{name}.*"]}} for name in names]
        content = {"clusters": CLUSTERS, "service": {"home": "west", **service}, "links": links}
        content |= sections or {}
        self.path.write_text(yaml.safe_dump(content))
        return read_config_file(self.path)

    def home(self, *names: str) -> None:
        self.definitions = {
            LinkName(name): {**WAY, "topics": {"include": [f"{name}.*"]}} for name in names
        }
        self.look()

    def look(self) -> None:
        """Look at the home, as its follower does when it or the file has changed."""
        file = self.links.file()
        rows = {row.key: row for row in self.rows}
        self.links.home_is(HomeLook(with_definitions(file, self.definitions), file, rows))

    def change(self, *names: str, is_confirmed: bool = False, **sections: Any) -> None:
        """Change the file, as far as it is in force for its own links."""
        file = self.read(*names, sections=sections)
        self.links.change_to(file.config, file, is_confirmed=is_confirmed)
        self.look()

    def say(self, by: str, why: str = "", name: str = "b", **kind: Any) -> None:
        """Have somebody have written the row of a link."""
        key = DefinitionKey(kind.get("kind", DefinitionKind.LINK), name)
        generation = Offset(len(self.rows))
        self.rows.append(Definition(key, {}, by, 1, why, kind.get("extra"), generation))

    def link(self, name: str = "b") -> LinkConfig:
        assert self.running.config is not None
        return self.running.config.link(name)

    def remark(self, name: str = "b") -> str:
        return "\n".join(self.running.remarks.get(LinkName(name), NotInForce()).lines)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_links_of_the_home_come_and_go_beside_those_of_the_file(scene: Scene) -> None:
    scene.home("b", "c")
    assert scene.running.runs == ["a", "b", "c"]
    scene.home("c")
    assert scene.running.runs == ["a", "c"]
    assert scene.file_changes == 0, "the service follows the home by itself"


def test_a_changed_file_ends_no_link_of_the_home(scene: Scene) -> None:
    scene.home("b")
    file = scene.read("a", "d")
    scene.links.change_to(file.config, file)
    assert scene.running.runs == ["a", "d", "b"]
    assert scene.running.config is not None
    assert {link.name for link in scene.running.config.links} == {"a", "b", "d"}
    assert scene.file_changes == 1
    scene.links.change_to(file.config, scene.read("a", "d"))
    assert scene.file_changes == 1, "the service has read the same already"


def test_a_link_that_the_file_has_too_is_the_files(scene: Scene) -> None:
    """Given a file that gets a link of the home's name / then it runs once, as the file has it."""
    scene.home("b")
    file = scene.read("a", "b")
    scene.links.change_to(file.config, file)
    assert scene.running.runs == ["a", "b"]
    scene.home("b")
    assert scene.running.runs == ["a", "b"]


def test_what_is_held_back_of_a_file_stays_beside_the_home(scene: Scene) -> None:
    """Given a held link that is gone from the file / when the home changes / then it runs on."""
    before = scene.file.config
    scene.links.change_to(before, scene.read("d"))
    scene.home("b")
    assert scene.running.runs == ["a", "b"]


def test_only_the_link_that_was_asked_for_runs(tmp_path: Path) -> None:
    scene = Scene(tmp_path, only="b")
    scene.home("b", "c")
    assert scene.running.runs == ["b"]


def test_another_home_needs_another_process(scene: Scene) -> None:
    file = scene.read("a", home="east")
    scene.links.change_to(file.config, file)
    assert scene.links.file().config.service.home == "west"


RESTARTS: dict[str, Any] = {"gaps": {"policy": "restart"}}
NARROWER: dict[str, Any] = {"topics": {"exclude": ["b[0-4]"]}}
MORE_LANES: dict[str, Any] = {"lanes": {"count": 7}}


def test_what_defaults_of_a_file_may_not_do_by_themselves_waits_for_links_of_the_home(
    scene: Scene,
) -> None:
    """Given defaults that exclude half of a link's topics, and would empty mirrors / when the file

    changes / then both wait, and are told; lanes change; a confirmation lets them take effect.
    """
    scene.home("b")
    scene.change("a", defaults={**RESTARTS, **NARROWER, **MORE_LANES})
    link = scene.link()
    assert (link.gaps.policy, link.topics.exclude, link.lanes.count) == ("stop", (), 7)
    for words in ("topics: the selection leaves 5 of 10 topics", "gaps: the policy restart"):
        assert words in scene.remark()
        assert words in "\n".join(scene.events.recent(9))
    assert not scene.remark("a")
    scene.change("a", is_confirmed=True, defaults={**RESTARTS, **NARROWER, **MORE_LANES})
    link = scene.link()
    assert (link.gaps.policy, link.topics.exclude) == ("restart", ("b[0-4]",))
    assert not scene.remark()


def test_a_confirmation_is_of_the_file_as_it_is_then(scene: Scene) -> None:
    """Given what is held, and a file without it / when that is confirmed / then it never was."""
    scene.home("b")
    scene.change("a", defaults=RESTARTS)
    file = scene.read("a", sections={"defaults": MORE_LANES})
    scene.links.change_to(file.config, file, is_confirmed=True)
    assert scene.link().gaps.policy == "stop"
    scene.look()
    assert (scene.link().gaps.policy, scene.link().lanes.count) == ("stop", 7)


def test_a_link_of_the_home_runs_on_without_its_cluster_in_the_file(tmp_path: Path) -> None:
    """Given a file that loses a cluster of a link of the home / then that runs on until confirmed,

    whatever else of the home changes; a link that is deleted ends all the same.
    """
    scene = Scene(tmp_path)
    scene.home("b", "c")
    fewer = {"west": {"bootstrap": "w:1"}, "north": {"bootstrap": "n:1"}}
    sections = {"clusters": fewer, "links": []}
    scene.change(**sections)
    assert scene.running.runs == ["b", "c"]
    assert scene.running.config is not None
    assert scene.running.config.clusters.keys() >= {"east", "west", "north"}
    assert "link b: by the file the link would end: source: no such cluster" in scene.remark("c")
    del scene.definitions[LinkName("c")]
    scene.definitions[LinkName("d")] = {**WAY, "source": "north"}
    scene.look()
    assert scene.running.runs == ["d", "b"]
    scene.change(is_confirmed=True, **sections)
    assert scene.running.runs == ["d"]
    assert not scene.remark("d")


def test_a_definition_changes_at_once_what_the_file_must_not(scene: Scene) -> None:
    """Given what of the file is held / when a definition is narrowed / then that takes effect,

    and nothing else of what is held does.
    """
    scene.home("b")
    scene.change("a", defaults=RESTARTS)
    scene.definitions[LinkName("b")] = {**WAY, "topics": {"include": ["b1"]}}
    scene.look()
    assert (scene.link().topics.include, scene.link().gaps.policy) == (("b1",), "stop")
    assert "gaps: the policy restart" in scene.remark()
    scene.definitions[LinkName("b")] |= {"gaps": {"policy": "continue"}}
    scene.look()
    assert scene.link().gaps.policy == "continue"
    assert not scene.remark()


def test_what_is_held_of_a_file_is_held_of_the_next_one(scene: Scene) -> None:
    scene.home("b")
    scene.change("a", defaults=RESTARTS)
    scene.change("a", defaults=RESTARTS | MORE_LANES)
    assert (scene.link().gaps.policy, scene.link().lanes.count) == ("stop", 7)
    scene.change("a", defaults=MORE_LANES)
    assert not scene.remark()


def test_who_changes_a_link_of_the_home_is_told_where_the_link_runs(scene: Scene) -> None:
    """Given links of a home / when they are made, changed and deleted / then each line is told

    of that link, with who and why, while it runs; what is there at first is no change.
    """
    scene.home("b")
    assert scene.running.told == []
    scene.say("ann", "more lanes")
    scene.definitions[LinkName("b")] |= {"lanes": {"count": 7}}
    scene.look()
    line = "link b: lanes.count auto → 7 (the link begins anew): ann wishes so, more lanes"
    assert scene.running.told == [("b", line, True)]
    scene.say("con", name="mirror", kind=DefinitionKind.CONNECTOR, extra={"link": "c"})
    scene.definitions[LinkName("c")] = dict(WAY)
    scene.look()
    assert scene.running.told[1:] == [("c", "link c begins: con wishes so", True)]
    scene.say("pam", name="heartbeat", kind=DefinitionKind.CONNECTOR)
    scene.definitions[LinkName("c")] |= {"groups": {"sync": True}}
    scene.look()
    assert scene.running.told[2][1].endswith("(while it copies): pam wishes so")
    scene.say("ben", "not needed")
    del scene.definitions[LinkName("b")]
    scene.look()
    line = "link b ends; its mirrors and its state stay: ben wishes so, not needed"
    assert scene.running.told[3:] == [("b", line, True)]


def test_what_a_file_changes_of_links_of_the_home_is_told_as_the_files(scene: Scene) -> None:
    scene.home("b")
    scene.change("a", "d", defaults=MORE_LANES)
    line = "link b: lanes.count auto → 7 (the link begins anew): as heliostat.yaml has it"
    assert scene.running.told == [("b", line, True)]
    scene.change("a", defaults=MORE_LANES | RESTARTS)
    assert len(scene.running.told) == 1, "it is held"
    scene.change("a", is_confirmed=True, defaults=MORE_LANES | RESTARTS)
    line = "link b: gaps.policy stop → restart (while it copies): as heliostat.yaml has it"
    assert scene.running.told[1:] == [("b", line, True)]
