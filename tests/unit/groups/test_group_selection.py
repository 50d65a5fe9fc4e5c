from __future__ import annotations

import pytest

from heliostat.clusters.admin import ListedGroup
from heliostat.config import GroupsConfig
from heliostat.groups.select import compile_selection
from heliostat.groups.values import Skip
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
        (group("b", kind="streams"), None, "included by a|b.*"),
        (group("b", kind="", protocol=""), None, "included by a|b.*"),
        (group("b", kind="share"), Skip.NO_OFFSETS, "share groups commit no offsets"),
        (group("b", protocol="connect"), Skip.NO_OFFSETS, "a group of connect commits no offsets"),
    ],
)
def test_names_kinds_and_protocols(listed: ListedGroup, skip: Skip | None, why: str) -> None:
    selection = compile_selection(GroupsConfig(include=("a|b.*",), exclude=(".*-tmp",)))
    choice = selection.choose(listed)
    assert (choice.skip, choice.why) == (skip, why)


def test_what_is_left_out_unless_somebody_says_otherwise() -> None:
    selection = compile_selection(GroupsConfig())
    assert [
        name
        for name in ("console-consumer-1", "connect-sink", "__x", "telegraf", "console")
        if selection.by_name(name).skip is None
    ] == ["telegraf", "console"]
