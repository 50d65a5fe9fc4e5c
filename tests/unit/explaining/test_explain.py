"""Explanations over values: why not mirrored, late, stopped; where a record went; groups.

What is not known must never be told as known.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from heliostat.cli.explain import explanation_lines
from heliostat.clusters.plain_records import LogBounds
from heliostat.config import Config, LinkConfig
from heliostat.explaining.codes import code_in, known_code
from heliostat.explaining.explain import explain
from heliostat.explaining.moments import copied_text
from heliostat.explaining.values import (
    Evidence,
    Explanation,
    GroupKnown,
    Kind,
    Question,
    read_question,
)
from heliostat.gaps.choices import CAUSE_OF_CODE, Cause, Facts, GapChoice
from heliostat.gaps.ledger import GapRow
from heliostat.groups.plan import GroupDecision
from heliostat.groups.values import CommitDecision, Reason
from heliostat.handover.held_back import HeldBack
from heliostat.names import GroupId, LinkName, Offset, PartitionId, TopicName, TopicPartition
from heliostat.offsets.values import Answer, Why
from heliostat.records.copier.lane import LineUse
from heliostat.status.board import StatusBoard
from heliostat.status.values import LinkStatus, PartitionStatus, TopicStatus
from heliostat.topics.topic_plan import RefusalCode, RefusedTopic

NOW_MS = 1_700_000_000_000
T = TopicName("ESS.temperature")
P0 = TopicPartition(T, PartitionId(0))


def link(**topics: Any) -> LinkConfig:
    config = Config.model_validate(
        {
            "clusters": {"summit": {"bootstrap": "a:1"}, "usdf": {"bootstrap": "b:1"}},
            "links": [{"name": "l", "source": "summit", "target": "usdf", "topics": topics}],
        }
    )
    return config.links[0]


LINK = link(include=[r"ESS\..*"], exclude=["ESS.secret"])


def status(state: str = "running", **changes: Any) -> LinkStatus:
    made = StatusBoard(LinkName("l")).status(NOW_MS)
    topic = TopicStatus(T, "summit.ESS.temperature", 1)
    made.state, made.topics, made.lag_records = state, [topic], 0
    made.driver = {"state": state, "at_ms": NOW_MS, "turns": 3}
    return replace(made, **changes)


def partition(**changes: Any) -> PartitionStatus:
    made = PartitionStatus(
        T, 0, "copying", 2.0, 0, 0.0, False, 90, 90, 90, False, 0, "", "", NOW_MS - 60_000
    )
    return replace(made, **changes)


def evidence(**changes: Any) -> Evidence:
    return replace(Evidence(LINK, status(), NOW_MS, (partition(),)), **changes)


def facts(code: str) -> Facts:
    at = (Offset(90), Offset(100), Offset(200), Offset(0), Offset(90))
    return Facts(P0, P0, CAUSE_OF_CODE[code], code, *at, is_dense=True)


def text_of(found: Explanation) -> str:
    return "\n".join(explanation_lines(found))


def says(found: Explanation, words: str) -> bool:
    """Whether an explanation has these words, at the beginning of a sentence or not."""
    return words.casefold() in text_of(found).casefold()


def check_readable(found: Explanation) -> None:
    text = text_of(found)
    assert found.answer
    assert not re.search(r"[{}]|\bNone\b|\bnull\b|<[a-z_]+>|\?\?|  \.|: \.|\(\)", text), text


@pytest.mark.parametrize("code", CAUSE_OF_CODE)
def test_what_can_be_decided_has_each_choice_with_its_effect_and_command(code: str) -> None:
    row = partition(state="gap", code=code, reason="offsets 90 to 99 are gone")
    is_of_topic = code in set(RefusalCode)
    if is_of_topic:
        known = evidence(partitions=(), refusal=RefusedTopic(code, "it was", "decide"))
        where = str(T)
    else:
        known, where = evidence(partitions=(row,)), f"{T} 0"
    question = Question(T) if is_of_topic else Question(T, PartitionId(0))
    found = explain(question, replace(known, stops=(facts(code),)))
    assert [choice.choice for choice in found.choices] == [each.value for each in GapChoice]
    for choice in found.choices:
        assert not choice.does or not choice.why_not
        assert choice.does or choice.why_not
        command = f"heliostat resolve {where} --link l --choose {choice.choice}"
        assert choice.command == ("" if choice.why_not else command)
    unread = explain(question, known)
    assert all(not choice.does and choice.command for choice in unread.choices)
    check_readable(unread)


def test_a_stop_says_since_when_and_where() -> None:
    row = partition(state="gap", code="SOURCE_OVERTOOK", reason="offsets 90 to 99 are gone")
    found = explain(
        Question(T, PartitionId(0)), evidence(partitions=(row,), stops=(facts("SOURCE_OVERTOOK"),))
    )
    assert (found.kind, found.code) == (Kind.STOPPED, "SOURCE_OVERTOOK")
    assert found.since_ms == NOW_MS - 60_000
    text = text_of(found)
    assert "offsets 90 to 99 are gone" in text
    assert "2023-11-14 22:12:20Z" in text
    assert says(found, "the source has offsets 100 to 199")


HELD = HeldBack(T, 0, 80, 10, 7, "tx", 65.0)
SILENT = "lane 0 has not reported for 12 s: it is unknown whether its partitions are copied"
LATE: dict[str, tuple[dict[str, Any], dict[str, Any], Kind, list[str]]] = {
    "level and idle": ({"records_per_s": 0.0}, {}, Kind.COPIED, ["written nothing new"]),
    "catching up": (
        {"lag_records": 600, "lag_s": 300.0, "records_per_s": 10.0},
        {},
        Kind.LATE,
        ["600 records are missing, the oldest 5 min old", "at least 60 s more"],
    ),
    "one record": ({"lag_records": 1, "lag_s": 0.4}, {}, Kind.LATE, ["1 record is missing"]),
    "far": (
        {"lag_records": 1, "lag_s": 0.4},
        {"source_line": LineUse(150, 9)},
        Kind.LATE,
        ["answers of summit take 150 ms"],
    ),
    "a transaction": (
        {},
        {"held_back": [HELD]},
        Kind.LATE,
        ["is open since offset 80, 65 s", "let it time out"],
    ),
    "lag not known": ({"lag_records": None}, {}, Kind.UNKNOWN, ["is missing is not known"]),
    "a bound": (
        {"lag_records": 5, "lag_s": 7.0, "is_bound": True},
        {},
        Kind.UNKNOWN,
        ["at least 5 records are missing, the oldest at least 7.0 s old"],
    ),
    "a bound of none": ({"is_bound": True}, {}, Kind.UNKNOWN, ["it may lack records"]),
    "lane silent": (
        {"state": "silent", "lag_records": None},
        {"troubles": [SILENT]},
        Kind.UNKNOWN,
        ["lane 0, which copies", "does not report", "has not reported for 12 s"],
    ),
    "starting": (
        {"state": "starting", "lag_records": None, "position": -1},
        {},
        Kind.WAITING,
        ["finds out where its mirror ends"],
    ),
    "aligning": ({"state": "aligning"}, {}, Kind.WAITING, ["brought to the offset"]),
    "leaderless": (
        {
            "state": "retrying",
            "code": "LEADER_NOT_AVAILABLE",
            "reason": "no leader; replicas on 1, 2",
        },
        {},
        Kind.WAITING,
        ["no leader; replicas on 1, 2", "goes on by itself"],
    ),
    "paused by name": (
        {"state": "paused", "lag_records": 4, "lag_s": 9.0},
        {"paused": [{"place": T, "state": "paused", "by": "ops", "at_ms": 1, "why": "tests"}]},
        Kind.PAUSED,
        ["is paused: ops wishes so, tests", f"heliostat resume l --topic {T}", "4 records are"],
    ),
    "link paused": (
        {"state": "paused", "lag_records": 4, "lag_s": 9.0},
        {
            "state": "paused",
            "wish": {"state": "paused", "by": "ops", "at_ms": NOW_MS - 60_000, "why": ""},
        },
        Kind.PAUSED,
        ["the link l is paused since 60 s: ops wishes so", "heliostat resume l"],
    ),
    "no owner": (
        {"state": "stopped", "lag_records": 4},
        {"state": "no_owner"},
        Kind.STOPPED,
        ["no driver runs the link l", "heliostat run", "4 records are missing"],
    ),
    "driver silent": (
        {"state": "silent", "lag_records": None},
        {"state": "silent", "driver": {"at_ms": NOW_MS - 90_000}, "owner": {"host": "h7"}},
        Kind.UNKNOWN,
        ["has not reported for 90 s (it ran on h7)", "report is 90 s old"],
    ),
    "target away": (
        {"state": "silent", "lag_records": None},
        {"state": "unreachable", "troubles": ["[CONNECTION_LOST] usdf does not answer"]},
        Kind.UNKNOWN,
        ["the target usdf does not answer"],
    ),
}


@pytest.mark.parametrize("case", LATE)
def test_why_it_is_late(case: str) -> None:
    row, link_changes, kind, words = LATE[case]
    changes = {"driver": status().driver, **link_changes}
    known = evidence(partitions=(partition(**row),), status=status(**changes))
    for question in (Question(T, PartitionId(0)), Question(T)):
        found = explain(question, known)
        check_readable(found)
        assert found.kind is kind
        for word in words:
            assert says(found, word), text_of(found)


def test_a_topic_is_told_by_its_worst_partitions() -> None:
    rows = (
        partition(),
        partition(partition=1, state="gap", code="SOURCE_OVERTOOK", reason="gone"),
        partition(partition=2, state="blocked", code="TOO_LARGE", reason="too large"),
        partition(partition=3, lag_records=3, lag_s=60.0),
    )
    found = explain(Question(T), evidence(partitions=rows))
    assert found.kind is Kind.STOPPED
    assert "2 of 4 partitions are stopped" in found.answer
    assert any("ESS.temperature-1 is stopped (gap): gone" in each for each in found.reasons)
    late = explain(Question(T), evidence(partitions=(rows[0], rows[3])))
    assert (late.kind, late.answer) == (Kind.LATE, "ESS.temperature: 1 of 2 partitions are late")
    level = explain(Question(T), evidence(partitions=(rows[0], partition(partition=1))))
    assert level.kind is Kind.COPIED


ABSENT: dict[str, tuple[str, dict[str, Any], Kind, list[str]]] = {
    "no include": ("other", {}, Kind.NOT_MIRRORED, ["no include matches", "topics.include"]),
    "excluded": ("ESS.secret", {}, Kind.NOT_MIRRORED, ["excluded by ESS.secret", "exclude"]),
    "built in": ("__consumer_offsets", {}, Kind.NOT_MIRRORED, ["always excluded"]),
    "never seen": ("ESS.ghost", {}, Kind.NOT_MIRRORED, ["summit has no topic ESS.ghost"]),
    "new": ("ESS.new", {}, Kind.WAITING, ["it may be new", "every 10 s"]),
    "left out": ("ESS.new", {"left_out": "from usdf"}, Kind.NOT_MIRRORED, ["left out: from usdf"]),
    "refused": (
        "ESS.new",
        {"refusal": RefusedTopic("two_links", "link m writes into it", "exclude it there")},
        Kind.STOPPED,
        ["link m writes into it", "exclude it there", "[two_links]"],
    ),
    "refused, as reported": (
        "ESS.new",
        {"status": status(refused={"ESS.new": "it is odd (hint: make it even)"})},
        Kind.STOPPED,
        ["ESS.new is refused: it is odd", "What helps: make it even"],
    ),
    "no owner": ("ESS.new", {"status": status("no_owner")}, Kind.STOPPED, ["no driver runs"]),
    "source away": ("ESS.new", {"source_topics": None}, Kind.UNKNOWN, ["is not known now"]),
}
THERE = frozenset({T, "other", "ESS.secret", "__consumer_offsets", "ESS.new"})


@pytest.mark.parametrize("case", ABSENT)
def test_why_it_is_not_mirrored(case: str) -> None:
    topic, changes, kind, words = ABSENT[case]
    known = evidence(**{"partitions": (), "source_topics": THERE, **changes})
    found = explain(Question(TopicName(topic)), known)
    check_readable(found)
    assert found.kind is kind
    assert found.next_steps
    for word in words:
        assert says(found, word), text_of(found)


def test_a_partition_that_is_not_there() -> None:
    found = explain(Question(T, PartitionId(9)), evidence())
    assert found.kind is Kind.NOT_MIRRORED
    assert "no partition 9: there is only 0" in found.answer


def answer(offset: int, to: int | None, why: Why | None = None, text: str = "") -> Answer:
    there = None if to is None else Offset(to)
    return Answer(T, PartitionId(0), Offset(offset), T, there, why, text, PartitionId(4))


OVERTOOK = GapRow(
    *(T, PartitionId(0), Offset(5), Offset(9), 5, Cause.SOURCE_OVERTOOK, NOW_MS),
    *(GapChoice.CONTINUE, "user ops", T),
)
RECORDS: dict[str, tuple[int, dict[str, Any], Kind, list[str]]] = {
    "copied, equal": (
        42,
        {"translated": answer(42, 42), "copied_s": (1_699_999_989.5, 1_699_999_990.0)},
        Kind.COPIED,
        ["ESS.temperature-4, offset 42, since 2023-11-14 22:13:10Z", "both offsets are equal"],
    ),
    "copied, mapped": (
        42,
        {"translated": answer(42, 40)},
        Kind.COPIED,
        ["offset 40, since some time before 2023-11-14 22:13:20Z", "offset map"],
    ),
    "gone at the source since": (
        42,
        {"translated": answer(42, 42), "source_bounds": LogBounds(Offset(50), Offset(90))},
        Kind.COPIED,
        ["its log begins at offset 50 now"],
    ),
    "not yet": (
        80,
        {"translated": answer(80, None, Why.BEYOND, "landed"), "landed_to": Offset(70)},
        Kind.LATE,
        ["is not at the target yet", "10 offsets are before it"],
    ),
    "next to land": (
        70,
        {"translated": answer(70, 70), "landed_to": Offset(70)},
        Kind.LATE,
        ["is not at the target yet"],
    ),
    "beyond the end": (
        95,
        {
            "translated": answer(95, None, Why.BEYOND, "landed"),
            "source_bounds": LogBounds(Offset(0), Offset(90)),
        },
        Kind.NO_RECORD,
        ["ends at offset 90"],
    ),
    "before the start": (
        3,
        {"translated": answer(3, None, Why.BELOW_START, "the mirror has nothing before 50")},
        Kind.NO_RECORD,
        ["the mirror has nothing before 50"],
    ),
    "a hole": (
        30,
        {"translated": answer(30, 28, Why.HOLE, "the next is source offset 31")},
        Kind.NO_RECORD,
        ["no record at source offset 30", "continues at ESS.temperature-4, offset 28"],
    ),
    "in a gap": (
        7,
        {"translated": answer(7, 5, Why.HOLE, "the next is 10"), "gaps": (OVERTOOK,)},
        Kind.LOST,
        ["will not be", "source offsets 5 to 9, 5 records", "decided by user ops"],
    ),
    "copied again after a gap": (
        7,
        {"translated": answer(7, 7), "gaps": (OVERTOOK,)},
        Kind.COPIED,
        ["offset 7"],
    ),
    "no map": (42, {}, Kind.UNKNOWN, ["was at the target when the link last reported"]),
    "no map, not copied": (95, {}, Kind.UNKNOWN, ["was not at the target yet"]),
    "a map that is lost": (
        42,
        {"translated": answer(42, None, Why.NOT_TOLD, "rows of its offset map are gone")},
        Kind.UNKNOWN,
        ["rows of its offset map are gone"],
    ),
}


@pytest.mark.parametrize("case", RECORDS)
def test_where_a_record_went(case: str) -> None:
    offset, changes, kind, words = RECORDS[case]
    found = explain(Question(T, PartitionId(0), Offset(offset)), evidence(**changes))
    check_readable(found)
    assert found.kind is kind
    for word in words:
        assert says(found, word), text_of(found)
    assert (found.landing is not None) == (kind is Kind.COPIED)


HOUR = 3_600.0


@pytest.mark.parametrize(
    ("from_s", "to_s", "ago_s", "text"),
    [
        (9_999.0, 10_000.0, 60.0, "at 1970-01-01 02:46:40Z"),
        (9_990.0, 10_000.0, 60.0, "between 1970-01-01 02:46:30Z and 1970-01-01 02:46:40Z"),
        (9_999.0, 10_000.0, 2 * HOUR, "at about 1970-01-01 02:46Z"),
        (8_000.0, 10_000.0, 2 * HOUR, "between 1970-01-01 02:13Z and 1970-01-01 02:46Z"),
        (9_999.0, 10_000.0, 25 * HOUR, "before 1970-01-01 02:46:40Z"),
        (0.0, 10_000.0, 60.0, "before 1970-01-01 02:46:40Z"),
    ],
)
def test_a_time_is_told_no_more_exactly_than_known(
    from_s: float, to_s: float, ago_s: float, text: str
) -> None:
    assert copied_text((from_s, to_s), to_s + ago_s) == text


def test_what_is_asked_is_read_by_the_names_that_there_are() -> None:
    assert read_question("") == Question()
    assert read_question(" group my group ") == Question(group=GroupId("my group"))
    assert read_question("ESS-0", {"ESS-0"}) == Question(TopicName("ESS-0"))
    assert read_question("ESS-0", {"ESS"}) == Question(TopicName("ESS"), PartitionId(0))
    at = Question(TopicName("ESS-0"), PartitionId(3), Offset(70))
    assert read_question("ESS-0-3@70", {"ESS-0"}) == at
    assert str(at) == "ESS-0-3@70"
    assert read_question("ESS@7") == Question(TopicName("ESS@7"))


def test_a_link_as_a_whole() -> None:
    assert explain(Question(), evidence()).kind is Kind.COPIED
    late = status(lag_records=50, lag_s=70.0, records_per_s=10.0)
    late.topics[0].lag_records, late.topics[0].lag_s = 50, 70.0
    found = explain(Question(), evidence(status=late, level_in_s=30.0))
    assert found.kind is Kind.LATE
    assert says(found, "the whole link will be level in about 30 s")
    never = explain(Question(), evidence(status=StatusBoard(LinkName("l")).status(NOW_MS)))
    assert never.kind is Kind.UNKNOWN
    assert "was never started" in never.answer
    refused = explain(Question(), evidence(status=status(refused={"a": "no"})))
    assert refused.kind is Kind.STOPPED
    assert "1 topic is refused" in refused.answer
    assert "heliostat explain l a" in text_of(refused)


def commit(reason: Reason, reread: int | None = 0) -> CommitDecision:
    return CommitDecision(P0, P0, Offset(9), Offset(9), Offset(9), reread, reason, "it is so")


GROUPS: dict[str, tuple[GroupKnown | None, Kind, str]] = {
    "never seen": (GroupKnown(is_there=False), Kind.NOT_MIRRORED, "has no group g"),
    "excluded": (
        GroupKnown(is_there=True, why="excluded by g"),
        Kind.NOT_MIRRORED,
        "excluded by g",
    ),
    "sync off": (
        GroupKnown(is_there=True, is_selected=True, is_synced=False),
        Kind.NOT_MIRRORED,
        "groups.sync is off",
    ),
    "not read": (None, Kind.UNKNOWN, "not known now"),
}


@pytest.mark.parametrize("case", GROUPS)
def test_why_a_group_is_not_synced(case: str) -> None:
    known, kind, words = GROUPS[case]
    found = explain(Question(group=GroupId("g")), evidence(group=known))
    check_readable(found)
    assert found.kind is kind
    assert found.next_steps
    assert says(found, words)


@pytest.mark.parametrize("reason", Reason)
def test_where_a_group_would_resume(reason: Reason) -> None:
    decided = GroupDecision(GroupId("g"), None, None, (commit(reason, 3),))
    known = GroupKnown(is_there=True, is_selected=True, decided=decided)
    found = explain(Question(group=GroupId("g")), evidence(group=known))
    check_readable(found)
    is_settled = reason in {Reason.SYNCED, Reason.PUBLISH, Reason.RESET}
    assert (found.kind is Kind.COPIED) == is_settled
    assert "3 records again" in text_of(found)


def test_a_renamed_group_is_told_by_both_names() -> None:
    rows = (commit(Reason.SYNCED, 0),)
    decided = GroupDecision(GroupId("g"), None, None, rows, target_group=GroupId("summit.g"))
    known = GroupKnown(is_there=True, is_selected=True, decided=decided)
    for asked in ("g", "summit.g"):
        found = explain(Question(group=GroupId(asked)), evidence(group=known))
        assert says(found, "the group g (summit.g at the target) would resume exactly")


def test_what_could_not_be_read_is_told() -> None:
    found = explain(Question(T), evidence(unread=("the ledger could not be read: no",)))
    assert says(found, "the ledger could not be read: no")


def test_codes_of_other_versions_are_told_as_unknown() -> None:
    assert "not known to this version" in known_code("FROM_THE_FUTURE").meaning
    assert code_in("loop: [SPARK_UNAVAILABLE] it is gone") == "SPARK_UNAVAILABLE"
    assert code_in("nothing") == ""
