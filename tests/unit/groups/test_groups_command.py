"""What `heliostat groups` prints, and how it ends."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from heliostat.cli import groups as command
from heliostat.cli.view import headline, problem_lines
from heliostat.clusters.admin import GroupMember, ListedGroup
from heliostat.groups.plan import GroupDecision
from heliostat.groups.values import CommitDecision, Reason, Skip
from heliostat.names import BrokerId, GroupId, LinkName, Offset, PartitionId, TopicName
from heliostat.names import TopicPartition as Partition
from heliostat.operate.groups import GroupView, LinkGroups
from heliostat.status.board import StatusBoard

HERE, THERE = (Partition(TopicName(name), PartitionId(0)) for name in ("t", "east.t"))


def listed(state: str) -> ListedGroup:
    return ListedGroup(GroupId("g"), BrokerId(1), state, "classic", "consumer")


def view(reason: Reason, why: str, at: int | None, problem: str = "") -> GroupView:
    row = CommitDecision(
        HERE,
        THERE,
        Offset(9),
        None if at is None else Offset(at),
        Offset(9),
        9 - (at or 0),
        reason,
        why,
    )
    members = (GroupMember("client-1", "/10.0.0.1"),)
    decided = GroupDecision(
        GroupId("g"), listed("Empty"), listed("Stable"), () if problem else (row,), problem
    )
    return GroupView(GroupId("g"), None, "included by .*", decided, members)


def printed(
    monkeypatch: pytest.MonkeyPatch, folder: Path, views: list[GroupView], *words: str
) -> Result:
    path = folder / "heliostat.yaml"
    clusters = {"a": {"bootstrap": "a:1"}, "b": {"bootstrap": "b:1"}}
    links = [{"name": "one", "source": "a", "target": "b"}]
    path.write_text(yaml.safe_dump({"clusters": clusters, "links": links}))
    found = [LinkGroups(LinkName("one"), False, tuple(views), {"list": 3})]
    monkeypatch.setattr(command, "group_views", lambda *_: found)
    return CliRunner().invoke(command.groups_command, ["-c", str(path), *words])


def test_in_sync_ends_with_0(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    skipped = GroupView(GroupId("console"), Skip.EXCLUDED, "excluded by console", None)
    done = printed(monkeypatch, tmp_path, [view(Reason.SYNCED, "it has it", 9), skipped])
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    assert lines[0] == "link one: 1 of 2 groups (sync is off: what would be done); list 3 ms"
    assert lines[1:] == [
        "  partitions: 1 SYNCED",
        "  = g  1 partitions, reread 0",
        "  - console  (excluded by console)",
    ]


def test_groups_that_have_moved_as_they_should_are_in_sync(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    moved = view(Reason.MOVED_AT_TARGET, "a consumer at the target moved it itself", 12)
    done = printed(monkeypatch, tmp_path, [moved])
    assert done.exit_code == 0, done.output
    assert "= g  1 partitions" in done.output


def test_a_renamed_group_is_shown_by_both_names(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    renamed = replace(view(Reason.SYNCED, "it has it", 9), target_group=GroupId("summit.g"))
    done = printed(monkeypatch, tmp_path, [renamed], "--explain", "summit.g")
    assert "  g → summit.g: included by .*" in done.output
    assert "  = g → summit.g  1 partitions" in printed(monkeypatch, tmp_path, [renamed]).output
    [answer] = json.loads(printed(monkeypatch, tmp_path, [renamed], "--json").output)
    assert answer["groups"][0]["target_group"] == "summit.g"


def test_groups_held_back_are_explained(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    held = view(Reason.ACTIVE_AT_TARGET, "held back", 4)
    done = printed(monkeypatch, tmp_path, [held], "--explain", "g")
    assert done.exit_code == 1
    assert done.output.splitlines()[1:] == [
        "  g: included by .*",
        "  at the source: Empty",
        "  at the target: Stable",
        "    member client-1 on /10.0.0.1",
        "  t-0 → east.t-0  source 9  target 4  wanted 9  reread 5  ACTIVE_AT_TARGET: held back",
    ]
    short = printed(monkeypatch, tmp_path, [held])
    assert "  ~ g  1 of 1 partitions are not in sync, reread 5: held back" in short.output
    [answer] = json.loads(printed(monkeypatch, tmp_path, [held], "--json").output)
    assert answer["reasons"] == {"ACTIVE_AT_TARGET": 1}
    assert answer["groups"][0]["partitions"][0]["wanted_offset"] == 9
    nobody = printed(monkeypatch, tmp_path, [], "--explain", "nobody")
    assert "the source has no such group" in nobody.output


def test_an_unread_group_is_no_success(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    done = printed(monkeypatch, tmp_path, [view(Reason.NOT_TOLD, "", None, "no right to see it")])
    assert done.exit_code == 1
    assert "  ! g  no right to see it" in done.output


def test_the_status_counts_groups() -> None:
    status = StatusBoard(LinkName("one")).status(0)
    status.driver = {
        "groups": {
            "groups": 1200,
            "reasons": {"SYNCED": 3000, "ACTIVE_AT_TARGET": 7},
            "left_alone": {"g": "t-0: put back"},
        }
    }
    assert "1,200 groups (7 offsets not in sync)" in headline(status).plain
    assert [str(line) for line in problem_lines(status)] == ["group g: t-0: put back"]
