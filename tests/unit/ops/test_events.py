"""Lines of a log: for people, or JSON objects whose fields say what they are about."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from heliostat.errors import ConnectionLost
from heliostat.link.troubles import Troubles
from heliostat.names import LinkName
from heliostat.ops.events import Events, LogFormat, Subject
from heliostat.status.changes import Changes
from heliostat.status.event_log import EventLog
from heliostat.status.values import PartitionProblem

NOW_MS = 1_700_000_000_123


class StillClock:
    """Time does not pass."""

    def monotonic_s(self) -> float:
        return 1.0

    def wall_ms(self) -> int:
        return NOW_MS

    def sleep(self, seconds: float) -> None:
        pass


class Log:
    """A log in JSON, in memory."""

    def __init__(self) -> None:
        self.out = io.StringIO()
        self.events = Events(lambda: NOW_MS, self.out, LogFormat.JSON)

    def rows(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.getvalue().splitlines()]


def problem(partition: int, topic: str = "t") -> PartitionProblem:
    return PartitionProblem(
        topic, partition, "blocked", "RECORD_TOO_LARGE", "too large", 1, 9, is_stopped=True
    )


def test_a_line_has_time_level_and_message_and_only_what_is_known_beside() -> None:
    log = Log()
    log.events.info("it begins")
    log.events.of("l").warn("forged\nINFO line", Subject(topic="t", partition=0, code="C"))
    assert log.rows() == [
        {"time": "2023-11-14T22:13:20.123Z", "level": "INFO", "message": "it begins"},
        {
            "time": "2023-11-14T22:13:20.123Z",
            "level": "WARN",
            "message": "forged INFO line",
            "link": "l",
            "topic": "t",
            "partition": 0,
            "code": "C",
        },
    ]


@pytest.mark.parametrize(
    ("problems", "fields"),
    [
        ([problem(3)], {"topic": "t", "partition": 3}),
        ([problem(3), problem(4)], {"topic": "t"}),
    ],
)
def test_a_stopped_partition_is_named_in_fields(
    problems: list[PartitionProblem], fields: dict[str, object]
) -> None:
    log = Log()
    changes = Changes(LinkName("l"), log.events.of("l"))
    changes.look(problems, NOW_MS)
    changes.look([], NOW_MS)
    for row in log.rows():
        found = {name: row[name] for name in row.keys() - {"time", "level", "message"}}
        assert found == {"link": "l", "code": "RECORD_TOO_LARGE", **fields}
    assert [row["level"] for row in log.rows()] == ["WARN", "INFO"]


def test_a_trouble_has_the_code_of_its_error() -> None:
    log = Log()
    troubles = Troubles({}, StillClock(), log.events.of("l"))
    troubles.failed("topics", ConnectionLost("no answer"))
    (row,) = log.rows()
    assert (row["link"], row["code"]) == ("l", ConnectionLost.code)


@pytest.mark.parametrize("form", LogFormat)
def test_events_of_a_service_are_kept_and_logged(form: LogFormat) -> None:
    out = io.StringIO()
    events = EventLog(lambda: NOW_MS, LinkName("l"), out, form)
    events.warn("link l: it is silent")
    (row,) = events.rows()
    assert row.text == "it is silent"
    if form is LogFormat.JSON:
        line = json.loads(out.getvalue())
        assert (line["link"], line["message"]) == ("l", "it is silent")
    else:
        assert out.getvalue() == "2023-11-14T22:13:20Z WARN link l: it is silent\n"
