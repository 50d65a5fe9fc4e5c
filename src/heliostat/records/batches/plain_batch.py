"""The usual answer for a partition with few records: one whole batch that continues the copy.

Such a batch is patched at once, from one look at its header. Everything else, damage included, is
left to `claimed_offsets` and `convert`, which come to the same result for the usual answer, too:
the tests compare them byte by byte (docs/adr/0019).

I6  Its base offset, which no checksum covers, is the one that was asked for.
"""

from __future__ import annotations

from typing import NamedTuple

from heliostat.errors import BatchError
from heliostat.invariants import batch_continues
from heliostat.records.batches.batch import (
    CONTROL_BIT,
    LENGTH_ENDS_AT,
    LOG_APPEND_TIME_BIT,
    TRANSACTIONAL_BIT,
    read_header,
)
from heliostat.records.batches.batch_maker import BatchMaker
from heliostat.records.batches.claimed_offsets import Believed
from heliostat.records.batches.converted import BatchPlace, ConvertOutcome, ConvertSettings
from heliostat.records.batches.copied_epochs import CopiedTo

_NOT_PLAIN = LOG_APPEND_TIME_BIT | CONTROL_BIT | TRANSACTIONAL_BIT


class Plain(NamedTuple):
    """What `ClaimedOffsets.believed` and `convert` return for such an answer."""

    answer: Believed
    outcome: ConvertOutcome


def plain_batch(
    view: memoryview, start: int, end: int, place: BatchPlace, settings: ConvertSettings
) -> Plain | None:
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
    try:
        header = read_header(view, start, end)
    except BatchError:
        return None
    if (
        header is None
        or header.size != end - start
        or not batch_continues(place.source, header.base_offset)
        or not header.records_count
        or not header.is_dense
        or header.length > settings.batch_bytes_max - LENGTH_ENDS_AT
        or header.attributes & _NOT_PLAIN
        or settings.codec_of(header.codec) is not header.codec
    ):
        return None
    batches = BatchMaker(place, settings)
    batches.patch(view, start, header)
    epoch = CopiedTo(header.next_offset, header.leader_epoch)
    return Plain(Believed(header.size, epoch), batches.outcome)
