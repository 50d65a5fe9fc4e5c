"""A partition whose source elected a leader after the noted epoch: compared before it continues."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from unit.records.copier.test_jump import copy_with

from heliostat.errors import ConnectionLost
from heliostat.names import Offset
from heliostat.offsets.offset_map import Break, OffsetMap
from heliostat.records.batches.copied_epochs import CopiedTo
from heliostat.records.copier.doubts import doubt_unnoted, settle_doubts, source_diverged
from heliostat.records.copier.lane import PartitionState
from heliostat.records.copier.network import LastBatch, LogRange, MirrorEnd, SourceSays
from heliostat.records.copier.partition_copy import PartitionCopy
from heliostat.records.copier.partition_standing import Phase

NOW_MS = 5
NOTED = CopiedTo(100, 4)
"""The batch before source offset 100 is of epoch 4; more was copied since."""


def doubted(end: int, **spec: Any) -> PartitionCopy:
    """Copied to 150, of which 100 are noted; epoch 4 ended at `end`."""
    item = copy_with(**spec)
    item.fetches.epochs.learn(NOTED)
    item.phase, item.progress.position = Phase.COPY, Offset(150)
    source_diverged(item, (4, end), NOW_MS)
    return item


def settled(
    item: PartitionCopy,
    answer: SourceSays | None,
    known: OffsetMap | None = None,
    end: int = 150,
    tail: LastBatch | None = None,
    *,
    kept: tuple[str, ...] = (),
) -> tuple[set[int], list[MirrorEnd]]:
    """Which can't be told, and what was asked of the source."""
    asked: list[MirrorEnd] = []

    def compare_ends(ends: dict[int, MirrorEnd]) -> dict[int, SourceSays]:
        asked.extend(ends.values())
        return {} if answer is None else dict.fromkeys(ends, answer)

    network: Any = SimpleNamespace(compare_ends=compare_ends)
    ranges = {0: LogRange(Offset(0), Offset(end))}
    tails = {0: tail or LastBatch(7, end - 1)}
    maps = {0: OffsetMap() if known is None else known}
    return settle_doubts(
        network, ranges, tails, maps, [item], kept={item.spec.pipeline: kept}
    ), asked


def test_an_epoch_that_ended_before_the_noted_position_is_a_loss() -> None:
    item = doubted(end=99)
    assert (item.standing.state, item.standing.code) == (PartitionState.GAP, "SOURCE_TRUNCATED")
    assert item.doubts.doubted_from is None


@pytest.mark.parametrize(("epoch", "is_cut"), [(5, True), (4, False)])
def test_in_a_merged_topic_a_later_leaders_record_shows_a_cut(epoch: int, *, is_cut: bool) -> None:
    """Given breaks without a cleaner, and another record at the source / then whose it is counts.

    By a later leader: the source has lost ours. Else the map may be another one.
    """
    item = copy_with(is_compacted=True, merged_from=Offset(0))
    item.fetches.epochs.learn(NOTED)
    known = OffsetMap.of([Break(80, 120)])
    assert settled(item, SourceSays(False, epoch), known, 100)[0] == set()
    assert bool(item.spec.truncated) is is_cut
    assert bool(item.spec.map_lost) is not is_cut
    if is_cut:
        assert item.fetches.epochs.copied(140) == CopiedTo(140, 4)


def test_what_is_before_a_decided_jump_is_not_compared() -> None:
    """Given a decision to go on behind lost records / then that they are lost stops nothing."""
    item = copy_with(is_compacted=True, merged_from=Offset(0), jump=Break(100, 110))
    known = OffsetMap.of([Break(80, 120)])
    assert settled(item, SourceSays(False, 9), known, 100) == (set(), [])
    assert (item.spec.truncated, item.spec.map_lost) == ("", "")


def test_doubts_are_resolved_before_anything_else_is_fetched() -> None:
    item = doubted(end=100)
    assert (item.phase, item.doubts.doubted_from) == (Phase.FIND_END, 100)
    assert item.want(0.0) is None


def test_equal_records_continue_with_their_epoch() -> None:
    item = doubted(end=120)
    assert settled(item, SourceSays(True, 6))[0] == set()
    assert (item.spec.truncated, item.doubts.doubted_from) == ("", None)
    assert item.fetches.epochs.copied(150) == CopiedTo(150, 6)
    assert item.fetches.epochs.before(150) == 6


