"""What a source's list does not name: gone, or hidden from the link's user."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import pytest

from heliostat.clusters.admin import ClusterAdmin, TopicInfo
from heliostat.config import LinkConfig
from heliostat.errors import BrokerError
from heliostat.names import ClusterId, TopicName
from heliostat.topics.observe import _with_hidden
from heliostat.topics.values import MirrorRecord, SourceTopics

LINK = LinkConfig.model_validate(
    {"name": "l", "source": "a", "target": "b", "topics": {"include": ["t.*"]}}
)
UNKNOWN, NO_RIGHT = 3, 29


class Source:
    """Answers a question by names with an error each."""

    def __init__(self, code: int) -> None:
        self.code = code
        self.asked: list[list[TopicName]] = []

    def describe_topics(self, names: Iterable[TopicName]) -> dict[TopicName, TopicInfo]:
        self.asked.append(list(names))
        error = BrokerError("describe", kafka_code=self.code)
        return {name: TopicInfo(name, None, (), False, error) for name in self.asked[-1]}


def remembered(*names: str) -> dict[TopicName, MirrorRecord]:
    record = cast("MirrorRecord", None)  # only their names count here
    return {TopicName(name): record for name in names}


def seen(*names: str) -> SourceTopics:
    return SourceTopics(ClusterId("c"), tuple(TopicName(name) for name in names), {})


@pytest.mark.parametrize(("code", "unreadable"), [(UNKNOWN, set()), (NO_RIGHT, {"t1"})])
def test_a_mirrors_source_that_is_not_listed_is_asked_for(code: int, unreadable: set[str]) -> None:
    source = Source(code)
    found = _with_hidden(cast("ClusterAdmin", source), LINK, seen("t2"), remembered("t1", "t2"))
    assert source.asked == [["t1"]]
    assert set(found.unreadable) == unreadable


@pytest.mark.parametrize("names", [("t1", "t2"), ("t1", "other")])
def test_nothing_is_asked_while_all_selected_ones_are_listed(names: tuple[str, ...]) -> None:
    source: Any = Source(NO_RIGHT)
    found = _with_hidden(source, LINK, seen("t1", "t2"), remembered(*names))
    assert (source.asked, dict(found.unreadable)) == ([], {})
