"""Questions whose answer may never come: the caller decides how long to wait."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar, cast

T = TypeVar("T")
U = TypeVar("U")
K = TypeVar("K", bound=Hashable)


class NoAnswerYet(Exception):
    """The question has not been answered yet."""


class PendingAnswer(Generic[T]):
    """A question, asked at once on a daemon thread: the process can end without its answer."""

    def __init__(self, ask: Callable[[], T], name: str) -> None:
        self._ask = ask
        self._found: list[T] = []
        self._raised: list[BaseException] = []
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._found.append(self._ask())
        except BaseException as error:  # noqa: BLE001  # raised in `answer`
            self._raised.append(error)

    @property
    def is_over(self) -> bool:
        """Whether `answer` returns, or raises, at once."""
        return not self._thread.is_alive()

    def answer(self, within_s: float | None = None) -> T:
        """Return the answer; raises what `ask` raised, or `NoAnswerYet` after `within_s`.

        None waits as long as `ask` takes: its own time limits hold.
        """
        self._thread.join(within_s)
        return self._answer_now()

    def answer_while(self, goes_on_s: Callable[[], float], quiet_s: float, within_s: float) -> T:
        """As `answer`, waiting while there are signs that the answer is on its way.

        Parameters
        ----------
        goes_on_s
            Returns when there was a sign last (monotonic seconds).
        quiet_s
            How long to wait from the last sign on, and at first.
        within_s
            How long to wait at most.
        """
        began_s = time.monotonic()
        while not self.is_over:  # ends: signs end, or the time is over
            now_s = time.monotonic()
            until_s = min(max(began_s, goes_on_s()) + quiet_s, began_s + within_s)
            if now_s >= until_s:
                break
            self._thread.join(until_s - now_s)
        return self._answer_now()

    def _answer_now(self) -> T:
        if self._raised:
            raise self._raised[0]
        if not self._found:
            raise NoAnswerYet
        return self._found[0]


class JoinedQuestion(Generic[T]):
    """A question of several threads: who comes while it is under way shares the next answer.

    So no answer is of before it was asked for, and many who ask at once cost two questions.
    """

    def __init__(self, ask: Callable[[], T]) -> None:
        self._ask = ask
        self._changed = threading.Condition()
        """Guards all that follows."""
        self._begun = self._ended = 0
        self._last: PastAnswer[T] | None = None

    def answer(self) -> T:
        """Return the answer to a question that began after this call; raises what it raised."""
        with self._changed:
            wanted = self._begun + 1
            while self._ended < wanted and self._begun > self._ended:
                self._changed.wait()
            if self._ended >= wanted and self._last is not None:
                return self._last.result()
            self._begun += 1
        last = PastAnswer.of(self._ask)
        with self._changed:
            self._last, self._ended = last, self._begun
            self._changed.notify_all()
        return last.result()


@dataclass(frozen=True, slots=True)
class PastAnswer(Generic[T]):
    """What a question returned or raised."""

    answer: T | None = None
    raised: BaseException | None = None

    @classmethod
    def of(cls, ask: Callable[[], T]) -> PastAnswer[T]:
        """Ask, and keep the answer."""
        try:
            return PastAnswer(ask())
        except BaseException as error:  # noqa: BLE001  # raised in `result`
            return PastAnswer(raised=error)

    def result(self) -> T:
        """Return the answer, or raise."""
        if self.raised is not None:
            raise self.raised
        return cast("T", self.answer)


def both(first: Callable[[], T], second: Callable[[], U]) -> tuple[T, U]:
    """Ask two questions at once; raises what the second raised, else what the first did."""
    pending = PendingAnswer(first, "one of two questions")
    answer = second()
    return pending.answer(), answer


def asked_at_once(asks: Mapping[K, Callable[[], T]]) -> dict[K, T]:
    """Return the answers to questions of which none depends on another; all are asked at once.

    Over a long line they cost the time of the longest one, not of all. A single one is asked here.

    Raises
    ------
    BaseException
        What the first of them raised, in their order.
    """
    rest = list(asks.items())[1:]
    pending = {key: PendingAnswer(ask, f"asks for {key}") for key, ask in rest}
    answers = {key: ask() for key, ask in list(asks.items())[:1]}
    return answers | {key: answer.answer() for key, answer in pending.items()}


def each_answer(asks: Mapping[K, Callable[[], T]], at_once: int) -> dict[K, T | BaseException]:
    """Ask all questions, some at a time; return the answer of each, or what it raised.

    The process can end without the answers.
    """
    left, answers, lock = list(asks.items()), dict[K, T | BaseException](), threading.Lock()

    def work() -> None:
        while True:  # ends when no question is left
            with lock:
                if not left:
                    return
                key, ask = left.pop(0)
            try:
                answer: T | BaseException = ask()
            except BaseException as error:  # noqa: BLE001  # the caller decides
                answer = error
            with lock:
                answers[key] = answer

    threads = [threading.Thread(target=work, daemon=True) for _ in range(min(at_once, len(left)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {key: answers[key] for key in asks}
