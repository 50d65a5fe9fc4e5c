"""The usual answer for a partition with few records: one whole batch that continues the copy.

Such a batch is patched at once, from one look at its header. Everything else, damage included, is
left to `claimed_offsets` and `convert`, which come to the same result for the usual answer, too:
the tests compare them byte by byte. It saves a lane a fifth of its processor time at 500 records a
second (2026-11-25).

I1  The batch carries the link's producer id, and the target offset it expects as its sequence.
I3  It needs no break of the offset map.
I6  Its base offset, which no checksum covers, is the one that was asked for.
"""

from __future__ import annotations

from typing import NamedTuple

from heliostat.invariants import batch_continues, sequence_of
from heliostat.records.batches.batch import (
    CODEC_BITS,
    CODECS,
    CONTROL_BIT,
    HEADER,
    HEADER_BYTES,
    LENGTH_ENDS_AT,
    LOG_APPEND_TIME_BIT,
    MAGIC,
    OFFSET_MAX,
    RECORD_BYTES_MIN,
    TRANSACTIONAL_BIT,
    BatchHeader,
    patch_header,
)
from heliostat.records.batches.converted import BatchPlace, ConvertedBatch, ConvertSettings
from heliostat.records.batches.copied_epochs import CopiedTo

_NOT_PLAIN = LOG_APPEND_TIME_BIT | CONTROL_BIT | TRANSACTIONAL_BIT


class PlainBatch(NamedTuple):
    """The batch to append, and the leader epoch that the source's batch has."""

    batch: ConvertedBatch
    epoch: CopiedTo


def plain_batch(
    view: memoryview, start: int, end: int, place: BatchPlace, settings: ConvertSettings
) -> PlainBatch | None:
    """Convert an answer that is one plain batch; None: it is something else, and untouched.

    Parameters
    ----------
    view, start, end
        The answer's batches are `view[start:end]`; the header is overwritten, and the new batch
        points into it.
    place
        Where converting begins, on both sides.
    settings
        Producer id and size limits.
    """
    size = end - start
    if size <= HEADER_BYTES or place.source - place.target != place.ahead:
        return None
    header = BatchHeader._make(HEADER.unpack_from(view, start))
    records = header.records_count
    if (
        header.magic != MAGIC
        or not batch_continues(place.source, header.base_offset)
        or header.length != size - LENGTH_ENDS_AT
        or header.length > settings.batch_bytes_max - LENGTH_ENDS_AT
        or records <= 0
        or records != header.last_offset_delta + 1
        or header.base_offset > OFFSET_MAX - records
        or header.attributes & _NOT_PLAIN
    ):
        return None
    codec = header.attributes & CODEC_BITS
    if codec >= len(CODECS) or (not codec and records * RECORD_BYTES_MIN > size - HEADER_BYTES):
        return None
    producer_id, sequence = settings.producer_id, sequence_of(place.target)
    patch_header(view, start, header, producer_id=producer_id, base_sequence=sequence)
    batch = ConvertedBatch(place.target, records, (view[start:end],), size, header.max_timestamp)
    batch.source_ahead = place.source - place.target
    batch.places = ((0, header.base_offset),)
    return PlainBatch(batch, CopiedTo(header.next_offset, header.leader_epoch))
