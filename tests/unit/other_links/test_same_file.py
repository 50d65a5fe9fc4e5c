"""Topics that other links of the file would write, also while their sources don't answer."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest

from heliostat.config import Config, LinkConfig
from heliostat.errors import BrokerError, ConnectionLost
from heliostat.names import Alias, TopicName
from heliostat.other_links import same_file
from heliostat.other_links.same_file import AGAIN_AFTER_S, Neighbours
from heliostat.other_links.same_process import SAME_WITHIN_S, TopicNames
from heliostat.topics.select import TopicSelection

OURS = {TopicName(name) for name in ("a", "b", "other.c")}


class Sources:
    """What sources answer, and how often they were asked."""

    def __init__(self, *names: str) -> None:
        self.names: list[str] | Exception = list(names)
        self.asked: list[str] = []
        self.now_s = 0.0

    def of(self, alias: Alias) -> Collection[TopicName]:
        self.asked.append(alias)
        if isinstance(self.names, Exception):
            raise self.names
        return [TopicName(name) for name in self.names]


def neighbours(sources: Sources, **other: Any) -> Neighbours:
    links = [
        {"name": "ours", "source": "east", "target": "west", "topics": {"include": [".*"]}},
        {"name": "other", "source": "north", "target": "west", **other},
    ]
    clusters = {alias: {"bootstrap": [f"{alias}:1"]} for alias in ("east", "north", "west", "far")}
    config = Config.model_validate({"clusters": clusters, "links": links})
    return Neighbours(config, config.links[0], sources.of, lambda: sources.now_s)


def test_topics_that_both_would_write_are_found() -> None:
    """Given a source with two of our names / when asked / then those it selects are the other's."""
    sources = Sources("a", "b", "c")
    found = neighbours(sources, topics={"include": ["a", "c"]}).claims(OURS, ())
    assert (found.by, found.unsure, found.notes) == ({"a": "other"}, {}, ())
    renamed = neighbours(sources, topics={"include": [".*"], "naming": {"prefix": "other."}})
    assert renamed.claims(OURS, ()).by == {"other.c": "other"}


@pytest.mark.parametrize(
    "other", [{"target": "far", "topics": {"include": [".*"]}}, {"topics": {"include": ["z"]}}]
)
def test_links_without_common_targets_ignore_each_other(other: dict[str, Any]) -> None:
    sources = Sources()
    sources.names = ConnectionLost("gone")
    found = neighbours(sources, **other).claims(OURS, ())
    assert not found.by
    assert not found.unsure


@pytest.mark.parametrize("error", [ConnectionLost("gone"), BrokerError("no", kafka_code=29)])
def test_new_mirrors_that_may_belong_to_a_link_with_an_unseen_source_wait(
    error: Exception,
) -> None:
    """Given no answer / when asked / then names of its rule wait, ours and all others do not."""
    sources = Sources()
    sources.names = error
    asked = neighbours(sources, topics={"include": ["a", "b"]})
    found = asked.claims(OURS, {TopicName("b")})
    assert not found.by
    assert list(found.unsure) == ["a"]
    assert "north (north:1) does not answer" in found.unsure[TopicName("a")]
    assert found.notes == ("north (north:1), the source of link other, does not answer",)


def test_an_unreachable_source_keeps_its_last_topics_and_is_retried_later() -> None:
    """Given a source seen before / when away / then its names still count; it is asked rarely."""
    sources = Sources("a")
    asked = neighbours(sources, topics={"include": [".*"]})
    assert asked.claims(OURS, ()).by == {"a": "other"}
    sources.names = ConnectionLost("gone")
    for _ in range(5):
        found = asked.claims(OURS, ())
        assert (found.by, found.unsure) == ({"a": "other"}, {})
        assert found.notes
    assert len(sources.asked) == 2
    sources.now_s, sources.names = AGAIN_AFTER_S, ["b"]
    found = asked.claims(OURS, ())
    assert (found.by, found.notes) == ({"b": "other"}, ())


def test_a_hundred_links_of_one_source_ask_it_once() -> None:
    """Given links of one source and target / when each asks what the others write / then once."""
    sources = Sources("a", "b")
    names = TopicNames(sources.of, lambda: sources.now_s)
    links = [{"name": f"l{number}", "source": "east", "target": "west"} for number in range(100)]
    clusters = {alias: {"bootstrap": [f"{alias}:1"]} for alias in ("east", "west")}
    config = Config.model_validate({"clusters": clusters, "links": links})
    for link in config.links:
        Neighbours(config, link, names.of, lambda: sources.now_s).claims(OURS, ())
    assert sources.asked == ["east"]
    sources.now_s = SAME_WITHIN_S
    assert names.of(Alias("east")) == ["a", "b"]
    assert len(sources.asked) == 2
    sources.now_s, sources.names = 2 * SAME_WITHIN_S, ConnectionLost("gone")
    for _ in range(3):
        with pytest.raises(ConnectionLost):
            names.of(Alias("east"))
    assert len(sources.asked) == 3


def test_what_others_write_is_worked_out_again_only_for_other_topics(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Given a source whose topics are the same / when asked again / then nothing is selected."""
    sources = Sources("a")
    names = TopicNames(sources.of, lambda: sources.now_s)
    selected: list[str] = []
    real = same_file.selection_of

    def selection_of(link: LinkConfig) -> TopicSelection:
        selected.append(link.name)
        return real(link)

    monkeypatch.setattr(same_file, "selection_of", selection_of)
    ours = neighbours(sources, topics={"include": [".*"]})
    ours._names_of = names.of
    for now_s in (0.0, 2 * SAME_WITHIN_S):
        sources.now_s = now_s
        assert ours.claims(OURS, ()).by == {"a": "other"}
    assert (len(sources.asked), selected) == (2, ["other"])
    sources.now_s, sources.names = 4 * SAME_WITHIN_S, ["b"]
    assert ours.claims(OURS, ()).by == {"b": "other"}
    assert selected == ["other", "other"]
