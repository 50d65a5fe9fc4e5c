"""Large buffers are reused, and never while they are held."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from heliostat.clusters.wire.buffers import KEPT_BYTES_MAX, LARGE_BYTES, HeldBytes, ReusedBuffers

LARGE = 3 * LARGE_BYTES


def test_a_released_buffer_is_reused() -> None:
    reused = ReusedBuffers()
    first = id(reused.take(LARGE))
    assert id(reused.take(LARGE)) == first


def test_a_buffer_has_at_least_the_requested_size_and_small_ones_are_not_kept() -> None:
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
def test_a_buffer_in_use_is_not_handed_out(holder: str) -> None:
    """Given a held buffer / when more are taken / then others, until it is released."""
    reused = ReusedBuffers()
    taken = id(buffer := reused.take(LARGE))
    held = HOLDERS[holder](buffer)
    del buffer
    assert id(reused.take(LARGE)) != taken
    assert id(reused.take(LARGE)) != taken
    del held
    assert id(reused.take(LARGE)) == taken


def test_the_pool_is_bounded_and_dropped_buffers_stay_valid() -> None:
    """Given more in use than are kept / when all are filled / then each has its own bytes."""
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
def test_little_more_memory_is_taken_than_requested(size: int) -> None:
    """Given an answer of 8 MiB and a head / when a buffer is taken for it / then not of 16 MiB."""
    assert size <= len(ReusedBuffers().take(size)) <= size * 9 / 8


def test_a_buffer_counts_as_long_as_a_byte_of_it_is_held() -> None:
    """Given slices of a large and a small one / when released / then each counts until its last."""
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
