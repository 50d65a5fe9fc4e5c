"""A running link's schemas where the target gives ids of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.registry_server import RegistryServer
from unit.link.test_schema_part import BAR, FOO, Running

from heliostat.records.copier.lane import SchemaFrames, SchemaIds


@pytest.fixture
def servers() -> Iterator[tuple[RegistryServer, RegistryServer]]:
    with RegistryServer() as source, RegistryServer() as target:
        yield source, target


def test_ids_of_the_target_are_announced_where_they_are_its_own(
    servers: tuple[RegistryServer, RegistryServer],
) -> None:
    """Given a target that has schemas under the same ids / when strategy is rewrite / then each id

    is announced with the target's, and a reconciliation is asked for once a subject says that
    values have ids, not again.
    """
    running = Running(*servers, strategy="rewrite")
    for number in range(3):
        running.register(f"local-{number}-value", at_target=True)
    own, other = running.register("foo-value"), running.register("lsst.sal.Foo")
    running.turn()
    there = [running.target.double.subjects[name] for name in ("foo-value", "lsst.sal.Foo")]
    assert len(there) == 2
    assert running.told == [SchemaIds(((own, other),), (), (3,))]
    assert running.part.frames(FOO) == SchemaFrames.VALUES | SchemaFrames.REPLACED
    assert running.part.frames(BAR) == SchemaFrames.MAYBE_VALUES | SchemaFrames.REPLACED
    running.turn()
    assert running.reframed == 1
    running.register("foo-key")
    running.turn()
    assert running.reframed == 2
    running.part.close()


def test_no_reconciliation_is_asked_for_where_ids_stay(
    servers: tuple[RegistryServer, RegistryServer],
) -> None:
    running = Running(*servers)
    running.register("foo-value")
    running.turn()
    assert running.reframed == 0
    running.part.close()
