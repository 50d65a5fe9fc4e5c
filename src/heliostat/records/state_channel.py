"""A lane's line to the link's state topics on the target: it reports, and it hears of newer plans.

Everything here is small and rare beside the data: one record a second out, one fetch of a quarter
second in. It runs on connections of its own, so that it waits behind no batch.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from heliostat.clusters.wire import fetch, produce
from heliostat.clusters.wire.cluster import EARLIEST, Leader, TopicLeaders, WireCluster
from heliostat.clusters.wire.connection import Connection
from heliostat.clusters.wire.primitives import request_header
from heliostat.errors import BrokerError, ConnectionLost
from heliostat.names import LaneId, PartitionId, TopicName, TopicPartition
from heliostat.records.encode import decode_batches, encode_batch
from heliostat.records.lane import LaneSpec, PartitionReport, PartitionState, RoundReport

CONTROL_KEY = "lanes"
CONTROL_FETCH_BYTES = 1024 * 1024
SILENT_S_MAX = 20.0
"""A lane that can't reach its state topics for so long ends its round: nobody could stop it."""
_ONLY = PartitionId(0)


class StateChannel:
    """Reports of one lane to the progress topic, newer generations from the control topic.

    Parameters
    ----------
    lane
        Names the topics and how often to look.
    target
        The target cluster (a `WireCluster` of its own: it must not share the copier's).
    monotonic_s, wall_ms
        The clocks.
    """

    def __init__(
        self,
        lane: LaneSpec,
        target: WireCluster,
        monotonic_s: Callable[[], float],
        wall_ms: Callable[[], int],
    ) -> None:
        self._lane = lane
        self._target = target
        self._monotonic_s = monotonic_s
        self._wall_ms = wall_ms
        self._connections: dict[str, tuple[Connection, TopicLeaders, Leader]] = {}
        self._control_offset = -1
        self._superseded = False
        self._next_look_s = 0.0
        self._next_report_s = 0.0
        self._heard_at_s = monotonic_s()
        self._told_at_s = monotonic_s()

    def is_superseded(self) -> bool:
        """Whether a newer generation, or a stop, was announced.

        Raises
        ------
        ConnectionLost, BrokerError
            The control topic could not be read for `SILENT_S_MAX`.
        """
        now_s = self._monotonic_s()
        if self._superseded or now_s < self._next_look_s:
            return self._superseded
        self._next_look_s = now_s + self._lane.settings.control_interval_s
        try:
            self._read_control()
            self._heard_at_s = self._monotonic_s()
        except (ConnectionLost, BrokerError):
            self._forget(self._lane.control_topic)
            if now_s > self._heard_at_s + SILENT_S_MAX:
                raise
        return self._superseded

    def publish(self, report: RoundReport) -> None:
        """Write `report` to the progress topic; the next one is due a second later.

        Raises
        ------
        ConnectionLost, BrokerError
            The progress topic could not be written for `SILENT_S_MAX`.
        """
        now_s = self._monotonic_s()
        self._next_report_s = now_s + self._lane.settings.report_interval_s
        try:
            self._write_progress(report)
            self._told_at_s = self._monotonic_s()
        except (ConnectionLost, BrokerError):
            self._forget(self._lane.progress_topic)
            if now_s > self._told_at_s + SILENT_S_MAX:
                raise

    def due(self) -> bool:
        """Whether a report is wanted now: making one costs something."""
        return self._monotonic_s() >= self._next_report_s

    def close(self) -> None:
        """Close the connections."""
        for topic in list(self._connections):
            self._forget(topic)
        self._target.close()

    def _read_control(self) -> None:
        topic = self._lane.control_topic
        connection, leaders, leader = self._connect(topic)
        if self._control_offset < 0:
            partition = TopicPartition(TopicName(topic), _ONLY)
            found = self._target.list_offsets(leader.broker, [partition], timestamp=EARLIEST)
            start = found[partition]
            if isinstance(start, BrokerError):
                raise start
            self._control_offset = start
        version = self._target.fetch_version(leader.broker)
        want = fetch.FetchPartition(
            topic, leaders.topic_id, _ONLY, self._control_offset, CONTROL_FETCH_BYTES
        )
        body = fetch.encode_fetch(
            version,
            [want],
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=CONTROL_FETCH_BYTES,
            read_committed=True,
        )
        buffer = self._exchange(connection, fetch.API_KEY, version, [body])
        answer = fetch.decode_fetch(version, buffer, 4)
        for got in answer.partitions:
            if got.error:
                raise BrokerError("the control topic can't be read", kafka_code=got.error)
            for offset, _, key, value in decode_batches(memoryview(buffer)[got.start : got.end]):
                self._control_offset = max(self._control_offset, offset + 1)
                if key == CONTROL_KEY.encode() and value is not None:
                    self._hear(json.loads(value))

    def _hear(self, control: dict[str, object]) -> None:
        """Take one announcement `{"lanes": {lane: generation}}`; the newest one counts.

        A lane that is not named, or is named with another generation, has ended.
        """
        lanes = control.get("lanes")
        current = lanes.get(str(self._lane.lane)) if isinstance(lanes, dict) else None
        self._superseded = current != self._lane.generation

    def _write_progress(self, report: RoundReport) -> None:
        topic = self._lane.progress_topic
        connection, leaders, leader = self._connect(topic)
        value = json.dumps(report_to_json(report, self._wall_ms()), separators=(",", ":"))
        key = f"lane/{self._lane.lane}".encode()
        batch = encode_batch([(key, value.encode(), self._wall_ms())])
        version = self._target.produce_version(leader.broker)
        item = produce.ProducePartition(topic, leaders.topic_id, _ONLY, [batch], len(batch))
        timeout_ms = int(self._lane.settings.produce_timeout_s * 1000)
        body = produce.encode_produce(version, [item], timeout_ms=timeout_ms)
        buffer = self._exchange(connection, produce.API_KEY, version, body)
        answers, _ = produce.decode_produce(version, buffer, 4)
        if answers[0].error:
            raise BrokerError("progress can't be written", kafka_code=answers[0].error)

    def _connect(self, topic: str) -> tuple[Connection, TopicLeaders, Leader]:
        known = self._connections.get(topic)
        if known is not None:
            return known
        leaders = self._target.metadata([TopicName(topic)])[TopicName(topic)]
        leader = leaders.partitions.get(_ONLY)
        if leaders.error or leader is None or leader.error:
            code = leaders.error or (leader.error if leader is not None else 3)
            raise BrokerError("a state topic has no leader", kafka_code=code, topic=topic)
        known = (self._target.open_data(leader.broker), leaders, leader)
        self._connections[topic] = known
        return known

    def _exchange(
        self,
        connection: Connection,
        api_key: int,
        version: int,
        body: list[bytes | bytearray | memoryview] | list[bytes],
    ) -> memoryview:
        correlation_id = connection.next_correlation_id()
        client_id = connection.settings.client_id
        header = request_header(api_key, version, correlation_id, client_id, flexible=True)
        connection.send([header, *body])
        return connection.receive(connection.settings.request_timeout_s).buffer

    def _forget(self, topic: str) -> None:
        known = self._connections.pop(topic, None)
        if known is not None:
            known[0].close()


