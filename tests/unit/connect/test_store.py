"""Connectors in memory behave as those on a home cluster; the same rules are held to both."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from unit.connect.kept import MemoryStore
from unit.connect.store_contract import RULES

from heliostat.connect.store import connectors_in
from heliostat.definitions.definition import Definition, DefinitionKey, DefinitionKind


@pytest.mark.parametrize("rule", RULES)
def test_in_memory(rule: Callable[..., None]) -> None:
    rule(MemoryStore())


def test_a_row_that_is_none_is_shown_as_one_that_can_be_no_link() -> None:
    key = DefinitionKey(DefinitionKind.CONNECTOR, "a")
    other = DefinitionKey(DefinitionKind.LINK, "b")
    rows = {
        key: Definition(key, {"topics": []}, "ann", 1),
        other: Definition(other, {}, "ann", 1),
    }
    (one,) = connectors_in(rows).values()
    assert (one.name, one.config, one.plugin) == ("a", {}, None)
