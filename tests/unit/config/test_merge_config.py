"""What links of merged topics can't do is refused, with the reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from heliostat.config import load_config
from heliostat.errors import ConfigError

CLUSTERS = {each: {"bootstrap": [f"{each}:9092"]} for each in ("summit", "base")}
FILTER = {"where": "value IS NOT NULL"}
CHANGED = {"set": {"value": "upper(value)"}}
OTHER_TIME = {"set": {"timestamp": "timestamp + INTERVAL 1 HOUR"}}


def problems(folder: Path, **settings: Any) -> tuple[str, ...]:
    """Why a link of merged topics is refused, beside one that is not."""
    ends = {"source": "summit", "target": "base"}
    topics = {"include": ["t"], "naming": "merge"}
    link = {"name": "merging", **ends, "topics": topics, **settings}
    path = folder / "heliostat.yaml"
    path.write_text(yaml.safe_dump({"clusters": CLUSTERS, "links": [link]}))
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
