"""Mirrors a registry's content in a test, and reads at the target what consumers would."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from support.registry_contract import V1, record, referring_to, without_default

from heliostat.schemas import (
    AppliedSchemas,
    HttpRegistry,
    SchemaPlan,
    SchemaRules,
    apply_schemas,
    observe_registry,
)
from heliostat.schemas.content import fingerprint
from heliostat.schemas.mirroring import plan_with_settings
from heliostat.schemas.registry import calls
from heliostat.schemas.registry.messages import Call
from heliostat.schemas.registry.values import (
    DEFAULT_CONTEXT,
    Compatibility,
    Context,
    Schema,
    SchemaId,
    Subject,
)

T = TypeVar("T")


USED, USER, CHANGING, GONE = (Subject(f"{name}-value") for name in ("used", "user", "chg", "gone"))


def fill(registry: HttpRegistry) -> None:
    """References, incompatible versions, what is soft-deleted, other types."""
    inner, old = record(), record()
    registry.ask(calls.register(USED, inner))
    registry.ask(calls.register(USER, referring_to(inner, USED)))
    registry.ask(calls.register(CHANGING, old))
    registry.ask(calls.set_compatibility(Compatibility.NONE, CHANGING))
    for schema in (without_default(old, "y"), record()):
        registry.ask(calls.register(CHANGING, schema))
    registry.ask(calls.delete_version(CHANGING, V1))
    registry.ask(calls.register(GONE, record()))
    registry.ask(calls.delete_subject(GONE))
    described = '{"$schema":"http://json-schema.org/draft-07/schema#","type":"object"}'
    registry.ask(calls.register(Subject("j-value"), Schema(described, "JSON")))
    proto = 'syntax = "proto3";\nmessage M {\n  int32 a = 1;\n}\n'
    registry.ask(calls.register(Subject("p-value"), Schema(proto, "PROTOBUF")))


class CountingRegistry:
    """Counts requests."""

    def __init__(self, registry: HttpRegistry) -> None:
        self._registry = registry
        self.at_once = registry.at_once
        self.asked = 0

    def ask(self, call: Call[T]) -> T:
        """See `HttpRegistry`."""
        self.asked += 1
        return self._registry.ask(call)


def planned(source: HttpRegistry, target: HttpRegistry, rules: SchemaRules) -> SchemaPlan:
    """The plan, with the settings of the subjects that it touches."""
    return plan_with_settings(observe_registry(source), target, rules)


def mirror(source: HttpRegistry, target: HttpRegistry, rules: SchemaRules) -> AppliedSchemas:
    """Mirror all: two turns at most, the first of which may only set modes."""
    done = AppliedSchemas()
    for _ in range(2):
        done = apply_schemas(planned(source, target, rules), rules, target)
        assert done.failed == {}
    level = planned(source, target, rules)
    assert level.actions == ()
    assert level.ids == done.ids
    return done


def contents(
    registry: HttpRegistry, ids: Mapping[SchemaId, SchemaId], context: Context = DEFAULT_CONTEXT
) -> dict[SchemaId, tuple[str, object]]:
    """Type and content that a consumer gets, by the source's id; references must resolve."""
    found = {}
    for own, theirs in ids.items():
        schema = registry.ask(calls.schema_by_id(theirs, context))
        for reference in schema.references:
            registry.ask(calls.version(reference.subject, reference.version, deleted=True))
        found[own] = (schema.schema_type, fingerprint(schema)[1])
    return found


def at_source(
    registry: HttpRegistry, ids: Mapping[SchemaId, SchemaId]
) -> dict[SchemaId, tuple[str, object]]:
    """What the source has for the same ids."""
    return contents(registry, {own: own for own in ids})
