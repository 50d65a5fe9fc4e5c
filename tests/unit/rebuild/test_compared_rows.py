"""Rows of links that put other schema ids into records, compared without them."""

from __future__ import annotations

import pytest

from heliostat.config import LinkConfig, SchemasConfig
from heliostat.framed_ids import without_id
from heliostat.rebuild.compared_rows import view_of


def link(strategy: str) -> LinkConfig:
    schemas = SchemasConfig(strategy=strategy)  # type: ignore[arg-type]  # as read from a file
    return LinkConfig(name="l", source="east", target="west", schemas=schemas)


def test_only_links_that_replace_ids_are_compared_without_them() -> None:
    """Given a row with ids / then its key and value have none, and all else is as it was."""
    for strategy in ("off", "preserve", "isolate"):
        assert view_of(link(strategy)) is None
    view = view_of(link("rewrite"))
    assert view is not None
    row = (7, 1_000, b"\0\0\0\0\5k", b"\0\1\2\3\4v", [("h", b"\0\0\0\0\5")])
    shown = (7, 1_000, b"\0\0\0\0\0k", b"\0\0\0\0\0v", [("h", b"\0\0\0\0\5")])
    assert view(row) == shown


@pytest.mark.parametrize("content", [None, b"", b"\0", b"\0\0\0\1", b"\1\0\0\0\1", b"\1\0\0\0\1x"])
def test_what_has_no_id_stays(content: bytes | None) -> None:
    assert without_id(content) == content
