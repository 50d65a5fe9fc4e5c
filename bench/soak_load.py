"""The constant load on the source, each record with a unique number."""

from __future__ import annotations

import contextlib
import itertools
import random
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from clusters import admin
from kafka import KafkaProducer

PLAIN, COMPACTED, TRANSACTIONS, FILLED = "soak.plain", "soak.compacted", "soak.tx", "soak.filled"
PARTITIONS = 3
REPLICAS = 3
KEYS = 500
"""Keys of the compacted topic: so few that its cleaner always finds some to remove."""
CLEANED_SOON = {
    "cleanup.policy": "compact",
    "segment.ms": "20000",
    "min.cleanable.dirty.ratio": "0.01",
    "max.compaction.lag.ms": "20000",
}


class Load(NamedTuple):
    """A topic, and the records written to it."""

    topic: str
    is_transactional: bool = False
    is_compacted: bool = False
    is_exact: bool = False
    """Whether its mirror has equal offsets."""
    age_ms: int = 0
    """Age of the records' timestamps, in ms."""
    site: str = ""
    """Who writes it, where others write it as well: a header of its records."""


LOADS = (
    Load(PLAIN, is_exact=True),
    Load(COMPACTED, is_compacted=True),
    Load(TRANSACTIONS, is_transactional=True),
    Load(FILLED, is_transactional=True, is_exact=True),
)
"""The loads of a soak."""
VALUE_BYTES = 200
AGAIN_S = 1.0
"""Pause between two attempts while the source accepts nothing."""
WAIT_S = 30.0
RECORDS_S = 60
"""Records a second of each writer."""
TURN_S = 0.1
"""Time between two writes of records outside transactions."""
STUCK_S = 90.0
"""Longer than any single wait of a healthy producer."""


def create(bootstrap: str, loads: Sequence[Load] = LOADS) -> None:
    """Create the topics."""
    with admin(bootstrap) as client:
        client.create_topics(
            {
                load.topic: {
                    "num_partitions": PARTITIONS,
                    "replication_factor": REPLICAS,
                    "configs": CLEANED_SOON if load.is_compacted else {},
                }
                for load in loads
            }
        )


class QuietProducer(KafkaProducer):  # type: ignore[misc]  # it has no types
    """Says nothing when it goes: kafka-python's own flushes then, which fails in a fault."""

    def __del__(self) -> None:
        """Close what is left; the audit reads the source."""
        with contextlib.suppress(Exception):
            super().__del__()


