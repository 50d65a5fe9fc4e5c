"""Which of an answer's offsets can be believed: no checksum covers them.

I6  A base offset is outside its batch's CRC (KIP-98), as is the offset of a message of magic 0
    or 1: brokers set both. A damaged one that is too large looks like a hole that compaction left,
    and all records in it would be skipped silently.

The batch that follows in the same answer contradicts such a claim (`convert`). The last batch has
no successor: it is accepted if it continues the one before it, or if two answers claim the same
offset for it, within the log end that they report. The same holds for a first batch that claims to
begin before the requested offset. A batch that is held back begins the next answer, where more
may follow it.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

import numpy as np
from numba import types

from heliostat.ops.compiled import compiled
from heliostat.records.batches.batch import (
    HEADER_BYTES,
    LENGTH_ENDS_AT,
    MAGIC,
    MAGIC_AT,
    claimed_size,
)
from heliostat.records.batches.converted import Stop, StopReason
from heliostat.records.batches.copied_epochs import CopiedTo, last_epoch

_BYTES = types.Array(types.uint8, 1, "C", readonly=True)
_INT = types.int64
_LENGTH_AT = 8
_OFFSET = struct.Struct(">q")
_LAST_DELTA = struct.Struct(">23xi")


class Believed(NamedTuple):
    """The valid part of an answer ends at `end`; `stop` says why the batch there can't be right.

    `epoch` is the leader epoch of the last whole batch (`last_epoch`).
    """

    end: int
    epoch: CopiedTo
    stop: Stop | None = None


@compiled(types.UniTuple(_INT, 2)(_BYTES, _INT, _INT))
def _last_batches(data: Any, start: int, end: int) -> Any:
    last, before = np.int64(-1), np.int64(-1)
    position = np.int64(start)
    while position + LENGTH_ENDS_AT <= end:
        length = np.int64(0)
        for place in range(4):
            length = length << 8 | np.int64(data[position + _LENGTH_AT + place])
        size = length + LENGTH_ENDS_AT
        if length <= 0 or position + size > end:
            break
        last, before = position, last
        position += size
    return last, before


def last_batches(buffer: bytearray | memoryview, start: int, end: int) -> tuple[int, int]:
    """Return where the last whole batch or message begins, and the one before; -1 for none."""
    if claimed_size(buffer, start, end) == end - start:  # the usual case, ten times as fast
        return start, -1
    last, before = _last_batches(np.frombuffer(buffer, np.uint8), start, end)
    return int(last), int(before)


class ClaimedOffsets:
    """What one partition's answers claimed, within one round."""

    def __init__(self) -> None:
        self._seen = -1
        """The offset that the previous answer claimed for a batch that was held back."""

    @property
    def holds_back(self) -> bool:
        """Whether a batch of the last answer was held back, so that the next one confirms it."""
        return self._seen >= 0

    def confirms(self, claim: int) -> bool:
        """Whether the previous answer claimed the same offset for what follows a hole; noted."""
        is_again, self._seen = claim == self._seen, claim
        return is_again

    def continued(self) -> None:
        """Note that an answer was one whole batch at the requested offset (`plain_batch`)."""
        self._seen = -1

    def believed(self, answer: memoryview, position: int, log_end: int) -> Believed:
        """Return how much of an answer is valid; call it before `convert` patches the headers.

        Parameters
        ----------
        answer
            Batches as fetched; the last may be cut.
        position
            Source offset that was requested.
        log_end
            Source offset at which the log ends for us, as reported in the same answer. Brokers note
            it before they read, so a valid answer may reach beyond it.
        """
        previous_claim, self._seen = self._seen, -1
        last, before = last_batches(answer, 0, len(answer))
        epoch = last_epoch(answer, last, len(answer))
        if last < 0 or len(answer) - last <= MAGIC_AT:
            return Believed(len(answer), epoch)  # nothing whole
        first = _offset(answer, 0)
        if (first < position or _is_old(answer, 0)) and first != previous_claim:
            self._seen = first
            return Believed(0, epoch)
        expected = position if before < 0 else _after(answer, before)
        end, trouble = self._believed_up_to(answer, last, expected, log_end, previous_claim)
        if not trouble:
            return Believed(end, epoch)
        text = f"source offset {expected} can't be copied: its batch claims {trouble}"
        return Believed(end, epoch, Stop(StopReason.CORRUPT, expected, text))

    def _believed_up_to(
        self, answer: memoryview, last: int, expected: int, log_end: int, previous_claim: int
    ) -> tuple[int, str]:
        """Return where the valid part ends, and what the last whole batch claims wrongly."""
        end = len(answer)
        claim, after, is_old = _offset(answer, last), _after(answer, last), _is_old(answer, last)
        if claim <= expected and not is_old:
            return end, ""  # no hole before it; `convert` stops at one that goes back
        next_at = last + (claimed_size(answer, last, end) or 0)
        if end - next_at >= _OFFSET.size and not is_old:
            following = _offset(answer, next_at)
            text = f"offsets {claim} to {after - 1}, the next one {following}"
            return (end, "") if following >= after else (last, text)
        if claim == previous_claim and after <= log_end:
            return end, ""
        self._seen = claim
        is_beyond = claim == previous_claim
        text = f"offsets up to {after - 1}, where the log ends at {log_end}"
        return last, text if is_beyond else ""


def _is_old(buffer: memoryview, position: int) -> bool:
    """Return whether it is a message of a format before v2, whose offset is the last one in it."""
    return buffer[position + MAGIC_AT] < MAGIC


def _offset(buffer: memoryview, position: int) -> int:
    offset: int = _OFFSET.unpack_from(buffer, position)[0]
    return offset


def _after(buffer: memoryview, position: int) -> int:
    """Return the source offset after a whole batch or message, as it claims."""
    if _is_old(buffer, position) or len(buffer) - position < HEADER_BYTES:
        return _offset(buffer, position) + 1
    delta: int = _LAST_DELTA.unpack_from(buffer, position)[0]
    return _offset(buffer, position) + delta + 1
