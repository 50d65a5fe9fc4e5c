"""One connection to a target broker: what may be in flight, and matching answers to requests."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from kafka.protocol.producer import ProduceResponse

from heliostat.clusters.wire import produce
from heliostat.clusters.wire.buffers import HeldBytes
from heliostat.clusters.wire.frames import Frame
from heliostat.errors import ProtocolError
from heliostat.names import Offset, PartitionId, TopicName, TopicPartition
from heliostat.records.batches.converted import ConvertedBatch
from heliostat.records.copier.lane import CopySettings, PartitionSpec
from heliostat.records.copier.network import Appended, PlainSends, Send
from heliostat.records.copier.plain_sends import LANDED_AT, SENT_FIELDS, SIZE
from heliostat.records.transport.append_connection import AppendConnection
from heliostat.records.transport.fetch_connection import ConnectionContext
from heliostat.records.transport.line_meter import measured_lines

VERSION = max(v for v in produce.VERSIONS if v < produce.BY_ID_FROM)
SPECS = [
    PartitionSpec(p, p, None, None, Offset(0), 1 << 20, is_compacted=False)
    for p in (TopicPartition(TopicName("t"), PartitionId(number)) for number in range(3))
]


class Wire:
    """A connection that takes requests."""

    def __init__(self) -> None:
        self.settings = SimpleNamespace(client_id="test")
        self.endpoint = "broker:9092"
        self.sent = 0
        self.discards: bool | None = None
        self.is_closed = False
        self.wholes: list[memoryview] = []

    def discard_at_close(self, *, is_wanted: bool) -> None:
        self.discards = is_wanted

    def close(self) -> None:
        self.is_closed = True

    def next_correlation_id(self) -> int:
        return self.sent + 1

    has_unsent = False

    def begin_whole(self, request: memoryview) -> None:
        self.sent += 1
        self.wholes.append(request)

    def begin_send(self, *frames: list[Any]) -> None:
        self.sent += len(frames)


@pytest.fixture
def conn() -> AppendConnection:
    wire: Any = Wire()
    lines = measured_lines(lambda: 0.0)
    context = ConnectionContext(SPECS, CopySettings(), lambda: 0.0, lines)
    return AppendConnection(wire, VERSION, context)


def sends(*indexes: int) -> list[Send]:
    return [Send(index, 1, ConvertedBatch(0, 1, (b"batch",), 5, 0)) for index in indexes]


def answer(number: int, bases: dict[int, int], appended_ms: int = -1) -> Frame:
    """Answer a request: base offset by partition."""
    kind = ProduceResponse.TopicProduceResponse
    rows = [
        kind.PartitionProduceResponse(
            index=index,
            error_code=0,
            base_offset=base,
            log_append_time_ms=appended_ms,
            log_start_offset=0,
        )
        for index, base in bases.items()
    ]
    topics = [kind(name="t", partition_responses=rows)]
    body = ProduceResponse(responses=topics, throttle_time_ms=0).encode(version=VERSION)
    return Frame(number, memoryview(bytearray(number.to_bytes(4, "big") + b"\0" + bytes(body))))


@pytest.mark.parametrize("has_unsent", [True, False])
def test_a_request_that_is_sent_in_part_is_not_overwritten_by_the_next(
    conn: AppendConnection, monkeypatch: pytest.MonkeyPatch, *, has_unsent: bool
) -> None:
    """Given a broker that has taken a part of a request / when the next one is encoded / then the

    rest is still the first one's; else the same room serves again.
    """
    wire: Any = conn.connection
    monkeypatch.setattr(wire, "has_unsent", has_unsent)

    def send(content: int) -> None:
        rows = np.zeros((1, SENT_FIELDS), np.int64)
        rows[0, SIZE], rows[0, LANDED_AT] = 100, -1
        conn.send_plain(PlainSends(rows, np.full(100, content, np.uint8), 100))

    send(7)
    first = bytes(wire.wholes[0])
    send(9)
    assert (bytes(wire.wholes[0]) == first) is has_unsent
    assert bytes(wire.wholes[1]) != first


def test_as_many_appends_are_in_flight_as_a_broker_remembers(conn: AppendConnection) -> None:
    """Given five appends in flight / then no sixth: a repeat of the first would be accepted."""
    for _ in range(CopySettings().requests_in_flight_max):
        assert conn.is_free
        conn.send(sends(0))
    assert not conn.is_free
    conn.take(answer(1, {0: 0}))
    assert conn.is_free


@pytest.mark.parametrize(("appended_ms", "is_repeated"), [(-1, False), (0, True), (5, True)])
def test_a_duplicate_append_is_recognized_by_its_append_time(
    conn: AppendConnection, appended_ms: int, *, is_repeated: bool
) -> None:
    conn.send(sends(0))
    [event] = conn.take(answer(1, {0: 50}, appended_ms))
    assert isinstance(event, Appended)
    assert event.is_repeated is is_repeated


def test_answers_belong_to_their_partitions_whatever_their_order(conn: AppendConnection) -> None:
    conn.send(sends(0, 2))
    events = conn.take(answer(1, {2: 70, 0: 50}))
    found = {e.send.index: e.base_offset for e in events if isinstance(e, Appended)}
    assert found == {0: 50, 2: 70}


@pytest.mark.parametrize(
    ("number", "bases"),
    [(1, {0: 5}), (1, {}), (1, {0: 5, 1: 5, 2: 5}), (2, {0: 5, 1: 5})],
    ids=["lacks one", "lacks all", "one too many", "another request's"],
)
def test_an_incomplete_answer_closes_the_connection(
    conn: AppendConnection, number: int, bases: dict[int, int]
) -> None:
    """Given an answer that leaves a partition open / then the connection is given up (I4)."""
    conn.send(sends(0, 1))
    conn.send(sends(0, 1))
    with pytest.raises(ProtocolError):
        conn.take(answer(number, bases))
    assert len(conn.give_up("it makes no sense").sends) == 4


def test_appends_in_flight_are_lost_with_their_connection(conn: AppendConnection) -> None:
    """Given an append / when closed before its answer, and after / then only before."""
    wire: Any = conn.connection
    assert wire.discards  # from the beginning: the process may be killed
    conn.send(sends(0))
    conn.close()
    assert (wire.is_closed, wire.discards) == (True, True)
    conn.take(answer(1, {0: 4}))
    conn.close()
    assert not wire.discards


def test_markers_are_a_separate_request(conn: AppendConnection) -> None:
    """Given records of one partition and markers of another / then two frames, two answers.

    In one frame the broker reads the first request, and never answers the second.
    """
    filling = ConvertedBatch(0, 0, (), 0, 0, fills=range(2))
    conn.send([*sends(0), Send(1, 1, filling, 0)])
    assert conn.connection.next_correlation_id() == 3
    [event] = conn.take(answer(1, {0: 0}))
    assert isinstance(event, Appended)
    lost = conn.give_up("closed")
    assert [each.index for each in lost.sends] == [1]


def test_a_sent_batch_keeps_no_memory_of_its_answer(conn: AppendConnection) -> None:
    """Given a batch that is a view of an answer / when it is in flight / then that is released."""
    held = HeldBytes()
    answer = held.view(bytearray(1000))
    batch = ConvertedBatch(0, 1, (answer[5:10],), 5, 0)
    del answer
    assert held.bytes == 1000
    conn.send([Send(0, 1, batch)])
    assert (conn.under_way, held.bytes) == ({0}, 0)
