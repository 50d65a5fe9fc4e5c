"""Waits of tests that would last for ever end as failures that say what was waited for."""

from __future__ import annotations

import threading
import time

import pytest
from support.deadline import deadline, join


def test_a_wait_without_a_limit_fails_where_it_is() -> None:
    never = threading.Event()
    expected = pytest.raises(AssertionError, match=r"the end: not within 0\.05 s")
    with expected as failed, deadline("the end", 0.05):
        never.wait()
    assert any(entry.name == "wait" for entry in failed.traceback)


def test_an_outer_limit_holds_behind_an_inner_one() -> None:
    def inner() -> None:
        with pytest.raises(AssertionError, match="inner"), deadline("inner", 0.02):
            time.sleep(5)
        time.sleep(5)

    with pytest.raises(AssertionError, match="outer"), deadline("outer", 0.1):
        inner()
    with deadline("in time", 0.02):
        pass
    time.sleep(0.03)


def test_a_thread_that_does_not_end_is_shown() -> None:
    end = threading.Event()
    thread = threading.Thread(target=end.wait, daemon=True)
    thread.start()
    with pytest.raises(AssertionError, match=r"it rests: not within 0\.02 s.*(.|\n)*in wait"):
        join(thread, "it rests", 0.02)
    end.set()
    join(thread, "it rests", 5)
