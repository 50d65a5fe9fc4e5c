"""A producer that writes steadily, and a member of a group that reads: as applications do.

Each record's value begins with its number in its partition, from 0 on; so whatever reads it can
count what is missing and what came twice.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import (
    CommitFailedError,
    KafkaError,
    RebalanceInProgressError,
    TopicAuthorizationFailedError,
)

from heliostat.access import Reachable, access_of
from heliostat.clusters.credentials import client_settings
from heliostat.clusters.kafka_python import lend_codecs
from heliostat.clusters.opened import opened
from heliostat.clusters.refusals import translated
from heliostat.clusters.seeds import with_seeds_that_answer
from heliostat.errors import ConnectionLost
from heliostat.names import GroupId, PartitionId, TopicName, TopicPartition

TICK_S = 0.02
CLOSE_S = 10.0
REFUSED_AGAIN_S = 0.5
"""Pause of a producer that is kept out."""
SESSION_MS = 10_000
READS_TO_END_S = 60.0
METADATA_MS = 1_000
"""Topics are new: a group that joined before its broker knew them would read nothing for long."""
CLIENT_ID = "heliostat-drill"
FILLER = b"." * 90


def numbered(number: int) -> bytes:
    """Return the value of a record."""
    return b"%d %s" % (number, FILLER)


def number_of(value: bytes | None) -> int:
    """Return a record's number; -1: it is no such record."""
    digits = (value or b"").partition(b" ")[0]
    return int(digits) if digits.isdigit() else -1


class Written:
    """What was written, by partition; filled by producers one after the other. Thread-safe."""

    def __init__(self, partitions: Sequence[TopicPartition]) -> None:
        self._lock = threading.Lock()
        self._next = dict.fromkeys(partitions, 0)
        self.accepted: dict[TopicPartition, list[int]] = {partition: [] for partition in partitions}
        """Numbers that a broker has acknowledged."""
        self.unclear: set[tuple[TopicPartition, int]] = set()
        """Those that it may have written without saying so."""

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        """All that is written to."""
        return tuple(self._next)

    @property
    def count(self) -> int:
        """How many were acknowledged."""
        with self._lock:
            return sum(map(len, self.accepted.values()))

    def take(self, partition: TopicPartition) -> int:
        """Return the next number of a partition."""
        with self._lock:
            self._next[partition] += 1
            return self._next[partition] - 1

    def note(self, partition: TopicPartition, number: int, *, is_accepted: bool) -> None:
        """Note what became of a record."""
        with self._lock:
            if is_accepted:
                self.accepted[partition].append(number)
            else:
                self.unclear.add((partition, number))


