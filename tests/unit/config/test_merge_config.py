"""What links of merged topics can't do is refused, with the reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from heliostat.config import load_config
from heliostat.errors import ConfigError
from heliostat.names import TopicName
from heliostat.topics.naming import naming_of
from heliostat.topics.select import selection_of

CLUSTERS: dict[str, Any] = {each: {"bootstrap": [f"{each}:9092"]} for each in ("summit", "base")}
FILTER = {"where": "value IS NOT NULL"}
CHANGED = {"set": {"value": "upper(value)"}}
OTHER_TIME = {"set": {"timestamp": "timestamp + INTERVAL 1 HOUR"}}


def problems(
    folder: Path, clusters: dict[str, Any] = CLUSTERS, /, **settings: Any
) -> tuple[str, ...]:
    """Why a link of merged topics is refused, beside one that is not."""
    ends = {"source": "summit", "target": "base"}
    topics = {"include": ["t"], "naming": "merge"}
    link = {"name": "merging", **ends, "topics": topics, **settings}
    path = folder / "heliostat.yaml"
    path.write_text(yaml.safe_dump({"clusters": clusters, "links": [link]}))
    try:
        load_config(path, {})
    except ConfigError as error:
        return error.problems
    return ()


@pytest.mark.parametrize(
    "steps",
    [
        [FILTER],
        [FILTER, CHANGED, {"drop_headers": ["h"]}],
        [OTHER_TIME, {"insert_origin": {}}],
        [{"json_fields": {"drop": ["a"], "column": "value"}}],
        [{"json_fields": {"drop": ["a"], "column": "key"}}, CHANGED],
    ],
)
def test_records_of_merged_topics_go_through_pipelines(
    tmp_path: Path, steps: list[dict[str, Any]]
) -> None:
    pipeline = {"name": "p", "topics": ["t"], "steps": steps}
    assert problems(tmp_path, pipelines=[pipeline]) == ()


@pytest.mark.parametrize(
    "steps",
    [
        [CHANGED, OTHER_TIME],
        [{"set": {"value": "value", "timestamp": "timestamp"}}],
        [OTHER_TIME, {"replace": {"found": "a"}}],
        [OTHER_TIME, {"json_fields": {"drop": ["a"]}}],
        [{"function": "a.b:c"}],
    ],
)
def test_a_pipeline_after_which_lost_records_can_not_be_told_is_refused(
    tmp_path: Path, steps: list[dict[str, Any]]
) -> None:
    pipelines = [{"name": "p", "topics": ["t"], "steps": steps}]
    [problem] = problems(tmp_path, pipelines=pipelines)
    assert problem.startswith("links[0].pipelines[0]: p may change timestamps and values")


@pytest.mark.parametrize(
    ("field", "settings"),
    [
        ("checkpoints.emit", {"checkpoints": {"emit": True}}),
        ("offset_syncs.emit", {"offset_syncs": {"emit": True}}),
        ("heartbeats", {"heartbeats": {"emit": True}}),
        ("heartbeats", {"heartbeats": {"mirror": True}}),
        ("groups.naming", {"groups": {"naming": {"prefix": "x-"}}}),
        ("gaps, errors", {"gaps": {"policy": "continue"}}),
    ],
)
def test_what_is_made_for_mirrors_is_refused(
    tmp_path: Path, field: str, settings: dict[str, Any]
) -> None:
    [problem] = problems(tmp_path, **settings)
    assert problem.startswith(f"links[0].{field}: ")


def test_changed_avro_fields_would_be_carried_back(tmp_path: Path) -> None:
    """Given a registry at each site / then records may be filtered by fields, and not changed."""
    registries = {
        each: {**ends, "schema_registry": {"urls": [f"http://{each}:8081"]}}
        for each, ends in CLUSTERS.items()
    }

    def found(step: dict[str, Any]) -> tuple[str, ...]:
        pipeline = {"name": "p", "topics": ["t"], "steps": [{"avro_fields": step}]}
        schemas = {"strategy": "rewrite"}
        return problems(tmp_path, registries, pipelines=[pipeline], schemas=schemas)

    assert found({"where": "fields.a > 1"}) == ()
    [problem] = found({"drop": ["a"]})
    assert problem.startswith("links[0].pipelines[0]: p changes Avro fields")


def test_heartbeats_have_a_link_of_their_own_beside_those_that_merge(tmp_path: Path) -> None:
    ends = {"source": "summit", "target": "base"}
    beats = {
        "name": "beats",
        **ends,
        "topics": {"include": ["heartbeats"]},
        "heartbeats": {"emit": True},
    }
    exclude = ["(.*[.])?heartbeats"]
    merged = {"include": [".*"], "exclude": exclude, "naming": "merge"}
    links = [
        beats,
        {"name": "there", **ends, "topics": merged},
        {"name": "back", "source": "base", "target": "summit", "topics": merged},
    ]
    path = tmp_path / "heliostat.yaml"
    path.write_text(yaml.safe_dump({"clusters": CLUSTERS, "links": links}))
    own, *merging = load_config(path, {}).links
    mirror = naming_of(own).target_name(TopicName("heartbeats"))
    assert selection_of(own).choose([TopicName("heartbeats")]) == ("heartbeats",)
    assert mirror == "summit.heartbeats"
    for each in merging:
        assert selection_of(each).choose([TopicName("heartbeats"), mirror]) == ()
