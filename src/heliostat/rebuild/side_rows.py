"""Both sides of a partition as rows; of a merged one what no link brought, and own records."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from heliostat.names import TopicPartition
from heliostat.verify.both_logs import rows_of
from heliostat.verify.both_readers import BothReaders
from heliostat.verify.reader import FetchedPart
from heliostat.verify.schema_ids import Views
from heliostat.verify.stream_values import ConsumedRecord


@dataclass(frozen=True, slots=True)
class SideRows:
    """Both sides of one partition, see `proof.Rows`; with an origin the target is by numbers."""

    of_source: TopicPartition
    of_target: TopicPartition
    readers: BothReaders
    views: Views
    firsts: tuple[FetchedPart | None, FetchedPart | None] = (None, None)

    def source(self, start: int, stop: int) -> Iterator[ConsumedRecord]:
        """Yield the source's records."""
        view, first = self.views.of_source, self.firsts[0]
        return rows_of(self.readers.source, self.of_source, start, stop, view, first=first)

    def target(self, start: int, stop: int) -> Iterator[ConsumedRecord]:
        """Yield the mirror's records."""
        view, first = self.views.of_target, self.firsts[1]
        origin = self.views.origin
        reader = self.readers.target
        return rows_of(reader, self.of_target, start, stop, view, first=first, origin=origin)
