"""Reads records that can't be copied where they stand at the source: how far they go, and whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from heliostat.access import ClusterAccess
from heliostat.clusters.plain_records import PlainReader, PlainRecord
from heliostat.errors import BatchError
from heliostat.gaps.choices import Cause, FailingRange
from heliostat.names import Offset, TopicPartition
from heliostat.records.batches.batch import read_header
from heliostat.verify.read_requests import Isolation
from heliostat.verify.reader import LogReader

RUN_RECORDS_MAX = 1000
RUN_BYTES_MAX = 8 * 1024 * 1024
"""Records in a row that are passed at once, because they miss schemas."""
IsMissing = Callable[[PlainRecord], bool]
"""Whether a record's schemas are given up; for `SCHEMA_MISSING`."""


class Original(NamedTuple):
    """A record as it stands at the source, or the bytes of a batch that can't be decoded."""

    record: PlainRecord
    last: Offset
    is_batch: bool = False


@dataclass(frozen=True, slots=True)
class Failing:
    """What can't be copied from a position on."""

    range: FailingRange
    originals: tuple[Original, ...]


def look(
    access: ClusterAccess,
    source: TopicPartition,
    position: Offset,
    cause: Cause,
    is_missing: IsMissing = lambda _: True,
) -> Failing | None:
    """Return what can't be copied from `position` on; None: nothing any more.

    Raises
    ------
    ConnectionLost, BrokerError
        The source does not answer or refuses.
    """
    if cause is Cause.RECORD_CORRUPT:
        return _batch(access, source, position)
    if cause is Cause.SCHEMA_MISSING:
        return _run(access, source, position, is_missing)
    with PlainReader(access, committed=True) as committed:
        return _readable(committed, source, position, Offset(position + 1))


def first_missing(
    access: ClusterAccess, source: TopicPartition, position: Offset, is_missing: IsMissing
) -> PlainRecord | None:
    """Return the first record from `position` on that readers see and whose schemas are missing."""
    with PlainReader(access, committed=True) as committed:
        end = committed.bounds([source])[source].end
        records = committed.read(source, position, end)
        return next((each for each in records if is_missing(each)), None)


def _run(
    access: ClusterAccess, source: TopicPartition, position: Offset, is_missing: IsMissing
) -> Failing | None:
    """Return the records in a row that miss schemas, of those that readers see."""
    after, size = position, 0
    with PlainReader(access, committed=True) as committed:
        end = committed.bounds([source])[source].end
        for count, record in enumerate(committed.read(source, position, end)):
            if not is_missing(record) or count == RUN_RECORDS_MAX or size > RUN_BYTES_MAX:
                break
            after, size = Offset(record.offset + 1), size + len(record.value or b"")
        return None if after == position else _readable(committed, source, position, after)


def _readable(
    committed: PlainReader, source: TopicPartition, first: Offset, end: Offset
) -> Failing:
    """Return the records at offsets `[first, end)`, of which those are kept that readers see."""
    records = committed.read(source, first, end)
    found = tuple(Original(each, Offset(each.offset)) for each in records)
    return Failing(FailingRange(end, len(found)), found)


def _batch(access: ClusterAccess, source: TopicPartition, position: Offset) -> Failing | None:
    """Return the damaged batch that begins at a position.

    Its last offset is believed only if the log goes on there: no checksum covers it.
    """
    with LogReader(access, Isolation.READ_COMMITTED) as reader:
        part = reader.fetch({source: position})[source]
        try:
            header = read_header(memoryview(part.data), 0, len(part.data))
        except BatchError:
            header = None
        if header is None or not header.base_offset <= position < header.next_offset:
            return None
        after = header.next_offset
        if after < part.high_watermark:
            following = reader.fetch({source: after})[source].data
            if int.from_bytes(following[:8], "big") < after:
                return None
        elif after > part.high_watermark:
            return None
    record = PlainRecord(
        header.base_offset, header.max_timestamp, None, bytes(part.data[: header.size]), ()
    )
    last = Offset(after - 1)
    return Failing(FailingRange(Offset(after), None), (Original(record, last, is_batch=True),))
