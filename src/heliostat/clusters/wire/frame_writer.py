"""Writes frames to one socket, at once or as the broker accepts them; `frames` reads them."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import TypeAlias

from heliostat.clusters.wire.primitives import INT32
from heliostat.clusters.wire.tls import TlsStream

SEND_PARTS_MAX = 512
"""`sendmsg` takes at most IOV_MAX (1024 on Linux) buffers a call."""
Parts: TypeAlias = list[bytes | bytearray | memoryview]
"""Buffers that are sent one after the other."""


class FrameWriter:
    """Sends frames, and keeps what the broker does not accept yet.

    Its methods raise `OSError` if the broker closed the connection.

    Parameters
    ----------
    stream
        The socket.
    """

    def __init__(self, stream: socket.socket | TlsStream) -> None:
        self._socket = stream
        self._unsent: Parts = []
        self._is_copied = False

    @property
    def has_unsent(self) -> bool:
        """Whether a part of what `put` got is still unsent."""
        return bool(self._unsent)

    def send(self, parts: Parts) -> None:
        """Send one frame made of `parts`, after its size field; wait until all is accepted."""
        pending = framed(parts)
        while pending:  # ends: every call sends at least a byte or raises
            pending = _after(pending, self._socket.sendmsg(pending[:SEND_PARTS_MAX]))

    def put(self, parts: Parts) -> None:
        """Take whole frames for `send_on`; nothing may be unsent."""
        assert not self._unsent
        self._unsent, self._is_copied = parts, False

    def send_on(self) -> None:
        """Send what the broker accepts now."""
        try:
            while self._unsent:  # ends: every call sends at least a byte or raises
                parts = self._unsent if len(self._unsent) == 1 else self._unsent[:SEND_PARTS_MAX]
                sent = self._socket.sendmsg(parts, (), socket.MSG_DONTWAIT)
                self._unsent = _after(self._unsent, sent)
        except BlockingIOError:
            return

    def copy_unsent(self, hold: Callable[[bytearray], memoryview]) -> None:
        """Copy the unsent bytes, so that their buffers are released; at most once a request.

        `hold` returns the view of the copy that is sent.
        """
        if self._unsent and not self._is_copied:
            self._unsent = [hold(bytearray().join(self._unsent))]
            self._is_copied = True


def framed(parts: Parts) -> Parts:
    """Return a frame made of `parts`: its size field comes first."""
    return [INT32.pack(sum(len(part) for part in parts)), *parts]


def _after(parts: Parts, sent: int) -> Parts:
    """Return what is left of `parts` once `sent` bytes were sent."""
    for index, part in enumerate(parts):
        if sent < len(part):
            return [memoryview(part)[sent:], *parts[index + 1 :]]
        sent -= len(part)
    return []