@pytest.mark.parametrize("has_them", [False, None])
def test_other_records_stop_it_and_the_note_shows_the_divergence(
    has_them: bool | None,
) -> None:
    """Given that epoch 4 ends at 120 at the source / then a note of 150 contradicts it."""
    item = doubted(end=120)
    assert settled(item, SourceSays(has_them, 6))[0] == set()
    assert "from offset 120 on" in item.spec.truncated
    assert ("nothing is left to compare" in item.spec.truncated) is (has_them is None)
    assert item.fetches.epochs.copied(150) == CopiedTo(150, 4)


def test_an_unreadable_source_stays_in_doubt() -> None:
    item = doubted(end=120)
    assert settled(item, None)[0] == {0}
    assert item.doubts.doubted_from == 120
    lost: Any = SimpleNamespace()
    ranges = {0: LogRange(Offset(0), Offset(150))}
    assert settle_doubts(lost, ranges, {}, ConnectionLost("no map"), [item]) == set()
    assert settle_doubts(lost, {0: ConnectionLost("no end")}, {}, {0: OffsetMap()}, [item]) == set()
    assert item.doubts.doubted_from == 120


def test_the_map_gives_the_source_offset_of_the_targets_end() -> None:
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
    item.map.begin(OffsetMap.of([Break(150, 180)]), 150, fills=True)
    assert item.map.source_offset == 150


@pytest.mark.parametrize("end", [119, 120])
def test_a_target_that_ends_before_the_loss_has_lost_nothing(end: int) -> None:
    """Given a hole after the target's last record / then it is read again: it may have records."""
    item = doubted(end=120)
    item.progress.copied_to, item.progress.copied_end = 150, end
    assert settled(item, SourceSays(False, 6), end=end) == (set(), [])
    assert (item.doubts.doubted_from, item.progress.copied_to, item.spec.truncated) == (
        None,
        120,
        "",
    )
    assert item.fetches.epochs.before(120) == -1  # named again, it would be answered the same
    ahead = OffsetMap.of([Break(end, 150)])
    item.map.begin(ahead, end)
    assert item.map.source_offset == 120


def test_a_decided_partition_is_not_doubted_again() -> None:
    item = doubted(end=120, jump=Break(150, 200))
    assert settled(item, SourceSays(False, 6)) == (set(), [])
    assert item.spec.truncated == ""


def unnoted(**spec: Any) -> PartitionCopy:
    """A driver died between its first record and its first note."""
    item = copy_with(**spec)
    doubt_unnoted([item], ())
    return item


def test_without_a_note_the_last_record_is_compared_and_gives_the_epoch() -> None:
    item = unnoted()
    _, (asked,) = settled(item, SourceSays(True, 6))
    assert asked.doubted_from == 0
    assert (item.fetches.epochs.copied(150), item.spec.truncated) == (CopiedTo(150, 6), "")
    assert settled(item, SourceSays(False, 6)) == (set(), [])


def test_a_different_record_stops_it_and_its_epoch_shows_the_divergence() -> None:
    """Given a record of epoch 6 in its place / then ours had an earlier one, which ended before."""
    item = unnoted()
    settled(item, SourceSays(False, 6))
    assert "lost or replaced" in item.spec.truncated
    assert item.fetches.epochs.copied(150) == CopiedTo(150, 5)


@pytest.mark.parametrize("answer", [SourceSays(None, -1), SourceSays(False, -1)])
def test_without_evidence_of_a_loss_it_continues(answer: SourceSays) -> None:
    item = unnoted()
    settled(item, answer)
    assert (item.spec.truncated, item.doubts.doubted_from) == ("", None)
    assert item.fetches.epochs.copied(150) == CopiedTo(-1, -1)


def test_an_unanswered_comparison_is_repeated() -> None:
    item = unnoted()
    assert settled(item, None)[0] == {0}
    _, (asked,) = settled(item, SourceSays(True, 6))
    assert asked.target.end == 150


@pytest.mark.parametrize(
    ("spec", "known", "tail"),
    [
        ({}, None, LastBatch(8, 149)),
        ({}, None, LastBatch(7, 12)),
        ({"map_lost": "gone"}, None, None),
        ({}, OffsetMap(lost="gone"), None),
        ({"jump": Break(150, 200)}, None, None),
        ({"adopted_at": Offset(150)}, None, None),
    ],
    ids=["a stranger's", "not ours", "map lost", "map spoiled", "decided", "adopted"],
)
def test_other_stops_and_decisions_say_nothing_about_the_source(
    spec: dict[str, Any], known: OffsetMap | None, tail: LastBatch | None
) -> None:
    item = unnoted(**spec)
    assert settled(item, SourceSays(False, 6), known, tail=tail) == (set(), [])
    assert (item.spec.truncated, item.fetches.epochs.copied(150)) == ("", CopiedTo(-1, -1))


