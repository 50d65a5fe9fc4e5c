"""Whether both logs of a partition are equal up to a promotion, and what lies behind it."""

from __future__ import annotations

from dataclasses import dataclass

from heliostat.clusters.plain_records import PlainReader, PlainRecord
from heliostat.handover.promotion import PartitionPromotion
from heliostat.names import Offset, TopicPartition
from heliostat.verify.schema_ids import RowView

_Content = tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]
COMPARED = 100
"""Offsets below the promotion whose records must be equal; `heliostat verify` compares all."""
COPIED_WHOLE = "with `--tail recreate` the topic is made anew there, and copied whole"


@dataclass(frozen=True, slots=True)
class LogEndsCompared:
    """Compares the ends of both logs."""

    old: PlainReader
    new: PlainReader
    view: RowView | None = None
    """How records are compared; None: as they are."""

    def tail(self, partition: TopicPartition, source_end: int, old_end: int) -> int:
        """Return how many records there may be; 0 if there are only markers and aborted ones."""
        if old_end <= source_end:
            return 0
        first = next(iter(self.old.read(partition, source_end, old_end)), None)
        return 0 if first is None else old_end - first.offset

    def difference(
        self,
        at_old: TopicPartition,
        at_new: TopicPartition,
        promotion: PartitionPromotion,
        old_end: Offset,
    ) -> str:
        """Return how the logs differ below the promotion; empty if they don't."""
        if old_end < promotion.source_end:
            return (
                f"{at_old} ends at {old_end}, and was copied up to {promotion.source_end}: the old "
                f"source has lost records; {COPIED_WHOLE}"
            )
        here = self._last(self.old, at_old, promotion.source_end)
        there = self._last(self.new, at_new, promotion.target_end)
        for mine, theirs in zip(reversed(here), reversed(there), strict=False):
            if mine != theirs:
                return (
                    f"records below offset {promotion.source_end} of {at_old} are others than in "
                    f"{at_new}: an election at the old source may have replaced them; "
                    f"{COPIED_WHOLE}"
                )
        return ""

    def _last(self, reader: PlainReader, partition: TopicPartition, end: int) -> list[_Content]:
        """Return the contents of the last records below an offset that are still there."""
        start = max(reader.bounds([partition])[partition].start, end - COMPARED)
        return [self._content(record) for record in reader.read(partition, start, end)]

    def _content(self, record: PlainRecord) -> _Content:
        if self.view is None:
            return record.key, record.value, record.headers
        offset, at_ms, key, value, headers = record
        _, _, key, value, shown = self.view((offset, at_ms, key, value, list(headers)))
        return key, value, tuple(shown)
