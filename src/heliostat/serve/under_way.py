"""What a service carries out beyond a request: it begins anew only while there is none of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol, TypeVar

from starlette.exceptions import HTTPException

LOOK_S = 0.25


class Work(Protocol):
    """What goes on after the request that began it was answered."""

    @property
    def is_over(self) -> bool:
        """Whether it has ended, one way or another."""
        ...


WorkT = TypeVar("WorkT", bound=Work)


class UnderWay:
    """All that is carried out, until the service is closed. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._works: list[Work] = []
        self._is_closed = False

    def begin(self, make: Callable[[], WorkT]) -> WorkT:
        """Return what `make` returns, which is under way from now on.

        Raises
        ------
        HTTPException
            The service is about to begin anew (503).
        """
        with self._lock:
            if self._is_closed:
                text = "this service begins anew with another configuration; ask again"
                raise HTTPException(503, text, headers={"Retry-After": "2"})
            work = make()
            self._works = [
                *(earlier_work for earlier_work in self._works if not earlier_work.is_over),
                work,
            ]
            return work

    def close_if_idle(self) -> bool:
        """Let nothing begin any more if nothing is under way; return whether that is so."""
        with self._lock:
            self._is_closed = all(work.is_over for work in self._works)
            return self._is_closed

    def close_once_idle(self, tell: Callable[[str], None]) -> None:
        """Wait until nothing is under way, told if that is not now; nothing begins from then on."""
        if self.close_if_idle():
            return
        tell("the configuration has changed: the service begins anew once no job runs")
        while not self.close_if_idle():  # ends: all that is under way ends, or is cancelled
            time.sleep(LOOK_S)
