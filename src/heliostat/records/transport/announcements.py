"""Announcements to a lane in the link's control topic: changes, stops, answers, schema ids.

A fetch waits at the broker, so that a change arrives within milliseconds.
"""

from __future__ import annotations

import contextlib
import json
import select
from collections.abc import Iterator, Mapping
from typing import Any

from heliostat.clusters.foreign_records import NOT_A_ROW
from heliostat.clusters.kafka_codes import EARLIEST
from heliostat.clusters.wire import fetch
from heliostat.clusters.wire.connection import Connection
from heliostat.clusters.wire.frames import Frame
from heliostat.errors import BatchError, BrokerError, ConnectionLost
from heliostat.invariants import is_from_current_owner
from heliostat.names import TopicName, TopicPartition
from heliostat.records.batches.batch import check_crc, each_header
from heliostat.records.batches.encode import decode_batches
from heliostat.records.copier.lane import NO_IDS, LaneSpec, PlanChange, SchemaIds
from heliostat.records.copier.lane_limits import ByteLimits
from heliostat.records.transport.plan_rows import wanted_round
from heliostat.records.transport.schema_id_rows import SCHEMAS_KEY, schema_ids_in
from heliostat.records.transport.state_connection import ANSWER_S, ONLY, StateConnection

CONTROL_KEY = "lanes"
OLDER_KEY = "lanes"
"""An announcement of an earlier version has this, and names no rounds."""
CONTROL_FETCH_BYTES = 1024 * 1024
CONTROL_WAIT_MS = 500
"""How long the broker holds a fetch of the control topic while there is no new announcement."""
_ANSWERED_WITHIN_S = CONTROL_WAIT_MS / 1000 + ANSWER_S


class Heard:
    """The newest announcement; written by the channel's thread, read by the copier's."""

    __slots__ = ("answered", "changes", "is_superseded", "limits", "running", "schema_ids")

    def __init__(self) -> None:
        self.is_superseded = False
        self.running: frozenset[str] | None = None
        self.changes: tuple[PlanChange, ...] = ()
        self.answered = 0
        self.schema_ids = NO_IDS
        self.limits: ByteLimits | None = None

    def take(self, control: Mapping[str, Any], lane: LaneSpec) -> None:
        """Store an announcement, which replaces the one before (`encode_announcement`).

        A lane whose round is not the one that is named must end.
        """
        wanted = wanted_round(control, lane.lane)
        if wanted is None or wanted.round_id != lane.round_id:
            self.is_superseded = True
            return
        self.running = frozenset(map(str, control["running"]))
        self.changes = wanted.changes
        if wanted.limits != self.limits:
            self.limits = wanted.limits
        self.answered = int(control["answered"].get(lane.round_id, 0))


