"""Fetches carry the newest leader epoch, so that a deposed leader refuses them (KIP-320)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from kafka.protocol.consumer import FetchRequest

from heliostat.clusters.leader_epochs import LeaderEpochs
from heliostat.clusters.wire import fetch
from heliostat.names import BrokerId, Offset, PartitionId, TopicName, TopicPartition
from heliostat.records.copier.lane import CopySettings, PartitionSpec
from heliostat.records.copier.network import Channel, Want
from heliostat.records.transport.fetch_connection import (
    ConnectionContext,
    FetchConnection,
    WatchConnection,
)
from heliostat.records.transport.line_meter import measured_lines

VERSION = max(v for v in fetch.VERSIONS if v < fetch.BY_ID_FROM)
SPECS = [
    PartitionSpec(p, p, None, None, Offset(0), 1 << 20, is_compacted=False)
    for p in (TopicPartition(TopicName("t"), PartitionId(number)) for number in range(3))
]
WANTS = [Want(index, 1, 10 * index, 1000, 4) for index in range(3)]


class Wire:
    """A connection that takes requests."""

    settings = SimpleNamespace(client_id="test")

    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    def next_correlation_id(self) -> int:
        return len(self.bodies)

    def begin_send(self, frames: list[Any]) -> None:
        self.bodies.append(bytes(frames[1]))

    def begin_whole(self, frame: memoryview) -> None:
        body = bytes(frame)
        self.bodies.append(body[body.index(b"test") + len(b"test") + 1 :])

    def asked(self) -> list[tuple[int, int]]:
        """Return leader epoch and offset of each partition in the last request."""
        request = FetchRequest.decode(self.bodies[-1], version=VERSION)
        rows = [row for topic in request.topics for row in topic.partitions]
        return [(row.current_leader_epoch, row.fetch_offset) for row in rows]


@pytest.mark.parametrize("is_watched", [False, True])
def test_a_new_leaders_epoch_is_in_the_next_fetch(is_watched: bool) -> None:
    wire: Any = Wire()
    epochs = LeaderEpochs()
    lines = measured_lines(lambda: 0.0)
    context = ConnectionContext(SPECS, CopySettings(), lambda: 0.0, lines, epochs=epochs)
    conn = (
        WatchConnection(BrokerId(1), Channel("s", 0), wire, VERSION, context)
        if is_watched
        else FetchConnection(wire, VERSION, context, 1 << 20)
    )
    conn.send(WANTS)
    assert wire.asked() == [(-1, 0), (-1, 10), (-1, 20)]
    epochs.take(SPECS[1].source, "", 7)
    moved = [WANTS[0], WANTS[1]._replace(offset=11), WANTS[2]]
    for wants in (moved, moved, [*moved[:2], WANTS[2]._replace(offset=25)]):
        conn.send(wants)
        assert wire.asked() == [(-1, 0), (7, 11), (-1, wants[2].offset)]
    epochs.take(SPECS[2].source, "", 8)
    conn.send(moved)
    assert wire.asked() == [(-1, 0), (7, 11), (8, 20)]
