"""A batch in the place of one of the source's, of which a pipeline has left some records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from heliostat.clusters.wire.buffers import BUFFERS
from heliostat.records.batches.batch import (
    HEADER_BYTES,
    TRANSACTIONAL_BIT,
    BatchHeader,
    Codec,
    each_header,
    sealed,
)
from heliostat.records.batches.codecs import compress
from heliostat.records.batches.converted import JOIN_BELOW_BYTES


def room_for(size_bytes: int) -> Any:
    """Return room (uint8) for a header and records in a reused buffer.

    Pages from the kernel take longer than writing to them: 0.5 of 1.3 us a record.
    """
    return np.frombuffer(BUFFERS.take(size_bytes), np.uint8)


class InARow:
    """Batches, one behind the other, in a reused buffer that grows.

    Parameters
    ----------
    size_bytes
        About how many bytes they will have.
    """

    def __init__(self, size_bytes: int) -> None:
        self._view = memoryview(BUFFERS.take(size_bytes))
        self._size = 0

    def add(self, part: Any) -> None:
        """Copy bytes behind what is there."""
        end = self._size + len(part)
        if end > len(self._view):
            view = memoryview(BUFFERS.take(2 * end))
            view[: self._size] = self._view[: self._size]
            self._view = view
        self._view[self._size : end] = part
        self._size = end

    @property
    def bytes(self) -> memoryview:
        """All that was added."""
        return self._view[: self._size]


def codec_within(view: memoryview, start: int, end: int) -> Codec:
    """Return the codec of the first compressed batch in `view[start:end]`; NONE: of none."""
    codecs = (header.codec for _, header in each_header(view, start, end))
    return next((codec for codec in codecs if codec is not Codec.NONE), Codec.NONE)


def thinned_batch(  # noqa: PLR0917 - what a batch is made of
    like: BatchHeader,
    written: Any,
    records: int,
    before: int,
    times: tuple[int, int],
    open_bytes: int,
    *,
    is_alone: bool,
) -> Sequence[Any]:
    """Return a batch's header and records; it keeps the other's offsets, also where it has none.

    Parameters
    ----------
    like
        The other batch's header, whose offset, producer, transaction and compression it has.
    written, records
        Its records, uncompressed, behind room for a header (uint8); and how many they are.
    before
        Offset at which it ends, if that is not behind the other batch.
    times
        Timestamp that its deltas count from, and its latest one; ms.
    open_bytes
        Up to so many bytes stay uncompressed where the mirror's batch is encoded anew in any case
        (`ConvertSettings.opened`): where records are left out, as compressing twice took a third of
        the time; and where it is joined with others, which takes the target's broker less than
        half of its time (docs/adr/0032).
    is_alone
        Whether no other batch may be joined with it.
    """
    codec, body = like.codec, written[HEADER_BYTES:].data
    last_delta = min(like.next_offset, before) - 1 - like.base_offset
    if not records:
        codec, body, times = Codec.NONE, memoryview(b""), (like.max_timestamp,) * 2
    elif len(body) <= open_bytes and (records <= last_delta or _may_be_joined(body, is_alone)):
        codec = Codec.NONE
    elif codec is not Codec.NONE:
        body = compress(codec, body)
    base_timestamp, max_timestamp = times
    fields = like._replace(
        attributes=like.attributes & TRANSACTIONAL_BIT | codec.value,
        last_offset_delta=last_delta,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        records_count=records,
    )
    return [sealed(fields, body), body]


def _may_be_joined(body: memoryview, is_alone: bool) -> bool:
    return not is_alone and HEADER_BYTES + len(body) < JOIN_BELOW_BYTES
