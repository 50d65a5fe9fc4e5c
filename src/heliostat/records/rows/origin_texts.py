"""Where a record comes from, as contents of headers: for `header_changes`.

What is the same for all records of a chunk is written once, by Python; offset and timestamp by the
compiled loop, record by record. Each lies with its size before it, as a header's content does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import types

from heliostat.names import TopicPartition
from heliostat.ops.compiled import inlined
from heliostat.records.batches.reencode import VARINT_BYTES_MAX, write_varint
from heliostat.records.rows.header_steps import InsertOrigin, Origin

NUMBER_BYTES = 1 + 20
"""Most that a number takes, and its size before it."""
_ZERO, _MINUS = ord("0"), ord("-")
_OFFSET, _TIMESTAMP = int(Origin.OFFSET), int(Origin.TIMESTAMP)
_INT = types.int64
_ROWS = types.int64[:, ::1]
_OUT = types.uint8[::1]


@inlined(_INT(_OUT, _INT, _INT))
def _write_number(out: Any, begin: int, number: int) -> Any:
    """Write a number as text with its size before it; return how many bytes that takes."""
    ten = np.uint64(10)
    # Also of the least number, whose opposite is no int64.
    left: Any = np.uint64(number) if number >= 0 else np.uint64(-number)
    rest, size = left // ten, np.int64(1 if number >= 0 else 2)
    while rest > np.uint64(0):
        rest, size = rest // ten, size + 1
    out[begin] = 2 * size
    for place in range(begin + size, begin, -1):
        out[place] = np.uint64(_ZERO) + left % ten
        left //= ten
    if number < 0:
        out[begin + 1] = _MINUS
    return 1 + size


@inlined(types.void(_OUT, _ROWS, _INT, _INT))
def write_place(origin: Any, places: Any, offset: int, time_ms: int) -> None:
    """Write a record's offset and timestamp; nothing if there is no room, as no step asks."""
    if len(origin):
        places[_OFFSET, 1] = _write_number(origin, places[_OFFSET, 0], offset)
        places[_TIMESTAMP, 1] = _write_number(origin, places[_TIMESTAMP, 0], time_ms)


class OriginTexts:
    """The texts of the record that is being changed.

    Parameters
    ----------
    steps
        Those that insert them.
    """

    def __init__(self, steps: Sequence[InsertOrigin]) -> None:
        self._wanted = [what for step in steps for _, what in step.headers]
        self._cluster = with_size(steps[0].cluster.encode()) if steps else b""
        self.places: Any = np.zeros((len(Origin), 2), np.int64)
        """Where each `Origin` lies in `bytes`, and its size."""
        self.bytes: Any = np.empty(0, np.uint8)
        """Empty: none are wanted."""
        self.bytes_max = 0
        """Most that a record's contents take together."""
        self._source: TopicPartition | None = None

    def begin(self, source: TopicPartition) -> None:
        """Take records of this partition from now on."""
        if source == self._source or not self._wanted:
            return
        self._source = source
        texts = (
            self._cluster,
            with_size(source.topic.encode()),
            with_size(b"%d" % source.partition),
            bytes(NUMBER_BYTES),
            bytes(NUMBER_BYTES),
        )
        sizes = [len(text) for text in texts]
        self.places[:, 0] = np.cumsum([0, *sizes[:-1]])
        self.places[:, 1] = sizes
        self.bytes = np.frombuffer(bytearray(b"".join(texts)), np.uint8)
        self.bytes_max = sum(sizes[origin] for origin in self._wanted)


def with_size(content: bytes) -> bytes:
    """Return a header's content as a record holds it."""
    out = np.empty(VARINT_BYTES_MAX, np.uint8)
    return out[: write_varint(out, 0, len(content))].tobytes() + content
