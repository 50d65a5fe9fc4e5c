"""Reads some partitions of the target and notes when each stamped record could be read.

A separate process with one connection: a fetch without a session that waits at the broker until
there are records (`min_bytes=1`), again and again. The clock is read when an answer has arrived. It
gets few partitions on purpose: a fetch that waits for thousands makes every append check all of
them, and would slow the replicator.
"""

from __future__ import annotations

import argparse
import json
import signal
import time
from array import array
from pathlib import Path

from stamped import SEED_NUMBER, found_in, whole
from wire import NO_ERROR, Connection, WireError

WAIT_MS = 500
MAX_BYTES = 1 << 20
NOT_YET = frozenset({3, 5, 6, 9})
"""Errors of a topic that is being created: unknown, no leader, not the leader, replica not
available (`Errors`)."""
LOOK_AGAIN_S = 0.1
"""Pause after a topic did not exist yet, in seconds."""


class Watcher:
    """Follows the partitions from their beginning."""

    def __init__(
        self, target: Connection, wanted: list[tuple[str, int, int]], without: bytes = b""
    ) -> None:
        self._target = target
        self._index = {(topic, partition): index for topic, partition, index in wanted}
        self._positions: dict[str, dict[int, int]] = {}
        for topic, partition, _ in wanted:
            self._positions.setdefault(topic, {})[partition] = 0
        self._without = without
        self.stopped = False

    def look(self) -> array[int]:
        """Fetch once; yield seen at, sent at, index of the partition, number of each record."""
        self._target.send_fetch(self._positions, wait_ms=WAIT_MS, min_bytes=1, max_bytes=MAX_BYTES)
        answer = list(self._target.receive_fetch())
        seen_ns = time.monotonic_ns()
        rows = array("q")
        missing = False
        for topic, partition, error, data in answer:
            if error in NOT_YET:
                missing = True
            elif error != NO_ERROR:
                raise WireError(f"fetch of {topic}-{partition}: error {error}")
            size, following = whole(data)
            if following is None:
                continue
            self._positions[topic][partition] = following
            if self._without and self._without in data[:size]:
                raise WireError(f"{topic}-{partition} has {self._without!r}, which is dropped")
            index = self._index[topic, partition]
            for stamp_ns, number in found_in(data[:size]):
                if number != SEED_NUMBER:
                    rows.extend((seen_ns, stamp_ns, index, number))
        if missing and not rows:
            time.sleep(LOOK_AGAIN_S)
        return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--wanted", type=Path, required=True, help="[[topic, partition, index]]")
    parser.add_argument("--rows", type=Path, required=True)
    parser.add_argument("--without", default="", help="what no batch may have")
    given = parser.parse_args()
    wanted = [tuple(row) for row in json.loads(given.wanted.read_text())]
    with Connection(given.bootstrap, client_id="bench-watch") as target:
        watcher = Watcher(target, wanted, given.without.encode())

        def stop(*_: object) -> None:
            watcher.stopped = True

        signal.signal(signal.SIGTERM, stop)
        with given.rows.open("wb", buffering=0) as file:
            print("watching", flush=True)
            while not watcher.stopped:
                rows = watcher.look()
                if rows:
                    file.write(rows.tobytes())


if __name__ == "__main__":
    main()
