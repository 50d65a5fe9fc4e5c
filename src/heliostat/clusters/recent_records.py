"""Recent records of a topic of ours with many writers, read to be shown to people."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Any

from heliostat.access import Reachable
from heliostat.clusters.foreign_records import NOT_A_ROW, ForeignRecords
from heliostat.clusters.log_reader import LogReader, LogRecord
from heliostat.clusters.one_partition import OnePartitionTopic
from heliostat.errors import ConnectionLost
from heliostat.names import Offset

AN_HOUR: Mapping[str, str] = {
    "cleanup.policy": "delete",
    "retention.ms": "3600000",
    "segment.bytes": str(16 << 20),  # small enough that old ones are really deleted
    # The broker must not refuse records if our clock is ahead (KIP-937).
    "message.timestamp.type": "LogAppendTime",
}
ANSWER_TIMEOUT_S = 30.0
END_POLL_S = 0.2  # a poll returns at once if there are records


@dataclass(frozen=True, slots=True)
class Recent:
    """One record, decoded."""

    key: str
    value: dict[str, Any]
    timestamp_ms: int
    offset: int


class RecentRecords(OnePartitionTopic):
    """Records of a one-partition topic from some time on. Not thread-safe.

    Every method raises `ConnectionLost` if the brokers do not answer in time.

    Parameters
    ----------
    foreign
        Notes records that are not ours; they are ignored.
    """

    def __init__(
        self, cluster: Reachable, topic: str, foreign: ForeignRecords | None = None
    ) -> None:
        super().__init__(cluster, topic, "heliostat-status")
        self._foreign = foreign or ForeignRecords()

    def exists(self) -> bool:
        """Whether the topic exists: a link that never ran has none."""
        with self._alone():
            return self._reader() is not None

    def newest(self) -> tuple[int, Offset] | None:
        """When the newest record was written (ms), and the topic's end; None if there is none."""
        with self._alone():
            log = self._existing()
            start, end = log.bounds()
            if end <= start:
                return None
            log.position = Offset(end - 1)
        rows = self._polled(ANSWER_TIMEOUT_S)
        return (rows[-1].timestamp, end) if rows else None

    def seek(self, from_ms: int) -> Offset:
        """Begin with the first record written at or after `from_ms`; return its offset."""
        with self._alone():
            log = self._existing()
            log.position = log.first_since(from_ms)
            return log.position

    def read_to(self, end: Offset) -> Iterator[Recent]:
        """All records up to where the topic ended, and maybe some written since.

        Raises
        ------
        ConnectionLost
            They could not be read within `ANSWER_TIMEOUT_S`.
        """
        log = self._existing()
        deadline_s = monotonic() + ANSWER_TIMEOUT_S
        while log.position < end:
            if monotonic() > deadline_s:
                raise ConnectionLost(f"topic {self.topic} was not read in time", end=end)
            yield from self.poll(END_POLL_S)

    def poll(self, timeout_s: float) -> list[Recent]:
        """Records since the last poll, waiting at most `timeout_s` for the first."""
        records: list[Recent] = []
        for row in self._polled(timeout_s):
            try:
                value = json.loads(row.value or b"")
                if not isinstance(value, dict):
                    raise TypeError("no object")  # one way for all that is odd
                key = (row.key or b"\xff").decode()  # ours have one
                records.append(Recent(key, value, row.timestamp, row.offset))
            except NOT_A_ROW as error:
                self._foreign.note(self.topic, row.offset, row.key, error)
        return records

    def ignore(self, record: Recent, why: object) -> None:
        """Note a record that only its reader can tell from one of ours."""
        self._foreign.note(self.topic, record.offset, record.key, why)

    def _polled(self, timeout_s: float) -> list[LogRecord]:
        with self._alone():
            return self._existing().poll(timeout_s)

    def _existing(self) -> LogReader:
        log = self._reader()
        if log is None:
            raise ConnectionLost(f"topic {self.topic} does not exist")
        return log
