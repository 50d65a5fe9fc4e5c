"""Questions for whose answer nobody waits longer than they like: who is asked may hang."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class NoAnswerYet(Exception):
    """It is still being asked."""


class PendingAnswer(Generic[T]):
    """A question on a thread of its own, put at once; the end of the process waits for none."""

    def __init__(self, ask: Callable[[], T], name: str) -> None:
        self._ask = ask
        self._found: list[T] = []
        self._raised: list[BaseException] = []
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._found.append(self._ask())
        except BaseException as error:  # noqa: BLE001  # raised by who waits
            self._raised.append(error)

    def answer(self, within_s: float) -> T:
        """What was answered; raises what was raised, or `NoAnswerYet` after that time."""
        self._thread.join(within_s)
        if self._raised:
            raise self._raised[0]
        if not self._found:
            raise NoAnswerYet
        return self._found[0]
