"""What of an answer goes into a pipeline, and pipelines in place."""

from __future__ import annotations

from typing import Any

import pytest
from support.batches import changed
from support.records import Sample, encode
from unit.records.rows.test_rows import at_offset, seen

from heliostat.errors import PipelineRefused
from heliostat.names import Offset, PartitionId, TopicName, TopicPartition
from heliostat.records.batches.converted import StopReason
from heliostat.records.copier.lane import PartitionSpec
from heliostat.records.copier.network import Fetched, Transformed, Want
from heliostat.records.rows.field_cuts import FieldCuts
from heliostat.records.rows.header_steps import HasHeader
from heliostat.records.rows.in_place import InPlace
from heliostat.records.transport.piped_answers import InPlaceExchange

P = TopicPartition(TopicName("orders"), PartitionId(0))
STEPS = InPlace([HasHeader("skip", is_kept=False)])
NO_VALUES = InPlace([], FieldCuts(None, (), lambda column, content: f"no {column} {content!r}"))


def batch(offset: int, *, skips: bool = False) -> bytes:
    headers = (("skip", None),) if skips else ()
    return at_offset(encode([Sample(b"k", b"v", 5, headers), Sample(b"k", b"v", 6)]), offset)


def through(
    data: bytes, *, want: int = 10, cut: int = 0, steps: InPlace = STEPS, **spec: Any
) -> Transformed:
    given: dict[str, Any] = {"is_compacted": False, "pipeline": "hide", **spec}
    one = PartitionSpec(P, P, None, None, Offset(0), 1 << 20, **given)
    exchange = InPlaceExchange([one], {"hide": steps})
    assert exchange.fileno() is None
    buffer = bytearray(b"head" + data)
    exchange.put(Fetched(Want(0, 1, want, 1 << 20), 0, 99, buffer, 4, len(buffer) - cut))
    (found,) = exchange.take()
    assert exchange.take() == []
    return found


def offsets(found: Transformed) -> list[int]:
    event = found.fetched
    return [row[0] for row in seen(bytes(memoryview(event.buffer)[event.start : event.end]))]


def test_an_answer_comes_back_at_once_without_what_is_filtered() -> None:
    found = through(batch(10, skips=True) + batch(12), want=10)
    assert (offsets(found), found.stop) == ([11, 12, 13], None)
    assert offsets(through(batch(10) + batch(12), want=11)) == [11, 12, 13]


def test_a_cut_batch_waits_and_one_alone_is_asked_for_again() -> None:
    assert offsets(through(batch(10) + batch(12), cut=3)) == [10, 11]
    found = through(batch(10), cut=3)
    assert found.stop is None
    assert found.fetched.end - found.fetched.start == len(batch(10)) - 3


def test_what_can_not_be_read_stops_the_partition_behind_what_can() -> None:
    """Given a batch with a wrong checksum, or with damaged records under a right one / then both

    are corrupt, and what is before them is copied.
    """
    wrong = bytearray(batch(12))
    wrong[-1] ^= 1
    damaged = bytearray(batch(12))
    damaged[61] = 0xFF
    for bad in (wrong, changed(damaged)):
        found = through(batch(10) + bytes(bad))
        assert offsets(found) == [10, 11]
        assert found.stop is not None
        assert (found.stop.reason, found.stop.offset) == (StopReason.CORRUPT, 12)
        assert "source offset 12" in found.stop.text


def test_a_record_that_is_to_stop_its_partition_does() -> None:
    spec = {"fails_at": 11, "fail_code": "TRANSFORM_FAILED", "why_fails": "a person says so"}
    assert offsets(through(batch(10), **spec)) == [10]
    found = through(batch(10), want=11, **spec)
    assert (found.fetched.start == found.fetched.end, found.stop and found.stop.offset) == (
        True,
        11,
    )


def test_a_record_that_fails_stops_the_partition_at_itself() -> None:
    """Given records without a value, and one that can't be cut / then all before it come back, and

    the stop names it; also where it is the first one, and where it was the last one copied.
    """
    nulls = at_offset(encode([Sample(b"k", None, 5), Sample(b"k", None, 6)]), 10)
    mixed = at_offset(encode([Sample(b"k", None, 7), Sample(b"k", b"bad", 8)]), 12)
    for data, want, left in (
        (nulls + mixed + nulls, 10, [10, 11, 12]),
        (mixed, 12, [12]),
        (mixed, 13, []),
        (at_offset(encode([Sample(b"k", b"bad", 8)]), 13), 13, []),
    ):
        found = through(data, want=want, steps=NO_VALUES)
        assert offsets(found) == left
        assert found.stop is not None
        assert (found.stop.reason, found.stop.offset) == (StopReason.TRANSFORM_FAILED, 13)
        assert found.stop.text == "pipeline hide fails at source offset 13: no value b'bad'"


def test_a_record_that_is_to_stop_its_partition_does_behind_a_hole_too() -> None:
    """Given a hole before it / then the stop comes with the answer; one that compaction has removed

    since, or that was passed, stops nothing.
    """
    spec = {"fails_at": 20, "fail_code": "SCHEMA_UNREADABLE", "why_fails": "no schema"}
    for data, want, left in (
        (batch(10) + batch(20), 10, [10, 11]),
        (batch(20), 12, []),
        (batch(19), 12, [19]),
    ):
        found = through(data, want=want, **spec)
        assert offsets(found) == left
        assert found.stop is not None
        assert (found.stop.reason, found.stop.offset) == (StopReason.SCHEMA_UNREADABLE, 20)
    for data, want in ((batch(21), 12), (batch(20), 21)):
        found = through(data, want=want, **spec)
        assert (offsets(found), found.stop) == ([21] if want == 21 else [21, 22], None)


def test_pipelines_that_share_a_lane_each_do_their_own_and_none_is_passed_by() -> None:
    """Given two pipelines of one lane, and a partition of a third / then each answer goes through

    that of its partition, and an answer without one ends the round.
    """
    specs = [
        PartitionSpec(P, P, None, None, Offset(0), 1 << 20, is_compacted=False, pipeline=name)
        for name in ("hide", "other", "third")
    ]
    steps = {"hide": STEPS, "other": InPlace([HasHeader("skip", is_kept=True)])}
    exchange = InPlaceExchange(specs, steps)
    data = bytearray(batch(10, skips=True))
    for index in range(3):
        answer = Fetched(Want(index, 1, 10, 1 << 20), 0, 99, data, 0, len(data))
        if index == 2:
            with pytest.raises(PipelineRefused, match="without pipeline third has orders-0"):
                exchange.put(answer)
        else:
            exchange.put(answer)
    assert [offsets(found) for found in exchange.take()] == [[11], [10]]
