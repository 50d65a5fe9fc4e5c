"""Room for the answers to a lane's fetches: one that finds none is left with its broker.

How much a fetch brings is known only when its answer begins. What all fetches under way may bring
together is a multiple of what a lane may keep: a hundred groups are watched at a time, and each
answer may have 32 MiB.
"""

from __future__ import annotations

from heliostat.clusters.wire.buffers import BUFFERS, HeldBytes

SMALL_BYTES = 16 * 1024
"""Such an answer is always taken: one without news has less, as what is said of SASL."""


class AnswerRoom:
    """Gives buffers to a lane's fetch connections, and counts them (`Connection.buffer_for`)."""

    def __init__(self) -> None:
        self._held = HeldBytes()
        self._left_bytes = 0

    @property
    def held_bytes(self) -> int:
        """Of those that anybody refers to."""
        return self._held.bytes

    def hold(self, buffer: bytearray) -> memoryview:
        """View of a buffer that counts, too, as long as it is referred to."""
        return self._held.view(buffer)

    def give(self, room_bytes: int) -> bool:
        """So much may be taken in from now on; whether that is anything."""
        self._left_bytes = room_bytes
        return room_bytes > 0

    def buffer_for(self, size_bytes: int) -> memoryview | None:
        """For an answer; the last one may be larger than what is left, or it might never come."""
        if self._left_bytes <= 0 and size_bytes > SMALL_BYTES:
            return None
        view = self.hold(BUFFERS.take(size_bytes))
        self._left_bytes -= view.nbytes
        return view[:size_bytes]
