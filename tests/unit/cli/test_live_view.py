"""The live view on screens of several sizes, and its keys."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from heliostat.cli.live_screen import keys_of
from heliostat.cli.live_view import Scene, ViewState, screen
from heliostat.records.copier.lane import LineUse
from heliostat.status.catch_up import CatchUp
from heliostat.status.order import ORDERS
from heliostat.status.values import LinkStatus, TopicStatus

TOPICS = [
    TopicStatus(
        f"lsst.sal.MTMount.topic_{number:02}",
        f"lsst.sal.MTMount.topic_{number:02}",
        partitions=2,
        records_per_s=number,
        bytes_per_s=number * 400.0,
        lag_records=100 - number,
        lag_s=0.1 if number else 900.0,
        states={"copying": 2} if number != 5 else {"retrying": 1, "copying": 1},
    )
    for number in range(40)
]


def link(name: str = "summit-to-usdf", topics: list[TopicStatus] = TOPICS) -> LinkStatus:
    return LinkStatus(
        link=name,
        at_ms=0,
        state="running",
        topics=topics,
        partitions=80,
        records_per_s=12_345,
        bytes_per_s=5e6,
        lag_records=1_200,
        lag_s=900.0,
        latency_p50_ms=14,
        latency_p99_ms=32,
        states={"copying": 79, "retrying": 1},
        problems=[],
        refused={},
        notes=[],
        lanes=[],
        driver={},
        source_line=LineUse(150, 4_000_000),
        owner={"host": "antu.cp.lsst.org"},
    )


EVENTS = [
    "2026-11-21T14:03:01Z INFO link summit-to-usdf: 40 topics are mirrored",
    (
        "2026-11-21T14:03:19Z WARN link summit-to-usdf: base does not answer: no connection to "
        "broker 127.0.0.1:9092 within 5 s: check that it runs, and the network between"
    ),
]


def scene(*statuses: LinkStatus, beginning: str = "") -> Scene:
    names = [status.link for status in statuses]
    return Scene(
        statuses,
        dict.fromkeys(names, "summit → usdf"),
        dict.fromkeys(names, 95.0),
        EVENTS,
        now_ms=14 * 3_600_000 + 180_000,
        beginning=beginning,
    )


def lines(shown: Scene, state: ViewState, columns: int, height: int) -> list[str]:
    console = Console(file=io.StringIO(), width=columns, height=height, force_terminal=True)
    with console.capture() as capture:
        console.print(screen(shown, state, columns, height))
    text = Console(file=io.StringIO(), width=columns)
    assert text.width == columns
    from rich.text import Text

    return Text.from_ansi(capture.get()).plain.splitlines()


@pytest.mark.parametrize(("columns", "height"), [(80, 24), (80, 10), (120, 40), (200, 50)])
def test_the_screen_is_filled_and_nothing_is_cut_that_matters(columns: int, height: int) -> None:
    rows = lines(scene(link()), ViewState(), columns, height)
    assert len(rows) == height
    assert all(len(row) <= columns for row in rows)
    text = "\n".join(rows)
    assert rows[0].startswith("summit-to-usdf running  12,345 rec/s  5.0 MB/s  lag 1,200 rec")
    for words in ("level in ≈ 95.0 s", "summit → usdf", "p50 14 ms p99 32 ms"):
        assert words in rows[0] + rows[1]
    assert re.search(r"topic +(part\. +)?rec/s +bytes/s +lag rec +lag s +states", text)
    assert "topic_39" in text, "the busiest topic"
    assert "more" in text or height >= 50
    assert rows[-1].rstrip().endswith("14:03:00 UTC")
    assert "owner antu.cp.lsst.org" in rows[0] + rows[1]
    if columns >= 120:
        assert "80 partitions" in rows[0] + rows[1]
        assert "source 150 ms away, 4.0 MB on the line" in rows[0] + rows[1]
    if height >= 24:
        assert "network between" in text, "the hint of an event is not cut"


def test_numbers_stand_beside_names_on_a_wide_screen() -> None:
    row = next(row for row in lines(scene(link()), ViewState(), 200, 50) if "topic_39" in row)
    assert row.index("39.0" if "39.0" in row else " 39 ") < 60


@pytest.mark.parametrize("height", [24, 12, 6])
def test_more_links_share_the_screen(height: int) -> None:
    links = [link(f"link-{number}") for number in range(3)]
    rows = lines(scene(*links), ViewState(), 80, height)
    assert len(rows) == height
    for number in range(3 if height > 6 else 2):
        assert any(row.startswith(f"link-{number} running") for row in rows)


def test_before_the_first_link_begins_the_screen_says_what_is_waited_for() -> None:
    rows = lines(scene(beginning="starting Spark and connecting, 3 s"), ViewState(), 80, 24)
    assert rows[0].startswith("starting Spark and connecting, 3 s")


def test_topics_are_filtered_as_one_types() -> None:
    state = ViewState()
    for key in ["/", "_", "1", "[", "backspace", "7"]:
        state.press(key)
    assert [row.source[-2:] for row in state.chosen(TOPICS)] == ["17"]
    rows = lines(scene(link()), state, 80, 24)
    assert rows[-1].startswith("/_17")
    state.press("enter")
    state.press("q")
    assert state.wants_stop
    state.press("esc")
    assert len(state.chosen(TOPICS)) == 40
    for key in ["/", "n", "o", "n", "e", "enter"]:
        state.press(key)
    assert any("no topic matches" in row for row in lines(scene(link()), state, 80, 24))


@pytest.mark.parametrize("pattern", ["[", "(", "*", "\\"])
def test_a_pattern_that_is_half_typed_is_plain_text(pattern: str) -> None:
    assert ViewState(pattern=pattern).chosen(TOPICS) == []


def test_topics_are_sorted_by_turns() -> None:
    state = ViewState()
    firsts = {}
    for _ in ORDERS:
        firsts[state.order] = state.chosen(TOPICS)[0].source[-2:]
        state.press("s")
    assert firsts == {"rate": "39", "lag": "05", "name": "00"}
    assert state.order == "rate"


def test_rows_scroll_and_end_at_the_last() -> None:
    state = ViewState()
    for _ in range(9):
        state.press("page down")
    rows = lines(scene(link()), state, 80, 24)
    assert any("topic_00" in row for row in rows)
    assert not any("more" in row for row in rows)
    state.press("g")
    assert any("topic_39" in row for row in lines(scene(link()), state, 80, 24))
    state.press("?")
    assert any("PgUp" in row for row in lines(scene(link()), state, 80, 24))


def test_keys_are_known_by_what_terminals_send() -> None:
    assert keys_of("s\x1b[A\x1b[6~q\x1b\r") == ["s", "up", "page down", "q", "esc", "enter"]


def test_the_time_until_level_is_by_the_pace_of_half_a_minute() -> None:
    pace = CatchUp()
    assert pace.level_in_s() is None
    for second in range(60):
        pace.observe(second, 10_000 - 100 * second)
    assert pace.level_in_s() == pytest.approx(41.0)
    pace.observe(60, 20_000)
    assert pace.level_in_s() is None, "it falls behind"
    pace.observe(61, None)
    assert pace.level_in_s() is None
