"""A link of another file that publishes groups the other way."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from heliostat.config import LinkConfig
from heliostat.groups.facing import facing_note
from heliostat.groups.published import groups_topic
from heliostat.names import ClusterId, LinkName, TopicName
from heliostat.topics.values import SourceTopics

HERE, THERE = ClusterId("summit-id"), ClusterId("usdf-id")
BACK = LinkName("back")


def link(naming: Any, *, sync: bool = True) -> LinkConfig:
    groups = {"sync": sync, "naming": naming}
    given = {"name": "there", "source": "summit", "target": "usdf", "groups": groups}
    return LinkConfig.model_validate(given)


def source(*, from_cluster: ClusterId = THERE, publishes: bool = True) -> SourceTopics:
    feed = SimpleNamespace(link=BACK, record=SimpleNamespace(source_cluster=from_cluster))
    names = (TopicName("orders"), *([TopicName(groups_topic(BACK))] if publishes else []))
    return SourceTopics(HERE, names, {}, feeds=(cast("Any", feed),))


def test_a_link_that_faces_one_that_renames_groups_is_named() -> None:
    (note,) = facing_note(link({"prefix": "summit."}), source(), THERE)
    assert "link back publishes groups from usdf to summit" in note
    assert "(summit.${group})" in note


@pytest.mark.parametrize(
    ("of", "at"),
    [
        (link("same"), source()),
        (link({"prefix": "s."}, sync=False), source()),
        (link({"prefix": "s."}), source(publishes=False)),
        (link({"prefix": "s."}), source(from_cluster=ClusterId("another"))),
    ],
    ids=["names stay", "publishes none", "the other publishes none", "from elsewhere"],
)
def test_where_nothing_is_lost_nothing_is_said(of: LinkConfig, at: SourceTopics) -> None:
    assert facing_note(of, at, THERE) == ()
