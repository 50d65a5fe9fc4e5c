"""Connections of a lane to source brokers, each with at most one fetch in flight."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from typing_extensions import override

from heliostat.clusters.leader_epochs import LeaderEpochs
from heliostat.clusters.wire import fetch
from heliostat.clusters.wire.connection import Connection
from heliostat.clusters.wire.frames import Frame
from heliostat.clusters.wire.primitives import (
    number_whole,
    request_header,
    skip_tagged_fields,
    whole_head,
)
from heliostat.clusters.wire.scan import (
    KNOWN_END,
    NUMBER,
    ROW_FIELDS,
    WATCHED_FIELDS,
    aim_all,
    are_topics,
    scan_news,
)
from heliostat.errors import BrokerError, ProtocolError
from heliostat.names import BrokerId, TopicId
from heliostat.records.batches.aborted import Aborted
from heliostat.records.copier.lane import CopySettings, PartitionSpec
from heliostat.records.copier.network import (
    ASKED_FIELDS,
    Channel,
    Event,
    Fetched,
    FetchLost,
    GroupAnswer,
    Want,
    Watched,
)
from heliostat.records.transport.line_meter import Lines

FETCH_BYTES_MIN = 1
"""The broker answers a fetch as soon as there is any record: no linger."""
_TOPICS_BEHIND_TAGS = 10
"""Bytes of throttle time, error and session id, which precede the list of topics."""


@dataclass(frozen=True, slots=True)
class ConnectionContext:
    """What all connections of a lane share."""

    partitions: Sequence[PartitionSpec]
    settings: CopySettings
    monotonic_s: Callable[[], float]
    lines: Lines
    producer_id: int = -1
    epochs: LeaderEpochs = field(default_factory=LeaderEpochs)
    """Of the source's leaders: fetches carry them."""


def _source_key(spec: PartitionSpec, *, by_id: bool) -> tuple[str | TopicId, int]:
    topic = spec.source_topic_id if by_id and spec.source_topic_id else spec.source.topic
    return topic, spec.source.partition


def _has_news(event: Event) -> bool:
    """Whether an answer had something for this partition or group, for which no broker waits."""
    if isinstance(event, GroupAnswer):
        return event.news > 0
    return isinstance(event, Fetched) and (event.end > event.start or event.error != 0)


