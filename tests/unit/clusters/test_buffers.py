"""Large buffers are used again, and never while anybody holds them."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from heliostat.clusters.wire.buffers import KEPT_BYTES_MAX, LARGE_BYTES, HeldBytes, ReusedBuffers

LARGE = 3 * LARGE_BYTES


def test_a_buffer_that_nobody_holds_is_used_again() -> None:
    reused = ReusedBuffers()
    first = id(reused.take(LARGE))
    assert id(reused.take(LARGE)) == first


def test_it_is_at_least_as_long_as_asked_and_small_ones_are_not_kept() -> None:
    reused = ReusedBuffers()
    for size in (1, LARGE_BYTES - 1, LARGE_BYTES, LARGE_BYTES + 1, LARGE):
        assert len(reused.take(size)) >= size
    small = reused.take(LARGE_BYTES - 1)
    assert reused.take(LARGE_BYTES - 1) is not small


HOLDERS: dict[str, Callable[[bytearray], Any]] = {
    "a name": lambda buffer: buffer,
    "a list": lambda buffer: [buffer],
    "a view": memoryview,
    "a view of a part": lambda buffer: memoryview(buffer)[7:9],
    "an array over it": lambda buffer: np.frombuffer(buffer, np.uint8),
    "a part of an array": lambda buffer: np.frombuffer(buffer, np.uint8)[100:200],
    "a closure": lambda buffer: lambda: buffer,
}


@pytest.mark.parametrize("holder", HOLDERS)
def test_a_buffer_in_use_is_handed_to_nobody_else(holder: str) -> None:
    """Given one that is held / when others are taken / then another until it is let go."""
    reused = ReusedBuffers()
    taken = id(buffer := reused.take(LARGE))
    held = HOLDERS[holder](buffer)
    del buffer
    assert id(reused.take(LARGE)) != taken
    assert id(reused.take(LARGE)) != taken
    del held
    assert id(reused.take(LARGE)) == taken


def test_what_is_kept_is_bounded_and_what_is_dropped_stays_its_holders() -> None:
    """Given more in use than is kept / when all are filled / then each has its own bytes."""
    reused = ReusedBuffers()
    size = KEPT_BYTES_MAX // 4
    held = [reused.take(size) for _ in range(7)]
    for at, buffer in enumerate(held):
        buffer[:8] = array("q", [at]).tobytes()
    assert [int.from_bytes(buffer[:8], "little") for buffer in held] == list(range(7))
    del buffer
    mine = {id(buffer) for buffer in held}
    assert id(reused.take(size)) not in mine


@pytest.mark.parametrize("size", [LARGE_BYTES, 1 << 20, (1 << 20) + 1, (8 << 20) + 300, 100 << 20])
def test_little_is_taken_beyond_what_was_asked_for(size: int) -> None:
    """Given an answer of 8 MiB and a head / when room is made for it / then not of 16 MiB."""
    assert size <= len(ReusedBuffers().take(size)) <= size * 9 / 8


def test_a_buffer_counts_as_long_as_a_byte_of_it_is_held() -> None:
    """Given slices of a large and a small one / when they go / then each counts until its last."""
    held, reused = HeldBytes(), ReusedBuffers()
    large, small = held.view(reused.take(1 << 20)), held.view(reused.take(100))
    assert held.bytes == (1 << 20) + 100
    part = large[5:176]
    of_part = np.frombuffer(part[3:9], np.uint8)
    del large, part
    assert held.bytes == (1 << 20) + 100
    del small
    assert held.bytes == 1 << 20
    again = held.view(reused.take(1 << 20))
    assert held.bytes == 2 << 20
    del of_part
    assert held.bytes == 1 << 20
    del again
    assert held.bytes == 0
