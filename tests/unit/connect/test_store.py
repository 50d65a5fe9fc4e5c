"""Connectors in memory behave as those on a home cluster; the same rules are held to both."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from unit.connect.kept import MemoryStore
from unit.connect.store_contract import RULES


@pytest.mark.parametrize("rule", RULES)
def test_in_memory(rule: Callable[..., None]) -> None:
    rule(MemoryStore())
