"""What becomes of a partition whose source elected a leader behind what is known to be copied."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from unit.records.test_jump import copy_with

from heliostat.errors import ConnectionLost
from heliostat.names import Offset
from heliostat.records.copied_epochs import CopiedTo
from heliostat.records.doubts import settle_doubts, source_parted
from heliostat.records.lane import PartitionState
from heliostat.records.network import LogRange, MirrorEnd, SourceSays
from heliostat.records.offset_map import Break, OffsetMap
from heliostat.records.partition_copy import PartitionCopy
from heliostat.records.partition_standing import Phase

NOW_MS = 5
NOTED = CopiedTo(100, 4)
"""The batch before source offset 100 is of epoch 4; more was copied since."""


def doubted(end: int, **spec: Any) -> PartitionCopy:
    """Copied to 150, of which 100 are noted; epoch 4 ended at `end`."""
    item = copy_with(**spec)
    item.epochs.learn(NOTED)
    item.phase, item.position = Phase.COPY, Offset(150)
    source_parted(item, (4, end), NOW_MS)
    return item


def settled(
    item: PartitionCopy, answer: SourceSays | None, known: OffsetMap | None = None, end: int = 150
) -> tuple[set[int], list[MirrorEnd]]:
    """Which can't be told, and what was asked of the source."""
    asked: list[MirrorEnd] = []

    def compare_ends(ends: dict[int, MirrorEnd]) -> dict[int, SourceSays]:
        asked.extend(ends.values())
        return {} if answer is None else dict.fromkeys(ends, answer)

    network: Any = SimpleNamespace(compare_ends=compare_ends)
    ranges = {0: LogRange(Offset(0), Offset(end))}
    return settle_doubts(network, ranges, {0: known or OffsetMap()}, [item]), asked


def test_what_ends_before_the_noted_was_lost_and_nothing_is_compared() -> None:
    item = doubted(end=99)
    assert (item.state, item.code) == (PartitionState.GAP, "SOURCE_TRUNCATED")
    assert item.doubted_from is None


def test_it_is_looked_at_before_anything_else_is_fetched() -> None:
    item = doubted(end=100)
    assert (item.phase, item.doubted_from) == (Phase.FIND_END, 100)
    assert item.want(0.0) is None


def test_the_same_records_go_on_with_the_epoch_they_are_from() -> None:
    item = doubted(end=120)
    assert settled(item, SourceSays(True, 6))[0] == set()
    assert (item.spec.truncated, item.doubted_from) == ("", None)
    assert item.epochs.copied(150) == CopiedTo(150, 6)
    assert item.epochs.before(150) == 6


@pytest.mark.parametrize("has_them", [False, None])
def test_others_stop_it_and_the_note_shows_everybody_that_it_parted(has_them: bool | None) -> None:
    """Given that epoch 4 ends at 120 at the source / then a note of 150 contradicts it."""
    item = doubted(end=120)
    assert settled(item, SourceSays(has_them, 6))[0] == set()
    assert "from offset 120 on" in item.spec.truncated
    assert ("nothing is left to compare" in item.spec.truncated) is (has_them is None)
    assert item.epochs.copied(150) == CopiedTo(150, 4)


def test_what_can_not_be_told_now_stays_in_doubt() -> None:
    item = doubted(end=120)
    assert settled(item, None)[0] == {0}
    assert item.doubted_from == 120
    lost: Any = SimpleNamespace()
    ranges = {0: LogRange(Offset(0), Offset(150))}
    assert settle_doubts(lost, ranges, ConnectionLost("no map"), [item]) == set()
    assert settle_doubts(lost, {0: ConnectionLost("no end")}, {0: OffsetMap()}, [item]) == set()
    assert item.doubted_from == 120


def test_where_the_target_ends_says_the_map() -> None:
    """Given 50 offsets without records at the source / then its 100 records end at 150."""
    item = doubted(end=149)
    known = OffsetMap.of([Break(10, 60)])
    _, (asked,) = settled(item, SourceSays(True, 6), known, end=100)
    assert (asked.source, asked.known) == (150, known)


def test_a_mirror_with_filled_holes_has_the_source_s_offsets() -> None:
    """Given a map that counts records / then offsets are not taken from it."""
    item = doubted(end=120, fills=True)
    _, (asked,) = settled(item, SourceSays(True, 6), OffsetMap(is_filled=True))
    assert asked.source == 150


@pytest.mark.parametrize("end", [119, 120])
def test_a_target_that_ends_before_has_nothing_that_was_lost(end: int) -> None:
    """Given a hole behind the target's last record / then it is read again: it may be none now."""
    item = doubted(end=120)
    item.copied_to, item.copied_end = 150, end
    assert settled(item, SourceSays(False, 6), end=end) == (set(), [])
    assert (item.doubted_from, item.copied_to, item.spec.truncated) == (None, 120, "")
    assert item.epochs.before(120) == -1  # named again, it would be answered the same


def test_what_was_decided_is_not_doubted_again() -> None:
    item = doubted(end=120, jump=Break(150, 200))
    assert settled(item, SourceSays(False, 6)) == (set(), [])
    assert item.spec.truncated == ""
