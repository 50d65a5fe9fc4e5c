"""Links of the file and of the home, while they run: each changes by itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from support.home import HomeLog, MemoryBook
from unit.definitions.test_follow import TEXT, TWO, wait

from heliostat.config import Config, LinkConfig, read_config_file
from heliostat.config.defined import with_definitions
from heliostat.definitions import follow
from heliostat.definitions.definition import Definition, DefinitionKey, DefinitionKind
from heliostat.definitions.definition_book import DefinitionBook
from heliostat.errors import ConnectionLost
from heliostat.link.home_part import HomePart
from heliostat.names import LinkName

KEY = DefinitionKey(DefinitionKind.LINK, "two")


class Scene:
    """Links that began with one of the file and one of the home."""

    def __init__(self, folder: Path, only: str | None = None) -> None:
        self.path = folder / "heliostat.yaml"
        self.path.write_text(TEXT)
        self.log = HomeLog()
        self.write(TWO)
        self.changes: list[tuple[Config, tuple[LinkConfig, ...]]] = []
        file = read_config_file(self.path)
        config = with_definitions(file, {LinkName("two"): TWO}).config
        self.part = HomePart(
            file,
            config,
            only,
            lambda *change: self.changes.append(change),
            lambda _: None,
            open_book=lambda *_: cast("DefinitionBook", MemoryBook(self.log)),
        )

    def write(self, content: dict[str, Any] | None) -> None:
        row = None if content is None else Definition(KEY, content, "ann", 5)
        self.log.append(KEY, row)

    def change_file(self, old: str, new: str) -> None:
        self.path.write_text(self.path.read_text().replace(old, new))
        self.part.file_is(read_config_file(self.path).config)

    def running(self) -> list[str]:
        return [link.name for link in self.changes[-1][1]] if self.changes else []


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    monkeypatch.setattr(follow, "AGAIN_S", 0.01)
    made = Scene(tmp_path)
    yield made
    made.part.stop()


def test_a_changed_file_ends_no_link_of_a_home_that_is_away(scene: Scene) -> None:
    """Given a home that does not answer / when the file changes / then its links go on (I7)."""
    scene.log.lost = ConnectionLost("it is away")
    scene.part.start()
    scene.change_file("include: [a]", "include: [a, c]")
    assert scene.running() == ["one", "two"]
    assert scene.changes[-1][0].link("one").topics.include == ("a", "c")
    scene.write(None)
    scene.log.lost = None
    wait(lambda: scene.running() == ["one"])
    assert scene.changes[-1][0].link("one").topics.include == ("a", "c")


def test_a_link_that_is_gone_when_the_home_is_read_ends(scene: Scene) -> None:
    scene.write(None)
    scene.part.start()
    wait(lambda: scene.running() == ["one"])


def test_a_link_that_moves_into_the_file_is_the_files(scene: Scene) -> None:
    scene.part.start()
    wait(lambda: scene.running() == ["one", "two"])
    more = ", {name: two, source: summit, target: usdf, topics: {include: [z]}}]"
    scene.change_file("{include: [a]}}]", "{include: [a]}}" + more)
    wait(lambda: scene.changes[-1][0].link("two").topics.include == ("z",))
    assert scene.running() == ["one", "two"]


def test_only_one_of_them_runs_if_it_was_named(tmp_path: Path) -> None:
    scene = Scene(tmp_path, "two")
    scene.part.start()
    wait(lambda: scene.running() == ["two"])
    assert [link.name for link in scene.changes[-1][0].links] == ["one", "two"]
    scene.part.stop()
