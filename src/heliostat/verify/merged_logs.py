"""Both logs of a compacted partition that several sites write: anybody's record supersedes.

Of a site's log only a part is compared: the target's own batches of the link, and of the source's
what no link has brought. A cleaner looks at all of it, so what is passed over counts as newer, too.
Where in a log a record that is gone was, is not known: all behind the one before it counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from typing_extensions import override

from heliostat.names import TopicPartition
from heliostat.verify.both_logs import BothLogs, rows_of
from heliostat.verify.mapped import without
from heliostat.verify.origin import Origin, OwnRecords
from heliostat.verify.ranges import Stretch
from heliostat.verify.reader import LogReader
from heliostat.verify.schema_ids import Views
from heliostat.verify.stream import Batch, ConsumedRecord, PartitionStream


class MergedLogs(BothLogs):
    """See `BothLogs`.

    Parameters
    ----------
    source, target, stretch, start, views
        See there.
    origin
        Whose records are compared.
    """

    def __init__(  # noqa: PLR0917  # as BothLogs, and the origin
        self,
        source: LogReader,
        target: LogReader,
        stretch: Stretch,
        start: int,
        views: Views,
        origin: Origin,
    ) -> None:
        super().__init__(source, target, stretch, start, views)
        self._origin = origin
        self._at_source: set[bytes] = set()
        self._at_target: set[bytes] = set()
        self._repeats = False

    @property
    @override
    def repeats(self) -> bool:
        """See `BothLogs`."""
        return self._repeats

    @override
    def source(self) -> Iterator[ConsumedRecord]:
        """See `Logs`."""

        def seen(batches: Iterable[Batch]) -> Iterable[Batch]:
            passed = _adding(self._at_source)
            return self._views.of_source(self._origin.of_site(batches, passed))

        end = self._stretch.end
        return rows_of(self._source, self._stretch.source, self._start, end, seen)

    @override
    def target(self) -> Iterator[ConsumedRecord]:
        """See `Logs`; by number."""
        places, end = self._stretch.places, self._target_end
        low = places.target_at(self._start)
        whole = PartitionStream(
            self._target, self._stretch.target, self._origin.start, self._origin.end
        )
        own = OwnRecords(whole, self._origin, low, end, _adding(self._at_target))

        def rows() -> Iterator[ConsumedRecord]:
            for batch in self._views.of_target(own):
                yield from batch.rows(low, end)
            self._repeats = own.repeated_at is not None

        return without(rows(), places.lost_source_ranges())

    @override
    def source_others(self) -> set[bytes]:
        """See `Logs`."""
        return _drained(self._at_source)

    @override
    def target_others(self) -> set[bytes]:
        """See `Logs`."""
        return _drained(self._at_target)

    @override
    def source_later(self) -> Iterator[ConsumedRecord]:
        """See `Logs`; whoever wrote them."""
        return _rest(self._source, self._stretch.source, self._stretch.end)

    @override
    def target_later(self) -> Iterator[ConsumedRecord]:
        """See `Logs`; whoever wrote them."""
        return _rest(self._target, self._stretch.target, self._origin.end)

    @override
    def target_row(self, offset: int) -> ConsumedRecord | None:
        """See `Logs`; by number."""
        some = rows_of(
            self._target,
            self._stretch.target,
            offset,
            offset + 1,
            self._views.of_target,
            origin=self._origin,
        )
        return next(some, None)


def _adding(keys: set[bytes]) -> Callable[[Batch], None]:
    def add(batch: Batch) -> None:
        rows = batch.rows(batch.base_offset, batch.next_offset)
        keys.update(row[2] for row in rows if row[2] is not None)

    return add


def _drained(keys: set[bytes]) -> set[bytes]:
    found = set(keys)
    keys.clear()
    return found


def _rest(reader: LogReader, partition: TopicPartition, start: int) -> Iterator[ConsumedRecord]:
    bounds = reader.bounds([partition])[partition]
    return rows_of(reader, partition, max(start, bounds.start), bounds.end, lambda batches: batches)
