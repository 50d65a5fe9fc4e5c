"""Answers go out in order and come back in order, few records at a time in a careful round."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any, cast

import pyarrow as pa
import pytest
from support.records import Sample, encode

from heliostat.errors import TransformFailed
from heliostat.names import Offset, PartitionId, TopicName, TopicPartition
from heliostat.records.batches.batch import read_header
from heliostat.records.batches.converted import StopReason
from heliostat.records.copier.blame import Blame, blame_of
from heliostat.records.copier.lane import PartitionSpec, Suspect
from heliostat.records.copier.network import Fetched, Transformed, Want
from heliostat.records.rows.layout import marks
from heliostat.records.rows.row_names import BACK
from heliostat.records.rows.to_rows import Chunk, rows_of
from heliostat.records.rows.wrong_rows import NO_MARK, NO_PLACE, OTHER_PARTITION, UNKNOWN_OFFSET
from heliostat.records.transport import row_exchange
from heliostat.records.transport.row_exchange import GIVE_BACK_S, RowExchange
from heliostat.records.transport.row_pipe import RowPipe

P = TopicPartition(TopicName("orders"), PartitionId(0))
Keeps = Callable[[int], bool]


class Spark:
    """A pipeline in this process: rows come back in parts of `rows` each, marks among them."""

    def __init__(self, keeps: Keeps = lambda _: True, rows: int = 4) -> None:
        self._keeps = keeps
        self._rows = rows
        self.sent: list[Chunk] = []
        self._left: list[pa.RecordBatch] = []

    def send(self, chunk: Chunk) -> None:
        self.sent.append(chunk)

    def wake_up(self) -> None:
        pass

    def fileno(self) -> int:
        return -1

    def came(self) -> Iterator[pa.RecordBatch]:
        for chunk in self.sent:
            rows = rows_of(chunk)
            kept = pa.array([self._keeps(each) for each in rows.column("offset").to_pylist()])
            some = rows.filter(kept) if rows.num_rows else rows
            self._left += [some, marks(chunk.number, 3)]
        self.sent = []
        found = pa.Table.from_batches(self._left) if self._left else None
        self._left = []
        for batch in found.combine_chunks().to_batches(self._rows) if found else []:
            yield batch.select(list(BACK))


def exchange_of(
    spark: Spark, *, careful: int = 0, clock: Callable[[], float] = lambda: 0.0, **spec: Any
) -> RowExchange:
    one = PartitionSpec(P, P, None, None, Offset(0), 1 << 20, is_compacted=False, **spec)
    return RowExchange([one], cast("RowPipe", spark), careful=careful, monotonic_s=clock)


def answer(offset: int, *sizes: int, cut: int = 0) -> Fetched:
    """An answer with batches of so many records, from this offset on."""
    data = bytearray()
    at = offset
    for size in sizes:
        batch = encode([Sample(None, b"v%d" % (at + n), at + n) for n in range(size)])
        data += at.to_bytes(8, "big") + batch[8:]
        at += size
    end = len(data) - cut
    return Fetched(Want(0, 1, offset, 1 << 20), 0, at, data, 0, end)


def offsets(event: Transformed) -> list[tuple[int, int, int]]:
    """Base offset, next offset and number of records of each batch."""
    found: list[tuple[int, int, int]] = []
    data, at = event.fetched.buffer, event.fetched.start
    while (header := read_header(data, at, event.fetched.end)) is not None:
        found.append((header.base_offset, header.next_offset, header.records_count))
        at += header.size
    return found


def test_answers_come_back_in_order_whatever_was_filtered() -> None:
    for rows in range(1, 8):
        spark = Spark(lambda offset: offset % 2 == 0 and offset > 3, rows)
        exchange = exchange_of(spark)
        answers = [answer(0, 3), answer(3, 2, 4), answer(9, 1)]
        for each in answers:
            exchange.put(each)
        found = exchange.take()
        assert [each.fetched.want for each in found] == [each.want for each in answers]
        assert [offsets(each) for each in found] == [
            [(0, 3, 0)],
            [(3, 5, 1), (5, 9, 2)],
            [(9, 10, 0)],
        ]
        assert all(each.stop is None for each in found)
        assert exchange.take() == []


def test_what_is_under_way_is_limited_and_the_rest_follows(monkeypatch: Any) -> None:
    spark = Spark()
    exchange = exchange_of(spark)
    one = answer(0, 5)
    monkeypatch.setattr(row_exchange, "UNDER_WAY_BYTES_MAX", 2 * one.end)
    for number in range(5):
        exchange.put(answer(5 * number, 5))
    assert len(spark.sent) == 2
    found = exchange.take()
    while len(found) < 5:
        assert 1 <= len(spark.sent) <= 2
        found += exchange.take()
    assert list(itertools.chain(*map(offsets, found))) == [(5 * n, 5 * n + 5, 5) for n in range(5)]


def test_a_careful_round_reports_each_piece_before_it_goes_out_alone() -> None:
    spark = Spark(lambda offset: offset != 4, rows=2)
    exchange = exchange_of(spark, careful=2)
    said: list[Suspect | None] = []
    exchange.suspect = said.append
    for each in (answer(0, 3, 4), answer(7, 1)):
        exchange.put(each)
    found: list[Transformed] = []
    while len(found) < 2:
        assert len(spark.sent) == 1
        sent = spark.sent[0]
        assert said[-1] == Suspect(P, sent.first, sent.before)
        found += exchange.take()
    assert [each and each[1:] for each in said] == [(0, 2), (2, 3), (3, 5), (5, 7), (7, 8)]
    assert [offsets(each) for each in found] == [[(0, 3, 3), (3, 7, 3)], [(7, 8, 1)]]


def test_nothing_from_the_failing_record_on_goes_out() -> None:
    spark = Spark()
    exchange = exchange_of(spark, fails_at=4, why_fails="no number")
    exchange.put(answer(0, 3, 4))
    (found,) = exchange.take()
    assert offsets(found) == [(0, 3, 3), (3, 4, 1)]
    exchange.put(answer(4, 3))
    assert not spark.sent
    (found,) = exchange.take()
    assert found.fetched.start == found.fetched.end
    assert found.stop is not None
    assert (found.stop.reason, found.stop.offset) == (StopReason.TRANSFORM_FAILED, 4)
    assert found.stop.text == "no number"


def test_what_is_cut_is_asked_for_again_and_what_is_damaged_stops() -> None:
    spark = Spark()
    exchange = exchange_of(spark)
    exchange.put(answer(0, 3, 3, cut=1))
    exchange.put(answer(3, 3, cut=1))
    whole, cut = sorted(exchange.take(), key=lambda each: each.fetched.want.offset)
    assert offsets(whole) == [(0, 3, 3)]
    assert cut.fetched == answer(3, 3, cut=1)
    assert cut.stop is None
    damaged = answer(6, 2, 2)
    damaged.buffer[damaged.end - 1] ^= 1
    exchange.put(damaged)
    (found,) = exchange.take()
    assert offsets(found) == [(6, 8, 2)]
    assert found.stop is not None
    assert (found.stop.reason, found.stop.offset) == (StopReason.CORRUPT, 8)


def test_a_careful_round_gives_back_what_it_has_after_a_while() -> None:
    """Given an answer of many pieces / then the first ones are an answer, the rest is left out."""
    spark, now_s = Spark(), [0.0]
    exchange = exchange_of(spark, careful=2, clock=lambda: now_s[0])
    exchange.put(answer(0, 5, 5))
    assert exchange.take() == []  # the first piece is back, and the second one out
    now_s[0] = GIVE_BACK_S
    (found,) = exchange.take()
    assert offsets(found) == [(0, 4, 4)]
    assert found.stop is None
    assert not spark.sent
    exchange.put(answer(4, 5))
    assert [(each.first, each.before) for each in spark.sent] == [(4, 6)]


def test_rows_that_come_back_twice_stop_their_partition_at_that_record() -> None:
    """Given a pipeline that multiplies rows / then all before the first one come back."""
    spark = Spark()
    exchange = exchange_of(spark)
    rows_of_chunks = spark.came

    def came() -> Iterator[pa.RecordBatch]:
        for batch in rows_of_chunks():
            table = pa.Table.from_batches([batch])
            at = batch.column("offset").to_pylist()
            is_there = batch.column("partition").to_pylist()
            twice = [n for n, (offset, p) in enumerate(zip(at, is_there, strict=True)) if p >= 0]
            order = sorted([*range(len(at)), *(n for n in twice if at[n] == 5)])
            yield from table.take(order).combine_chunks().to_batches()

    spark.came = came  # type: ignore[method-assign]  # as a pipeline with a bug
    exchange.put(answer(0, 3, 4))
    (found,) = exchange.take()
    assert offsets(found) == [(0, 3, 3), (3, 5, 2)]
    assert found.stop is not None
    assert (found.stop.reason, found.stop.offset) == (StopReason.TRANSFORM_FAILED, 5)


def test_rows_that_go_wrong_behind_a_hole_stop_their_partition_there(monkeypatch: Any) -> None:
    """Given rows multiplied behind a hole / then the stop is at the failing record; and where any

    record may be the wrong one, the round ends, and the next ones look for it.
    """
    for numbers, stop_at, left in (
        ([0, 1, 2, 5, 5, 6], 5, [(0, 3, 3)]),
        ([0, 1, 2, 5, 6, 99], -1, []),
        ([0, 1, 2, 3], -1, []),
    ):
        spark = Spark()
        exchange = exchange_of(spark)
        behind = answer(5, 3)
        data = bytearray(answer(0, 3).buffer + behind.buffer)
        exchange.put(behind._replace(want=answer(0, 3).want, buffer=data, end=len(data)))
        rows = list(spark.came())
        found = pa.Table.from_batches(rows).to_pylist()
        like, ends = found[0], [row for row in found if row["partition"] < 0]
        back = [*({**like, "offset": n} for n in numbers), *ends]
        wrong = pa.RecordBatch.from_pylist(back, schema=rows[0].schema)
        monkeypatch.setattr(spark, "came", lambda wrong=wrong: iter([wrong]))
        if stop_at < 0:
            with pytest.raises(TransformFailed, match="no record has") as caught:
                exchange.take()
            assert "offset" not in caught.value.context
            continue
        (came,) = exchange.take()
        assert offsets(came) == left
        assert came.stop is not None
        assert (came.stop.reason, came.stop.offset) == (StopReason.TRANSFORM_FAILED, stop_at)


@pytest.mark.parametrize("careful", [0, 64, 1])
@pytest.mark.parametrize(
    ("column", "spoil", "why"),
    [
        ("offset", lambda _: None, NO_PLACE),
        ("partition", lambda _: None, NO_PLACE),
        ("partition", lambda _: 7, OTHER_PARTITION),
        ("partition", lambda each: each + 1 if each >= 0 else each, OTHER_PARTITION),
        ("offset", lambda each: each + 1, NO_MARK),
        ("offset", lambda each: each + 100, UNKNOWN_OFFSET),
    ],
)
def test_rows_that_say_no_place_are_no_silence(
    careful: int, column: str, spoil: Callable[[int], int | None], why: str
) -> None:
    """Given a function that changes where rows are, marks too / then that is told at once; and of a

    record, if it is alone.
    """
    spark = Spark()
    exchange = exchange_of(spark, careful=careful)
    rows_of_chunks = spark.came

    def came() -> Iterator[pa.RecordBatch]:
        for batch in rows_of_chunks():
            rows = batch.to_pylist()
            for row in rows:
                row[column] = spoil(row[column])
            yield pa.RecordBatch.from_pylist(rows, schema=batch.schema)

    spark.came = came  # type: ignore[method-assign]  # as a pipeline with a bug
    exchange.put(answer(0, 3))
    with pytest.raises(TransformFailed) as caught:
        exchange.take()
    assert caught.value.text in {why, UNKNOWN_OFFSET, NO_MARK}
    assert caught.value.context.get("offset") == (0 if careful == 1 else None)
    assert (blame_of(caught.value) is Blame.RECORD) == (careful == 1)


def test_a_pipeline_from_which_nothing_comes_back_hangs() -> None:
    """Given rows that are away / when none come back for the time that was set / then that is an

    error; time without rows, or with some, does not count.
    """
    spark, now = Spark(), [0.0]
    one = PartitionSpec(P, P, None, None, Offset(0), 1 << 20, is_compacted=False)
    pipe = cast("RowPipe", spark)
    exchange = RowExchange([one], pipe, timeout_s=5, monotonic_s=lambda: now[0])
    now[0] = 100.0
    exchange.put(answer(0, 3))
    now[0] = 104.0
    assert len(exchange.take()) == 1
    now[0] = 200.0
    assert exchange.take() == []
    spark.came = lambda: iter(())  # type: ignore[method-assign]  # nothing comes
    exchange.put(answer(3, 3))
    now[0] = 205.0
    assert exchange.take() == []
    now[0] = 205.1
    with pytest.raises(TransformFailed, match="it hangs"):
        exchange.take()


def test_a_record_without_its_schema_stops_its_partition_as_such() -> None:
    exchange = exchange_of(Spark(), fails_at=0, why_fails="none", fail_code="SCHEMA_UNREADABLE")
    exchange.put(answer(0, 3))
    (found,) = exchange.take()
    assert found.stop is not None
    assert found.stop.reason is StopReason.SCHEMA_UNREADABLE
