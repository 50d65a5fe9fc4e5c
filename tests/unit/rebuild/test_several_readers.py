"""Partitions of lost mirrors are compared several at once, with shared requests."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

import pytest

from heliostat.errors import ConnectionLost
from heliostat.rebuild import several_readers
from heliostat.rebuild.several_readers import READERS, TOGETHER_MAX, SeveralReaders

TOPICS = 3_348
NOBODY: Any = None


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return what was opened and closed."""
    events: list[str] = []

    @contextmanager
    def both(*_: object) -> Iterator[object]:
        events.append("open")
        yield object()
        events.append("close")

    monkeypatch.setattr(several_readers, "both_readers", both)
    return events


def test_all_topics_take_few_turns_and_come_in_order(opened: list[str]) -> None:
    """Given thousands of partitions / then groups of them are under way at the same time."""
    begun = threading.Barrier(READERS, timeout=5.0)
    sizes: list[int] = []

    def work(_: object, some: Sequence[int]) -> list[int]:
        if len(sizes) < READERS:
            sizes.append(len(some))
            begun.wait()
        else:
            sizes.append(len(some))
        return [2 * each for each in some]

    with closing(SeveralReaders(NOBODY, NOBODY)) as readers:
        assert list(readers.each(range(TOPICS), work)) == [2 * each for each in range(TOPICS)]
    assert max(sizes) == TOGETHER_MAX
    assert len(sizes) == -(-TOPICS // TOGETHER_MAX)
    assert opened == ["open"] * READERS + ["close"] * READERS


@pytest.mark.parametrize(("items", "groups"), [(0, 0), (1, 1), (8, 8), (9, 5), (20, 7)])
def test_few_partitions_are_spread_over_the_readers(
    opened: list[str], items: int, groups: int
) -> None:
    calls: list[int] = []

    def work(_: object, some: Sequence[int]) -> list[int]:
        calls.append(len(some))
        return list(some)

    with closing(SeveralReaders(NOBODY, NOBODY)) as readers:
        assert list(readers.each(range(items), work)) == list(range(items))
    assert len(calls) == groups
    assert opened.count("open") == opened.count("close") <= min(READERS, groups)


def test_what_has_not_begun_when_one_fails_never_begins(opened: list[str]) -> None:
    calls: list[int] = []

    def work(_: object, some: Sequence[int]) -> list[int]:
        calls.append(some[0])
        raise ConnectionLost("gone")

    with closing(SeveralReaders(NOBODY, NOBODY)) as readers, pytest.raises(ConnectionLost):
        list(readers.each(range(100 * TOGETHER_MAX), work))
    assert len(calls) < 100
    assert opened.count("open") == opened.count("close")