class SteadyProducer:
    """Writes so many records a second until it is stopped; one that is kept out tries again.

    Raises
    ------
    ConnectionLost, BrokerError
        The cluster does not answer, or refuses.
    """

    def __init__(self, cluster: Reachable, written: Written, records_a_second: float) -> None:
        access = access_of(cluster)
        try:
            self._producer: Any = opened(
                KafkaProducer,
                **client_settings(with_seeds_that_answer(access)),
                client_id=CLIENT_ID,
                acks="all",
                allow_auto_create_topics=False,
                # What a broker has not acknowledged is not sent again: nothing comes twice by us.
                enable_idempotence=False,
                retries=0,
                max_in_flight_requests_per_connection=1,
                linger_ms=5,
                metadata_max_age_ms=METADATA_MS,
            )
        except (KafkaError, OSError, RuntimeError) as error:
            raise translated(error, access, "cannot open a producer") from error
        self._written = written
        self._rate = records_a_second
        self._is_over = threading.Event()
        self._pause_until_s = 0.0
        self.refused = 0
        """Records that were refused for want of a right."""
        self.first_s: float | None = None
        self.last_s: float | None = None
        """Monotonic time of the first and of the last record that was acknowledged."""
        self._thread = threading.Thread(target=self._run, name="drill's producer", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Send what is left, and close; may be called again."""
        self._is_over.set()
        self._thread.join(CLOSE_S * 2)

    def _run(self) -> None:
        began_s, sent, turn = time.monotonic(), 0, 0
        partitions = self._written.partitions
        while not self._is_over.wait(TICK_S):
            now_s = time.monotonic()
            if now_s < self._pause_until_s:
                began_s, sent = now_s, 0
                continue
            while sent < (now_s - began_s) * self._rate:
                self._send(partitions[turn % len(partitions)])
                sent, turn = sent + 1, turn + 1
        with suppress(KafkaError):
            self._producer.flush(CLOSE_S)
        self._producer.close(timeout=CLOSE_S)

    def _send(self, partition: TopicPartition) -> None:
        number = self._written.take(partition)
        try:
            future = self._producer.send(
                partition.topic, value=numbered(number), partition=partition.partition
            )
        except KafkaError as error:
            self._failed(partition, number, error)
            return
        future.add_callback(partial(self._acknowledged, partition, number))
        future.add_errback(partial(self._failed, partition, number))

    def _acknowledged(self, partition: TopicPartition, number: int, _: object) -> None:
        self._written.note(partition, number, is_accepted=True)
        self.last_s = time.monotonic()
        self.first_s = self.first_s or self.last_s

    def _failed(self, partition: TopicPartition, number: int, error: BaseException) -> None:
        if isinstance(error, TopicAuthorizationFailedError):
            self.refused += 1
            self._pause_until_s = time.monotonic() + REFUSED_AGAIN_S
        else:
            self._written.note(partition, number, is_accepted=False)


class GroupReader:
    """A member of a group that reads and commits until it is told to end.

    Raises
    ------
    ConnectionLost, BrokerError
        The cluster does not answer, or refuses.
    """

    def __init__(self, cluster: Reachable, group: GroupId, topics: Sequence[TopicName]) -> None:
        lend_codecs()
        self._access = access_of(cluster)
        self.group = group
        try:
            self._consumer: Any = opened(
                KafkaConsumer,
                **client_settings(with_seeds_that_answer(self._access)),
                client_id=CLIENT_ID,
                group_id=group,
                enable_auto_commit=False,
                allow_auto_create_topics=False,
                auto_offset_reset="earliest",
                session_timeout_ms=SESSION_MS,
                metadata_max_age_ms=METADATA_MS,
            )
            # A member that leads its group hands out only what it knows partitions of.
            for topic in topics:
                self._consumer.partitions_for_topic(topic)
            self._consumer.subscribe(list(topics))
        except (KafkaError, OSError, RuntimeError) as error:
            raise translated(error, self._access, f"cannot read as group {group}") from error
        self.read: dict[TopicPartition, list[int]] = {}
        """Numbers in the order in which they came."""
        self._error: KafkaError | OSError | RuntimeError | None = None
        self._ends: Mapping[TopicPartition, int] | None = None
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"reader {group}", daemon=True)
        self._thread.start()

    @property
    def count(self) -> int:
        """How many records it has read."""
        return sum(map(len, list(self.read.values())))

    def finish(self, ends: Mapping[TopicPartition, int]) -> None:
        """Read up to these ends, commit, and leave the group; returns at once."""
        self._ends = ends

    def wait(self) -> None:
        """Wait until it has left.

        Raises
        ------
        ConnectionLost, BrokerError
            It could not read to the end.
        """
        self._thread.join(READS_TO_END_S)
        if self._thread.is_alive():
            self.stop()
            raise ConnectionLost(f"group {self.group} did not read to the end in time")
        self.check()

    def check(self) -> None:
        """See that it has not failed.

        Raises
        ------
        ConnectionLost, BrokerError
            It has.
        """
        if self._error is not None:
            what = f"group {self.group} can't go on"
            raise translated(self._error, self._access, what) from self._error

    def stop(self) -> None:
        """Leave now, without a last commit; may be called again."""
        self._is_over.set()
        self._thread.join(CLOSE_S)

    def _run(self) -> None:
        try:
            while not self._is_over.is_set():
                polled = self._consumer.poll(timeout_ms=200)
                if polled and not self._commits():
                    continue
                self._take(polled)
                if self._is_at_end():
                    break
        except (KafkaError, OSError, RuntimeError) as error:
            self._error = error
        finally:
            with suppress(KafkaError, OSError, RuntimeError):
                self._consumer.close()

    def _commits(self) -> bool:
        """Commit; return whether it did. A group that is joined anew reads again what was not."""
        try:
            self._consumer.commit()
        except (CommitFailedError, RebalanceInProgressError):
            return False
        return True

    def _take(self, polled: Mapping[Any, Sequence[Any]]) -> None:
        for place, records in polled.items():
            partition = TopicPartition(TopicName(place.topic), PartitionId(place.partition))
            numbers = [number_of(record.value) for record in records]
            self.read.setdefault(partition, []).extend(numbers)

    def _is_at_end(self) -> bool:
        if self._ends is None:
            return False
        places = self._consumer.assignment()
        if len(places) < len(self._ends):
            return False
        for place in places:
            partition = TopicPartition(TopicName(place.topic), PartitionId(place.partition))
            reached = self._consumer.position(place, timeout_ms=500)
            if reached is None or reached < self._ends.get(partition, 0):
                return False
        return True
