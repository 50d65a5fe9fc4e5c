from __future__ import annotations

from dataclasses import replace

import pytest

from heliostat.clusters.admin import ListedGroup
from heliostat.config import GroupsConfig
from heliostat.groups.select import compile_selection, is_left_out
from heliostat.groups.values import Published, Skip
from heliostat.names import BrokerId, GroupId


def group(name: str, kind: str = "classic", protocol: str = "consumer") -> ListedGroup:
    return ListedGroup(GroupId(name), BrokerId(1), "Empty", kind, protocol)


@pytest.mark.parametrize(
    ("listed", "skip", "why"),
    [
        (group("a"), None, "included by a|b.*"),
        (group("b.x"), None, "included by a|b.*"),
        (group("c"), Skip.EXCLUDED, "no include matches"),
        (group("b-tmp"), Skip.EXCLUDED, "excluded by .*-tmp"),
        (group("b", kind="consumer"), None, "included by a|b.*"),
        (group("b", kind="streams", protocol="streams"), None, "included by a|b.*"),
        (group("b", kind="", protocol=""), None, "included by a|b.*"),
        (group("b", protocol="of-my-own"), None, "included by a|b.*"),
        (
            group("b", kind="share", protocol="share"),
            Skip.NO_OFFSETS,
            "a share group: brokers keep what it has acknowledged, there are no offsets",
        ),
        (
            group("b", kind="later", protocol="later"),
            Skip.NO_OFFSETS,
            "groups of kind later are not known to commit offsets",
        ),
        (
            group("b", protocol="connect"),
            Skip.NO_OFFSETS,
            "members of protocol connect elect a leader and commit no offsets",
        ),
        (
            group("b", protocol="sr"),
            Skip.NO_OFFSETS,
            "members of protocol sr elect a leader and commit no offsets",
        ),
    ],
)
def test_names_kinds_and_protocols(listed: ListedGroup, skip: Skip | None, why: str) -> None:
    selection = compile_selection(GroupsConfig(include=("a|b.*",), exclude=(".*-tmp",)))
    choice = selection.choose(listed)
    assert (choice.skip, choice.why) == (skip, why)


def test_groups_excluded_by_default() -> None:
    selection = compile_selection(GroupsConfig())
    assert [
        name
        for name in ("console-consumer-1", "connect-sink", "__x", "telegraf", "console")
        if selection.by_name(name).skip is None
    ] == ["telegraf", "console"]


def test_dead_groups_are_left_out_where_only_active_ones_are_wanted() -> None:
    only_active = GroupsConfig(states=("active",), active_within_s=60)
    empty, stable = group("g"), replace(group("g"), state="Stable")
    assert not is_left_out(GroupsConfig(), empty, None, 0)
    assert is_left_out(only_active, empty, None, 0)
    assert not is_left_out(only_active, stable, None, 0)
    assert not is_left_out(only_active, empty, Published(at_ms=1), 60_001)
    assert is_left_out(only_active, empty, Published(at_ms=1), 60_002)
