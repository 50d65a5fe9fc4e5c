"""Reuses large buffers: allocating one costs as much as receiving into it.

A buffer of megabytes comes from the kernel page by page, each cleared first: 0.2 ms a MB measured.
"""

from __future__ import annotations

import sys
import threading
import weakref
from typing import Any

LARGE_BYTES = 64 * 1024
"""Smaller buffers come from the allocator's free lists."""
KEPT_BYTES_MAX = 64 * 1024 * 1024
"""Limit for each thread, of unused and used buffers together."""
_STEPS_BITS = 3
"""Sizes have eight steps to the double: an answer of 8 MiB and its header takes 9, not 16."""


def _references(kept: list[bytearray], index: int) -> int:
    return sys.getrefcount(kept[index])


_OWN_REFERENCES = _references([bytearray()], 0)
"""References to a buffer that nobody else has, as this interpreter counts them: from Python 3.14
on (see its What's New) calls may borrow references that earlier versions count. With a fixed number
a buffer in use would be handed out."""


def size_of_buffer(size_bytes: int) -> int:
    """Size of the buffer for so many bytes; rounded up, so that other sizes can reuse it."""
    if size_bytes < LARGE_BYTES:
        return size_bytes
    step = 1 << ((size_bytes - 1).bit_length() - 1 - _STEPS_BITS)
    return -(-size_bytes // step) * step


class ReusedBuffers(threading.local):
    """Hands out buffers, and reuses those without references; each thread has its own.

    Nobody has to return a buffer: a memoryview or an array into it counts as a reference.
    """

    def __init__(self) -> None:
        self._kept: list[bytearray] = []
        self._kept_bytes = 0

    def take(self, size_bytes: int) -> bytearray:
        """Return a buffer of at least `size_bytes`, with undefined contents."""
        if size_bytes < LARGE_BYTES:
            return bytearray(size_bytes)
        wanted = size_of_buffer(size_bytes)
        for index in range(len(self._kept)):
            is_free = _references(self._kept, index) == _OWN_REFERENCES
            if is_free and len(self._kept[index]) == wanted:
                return self._kept[index]
        buffer = bytearray(wanted)
        self._keep(buffer)
        return buffer

    def _keep(self, buffer: bytearray) -> None:
        self._kept.append(buffer)
        self._kept_bytes += len(buffer)
        while self._kept_bytes > KEPT_BYTES_MAX and len(self._kept) > 1:
            self._kept_bytes -= len(self._kept.pop(0))  # whoever uses it keeps it alive


BUFFERS = ReusedBuffers()
"""Buffers of a thread's connections, and for data made from their answers."""


class HeldBytes:
    """Counts the bytes of buffers as long as anything refers to them, or to a part of them.

    Buffers need not be released explicitly. The last batch that is left of a large answer counts
    with the whole answer, whatever its own size is.
    """

    def __init__(self) -> None:
        self.bytes = 0
        self._held: dict[int, tuple[weakref.ref[Any], int]] = {}

    def view(self, buffer: bytearray) -> memoryview:
        """View of a whole buffer, which counts until all slices of the view are gone, too."""
        import numpy as np

        whole = np.frombuffer(buffer, np.uint8)  # each slice of a view of it refers to it
        reference = weakref.ref(whole, self._let_go)
        self._held[id(reference)] = reference, len(buffer)
        self.bytes += len(buffer)
        return whole.data

    def _let_go(self, reference: weakref.ref[Any]) -> None:
        self.bytes -= self._held.pop(id(reference))[1]
