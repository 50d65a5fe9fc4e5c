"""The registry double keeps the contract over real HTTP, and has Confluent's own rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from support.registry_contract import SCRIPTS, RegistrySide
from support.registry_server import RegistryServer

from heliostat.access import RegistryAccess
from heliostat.schemas.registry import HttpRegistry


@pytest.fixture
def side() -> Iterator[RegistrySide]:
    access = [RegistryServer()]
    with access[0] as server, HttpRegistry(RegistryAccess((server.url,))) as registry:
        yield RegistrySide(registry)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.__name__)
def test_the_double_answers_like_a_registry(
    side: RegistrySide, script: Callable[[RegistrySide], None]
) -> None:
    script(side)
