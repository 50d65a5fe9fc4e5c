"""A long line before a broker: how late bytes come, how many are on it, and how it ends."""

from __future__ import annotations

import random
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from heliostat_sandbox.far_line import Line, Ring
from heliostat_sandbox.ports import LOOPBACK, free_ports


@contextmanager
def line(round_trip_s: float, window_bytes: int = 1 << 20) -> Iterator[tuple[int, socket.socket]]:
    """Yield the line's port, and the listening socket behind it."""
    port, behind = free_ports(2)
    stopped = threading.Event()
    with socket.create_server((LOOPBACK, behind)) as broker:
        way = Line([(port, behind)], round_trip_s, window_bytes)
        thread = threading.Thread(target=way.serve, args=(stopped.is_set,))
        thread.start()
        try:
            yield port, broker
        finally:
            stopped.set()
            thread.join()
            way.close()


def read(end: socket.socket, count: int) -> bytes:
    end.settimeout(20)
    parts = bytearray()
    while len(parts) < count:
        piece = end.recv(1 << 16)
        assert piece, f"closed after {len(parts)} bytes"
        parts += piece
    return bytes(parts)


def test_an_answer_comes_a_round_trip_later_and_the_first_one_two() -> None:
    with line(0.1) as (port, broker), socket.create_connection((LOOPBACK, port)) as client:
        end, _ = broker.accept()
        with end:
            took = []
            for _ in range(3):
                began_s = time.monotonic()
                client.sendall(b"ask")
                end.sendall(read(end, 3))
                assert read(client, 3) == b"ask"
                took.append(time.monotonic() - began_s)
    assert took[0] >= 0.18, "the connection itself costs a round trip"
    assert all(0.1 <= seconds < 0.18 for seconds in took[1:]), took


def test_requests_that_are_on_the_line_together_cost_one_round_trip() -> None:
    with line(0.1) as (port, broker), socket.create_connection((LOOPBACK, port)) as client:
        end, _ = broker.accept()
        with end:
            began_s = time.monotonic()
            for number in range(20):
                client.sendall(bytes([number]))
                time.sleep(0.001)
            end.sendall(read(end, 20))
            assert read(client, 20) == bytes(range(20))
            assert time.monotonic() - began_s < 0.4


def test_no_more_than_a_window_crosses_in_a_round_trip() -> None:
    """Given 10 windows to send / then they take 9 round trips, and arrive as they were sent."""
    text = random.Random(7).randbytes(10 * 65536)
    with line(0.05, 65536) as (port, broker), socket.create_connection((LOOPBACK, port)) as client:
        end, _ = broker.accept()
        with end:
            began_s = time.monotonic()
            sender = threading.Thread(target=client.sendall, args=(text,))
            sender.start()
            assert read(end, len(text)) == text
            assert time.monotonic() - began_s >= 9 * 0.05
            sender.join()


@pytest.mark.parametrize("who", ["client", "broker"])
def test_an_end_that_closes_is_seen_by_the_other_after_all_its_bytes(who: str) -> None:
    with line(0.02) as (port, broker):
        client = socket.create_connection((LOOPBACK, port))
        end, _ = broker.accept()
        first, other = (client, end) if who == "client" else (end, client)
        first.sendall(b"last words")
        first.close()
        assert read(other, 10) == b"last words"
        assert other.recv(1) == b""
        other.close()


def test_a_broker_that_does_not_listen_closes_its_client() -> None:
    with line(0.0) as (port, broker):
        broker.close()
        with socket.create_connection((LOOPBACK, port)) as client:
            client.settimeout(10)
            assert client.recv(1) == b""


def test_a_ring_keeps_bytes_in_order_while_it_grows_and_wraps() -> None:
    rng, ring = random.Random(3), Ring(1 << 18)
    sent, received = bytearray(), bytearray()
    for _ in range(3000):
        memory = ring.place(rng.randrange(1, 1 << 14))
        count = rng.randrange(len(memory) + 1)
        piece = rng.randbytes(count)
        memory[:count] = piece
        memory.release()
        ring.filled(count)
        sent += piece
        head = ring.head(rng.randrange(1 << 14))
        received += head
        size = len(head)
        head.release()
        ring.drop(size)
    while ring.size:
        head = ring.head(ring.size)
        received += head
        size = len(head)
        head.release()
        ring.drop(size)
    assert received == sent
