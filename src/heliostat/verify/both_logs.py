"""Both sides of one partition as rows, which can be read repeatedly."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from typing_extensions import override

from heliostat.clusters.kafka_codes import OFFSET_OUT_OF_RANGE
from heliostat.errors import BrokerError
from heliostat.names import TopicPartition
from heliostat.verify.compaction import Logs
from heliostat.verify.mapped import without
from heliostat.verify.origin import Origin, target_stream
from heliostat.verify.ranges import Stretch
from heliostat.verify.reader import FetchedPart, LogReader
from heliostat.verify.schema_ids import AS_THEY_ARE, Views
from heliostat.verify.stream import Batch, ConsumedRecord

StreamView = Callable[[Iterable[Batch]], Iterable[Batch]]
"""How batches of one side are compared, see `Views`."""


class BothLogs(Logs):
    """Reader of a stretch from a source offset on; see `heliostat.verify.compaction.Logs`.

    Parameters
    ----------
    source, target
        Connections to both sides.
    stretch
        Compared stretch.
    start
        Source offset at which to begin.
    views
        How the rows of both sides are seen.
    """

    def __init__(
        self,
        source: LogReader,
        target: LogReader,
        stretch: Stretch,
        start: int,
        views: Views = AS_THEY_ARE,
    ) -> None:
        self._source, self._target = source, target
        self._views = views
        self._stretch, self._start = stretch, start
        self._target_end = min(stretch.places.target_at(stretch.end), stretch.target_stop)

    @property
    def repeats(self) -> bool:
        """Whether a number was there twice, where several sites write."""
        return False

    @override
    def source(self) -> Iterator[ConsumedRecord]:
        """Yield the compared range."""
        return rows_of(
            self._source,
            self._stretch.source,
            self._start,
            self._stretch.end,
            self._views.of_source,
        )

    @override
    def target(self) -> Iterator[ConsumedRecord]:
        """Yield its counterpart at the target."""
        low = self._stretch.places.target_at(self._start)
        rows = rows_of(
            self._target, self._stretch.target, low, self._target_end, self._views.of_target
        )
        return without(rows, self._stretch.places.lost_source_ranges())

    @override
    def source_later(self) -> Iterator[ConsumedRecord]:
        """Yield later source records, as of now: one of them may have superseded a record."""
        return _later(self._source, self._stretch.source, self._stretch.end, self._views.of_source)

    @override
    def target_later(self) -> Iterator[ConsumedRecord]:
        """Yield later target records, as of now."""
        return _later(self._target, self._stretch.target, self._target_end, self._views.of_target)

    @override
    def source_row(self, offset: int) -> ConsumedRecord | None:
        """One record, to be shown; None if it is gone by now."""
        return _one(self._source, self._stretch.source, offset, self._views.of_source)

    @override
    def target_row(self, offset: int) -> ConsumedRecord | None:
        """One record, to be shown; None if it is gone by now."""
        return _one(self._target, self._stretch.target, offset, self._views.of_target)


def rows_of(
    reader: LogReader,
    partition: TopicPartition,
    start: int,
    stop: int,
    view: StreamView,
    *,
    first: FetchedPart | None = None,
    origin: Origin | None = None,
) -> Iterator[ConsumedRecord]:
    """Yield the records with offsets in `[start, stop)`, as `view` shows them.

    `first` was fetched before, and is used if it begins at `start`. With an `origin` it is a target
    by numbers.
    """
    stream = target_stream(reader, partition, start, stop, first=first, origin=origin)
    for batch in view(stream):
        yield from batch.rows(start, stop)


def _later(
    reader: LogReader, partition: TopicPartition, start: int, view: StreamView
) -> Iterator[ConsumedRecord]:
    bounds = reader.bounds([partition])[partition]
    return rows_of(reader, partition, max(start, bounds.start), bounds.end, view)


def _one(
    reader: LogReader, partition: TopicPartition, offset: int, view: StreamView
) -> ConsumedRecord | None:
    try:
        return next(rows_of(reader, partition, offset, offset + 1, view), None)
    except BrokerError as error:
        if error.kafka_code == OFFSET_OUT_OF_RANGE:
            return None
        raise
