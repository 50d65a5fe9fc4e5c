"""Rows of links that put other schema ids into records, compared without them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Self

import pytest

from heliostat.config import LinkConfig, SchemasConfig
from heliostat.config.pipelines import PipelineConfig, StepConfig
from heliostat.framed_ids import without_id
from heliostat.names import Offset, PartitionId, TopicName, TopicPartition
from heliostat.rebuild.compared_rows import compared_rows, view_of
from heliostat.verify.piped import Pipe

PIPED, PLAIN = TopicName("piped"), TopicName("plain")


def link(strategy: str, *pipelines: PipelineConfig) -> LinkConfig:
    schemas = SchemasConfig(strategy=strategy)  # type: ignore[arg-type]  # as read from a file
    return LinkConfig(name="l", source="east", target="west", schemas=schemas, pipelines=pipelines)


class OnePiped:
    """Pipelines that are opened, and say so."""

    topics = frozenset({PIPED})

    def __init__(self) -> None:
        self.failed: dict[TopicPartition, dict[Offset, str]] = {}
        self.opened: list[str] = []

    def of(self, partition: TopicPartition) -> Pipe:
        return lambda rows, is_log_append_time: rows

    @contextmanager
    def open(self, mirrors: Mapping[TopicName, TopicName]) -> Iterator[Self]:
        self.opened.append("opened")
        yield self
        self.opened.append("closed")


def test_only_mirrors_with_a_pipeline_are_seen_through_it() -> None:
    """Given topics with and without a pipeline / when none of the first is compared / then Spark

    is not asked; else the source's side of those alone is seen through it.
    """
    pipeline = PipelineConfig(name="p", topics=(PIPED,), steps=(StepConfig(where="true"),))
    piped = OnePiped()
    one, other = (TopicPartition(topic, PartitionId(0)) for topic in (PIPED, PLAIN))
    with compared_rows(link("rewrite", pipeline), {PLAIN: PLAIN}, piped.open) as views_of:
        assert views_of(other).pipe is None
    assert piped.opened == []
    with compared_rows(link("off", pipeline), {PLAIN: PLAIN, PIPED: PIPED}, piped.open) as views_of:
        assert (views_of(one).pipe is None, views_of(other).pipe is None) == (False, True)
    assert piped.opened == ["opened", "closed"]


def test_only_links_that_replace_ids_are_compared_without_them() -> None:
    """Given a row with ids / then its key and value have none, and all else is as it was."""
    for strategy in ("off", "preserve", "isolate"):
        assert view_of(link(strategy)) is None
    view = view_of(link("rewrite"))
    assert view is not None
    name = "__value_schema_id"
    header, no_header = (name, b"\1" + b"g" * 16), (name, b"\1" + bytes(16))
    row = (7, 1_000, b"\0\0\0\0\5k", b"\0\1\2\3\4v", [("h", b"\0\0\0\0\5"), header])
    shown = (7, 1_000, b"\0\0\0\0\0k", b"\0\0\0\0\0v", [("h", b"\0\0\0\0\5"), no_header])
    assert view(row) == shown


@pytest.mark.parametrize("content", [None, b"", b"\0", b"\0\0\0\1", b"\1\0\0\0\1", b"\1\0\0\0\1x"])
def test_what_has_no_id_stays(content: bytes | None) -> None:
    assert without_id(content) == content
