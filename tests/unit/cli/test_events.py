"""`heliostat events`: lines for people and programs, and how it ends."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from heliostat.cli.main import run
from heliostat.cli.stop_signal import STOP
from heliostat.errors import ConnectionLost
from heliostat.names import LinkName
from heliostat.operate import events
from heliostat.operate.events import EventChoice, LinkEvent

TEXT = """
clusters: {A: {bootstrap: ['a:1']}, B: {bootstrap: ['b:1']}}
links: [{name: a-to-b, source: A, target: B, topics: {include: [x]}}]
"""
PAUSED = LinkEvent(LinkName("a-to-b"), 1_000, "WARN", "t-0 is blocked [X]", "t", 0, "X")


@pytest.fixture
def given(tmp_path: Path) -> str:
    file = tmp_path / "heliostat.yaml"
    file.write_text(TEXT)
    return str(file)


@pytest.mark.parametrize(
    ("link", "line"),
    [("a-to-b", "WARN t-0 is blocked [X]"), ("all", "WARN a-to-b: t-0 is blocked [X]")],
)
def test_past_events_are_lines(
    given: str, capsys, monkeypatch: pytest.MonkeyPatch, link: str, line: str
) -> None:
    asked: list[Any] = []

    def past_events(_: object, *what: object) -> list[LinkEvent]:
        asked.extend(what)
        return [PAUSED]

    monkeypatch.setattr(events, "past_events", past_events)
    assert run(["events", link, "-c", given, "--since", "6h", "--level", "warn"]) == 0
    assert capsys.readouterr().out == f"1970-01-01 00:00:01Z {line}\n"
    assert asked == [None if link == "all" else link, 21_600, EventChoice("WARN")]


def test_following_ends_with_an_interrupt_and_exit_code_0(
    given: str, capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given one that follows / when interrupted / then it ends well, after lines of JSON."""
    handlers = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}

    def follow_events(*_: object, is_ending: Any, tell: Any, **__: object) -> Iterator[LinkEvent]:
        yield PAUSED
        tell(ConnectionLost("the target is away"))
        os.kill(os.getpid(), signal.SIGINT)
        assert is_ending()

    monkeypatch.setattr(events, "follow_events", follow_events)
    try:
        assert run(["events", "all", "-c", given, "--follow", "--json"]) == 0
    finally:
        STOP.is_set.clear()
        for number, handler in handlers.items():
            signal.signal(number, handler)
    out, err = capsys.readouterr()
    assert json.loads(out) == PAUSED.to_json()
    assert "the target is away" in err
    assert "tried again" in err


def test_a_link_that_is_none_is_refused(given: str, capsys) -> None:
    assert run(["events", "x", "-c", given]) == 2
    assert "there is no link x" in capsys.readouterr().err
