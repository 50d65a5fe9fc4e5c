"""Checkpoints: where consumer groups continue at the target, for MirrorMaker 2's clients.

`<source>.checkpoints.internal` at the target, compacted, one partition. `MirrorClient` reads it
from its beginning and takes the last record of each group and partition. It fails on a record
without a value, so nothing is ever removed: a deleted group's last checkpoint stays.

I9  Rows come from the publishing of group offsets, which never go past what has been copied.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass

from heliostat.clusters.admin import ClusterAdmin
from heliostat.clusters.byte_topic import ByteRecord, ByteTopic
from heliostat.mm2.formats import Checkpoint
from heliostat.names import Offset, TopicPartition


@dataclass(frozen=True, slots=True)
class GroupRow:
    """One partition of a group: its committed offset, and where it continues at the target."""

    group: str
    source: TopicPartition
    source_offset: Offset
    target: TopicPartition
    target_offset: Offset
    metadata: str = ""

    def checkpoint(self) -> Checkpoint:
        """Return the row as MirrorMaker 2's record."""
        return Checkpoint(
            self.group, self.target, self.source_offset, self.target_offset, self.metadata
        )


class Checkpoints:
    """Writer of checkpoints: takes rows from any thread, and writes those that have changed.

    Parameters
    ----------
    topic
        `<source>.checkpoints.internal` at the target.
    admin
        Admin connection to the target.
    replication_factor
        Replication factor of the topic, if it must be created.
    """

    def __init__(
        self, topic: ByteTopic, admin: ClusterAdmin, replication_factor: int | None = None
    ) -> None:
        self._topic = topic
        self._admin = admin
        self._replicas = replication_factor
        self._lock = threading.Lock()
        self._pending: dict[bytes, bytes] = {}
        """Rows not yet written."""
        self._written: dict[bytes, bytes] | None = None
        """Value of each key in the topic; None: not known, to be read first."""

    @property
    def count(self) -> int:
        """Number of groups' partitions in the topic; 0 while it has not been read."""
        return len(self._written or ())

    def take(self, rows: Iterable[GroupRow]) -> None:
        """Note rows for the next `write`; a newer row of a group's partition replaces an older."""
        records = {record.key(): record.value() for record in (row.checkpoint() for row in rows)}
        with self._lock:
            self._pending.update(records)

    def write(self, now_ms: int) -> int:
        """Write the rows that differ from those in the topic, and return their number.

        Raises
        ------
        ConnectionLost, BrokerError
            The target does not answer or refuses; the next call reads the topic again, and writes.
        """
        if self._written is None:
            self._topic.ensure(self._admin, self._replicas)
        written = self._read() if self._written is None else self._written
        with self._lock:
            taken = dict(self._pending)
        records = {key: value for key, value in taken.items() if written.get(key) != value}
        self._written = None  # a failed write leaves unknown what the topic has
        self._topic.write(ByteRecord(key, value, now_ms) for key, value in records.items())
        written.update(records)
        self._written = written
        with self._lock:
            for key, value in taken.items():
                if self._pending.get(key) == value:
                    del self._pending[key]
        return len(records)

    def _read(self) -> dict[bytes, bytes]:
        return {
            record.key: record.value
            for record in self._topic.read_all()
            if record.key is not None and record.value is not None
        }
