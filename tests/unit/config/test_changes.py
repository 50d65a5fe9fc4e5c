"""What differs between two configurations, and how it takes effect."""

from __future__ import annotations

from typing import Any

import pytest

from heliostat.config import Config
from heliostat.config.changes import ConfigChanges, Effect, LinkFate, changes_between

EAST_WEST = {"east": {"bootstrap": ["e:9092"]}, "west": {"bootstrap": ["w:9092"]}}


def link(name: str = "a", **sections: Any) -> dict[str, Any]:
    return {"name": name, "source": "east", "target": "west", **sections}


def config(*links: dict[str, Any], **sections: Any) -> Config:
    given = {"clusters": EAST_WEST, "links": list(links) or [link()], **sections}
    return Config.model_validate(given)


def effects(found: ConfigChanges) -> dict[str, Effect]:
    return {change.field: change.effect for each in found.links for change in each.fields}


def test_equal_configurations_do_not_differ() -> None:
    assert not changes_between(config(link("a"), link("b")), config(link("a"), link("b")))


def test_links_come_go_and_change() -> None:
    before = config(link("a"), link("b"), link("c"))
    after = config(link("c", topics={"include": ["t"]}), link("d"), link("a"))
    found = changes_between(before, after)
    assert {str(each.link): each.fate for each in found.links} == {
        "b": LinkFate.GONE,
        "c": LinkFate.CHANGED,
        "d": LinkFate.NEW,
    }
    assert found.lines() == [
        "link d begins",
        "link b ends; its mirrors and its state stay",
        "link c: topics.include +t (while it copies)",
    ]


@pytest.mark.parametrize(
    ("sections", "field", "effect"),
    [
        ({"topics": {"include": ["t"]}}, "topics.include", Effect.LIVE),
        ({"topics": {"exclude": ["t"]}}, "topics.exclude", Effect.LIVE),
        ({"topics": {"refresh_interval_s": 3}}, "topics.refresh_interval_s", Effect.LIVE),
        ({"topics": {"sync_configs": False}}, "topics.sync_configs", Effect.LIVE),
        ({"groups": {"sync": True}}, "groups.sync", Effect.LIVE),
        ({"gaps": {"policy": "continue"}}, "gaps.policy", Effect.LIVE),
        ({"errors": {"corrupt": {"policy": "skip"}}}, "errors.corrupt.policy", Effect.LIVE),
        ({"heartbeats": {"emit": True}}, "heartbeats.emit", Effect.LIVE),
        ({"checkpoints": {"emit": True}}, "checkpoints.emit", Effect.LIVE),
        ({"topics": {"naming": {"prefix": "x."}}}, "topics.naming", Effect.ANEW),
        ({"topics": {"offsets": "exact"}}, "topics.offsets", Effect.ANEW),
        ({"lanes": {"count": 4}}, "lanes.count", Effect.ANEW),
        ({"records": {"compression": "zstd"}}, "records.compression", Effect.ANEW),
        ({"state": {"replication_factor": 2}}, "state.replication_factor", Effect.ANEW),
        ({"schemas": {"keep_names": True}}, "schemas.keep_names", Effect.ANEW),
        ({"source": "west", "target": "east"}, "source", Effect.ANEW),
    ],
)
def test_a_field_takes_effect(sections: dict[str, Any], field: str, effect: Effect) -> None:
    found = changes_between(config(link()), config(link(**sections)))
    assert effects(found)[field] is effect
    assert found.links[0].begins_anew is (effect is Effect.ANEW)


def test_a_cluster_concerns_its_links_only_and_shows_no_value() -> None:
    third = {"third": {"bootstrap": ["t:9092"]}}
    moved = {"west": {"bootstrap": ["moved:9092"]}}
    links = link("a"), {"name": "b", "source": "east", "target": "third"}
    before = config(*links, clusters=EAST_WEST | third)
    found = changes_between(before, config(*links, clusters=EAST_WEST | third | moved))
    assert [str(each.link) for each in found.links] == ["a"]
    assert effects(found) == {"clusters.west.bootstrap": Effect.ANEW}
    assert not any("moved" in line for line in found.lines())


def test_what_is_outside_of_links_is_of_the_process() -> None:
    """Given Spark, service and figures changed / then only what links go by concerns them."""
    after = config(
        spark={"master": "local[2]"},
        service={"listen": "127.0.0.1:9000"},
        metrics={"partitions": "all", "progress_group": "copied-{link}"},
    )
    found = changes_between(config(), after)
    assert {change.field: change.effect for change in found.process} == {
        "spark.master": Effect.RESTART,
        "service.listen": Effect.SERVICE,
        "metrics.partitions": Effect.SERVICE,
    }
    assert effects(found) == {"metrics.progress_group": Effect.ANEW}


def test_long_lists_are_shortened() -> None:
    after = config(link(topics={"include": [f"t{number}" for number in range(20)]}))
    (line,) = changes_between(config(), after).lines()
    assert line.endswith("+t7 and 12 more (while it copies)")


def test_each_field_of_a_link_has_an_effect() -> None:
    """Given the sections of a link / then those that change live are fields that exist."""
    from heliostat.config import changes
    from heliostat.config.model import LinkConfig

    for name in changes._LIVE:
        section, _, field = name.partition(".")
        annotation = LinkConfig.model_fields[section].annotation
        assert annotation is not None
        assert not field or field in annotation.model_fields
