"""What a changed file may not do by itself, and what it may."""

from __future__ import annotations

from typing import Any

import pytest

from heliostat.config import Config
from heliostat.link.held_changes import TakenConfig, hold_back
from heliostat.names import LinkName, TopicName

CLUSTERS = {alias: {"bootstrap": [f"{alias}:9092"]} for alias in ("east", "west", "south")}
TOPICS = [TopicName(f"t{number}") for number in range(20)]
ALL = {"include": ["t.*"]}


def link(name: str = "a", **sections: Any) -> dict[str, Any]:
    return {"name": name, "source": "east", "target": "west", "topics": ALL, **sections}


def config(*links: dict[str, Any], clusters: Any = None) -> Config:
    return Config.model_validate({"clusters": clusters or CLUSTERS, "links": list(links)})


def taken(
    before: dict[str, Any], after: dict[str, Any], there: list[TopicName] | None = TOPICS
) -> TakenConfig:
    return hold_back(config(before), config(after), lambda _: there)


def without(count: int) -> dict[str, Any]:
    return {"include": ["t.*"], "exclude": [str(name) for name in TOPICS[:count]]}


def of_policy(policy: str, **topics: str) -> dict[str, Any]:
    return link(gaps={"policy": policy, "topics": topics})


FREE = [
    (link(), link()),
    (link(), link(topics={"include": ["t.*", "more"]})),
    (link(), link(topics=without(2))),  # a tenth
    (link(topics=without(20)), link(topics={"include": ["other"]})),  # nothing was selected
    (link(topics={"include": TOPICS}), link()),  # other entries, the same topics
    (link(), of_policy("continue")),
    (of_policy("restart"), of_policy("stop")),
    (of_policy("restart"), of_policy("restart", t1="stop")),
    (of_policy("stop", t1="restart"), of_policy("continue", t1="restart")),
    (link(topics=ALL | {"follow_deletes": ["t1"]}), link()),
    (link(), link(errors={"corrupt": {"policy": "skip"}})),
    (link(), link(lanes={"count": 2})),
    (link(), link(topics=ALL | {"naming": {"prefix": "x."}})),
]
HELD = [
    (link(), link(topics=without(3)), "topics: the selection leaves 3 of 20 topics (t0, t1, t2)"),
    (link(), link(topics={"include": []}), "leaves 20 of 20 topics (t0, t1, t10 and 17 more)"),
    (link(), of_policy("restart"), "gaps: the policy restart empties mirrors"),
    (link(), of_policy("stop", t1="restart"), "gaps: the policy restart empties mirrors of t1"),
    (
        of_policy("restart", t1="stop", t2="stop"),
        of_policy("restart", t1="stop"),
        "the policy restart empties mirrors of t2",
    ),
    (
        link(),
        link(topics=ALL | {"follow_deletes": ["t1"]}),
        "topics.follow_deletes: records of t1 would be deleted at the target",
    ),
    (link(), link(source="south"), "leads elsewhere, east → west becomes south → west"),
    (link(), link("b"), "the link is gone from the file"),
]


@pytest.mark.parametrize(("before", "after"), FREE)
def test_a_change_takes_effect_by_itself(before: dict[str, Any], after: dict[str, Any]) -> None:
    found = taken(before, after)
    assert not found.held
    assert found.config == config(after)


@pytest.mark.parametrize(("before", "after", "words"), HELD)
def test_a_change_is_held_back(before: dict[str, Any], after: dict[str, Any], words: str) -> None:
    """Given such a change / then it is told, and what it would change is as it was."""
    found = taken(before, after)
    (held,) = found.held
    assert words in held.line()
    assert held.line().endswith("held back, send SIGHUP to apply")
    assert held.link == "a"
    assert found.config.link("a") == config(before).link("a")


def test_all_else_of_the_link_takes_effect_meanwhile() -> None:
    """Given a narrower selection, a restart and more lanes / then the lanes change."""
    after = link(topics=without(9) | {"sync_configs": False}, lanes={"count": 7})
    after |= {"gaps": {"policy": "restart"}, "groups": {"sync": True}}
    found = taken(link(), after)
    expected = link(topics=ALL | {"sync_configs": False}, lanes={"count": 7}, groups={"sync": True})
    assert found.config == config(expected)
    assert [held.field for held in found.held] == ["topics", "gaps"]


@pytest.mark.parametrize(
    ("after", "is_held"),
    [
        (link(topics={"include": ["t.*", "more"]}), False),
        (link(topics={"include": ["t.+"]}), True),
        (link(topics=without(1)), True),
    ],
)
def test_without_a_look_at_the_source_only_a_wider_selection_is_free(
    after: dict[str, Any], is_held: bool
) -> None:
    assert bool(taken(link(), after, None).held) is is_held


def test_a_link_that_is_gone_keeps_its_cluster_and_others_change() -> None:
    """Given a link that goes with its cluster while another comes / then it runs on beside that."""
    away = {"name": "b", "source": "south", "target": "west"}
    fewer = {alias: CLUSTERS[alias] for alias in ("east", "west")}
    found = hold_back(
        config(link(), away), config(link(), link("c"), clusters=fewer), lambda _: TOPICS
    )
    assert [str(each.name) for each in found.config.links] == ["a", "c", "b"]
    assert found.config.clusters.keys() == CLUSTERS.keys()
    assert [held.link for held in found.held] == [LinkName("b")]