class FetchConnection:
    """One connection to a source broker; one fetch at a time.

    Parameters
    ----------
    connection, version
        Open connection, and the version of Fetch to use.
    context
        Partitions, settings and clock of the lane.
    bytes_max
        Most bytes of an answer.
    """

    WAIT_MS: int | None = None
    """How long the broker waits for records; None: `CopySettings.fetch_wait_ms`."""

    def __init__(
        self, connection: Connection, version: int, context: ConnectionContext, bytes_max: int
    ) -> None:
        self.connection = connection
        self._version = version
        self._context = context
        self._bytes_max = bytes_max
        self._by_id = version >= fetch.BY_ID_FROM
        self._wants: Sequence[Want] = ()
        self._request = -1, 0.0
        """Correlation id, and time of sending; `_sent_at_s` may be later, see `go_on`."""
        self._sent_at_s = 0.0
        self._throttled_until_s = 0.0
        self._limit_bytes = 0
        """A limit for the next answer; 0: none."""

    @property
    def is_free(self) -> bool:
        """Whether no fetch is in flight, and the broker is not throttling us (KIP-219)."""
        if self._wants:
            return False
        return not self._throttled_until_s or (
            self._context.monotonic_s() >= self._throttled_until_s
        )

    def is_overdue(self, limit_s: float) -> bool:
        """Whether an answer has been due for longer than `limit_s`."""
        is_due = bool(self._wants) and not self.connection.waits_for_room
        return is_due and self._context.monotonic_s() > self._sent_at_s + limit_s

    def go_on(self) -> None:
        """Restart the answer's time limit: there was no room for the rest of it until now."""
        self._sent_at_s = self._context.monotonic_s()

    def is_silent(self, for_s: float) -> bool:
        """Whether an answer has been due for `for_s` and no part of it has arrived."""
        return self.is_overdue(for_s + self._wait_s) and not self.connection.is_receiving

    @property
    def _wait_s(self) -> float:
        """How long the broker waits for records."""
        settings = self._context.settings
        return (settings.fetch_wait_ms if self.WAIT_MS is None else self.WAIT_MS) / 1000

    def give_up(self, reason: str) -> FetchLost:
        """Return the fetch in flight, which will not be answered."""
        wants, self._wants = self._wants, ()
        return FetchLost(list(wants), reason)

    def send(self, wants: Sequence[Want], bytes_max: int = 0) -> None:
        """Send one fetch; with `bytes_max`, its answer has no more than these, or one batch.

        Raises
        ------
        ConnectionLost
            It can't be sent.
        """
        self._wants = wants
        self._limit(bytes_max)
        self._send(self._encode(wants, None))

    def _limit(self, bytes_max: int) -> bool:
        """Limit the next answer; return whether that is another limit than the last one's."""
        is_new, self._limit_bytes = bytes_max != self._limit_bytes, bytes_max
        return is_new

    def _encode(self, wants: Sequence[Want], offsets_at: list[int] | None) -> bytearray:
        specs = self._context.partitions
        return fetch.encode_fetch(
            self._version,
            [
                fetch.FetchPartition(
                    specs[want.index].source.topic,
                    specs[want.index].source_topic_id,
                    specs[want.index].source.partition,
                    want.offset,
                    want.bytes_max,
                    want.last_epoch,
                    self._context.epochs.of(specs[want.index].source),
                )
                for want in wants
            ],
            max_wait_ms=int(self._wait_s * 1000),
            min_bytes=FETCH_BYTES_MIN,
            max_bytes=self._answer_bytes_max(wants),
            read_committed=True,
            offsets_at=offsets_at,
        )

    def _answer_bytes_max(self, wants: Sequence[Want]) -> int:
        """Return the limit of an answer: more than usual where a partition asks for as much."""
        if self._limit_bytes:
            return self._limit_bytes
        largest = max((want.bytes_max for want in wants), default=0)
        return max(self._bytes_max, min(2 * largest, self._context.settings.fetch_bytes_max))

    def _send(self, body: bytearray) -> None:
        connection = self.connection
        self._sent_at_s = self._context.monotonic_s()
        number = connection.next_correlation_id()
        self._request = number, self._sent_at_s
        header = request_header(
            fetch.API_KEY,
            self._version,
            number,
            connection.settings.client_id,
            flexible=True,
        )
        connection.begin_send([header, body])

    def take(self, frame: Frame) -> list[Event]:
        """Return the events of an answer.

        Raises
        ------
        ProtocolError
            The answer does not match the request.
        """
        if frame.correlation_id != self._request[0]:
            raise ProtocolError("a fetch answer has the wrong correlation id")
        answer = fetch.decode_fetch(self._version, frame.buffer, 4)
        self._context.lines.source.requests.throttled_ms += answer.throttle_ms
        until_s = self._context.monotonic_s() + answer.throttle_ms / 1000
        self._throttled_until_s = max(self._throttled_until_s, until_s)
        if answer.error:
            failure = BrokerError("a fetch was refused", kafka_code=answer.error)
            return [self.give_up(str(failure))]
        events = self._events(frame, answer)
        self._wants = ()
        self._measure(frame, events)
        return events

    def _measure(self, frame: Frame, events: Sequence[Event]) -> None:
        """Note how long the answer took."""
        waited_s: float | None = self._wait_s
        if any(map(_has_news, events)):
            waited_s = 0.0 if self.WAIT_MS is None else None
        line, broker = self._context.lines.source, self.connection.endpoint
        line.answered(broker, len(frame.buffer), self._request[1], waited_s=waited_s)

    def _events(self, frame: Frame, answer: fetch.FetchAnswer) -> list[Event]:
        specs = self._context.partitions
        wants = {_source_key(specs[want.index], by_id=self._by_id): want for want in self._wants}
        events: list[Event] = []
        for got in answer.partitions:
            want = wants.pop((got.topic, got.partition), None)
            if want is None:
                raise ProtocolError("a fetch answer has a partition not requested", topic=got.topic)
            events.append(
                Fetched(
                    want,
                    got.error,
                    got.high_watermark,
                    frame.buffer,
                    got.start,
                    got.end,
                    got.last_stable_offset,
                    [Aborted(*item) for item in got.aborted],
                    got.diverging_epoch,
                )
            )
        if wants:
            raise ProtocolError("a fetch answer lacks partitions", missing=len(wants))
        return events


