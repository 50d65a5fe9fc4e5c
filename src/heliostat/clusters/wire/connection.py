"""One connection to one broker: frames out, frames in, over a blocking socket.

It moves ten times as much as kafka-python's transport, see `frames`. All connections, with their
TLS and SASL, are opened here: by `dial` and the constructor of `Connection`.
"""

from __future__ import annotations

import contextlib
import math
import select
import socket
import ssl
import struct
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from heliostat.access import PLAINTEXT, Security
from heliostat.clusters.wire.buffers import BUFFERS
from heliostat.clusters.wire.frame_writer import FrameWriter, Parts, framed
from heliostat.clusters.wire.frames import Frame, FrameReader
from heliostat.clusters.wire.primitives import request_header
from heliostat.clusters.wire.sasl import authenticate
from heliostat.clusters.wire.tls import TlsStream, explained, wrap
from heliostat.errors import ConnectionLost
from heliostat.names import Endpoint

CONNECT_TIMEOUT_S = 5.0
"""A broker that accepts no connection for this long is treated as gone; retries come later."""
BUFFER_BYTES_MAX = 16 * 1024 * 1024
"""Size set for a socket's buffers, if any: carries 1 Gbit/s over a round trip of 130 ms."""

SESSION_USED_PART = 0.85
"""A SASL session is renewed after this part of its lifetime (KIP-368), as by Java's clients."""
SESSION_S_MIN = 1.0
"""Brokers accept no second authentication within a second (`KafkaChannel`)."""

FIRST_REQUESTS = 2
"""A SASL listener answers ApiVersions without authentication, and closes at the next request."""


class SignsOfLife:
    """When brokers have answered last, also in the middle of a handshake.

    A handshake with TLS and SASL takes six round trips: over a long line that is longer than a
    broker nearby may be silent. Whoever waits looks at the last sign, not at the beginning.
    """

    def __init__(self, of_all: SignsOfLife | None = None) -> None:
        self._of_all = of_all
        self.last_s = -math.inf
        """Monotonic seconds."""

    def note(self) -> None:
        """Note that bytes have come just now."""
        self.last_s = time.monotonic()
        if self._of_all is not None:
            self._of_all.note()


@dataclass(frozen=True, slots=True)
class DialSettings:
    """How connections to one cluster are opened.

    It names secrets, and never contains them.
    """

    client_id: str = "heliostat"
    connect_timeout_s: float = CONNECT_TIMEOUT_S
    request_timeout_s: float = 30.0
    security: Security = PLAINTEXT
    signs: SignsOfLife = field(default_factory=SignsOfLife, compare=False, repr=False)


LINGER = struct.Struct("ii")  # struct linger: whether, and for how many seconds


def dial(endpoint: Endpoint, settings: DialSettings) -> socket.socket | TlsStream:
    """Open a socket to `endpoint`, encrypted if its listener is, ready for Kafka frames.

    Raises
    ------
    ConnectionLost
        The broker can't be reached within `settings.connect_timeout_s`.
    TlsFailed, CredentialsUnreadable
        TLS can't be set up.
    """
    try:
        sock = socket.create_connection(
            (endpoint.host, endpoint.port), timeout=settings.connect_timeout_s
        )
    except OSError as error:
        raise ConnectionLost(
            "broker can't be reached", broker=str(endpoint), why=str(error)
        ) from error
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    _enlarge_buffers(sock)
    # Kernel time-outs keep the socket blocking (MSG_WAITALL works) and bound every call.
    limit = struct.pack("ll", int(settings.request_timeout_s), 0)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
    if settings.security.is_encrypted:
        return wrap(
            sock,
            endpoint,
            settings.security,
            connect_timeout_s=settings.connect_timeout_s,
            request_timeout_s=settings.request_timeout_s,
        )
    sock.settimeout(None)
    return sock


def _enlarge_buffers(sock: socket.socket) -> None:
    """Set the size of buffers that the kernel's own tuning would keep smaller (Linux only)."""
    for option, name in ((socket.SO_RCVBUF, "rmem"), (socket.SO_SNDBUF, "wmem")):
        try:
            settable = int(Path("/proc/sys/net/core", f"{name}_max").read_text())
            tuned_max = int(Path("/proc/sys/net/ipv4", f"tcp_{name}").read_text().split()[-1])
        except (OSError, ValueError, IndexError):
            continue  # the system's own tuning stays
        if size := buffer_size(settable, tuned_max):
            sock.setsockopt(socket.SOL_SOCKET, option, size)


