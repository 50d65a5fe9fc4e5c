"""Sends stamped records at an even pace and notes when each was sent and acknowledged.

A separate process, so that no other work delays it. The pace is open: record n is due at
n / rate, however long answers take. What is due for a partition when a request can go makes one
batch, as a producer with `linger.ms=0` does; with `--single` a batch has one record only. Records
are stamped right before a request is sent. It starts when it reads a line from standard input.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from array import array
from collections import deque
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import piped
from fill import Headers
from stamped import SEED, SEED_NUMBER, Stream, batch, frames, places, read_streams, tails, value
from wire import Connection

IN_FLIGHT = 5
TICK_S = 0.001
"""Least time between two requests: the load must leave the processor to the replicator."""
SEEDED_AT_ONCE = 500
CHOICES = 1 << 20
"""Partitions drawn before the clock starts; they are used again after so many records."""
IDLE_S = 0.05


class Sender:
    """One connection that sends to the partitions of all streams.

    `rows` holds four numbers for each record: sent at, acknowledged at, index of the partition,
    number.
    """

    def __init__(
        self,
        source: Connection,
        streams: Sequence[Stream],
        *,
        single: bool,
        headers: Headers = (),
    ) -> None:
        self.source = source
        self.single = single
        self.headers = headers
        self.rows = array("q")
        self.waiting: deque[tuple[int, int]] = deque()  # rows from and to of requests in flight
        self.stopped = False
        self._places = places(streams)
        own = tails(streams)
        self._tails = [own[i] for i, s in enumerate(streams) for _ in range(s.partitions)]
        self._frames = frames(streams)
        weights = np.array([s.share / s.partitions for s in streams for _ in range(s.partitions)])
        chance = np.random.default_rng(SEED)
        drawn = chance.choice(len(weights), size=CHOICES, p=weights / weights.sum())
        self._choices: list[int] = drawn.tolist()

    def run(self, rate: float, seconds: float, number: int) -> None:
        """Send for `seconds`, with numbers from `number` on."""
        first, total = number, round(rate * seconds)
        started_ns = sent_ns = time.monotonic_ns()
        while not self.stopped and number - first < total:
            now_ns = time.monotonic_ns()
            due = min(total, int((now_ns - started_ns) * rate / 1e9)) + first
            while self.waiting and (len(self.waiting) >= IN_FLIGHT or self.source.readable(0)):
                self.acknowledge()
            if number < due and now_ns - sent_ns >= TICK_S * 1e9:
                number = self.send(number, due)
                sent_ns = now_ns
                continue
            next_ns = max(started_ns + (number - first + 1) / rate * 1e9, sent_ns + TICK_S * 1e9)
            self.pause((next_ns - time.monotonic_ns()) / 1e9)
        while self.waiting:
            self.acknowledge()

    def pause(self, seconds: float) -> None:
        """Wait `seconds`, or for an answer."""
        if self.waiting:
            self.source.readable(min(max(seconds, 0), IDLE_S))
        elif seconds > 0:
            time.sleep(min(seconds, IDLE_S))

    def send(self, number: int, due: int) -> int:
        """Send what is due in one request; return the first number that is left."""
        chosen: dict[int, list[int]] = {}
        while number < due:
            index = self._choices[number % CHOICES]
            if self.single and index in chosen:
                break
            chosen.setdefault(index, []).append(number)
            number += 1
        stamp_ns, now_ms = time.monotonic_ns(), time.time_ns() // 1_000_000
        requests: dict[str, list[tuple[int, bytes]]] = {}
        begin = len(self.rows)
        for index, numbers in chosen.items():
            topic, partition = self._places[index]
            head, tail = self._frames[index], self._tails[index]
            values = [head + value(stamp_ns, each, tail) for each in numbers]
            requests.setdefault(topic, []).append((partition, batch(values, now_ms, self.headers)))
            for each in numbers:
                self.rows.extend((stamp_ns, 0, index, each))
        self.source.send_produce_many(requests)
        self.waiting.append((begin, len(self.rows)))
        return number

    def acknowledge(self) -> None:
        """Wait for the oldest request's answer."""
        self.source.receive_produce()
        now_ns = time.monotonic_ns()
        begin, end = self.waiting.popleft()
        for at in range(begin + 1, end, 4):
            self.rows[at] = now_ns


def seed(bootstrap: str, streams: Sequence[Stream]) -> int:
    """Append one record to each partition; return how many there are."""
    now_ms = time.time_ns() // 1_000_000
    every = [
        (*place, head, tail)
        for place, head, tail in zip(
            places(streams),
            frames(streams),
            (t for s, t in zip(streams, tails(streams), strict=True) for _ in range(s.partitions)),
            strict=True,
        )
    ]
    with Connection(bootstrap) as source:
        for at in range(0, len(every), SEEDED_AT_ONCE):
            requests: dict[str, list[tuple[int, bytes]]] = {}
            for topic, partition, head, tail in every[at : at + SEEDED_AT_ONCE]:
                made = batch([head + value(0, SEED_NUMBER, tail)], now_ms)
                requests.setdefault(topic, []).append((partition, made))
            source.send_produce_many(requests)
            source.receive_produce()
    return len(every)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--streams", type=Path, required=True)
    parser.add_argument("--rate", type=float, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--first-number", type=int, default=0)
    parser.add_argument("--rows", type=Path, required=True)
    parser.add_argument("--single", action="store_true")
    parser.add_argument("--headers", action="store_true", help="that a pipeline drops")
    given = parser.parse_args()
    with Connection(given.bootstrap, client_id="bench-load") as source:
        headers = piped.DROPPED if given.headers else ()
        sender = Sender(source, read_streams(given.streams), single=given.single, headers=headers)

        def stop(*_: object) -> None:
            sender.stopped = True

        signal.signal(signal.SIGTERM, stop)
        print("ready", flush=True)
        if not sys.stdin.readline():  # the parent has closed the pipe: stop
            return
        sender.run(given.rate, given.seconds, given.first_number)
    with given.rows.open("wb") as file:
        sender.rows.tofile(file)


if __name__ == "__main__":
    main()
