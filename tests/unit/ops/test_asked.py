"""Questions of several threads at once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from heliostat.ops.asked import JoinedQuestion

WITHIN_S = 10.0
ASKERS = 50


class Slow:
    """Answers with its number, when it may."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.may_end = threading.Semaphore(0)
        self.count = 0
        self.error: Exception | None = None

    def ask(self) -> int:
        self.count += 1
        count = self.count
        self.begun.release()
        assert self.may_end.acquire(timeout=WITHIN_S)
        if self.error is not None:
            raise self.error
        return count


def test_who_asks_while_a_question_is_under_way_shares_the_next() -> None:
    """Given a question under way / when fifty ask meanwhile / then one more answers all of them."""
    slow, asking = Slow(), threading.Semaphore(0)
    question = JoinedQuestion(slow.ask)

    def asked() -> int:
        asking.release()
        return question.answer()

    with ThreadPoolExecutor(ASKERS + 1) as threads:
        first = threads.submit(question.answer)
        assert slow.begun.acquire(timeout=WITHIN_S)
        others = [threads.submit(asked) for _ in range(ASKERS)]
        for _ in others:
            assert asking.acquire(timeout=WITHIN_S)
        slow.may_end.release(ASKERS)
        assert first.result(WITHIN_S) == 1
        answers = {other.result(WITHIN_S) for other in others}
    assert answers <= {2, 3}  # 3: one that was slow to ask
    assert question.answer() == slow.count > max(answers)  # nothing is kept for who comes later


def test_what_a_question_raised_is_raised_for_all_who_share_it_and_it_is_asked_again() -> None:
    slow = Slow()
    question = JoinedQuestion(slow.ask)
    slow.error = OSError("gone")
    slow.may_end.release(2)
    with pytest.raises(OSError, match="gone"):
        question.answer()
    slow.error = None
    assert question.answer() == 2
