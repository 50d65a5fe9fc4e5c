"""Connectors in memory behave as those on a home cluster; the same rules are held to both."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import pytest
from support.home import HomeLog, MemoryBook
from unit.connect.kept import MemoryStore
from unit.connect.store_contract import RULES
from unit.connect.technote import SOURCE, stored

from heliostat.connect.store import HomeConnectors, connectors_in
from heliostat.definitions.definition import Definition, DefinitionKey, DefinitionKind
from heliostat.definitions.definition_book import DefinitionBook


@pytest.mark.parametrize("rule", RULES)
def test_in_memory(rule: Callable[..., None]) -> None:
    rule(MemoryStore())


@pytest.mark.parametrize("rule", RULES)
def test_on_a_home(rule: Callable[..., None]) -> None:
    rule(HomeConnectors(cast("DefinitionBook", MemoryBook(HomeLog()))))


def test_who_removes_a_connector_is_written_before_it_goes() -> None:
    """Given a connector / when it is removed / then its last row says who and when; none has it."""
    log = HomeLog()
    store = HomeConnectors(cast("DefinitionBook", MemoryBook(log)))
    (one,) = stored(SOURCE, by="ann", at_ms=5)
    store.write(one)
    store.remove(one.name, "ben", 9)
    *_, last, removal = log.rows
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
