"""TLS for a connection: the calls of `socket.socket` that the hot path makes, on an `SSLSocket`.

The socket never blocks: OpenSSL reports "want read" where the kernel would wait. Selectors don't
see bytes that OpenSSL has already decrypted (`TlsStream.pending`).
"""

from __future__ import annotations

import select
import socket
import ssl
from collections.abc import Sequence

from heliostat.access import Security
from heliostat.clusters.credentials import tls_context
from heliostat.errors import TlsFailed
from heliostat.names import Endpoint

JOINED_BYTES = 64 * 1024
"""Small parts are sent together, since each call makes at least one record of TLS (16 KiB)."""
_OTHER_NAME = frozenset({62, 63, 64})
"""OpenSSL's X509_V_ERR_HOSTNAME_, EMAIL_ and IP_ADDRESS_MISMATCH."""
_OUT_OF_TIME = frozenset({9, 10})
"""X509_V_ERR_CERT_NOT_YET_VALID and X509_V_ERR_CERT_HAS_EXPIRED, of any of the chain."""
_NO_TLS = frozenset(
    {"WRONG_VERSION_NUMBER", "UNEXPECTED_EOF_WHILE_READING", "RECORD_LAYER_FAILURE"}
)
_CLOSED = ssl.SSLEOFError | ssl.SSLZeroReturnError | ConnectionResetError
"""The other side has closed: which of these it is depends on the Python (3.11.2 has the second)."""
_WANTS_CERTIFICATE = (
    "CERTIFICATE_REQUIRED",
    "BAD_CERTIFICATE",
    "UNKNOWN_CA",
    "HANDSHAKE_FAILURE",
    "CERTIFICATE_UNKNOWN",
    "CERTIFICATE_EXPIRED",
)


class TlsStream:
    """An encrypted socket with the three calls of a plain one that the hot path makes.

    Parameters
    ----------
    sock
        Socket after the handshake.
    timeout_s
        How long the broker may accept no data.
    """

    def __init__(self, sock: ssl.SSLSocket, timeout_s: float) -> None:
        self._socket = sock
        self._timeout_s = timeout_s
        sock.setblocking(False)

    def fileno(self) -> int:
        """File descriptor, for a selector."""
        return self._socket.fileno()

    def pending(self) -> int:
        """Number of decrypted bytes that wait to be received; no selector reports them."""
        return self._socket.pending()

    def setsockopt(self, level: int, option: int, value: bytes) -> None:
        """Set an option of the socket."""
        self._socket.setsockopt(level, option, value)

    def close(self) -> None:
        """Close it without TLS's close_notify: Kafka's frames contain their sizes."""
        self._socket.close()

    def recv_into(self, view: memoryview, _size: int = 0, _flags: int = 0) -> int:
        """Receive what is there; raise `BlockingIOError` if there is nothing."""
        try:
            return self._socket.recv_into(view)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise BlockingIOError from None
        except ssl.SSLEOFError:
            return 0  # closed without close_notify, as brokers do

    def sendmsg(
        self,
        parts: Sequence[bytes | bytearray | memoryview],
        _ancillary: Sequence[object] = (),
        flags: int = 0,
    ) -> int:
        """Send at least the first of `parts`; `TimeoutError` if the broker accepts nothing.

        With MSG_DONTWAIT a part of it, or `BlockingIOError` if the broker accepts nothing now. Then
        the next call must pass the same bytes (SSL_write(3)).
        """
        first: bytes | bytearray | memoryview = parts[0]
        if len(first) < JOINED_BYTES and len(parts) > 1:
            joined = bytearray()
            for part in parts:
                if len(joined) + len(part) > JOINED_BYTES:
                    break
                joined += part
            first = joined
        if flags & socket.MSG_DONTWAIT:
            return self._send_some(first)
        self._send_all(memoryview(first))
        return len(first)

    def _send_some(self, data: bytes | bytearray | memoryview) -> int:
        try:
            return self._socket.send(data)
        except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
            raise BlockingIOError from None

    def _send_all(self, left: memoryview) -> None:
        while left:  # ends: every turn sends a byte, waits for a change, or raises
            try:
                left = left[self._socket.send(left) :]
            except ssl.SSLWantWriteError:
                self._wait(select.POLLOUT)
            except ssl.SSLWantReadError:
                self._wait(select.POLLIN)

    def _wait(self, event: int) -> None:
        poller = select.poll()
        poller.register(self._socket, event)
        if not poller.poll(self._timeout_s * 1000):
            raise TimeoutError("the broker accepts no data")


def wrap(
    sock: socket.socket,
    endpoint: Endpoint,
    security: Security,
    *,
    connect_timeout_s: float,
    request_timeout_s: float,
) -> TlsStream:
    """Do the TLS handshake over a connected socket; close it if that fails.

    Raises
    ------
    TlsFailed
        Either side refuses the other, or the listener speaks no TLS.
    CredentialsUnreadable
        Our certificate, key or authorities can't be read.
    """
    try:
        context = tls_context(security)
        sock.settimeout(connect_timeout_s)
        name = endpoint.host.rstrip(".")
        return TlsStream(context.wrap_socket(sock, server_hostname=name), request_timeout_s)
    except OSError as error:
        raise explained(error, endpoint) from error
    finally:
        sock.close()  # does nothing after a success: the encrypted one has the descriptor then


def explained(error: OSError, endpoint: Endpoint) -> TlsFailed:
    """Explain a failure of TLS to an operator."""
    broker, reason = str(endpoint), getattr(error, "reason", None) or ""
    if isinstance(error, ssl.SSLCertVerificationError):
        if error.verify_code in _OTHER_NAME:
            text = "the broker's certificate is for another host"
            hint = "dial a name that is in the certificate, or issue it for this one"
        elif error.verify_code in _OUT_OF_TIME:
            text = "the broker's certificate, or its authority's, is not valid now"
            hint = "issue a new one for the broker, and check this machine's clock"
        else:
            text = "the broker's certificate is not trusted"
            hint = "ca_file must hold the authority that signed it"
        return TlsFailed(text, hint=hint, broker=broker, why=error.verify_message)
    if reason in _NO_TLS or isinstance(error, _CLOSED):
        hint = "check security.protocol and the port: a listener for TLS is needed"
        return TlsFailed(
            "the listener ended the handshake, as one without TLS does", hint=hint, broker=broker
        )
    if "CERTIFICATE_EXPIRED" in reason:
        hint = "issue a new one for us: certificate_file holds one whose time is over"
        return TlsFailed("our certificate has expired", hint=hint, broker=broker, why=reason)
    if any(word in reason for word in _WANTS_CERTIFICATE):
        hint = "certificate_file must be one that the broker's trust store accepts"
        return TlsFailed("the broker refuses our certificate", hint=hint, broker=broker, why=reason)
    return TlsFailed("no TLS connection", broker=broker, why=reason or str(error))


def is_alert(head: bytes | bytearray) -> bool:
    """Whether an answer begins like a TLS alert: a TLS listener got a plaintext request."""
    return head[0] == 0x15 and head[1] == 3  # RFC 8446 section 5.1
