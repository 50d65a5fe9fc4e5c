"""A lane's network over two connections whose answers and clock a test controls."""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from heliostat.access import Security
from heliostat.clusters.leader_epochs import LeaderEpochs
from heliostat.clusters.wire import fetch
from heliostat.clusters.wire.frames import Frame
from heliostat.errors import ConnectionLost
from heliostat.names import BrokerId, Offset, PartitionId, TopicName, TopicPartition
from heliostat.records.batches.converted import ConvertedBatch
from heliostat.records.copier.lane import CopySettings, PartitionSpec
from heliostat.records.copier.network import LIVE, Channel, Send, Want
from heliostat.records.transport.kafka_network import WireNetwork

BROKER = BrokerId(1)
FETCH, PRODUCE = max(v for v in fetch.VERSIONS if v < fetch.BY_ID_FROM), 9
WANT = Want(0, 1, 0, 1000)


def spec_of(topic: str) -> PartitionSpec:
    """A topic's only partition."""
    place = TopicPartition(TopicName(topic), PartitionId(0))
    return PartitionSpec(place, place, None, None, Offset(0), 1 << 20, is_compacted=False)


SPEC = spec_of("t")


class ScriptedConnection:
    """Frames as a test puts them there; its descriptor becomes readable only when asked to."""

    def __init__(self, security: Security) -> None:
        self.settings = SimpleNamespace(client_id="test", security=security)
        self.buffer_for: Callable[[int], memoryview | None] = lambda size: memoryview(
            bytearray(size)
        )
        self.endpoint = "broker:9092"
        self.frames: deque[Frame] = deque()
        self.parts: list[list[bytes]] = []
        self.sent = 0
        self.takes_nothing = self.has_unsent = self.is_receiving = self.waits_for_room = False
        self._ours, self._theirs = socket.socketpair()

    def fileno(self) -> int:
        return self._ours.fileno()

    def next_correlation_id(self) -> int:
        return self.sent + 1

    def begin_send(self, *frames: list[Any]) -> None:
        self.sent += len(frames)
        self.parts += [[bytes(part) for part in frame] for frame in frames]
        self.has_unsent = self.takes_nothing

    def begin_whole(self, frame: memoryview) -> None:
        self.begin_send([frame[:12], frame[12:]])

    def send_on(self) -> None:
        self.has_unsent = self.takes_nothing

    def discard_at_close(self, *, is_wanted: bool) -> None:
        """Nothing is closed."""

    has_ahead = False

    def has_held(self) -> bool:
        return bool(self.frames)

    def pump(self) -> Frame | None:
        """As `Connection`: an answer that no buffer is given for stays where it is."""
        if not self.frames:
            return None
        came = self.frames[0].buffer
        view = self.buffer_for(len(came))
        self.waits_for_room = view is None
        if view is None:
            return None
        view[:] = came
        return Frame(self.frames.popleft().correlation_id, view)

    def answer(self, body: bytes, *, is_seen: bool) -> None:
        """Let an answer to the last request be there, seen by a selector or not."""
        raw = self.sent.to_bytes(4, "big") + b"\x00" + body
        self.frames.append(Frame(self.sent, memoryview(bytearray(raw))))
        if is_seen:
            self._theirs.send(b"x")

    def close(self) -> None:
        self._ours.close()
        self._theirs.close()


class Lane:
    """A network whose two connections and clock the test controls.

    Parameters
    ----------
    security
        What both connections say they have.
    specs
        Its partitions.
    """

    def __init__(self, security: Security, *specs: PartitionSpec) -> None:
        self.now_s = 100.0
        self.source, self.target = ScriptedConnection(security), ScriptedConnection(security)
        self.doubted: list[BrokerId] = []
        self.silence, self.silent_s = ConnectionLost("the broker does not answer"), -1.0
        clusters: list[Any] = [
            SimpleNamespace(
                open_data=lambda _, c=connection: c,
                reach=list,
                ranges_of=lambda asked, **_: dict.fromkeys(asked, ConnectionLost("not asked")),
                doubt=self.doubted.append,
                silence_of=lambda _, from_s: self.silence if from_s <= self.silent_s else None,
                fetch_version=lambda _: FETCH,
                produce_version=lambda _: PRODUCE,
                close=lambda: None,
                epochs=LeaderEpochs(),
            )
            for connection in (self.source, self.target)
        ]
        settings = CopySettings()
        maps: Any = SimpleNamespace(is_overdue=lambda limit_s: False, close=lambda: None)
        source, target = clusters
        self.network = WireNetwork(
            specs or [SPEC], source, target, settings, lambda: self.now_s, maps=maps
        )

    def fetch(self, channel: Channel = LIVE, *wants: Want) -> None:
        self.network.fetch(BROKER, channel, wants or [WANT])

    def append(self) -> None:
        batch = ConvertedBatch(0, 1, (b"batch",), 5, 0)
        self.network.append(BROKER, LIVE, [Send(0, 1, batch)])
