"""A source whose records go through a pipeline, as what the pipeline makes of them.

What a mirror must have is computed anew, by Spark and from the source's records as a consumer sees
them: a pipeline that the link has done on the bytes of batches is checked by other code.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from heliostat.names import Offset, TopicName, TopicPartition
from heliostat.verify.stream_values import Batch, ConsumedRecord, DecodedBatch

RECORDS_TOGETHER = 20_000  # a job of Spark takes 0.5 s and more; 50,000 are no faster
BYTES_TOGETHER = 8 * 1024 * 1024  # of batches as stored, then of what is in their records
_LOG_APPEND_TIME = 0x08  # attribute bit of a batch (KIP-32)


class Pipe(Protocol):
    """A pipeline that the records of one partition go through."""

    def __call__(
        self, rows: Sequence[ConsumedRecord], *, is_log_append_time: bool
    ) -> Sequence[ConsumedRecord]:
        """Return what it makes of these records, at their offsets; without those dropped.

        Raises
        ------
        PipelineRefused, TransformFailed
            Spark can't run the pipeline, or it breaks the order of records.
        """
        ...


class Pipes(Protocol):
    """The pipelines of a link."""

    @property
    def topics(self) -> frozenset[TopicName]:
        """Source topics whose records go through one."""
        ...

    def of(self, partition: TopicPartition) -> Pipe:
        """Return the pipeline that a partition's records go through."""
        ...

    @property
    def failed(self) -> Mapping[TopicPartition, Mapping[Offset, str]]:
        """Records at which a pipeline failed, so far, and why: the mirror must not have them."""
        ...


def piped(batches: Iterable[Batch], pipe: Pipe) -> Iterator[Batch]:
    """Yield batches as a pipeline makes them; several become one."""
    waiting: list[Batch] = []
    records = size = 0
    for batch in batches:
        is_enough = size >= BYTES_TOGETHER or records >= RECORDS_TOGETHER
        if waiting and (is_enough or _kind(batch) != _kind(waiting[0])):
            yield _together(waiting, pipe)
            waiting, records, size = [], 0, 0
        waiting.append(batch)
        records, size = records + batch.records, size + len(batch.data)
    if waiting:
        yield _together(waiting, pipe)


def _kind(batch: Batch) -> int:
    return batch.meaning[0] & _LOG_APPEND_TIME


def _together(batches: Sequence[Batch], pipe: Pipe) -> DecodedBatch:
    first, last = batches[0], batches[-1]
    rows = [row for each in batches for row in each.rows(each.base_offset, each.next_offset)]
    is_log_append_time = bool(_kind(first))
    made = tuple(
        row for some in _pieces(rows) for row in pipe(some, is_log_append_time=is_log_append_time)
    )
    return DecodedBatch(
        first.base_offset, last.next_offset, len(made), first.meaning, first.data, made
    )


def _pieces(rows: Sequence[ConsumedRecord]) -> Iterator[Sequence[ConsumedRecord]]:
    """Cut rows where they get large: a compressed batch may be 200 times what is stored."""
    start = size = 0
    for at, (_, _, key, value, headers) in enumerate(rows):
        if size >= BYTES_TOGETHER or at - start >= RECORDS_TOGETHER:
            yield rows[start:at]
            start, size = at, 0
        size += len(key or b"") + len(value or b"") + sum(len(each or b"") for _, each in headers)
    if start < len(rows):
        yield rows[start:]
