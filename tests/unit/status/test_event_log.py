"""Events of a service: seen from outside, and told by the driver; each once."""

from __future__ import annotations

from typing import Any

import pytest

from heliostat.names import LinkName
from heliostat.ops.events import Subject
from heliostat.status.event_log import SAME_WITHIN_MS, EventLog
from heliostat.status.history_records import PastEvent

NOW_MS = 1_700_000_000_000


class Clock:
    """A wall clock that a test moves."""

    def __init__(self) -> None:
        self.now_ms = NOW_MS

    def __call__(self) -> int:
        return self.now_ms


def texts(events: EventLog) -> list[str]:
    return [row.text for row in events.rows()]


def test_what_the_driver_tells_is_there_with_who_and_why_and_has_a_later_number() -> None:
    events = EventLog(Clock(), LinkName("l"))
    events.info("link l: the link is running")
    before = events.rows()[-1].id
    events.take(
        PastEvent(NOW_MS - 1_500, "INFO", "the link is paused: ada wishes so, disk is full")
    )
    assert texts(events)[-1] == "the link is paused: ada wishes so, disk is full"
    assert [row.text for row in events.rows(after=before)] == texts(events)[-1:]
    assert events.rows()[-1].at_ms == NOW_MS - 1_500


@pytest.mark.parametrize("driver_first", [True, False])
@pytest.mark.parametrize(
    ("theirs", "is_once"),
    [
        (("t-0 is retried [X], after 4 s", ("t", 0, "X")), True),
        (("t-1 is retried [X], after 3 s", ("t", 1, "X")), False),
        (("t-0 is retried [Y], after 3 s", ("t", 0, "Y")), False),
    ],
)
def test_what_both_see_is_told_once(
    theirs: tuple[str, tuple[Any, ...]], *, is_once: bool, driver_first: bool
) -> None:
    events = EventLog(Clock(), LinkName("l"))
    text, about = theirs
    told = PastEvent(NOW_MS + 2_000, "WARN", text, *about)
    if driver_first:
        events.take(told)
    events.warn("t-0 is retried [X], after 3 s", Subject("l", "t", 0, "X"))
    if not driver_first:
        events.take(told)
    assert len(events.rows()) == (1 if is_once else 2)


def test_the_same_again_is_told_again() -> None:
    clock = Clock()
    events = EventLog(clock, LinkName("l"))
    events.info("the link is running")
    events.info("the link is running")
    clock.now_ms += SAME_WITHIN_MS + 1
    events.take(PastEvent(clock.now_ms, "INFO", "the link is running"))
    assert texts(events) == ["the link is running"] * 3