class Writers:
    """One thread per topic; a fault of the source makes them wait, and continue.

    kafka-python's transactional producer was seen to wait for ever after an outage: a thread that
    does nothing for `STUCK_S` is left, and another one takes its transactional id: it is fenced.

    Parameters
    ----------
    bootstrap
        Bootstrap address of the source.
    seed
        Seed of keys, sizes and of which transactions are aborted.
    loads
        Topics and records to write.
    records_s
        Records a second of each of them.
    turn_s
        Time between two writes of records outside transactions, and least time between two
        transactions: each costs a cluster of three brokers some ten requests.
    """

    def __init__(
        self,
        bootstrap: str,
        seed: int | str,
        loads: Sequence[Load] = LOADS,
        records_s: int = RECORDS_S,
        turn_s: float = TURN_S,
    ) -> None:
        self._bootstrap = bootstrap
        self._stop = threading.Event()
        self._records_s = records_s
        self._turn_s = turn_s
        self._loads = {load.topic: load for load in loads}
        self.sent = dict.fromkeys(self._loads, 0)
        self.failed = dict.fromkeys(self._loads, 0)
        self._chances = {
            topic: random.Random(f"{seed} {topic}")  # noqa: S311  # no secret
            for topic in self._loads
        }
        self._numbers = {topic: itertools.count() for topic in self._loads}
        self._threads: dict[str, threading.Thread] = {}
        self._alive_s: dict[str, float] = {}
        """Time of the last activity of each."""
        self._watch = threading.Thread()

    def start(self) -> None:
        """Start the threads; after `stop` they go on."""
        self._stop.clear()
        for topic in self._loads:
            self._begin(topic)
        self._watch = threading.Thread(target=self._look_after, name="watch", daemon=True)
        self._watch.start()

    def stop(self) -> None:
        """Stop all; a stuck one's open transaction is aborted by its successor, or by timeout.

        Harmless when called twice, or before `start`.
        """
        self._stop.set()
        if self._watch.is_alive():
            self._watch.join()
        for thread in self._threads.values():
            thread.join(STUCK_S)

    def _begin(self, topic: str) -> None:
        self._alive_s[topic] = time.monotonic()
        self._threads[topic] = threading.Thread(
            target=self._run, args=(topic,), name=f"writer of {topic}", daemon=True
        )
        self._threads[topic].start()

    def _look_after(self) -> None:
        while not self._stop.wait(AGAIN_S):
            for topic, at_s in list(self._alive_s.items()):
                if time.monotonic() > at_s + STUCK_S:
                    self.failed[topic] += 1
                    self._begin(topic)

    def _goes_on(self, topic: str) -> bool:
        """Return whether the calling thread is still the topic's."""
        is_its = self._threads[topic] is threading.current_thread()
        if is_its:
            self._alive_s[topic] = time.monotonic()
        return is_its and not self._stop.is_set()

    def _run(self, topic: str) -> None:
        load, chance, numbers = self._loads[topic], self._chances[topic], self._numbers[topic]
        job = self._transact if load.is_transactional else self._write
        while self._goes_on(topic):
            try:
                job(load, chance, numbers)
            except Exception:  # noqa: BLE001  # kafka-python's internals raise any kind in faults
                # Only the source shows whether the last records were written; the audit reads it.
                self.failed[topic] += 1
                self._stop.wait(AGAIN_S)

    def _producer(self, **settings: Any) -> KafkaProducer:
        return QuietProducer(
            bootstrap_servers=self._bootstrap.split(","),
            acks="all",
            enable_idempotence=True,
            linger_ms=5,
            **settings,
        )

    def _record(self, load: Load, chance: random.Random, number: int) -> dict[str, Any]:
        key = b"k%d" % chance.randrange(KEYS)
        value = b"%d %s" % (number, chance.randbytes(VALUE_BYTES // 2).hex().encode())
        headers = [("n", b"%d" % number), *([("fourth", b"")] if number % 4 == 1 else [])]
        headers += [("site", load.site.encode())] if load.site else []
        record: dict[str, Any] = {"key": key, "value": value, "headers": headers}
        if load.age_ms:
            record["timestamp_ms"] = time.time_ns() // 1_000_000 - load.age_ms
        return record

    def _write(self, load: Load, chance: random.Random, numbers: Iterator[int]) -> None:
        """Write records one by one; those of a turn at a time."""
        topic, producer = load.topic, self._producer()
        try:
            while self._goes_on(topic):
                began_s = time.monotonic()
                some = itertools.islice(numbers, round(self._records_s * self._turn_s))
                sent = [
                    producer.send(topic, partition=n % PARTITIONS, **self._record(load, chance, n))
                    for n in some
                ]
                for each in sent:
                    each.get(WAIT_S)
                self.sent[topic] += len(sent)
                self._stop.wait(max(0.0, self._turn_s - (time.monotonic() - began_s)))
        finally:
            producer.close(timeout=WAIT_S)

    def _transact(self, load: Load, chance: random.Random, numbers: Iterator[int]) -> None:
        """Write transactions of one to twenty records over all partitions; abort a quarter."""
        topic = load.topic
        producer = self._producer(transactional_id=f"writer of {topic}")
        try:
            producer.init_transactions()
            while self._goes_on(topic):
                began_s = time.monotonic()
                producer.begin_transaction()
                some = list(itertools.islice(numbers, chance.randint(1, 20)))
                for number in some:
                    partition = chance.randrange(PARTITIONS)
                    producer.send(topic, partition=partition, **self._record(load, chance, number))
                producer.flush(timeout=WAIT_S)
                if chance.random() < 0.25:
                    producer.abort_transaction()
                else:
                    producer.commit_transaction()
                    self.sent[topic] += len(some)
                pause_s = max(self._turn_s, len(some) / self._records_s)
                self._stop.wait(max(0.0, pause_s - (time.monotonic() - began_s)))
        finally:
            producer.close(timeout=WAIT_S)
