"""A time limit for what has none of its own: kafka-python waits for ever here and there (3.0.12).

Its `commit_transaction`, `flush` and `close` have no limit by default, nor have joins of threads
that call them.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

REST_S = 0.01


@contextmanager
def deadline(what: str, within_s: float) -> Iterator[None]:
    """Fail with `what` once it takes longer, wherever that is: the traceback shows where.

    For the main thread, which waits for locks and sockets until a signal comes. Another one around
    it goes on afterwards.
    """

    def ring(*_: object) -> None:
        raise AssertionError(f"{what}: not within {within_s:g} s")

    began_s, before = time.monotonic(), signal.signal(signal.SIGALRM, ring)
    outer_s, _ = signal.setitimer(signal.ITIMER_REAL, within_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if outer_s:
            left_s = outer_s - (time.monotonic() - began_s)
            signal.setitimer(signal.ITIMER_REAL, max(REST_S, left_s))


def join(thread: threading.Thread, what: str, within_s: float) -> None:
    """Wait until a thread has ended; else fail with `what`, and where the thread is."""
    thread.join(within_s)
    if thread.is_alive():
        frame = sys._current_frames().get(thread.ident or -1)
        where = "".join(traceback.format_stack(frame)[-8:]) if frame else "nowhere"
        raise AssertionError(f"{what}: not within {within_s:g} s; it is at\n{where}")
