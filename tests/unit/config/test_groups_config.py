"""Names of groups at the target, as the configuration takes and refuses them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from heliostat.config import Config, load_config
from heliostat.errors import ConfigError
from heliostat.groups.naming import group_naming_of
from heliostat.names import GroupId

BACK = {"name": "back", "source": "usdf", "target": "summit", "groups": {"sync": True}}


def load(
    folder: Path,
    groups: dict[str, Any],
    *more: dict[str, Any],
    defaults: dict[str, Any] | None = None,
) -> Config:
    addresses = {"summit": "s:1", "usdf": "u:1", "summit-too": "S:1, other:1", "far": "f:1"}
    clusters = {alias: {"bootstrap": text.split(", ")} for alias, text in addresses.items()}
    link = {"name": "one", "source": "summit", "target": "usdf", "groups": groups}
    given = {"clusters": clusters, "links": [link, *more], "defaults": defaults or {}}
    path = folder / "heliostat.yaml"
    path.write_text(yaml.safe_dump(given))
    return load_config(path)


@pytest.mark.parametrize(
    ("naming", "name"),
    [
        ("same", "telegraf"),
        ({"prefix": "summit."}, "summit.telegraf"),
        ({"format": "${source}/${group}"}, "summit/telegraf"),
    ],
)
def test_a_group_is_named_by_the_rule(tmp_path: Path, naming: Any, name: str) -> None:
    link = load(tmp_path, {"naming": naming}).links[0]
    assert group_naming_of(link).target_name(GroupId("telegraf")) == name


def test_a_links_rule_replaces_the_defaults_whole(tmp_path: Path) -> None:
    defaults = {"groups": {"sync": True, "naming": {"prefix": "x."}}}
    link = load(tmp_path, {"naming": {"format": "${group}-y"}}, defaults=defaults).links[0]
    assert group_naming_of(link).rule == "${group}-y"
    assert link.groups.sync


@pytest.mark.parametrize(
    ("naming", "words"),
    [
        ({"prefix": ""}, "links[0].groups.naming.prefix"),
        ({"prefix": "a b"}, "no spaces"),
        ({"format": "${source}"}, "every group would get the same name"),
        ({"format": "${topic}"}, "unknown variable ${topic}"),
        ({"format": "${group}\n"}, "no control characters"),
        ({"prefix": "a", "format": "${group}"}, "must be same"),
        ("other", "must be same"),
    ],
)
def test_rules_that_name_no_group_are_refused(tmp_path: Path, naming: Any, words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load(tmp_path, {"naming": naming})
    [problem] = refused.value.problems
    assert words in problem
    assert "groups.naming" in problem


@pytest.mark.parametrize(
    "back",
    [
        BACK,
        {**BACK, "target": "summit-too"},
        {**BACK, "groups": {}, "checkpoints": {"emit": True}},
    ],
    ids=["same-aliases", "same-address", "checkpoints"],
)
def test_renamed_groups_have_no_way_back(tmp_path: Path, back: dict[str, Any]) -> None:
    renamed = {"sync": True, "naming": {"prefix": "summit."}}
    with pytest.raises(ConfigError) as refused:
        load(tmp_path, renamed, back)
    [problem] = refused.value.problems
    assert problem.startswith("links[0].groups.naming: link back publishes groups from usdf to ")
    assert "take same in both" in problem


@pytest.mark.parametrize(
    ("groups", "back"),
    [
        ({"sync": True}, BACK),
        ({"sync": True, "naming": {"prefix": "x"}}, {**BACK, "groups": {}}),
        ({"naming": {"prefix": "x"}}, BACK),
        ({"sync": True, "naming": {"prefix": "x"}}, {**BACK, "target": "far"}),
    ],
    ids=["same-names", "nothing-comes-back", "nothing-is-published", "elsewhere"],
)
def test_other_pairs_may_be(tmp_path: Path, groups: dict[str, Any], back: dict[str, Any]) -> None:
    assert len(load(tmp_path, groups, back).links) == 2
