"""Connectors in memory behave as those on a home cluster; the same rules are held to both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from unit.connect.kept import MemoryStore
from unit.connect.store_contract import RULES
from unit.connect.technote import HEARTBEAT, stored

from heliostat.connect.store import HomeConnectors, connectors_in
from heliostat.definitions.definition import Definition, DefinitionKey, DefinitionKind
from heliostat.names import Offset
from heliostat.wishes.wish import WishedState


@pytest.mark.parametrize("rule", RULES)
def test_in_memory(rule: Callable[..., None]) -> None:
    rule(MemoryStore())


class Log:
    """The home's topic as one service reads it."""

    def __init__(self) -> None:
        self.definitions: dict[DefinitionKey, Definition] = {}
        self.position = Offset(0)

    def ensure(self) -> None:
        """It is there."""

    def read(self) -> None:
        """All is read."""

    def consume(self, _: float) -> bool:
        return False

    def write(self, *rows: Definition) -> Offset:
        for row in rows:
            self.definitions[row.key] = replace(row, generation=self.position)
            self.position = Offset(self.position + 1)
        return Offset(self.position - 1)

    def remove(self, keys: Sequence[DefinitionKey]) -> None:
        for key in keys:
            self.definitions.pop(key, None)


def at_home() -> tuple[HomeConnectors, Log]:
    log = Log()
    return HomeConnectors(log), log  # type: ignore[arg-type]  # stands for it


@pytest.mark.parametrize("rule", RULES)
def test_at_home(rule: Callable[..., None]) -> None:
    rule(at_home()[0])


def test_the_state_in_a_row_of_an_earlier_version_is_kept() -> None:
    """Given a row with its state in it / when its configuration, then its state changes / then

    neither is lost, and what an earlier version writes after that counts.
    """
    store, log = at_home()
    (one,) = stored(HEARTBEAT, by="ann", at_ms=5)
    paused = replace(one.to_definition(), extra={"state": "paused", "link": ""})
    log.write(paused)
    assert store.read()[one.name].state is WishedState.PAUSED
    store.write(store.read()[one.name])
    assert log.definitions[one.key].extra == {"link": ""}
    assert store.read()[one.name].state is WishedState.PAUSED
    store.wish(one)
    assert store.read()[one.name].state is WishedState.RUNNING
    log.write(paused)
    assert store.read()[one.name].state is WishedState.PAUSED


def test_a_row_that_is_none_is_shown_as_one_that_can_be_no_link() -> None:
    key = DefinitionKey(DefinitionKind.CONNECTOR, "a")
    other = DefinitionKey(DefinitionKind.LINK, "b")
    rows = {
        key: Definition(key, {"topics": []}, "ann", 1),
        other: Definition(other, {}, "ann", 1),
    }
    (one,) = connectors_in(rows).values()
    assert (one.name, one.config, one.plugin) == ("a", {}, None)
