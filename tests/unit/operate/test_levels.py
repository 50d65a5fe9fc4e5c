"""What is told of limits and priorities, and how many topics may have a limit."""

from __future__ import annotations

from typing import Any

import pytest
from click.testing import CliRunner

from heliostat.cli.levels import answer_line, limit_command, prefer_command
from heliostat.errors import Refused
from heliostat.names import LinkName, TopicName
from heliostat.operate.levels import LevelAnswer, check_count, place_of
from heliostat.records.copier.lane_limits import Priority
from heliostat.wishes.levels import LIMITED_TOPICS_MAX, Levels, Limit, Preference, Said

SAID = Said("ops", 1)
DONE: dict[str, Any] = {
    "link": LinkName("l"),
    "wished": "20 MB/s",
    "places": ("the link",),
    "changed": ("the link",),
    "topics": 3,
    "partitions": 7,
    "is_done": True,
    "waits": "",
    "took_s": 0.42,
    "is_tried": False,
    "bytes_per_s": 20_000_000,
}


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({}, "l has a limit of 20 MB/s (3 topics, 0.4 s)"),
        ({"changed": ()}, "l already has a limit of 20 MB/s (3 topics, 0.4 s)"),
        (
            {"places": ("t",), "topics": 1, "wished": "none", "bytes_per_s": None},
            "l: t has no limit (1 topic, 0.4 s)",
        ),
        (
            {"places": ("a.*", "b"), "wished": "high", "is_done": False, "waits": "x"},
            "l: a.*, b is to have high priority (3 topics), and waits: x",
        ),
        (
            {"is_tried": True, "is_done": False},
            "l would have a limit of 20 MB/s (3 topics); nothing was changed",
        ),
    ],
)  # fmt: skip
def test_what_became_of_it(changes: dict[str, Any], line: str) -> None:
    answer = LevelAnswer(**{**DONE, **changes})
    assert answer_line(answer) == line
    assert answer.to_json()["bytes_per_second"] == answer.bytes_per_s


def test_no_more_topics_have_limits_than_connections_allow() -> None:
    known = Levels()
    limits = [Limit(TopicName(f"t{n}"), 5_000, SAID) for n in range(LIMITED_TOPICS_MAX)]
    for each in (*limits, Limit(None, 5_000, SAID)):
        known.take(each.key, each.to_json())
    check_count(known, [limits[0], Limit(None, 9_000, SAID), Preference("*", Priority.LOW, SAID)])
    one_more = Limit(TopicName("u"), 5_000, SAID)
    with pytest.raises(Refused, match="no more than 100 topics"):
        check_count(known, [one_more])
    check_count(known, [Limit(limits[3].topic, None, SAID), one_more])
    assert [place_of(each) for each in (one_more, Limit(None, None, SAID))] == ["u", "the link"]


@pytest.mark.parametrize(
    ("command", "words", "said"),
    [
        (limit_command, ["l", "20MB"], "is no limit"),
        (limit_command, ["l"], "Missing argument"),
        (prefer_command, ["l", "t", "urgent"], "'urgent' is not one of"),
        (prefer_command, ["l", "high"], "Missing argument"),
    ],
)
def test_what_can_not_be_said(command: Any, words: list[str], said: str) -> None:
    answer = CliRunner().invoke(command, words)
    assert answer.exit_code == 2
    assert said in answer.output
