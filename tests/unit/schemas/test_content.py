"""Content that registries give back for each other is equal, and nothing else is."""

from __future__ import annotations

import pytest

from heliostat.schemas.content import EVERYWHERE, RegistryContent, fingerprint
from heliostat.schemas.registry.values import (
    Mode,
    Schema,
    SchemaReference,
    SchemaVersion,
    Subject,
)

RECORD = (
    '{"type":"record","name":"a","fields":[{"name":"x","type":"int"},{"name":"y","type":"int"}]}'
)
V1 = SchemaVersion(1)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Schema('{"type": "int"}'), Schema('{"type":"int"}')),
        (Schema('{"type":"int","units":"m"}'), Schema('{"units":"m","type":"int"}')),
        (Schema('{"title":"\\u00fc"}', "JSON"), Schema('{"title":"ü"}', "JSON")),
        (Schema("message M {\n}", "PROTOBUF"), Schema("message M {}", "PROTOBUF")),
    ],
)
def test_another_form_of_the_same(one: Schema, other: Schema) -> None:
    assert fingerprint(one) == fingerprint(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Schema('{"type":"int"}'), Schema('{"type":"int"}', "JSON")),
        (Schema('{"type":"int"}'), Schema('{"type":"int","units":"m"}')),
        (Schema('{"default":1}'), Schema('{"default":1.0}')),
        (Schema('{"default":1}'), Schema('{"default":true}')),
        (Schema(RECORD), Schema(RECORD.replace('"x"', '"z"').replace('"y"', '"x"'))),
        (Schema("{}"), Schema("{}", metadata="{}")),
        (Schema("{}"), Schema("{}", references=(SchemaReference("n", Subject("s"), V1),))),
        (Schema("no json"), Schema("nojson")),
        (Schema("message M{}", "PROTOBUF"), Schema("message N{}", "PROTOBUF")),
    ],
)
def test_what_is_not_the_same(one: Schema, other: Schema) -> None:
    assert fingerprint(one) != fingerprint(other)


def test_the_mode_of_the_nearest_scope_counts() -> None:
    content = RegistryContent(
        modes={
            Subject("a"): Mode.IMPORT,
            Subject(""): Mode.READONLY,
            Subject(":.c:"): Mode.FORWARD,
            EVERYWHERE: Mode.READONLY_OVERRIDE,
        }
    )
    found = [content.mode(Subject(name)) for name in ("a", "b", ":.c:a", ":.d:a")]
    assert found == [Mode.IMPORT, Mode.READONLY, Mode.FORWARD, Mode.READONLY_OVERRIDE]
    assert RegistryContent().mode(Subject("a")) is Mode.READWRITE
