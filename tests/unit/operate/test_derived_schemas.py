"""What pipelines make of schemas, as `heliostat schemas` shows it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.registry_server import RegistryServer, Reply
from unit.link.test_avro_part import MIRRORS, Part, order

from heliostat.access import RegistryAccess
from heliostat.cli.schemas import schema_lines
from heliostat.errors import RegistryError
from heliostat.names import LinkName
from heliostat.operate.derived_schemas import DerivedSchema, derived_schemas
from heliostat.operate.schemas import LinkSchemas
from heliostat.schemas import HttpRegistry, SchemaPlan, observe_registry
from heliostat.schemas.registry import Retries
from heliostat.schemas.registry.values import SchemaId, Subject

AT_TARGET = Subject("east.foo-value")


@pytest.fixture
def servers() -> Iterator[tuple[RegistryServer, RegistryServer]]:
    with RegistryServer() as source, RegistryServer() as target:
        yield source, target


def seen(part: Part, source: RegistryServer) -> tuple[DerivedSchema, ...]:
    sides = [
        HttpRegistry(RegistryAccess((each.url,)), retries=Retries(turns=1))
        for each in (source, part.target)
    ]
    try:
        return derived_schemas(part.link, MIRRORS, observe_registry(sides[0]), sides[1])
    finally:
        for each in sides:
            each.close()


def lines(found: tuple[DerivedSchema, ...], **more: Any) -> list[str]:
    link = LinkSchemas(LinkName("l"), "isolate", (), SchemaPlan((), {}, {}, {}, {}, 1), found)
    assert link.in_sync is all(each.target_id is not None for each in found)
    return list(schema_lines(link, **more))[1:]


def test_what_a_step_makes_is_missing_until_a_link_has_registered_it(
    servers: tuple[RegistryServer, RegistryServer],
) -> None:
    """Given two versions, and one that the step can't change / then each is told, and looking

    registers nothing; after the link's turn each has the id that its records have.
    """
    part = Part(*servers, drop=["a"])
    old = part.register("foo-value", order("a"))
    new = part.register("foo-value", order("a", "b"))
    before = seen(part, servers[0])
    assert before == tuple(
        DerivedSchema("p", SchemaId(each), (AT_TARGET,), None) for each in (old, new)
    )
    assert part.target.double.subjects == {}
    assert lines(before) == [
        "made by pipelines: 2 schemas, 2 not at the target",
        f"  + id {old} through p → {AT_TARGET}",
        f"  + id {new} through p → {AT_TARGET}",
    ]
    part.turn()
    after = seen(part, servers[0])
    assert {row.schema_id: row.target_id for row in after} == {
        each.schema_id: each.target_id for each in part.schemas.values()
    }
    assert lines(after) == ["made by pipelines: 2 schemas, 0 not at the target"]
    assert f"  = id {old} through p → {AT_TARGET} id 1" in lines(after, shows_all=True)
    part.source.set_level("foo-value", "NONE")
    part.register("foo-value", '"string"')
    *_, refused = seen(part, servers[0])
    assert refused.target_id is None
    assert "record" in refused.reason
    assert lines((refused,))[1].startswith(f"  ! id {refused.schema_id} through p: ")
    part.close()


def test_a_filter_makes_none(servers: tuple[RegistryServer, RegistryServer]) -> None:
    part = Part(*servers, where="fields.a > 1")
    part.register("foo-value", order("a"))
    assert seen(part, servers[0]) == ()
    part.close()


def test_a_registry_that_refuses_is_no_missing_schema(
    servers: tuple[RegistryServer, RegistryServer],
) -> None:
    part = Part(*servers, drop=["a"])
    part.register("foo-value", order("a"))
    servers[1].troubles.append(lambda asked: Reply(403) if asked.method == "POST" else None)
    with pytest.raises(RegistryError, match="403"):
        seen(part, servers[0])
    part.close()
