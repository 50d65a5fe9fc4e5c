"""A topic that was there is not taken for empty, nor for lost before brokers may know it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from heliostat.clusters import keyed_topic
from heliostat.clusters.keyed_topic import KeyedReader
from heliostat.errors import BrokerError
from heliostat.names import Offset


class EmptyLog:
    position = Offset(0)

    def from_start(self) -> tuple[Offset, list[Any]]:
        return Offset(0), []


def reader(monkeypatch: pytest.MonkeyPatch, *, looks: int, was_there: bool) -> KeyedReader:
    """A reader whose topic is known from a look on."""
    made = KeyedReader("127.0.0.1:1", "t", "c", lambda: was_there)
    answers: Iterator[EmptyLog | None] = iter([*([None] * looks), *([EmptyLog()] * 9)])
    monkeypatch.setattr(made, "_reader", lambda: next(answers))
    monkeypatch.setattr(keyed_topic, "LOOK_AGAIN_S", 0.001)
    monkeypatch.setattr(keyed_topic, "KNOWN_WITHIN_S", 0.05)
    return made


@pytest.mark.parametrize("looks", [0, 1, 3])
def test_a_new_topic_is_known_a_moment_later(monkeypatch: pytest.MonkeyPatch, looks: int) -> None:
    assert reader(monkeypatch, looks=looks, was_there=True).read_all() == {}


def test_a_topic_that_never_was_is_empty_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert reader(monkeypatch, looks=99, was_there=False).read_all() == {}


def test_one_that_was_there_and_stays_unknown_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BrokerError, match="is not known any more"):
        reader(monkeypatch, looks=999, was_there=True).read_all()
