"""A registry far away: requests are in flight together, in the order that matters."""

from __future__ import annotations

import itertools
import threading
from typing import Any

import pytest
from support.registry_server import RegistryServer

from heliostat.access import RegistryAccess
from heliostat.clock import SystemClock
from heliostat.schemas import HttpRegistry
from heliostat.schemas.apply import apply_schemas
from heliostat.schemas.content import RegistryContent
from heliostat.schemas.observe import with_levels_of
from heliostat.schemas.registry import calls
from heliostat.schemas.registry.over_http import AT_ONCE, AT_ONCE_FAR
from heliostat.schemas.registry.values import Compatibility, Mode, Subject
from heliostat.schemas.schema_plan import SchemaPlan, SchemaRules, SetMode, Strategy

SUBJECTS = [Subject(f"s{number}-value") for number in range(32)]
TIMEOUT_S = 5.0


class Crowded:
    """A registry that answers when so many requests are in flight."""

    def __init__(self, at_once: int, wanted: int) -> None:
        self.at_once = at_once
        self._begun = threading.Barrier(wanted, timeout=TIMEOUT_S)
        self._lock = threading.Lock()
        self._under_way = self.most = 0

    def ask(self, _: object) -> Any:
        with self._lock:
            self._under_way += 1
            self.most = max(self.most, self._under_way)
        self._begun.wait()
        with self._lock:
            self._under_way -= 1
        return Compatibility.FULL


def modes(at_once: int) -> SchemaPlan:
    return SchemaPlan(tuple(SetMode(each, Mode.IMPORT) for each in SUBJECTS), at_once=at_once)


def test_as_many_are_asked_at_once_as_the_line_needs() -> None:
    registry = Crowded(16, 16)
    found = with_levels_of(
        RegistryContent({}, True, {}, {}, Compatibility.NONE), registry, SUBJECTS
    )
    assert list(found.compatibilities) == sorted(SUBJECTS)
    assert registry.most == 16


def test_independent_actions_are_as_many_at_once() -> None:
    registry = Crowded(16, 16)
    apply_schemas(modes(8), SchemaRules(Strategy.PRESERVE), registry)
    assert registry.most == 16


def test_who_takes_only_one_at_a_time_gets_one_however_far() -> None:
    """Apicurio breaks if schemas are registered at the same time."""
    registry = Crowded(16, 1)
    apply_schemas(modes(1), SchemaRules(Strategy.PRESERVE), registry)
    assert registry.most == 1


class Slow(SystemClock):
    """A clock by which each step takes so long."""

    def __init__(self, step_s: float) -> None:
        self._steps = itertools.count()
        self._step_s = step_s

    def monotonic_s(self) -> float:
        return next(self._steps) * self._step_s


@pytest.mark.parametrize(("step_s", "expected"), [(0.15, AT_ONCE_FAR), (0.002, AT_ONCE)])
def test_the_fastest_answer_shows_how_far_it_is(step_s: float, expected: int) -> None:
    with (
        RegistryServer() as server,
        HttpRegistry(RegistryAccess((server.url,)), clock=Slow(step_s)) as registry,
    ):
        assert registry.at_once == AT_ONCE
        registry.ask(calls.mode())
        assert registry.at_once == expected
