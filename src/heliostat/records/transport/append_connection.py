"""Connections of a lane to target brokers, each with its requests in flight.

Appends are pipelined: the broker serves them strictly in order (its `SocketServer` mutes the
connection while it handles a request).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from heliostat.clusters.wire import markers, produce
from heliostat.clusters.wire.connection import Connection
from heliostat.clusters.wire.frames import Frame
from heliostat.clusters.wire.primitives import Buffer, request_header
from heliostat.errors import ProtocolError
from heliostat.names import TopicId
from heliostat.records.copier.lane import PartitionSpec
from heliostat.records.copier.markers import filler_of
from heliostat.records.copier.network import (
    Appended,
    AppendLost,
    Event,
    PlainAppended,
    PlainSends,
    Send,
)
from heliostat.records.transport.fetch_connection import ConnectionContext
from heliostat.records.transport.plain_requests import PlainRequests


def _target_key(spec: PartitionSpec, *, by_id: bool) -> tuple[str | TopicId, int]:
    topic = spec.target_topic_id if by_id and spec.target_topic_id else spec.target.topic
    return topic, spec.target.partition


class _InFlight(NamedTuple):
    """A request that is not answered yet."""

    number: int
    """Its correlation id."""
    sent_at_s: float
    """Monotonic seconds."""
    contents: Sequence[Send] | PlainSends
    """Only batches of records, or only markers, or only batches of compiled code."""
    size: int
    """Bytes of its batches."""


class AppendConnection:
    """One connection to a target broker; several appends in flight, answered in order.

    Parameters
    ----------
    connection, version
        Open connection, and the version of Produce to use.
    context
        Partitions, settings and clock of the lane.
    """

    def __init__(self, connection: Connection, version: int, context: ConnectionContext) -> None:
        self.connection = connection
        connection.discard_at_close(is_wanted=True)  # so nothing is appended after the round (I10)
        self._version = version
        self._context = context
        self._requests: deque[_InFlight] = deque()
        self._throttled_until_s = 0.0
        timeout_ms = int(context.settings.produce_timeout_s * 1000)
        client_id = connection.settings.client_id
        self._plain = PlainRequests(version, client_id, context.partitions, timeout_ms)

    @property
    def is_free(self) -> bool:
        """Whether another append may be sent: room in flight, nothing unsent, not throttled."""
        is_room = len(self._requests) < self._context.settings.requests_in_flight_max
        is_room = is_room and not self.connection.has_unsent
        throttled_until_s = self._throttled_until_s
        return is_room and (
            not throttled_until_s or self._context.monotonic_s() >= throttled_until_s
        )

    @property
    def is_busy(self) -> bool:
        """Whether an append is in flight."""
        return bool(self._requests)

    @property
    def under_way(self) -> set[int]:
        """Indexes of partitions with unanswered appends."""
        return {send.index for request in self._requests for send in _objects(request.contents)}

    def is_overdue(self, limit_s: float) -> bool:
        """Whether an answer has been due for longer than `limit_s`."""
        return bool(self._requests) and (
            self._context.monotonic_s() > self._requests[0].sent_at_s + limit_s
        )

    def is_silent(self, for_s: float) -> bool:
        """Whether an answer has been due for `for_s` and no part of it has arrived."""
        return self.is_overdue(for_s) and not self.connection.is_receiving

    def give_up(self, reason: str) -> AppendLost:
        """Return the appends in flight, which will not be answered."""
        sends = [send for request in self._requests for send in _objects(request.contents)]
        self._requests.clear()
        return AppendLost(sends, reason)

    def close(self) -> None:
        """Close the connection; bytes of requests in flight that are still unsent are discarded."""
        self.connection.discard_at_close(is_wanted=bool(self._requests))
        self.connection.close()

    def send(self, sends: Sequence[Send]) -> None:
        """Begin to send a produce request; markers among `sends` go in a request of their own.

        Raises
        ------
        ConnectionLost
            It can't be sent, or only in part.
        """
        marking = [send for send in sends if send.batch.fills]
        records = [send for send in sends if not send.batch.fills] if marking else sends
        frames = [self._produce(records)] if records else []
        if marking:
            frames.append(self._mark(marking))
        for send in sends:
            send.batch.let_go()  # else it would hold its fetch's answer until the broker answers
        self.connection.begin_send(*frames)

    def send_plain(self, sends: PlainSends) -> None:
        """Begin to send a produce request with batches of compiled code; see `send`."""
        number = self.connection.next_correlation_id()
        now_s = self._context.monotonic_s()
        self._requests.append(_InFlight(number, now_s, sends, sends.filled))
        self.connection.begin_whole(self._plain.encode(number, sends))
        if self.connection.has_unsent:
            self._plain.leave_room()

    def _produce(self, sends: Sequence[Send]) -> list[Buffer]:
        specs = self._context.partitions
        body = produce.encode_produce(
            self._version,
            [
                produce.ProducePartition(
                    specs[send.index].target.topic,
                    specs[send.index].target_topic_id,
                    specs[send.index].target.partition,
                    send.batch.parts,
                    send.batch.size,
                )
                for send in sends
            ],
            timeout_ms=int(self._context.settings.produce_timeout_s * 1000),
        )
        return [self._begun(produce.API_KEY, self._version, sends), *body]

    def _mark(self, sends: Sequence[Send]) -> list[Buffer]:
        """Encode a request for markers, see `filling`."""
        targets = [self._context.partitions[send.index].target for send in sends]
        wanted = [
            markers.Markers(
                target.topic, target.partition, len(send.batch.fills), send.coordinator_epoch
            )
            for target, send in zip(targets, sends, strict=True)
        ]
        body = markers.encode_markers(filler_of(self._context.producer_id), wanted)
        return [self._begun(markers.API_KEY, markers.VERSIONS[0], sends), body]

    def _begun(self, api_key: int, version: int, sends: Sequence[Send]) -> bytes:
        """Register a request as in flight, and return its header."""
        number = self.connection.next_correlation_id()
        size = sum(send.batch.size for send in sends)
        self._requests.append(_InFlight(number, self._context.monotonic_s(), sends, size))
        client_id = self.connection.settings.client_id
        return request_header(api_key, version, number, client_id, flexible=True)

    def _take_markers(self, frame: Frame) -> list[Event]:
        errors = markers.decode_markers(frame.buffer, 4)
        events: list[Event] = []
        for send in _objects(self._requests.popleft().contents):
            target = self._context.partitions[send.index].target
            error = errors.get((target.topic, target.partition))
            if error is None:
                raise ProtocolError("the answer to a request for markers lacks partitions")
            events.append(Appended(send, error, -1, ""))
        return events

    def take(self, frame: Frame) -> list[Event]:
        """Return the events of an answer.

        Raises
        ------
        ProtocolError
            The answer does not match the request.
        """
        if not self._requests or self._requests[0].number != frame.correlation_id:
            raise ProtocolError("a produce answer has the wrong correlation id")
        _, sent_at_s, request, size = self._requests[0]
        self._context.lines.target.answered(self.connection.endpoint, size, sent_at_s)
        if isinstance(request, PlainSends):
            throttle_ms = self._plain.decode(frame.buffer, request.rows)
            if throttle_ms >= 0:
                self._throttle(throttle_ms)
                self._requests.popleft()
                return [PlainAppended(request)]
        sends = _objects(request)
        if sends[0].batch.fills:
            return self._take_markers(frame)
        answers, throttle_ms = produce.decode_produce(self._version, frame.buffer, 4)
        self._throttle(throttle_ms)
        specs = self._context.partitions
        by_id = self._version >= produce.BY_ID_FROM
        waiting = {_target_key(specs[send.index], by_id=by_id): send for send in sends}
        events: list[Event] = []
        for got in answers:
            send = waiting.pop((got.topic, got.partition), None)
            if send is None:
                raise ProtocolError("a produce answer has a partition not sent", topic=got.topic)
            is_repeated = got.log_append_time_ms >= 0
            events.append(
                Appended(send, got.error, got.base_offset, got.message, got.refused, is_repeated)
            )
        if waiting:
            raise ProtocolError("a produce answer lacks partitions", missing=len(waiting))
        self._requests.popleft()
        return events

    def _throttle(self, throttle_ms: int) -> None:
        if throttle_ms:
            self._context.lines.target.requests.throttled_ms += throttle_ms
            until_s = self._context.monotonic_s() + throttle_ms / 1000
            self._throttled_until_s = max(self._throttled_until_s, until_s)


def _objects(request: Sequence[Send] | PlainSends) -> Sequence[Send]:
    return request.objects() if isinstance(request, PlainSends) else request
