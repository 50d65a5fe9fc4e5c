"""Both clusters over real connections: the `Network` that a Spark task uses.

I7  A broker that hangs delays its own partitions only: sends to it never block, and once it is
    silent, nothing is asked of it until it has answered a probe on a separate connection.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import inf

from typing_extensions import override

from heliostat.clusters.wire.cluster import WireCluster
from heliostat.errors import BrokerError, ConnectionLost, OffsetMapLost, ProtocolError
from heliostat.names import BrokerId
from heliostat.offsets.offset_map import OffsetMap
from heliostat.records.copier.lane import CopySettings, PartitionSpec
from heliostat.records.copier.line_fit import FAR_S
from heliostat.records.copier.network import (
    LIVE,
    AppendLost,
    BrokerProblem,
    Channel,
    Event,
    FetchLost,
    Leaders,
    MapLost,
    MapWrite,
    PlainSends,
    Send,
    Want,
)
from heliostat.records.transport.answer_room import AnswerRoom
from heliostat.records.transport.fetch_connection import (
    ConnectionContext,
    FetchConnection,
    WatchConnection,
)
from heliostat.records.transport.lane_connections import BrokerChannel, LaneConnections
from heliostat.records.transport.line_meter import measured_lines
from heliostat.records.transport.offset_map_topic import MapChannel
from heliostat.records.transport.queries import WireQuestions
from heliostat.records.transport.silent_brokers import SilentBrokers
from heliostat.records.transport.watched_connections import (
    APPEND,
    FETCH,
    ConnectionKey,
    WatchedConnections,
)

OVERDUE_EVERY_S = 0.1
"""Interval of the check for overdue answers: there may be a hundred connections."""
DEPOSED = "the broker does not answer, and leaders have changed"
ANSWER_SLACK_S = 5.0
"""Added to the time that the broker itself may take (`produce_timeout_s`)."""


class WireNetwork(WireQuestions):
    """See `heliostat.records.copier.network.Network`.

    Parameters
    ----------
    partitions
        Partitions of the lane, in order of their indexes.
    source, target
        Both clusters.
    settings
        Sizes and limits.
    monotonic_s
        The copier's clock (s).
    maps
        Channel of the offset map's topic.
    producer_id
        Producer id of the link.
    """

    def __init__(
        self,
        partitions: Sequence[PartitionSpec],
        source: WireCluster,
        target: WireCluster,
        settings: CopySettings,
        monotonic_s: Callable[[], float],
        *,
        maps: MapChannel,
        producer_id: int = -1,
    ) -> None:
        partitions = list(partitions)  # it grows with changes of the plan
        super().__init__(partitions, source, target, producer_id)
        self._maps = maps
        self._monotonic_s = monotonic_s
        self._answer_limit_s = settings.produce_timeout_s + ANSWER_SLACK_S
        self._room = AnswerRoom()
        self._watched = WatchedConnections()
        lines = self._lines = measured_lines(monotonic_s)
        self.lines, self.moved, self.requests = lines.uses, lines.moved, lines.requests
        epochs = source.epochs
        context = ConnectionContext(partitions, settings, monotonic_s, lines, producer_id, epochs)
        self._conns = LaneConnections(
            source, target, maps, context, self._watched, buffer_for=self._room.buffer_for
        )
        self._silent = SilentBrokers(source, target, self._conns)
        self._lost: list[Event] = []
        self._overdue_at_s = 0.0

    def close(self) -> None:
        """Close all connections; whether appends in flight happen stays unknown."""
        self._conns.close()
        self._watched.close()
        self._source.close()
        self._target.close()

    @property
    def is_outdated(self) -> bool:
        """See `MapChannel.is_outdated`."""
        return self._maps.is_outdated

    @property
    def is_target_far(self) -> bool:
        """See `Network`."""
        return FAR_S <= self._lines.target.nearest_s(self._target.brokers.fastest_s) < inf

    @override
    def change(self, gone: Sequence[int], new: Sequence[PartitionSpec]) -> None:
        """See `Network`."""
        super().change(gone, new)
        self._maps.change(gone, new)

    @override
    def leaders(self, indexes: Sequence[int] | None = None) -> Leaders:
        """See `WireQuestions.leaders`; drops connections to silent brokers that lost leadership."""
        before = self._leaders
        found = super().leaders(indexes)
        for broker in _deposed(before.source, found.source, self._source):
            for place in [each for each in self._conns.fetching if each[0] == broker]:
                self._drop((FETCH, *place), DEPOSED)
        for broker in _deposed(before.target, found.target, self._target):
            for place in [each for each in self._conns.appending if each[0] == broker]:
                self._drop((APPEND, *place), DEPOSED)
        return found

    # -- requests ------------------------------------------------------------------------------

    def expect(self, places: Iterable[BrokerChannel]) -> None:
        """Note which connections to open together when one of them is first used."""
        self._conns.expect(places)

    def open(self, target: Iterable[BrokerId]) -> Iterator[None]:
        """See `Network.open`."""
        brokers = sorted(set(target))
        self._conns.reach_expected()
        self._target.reach(brokers)
        with contextlib.suppress(ConnectionLost):
            self._conns.open_expected()
        for broker in brokers:
            yield
            with contextlib.suppress(ConnectionLost):
                self._conns.to_target(broker, LIVE)

    def can_fetch(self, broker: BrokerId, channel: Channel) -> bool:
        """Whether no fetch is in flight there, and the broker is not throttling us (KIP-219)."""
        conn = self._conns.fetching.get((broker, channel))
        return conn is None or conn.is_free

    def can_append(self, broker: BrokerId, channel: Channel) -> bool:
        """Whether another append may be sent there, see `AppendConnection.is_free`."""
        conn = self._conns.appending.get((broker, channel))
        return conn is None or conn.is_free

    def is_appending(self, broker: BrokerId, channel: Channel) -> bool:
        """Whether an append is in flight on that connection."""
        conn = self._conns.appending.get((broker, channel))
        return conn is not None and conn.is_busy

    def fetch(
        self, broker: BrokerId, channel: Channel, wants: Sequence[Want], bytes_max: int = 0
    ) -> None:
        """Send one fetch; where it can't be sent, `FetchLost` comes as an event."""
        try:
            conn = self._conns.to_source(broker, channel)
            conn.send(wants, bytes_max)
            self._watched.note_unsent((FETCH, broker, channel), conn)
        except ConnectionLost as error:
            if (broker, channel) in self._conns.fetching:
                self._drop((FETCH, broker, channel), str(error))
            else:
                self._lost.append(FetchLost(list(wants), str(error)))

    def fetch_again(self, broker: BrokerId, channel: Channel, bytes_max: int = 0) -> bool:
        """Send a group's last fetch from where it has moved on to, see `Network`."""
        conn = self._conns.fetching.get((broker, channel))
        try:
            if not isinstance(conn, WatchConnection) or not conn.send_again(bytes_max):
                return False
            self._watched.note_unsent((FETCH, broker, channel), conn)
        except ConnectionLost as error:
            self._drop((FETCH, broker, channel), str(error))
        return True

    def append(self, broker: BrokerId, channel: Channel, sends: Sequence[Send]) -> None:
        """Send one produce request; where it can't be sent, `AppendLost` comes as an event."""
        self._append(broker, channel, sends)

    def append_plain(self, broker: BrokerId, channel: Channel, sends: PlainSends) -> None:
        """Do as `append` with batches of compiled code."""
        self._append(broker, channel, sends)

    def _append(
        self, broker: BrokerId, channel: Channel, sends: Sequence[Send] | PlainSends
    ) -> None:
        try:
            conn = self._conns.to_target(broker, channel)
            if isinstance(sends, PlainSends):
                conn.send_plain(sends)
            else:
                conn.send(sends)
            self._watched.note_unsent((APPEND, broker, channel), conn)
        except ConnectionLost as error:
            if (broker, channel) in self._conns.appending:
                self._drop((APPEND, broker, channel), str(error))
            else:
                objects = sends.objects() if isinstance(sends, PlainSends) else sends
                self._lost.append(AppendLost(list(objects), str(error)))

    def held_bytes(self) -> int:
        """See `Network`; counts whole buffers, which are up to an eighth larger than answers."""
        return self._room.held_bytes

    def copy_unsent(self) -> None:
        """See `Network`; also for brokers that hang."""
        for conn in self._watched.unsent.values():
            conn.connection.copy_unsent(self._room.hold)

    def has_unsent(self) -> bool:
        """See `Network`."""
        return bool(self._watched.unsent)

    def send_on(self) -> None:
        """Continue unsent requests as far as brokers take more, without blocking."""
        for key, conn in list(self._watched.unsent.items()):
            try:
                conn.connection.send_on()
            except ConnectionLost as error:
                self._drop(key, str(error))
                continue
            if not conn.connection.has_unsent:
                self._watched.note_taken(key)

    def send_no_more(self) -> None:
        """Close connections with unsent appends, so that none lands after the round (I10)."""
        for key in [each for each in self._watched.unsent if each[0] == APPEND]:
            self._drop(key, "the round has ended before the append was fully sent")

    def offset_maps(self, indexes: Sequence[int]) -> Mapping[int, OffsetMap] | BrokerProblem:
        """Return maps of these partitions, with all rows that are durable now."""
        return self._maps.maps_of(indexes)

    def can_write_map(self) -> bool:
        """Whether rows can be sent now, see `MapChannel.is_free`."""
        return self._maps.is_free

    def write_map(self, writes: Sequence[MapWrite]) -> Sequence[MapWrite]:
        """Send as many rows as fit into one request, and return those; the rest is for later."""
        try:
            self._conns.watch_map()
            return self._maps.send(writes)
        except (BrokerError, ConnectionLost, OffsetMapLost) as error:
            self._conns.unwatch_map()
            self._maps.give_up(str(error))
            self._lost.append(MapLost(list(writes), str(error)))
            return writes

    # -- answers -------------------------------------------------------------------------------

    def wait(self, timeout_s: float, room_bytes: int) -> Iterable[Event]:
        """Return events of answers within `timeout_s`, and of requests that were lost."""
        if self._room.give(room_bytes):
            self._watched.go_on()
        self._drop_overdue()
        events, self._lost = self._lost, []
        for key in self._watched.readable(0.0 if events else timeout_s):
            connection = (conn := self._conns.of(key)).connection
            try:
                while (frame := connection.pump()) is not None:
                    events.extend(conn.take(frame))
                    if not connection.has_ahead:
                        break
                if isinstance(conn, FetchConnection) and connection.waits_for_room:
                    self._watched.pause(key, conn)
            except (ConnectionLost, ProtocolError) as error:
                self._drop(key, str(error))
        events, self._lost = events + self._lost, []
        return events

    def _drop_overdue(self) -> None:
        """Drop connections with an overdue answer: a broker that hangs doesn't close them."""
        now_s = self._monotonic_s()
        if now_s < self._overdue_at_s:
            return
        self._overdue_at_s = now_s + OVERDUE_EVERY_S
        for key in self._conns.overdue(self._answer_limit_s):
            self._drop(key, "no answer in time")
        self._lost += self._silent.look(now_s, self._leaders)

    def _drop(self, key: ConnectionKey, reason: str) -> None:
        """Close a connection; its requests in flight are lost."""
        self._lost.append(self._conns.drop(key, reason))


def _deposed(
    before: Mapping[int, BrokerId], now: Mapping[int, BrokerId], cluster: WireCluster
) -> set[BrokerId]:
    """Return silent brokers that led a partition which another one leads now."""
    left = {broker for index, broker in before.items() if now.get(index, broker) != broker}
    return {broker for broker in left if cluster.silence_of(broker, 0.0) is not None}
