"""All that we need of kafka-python's private parts: here, and in `kafka_decoders`, nowhere else.

That is a module of its own as lanes need it, and nothing of this one.

They may change with any release of it. `tests/unit/clusters/test_kafka_python.py` tests what we
rely on, and fails if a new version no longer has it.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from kafka import codec as own
from kafka.errors import KafkaConnectionError
from kafka.net.manager import KafkaConnectionManager
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport
from kafka.record import default_records, legacy_records
from typing_extensions import override

LENT = ("snappy", "lz4", "zstd")
CODEC_USERS = (own, default_records, legacy_records)
"""Modules that have imported the functions by name."""
RECEIVE_BYTES = 256 * 1024  # kafka-python reads 4 KiB at a time, at a tenth of the speed


def lend_codecs() -> None:
    """Let its consumer decompress with aiokafka's codecs if it lacks libraries of its own.

    It looks for python-snappy, lz4 and zstandard, which are not installed; aiokafka's codecs do the
    same with cramjam. Without them its consumer fails at the first compressed batch.
    Codecs that kafka-python has stay. May be called again.
    """
    for name in LENT:
        has: Any = getattr(own, f"has_{name}")
        if has():
            continue
        setattr(own, f"has_{name}", _has_cramjam)
        for users in CODEC_USERS:
            for verb in ("encode", "decode"):
                if hasattr(users, f"{name}_{verb}"):  # they have imported them by name
                    setattr(users, f"{name}_{verb}", _lent(f"{name}_{verb}"))


def _has_cramjam() -> bool:
    return find_spec("cramjam") is not None


def _lent(name: str) -> Callable[..., bytes]:
    """Return a function of aiokafka; all of that package is loaded with the first batch."""

    def call(payload: Any, *given: Any, **named: Any) -> bytes:
        from aiokafka import codec

        function: Callable[..., bytes] = getattr(codec, name)
        return function(payload, *given, **named)

    return call


class LargeReadsManager(KafkaConnectionManager):  # type: ignore[misc]  # untyped
    """Its connections, with reads as large as the kernel offers."""

    @override
    async def _build_transport(self, node: Any, timeout_at: float | None = None) -> Any:
        transport = await super()._build_transport(node, timeout_at=timeout_at)
        if type(transport) in (KafkaTCPTransport, KafkaSSLTransport):
            sock = transport._sock  # noqa: SLF001  # no public way to set the size of a read
            transport._sock_recv = lambda: _receive(sock)  # noqa: SLF001  # as above
        return transport


def _receive(sock: socket.socket) -> tuple[bytes, Exception | None]:
    parts: list[bytes] = []
    try:
        while part := sock.recv(RECEIVE_BYTES):
            parts.append(part)
    except (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
        return b"".join(parts), None
    except OSError as error:
        return b"".join(parts), KafkaConnectionError(error)
    return b"".join(parts), KafkaConnectionError("socket disconnected")


def versions_of(request: Any) -> tuple[int, int]:
    """Lowest and highest version of a request or its class; a request may be narrower."""
    low, high = int(request.min_version), int(request.max_version)
    if isinstance(request, type):
        return low, high
    least, most = request._min_version, request._max_version  # noqa: SLF001  # it tells nobody
    return max(low, least or 0), high if most is None else min(high, most)
