"""A reproducible load on real topics: at a steady rate in the background, or at full speed."""

from __future__ import annotations

import heapq
import random
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from types import TracebackType
from typing import Self

from heliostat.clusters.admin import LATEST, ClusterAdmin, NewTopic, TopicInfo
from heliostat.errors import BrokerError, ConnectionLost, HeliostatError, SandboxError, Verdict
from heliostat.names import PartitionId, TopicName, TopicPartition
from heliostat_sandbox.appender import ACKS_LEADER, Appender
from heliostat_sandbox.shapes import TopicLoad, encode_batch, with_producer

CREATE_CHUNK = 400
"""Topics per request; a controller accepts 10,000 records at once (topics plus partitions)."""
CREATE_TIMEOUT_S = 120.0
"""Creating thousands of topics takes a broker tens of seconds."""
RECOVER_TIMEOUT_S = 120.0
"""How long a cluster may be unreachable before the load gives up."""
LOOK_S = 0.1
TICK_S = 0.005
"""Records due within this time are sent together: larger requests cost the broker less."""
LATE_S = 5.0
"""A load that lags by more leaves out the records it missed, instead of sending a burst."""
TOPIC_ALREADY_EXISTS = 36


@dataclass(frozen=True, slots=True)
class LoadCounts:
    """Numbers of records so far, over all partitions.

    `unknown` were in flight when a connection was lost, `refused` were answered with an error,
    `left_out` were never sent because the load was late.
    """

    sent: int
    acknowledged: int
    refused: int
    unknown: int
    left_out: int
    sent_bytes: int


def prepare_topics(bootstrap: str, loads: Sequence[TopicLoad], *, replicas: int = 1) -> None:
    """Create missing topics, add partitions to those with fewer, and wait for leaders.

    Raises
    ------
    BrokerError
        The cluster refused a topic.
    SandboxError
        They have no leaders in time.
    """
    with ClusterAdmin(bootstrap.split(",")) as admin:
        known = admin.describe_topics()
        missing = [load for load in loads if load.topic not in known]
        for at in range(0, len(missing), CREATE_CHUNK):
            made = admin.create_topics(
                [
                    NewTopic(load.topic, load.partitions, replicas, dict(load.configs))
                    for load in missing[at : at + CREATE_CHUNK]
                ]
            )
            for error in made.values():
                if isinstance(error, BrokerError) and error.kafka_code != TOPIC_ALREADY_EXISTS:
                    raise error
        growing = {
            load.topic: load.partitions
            for load in loads
            if isinstance(info := known.get(load.topic), TopicInfo)
            and len(info.partitions) < load.partitions
        }
        for failure in admin.grow_partitions(growing).values() if growing else ():
            if failure is not None:
                raise failure
    wait_until_led(bootstrap, {item for load in loads for item in _partitions(load)})


def wait_until_led(bootstrap: str, partitions: Collection[TopicPartition]) -> None:
    """Wait until ListOffsets succeeds for every partition.

    A broker shows a new leader in its metadata before it accepts records for it, so metadata alone
    is too early.

    Raises
    ------
    SandboxError
        A partition was not ready in time.
    """
    deadline_s = time.monotonic() + CREATE_TIMEOUT_S
    missing: list[str] = []
    with ClusterAdmin(bootstrap.split(",")) as admin:
        while time.monotonic() < deadline_s:
            ends = admin.list_offsets(dict.fromkeys(partitions, LATEST))
            missing = [str(each) for each, end in ends.items() if isinstance(end, BrokerError)]
            if not missing:
                return
            time.sleep(LOOK_S)
    raise SandboxError(
        "partitions were not ready in time",
        count=len(missing),
        some=missing[:3],
        timeout_s=CREATE_TIMEOUT_S,
    )


def _partitions(load: TopicLoad) -> list[TopicPartition]:
    return [TopicPartition(load.topic, PartitionId(n)) for n in range(load.partitions)]


