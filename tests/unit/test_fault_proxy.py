"""The fault proxy cuts where it says, tested with a stand-in that answers frames."""

from __future__ import annotations

import socket
import socketserver
import struct
import threading
import time
from collections.abc import Iterator

import pytest
from support.proxy import FETCH, PRODUCE, FaultProxy, Where

from heliostat.names import Endpoint

pytestmark = pytest.mark.thorough

ANSWER = b"\0\0\0\7" + b"a" * 100_000


class _Echo(socketserver.BaseRequestHandler):
    """Keeps what came; answers each whole frame."""

    def handle(self) -> None:
        reader = self.request.makefile("rb")
        seen: list[bytes] = self.server.seen  # type: ignore[attr-defined]  # put there below
        while True:
            size = reader.read(4)
            frame = reader.read(struct.unpack(">i", size)[0]) if len(size) == 4 else b""
            if size:
                seen.append(size + frame)
            if len(size) < 4 or len(frame) < struct.unpack(">i", size)[0]:
                return
            self.request.sendall(struct.pack(">i", len(ANSWER)) + ANSWER)


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    seen: list[bytes]


@pytest.fixture
def broker() -> Iterator[_Server]:
    with _Server(("127.0.0.1", 0), _Echo) as server:
        server.seen = []
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield server
        server.shutdown()


@pytest.fixture
def proxy(broker: _Server) -> Iterator[FaultProxy]:
    with FaultProxy().serving(Endpoint("127.0.0.1", broker.server_address[1])) as made:
        yield made


def request(api_key: int, body: bytes = b"x" * 19_994) -> bytes:
    frame = struct.pack(">hhih", api_key, 12, 7, 4) + b"me-1" + body
    return struct.pack(">i", len(frame)) + frame


def ask(proxy: FaultProxy, data: bytes) -> bytes:
    """What comes back until the answer is whole or the connection ends."""
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=10) as sock:
        sock.sendall(data)
        got = b""
        while len(got) < 4 + len(ANSWER):
            try:
                more = sock.recv(1 << 16)
            except ConnectionResetError:
                break
            if not more:
                break
            got += more
        return got


def test_frames_pass_unchanged_and_are_counted(proxy: FaultProxy, broker: _Server) -> None:
    assert ask(proxy, request(FETCH)) == struct.pack(">i", len(ANSWER)) + ANSWER
    assert broker.seen[0] == request(FETCH)
    assert (proxy.counts["connections"], proxy.counts["requests 1"]) == (1, 1)


@pytest.mark.parametrize(
    ("where", "arrived", "answered"),
    [
        (Where.REQUEST_SIZE, 2, 0),
        (Where.REQUEST_HEADER, 9, 0),
        (Where.REQUEST_BODY, 4 + 20_008 // 2, 0),
        (Where.REQUEST_SENT, 4 + 20_008, 0),
        (Where.ANSWER_SIZE, 4 + 20_008, 2),
        (Where.ANSWER_HEADER, 4 + 20_008, 6),
        (Where.ANSWER_BODY, 4 + 20_008, 4 + len(ANSWER) // 2),
        (Where.ANSWER_LOST, 4 + 20_008, 0),
    ],
)
def test_a_cut_forwards_exactly_the_given_number_of_bytes(
    proxy: FaultProxy, broker: _Server, where: Where, arrived: int, answered: int
) -> None:
    """Given a cut for Produce / when a Fetch and a Produce come / then only the latter is cut."""
    cut = proxy.cut_next(PRODUCE, where, b"nobody", b"xxx")
    assert len(ask(proxy, request(FETCH))) == 4 + len(ANSWER)
    assert not cut.done.is_set()
    broker.seen.clear()
    assert len(ask(proxy, request(PRODUCE))) == answered
    assert cut.done.wait(5)
    assert proxy.counts[where.name] == 1
    deadline_s = time.monotonic() + 5
    while not broker.seen and time.monotonic() < deadline_s:
        time.sleep(0.01)
    assert len(broker.seen[0]) == arrived
    assert len(ask(proxy, request(PRODUCE))) == 4 + len(ANSWER)


def test_a_kept_request_never_reaches_the_broker_by_itself(
    proxy: FaultProxy, broker: _Server
) -> None:
    cut = proxy.cut_next(PRODUCE, Where.REQUEST_KEPT, b"xxx")
    assert ask(proxy, request(PRODUCE)) == b""
    assert cut.done.wait(5)
    assert cut.kept == request(PRODUCE)
    assert not any(broker.seen)


def test_a_cut_about_another_topic_waits(proxy: FaultProxy) -> None:
    cut = proxy.cut_next(PRODUCE, Where.REQUEST_SIZE, b"other")
    assert len(ask(proxy, request(PRODUCE))) == 4 + len(ANSWER)
    assert not cut.done.is_set()


def test_latency_and_throttle_take_their_time(proxy: FaultProxy) -> None:
    proxy.latency_s = 0.1
    began_s = time.monotonic()
    ask(proxy, request(FETCH))
    assert time.monotonic() - began_s >= 0.2
    proxy.heal()
    proxy.bytes_per_s = 400_000
    began_s = time.monotonic()
    ask(proxy, request(FETCH))
    assert time.monotonic() - began_s >= (20_000 + len(ANSWER)) / 400_000 * 0.9


def test_refusing_and_stalling_end_when_revoked(proxy: FaultProxy) -> None:
    proxy.refuse()
    assert ask(proxy, request(FETCH)) == b""
    assert proxy.counts["refused"] == 1
    proxy.accept()
    proxy.hold("somebody else")
    assert len(ask(proxy, request(FETCH))) == 4 + len(ANSWER)
    proxy.hold("me")
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=10) as sock:
        sock.sendall(request(FETCH))
        sock.settimeout(0.3)
        with pytest.raises(TimeoutError):
            sock.recv(1)
        sock.settimeout(10)
        proxy.release()
        assert sock.recv(1) == b"\0"
