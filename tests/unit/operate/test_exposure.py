"""`heliostat exposure`: its value, by what was read, and what the command prints of it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result
from unit.status.test_loss import BEHIND, LEVEL, NOTHING, NOW_MS, OPEN, Case, groups, seen

from heliostat.cli.exposure import exposure_command
from heliostat.config import Config
from heliostat.errors import ConnectionLost
from heliostat.groups.plan import GroupDecision
from heliostat.groups.rereads import Reread
from heliostat.groups.values import CommitDecision, Reason, Skip
from heliostat.names import GroupId, LinkName, Offset, PartitionId, TopicName, TopicPartition
from heliostat.operate import exposure
from heliostat.operate.exposure import LinkExposure, exposure_of, exposure_of_link
from heliostat.operate.groups import GroupView, LinkGroups
from heliostat.operate.status import LinkPicture
from heliostat.status.loss import LOSS_NOT_KNOWN, Loss, Rereads
from heliostat.status.values import TopicStatus

P = TopicPartition(TopicName("t"), PartitionId(0))
AT_MS = NOW_MS + 500


def view(name: str, reread: int | None, skip: Skip | None = None, problem: str = "") -> GroupView:
    reason = Reason.NOT_TOLD if reread is None else Reason.SYNCED
    row = CommitDecision(
        P,
        P,
        Offset(9),
        None,
        None,
        None,
        reason,
        "",
        reread_now=reread,
        begins_anew=skip is not None,
    )
    decided = GroupDecision(GroupId(name), None, None, () if problem else (row,), problem)
    why = "no include matches" if skip else "included by .*"
    return GroupView(GroupId(name), skip, why, decided, target_group=GroupId(f"s.{name}"))


def told(*views: GroupView, sync: bool = True) -> LinkGroups:
    return LinkGroups(LinkName("l"), sync, views, {})


def picture(case: Case) -> LinkPicture:
    status, partitions = seen(case)
    return LinkPicture(status, tuple(partitions))


def exposed(case: Case, found: LinkGroups | None, **words: Any) -> LinkExposure:
    return exposure_of(picture(case), found, groups_at_ms=AT_MS, **words)


def test_the_sum_is_of_groups_that_the_link_selects() -> None:
    found = exposed(
        Case(BEHIND, NOTHING),
        told(view("a", 0), view("b", 5), view("c", 7), view("x", 40, Skip.EXCLUDED)),
    )
    assert found.rereads == Rereads(12, "exact", 2, 0, AT_MS, {"c": 7, "b": 5}, True)
    assert list(found.rereads.most) == ["c", "b"]
    assert [row.group for row in found.groups] == ["c", "b", "a", "x"]
    rest = found.groups[-1]
    assert (rest.is_synced, rest.reread) == (False, Reread(40, anew=1))
    assert rest.text() == (
        "40 records: the target has no offset of 1 partition, read from the first on (or as its "
        "auto.offset.reset says); not synced: no include matches"
    )
    assert found.would_be_lost == Loss(10, 7.0, "exact")
    assert found.text() == (
        "link l (running): would be lost now: 10 records, the oldest 7.0 s old; "
        "groups would read again: 12 records, by 2 groups"
    )
    assert not found.is_nothing


def test_with_sync_off_no_group_is_synced() -> None:
    found = exposed(Case(LEVEL, NOTHING), told(view("a", 3), sync=False))
    [row] = found.groups
    assert (row.is_synced, row.why) == (False, "groups.sync is off")
    assert found.rereads is not None
    assert (found.rereads.records, found.rereads.is_synced) == (3, False)


def test_what_is_not_known_of_a_group_is_not_nothing() -> None:
    lost = view("b", None, problem="the source does not answer: x")
    found = exposed(Case(LEVEL, NOTHING), told(view("a", 0), lost))
    assert found.rereads is not None
    assert (found.rereads.records, found.rereads.truth, found.rereads.unknown) == (
        None,
        "not_known",
        1,
    )
    assert not found.is_nothing
    assert found.groups[0].text() == "not known: the source does not answer: x"
    unlisted = replace(told(view("a", 0)), unlisted=1)
    assert not exposed(Case(LEVEL, NOTHING), unlisted).is_nothing, "a broker may hold others"
    some = exposed(Case(LEVEL, NOTHING), told(view("a", 4), lost)).rereads
    assert some is not None
    assert (some.records, some.truth) == (4, "bound")


def test_nothing_is_said_only_if_it_is_certain() -> None:
    assert exposed(Case(LEVEL, NOTHING), told(view("a", 0))).is_nothing
    assert exposed(Case(LEVEL, NOTHING), told()).is_nothing
    assert not exposed(Case(LEVEL, NOTHING, {"refused": {"x": ""}}), told()).is_nothing
    assert not exposed(Case(OPEN, NOTHING), told()).is_nothing
    moving = Case(LEVEL, NOTHING, {"groups": groups(0, moving=1)})
    assert not exposed(moving, None).is_nothing


def test_while_clusters_are_silent_the_drivers_report_stands_in() -> None:
    case = Case(BEHIND, NOTHING, {"groups": groups(4, moving=1)})
    found = exposed(case, None, why="the source does not answer")
    assert found.rereads == picture(case).status.rereads
    [row] = found.groups
    assert (row.group, row.text()) == ("g", "at least 4 records")
    assert found.groups_why == "the source does not answer"
    assert exposed(Case(BEHIND, NOTHING), None).rereads is None


def test_only_some_topics() -> None:
    seen_now = picture(Case(BEHIND, NOTHING, {"refused": {"x": "why"}}))
    other = TopicStatus("other", "east.other", 1, would_be_lost=Loss(3, 1.0, "bound"))
    seen_now.status.topics.append(other)
    some = exposure_of(seen_now, told(), topics=("east.*",))
    assert (some.would_be_lost, some.without_mirror, some.refused) == (other.would_be_lost, 0, {})
    assert (some.topics, some.partitions) == ((other,), ())
    every = exposure_of(seen_now, told())
    assert [row.source for row in every.topics] == ["t", "other"]
    assert (every.without_mirror, every.refused) == (1, {"x": "why"})
    refused = exposure_of(seen_now, told(), topics=("x", "other"))
    assert (refused.without_mirror, refused.would_be_lost.truth) == (1, "bound")
    misspelt = exposure_of(seen_now, told(), topics=("nothing",))
    assert misspelt.would_be_lost == LOSS_NOT_KNOWN


def test_clusters_that_do_not_answer_make_it_say_less(monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(*_: object) -> LinkGroups:
        raise ConnectionLost("summit does not answer")

    monkeypatch.setattr(exposure, "all_groups", lost)
    clusters = {"a": {"bootstrap": "a:1"}, "b": {"bootstrap": "b:1"}}
    links = [{"name": "l", "source": "a", "target": "b"}]
    config = Config.model_validate({"clusters": clusters, "links": links})
    found = exposure_of_link(config, "l", picture(Case(BEHIND, NOTHING)))
    assert "summit does not answer" in found.groups_why
    assert found.would_be_lost == Loss(10, 7.0, "exact")


# -- the command -------------------------------------------------------------------------------


def printed(
    monkeypatch: pytest.MonkeyPatch, folder: Path, found: LinkExposure, *words: str
) -> Result:
    path = folder / "heliostat.yaml"
    clusters = {"a": {"bootstrap": "a:1"}, "b": {"bootstrap": "b:1"}}
    links = [{"name": "l", "source": "a", "target": "b"}]
    path.write_text(yaml.safe_dump({"clusters": clusters, "links": links}))
    monkeypatch.setattr(exposure, "exposures", lambda *_: [found])
    return CliRunner().invoke(exposure_command, ["-c", str(path), *words])


def test_the_command_tells_what_would_be_lost(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = exposed(
        Case(BEHIND, NOTHING, {"refused": {"x": "why"}}), told(view("a", 0), view("b", 5))
    )
    done = printed(monkeypatch, tmp_path, found)
    assert done.exit_code == 1, done.output
    first, *lines = done.output.splitlines()
    assert first == found.text()
    assert lines == [
        "  no mirror: x: why",
        "  lost: t: 10 records, the oldest 7.0 s old",
        "  groups as of 2023-11-14 22:13:20Z",
        "  read again: b → s.b: 5 records",
    ]
    parts = printed(monkeypatch, tmp_path, found, "--partitions")
    assert "  lost: t-0 (copying): 10 records, the oldest 7.0 s old" in parts.output
    [row] = json.loads(printed(monkeypatch, tmp_path, found, "--json").output)
    assert row["would_be_lost"] == {"records": 10, "age_s": 7.0, "truth": "bound"}
    assert row["topics"][0] == {
        "source": "t",
        "target": "t",
        "records": 10,
        "age_s": 7.0,
        "truth": "exact",
    }
    assert row["groups"][0]["records"] == 5


def test_exit_codes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    nothing = exposed(Case(LEVEL, NOTHING), told(view("a", 0), view("x", 9, Skip.EXCLUDED)))
    done = printed(monkeypatch, tmp_path, nothing)
    assert (done.exit_code, len(done.output.splitlines())) == (0, 3)
    unknown = exposed(Case(LEVEL, NOTHING, now_ms=NOW_MS + 60_000), None)
    assert printed(monkeypatch, tmp_path, unknown).exit_code == 3
