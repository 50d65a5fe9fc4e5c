"""Figures of processes and requests, taken from this process and from made ones."""

from __future__ import annotations

import os
import socket
from contextlib import closing

from heliostat.ops.process_use import use_of
from heliostat.ops.request_times import BOUNDS_S, NAMES_MAX, RequestTimes


def test_what_this_process_uses() -> None:
    before = use_of(os.getpid())
    assert before is not None
    with closing(socket.socket()), closing(socket.socket()):
        sum(number * number for number in range(1_000_000))
        now = use_of(os.getpid(), (5, 6))
    assert now is not None
    assert now.sockets == before.sockets + 2
    assert now.cpu_s >= before.cpu_s > 0
    assert now.memory_bytes > 1 << 20
    assert now[3:] == (5, 6)
    assert before.read_bytes > 0


def test_a_process_that_is_gone_uses_nothing_that_is_known() -> None:
    assert use_of(2**22 + 1) is None


def test_requests_are_counted_by_name_and_time() -> None:
    times = RequestTimes()
    for seconds in (0.001, BOUNDS_S[0], 0.006, 99.0):
        times.took("Metadata", seconds)
    (row,) = times.rows()
    name, total, counts = row
    assert (name, round(total, 3)) == ("Metadata", 99.012)
    assert (counts[0], counts[1], counts[-1], sum(counts)) == (2, 1, 1, 4)


def test_names_are_bounded() -> None:
    times = RequestTimes()
    for number in range(2 * NAMES_MAX):
        times.took(str(number), 1.0)
    assert len(list(times.rows())) == NAMES_MAX
