"""Ids of a target that mean the same, as `verify` takes them for one."""

from __future__ import annotations

from heliostat.operate.schemas import _alike
from heliostat.schemas.registry.values import (
    Schema,
    SchemaId,
    SchemaReference,
    SchemaVersion,
    Subject,
)

TEXTS = {
    1: Schema('"int"'),
    2: Schema('"string"'),
    3: Schema(' "int" '),
    4: Schema('"string"', "JSON"),
    5: Schema('"int"', references=(SchemaReference("a", Subject("b"), SchemaVersion(1)),)),
}
CONTENT = {SchemaId(number): schema for number, schema in TEXTS.items()}


def test_the_id_that_is_used_stands_for_those_with_its_content() -> None:
    """Given ids with the same text, whatever they refer to / then the one in records stands."""
    assert _alike(CONTENT, [SchemaId(3), SchemaId(2)]) == {1: 3, 5: 3}
    assert _alike(CONTENT, [SchemaId(2)]) == {3: 1, 5: 1}
    assert _alike(CONTENT, [SchemaId(1), SchemaId(5)]) == {1: 5, 3: 5}


def test_contents_of_their_own_stand_for_nothing_else() -> None:
    assert _alike({SchemaId(1): TEXTS[1], SchemaId(2): TEXTS[2]}, []) == {}