def buffer_size(settable: int, tuned_max: int) -> int | None:
    """Return the size to set for a socket's buffer; None: the kernel's own tuning reaches more.

    To set a size ends that tuning: a buffer below bandwidth times round trip keeps a line idle.

    Parameters
    ----------
    settable
        The largest size that may be set; the kernel doubles what is set (socket(7)).
    tuned_max
        The largest size of its own tuning (tcp(7): tcp_rmem, tcp_wmem).
    """
    size = min(settable, BUFFER_BYTES_MAX)
    return size if 2 * size > tuned_max else None


class Connection:
    """Frames over one socket. Not thread-safe: one task owns it.

    Parameters
    ----------
    endpoint
        The broker's listener.
    settings
        How to open it.

    Raises
    ------
    ConnectionLost
        The broker can't be reached.
    TlsFailed, AuthenticationRefused, CredentialsUnreadable, TokenRefused
        It can be reached, but TLS or SASL fails.
    """

    def __init__(self, endpoint: Endpoint, settings: DialSettings) -> None:
        self.endpoint = endpoint
        self.settings = settings
        self._socket = dial(endpoint, settings)
        if settings.security.is_encrypted:
            settings.signs.note()
        self._frames = FrameReader(self._socket, endpoint)
        self.buffer_for: Callable[[int], memoryview | None] = _any_buffer
        """Returns a buffer for an answer of that size; None: no room now, it stays unread."""
        self._writer = FrameWriter(self._socket)
        self._correlation_id = 0
        self._held: deque[Frame] = deque()
        self._renew_at_s = 0.0
        if settings.security.sasl is not None:
            try:
                self._authenticate()
            except BaseException:
                self.close()
                raise

    def has_held(self) -> bool:
        """Whether there is something to read that a selector does not see."""
        stream = self._socket
        is_there = bool(self._held) or self._frames.has_ahead
        return is_there or (isinstance(stream, TlsStream) and stream.pending() > 0)

    def has_ended(self) -> bool:
        """Whether the broker has closed it, or sent what nobody asked for.

        For a connection without requests in flight: then nothing can be there to read.
        """
        return self.has_held() or self._wait_readable(0.0)

    @property
    def has_ahead(self) -> bool:
        """Whether another answer, or its beginning, was read with the last one."""
        return self._frames.has_ahead

    def fileno(self) -> int:
        """File descriptor, for a selector."""
        return self._socket.fileno()

    def next_correlation_id(self) -> int:
        """Number for the next request; wraps within 31 bits."""
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        return self._correlation_id

    def send(self, parts: Parts) -> None:
        """Send one frame made of `parts`, after its size field.

        Raises
        ------
        ConnectionLost
            The broker closed the connection or accepts nothing for `request_timeout_s`.
        AuthenticationRefused, CredentialsUnreadable, TokenRefused
            The session had to be renewed, and could not be.
        """
        self._renew_if_due()
        try:
            self._writer.send(parts)
        except OSError as error:
            raise self._lost("sending failed", error) from error

    def begin_send(self, *frames: Parts) -> None:
        """Send as much of these frames as the broker accepts now; `send_on` sends the rest.

        Nothing else may be sent before all of it is sent.

        Raises
        ------
        As `send`.
        """
        self._begin([part for parts in frames for part in framed(parts)])

    def begin_whole(self, frame: memoryview) -> None:
        """Do as `begin_send` with one frame that begins with its size field.

        Raises
        ------
        As `send`.
        """
        self._begin([frame])

    @property
    def has_unsent(self) -> bool:
        """Whether a part of what `begin_send` got is still unsent."""
        return self._writer.has_unsent

    def send_on(self) -> None:
        """Send what the broker accepts now; a selector reports when it accepts more.

        Raises
        ------
        ConnectionLost
            The broker closed the connection.
        """
        try:
            self._writer.send_on()
        except OSError as error:
            raise self._lost("sending failed", error) from error

    def copy_unsent(self, hold: Callable[[bytearray], memoryview]) -> None:
        """Copy the unsent bytes, so that their buffers are released; at most once a request.

        `hold` returns the view of the copy that is sent.
        """
        self._writer.copy_unsent(hold)

    @property
    def waits_for_room(self) -> bool:
        """Whether an answer waits that `buffer_for` had no room for."""
        return self._frames.waits_for_room

    @property
    def is_receiving(self) -> bool:
        """Whether a part of an answer has been received."""
        return self._frames.is_receiving

    def pump(self) -> Frame | None:
        """Read what a readable socket has; return the frame once it is complete.

        Raises
        ------
        ConnectionLost
            The broker closed the connection.
        ProtocolError
            The size field is impossible.
        """
        if self._held:
            return self._held.popleft()
        try:
            return self._frames.pump(self.buffer_for)
        except EOFError:
            raise self._lost("the broker closed the connection", None) from None
        except OSError as error:
            raise self._lost("receiving failed", error) from error

    def receive(self, timeout_s: float, silent_s: float = math.inf) -> Frame:
        """Wait for one complete frame.

        Raises
        ------
        ConnectionLost
            It did not come within `timeout_s`, no byte of it came for `silent_s`, or the broker
            closed the connection.
        """
        deadline_s = time.monotonic() + timeout_s
        while True:  # ends: at the deadline at the latest, with what is there then
            left_s = max(0.0, deadline_s - time.monotonic())
            if not self.has_held() and not self._wait_readable(min(left_s, silent_s)):
                raise ConnectionLost(
                    "no answer in time",
                    broker=str(self.endpoint),
                    timeout_s=min(timeout_s, silent_s),
                )
            frame = self.pump()
            if frame is not None:
                self.settings.signs.note()
                return frame

    def discard_at_close(self, *, is_wanted: bool) -> None:
        """Set whether closing the socket discards what the broker has not accepted by then.

        Also if the process's end closes it; otherwise the kernel continues to send it (socket(7),
        SO_LINGER).
        """
        with contextlib.suppress(OSError):  # the broker has closed it: nothing is sent
            self._socket.setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, LINGER.pack(int(is_wanted), 0)
            )

    def close(self) -> None:
        """Close the socket; requests in flight are ambiguous from here on."""
        with contextlib.suppress(OSError):
            self._socket.close()

    def _begin(self, parts: Parts) -> None:
        assert not self.has_unsent
        self._renew_if_due()
        self._writer.put(parts)
        self.send_on()

    def _renew_if_due(self) -> None:
        if self._renew_at_s and time.monotonic() >= self._renew_at_s:
            self._authenticate()

    def _authenticate(self) -> None:
        """Authenticate, at first and when the session is about to end.

        The broker serves requests in order, so those in flight are answered first. Their answers
        are held for `pump`.
        """
        sasl = self.settings.security.sasl
        assert sasl is not None
        self._renew_at_s = 0.0
        early, self._held = self._held, deque()
        began_s = time.monotonic()

        def exchange(api_key: int, version: int, body: bytes, *, flexible: bool) -> memoryview:
            number = self.next_correlation_id()
            client = self.settings.client_id
            self.send([request_header(api_key, version, number, client, flexible=flexible), body])
            while True:  # ends: the answer comes, or `receive` raises in time
                frame = self.receive(self.settings.request_timeout_s)
                if frame.correlation_id == number:
                    return memoryview(frame.buffer)[4:]
                early.append(frame)

        lasts_s = authenticate(exchange, self.endpoint, sasl)
        if lasts_s:
            self._renew_at_s = began_s + max(SESSION_S_MIN, lasts_s * SESSION_USED_PART)
        self._held = early

    def _wait_readable(self, timeout_s: float) -> bool:
        poller = select.poll()  # takes any descriptor, `select` none above 1023
        poller.register(self._socket, select.POLLIN)
        return bool(poller.poll(timeout_s * 1000))

    def _lost(self, text: str, error: OSError | None) -> ConnectionLost:
        if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError):
            return explained(error, self.endpoint)
        if self._correlation_id <= FIRST_REQUESTS:
            # So brokers treat clients that speak another protocol than the listener's.
            hint = "if it repeats, check security.protocol, the port and certificate_file"
            why = str(error) if error else ""
            return ConnectionLost(text, hint=hint, broker=str(self.endpoint), why=why)
        return ConnectionLost(text, broker=str(self.endpoint), why=str(error) if error else "")


def _any_buffer(size_bytes: int) -> memoryview:
    return memoryview(BUFFERS.take(size_bytes))[:size_bytes]