def report_to_json(report: RoundReport, at_ms: int) -> dict[str, object]:
    """A report as the progress topic holds it; `report_from_json` reads it back."""
    return {
        "at_ms": at_ms,
        "lane": report.lane,
        "generation": report.generation,
        "round": report.round_number,
        "records": report.records,
        "bytes": report.bytes,
        "ended_by": report.ended_by,
        "latency": report.latency_ms,
        "partitions": [
            [
                item.source.topic,
                item.target.topic,
                item.source.partition,
                item.state.value,
                item.position,
                item.source_end,
                item.records,
                item.bytes,
                item.last_timestamp_ms,
                item.caught_up_ms,
                item.since_ms,
                item.code,
                item.reason,
            ]
            for item in report.partitions
        ],
    }


def report_from_json(value: Mapping[str, Any]) -> tuple[RoundReport, int]:
    """A report read back, and when it was written (wall ms)."""
    rows: list[list[Any]] = value["partitions"]
    partitions = [_partition_from_json(row) for row in rows]
    report = RoundReport(
        LaneId(value["lane"]),
        value["generation"],
        value["round"],
        value["records"],
        value["bytes"],
        value["ended_by"],
        partitions,
        value["latency"],
    )
    return report, value["at_ms"]


def _partition_from_json(row: list[Any]) -> PartitionReport:
    source, target, number, state, *numbers, code, reason = row
    partition = PartitionId(int(number))
    position, source_end, records, size, last_timestamp_ms, caught_up_ms, since_ms = numbers
    return PartitionReport(
        TopicPartition(TopicName(source), partition),
        TopicPartition(TopicName(target), partition),
        PartitionState(state),
        position,
        source_end,
        records,
        size,
        last_timestamp_ms,
        caught_up_ms,
        since_ms,
        code,
        reason,
    )
