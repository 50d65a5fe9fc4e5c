"""Connectors in memory behave as those on a home cluster; the same rules are held to both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import cast

import pytest
from support.home import HomeLog, MemoryBook
from unit.connect.kept import MemoryStore
from unit.connect.store_contract import RULES
from unit.connect.technote import HEARTBEAT, SOURCE, stored

from heliostat.connect.store import HomeConnectors, connectors_in
from heliostat.definitions.definition import Definition, DefinitionKey, DefinitionKind
from heliostat.definitions.definition_book import DefinitionBook
from heliostat.wishes.wish import WishedState


@pytest.mark.parametrize("rule", RULES)
def test_in_memory(rule: Callable[..., None]) -> None:
    rule(MemoryStore())


def at_home() -> tuple[HomeConnectors, MemoryBook]:
    book = MemoryBook(HomeLog())
    return HomeConnectors(cast("DefinitionBook", book)), book


@pytest.mark.parametrize("rule", RULES)
def test_at_home(rule: Callable[..., None]) -> None:
    rule(at_home()[0])


def test_the_state_in_a_row_of_an_earlier_version_is_kept() -> None:
    """Given a row with its state in it / when its configuration, then its state changes / then

    neither is lost, and what an earlier version writes after that counts.
    """
    store, book = at_home()
    (one,) = stored(HEARTBEAT, by="ann", at_ms=5)
    paused = replace(one.to_definition(), extra={"state": "paused", "link": ""})
    book.write(paused)
    assert store.read()[one.name].state is WishedState.PAUSED
    store.write(store.read()[one.name])
    assert book.definitions[one.key].extra == {"link": ""}
    assert store.read()[one.name].state is WishedState.PAUSED
    store.wish(one)
    assert store.read()[one.name].state is WishedState.RUNNING
    book.write(paused)
    assert store.read()[one.name].state is WishedState.PAUSED


def test_who_removes_a_connector_is_written_before_it_goes() -> None:
    """Given a connector / when it is removed / then its last row says who and when; none has it."""
    log = HomeLog()
    store = HomeConnectors(cast("DefinitionBook", MemoryBook(log)))
    (one,) = stored(SOURCE, by="ann", at_ms=5)
    store.write(one)
    store.remove(one.name, "ben", 9)
    *_, last, _, removal = log.rows
    assert removal.definition is None
    assert last.definition is not None
    assert (last.definition.by, last.definition.at_ms) == ("ben", 9)
    assert connectors_in({last.key: last.definition}) == {}


def test_a_row_that_is_none_is_shown_as_one_that_can_be_no_link() -> None:
    key = DefinitionKey(DefinitionKind.CONNECTOR, "a")
    other = DefinitionKey(DefinitionKind.LINK, "b")
    rows = {
        key: Definition(key, {"topics": []}, "ann", 1),
        other: Definition(other, {}, "ann", 1),
    }
    (one,) = connectors_in(rows).values()
    assert (one.name, one.config, one.plugin) == ("a", {}, None)