class WatchConnection(FetchConnection):
    """Watches a group of partitions, and handles only those with news in an answer.

    The request is encoded once; then only offsets that moved are written into it. Compiled code
    (`scan`) searches the answer.

    Parameters
    ----------
    broker, channel
        Broker that the fetches go to, and the group's channel.
    """

    WAIT_MS = 1000
    """Also the longest delay until a partition can be moved to another connection."""

    def __init__(
        self,
        broker: BrokerId,
        channel: Channel,
        connection: Connection,
        version: int,
        context: ConnectionContext,
    ) -> None:
        super().__init__(connection, version, context, context.settings.fetch_bytes_max)
        self._broker = broker
        self._channel = channel
        self._body = bytearray()
        """The whole request, from its size field on."""
        self._body_array = np.empty(0, np.uint8)
        self._offsets_at = np.empty(0, np.int64)
        self._sent: list[Want] = []
        self._asked = np.empty((0, ASKED_FIELDS), np.int64)
        """What the request in flight, or the next one, asks for; compiled code moves it on."""
        self._is_moved = False
        """Whether it has moved on since `_sent`."""
        self._epoch_changes = -1
        """State of the leaders' epochs in `_body`."""
        self._rows = np.empty((0, ROW_FIELDS), np.int64)
        self._watched = np.empty((0, WATCHED_FIELDS), np.int64)
        """What `scan_news` compares answers with."""
        self._keys: tuple[np.ndarray, np.ndarray] = (
            np.empty(0, np.uint8),
            np.empty((0, 2), np.int64),
        )
        """Names of the partitions' topics, one behind the other, and where each stands."""

    @override
    def send(self, wants: Sequence[Want], bytes_max: int = 0) -> None:
        """Send one fetch; see `FetchConnection.send`."""
        self._limit(bytes_max)
        is_behind = self._epoch_changes != self._context.epochs.changes
        if len(wants) != len(self._sent) or self._is_moved or is_behind:
            self._prepare(wants)
        else:
            # Most are the very same objects, see `GroupWants`.
            changed = [
                (place, new, old)
                for place, (new, old) in enumerate(zip(wants, self._sent, strict=True))
                if new is not old
            ]
            if any(new.index != old.index for _, new, old in changed):
                self._prepare(wants)
            else:
                for place, new, _ in changed:
                    at = int(self._offsets_at[place])
                    fetch.aim(self._body, at, new.offset, new.bytes_max, new.last_epoch)
                    self._asked[place] = tuple(new)
        self._sent = list(wants)
        self._send_whole()

    def send_again(self, bytes_max: int = 0) -> bool:
        """Send the last fetch from where it has moved on to; False: there is none."""
        if not self._sent:
            return False
        self._limit(bytes_max)
        aim_all(self._body_array, self._offsets_at, self._asked)
        self._send_whole()
        return True

    @override
    def _limit(self, bytes_max: int) -> bool:
        is_new = super()._limit(bytes_max)
        if is_new and self._sent:
            head = whole_head(fetch.API_KEY, self._version, self.connection.settings.client_id)
            fetch.limit_answer(self._body, len(head), self._answer_bytes_max(self._sent))
        return is_new

    def _send_whole(self) -> None:
        self._wants = self._sent
        self._sent_at_s = self._context.monotonic_s()
        number = self.connection.next_correlation_id()
        self._request = number, self._sent_at_s
        number_whole(self._body, number)
        self.connection.begin_whole(memoryview(self._body))

    def _prepare(self, wants: Sequence[Want]) -> None:
        changes = self._context.epochs.changes
        is_same = len(wants) == len(self._sent) and all(
            new.index == old.index for new, old in zip(wants, self._sent, strict=True)
        )
        is_same = is_same and self._epoch_changes == changes
        self._is_moved, self._epoch_changes = False, changes
        self._asked = np.array(wants, np.int64)
        if is_same:
            aim_all(self._body_array, self._offsets_at, self._asked)
            return
        found: list[int] = []
        head = whole_head(fetch.API_KEY, self._version, self.connection.settings.client_id)
        self._body = bytearray(head) + self._encode(wants, found)
        self._body_array = np.frombuffer(self._body, np.uint8)
        self._offsets_at = len(head) + np.array(found, np.int64)
        specs = self._context.partitions
        self._rows = np.empty((len(wants), ROW_FIELDS), np.int64)
        self._watched = np.full((len(wants), WATCHED_FIELDS), -2, np.int64)
        self._watched[:, NUMBER] = [specs[want.index].source.partition for want in wants]
        names = [self._name_of(specs[want.index]) for want in wants]
        ends = np.cumsum([len(name) for name in names], dtype=np.int64)
        places = np.stack((ends - [len(name) for name in names], ends), axis=1)
        self._keys = np.frombuffer(b"".join(names), np.uint8), places

    def _name_of(self, spec: PartitionSpec) -> bytes:
        if self._by_id and spec.source_topic_id:
            return spec.source_topic_id.bytes
        return spec.source.topic.encode()

    @override
    def take(self, frame: Frame) -> list[Event]:
        """Return the events of an answer; see `FetchConnection.take`."""
        if frame.correlation_id != self._request[0] or not fetch.is_undisturbed(frame.buffer):
            return super().take(frame)
        events = self._group(frame)
        self._wants = ()
        self._measure(frame, events)
        return events

    def _group(self, frame: Frame) -> list[Event]:
        data = np.frombuffer(frame.buffer, np.uint8)
        at = skip_tagged_fields(frame.buffer, 4) + _TOPICS_BEHIND_TAGS
        found = scan_news(data, at, self._by_id, self._rows, self._watched)
        is_plain = found >= 0 and are_topics(*(data, self._rows, self._watched, found), *self._keys)
        if not is_plain:
            return self._out_of_order(frame)
        self._is_moved = True

        def fetched(place: int) -> Fetched:
            return self._fetched(frame, place)

        return [
            GroupAnswer(
                *(self._broker, self._channel, data, self._rows, self._watched, found),
                *(self._asked, fetched),
            )
        ]

    def _out_of_order(self, frame: Frame) -> list[Event]:
        """Return the events of an answer that does not follow the order of the request.

        A broker puts partitions it refuses behind all others (`KafkaApis.handleFetchRequest`); if
        topics have equally many partitions, only their names tell.
        """
        # High watermarks may have been noted in another partition's row.
        self._watched[:, KNOWN_END] = -2
        self._wants = [Want(*row) for row in self._asked.tolist()]
        events = super()._events(frame, fetch.decode_fetch(self._version, frame.buffer, 4))
        return [*events, Watched(self._broker, self._channel)]

    @override
    def _events(self, frame: Frame, answer: fetch.FetchAnswer) -> list[Event]:
        return self._group(frame)

    def _fetched(self, frame: Frame, place: int) -> Fetched:
        """Return the event of one partition."""
        row = self._rows[place].tolist()
        _, _, error, high_watermark, start, end, last_stable_offset, aborted_at = row
        found = fetch.read_aborted(frame.buffer, aborted_at)[0] if aborted_at >= 0 else ()
        return Fetched(
            Want(*self._asked[place].tolist()),
            error,
            high_watermark,
            frame.buffer,
            start,
            end,
            last_stable_offset,
            [Aborted(*item) for item in found],
            fetch.read_diverging_epoch(frame.buffer, end),
        )
