"""Partitions compared several at once: over a long line each takes some round trips."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from typing import TypeVar

from heliostat.access import ClusterAccess
from heliostat.verify.both_readers import BothReaders, both_readers
from heliostat.verify.read_requests import Isolation

T = TypeVar("T")
R = TypeVar("R")

READERS = 8
"""Of each side. Python runs one at a time; the others wait for brokers."""
TOGETHER_MAX = 50
"""Partitions that share their requests: 3,348 take some 70 of each kind, not 3,348."""


class SeveralReaders:
    """Readers of both sides for several threads; each is opened when it is first needed.

    Parameters
    ----------
    source, target, of_target
        As `both_readers`.
    """

    def __init__(
        self,
        source: ClusterAccess,
        target: ClusterAccess,
        of_target: Isolation = Isolation.READ_UNCOMMITTED,
    ) -> None:
        self._open = partial(both_readers, source, target, of_target)
        self._lock = threading.Lock()
        self._idle: list[BothReaders] = []
        self._opened = ExitStack()

    def close(self) -> None:
        """Close all of them; nobody may use one any more."""
        self._opened.close()

    def each(
        self,
        items: Sequence[T],
        work: Callable[[BothReaders, Sequence[T]], list[R]],
        together: int = TOGETHER_MAX,
    ) -> Iterator[R]:
        """Yield the result of each item in order; `work` is called with some of them at a time.

        Parameters
        ----------
        items
            What to work on.
        work
            Returns the result of each item that it is called with.
        together
            The most items of one call.

        Raises
        ------
        HeliostatError
            What `work` raises, or opening a reader; what has not begun by then never does.
        """
        size = max(1, min(together, -(-len(items) // READERS)))
        groups = [items[first : first + size] for first in range(0, len(items), size)]
        if not groups:
            return
        errors: list[BaseException] = []

        def worked(group: Sequence[T]) -> list[R]:
            if errors:
                raise errors[0]
            try:
                return self._worked(work, group)
            except BaseException as error:
                errors.append(error)
                raise

        threads = ThreadPoolExecutor(min(READERS, len(groups)), "compare")
        try:
            for results in threads.map(worked, groups):
                yield from results
        finally:
            threads.shutdown(cancel_futures=True)

    def _worked(
        self, work: Callable[[BothReaders, Sequence[T]], list[R]], group: Sequence[T]
    ) -> list[R]:
        with self._lock:
            readers = self._idle.pop() if self._idle else None
        if readers is None:
            with ExitStack() as stack:
                readers = stack.enter_context(self._open())
                with self._lock:
                    self._opened.push(stack.pop_all())
        try:
            return work(readers, group)
        finally:
            with self._lock:
                self._idle.append(readers)