def test_noted_or_truncated_partitions_are_not_compared_for_it() -> None:
    item, told = copy_with(), copy_with(truncated="so it is")
    doubt_unnoted([item], {0})
    doubt_unnoted([told], ())
    assert (item.doubts.doubted_from, told.doubts.doubted_from) == (None, None)


MAPPED = OffsetMap.of([Break(10, 60), Break(149, 300)])


def compacted(copied_end: int = -1) -> PartitionCopy:
    """Of a source that is compacted; the link has seen it acknowledged up to there."""
    item = copy_with(is_compacted=True)
    item.progress.copied_end = copied_end
    return item


@pytest.mark.parametrize(("copied_end", "source"), [(-1, 0), (148, 198), (149, 300)])
def test_records_after_the_noted_end_are_compared_with_the_map(
    copied_end: int, source: int
) -> None:
    """Given records after the noted end, and a break there / then another map may apply to them."""
    item = compacted(copied_end)
    _, (asked,) = settled(item, SourceSays(True, 6), MAPPED)
    assert (asked.target.end, asked.doubted_from, asked.asks_map) == (150, source, True)
    assert item.spec.map_lost == ""


@pytest.mark.parametrize(
    ("item", "known"),
    [
        (compacted(150), MAPPED),
        (compacted(149), OffsetMap.of([Break(10, 60), Break(150, 300)])),
        (compacted(11), OffsetMap.of([Break(10, 60)])),
        (compacted(), OffsetMap()),
        (copy_with(), MAPPED),
        (copy_with(is_compacted=True, map_lost="it is"), MAPPED),
    ],
    ids=["noted", "break behind it", "break before it", "none", "not compacted", "lost"],
)
def test_records_that_fit_only_this_map_are_not_compared(
    item: PartitionCopy, known: OffsetMap
) -> None:
    assert settled(item, SourceSays(False, 6), known) == (set(), [])


def test_records_that_contradict_the_map_stop_it_with_a_hint_to_rebuild() -> None:
    item = compacted()
    assert settled(item, None, MAPPED)[0] == {0}
    settled(item, SourceSays(False, 6), MAPPED)
    assert "offsets rebuild" in item.spec.map_lost
    assert item.spec.truncated == ""
    stopped = item.why_not_from(LogRange(Offset(0), Offset(150)), LastBatch(7, 149), MAPPED)
    assert stopped is not None
    assert stopped.code == "OFFSET_MAP_LOST"


def test_after_a_duplicate_answer_the_last_record_is_compared_without_a_break() -> None:
    item = compacted(100)
    item.doubts.repeated_to = Offset(120)
    _, (asked,) = settled(item, SourceSays(True, 6))
    assert (asked.target.end, asked.doubted_from) == (120, 100)
    assert item.doubts.repeated_to is None
    item.doubts.repeated_to = Offset(120)
    settled(item, SourceSays(False, 6))
    assert item.spec.map_lost


def test_the_source_is_asked_first_whether_it_lost_them() -> None:
    item = doubted(end=120, is_compacted=True)
    _, (asked,) = settled(item, SourceSays(False, 6), MAPPED)
    assert not asked.asks_map
    assert item.spec.truncated


def test_without_any_note_one_look_answers_both() -> None:
    item = unnoted(is_compacted=True)
    _, (asked,) = settled(item, SourceSays(True, 6), MAPPED)
    assert asked.asks_map
    assert (item.doubts.doubted_from, item.doubts.is_unnoted) == (None, False)


@pytest.mark.parametrize("kept", [(), ("key",)])
def test_behind_a_pipeline_only_what_it_keeps_is_asked_for(kept: tuple[str, ...]) -> None:
    """Given an election since the note / then a pipeline that changes all is no reason to stop."""
    item = doubted(end=120, pipeline="hide")
    asked = settled(item, SourceSays(True, 6), kept=kept)[1]
    assert [each.kept for each in asked] == [kept] * bool(kept)
    assert (item.spec.truncated, item.doubts.doubted_from) == ("", None)


def test_the_map_behind_a_pipeline_that_changes_all_is_believed() -> None:
    item = copy_with(is_compacted=True, pipeline="hide")
    assert settled(item, SourceSays(False, 6), MAPPED) == (set(), [])
    assert not item.spec.map_lost
