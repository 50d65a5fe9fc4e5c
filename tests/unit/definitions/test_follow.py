"""The home is followed: changes are told, a bad one changes nothing, a dead home stops nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from support.home import HomeLog, MemoryBook

from heliostat.config import ConfigFile, read_config_file
from heliostat.config.defined import WholeConfig
from heliostat.definitions import follow
from heliostat.definitions.definition import LEAVING, Definition, DefinitionKey, DefinitionKind
from heliostat.definitions.definition_book import DefinitionBook
from heliostat.definitions.follow import HomeFollower
from heliostat.errors import ConnectionLost

TEXT = """
clusters:
  summit: {bootstrap: ["127.0.0.1:9092"]}
  usdf: {bootstrap: ["127.0.0.1:9192"]}
service: {home: usdf}
links: [{name: one, source: summit, target: usdf, topics: {include: [a]}}]
"""
TWO: dict[str, Any] = {"source": "summit", "target": "usdf", "topics": {"include": ["b"]}}


class Scene:
    """A follower of a home in memory."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "heliostat.yaml"
        self.path.write_text(TEXT)
        self.file: ConfigFile = read_config_file(self.path)
        self.log = HomeLog()
        self.told: list[str] = []
        self.changes: list[WholeConfig] = []
        self.follower = HomeFollower(
            lambda: self.file,
            lambda look: self.changes.append(look.whole),
            self.told.append,
            lambda *_: cast("DefinitionBook", MemoryBook(self.log)),
        )

    def write(self, name: str, content: dict[str, Any] | None, **extra: Any) -> None:
        key = DefinitionKey(DefinitionKind.LINK, name)
        row = None if content is None else Definition(key, content, "ann", 5, extra=extra)
        self.log.append(key, row)

    def names(self) -> list[str]:
        links = (self.changes[-1].config if self.changes else self.file.config).links
        return [link.name for link in links]


@contextmanager
def followed(scene: Scene) -> Iterator[None]:
    scene.follower.start()
    try:
        yield
    finally:
        scene.follower.stop()


def wait(condition: Callable[[], bool]) -> None:
    until_s = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < until_s
        time.sleep(0.005)


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    monkeypatch.setattr(follow, "AGAIN_S", 0.01)
    return Scene(tmp_path)


def test_links_come_change_and_go(scene: Scene) -> None:
    scene.write("two", TWO)
    with followed(scene):
        wait(lambda: scene.names() == ["one", "two"])
        scene.write("two", {**TWO, "topics": {"include": ["c"]}})
        wait(lambda: scene.changes[-1].config.link("two").topics.include == ("c",))
        scene.write("three", TWO, **{LEAVING: {}})
        scene.write("two", None)
        wait(lambda: scene.names() == ["one"])
    assert scene.told == []


def test_a_bad_change_of_a_link_changes_nothing_and_is_told(scene: Scene) -> None:
    scene.write("two", TWO)
    with followed(scene):
        wait(lambda: scene.names() == ["one", "two"])
        scene.write("two", {**TWO, "target": "moon"})
        scene.write("bad", {"target": "moon"})
        wait(lambda: len(scene.told) == 2)
        assert scene.names() == ["one", "two"]
        assert scene.changes[-1].config.link("two").target == "usdf"
        assert {*scene.changes[-1].waits} == {"two", "bad"}
        assert "link two of the home waits: target: no such cluster" in scene.told[0]
        scene.write("two", TWO)
        wait(lambda: {*scene.changes[-1].waits} == {"bad"})
    assert len(scene.told) == 2


def test_a_home_that_is_away_stops_nothing_and_is_told_once(scene: Scene) -> None:
    scene.write("two", TWO)
    with followed(scene):
        wait(lambda: scene.names() == ["one", "two"])
        scene.log.lost = ConnectionLost("it is dead")
        wait(lambda: len(scene.told) == 1)
        time.sleep(0.05)  # some tries
        assert scene.names() == ["one", "two"]
        scene.write("three", {**TWO, "topics": {"include": ["c"]}})
        scene.log.lost = None
        wait(lambda: scene.names() == ["one", "two", "three"])
    assert [text.split(":")[0] for text in scene.told] == [
        "the home of links does not answer, those that are known go on",
        "the home of links answers again",
    ]


def test_a_changed_file_is_merged_anew(scene: Scene) -> None:
    scene.write("two", TWO)
    with followed(scene):
        wait(lambda: scene.names() == ["one", "two"])
        scene.path.write_text(TEXT.replace("name: one", "name: uno"))
        scene.file = read_config_file(scene.path)
        scene.follower.file_changed()
        wait(lambda: scene.names() == ["uno", "two"])
