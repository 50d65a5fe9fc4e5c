"""What is remembered of a link is read again and again, by one at a time."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from heliostat.access import Reachable
from heliostat.errors import ConnectionLost
from heliostat.names import LinkName, Offset
from heliostat.wishes import reading
from heliostat.wishes.reading import MemoryReader
from heliostat.wishes.wish import Place, Wish, WishedState, Wishes


class Book:
    """Stands for `WishBook`: a log of wishes that grows by one with each look."""

    opened = 0

    def __init__(self, *_: Any) -> None:
        type(self).opened += 1
        self.wishes, self.restarts = Wishes(), None
        self.is_there, self.position, self.is_closed = False, Offset(0), False
        self.during = SimpleNamespace(read=lambda: None)

    def read(self) -> None:
        self.is_there = True
        self.wishes.take(Wish(Place(), WishedState.PAUSED, "ann", 1))

    def consume(self, _: float) -> bool:
        self.during.read()
        self.position = Offset(self.position + 1)
        return False

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> MemoryReader:
    monkeypatch.setattr(Book, "opened", 0)
    monkeypatch.setattr(reading, "WishBook", Book)
    return MemoryReader(LinkName("l"), cast("Reachable", None))


def test_it_is_read_over_the_same_connections(reader: MemoryReader) -> None:
    first, second = reader.read(), reader.read()
    assert first is not None
    assert second is not None
    assert first.wishes["link"]["by"] == "ann"
    assert (first.end, second.end, Book.opened) == (1, 2, 1)


def test_two_reads_at_once_do_not_meet(reader: MemoryReader) -> None:
    """Given a read that lasts / then another one ends at once, and closing takes nothing away."""
    reader.read()
    book = cast("Any", reader)._book
    others: list[object] = []

    def meanwhile() -> None:
        others.append(reader.read())
        reader.close()

    book.during.read = meanwhile
    assert reader.read() is not None
    assert others == [None]
    assert not book.is_closed
    reader.close()
    assert book.is_closed


def test_after_a_failure_all_is_read_anew(reader: MemoryReader) -> None:
    reader.read()
    book = cast("Any", reader)._book

    def fail() -> None:
        raise ConnectionLost("no answer")

    book.during.read = fail
    with pytest.raises(ConnectionLost):
        reader.read()
    assert book.is_closed
    assert reader.read() is not None
    assert Book.opened == 2