class _Stream:
    """Batches of one topic in order; the same for the same seed."""

    def __init__(self, load: TopicLoad, seed: int, number: int = 0) -> None:
        self.load = load
        self.number = number
        self.chance = random.Random(f"{seed}:{load.topic}")
        self.partitions = _partitions(load)

    def next_batch(self, now_ms: int) -> tuple[TopicPartition, bytes]:
        """Return the next batch, and a random partition, as producers with empty keys choose it."""
        partition = self.partitions[0]
        if len(self.partitions) > 1:
            partition = self.chance.choice(self.partitions)
        return partition, self.batch(self.load.batch_records, now_ms)

    def batch(self, records: int, now_ms: int) -> bytes:
        """Return one batch of the next `records` records."""
        load, first = self.load, self.number
        self.number += records
        made = [load.shape.record(self.chance, first + index, now_ms) for index in range(records)]
        return encode_batch(made, load.codec)


class _Numbering:
    """A producer id from the cluster, and the next sequence of each partition."""

    def __init__(self, bootstrap: str) -> None:
        with ClusterAdmin(bootstrap.split(",")) as admin:
            self._producer_id = admin.init_producer_id()
        self._next: dict[TopicPartition, int] = {}

    def number(self, batch: bytes, partition: TopicPartition, records: int) -> bytearray:
        sequence = self._next.get(partition, 0)
        self._next[partition] = sequence + records
        return with_producer(batch, self._producer_id, sequence)


