"""Memory limit for the answers to a lane's fetches: without room, an answer stays at its broker.

An answer's size is known only when it begins to arrive. All fetches in flight together may return a
multiple of what a lane may hold: a hundred groups are watched at a time, and each answer may have
32 MiB.
"""

from __future__ import annotations

from heliostat.clusters.wire.buffers import BUFFERS, HeldBytes

SMALL_BYTES = 16 * 1024
"""An answer up to this size is always accepted: those without news, or of SASL, are smaller."""


CHUNK_BYTES = 4 * SMALL_BYTES
"""Small answers share a buffer: one of their own, and counting it, takes 20 us each."""


class AnswerRoom:
    """Gives buffers to a lane's fetch connections, and counts them (`Connection.buffer_for`)."""

    def __init__(self) -> None:
        self._held = HeldBytes()
        self._left_bytes = 0
        self._chunk = memoryview(b"")
        self._chunk_used = 0

    @property
    def held_bytes(self) -> int:
        """Bytes of the buffers that are still referenced, and of the one for small answers."""
        return self._held.bytes

    def hold(self, buffer: bytearray) -> memoryview:
        """Return a view of a buffer, which counts as held while the view is referenced."""
        return self._held.view(buffer)

    def give(self, room_bytes: int) -> bool:
        """Set the bytes that may be received from now on; return whether there are any."""
        self._left_bytes = room_bytes
        return room_bytes > 0

    def buffer_for(self, size_bytes: int) -> memoryview | None:
        """Return a buffer, or None without room.

        The last buffer may exceed the room left: else a large answer might never be received.
        """
        if size_bytes <= SMALL_BYTES:
            return self._small(size_bytes)
        if self._left_bytes <= 0:
            return None
        view = self.hold(BUFFERS.take(size_bytes))
        self._left_bytes -= view.nbytes
        return view[:size_bytes]

    def _small(self, size_bytes: int) -> memoryview:
        begin, end = self._chunk_used, self._chunk_used + size_bytes
        if end > len(self._chunk):
            self._chunk = self.hold(bytearray(CHUNK_BYTES))
            self._left_bytes -= CHUNK_BYTES
            begin, end = 0, size_bytes
        self._chunk_used = end
        return self._chunk[begin:end]