class Announcements:
    """Reads the control topic from its beginning, one fetch at a time. Used by one thread.

    Parameters
    ----------
    lane
        Lane that the announcements are for.
    connection
        Connection to the control topic.
    heard
        Receives the newest announcement.
    """

    def __init__(self, lane: LaneSpec, connection: StateConnection, heard: Heard) -> None:
        self._lane = lane
        self._control = connection
        self._heard = heard
        self._offset = -1
        self._announced: dict[str, Any] | None = None
        self._schema_ids: SchemaIds = NO_IDS
        self._asked_at_s = -1.0  # when the fetch in flight was sent; negative: there is none

    def close(self) -> None:
        """Close the connection."""
        self._control.close()

    def wait_with(self, poller: select.poll) -> float | None:
        """Register the socket with `poller`, if an answer is awaited.

        Returns
        -------
        float | None
            Latest time to call `listen` again (monotonic seconds); None: at once.
        """
        connection = self._control.connection
        if self._asked_at_s < 0 or connection is None:
            return self._control.retry_at_s
        if connection.has_held():
            return None
        poller.register(connection.fileno(), select.POLLIN)
        return self._asked_at_s + _ANSWERED_WITHIN_S

    def listen(self) -> None:
        """Process answers that have arrived, and send the next fetch."""
        now_s = self._control.monotonic_s()
        if now_s < self._control.retry_at_s:
            return
        try:
            if self._asked_at_s < 0:
                self._ask()
            connection, _, leader = self._control.open()
            while (frame := _frame_that_came(connection)) is not None:
                self._take(frame.buffer, self._control.target.fetch_version(leader.broker))
                self._ask()
        except (ConnectionLost, BrokerError) as error:
            self._not_heard(error)
        else:
            if now_s > self._asked_at_s + _ANSWERED_WITHIN_S:
                self._not_heard(ConnectionLost("a fetch of the control topic is not answered"))

    def _not_heard(self, error: ConnectionLost | BrokerError) -> None:
        self._asked_at_s = -1.0
        self._offset = -1  # if the topic was recreated, the old offset is out of range
        self._control.failed(error, self._lane.settings.control_interval_s)

    def _ask(self) -> None:
        conn = self._control
        _, _, leader = conn.open()
        if self._offset < 0:
            partition = TopicPartition(TopicName(conn.topic), ONLY)
            found = conn.target.list_offsets(leader.broker, [partition], timestamp=EARLIEST)
            start = found[partition]
            if isinstance(start, BrokerError):
                raise start
            self._offset = start
        version = conn.target.fetch_version(leader.broker)
        want = conn.fetch_at(self._offset, CONTROL_FETCH_BYTES)
        body = fetch.encode_fetch(
            version,
            [want],
            max_wait_ms=CONTROL_WAIT_MS,
            min_bytes=1,
            max_bytes=CONTROL_FETCH_BYTES,
            read_committed=True,
        )
        conn.send(fetch.API_KEY, version, [body])
        self._asked_at_s = self._control.monotonic_s()

    def _take(self, buffer: memoryview, version: int) -> None:
        for got in fetch.decode_fetch(version, buffer, 4).partitions:
            if got.error:
                raise BrokerError("the control topic can't be read", kafka_code=got.error)
            for _, key, value in self._records(buffer[got.start : got.end]):
                with contextlib.suppress(*NOT_A_ROW):  # others wrote it: the next one replaces it
                    self._read(key, value)
            # Older announcements, read before the newest, must not end a round.
            if self._offset >= got.high_watermark:
                if self._announced is not None:
                    self._heard.take(self._announced, self._lane)
                    self._announced = None
                self._heard.schema_ids = self._schema_ids
        self._control.worked()

    def _records(self, buffer: memoryview) -> Iterator[tuple[int, bytes | None, bytes | None]]:
        """Yield offset, key and value of each record, without batches that can't be read.

        The next fetch begins after the last batch, whatever is in it: markers, too.
        """
        for at, header in each_header(buffer, 0, len(buffer)):
            check_crc(buffer, at, header)
            with contextlib.suppress(BatchError):  # in an encoding that we don't write
                for offset, _, key, value in decode_batches(buffer[at : at + header.size]):
                    yield offset, key, value
            self._offset = max(self._offset, header.next_offset)

    def _read(self, key: bytes | None, value: bytes | None) -> None:
        """Note the newest announcement of each kind; raises if it is none of ours."""
        if value is None:
            return
        if key == CONTROL_KEY.encode():
            control = json.loads(value)
            if _is_for_us(control, self._lane):
                _check_whole(control, self._lane)
                self._announced = control
        elif key == SCHEMAS_KEY.encode():
            self._schema_ids = schema_ids_in(json.loads(value), self._lane.registries)


def _check_whole(control: Any, lane: LaneSpec) -> None:
    """Raise unless it is an announcement that can be taken: a bad one must not end a round."""
    Heard().take(control, lane)
    wanted = ("rounds", "running", "answered") if "rounds" in control else (OLDER_KEY,)
    for key in wanted:
        control[key]


def _is_for_us(control: dict[str, Any], lane: LaneSpec) -> bool:
    """Whether the announcing owner, numbered by `"claim"`, was not taken over (I10)."""
    claim = control.get("claim")
    return not isinstance(claim, int) or is_from_current_owner(claim, lane.generation)


def _frame_that_came(connection: Connection) -> Frame | None:
    """Return a whole frame if one has arrived, without waiting."""
    poller = select.poll()
    poller.register(connection.fileno(), select.POLLIN)
    return connection.pump() if connection.has_held() or poller.poll(0) else None
