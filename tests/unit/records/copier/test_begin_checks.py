"""Checks that keep a partition from being continued at the target's log end."""

from __future__ import annotations

from typing import Any

import pytest

from heliostat.names import Offset, PartitionId, TopicName, TopicPartition
from heliostat.offsets.offset_map import Break, OffsetMap
from heliostat.records.batches.converted import RefusedRecord, StopReason
from heliostat.records.copier.begin_checks import (
    Beginning,
    OwnProducers,
    needs_last_batch,
    refused_by,
    why_stopped,
)
from heliostat.records.copier.lane import PartitionSpec
from heliostat.records.copier.markers import filler_of
from heliostat.records.copier.network import LastBatch, LogRange

P = TopicPartition(TopicName("t"), PartitionId(0))
PRODUCER = 7
OURS = LastBatch(PRODUCER, 99)


def spec(start: int = 10, **fields: Any) -> PartitionSpec:
    return PartitionSpec(P, P, None, None, Offset(start), 1 << 20, is_compacted=False, **fields)


def code(tail: LastBatch | None = OURS, *, start: int = 0, end: int = 100, **more: Any) -> str:
    """Why a log `[start, end)` is not copied on; empty where it is."""
    fields = {"known": OffsetMap(), "fills": False, "copied_to": -1, "copied_end": -1}
    fields["is_refused"] = False
    named = {key: more.pop(key, value) for key, value in fields.items()}
    at = Beginning(LogRange(Offset(start), Offset(end)), tail, **named)
    found = why_stopped(spec(**more), OwnProducers(PRODUCER), at)
    return "" if found is None else found.code


@pytest.mark.parametrize(
    ("start", "end", "more", "expected"),
    [
        (0, 100, {}, True),
        (100, 100, {}, True),
        (0, 0, {}, False),
        (10, 10, {}, False),
        (4, 4, {}, False),
        (0, 4, {}, True),
        (0, 100, {"adopted_at": Offset(100)}, False),
        (0, 100, {"adopted_at": Offset(90)}, True),
        (100, 100, {"jump": Break(100, 150)}, False),
        (0, 100, {"jump": Break(90, 150)}, True),
    ],
)
def test_the_last_batch_is_checked_where_others_may_have_appended(
    start: int, end: int, more: dict[str, Any], *, expected: bool
) -> None:
    target = LogRange(Offset(start), Offset(end))
    assert needs_last_batch(spec(**more), target) is expected


@pytest.mark.parametrize(
    "tail",
    [LastBatch(PRODUCER, 98), LastBatch(8, 99), LastBatch(-1, -1)],
    ids=["elsewhere", "another's", "none"],
)
def test_nothing_is_copied_after_a_foreign_record(tail: LastBatch) -> None:
    assert code(tail) == "FOREIGN_TAIL"
    assert code(tail, adopted_at=Offset(100)) == ""
    assert code(tail, copied_to=100) == "FOREIGN_TAIL"


def test_nothing_is_copied_without_the_map() -> None:
    assert code(map_lost="rows are gone") == "OFFSET_MAP_LOST"
    for more in ({"jump": Break(100, 150)}, {"adopted_at": Offset(100)}, {"truncated": "it was"}):
        assert code(map_lost="rows are gone", **more) == "OFFSET_MAP_LOST"


def test_nothing_is_copied_without_the_pipeline() -> None:
    """Given a pipeline that Spark refuses / then it stops; where it fails later, it begins."""
    assert code(pipeline="hide", why_fails="no such column") == "PIPELINE_REFUSED"
    assert code(pipeline="hide", why_fails="no number", fails_at=50) == ""


def test_an_unknown_last_writer_needs_a_note_of_ours() -> None:
    """Given a log whose last record is gone / then it continues only if we noted that end."""
    assert code(None, start=100, copied_to=100) == ""
    assert code(None, start=100, copied_to=99) == "TAIL_UNKNOWN"
    assert code(None, start=100, copied_to=101) == ""  # the target lost some: they are copied again
    assert code(None, start=100) == "TAIL_UNKNOWN"
    assert code(None, start=0, copied_to=100) == ""
    assert code(None, start=100, copied_to=103, copied_end=100) == ""
    assert code(None, start=100, copied_to=103, copied_end=99) == "TAIL_UNKNOWN"


def test_a_note_names_a_source_offset() -> None:
    """Given a mirror whose offsets differ / then the source offset of its end is compared."""
    known = OffsetMap.of([Break(50, 80)])
    assert code(None, start=100, known=known, copied_to=130) == ""
    assert code(None, start=100, known=known, copied_to=100) == "TAIL_UNKNOWN"


def test_markers_at_the_end_of_a_filled_mirror_are_ours() -> None:
    known = OffsetMap.of([Break(90, 100)])  # 90 records, and 10 markers after them
    known.is_filled = True
    marker = LastBatch(filler_of(PRODUCER), 2**31 - 1)
    assert code(marker, known=known, fills=True) == ""
    assert code(marker, known=OffsetMap(), fills=True) == "FOREIGN_TAIL"
    assert code(None, known=known, fills=True, copied_to=100) == ""


def test_only_the_first_cause_is_reported() -> None:
    """Given a foreign record in a mirror of a truncated source / then the foreign record."""
    assert code(LastBatch(-1, -1), truncated="it was") == "FOREIGN_TAIL"
    assert code(truncated="it was") == "SOURCE_TRUNCATED"
    assert code(truncated="it was", jump=Break(100, 150)) == ""
    assert code(is_refused=True) == "TARGET_REFUSES_SEQUENCE"


def test_a_jump_back_needs_offsets_that_may_differ() -> None:
    assert code(jump=Break(100, 50)) == ""
    assert code(jump=Break(100, 50), fills=True) == "OFFSETS_GO_BACK"


def test_the_driver_stops_a_partition_at_a_record_that_is_still_to_come() -> None:
    """Given a record that the driver gave up / then it refuses it, unless that is passed; with a

    pipeline, records from there on do not even go in.
    """
    fails: Any = {"fails_at": 50, "why_fails": "none", "fail_code": "SCHEMA_UNREADABLE"}
    expected = RefusedRecord(50, "none", StopReason.SCHEMA_UNREADABLE)
    assert [refused_by(spec(**fails), at) for at in (0, 50, 51)] == [expected, expected, None]
    assert refused_by(spec(pipeline="hide", **fails), 0) is None
    assert refused_by(spec(), 0) is None


@pytest.mark.parametrize(
    ("producer", "says"),
    [
        (5, "by this link under a former producer id, 5"),
        (filler_of(5), "by this link under a former producer id"),
        (4711, "not appended by this link, but by the producer 4711"),
        (-1, "by a producer without an id"),
    ],
)
def test_a_foreign_tail_says_whether_its_producer_was_ever_the_links(
    producer: int, says: str
) -> None:
    log, former = LogRange(Offset(0), Offset(100)), frozenset({5, 6})
    tail = LastBatch(producer, 99)
    at = Beginning(
        log,
        tail,
        OffsetMap(),
        fills=False,
        copied_to=-1,
        copied_end=-1,
        is_refused=False,
    )
    stopped = why_stopped(spec(start=0), OwnProducers(PRODUCER, former), at)
    assert stopped is not None
    assert stopped.code == "FOREIGN_TAIL"
    assert says in stopped.reason
