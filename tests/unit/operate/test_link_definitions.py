"""Links by API: made, changed and deleted on the home, and never two changes unnoticed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.home import HomeLog

from heliostat.config import ConfigFile, read_config_file
from heliostat.connect.connector import StoredConnector
from heliostat.definitions.definition import LEAVING, Definition, DefinitionKey, DefinitionKind
from heliostat.errors import ConfigError, ConnectionLost, Refused
from heliostat.names import LinkName
from heliostat.operate import home, link_definitions, link_removal
from heliostat.operate.definition_change import merge_patch
from heliostat.operate.link_definitions import (
    Asker,
    KeyUsed,
    LinkExists,
    LinkOfConnector,
    LinkOfFile,
    NoSuchLink,
    Origin,
    StaleGeneration,
    change_link,
    create_link,
    definition_of,
    list_definitions,
)
from heliostat.operate.link_removal import Removal, delete_link
from heliostat.other_links import same_file

TEXT = """
clusters:
  summit: {bootstrap: ["127.0.0.1:9092"]}
  usdf: {bootstrap: ["127.0.0.1:9192"]}
service: {home: usdf}
links: [{name: one, source: summit, target: usdf, topics: {include: [a]}}]
"""
TWO: dict[str, Any] = {"source": "summit", "target": "usdf", "topics": {"include": ["b"]}}
ANN = Asker("ann", "a trial")


@pytest.fixture
def file(tmp_path: Path) -> ConfigFile:
    path = tmp_path / "heliostat.yaml"
    path.write_text(TEXT)
    return read_config_file(path)


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> HomeLog:
    monkeypatch.setattr(same_file, "CONNECT_WITHIN_S", 0.05)  # no source answers
    made = HomeLog()
    for module in (home, link_definitions, link_removal):
        monkeypatch.setattr(module, "home_book", made.book)
    return made


def link_row(name: str, content: dict[str, Any], by: str = "bob") -> Definition:
    return Definition(DefinitionKey(DefinitionKind.LINK, name), content, by, 5)


def test_a_link_is_made_and_listed(file: ConfigFile, log: HomeLog) -> None:
    tried = create_link(file, "two", TWO, Asker("ann", dry_run=True))
    assert (tried.did, tried.is_tried, log.rows) == ("created", True, [])
    made = create_link(file, "two", {**TWO, "name": "two"}, ANN)
    assert (made.did, made.generation, made.content) == ("created", 0, TWO)
    listing = list_definitions(file)
    assert [(each.name, each.origin, each.generation) for each in listing.links] == [
        ("one", Origin.FILE, None),
        ("two", Origin.HOME, 0),
    ]
    assert listing.links[0].content["topics"] == {"include": ["a"]}
    shown = definition_of(file, "two")
    assert (shown.by, shown.why, shown.waits) == ("ann", "a trial", ())
    assert home.whole_config(file).config.link("two").topics.include == ("b",)


def test_what_can_not_be_made(file: ConfigFile, log: HomeLog) -> None:
    create_link(file, "two", TWO, ANN)
    with pytest.raises(LinkOfFile, match=r"declared in heliostat\.yaml"):
        create_link(file, "One", TWO, ANN)
    with pytest.raises(LinkExists):
        create_link(file, "Two", TWO, ANN)
    with pytest.raises(ConfigError) as refused:
        create_link(file, "three", {**TWO, "topics": {"include": ["a"]}, "x": 1}, ANN)
    assert refused.value.problems[0].startswith("x: unknown key")
    for name in ("a.b", "", "a/b", "x" * 101):
        with pytest.raises(ConfigError):
            create_link(file, name, TWO, ANN)
    with pytest.raises(ConfigError, match="the definition is of link three"):
        create_link(file, "three", {**TWO, "name": "four"}, ANN)
    assert len(log.rows) == 1


def test_a_change_is_a_patch_or_the_whole(file: ConfigFile, log: HomeLog) -> None:
    create_link(file, "two", {**TWO, "records": {"in_flight_max": 2}}, ANN)
    patch = {"topics": {"exclude": ["b1"]}, "records": None}
    answer = change_link(file, "two", patch, ANN, is_whole=False, expected=0)
    assert answer.content == {**TWO, "topics": {"include": ["b"], "exclude": ["b1"]}}
    assert (answer.differs, answer.generation) == (("records", "topics.exclude"), 1)
    same = change_link(file, "two", {}, ANN, is_whole=False)
    assert (same.did, same.generation, len(log.rows)) == ("nothing", 1, 2)
    whole = change_link(file, "two", TWO, ANN, is_whole=True, expected=1)
    assert (whole.content, whole.differs) == (TWO, ("topics.exclude",))
    with pytest.raises(StaleGeneration, match="generation 2, not 1"):
        change_link(file, "two", patch, ANN, is_whole=False, expected=1)
    with pytest.raises(NoSuchLink):
        change_link(file, "three", patch, ANN, is_whole=False)
    with pytest.raises(LinkOfFile):
        change_link(file, "one", patch, ANN, is_whole=False)
    with pytest.raises(ConfigError, match="no such cluster"):
        change_link(file, "two", {"target": "moon"}, ANN, is_whole=False)


def test_other_names_of_mirrors_are_told_to_be_refused(file: ConfigFile, log: HomeLog) -> None:
    create_link(file, "two", TWO, ANN)
    patch = {"topics": {"naming": {"prefix": "s."}}}
    tried = change_link(file, "two", patch, replace(ANN, dry_run=True), is_whole=False)
    assert (tried.differs, len(tried.notes)) == (("topics.naming",), 1)
    assert "make a link of another name" in tried.notes[0]


def test_a_link_that_is_a_connector_is_listed_and_changed_nowhere_else(
    file: ConfigFile, log: HomeLog
) -> None:
    config = {
        "name": "mirror",
        "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
        "source.cluster.alias": "summit",
        "target.cluster.alias": "usdf",
        "topics": "b",
    }
    connector = StoredConnector("mirror", config, link="summit-to-usdf", by="bob")
    log.append(connector.key, connector.to_definition())
    listed = {link.name: link for link in list_definitions(file).links}
    link = listed[LinkName("summit-to-usdf")]
    assert (link.origin, link.by, link.why) == (Origin.CONNECTOR, "bob", "connector mirror")
    for act in (
        lambda: change_link(file, link.name, TWO, ANN, is_whole=True),
        lambda: delete_link(file, link.name, ANN, Removal()),
    ):
        with pytest.raises(LinkOfConnector, match="is connector mirror"):
            act()
    with pytest.raises(LinkExists):
        create_link(file, link.name, TWO, ANN)
    # What a connector mirrors, no link by API mirrors under the same names.
    same = {**TWO, "topics": {"include": ["b"], "naming": {"prefix": "summit."}}}
    with pytest.raises(ConfigError, match="summit-to-usdf"):
        create_link(file, "same", same, ANN)


@pytest.mark.parametrize(("removes", "told"), [(False, "a change by bob"), (True, "its deletion")])
def test_a_change_in_between_is_told(
    file: ConfigFile, log: HomeLog, told: str, *, removes: bool
) -> None:
    create_link(file, "two", TWO, ANN)
    other = link_row("two", {**TWO, "topics": {"include": ["c"]}})
    unrelated = link_row("three", TWO)

    def write() -> None:
        log.append(unrelated.key, unrelated)
        log.append(other.key, None if removes else other)

    log.before_write = write
    answer = change_link(file, "two", {"topics": {"include": ["d"]}}, ANN, is_whole=False)
    assert answer.notes == (f"{told} came in between (generation 2); this one counts",)
    assert definition_of(file, "two").content["topics"] == {"include": ["d"]}


def test_what_is_asked_again_under_one_key_is_done_once(
    file: ConfigFile, log: HomeLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    keyed = Asker("ann", key="k-1")
    first = create_link(file, "two", TWO, keyed)
    again = create_link(file, "two", TWO, keyed)
    assert (again.is_repeated, again.generation, len(log.rows)) == (True, first.generation, 2)
    with pytest.raises(KeyUsed):
        create_link(file, "three", TWO, keyed)
    delete_link(file, "two", ANN, Removal())
    assert create_link(file, "two", TWO, keyed).is_repeated, "a late retry makes nothing anew"
    monkeypatch.setattr(link_definitions, "KEY_KEPT_MS", -1)
    assert not create_link(file, "two", TWO, keyed).is_repeated


def test_deleting_keeps_topics_by_itself(file: ConfigFile, log: HomeLog) -> None:
    create_link(file, "two", TWO, ANN)
    with pytest.raises(StaleGeneration):
        delete_link(file, "two", ANN, Removal(), expected=7)
    tried = delete_link(file, "two", Asker("ann", dry_run=True), Removal())
    assert (tried.did, tried.is_tried, len(log.rows)) == ("deleted", True, 1)
    who = Asker("ben", why="not needed")
    assert delete_link(file, "two", who, Removal(), expected=0).topics == ()
    *_, last, removal = log.rows
    assert removal.definition is None
    assert last.definition is not None
    assert (last.definition.by, last.definition.why) == ("ben", "not needed")
    assert last.definition.is_leaving
    with pytest.raises(NoSuchLink):
        delete_link(file, "two", ANN, Removal())
    with pytest.raises(LinkOfFile):
        delete_link(file, "one", ANN, Removal())


def test_topics_wait_until_the_link_has_no_owner(
    file: ConfigFile, log: HomeLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given a link that somebody runs / then it is gone at once, and its topics a moment later."""
    create_link(file, "two", TWO, ANN)
    deleted: list[str] = []
    monkeypatch.setattr(link_removal, "_topics", lambda *_: (("heliostat.two.state",), ()))

    def delete(*_: object) -> tuple[str, ...]:
        if not deleted:
            deleted.append("tried")
            raise Refused("link two still has an owner")
        return ("heliostat.two.state",)

    monkeypatch.setattr(link_removal, "_delete_topics", delete)
    tried = delete_link(file, "two", Asker("ann", dry_run=True), Removal(state=True))
    assert (tried.topics, deleted) == (("heliostat.two.state",), [])
    with pytest.raises(Refused, match="still has an owner"):
        delete_link(file, "two", ANN, Removal(state=True))
    assert [each.name for each in list_definitions(file).links] == ["one"]
    [*_, last] = log.rows
    assert last.definition is not None
    assert last.definition.extra == {LEAVING: {"state": True, "mirrors": False}}
    assert delete_link(file, "two", ANN, Removal(state=True)).topics == ("heliostat.two.state",)
    assert log.rows[-1].definition is None


def test_a_home_that_is_away_is_told(file: ConfigFile, log: HomeLog) -> None:
    log.lost = ConnectionLost("the home does not answer")
    listing = list_definitions(file)
    assert [each.name for each in listing.links] == ["one"]
    assert listing.error is log.lost
    assert definition_of(file, "one").origin is Origin.FILE
    with pytest.raises(ConnectionLost):
        create_link(file, "two", TWO, ANN)


def test_without_a_home_nothing_is_made(tmp_path: Path) -> None:
    path = tmp_path / "heliostat.yaml"
    path.write_text(TEXT.replace("service: {home: usdf}\n", ""))
    with pytest.raises(Refused, match="names no home"):
        create_link(read_config_file(path), "two", TWO, ANN)


RFC_7396 = [
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    (["a", "b"], ["c", "d"], ["c", "d"]),
    ({"a": "b"}, ["c"], ["c"]),
    ({"a": "foo"}, None, None),
    ({"a": "foo"}, "bar", "bar"),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
]
"""The examples of its appendix A."""


@pytest.mark.parametrize(("target", "patch", "result"), RFC_7396)
def test_a_merge_patch_does_what_the_standard_says(target: Any, patch: Any, result: Any) -> None:
    assert merge_patch(target, patch) == result
