"""Large buffers used again: memory that is given back and asked for costs more than what is in it.

A buffer of megabytes comes from the kernel page by page, each cleared first: 0.2 ms a MB measured,
as much as receiving into it.
"""

from __future__ import annotations

import sys
import threading
import weakref
from typing import Any

import numpy as np

LARGE_BYTES = 64 * 1024
"""Smaller ones come from the allocator's own lists."""
KEPT_BYTES_MAX = 64 * 1024 * 1024
"""Of unused buffers and used ones together, a thread."""
_STEPS_BITS = 3
"""Sizes come in eight steps to the double: an answer of 8 MiB and a head takes 9, not 16."""


def _references(kept: list[bytearray], at: int) -> int:
    return sys.getrefcount(kept[at])


_OWN_REFERENCES = _references([bytearray()], 0)
"""Of one that nobody else has, as this very interpreter counts: from Python 3.14 on a call may
borrow what earlier ones count (its What's New), and a fixed number would hand out one in use."""


def size_of_buffer(size_bytes: int) -> int:
    """Of the buffer that is made for so many bytes: one for others of about that size, too."""
    if size_bytes < LARGE_BYTES:
        return size_bytes
    step = 1 << ((size_bytes - 1).bit_length() - 1 - _STEPS_BITS)
    return -(-size_bytes // step) * step


class ReusedBuffers(threading.local):
    """Hands out buffers, and those again that nobody refers to any more; each thread has its own.

    Nobody has to give a buffer back: a memoryview or an array into it counts as a reference.
    """

    def __init__(self) -> None:
        self._kept: list[bytearray] = []
        self._kept_bytes = 0

    def take(self, size_bytes: int) -> bytearray:
        """Buffer of at least `size_bytes`, with anything in it."""
        if size_bytes < LARGE_BYTES:
            return bytearray(size_bytes)
        wanted = size_of_buffer(size_bytes)
        for at in range(len(self._kept)):
            is_free = _references(self._kept, at) == _OWN_REFERENCES
            if is_free and len(self._kept[at]) == wanted:
                return self._kept[at]
        buffer = bytearray(wanted)
        self._keep(buffer)
        return buffer

    def _keep(self, buffer: bytearray) -> None:
        self._kept.append(buffer)
        self._kept_bytes += len(buffer)
        while self._kept_bytes > KEPT_BYTES_MAX and len(self._kept) > 1:
            self._kept_bytes -= len(self._kept.pop(0))  # whoever uses it keeps it alive


BUFFERS = ReusedBuffers()
"""Those of all connections of a thread, and of what is made of their answers."""


class HeldBytes:
    """Counts the bytes of buffers for as long as anybody refers to them, or to a part of them.

    Who lets go of a buffer need not say so: a batch that is the last one of a large answer is found
    to keep all of it, whatever it says of its own size.
    """

    def __init__(self) -> None:
        self.bytes = 0
        self._held: dict[int, tuple[weakref.ref[Any], int]] = {}

    def view(self, buffer: bytearray) -> memoryview:
        """View of a whole buffer, which counts until all slices of the view are gone, too."""
        whole = np.frombuffer(buffer, np.uint8)  # each slice of a view of it refers to it
        reference = weakref.ref(whole, self._let_go)
        self._held[id(reference)] = reference, len(buffer)
        self.bytes += len(buffer)
        return whole.data

    def _let_go(self, reference: weakref.ref[Any]) -> None:
        self.bytes -= self._held.pop(id(reference))[1]
