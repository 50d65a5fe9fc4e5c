"""The kafka-python internals that we rely on exist and behave as expected."""

from __future__ import annotations

import inspect
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from kafka import codec
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport
from kafka.record import MemoryRecords, default_records, legacy_records
from support.records import GZIP, LZ4, NONE, SNAPPY, ZSTD, Sample, encode

from heliostat.clusters.kafka_python import LENT, LargeReadsManager, lend_codecs

SENT_BYTES = 1 << 20
WAIT_S = 10.0


@pytest.mark.parametrize("packed", [NONE, GZIP, SNAPPY, LZ4, ZSTD])
def test_batches_of_every_codec_are_read(packed: int) -> None:
    lend_codecs()
    lend_codecs()
    samples = [Sample(b"k%d" % n, b"value" * 50, 1_790_000_000_000 + n) for n in range(30)]
    batch = MemoryRecords(encode(samples, packed)).next_batch()
    assert [(row.key, row.value) for row in batch] == [(each.key, each.value) for each in samples]
    assert codec.has_snappy()
    assert codec.has_lz4()
    assert codec.has_zstd()


def test_codecs_that_the_client_already_has_stay() -> None:
    """In a process of its own, before any codec was replaced."""
    script = (
        "from kafka import codec; from kafka.record import default_records as users;"
        "codec.has_lz4 = lambda: True; users.lz4_decode = 'own';"
        "from heliostat.clusters.kafka_python import lend_codecs; lend_codecs();"
        "assert users.lz4_decode == 'own'; assert callable(users.zstd_decode); print('kept')"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == "kept\n", done.stderr


@pytest.mark.parametrize(
    ("users", "names"),
    [(codec, LENT), (default_records, LENT), (legacy_records, ("snappy", "lz4"))],
)
def test_codecs_are_where_we_replace_them(users: ModuleType, names: tuple[str, ...]) -> None:
    for name in names:
        for verb in ("encode", "decode"):
            first = next(iter(inspect.signature(getattr(users, f"{name}_{verb}")).parameters))
            assert first == "payload"
    assert all(callable(getattr(codec, f"has_{name}")) for name in LENT)


def test_transports_are_built_and_read_as_we_assume() -> None:
    build = inspect.signature(KafkaConnectionManager._build_transport).parameters
    assert list(build) == ["self", "node", "timeout_at"]
    assert inspect.iscoroutinefunction(KafkaConnectionManager._build_transport)
    for kind in (KafkaTCPTransport, KafkaSSLTransport):
        assert list(inspect.signature(kind._sock_recv).parameters) == ["self"]


@pytest.mark.parametrize(
    ("kind", "reads_large"), [(KafkaConnectionManager, False), (LargeReadsManager, True)]
)
def test_received_bytes_come_in_large_reads(
    kind: Callable[..., Any], *, reads_large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given 1 MiB on a socket / when a transport is read / then by reads larger than 4 KiB."""
    asked: list[int] = []
    received = socket.socket.recv

    class Counted(socket.socket):
        def recv(self, size: int, *more: Any) -> bytes:
            asked.append(size)
            return received(self, size, *more)

    monkeypatch.setattr(socket, "socket", Counted)
    with socket.create_server(("127.0.0.1", 0)) as server:
        sender = threading.Thread(target=send_to_one, args=(server,), daemon=True)
        sender.start()
        net = NetworkSelector()
        manager = kind(net, bootstrap_servers=["127.0.0.1:1"])
        host, port = server.getsockname()
        node = SimpleNamespace(host=host, port=port)
        assert net.run(lambda: bytes_taken(manager, net, node)) == SENT_BYTES
        manager.close()
        net.close()
        sender.join(WAIT_S)
    assert (max(asked) > 4096) is reads_large


def send_to_one(server: socket.socket) -> None:
    """Send, and close when the other side has."""
    with server.accept()[0] as conn:
        conn.sendall(bytes(SENT_BYTES))
        conn.recv(1)


async def bytes_taken(manager: Any, net: NetworkSelector, node: Any) -> int:
    """What a protocol is given."""
    transport = await manager._build_transport(node)
    taken: list[int] = []
    transport.set_protocol(
        SimpleNamespace(
            data_received=lambda data: taken.append(len(data)),
            connection_lost=lambda error: None,
            _sensors=None,
        )
    )
    transport.resume_reading()
    deadline_s = time.monotonic() + WAIT_S
    while sum(taken) < SENT_BYTES and time.monotonic() < deadline_s:
        await net.sleep(0.01)
    transport.close()
    return sum(taken)
