"""Reads frames from one socket, each into a buffer of its own, as they arrive.

`recv_into` a frame's buffer moves 2.9 GB a second and core, kafka-python's transport 0.26 GB.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import dataclass

from heliostat.clusters.wire.primitives import INT32
from heliostat.clusters.wire.tls import TlsStream, is_alert
from heliostat.errors import ProtocolError, TlsFailed
from heliostat.names import Endpoint

AHEAD_BYTES = 16 * 1024
"""Read at once where a frame begins, so that a small answer takes one call of the kernel."""
FRAME_BYTES_MAX = 256 * 1024 * 1024
"""A larger frame is no answer to a request of ours: the largest fetch is far below it."""


@dataclass(slots=True)
class Frame:
    """One answer: `buffer` holds all after the size field, the correlation id first."""

    correlation_id: int
    buffer: memoryview


class FrameReader:
    """Reads what has arrived, and keeps a part of a frame until the rest arrives.

    Parameters
    ----------
    stream
        The socket.
    endpoint
        The broker's listener, for messages.
    """

    def __init__(
        self,
        stream: socket.socket | TlsStream,
        endpoint: Endpoint,
    ) -> None:
        self._socket = stream
        self._endpoint = endpoint
        self._ahead = memoryview(bytearray(AHEAD_BYTES))
        """What was read and belongs to no frame yet: the next one's size, and what follows it."""
        self._ahead_filled = 0
        self._frame: memoryview | None = None
        self._view = memoryview(b"")
        self._filled = 0
        self.waits_for_room = False
        """Whether an answer waits that `buffer_for` had no room for."""

    @property
    def has_ahead(self) -> bool:
        """Whether another frame was read with the last one, at least its size."""
        is_there = self._ahead_filled >= INT32.size
        return is_there and self._frame is None and not self.waits_for_room

    @property
    def is_receiving(self) -> bool:
        """Whether a part of an answer has been received."""
        return self._ahead_filled > 0 or self._frame is not None

    def pump(self, buffer_for: Callable[[int], memoryview | None]) -> Frame | None:
        """Read what a readable socket has; return the frame once it is complete.

        `buffer_for` returns a buffer for an answer of that size; None: no room now, the answer
        stays in the socket.

        Raises
        ------
        EOFError, OSError
            The broker closed the connection, or receiving failed.
        ProtocolError
            The size field is impossible.
        TlsFailed
            The broker speaks TLS, and we don't.
        """
        if self._frame is None:
            self._frame = self._begin(buffer_for)
            if self._frame is None or self._filled < min(len(self._frame), AHEAD_BYTES // 2):
                return None  # that was all that is there
        # A socket's buffer holds a fraction of a large answer: read on while more is there, since
        # a pass of the copier between two reads costs as much as the read.
        while self._filled < len(self._frame):
            got = self._receive_now(self._view[self._filled :])
            if got == 0:
                return None
            self._filled += got
        frame, self._frame, self._view = self._frame, None, memoryview(b"")
        return Frame(INT32.unpack_from(frame, 0)[0], frame)

    def _begin(self, buffer_for: Callable[[int], memoryview | None]) -> memoryview | None:
        """Return the next frame's buffer with what is there of it; None: no size, or no room."""
        ahead = self._ahead
        if self._ahead_filled < INT32.size:
            self._ahead_filled += self._receive_now(ahead[self._ahead_filled :])
            if self._ahead_filled < INT32.size:
                return None
        size = INT32.unpack_from(ahead, 0)[0]
        if not INT32.size <= size <= FRAME_BYTES_MAX:
            self._refuse(size)
        frame = buffer_for(size)
        self.waits_for_room = frame is None
        if frame is None:
            return None
        end = min(INT32.size + size, self._ahead_filled)
        self._view, self._filled = frame, end - INT32.size
        frame[: self._filled] = ahead[INT32.size : end]
        left = self._ahead_filled - end
        if left:
            ahead[:left] = bytes(ahead[end : self._ahead_filled])
        self._ahead_filled = left
        return frame

    def _refuse(self, size_bytes: int) -> None:
        if is_alert(bytes(self._ahead[: INT32.size])):
            raise TlsFailed(
                "the listener speaks TLS, and our request was plaintext",
                hint="set security.protocol to SSL or SASL_SSL, or use another port",
                broker=str(self._endpoint),
            )
        raise ProtocolError(
            "a frame has an impossible size", broker=str(self._endpoint), size_bytes=size_bytes
        )

    def _receive_now(self, view: memoryview) -> int:
        """Receive bytes that are there already; return 0 if there are none."""
        try:
            got = self._socket.recv_into(view, 0, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return 0
        if got == 0:
            raise EOFError
        return got
