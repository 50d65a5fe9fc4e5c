"""Definitions as rows: what is written is read again, and what is none is refused."""

from __future__ import annotations

import pytest

from heliostat.definitions.definition import Definition, DefinitionKey, DefinitionKind
from heliostat.names import Offset

KEY = DefinitionKey(DefinitionKind.CONNECTOR, "a/b->c")
ROW = Definition(KEY, {"topics": "foo"}, "ann", 5, "a trial", {"state": "PAUSED"}, Offset(7))


def test_a_row_is_read_as_it_was_written() -> None:
    assert Definition.from_json(KEY.key, ROW.to_json(), Offset(7)) == ROW


@pytest.mark.parametrize("key", ["link", "link/", "topic/x", "/x", ""])
def test_another_key_names_no_definition(key: str) -> None:
    with pytest.raises(ValueError, match=r"names no definition|is not a valid"):
        DefinitionKey.of_key(key)


@pytest.mark.parametrize(
    "wrong", [{"content": "x"}, {"extra": []}, {"by": 1}, {"why": None}, {"at_ms": "x"}]
)
def test_a_record_that_is_no_row_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises((ValueError, TypeError)):
        Definition.from_json(KEY.key, ROW.to_json() | wrong, Offset(0))


def test_a_row_without_a_field_is_refused() -> None:
    row = ROW.to_json()
    del row["by"]
    with pytest.raises(LookupError):
        Definition.from_json(KEY.key, row, Offset(0))
