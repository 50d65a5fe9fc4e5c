"""How rows of both sides are compared, where a link changes records on their way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager

from heliostat.config import LinkConfig
from heliostat.framed_ids import headers_without_ids, without_id
from heliostat.link.pipeline_rules import pipeline_of
from heliostat.names import TopicName, TopicPartition
from heliostat.verify.piped import Pipes
from heliostat.verify.schema_ids import RowView, Views
from heliostat.verify.stream_values import ConsumedRecord

OpenPipes = Callable[[Mapping[TopicName, TopicName]], AbstractContextManager[Pipes]]
"""Makes a link's pipelines ready for these mirrors: target topics by source topic."""
ViewsOf = Callable[[TopicPartition], Views]
"""Returns how a partition of the source and its mirror are compared."""


@contextmanager
def compared_rows(
    link: LinkConfig, mirrors: Mapping[TopicName, TopicName], open_pipes: OpenPipes
) -> Iterator[ViewsOf]:
    """Yield how mirrors are compared; Spark is started if one of them has a pipeline.

    Parameters
    ----------
    link
        The link.
    mirrors
        Target topics by source topic.
    open_pipes
        Makes the pipelines ready.

    Raises
    ------
    SparkUnavailable
        Spark can't be started.
    RegistryError, RegistryUnreachable, RegistryAnswerInvalid
        A registry does not answer, or refuses, if a pipeline needs schemas.
    """
    ids = view_of(link)
    if not any(pipeline_of(link, source) for source in mirrors):
        yield lambda _: Views(ids, ids)
        return
    with open_pipes(mirrors) as pipes:
        piped = pipes.topics
        yield lambda source: Views(ids, ids, pipes.of(source) if source.topic in piped else None)


def view_of(link: LinkConfig) -> RowView | None:
    """Return how a link's rows are compared; None: as they are.

    Without ids rows tell as well whose they are, and no registry has to answer.
    """
    return _without_ids if link.schemas.strategy == "rewrite" else None


def _without_ids(row: ConsumedRecord) -> ConsumedRecord:
    offset, timestamp, key, value, headers = row
    contents = without_id(key), without_id(value), list(headers_without_ids(headers))
    return offset, timestamp, *contents