class LoadGenerator:
    """Sends records to topics at their rates, on a thread of its own, until it is stopped.

    If the cluster becomes unreachable, it waits. As a context manager it runs during the block.

    Parameters
    ----------
    bootstrap
        Addresses of the cluster.
    topics
        The load on each topic.
    seed
        The same seed gives the same records (except times) in the same order for each topic.
    acks
        1 (leader) or -1 (all in-sync replicas).
    idempotent
        Whether batches have producer id and sequence, as Java producers send them by default.
    """

    def __init__(
        self,
        bootstrap: str,
        topics: Iterable[TopicLoad],
        *,
        seed: int = 1,
        acks: int = ACKS_LEADER,
        idempotent: bool = False,
    ) -> None:
        self._bootstrap = bootstrap
        self._seed = seed
        self._idempotent = idempotent
        self._streams: dict[TopicName, _Stream] = {}
        self._added: list[TopicLoad] = list(topics)
        self._added_lock = threading.Lock()
        self._appender = Appender(bootstrap, acks=acks)
        self._numbering: _Numbering | None = None
        self._due: list[tuple[float, TopicName, _Stream]] = []
        self._left_out = 0
        self._troubles = 0
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None

    def start(self) -> Self:
        """Create missing topics and begin to send.

        Raises
        ------
        HeliostatError
            The topics can't be created.
        """
        prepare_topics(self._bootstrap, self._added)
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)
        self._thread.start()
        return self

    def stop(self) -> LoadCounts:
        """Stop sending, wait for all answers, and return what was sent.

        Raises
        ------
        HeliostatError
            The load had ended before: the cluster was unreachable for too long.
        """
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
        self._appender.close()
        if self._failure is not None:
            raise self._failure
        return self.counts

    def add(self, topics: Sequence[TopicLoad]) -> None:
        """Add load on more topics, or replace that of a topic (with more partitions, say)."""
        prepare_topics(self._bootstrap, topics)
        with self._added_lock:
            self._added.extend(topics)

    @property
    def sent(self) -> Mapping[TopicPartition, int]:
        """Number of records sent so far, by partition."""
        return dict(self._appender.sent)

    @property
    def acknowledged(self) -> Mapping[TopicPartition, int]:
        """Number of records acknowledged so far, by partition."""
        return dict(self._appender.acknowledged)

    @property
    def counts(self) -> LoadCounts:
        """Totals so far."""
        own = self._appender
        return LoadCounts(
            own.sent.total(),
            own.acknowledged.total(),
            own.refused.total(),
            own.unknown.total(),
            self._left_out,
            own.sent_bytes,
        )

    def fill(
        self, load: TopicLoad, records: int, *, distinct_batches: int | None = None
    ) -> Counter[TopicPartition]:
        """Append `records` records to a topic, evenly over its partitions, as fast as possible.

        Parameters
        ----------
        load
            The topic; its rate is ignored.
        records
            Number of records over all partitions.
        distinct_batches
            Encode only this many batches and send them repeatedly; all differ by default.

        Returns
        -------
        Counter[TopicPartition]
            Number of records appended, by partition; all are acknowledged.

        Raises
        ------
        BrokerError, ConnectionLost
            A batch was refused, or the connection was lost: it is not known how much was appended.
        """
        prepare_topics(self._bootstrap, [load])
        stream = _Stream(load, self._seed)
        now_ms = time.time_ns() // 1_000_000
        size = load.batch_records
        prebuilt = [stream.batch(size, now_ms) for _ in range(distinct_batches or 0)]
        again = cycle(prebuilt)
        numbering = _Numbering(self._bootstrap) if self._idempotent else None
        with Appender(self._bootstrap, acks=self._appender.acks) as appender:
            appender.learn([load.topic])
            left = records
            for partition in cycle(stream.partitions):
                count = min(size, left)
                if count <= 0:
                    break
                left -= count
                if prebuilt and count == size:
                    batch = next(again)
                else:
                    batch = stream.batch(count, time.time_ns() // 1_000_000)
                _append(appender, numbering, partition, batch, count)
            appender.drain()
            appender.check()
            return appender.acknowledged

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                try:
                    self._turn()
                except HeliostatError as error:
                    if error.verdict is not Verdict.RETRY:
                        raise
                    self._appender.reset()
                    self._recover()
            self._finish()
        except BaseException as error:  # noqa: BLE001 - raised again by `stop`
            self._failure = error

    def _finish(self) -> None:
        try:
            self._appender.drain()
        except ConnectionLost:
            self._appender.reset()  # counts what was in flight as unknown

    def _turn(self) -> None:
        """Send all that is due, then sleep until the next tick."""
        self._take_added()
        now_s, now_ms = time.monotonic(), time.time_ns() // 1_000_000
        while self._due and self._due[0][0] <= now_s:
            due_s, name, stream = heapq.heappop(self._due)
            if self._streams.get(name) is not stream:
                continue  # replaced by `add`
            period_s = stream.load.batch_records / stream.load.rate_hz
            if now_s - due_s > LATE_S + period_s:
                missed = int((now_s - due_s) / period_s)
                self._left_out += missed * stream.load.batch_records
                due_s += missed * period_s
            heapq.heappush(self._due, (due_s + period_s, name, stream))
            partition, batch = stream.next_batch(now_ms)
            _append(self._appender, self._numbering, partition, batch, stream.load.batch_records)
        self._appender.flush()
        self._appender.poll()
        self._watch_refusals()
        self._stopping.wait(TICK_S)

    def _take_added(self) -> None:
        with self._added_lock:
            added, self._added = self._added, []
        if not added:
            return
        now_s = time.monotonic()
        for load in added:
            before = self._streams.get(load.topic)
            stream = _Stream(load, self._seed, before.number if before else 0)
            self._streams[load.topic] = stream
            if load.rate_hz > 0:
                # Not all at once: each begins at a random time in its first period.
                first_s = now_s + random.Random(f"{self._seed}:{load.topic}:first").random() * (
                    load.batch_records / load.rate_hz
                )
                heapq.heappush(self._due, (first_s, load.topic, stream))
        if self._idempotent and self._numbering is None:
            self._numbering = _Numbering(self._bootstrap)
        self._appender.learn([load.topic for load in added])

    def _watch_refusals(self) -> None:
        refused = self._appender.refused.total()
        if refused > self._troubles:  # the leader changed, or the topic was recreated
            self._troubles = refused
            self._recover()

    def _recover(self) -> None:
        """Read the cluster's metadata again, until it answers."""
        deadline_s = time.monotonic() + RECOVER_TIMEOUT_S
        while not self._stopping.is_set():
            try:
                self._appender.learn(list(self._streams))
                if self._idempotent:  # the sequence has a gap: begin with a new producer id
                    self._numbering = _Numbering(self._bootstrap)
            except HeliostatError:
                if time.monotonic() > deadline_s:
                    raise
                self._appender.reset()
                self._stopping.wait(LOOK_S)
            else:
                return


def _append(
    appender: Appender,
    numbering: _Numbering | None,
    partition: TopicPartition,
    batch: bytes,
    records: int,
) -> None:
    if numbering is None:
        appender.append(partition, batch, records)
    else:
        appender.append(partition, numbering.number(batch, partition, records), records)
