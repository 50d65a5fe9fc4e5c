"""A topic of ours of one partition with a day of records as bytes: appended, and read by time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from time import monotonic, sleep

from heliostat.clusters.log_reader import LogRecord
from heliostat.clusters.log_writer import NewRecord
from heliostat.clusters.one_partition import OnePartitionTopic
from heliostat.errors import ConnectionLost

A_DAY: Mapping[str, str] = {
    "cleanup.policy": "delete",
    "retention.ms": str(25 * 3_600_000),
    "segment.ms": str(3_600_000),  # only whole segments are deleted
    "segment.bytes": str(16 << 20),
    # The broker must not refuse records if our clock is ahead (KIP-937).
    "message.timestamp.type": "LogAppendTime",
}
ANSWER_TIMEOUT_S = 15.0
POLL_S = 0.2  # a poll returns at once if there are records


class PastRecords(OnePartitionTopic):
    """Records of a day. Any thread may write; one at a time reads.

    Every method raises `ConnectionLost` if the brokers do not answer in time, and `BrokerError` if
    they refuse.
    """

    CHECKED = False  # values are compressed, with a checksum: a day is read in a tenth of the time
    WRITE_S = 10.0

    def exists(self) -> bool:
        """Whether the topic exists: a link that ran only with earlier versions has none."""
        with self._alone():
            return self._reader() is not None

    def append(self, records: Iterable[tuple[bytes, bytes]]) -> None:
        """Append keys and values, in order; durable on all replicas in sync when it returns."""
        self._writer().write([NewRecord(key, value) for key, value in records])

    def since(self, from_ms: int) -> Iterator[LogRecord]:
        """Yield records written at or after a time, up to where the topic ended when this began.

        No more than one answer of the broker is in memory. A topic that is missing has none.
        """
        with self._alone():
            log = self._reader()
            if log is None:
                return
            end = log.bounds()[1]
            log.position = log.first_since(from_ms)
        deadline_s = monotonic() + ANSWER_TIMEOUT_S
        while log.position < end:
            if monotonic() > deadline_s:
                raise ConnectionLost(f"topic {self.topic} was not read in time", end=end)
            with self._alone():
                rows = log.poll(POLL_S)
            yield from rows

    def after(self, wait_s: float) -> list[LogRecord]:
        """Return records written after those that were read; none if none came within `wait_s`."""
        with self._alone():
            log = self._reader()
            if log is not None:
                return log.poll(wait_s)
        sleep(wait_s)
        return []
