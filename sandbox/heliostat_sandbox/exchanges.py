"""Requests and answers that pass a long line: how many round trips stand one after another.

The line notes each exchange when its answer passes. Requests that are in flight together cost one
round trip, so the time in which any is in flight is measured, in round trips: what computes costs
nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import NamedTuple, TextIO

FETCH = 1
HEAD_BYTES = 64
"""Of a frame: enough for a request's key, its number and the client's name."""


class Exchange(NamedTuple):
    """One request and its answer."""

    api_key: int
    client: str
    asked_s: float
    """When it came to the line (monotonic)."""
    answered_s: float
    """When the broker's answer came to the line's other end."""


class FrameHeads:
    """Finds the beginnings of frames in bytes as they come."""

    def __init__(self, tell: Callable[[bytes], None]) -> None:
        self._tell = tell
        self._head = bytearray()
        self._left = 0
        """Bytes of the current frame that are still to come, and are of no interest."""

    def take(self, data: memoryview) -> None:
        """Take what follows."""
        at = 0
        while at < len(data):
            if self._left:
                passed = min(self._left, len(data) - at)
                self._left -= passed
                at += passed
                continue
            size = int.from_bytes(self._head[:4], "big") if len(self._head) >= 4 else 0
            wanted = (min(HEAD_BYTES, size) + 4 if size else 4) - len(self._head)
            self._head += data[at : at + wanted]
            at += min(wanted, len(data) - at)
            size = int.from_bytes(self._head[:4], "big") if len(self._head) >= 4 else 0
            if size and len(self._head) == min(HEAD_BYTES, size) + 4:
                self._left = size + 4 - len(self._head)
                self._tell(bytes(self._head[4:]))
                self._head.clear()


class ExchangeLog:
    """Notes the exchanges of all connections in a file."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def watch(self) -> tuple[Callable[[memoryview], None], Callable[[memoryview], None]]:
        """Return who takes the bytes of a new connection: to the broker, and back."""
        asked: dict[int, tuple[int, str, float]] = {}

        def request(head: bytes) -> None:
            key, number = int.from_bytes(head[:2], "big"), int.from_bytes(head[4:8], "big")
            size = max(0, int.from_bytes(head[8:10], "big", signed=True))
            client = head[10 : 10 + size].decode(errors="replace")
            asked[number] = (key, client, time.monotonic())

        def answer(head: bytes) -> None:
            about = asked.pop(int.from_bytes(head[:4], "big"), None)
            if about is not None:
                key, client, at_s = about
                self._file.write(f"{key} {at_s:.6f} {time.monotonic():.6f} {client}\n")
                self._file.flush()

        return FrameHeads(request).take, FrameHeads(answer).take


def read_exchanges(file: Path) -> list[Exchange]:
    """Return what a line has noted so far."""
    rows = (line.split(maxsplit=3) for line in file.read_text().splitlines())
    return [
        Exchange(int(row[0]), row[3] if len(row) > 3 else "", float(row[1]), float(row[2]))
        for row in rows
    ]


def round_trips(
    exchanges: Iterable[Exchange],
    from_s: float,
    to_s: float,
    round_trip_s: float,
    unwatched: Collection[str] = (),
) -> float:
    """Return how many round trips these cost, of those that were asked in this time.

    Parameters
    ----------
    unwatched
        Beginnings of the names of clients whose fetches don't count: they wait for records.
    """
    spans = sorted(
        (each.asked_s, each.answered_s + round_trip_s / 2)
        for each in exchanges
        if from_s <= each.asked_s <= to_s
        and not (each.api_key == FETCH and each.client.startswith(tuple(unwatched)))
    )
    busy_s, over_s = 0.0, from_s
    for begin_s, end_s in spans:
        busy_s += max(0.0, min(end_s, to_s) - max(begin_s, over_s))
        over_s = max(over_s, end_s)
    return busy_s / round_trip_s
