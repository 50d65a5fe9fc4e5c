"""The links of a process: those of its file and of its home, whichever changes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from heliostat.config import Config, LinkConfig, read_config_file
from heliostat.config.defined import with_definitions
from heliostat.link.links_in_force import LinksInForce
from heliostat.names import LinkName
from heliostat.ops.events import Events

CLUSTERS = {"east": {"bootstrap": "e:1"}, "west": {"bootstrap": "w:1"}}
WAY = {"source": "east", "target": "west"}


class Running:
    """Notes which links are to run."""

    def __init__(self) -> None:
        self.runs: list[str] = []
        self.config: Config | None = None

    def change_to(self, config: Config, links: Sequence[LinkConfig]) -> None:
        self.config = config
        self.runs = [str(link.name) for link in links]


class Scene:
    def __init__(self, folder: Path, only: str | None = None) -> None:
        self.path = folder / "heliostat.yaml"
        self.file = self.read("a")
        self.running, self.file_changes = Running(), 0
        self.links = LinksInForce(
            self.file,
            self.file.config,
            self.running,  # type: ignore[arg-type]  # a part of it
            only,
            events=Events(lambda: 0, None),
            on_file=self.on_file,
        )

    def on_file(self) -> None:
        self.file_changes += 1

    def read(self, *names: str, **service: Any) -> Any:
        links = [{"name": name, **WAY, "topics": {"include": [f"{name}.*"]}} for name in names]
        content = {"clusters": CLUSTERS, "service": {"home": "west", **service}, "links": links}
        self.path.write_text(yaml.safe_dump(content))
        return read_config_file(self.path)

    def home(self, *names: str) -> None:
        definitions = {
            LinkName(name): {**WAY, "topics": {"include": [f"{name}.*"]}} for name in names
        }
        self.links.home_is(with_definitions(self.links.file(), definitions))


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
