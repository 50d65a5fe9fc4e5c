"""Compiled code and objects copy a plain partition to the same bytes and the same numbers.

Each example runs twice through compiled code, the second time with index checks.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import batches as ref
from support.checked_indexes import with_checked_indexes
from support.examples import examples

from heliostat.clusters.wire import scan
from heliostat.names import (
    BrokerId,
    Offset,
    PartitionId,
    TopicName,
    TopicPartition,
)
from heliostat.ops.latency import LiveLatency
from heliostat.records.batches.converted import ConvertedBatch
from heliostat.records.batches.copied_epochs import CopiedTo
from heliostat.records.copier import cells, plain_way
from heliostat.records.copier.lane import CopySettings, PartitionSpec
from heliostat.records.copier.network import (
    LIVE,
    Fetched,
    GroupAnswer,
    PlainAppended,
    PlainSends,
    Send,
    Want,
)
from heliostat.records.copier.partition_copy import PartitionCopy
from heliostat.records.copier.partition_standing import Phase
from heliostat.records.copier.schema_gate import SchemaGate

NOW = 1_790_000_000_000
PRODUCER = 2**40 + 5
TARGET = BrokerId(3)
BYTES_MAX = CopySettings().partition_fetch_bytes
SAME = [
    *(cells.FETCH_OFFSET, cells.NEXT_TARGET, cells.IN_FLIGHT, cells.QUEUED_BYTES),
    *(cells.POSITION, cells.COPIED_TO, cells.COPIED_END, cells.HIGH_WATERMARK),
    *(cells.LAST_STABLE, cells.RECORDS, cells.BYTES, cells.LAST_TIMESTAMP, cells.CAUGHT_UP),
    cells.MISSING,
]
"""What both ways must leave behind."""
*_, plain_way_checked = with_checked_indexes(
    "heliostat.clusters.wire.scan",
    "heliostat.records.batches.compiled_bytes",
    "heliostat.records.batches.reencode",
    "heliostat.records.batches.joining",
    "heliostat.records.batches.schema_frames",
    "heliostat.records.copier.plain_compiled",
    "heliostat.records.copier.plain_way",
)


def partition(
    source: int, target: int, epoch: int, given_settings: CopySettings, batch_bytes_max: int
) -> PartitionCopy:
    """A partition in plain order, whose last append has just landed."""
    at = TopicPartition(TopicName("t"), PartitionId(0))
    spec = PartitionSpec(at, at, None, None, Offset(0), batch_bytes_max, is_compacted=False)
    item = PartitionCopy(0, spec, given_settings, PRODUCER, NOW)
    item.phase = Phase.COPY
    item.map.next_target, item.map.ahead = target, source - target
    item.fetches.offset = item.progress.position = item.progress.copied_to = source
    item.progress.copied_end = target
    item.progress.high_watermark = item.progress.last_stable_offset = source
    item.progress.caught_up_ms = NOW
    item.appends.is_established = True
    item.fetches.epochs.learn(CopiedTo(source, epoch))
    return item


class Side:
    """One partition, and compiled code that may copy it."""

    def __init__(self, item: PartitionCopy, made: Any = plain_way) -> None:
        self.item = item
        self.latency, self.gate = LiveLatency(), SchemaGate()
        lane: Any = type("Lane", (), {"settings": item.settings, "producer_id": PRODUCER})
        self.plain = made.PlainWay(lane, [item], self.gate, self.latency)
        self.plain.judge(item, TARGET)

    def numbers(self) -> list[int]:
        return [self.item.progress.cells.at[column] for column in SAME]

    def take(self, data: bytes, **changes: Any) -> list[int]:
        """Let compiled code take an answer; the places that it leaves."""
        self.answer = group_answer(data, self.item, **changes)
        return self.plain.take(self.answer, (TARGET,), -1, NOW)

    def sends(self) -> list[PlainSends]:
        return [sends for _, sends in self.plain.to_send()]


def group_answer(
    data: bytes,
    item: PartitionCopy,
    *,
    high_watermark: int,
    error: int = 0,
    aborted_at: int = -1,
    tags: int = scan.NO_TAGS,
    want: Want | None = None,
    stable: int | None = None,
) -> GroupAnswer:
    """The answer to a group of this partition alone."""
    rows = np.zeros((1, scan.ROW_FIELDS), np.int64)
    rows[0, scan.END] = len(data)
    rows[0, scan.ERROR], rows[0, scan.ABORTED_AT] = error, aborted_at
    rows[0, scan.HIGH_WATERMARK] = high_watermark
    rows[0, scan.LAST_STABLE_OFFSET] = high_watermark if stable is None else stable
    watched = np.zeros((1, scan.WATCHED_FIELDS), np.int64)
    asked = np.array([want or Want(0, item.attempt, item.fetches.offset, BYTES_MAX)], np.int64)
    array = np.frombuffer(bytes(data) + bytes([tags]), np.uint8)

    def fetched(_: int) -> Fetched:
        raise AssertionError("not asked for")

    return GroupAnswer(BrokerId(1), LIVE, array, rows, watched, 1, asked, fetched)


def content(batch: ConvertedBatch) -> tuple[Any, ...]:
    data = b"".join(bytes(part) for part in batch.parts)
    places = (batch.base_offset, batch.source_offset, batch.next_source_offset)
    return data, *places, batch.records, batch.size, batch.max_timestamp, batch.breaks


class Example(NamedTuple):
    data: bytes
    source: int
    target: int
    epoch: int
    high_watermark: int


def stored(
    sizes: list[int], codec: int, base: int, *, attributes: int = 0
) -> list[ref.StoredBatch]:
    made: list[ref.StoredBatch] = []
    for place, size in enumerate(sizes):
        batch = tuple(
            ref.Record(NOW + number - place, b"k%d" % number, bytes(number % 50), (("h", b"x"),))
            for number in range(size)
        )
        made.append(ref.StoredBatch(base, batch, codec=codec, more_attributes=attributes))
        base += size
    return made


@st.composite
def cases(draw: st.DrawFn) -> Example:
    base = draw(st.sampled_from([0, 1, 7, 2**31 - 3, 2**33 + 1]))
    sizes = draw(st.lists(st.sampled_from([1, 1, 1, 2, 5]), min_size=1, max_size=4))
    codec = draw(st.sampled_from([0, 0, 0, 1, 3, 4]))
    attributes = draw(st.sampled_from([0, 0, 0, ref.DELETE_HORIZON, 0x1F80]))
    made = stored(sizes, codec, base, attributes=attributes)
    data = bytearray(ref.encode_all(made))
    epoch = ref.header_of(bytes(data))["leader_epoch"]
    for _ in range(draw(st.sampled_from([0, 0, 1]))):
        data[draw(st.integers(0, min(75, len(data) - 1)))] = draw(st.integers(0, 255))
    data = data[: len(data) - draw(st.sampled_from([0, 0, 0, 0, 1, 40]))]
    ahead = draw(st.sampled_from([0, 0, min(base, 3)]))
    more = draw(st.sampled_from([0, 0, 3]))
    return Example(bytes(data), base, base - ahead, max(0, epoch), base + sum(sizes) + more)


limits = st.builds(
    CopySettings,
    join_below_bytes=st.sampled_from([0, 150, 2**14, 2**14]),
    join_bytes_max=st.sampled_from([300, 2**20, 2**20]),
    compression=st.sampled_from([None, None, None, "lz4"]),
)


@given(cases(), limits, st.sampled_from([200, 2**20, 2**20]))
@examples(500)
def test_compiled_code_copies_what_objects_copy(one, how, batch_bytes_max):
    """Given an answer, damaged or not / then both ways send the same and note the same."""
    where = (one.source, one.target, one.epoch, how, batch_bytes_max)
    side, checked = Side(partition(*where)), Side(partition(*where), plain_way_checked)
    objects = partition(*where)
    before = side.numbers()
    left = side.take(one.data, high_watermark=one.high_watermark)
    assert checked.take(one.data, high_watermark=one.high_watermark) == left
    (mine,), (again,) = side.sends(), checked.sends()
    assert np.array_equal(mine.rows, again.rows)
    if left:
        assert (side.numbers(), len(mine.rows)) == (before, 0)
        assert side.answer.asked[0, 2] == one.source
        return
    objects.fetched(
        *(bytearray(one.data), 0, len(one.data)),
        high_watermark=one.high_watermark,
        now_s=0.0,
        now_ms=NOW,
    )
    send = objects.next_send(0.0, NOW)
    sent = mine.objects(with_bytes=True)
    if send is None:
        assert not sent
    else:
        assert [content(each.batch) for each in sent] == [content(send.batch)]
        assert objects.next_send(0.0, NOW) is None
        assert [content(each.batch) for each in again.objects(with_bytes=True)] == [
            content(send.batch)
        ]
        assert side.answer.asked[0].tolist() == list(objects.want(0.0) or ())
        assert side.item.progress.missing_ms == objects.progress.missing_ms
        assert objects.appended(send.batch, send.batch.base_offset, NOW + 5)
        assert land(side, mine, NOW + 5) == []
    assert side.numbers() == [objects.progress.cells.at[column] for column in SAME]
    assert side.item.fetches.epochs.copied(objects.progress.position) == (
        objects.fetches.epochs.copied(objects.progress.position)
    )
    assert side.item.want(0.0) == objects.want(0.0)


def land(side: Side, sends: PlainSends, now_ms: int, away: int = 0) -> list[tuple[Send, int]]:
    """Answer a request: its batches landed `away` from where they were to."""
    sends.rows[:, plain_way.sent.LANDED_AT] = sends.rows[:, plain_way.sent.BASE_OFFSET] + away
    left = side.plain.landed(PlainAppended(sends), now_ms)
    return [(each.send, each.base_offset) for each in left]


def plain_side(**more: Any) -> Side:
    return Side(partition(7, 7, 0, CopySettings(**more), 1 << 20))


def answer_of(sizes: list[int], codec: int = 0, **changes: Any) -> bytes:
    made = [
        ref.changed(bytes(ref.encode_all([one])), leader_epoch=0) for one in stored(sizes, codec, 7)
    ]
    made[-1] = ref.changed(made[-1], **changes) if changes else made[-1]
    return b"".join(made)


@pytest.mark.parametrize(("sizes", "codec"), [([1], 0), ([3], 4), ([1, 1, 2], 0)])
def test_usual_answers_are_taken_by_compiled_code(sizes, codec):
    """Given one batch, or several to join / then it is taken, sent, and its latency counted."""
    side = plain_side()
    assert side.take(answer_of(sizes, codec), high_watermark=7 + sum(sizes)) == []
    assert side.plain.was_single == (sizes == [1])
    (sends,) = side.sends()
    assert len(sends.rows) == 1
    assert land(side, sends, NOW + 40) == []
    assert side.item.progress.position == 7 + sum(sizes)
    assert sum(side.latency.counts) == sum(sizes)


@pytest.mark.parametrize(
    "changes",
    [
        {"error": 6},
        {"aborted_at": 0},
        {"tags": 1},
        {"want": Want(0, 0, 6, BYTES_MAX)},
        {"want": Want(0, 1, 7, BYTES_MAX)},
        {"want": Want(0, 0, 7, 0)},
        {"want": Want(0, 0, 7, 100), "high_watermark": 20},
    ],
)
def test_a_special_answer_is_left_to_objects(changes):
    """Given an error, aborted transactions, an outdated answer or a lag / then it is left."""
    side = plain_side()
    assert side.take(answer_of([1]), **{"high_watermark": 8} | changes) == [0]
    assert not side.plain.has_any
    assert not side.plain.was_single  # objects may find more records there


@pytest.mark.parametrize(
    "changes",
    [
        {"leader_epoch": 1},
        {"attributes": 0x10},
        {"attributes": 0x20},
        {"attributes": 0x08},
        {"max_timestamp": NOW - 43_200_001},
        {"base_offset": 8},
        {"base_offset": 6},
        {"last_offset_delta": 1},
        {"magic": 1},
    ],
)
def test_a_special_batch_is_left_to_objects(changes):
    """Given a batch of another epoch, a transaction, an old one, or a hole / then it is left."""
    side = plain_side()
    assert side.take(answer_of([1], **changes), high_watermark=9) == [0]


def test_no_more_is_taken_than_may_be_in_flight_and_one_batch_a_request():
    """Given unanswered appends / then compiled code stops where objects would."""
    side = plain_side(requests_in_flight_max=2)
    assert side.take(answer_of([1]), high_watermark=8) == []
    second = bytes(ref.changed(answer_of([1]), base_offset=8))
    assert side.take(second, high_watermark=9) == [0], "in the same request"
    side.sends()
    assert side.take(second, high_watermark=9) == []
    side.sends()
    assert side.take(bytes(ref.changed(second, base_offset=9)), high_watermark=10) == [0]
    assert side.item.appends.in_flight == 2


@pytest.mark.parametrize("away", [-1, 1])
def test_a_batch_that_landed_elsewhere_is_left_to_objects(away):
    """Given another base offset than expected / then objects get the append (I1)."""
    side = plain_side()
    side.take(answer_of([1]), high_watermark=8)
    (sends,) = side.sends()
    ((send, landed_at),) = land(side, sends, NOW, away)
    assert (send.index, send.batch.base_offset, landed_at) == (0, 7, 7 + away)
    assert side.item.progress.position == 7
    side.item.appended(send.batch, landed_at, NOW)
    assert side.item.standing.code == "APPENDED_ELSEWHERE"


def test_after_trouble_an_answer_goes_to_objects():
    """Given a batch in flight when another append is lost / then its answer moves nothing."""
    side = plain_side()
    side.take(answer_of([1]), high_watermark=8)
    (sends,) = side.sends()
    side.item.look_again(NOW)
    ((send, landed_at),) = land(side, sends, NOW)
    assert not side.item.appended(send.batch, landed_at, NOW)
    assert (side.item.progress.position, side.item.must_find_end) == (7, True)


def test_only_brokers_that_take_more_get_more():
    """Given a target's broker that takes nothing / then its partitions' answers are left."""
    side = plain_side()
    answer = group_answer(answer_of([1]), side.item, high_watermark=8)
    assert side.plain.take(answer, (BrokerId(9),), -1, NOW) == [0]


def test_a_round_that_ends_takes_nothing_more():
    """Given a round that drains / then answers are left: nothing would send them."""
    side = plain_side()
    side.plain.end()
    assert side.take(answer_of([1]), high_watermark=8) == [0]


def test_what_keeps_a_partition_from_being_plain():
    """Given a partition that waits, is in trouble, or has an open map / then it is not plain."""
    assert plain_way.is_plain(partition(7, 7, 0, CopySettings(), 1 << 20))
    changes: list[Any] = [
        lambda item: setattr(item, "phase", Phase.STOPPED),
        lambda item: item.standing.last_batch_unread(0.0, NOW),
        lambda item: setattr(item.standing, "is_unanswered", True),
        lambda item: item.appends.put(ConvertedBatch(7, 1, (), 5, NOW)),
        lambda item: setattr(item.appends, "is_established", False),
        lambda item: item.fetches.out_of_range(),
        lambda item: setattr(item.map, "ahead", None),
        lambda item: setattr(item.map, "ahead", 1),
        lambda item: setattr(item.map, "fills", True),
        lambda item: setattr(item, "has_row_under_way", True),
        lambda item: item.fetches.epochs.learn(CopiedTo(-1, -1)),
        lambda item: setattr(item, "spec", replace(item.spec, pipeline="hide")),
    ]
    for change in changes:
        item = partition(7, 7, 0, CopySettings(), 1 << 20)
        change(item)
        assert not plain_way.is_plain(item)


def test_more_partitions_than_rows_keep_their_numbers():
    """Given a lane that grows / when the table does / then each partition has its own numbers."""
    items = [partition(7 + n, 7 + n, 0, CopySettings(), 1 << 20) for n in range(200)]
    for n, item in enumerate(items):
        item.index = n
    lane: Any = type("Lane", (), {"settings": CopySettings(), "producer_id": PRODUCER})
    plain = plain_way.PlainWay(lane, items, SchemaGate(), LiveLatency())
    for n in (0, 63, 64, 199, 1):
        plain.judge(items[n], TARGET)
        items[n].progress.position += 1000
    assert [items[n].progress.position for n in (0, 1, 2, 63, 64, 199)] == [
        *(1007, 1008, 9, 1070, 1071, 1206)
    ]
