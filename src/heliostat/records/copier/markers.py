"""Markers that fill the source's holes, so that offsets stay equal after them.

A transaction marker takes one offset and no reader sees it (`clusters.wire.markers`). It has no
sequence number, so our producer's sequence continues as if it were not there: the offset map then
counts our records (`OffsetMap.is_filled`), and the offsets missing from it are those of markers.

I1  After markers the next append's base offset must be the source's; the log's end is read if an
    answer leaves open how many landed.
I3  The hole is durable in the map before its first marker is sent: however many landed, the map at
    the target's end says what comes next.
I4  Nothing else of the partition is in flight beside markers. They have no sequence, so a late one
    would land wherever the log ends: the first of an attempt is sent alone, with an epoch that
    fences all sent before it (`coordinator_epoch`), and the end is read after it.
"""

from __future__ import annotations

from collections.abc import Iterator

from heliostat.invariants import SEQUENCE_MODULUS, last_batch_is_ours
from heliostat.offsets.offset_map import Break, OffsetMap
from heliostat.records.batches.converted import ConvertedBatch, Stop, StopReason
from heliostat.records.copier.mirror_map import MirrorMap
from heliostat.records.copier.network import LastBatch

MARKERS_MAX = 1_000
"""Markers in one request for one partition: brokers append some 20,000 a second."""
HOLE_MARKERS_MAX = 10_000_000
"""Markers for one hole: 780 MB at the target and some ten minutes."""
EPOCHS_FROM_MS, EPOCH_MS = 1_767_225_600_000, 250
"""Start of 2026, and how long an epoch lasts: 31 bits suffice until 2043. No two rounds of a
partition begin within one; each attempt of a round takes the next."""
EPOCH_MAX = 2**31 - 1
LEAP, LEAP_GROWTH = 60_000 // EPOCH_MS, 16
"""First leap in epochs after a refusal, and the factor of further ones: minutes, then hours, then
days, as a round has time for a few tries. With a factor of two, a round of 5 s never got past a
clock that had been set back by an hour, nor did the next one."""
_FILLER = 2**62
_NO_SEQUENCE = SEQUENCE_MODULUS - 1
"""A control batch has sequence -1."""


def filler_of(producer_id: int) -> int:
    """Return the producer id of a link's markers: one that no broker hands out.

    It is not the link's own: a broker that has forgotten that one would know it from a marker only,
    without a sequence, and would then accept only sequence 0 (`ProducerAppendInfo.checkSequence`).
    """
    return _FILLER + producer_id


def filled_last_batch_is_ours(
    last_batch: LastBatch, producer_id: int, known: OffsetMap, end: int
) -> bool:
    """Return whether a filled mirror ends with what its map has before the target's end."""
    if not known.holds(end - 1):
        return last_batch == (filler_of(producer_id), _NO_SEQUENCE)
    return last_batch_is_ours(last_batch, producer_id, known.target_of(end))


class Filling:
    """The markers of one partition within one round.

    Parameters
    ----------
    offset_map
        Offset map of the partition.
    """

    def __init__(self, offset_map: MirrorMap) -> None:
        self._map = offset_map
        self.queued_to = 0
        """Target offset after all that is queued."""
        self.coordinator_epoch = 0
        """Epoch of this attempt's markers; the target refuses markers with a lower one."""
        self.is_sending = False
        """Whether markers are in flight."""
        self.check_end: int | None = None
        """Log end offset that the target must have now, if it is to be read; else None."""
        self._is_fenced = False
        self._leap = 0

    def begin(self, end: int, now_ms: int) -> None:
        """Begin an attempt at the target's end, with nothing in flight."""
        self.queued_to = end
        self.is_sending, self.check_end, self._is_fenced = False, None, False
        now_epoch = (now_ms - EPOCHS_FROM_MS) // EPOCH_MS + self._leap
        self.coordinator_epoch = min(EPOCH_MAX, max(self.coordinator_epoch + 1, now_epoch))

    @property
    def is_busy(self) -> bool:
        """Whether markers are in flight, or it is not known yet how many landed."""
        return self.is_sending or self.check_end is not None

    def refused(self) -> None:
        """Leap ahead: a higher epoch was used, as the clock was set back or another is ahead."""
        self._leap = max(LEAP, LEAP_GROWTH * self._leap)

    def before(self, batch: ConvertedBatch, now_ms: int) -> Iterator[ConvertedBatch]:
        """Yield the markers that must precede a batch; they take over its break."""
        source = batch.source_offset
        if source > self.queued_to:
            breaks, batch.breaks = batch.breaks, ()
            yield from self._up_to(source, breaks, batch.source_ahead, now_ms)
        self.queued_to = batch.next_source_offset

    def after(self, source: int, now_ms: int) -> Iterator[ConvertedBatch]:
        """Yield the markers for a hole that no record follows yet, up to the next fetch offset."""
        place = Break(self._map.next_target, source)
        ahead = place.source - place.target
        if self._map.is_known_hole(place) or ahead == self._map.ahead:
            yield from self._up_to(source, (), self._map.ahead or 0, now_ms)
        else:
            yield from self._up_to(source, (place,), ahead, now_ms)

    def _up_to(
        self, source: int, breaks: tuple[Break, ...], ahead: int, now_ms: int
    ) -> Iterator[ConvertedBatch]:
        """Yield markers for the hole before a source offset."""
        for first in range(self.queued_to, source, MARKERS_MAX):
            yield ConvertedBatch(
                base_offset=self._map.next_target,
                records=0,
                parts=(),
                size=0,
                max_timestamp=now_ms,
                source_ahead=ahead,
                breaks=breaks,
                fills=range(first, min(first + MARKERS_MAX, source)),
            )
            breaks = ()
        self.queued_to = source

    def too_large(self, source: int) -> Stop | None:
        """Return why the hole before a source offset is not filled; None if it can be."""
        count = source - self.queued_to
        if count <= HOLE_MARKERS_MAX:
            return None
        text = (
            f"the source has a hole of {count} offsets before {source}: that many markers are not "
            "written; allow different offsets (`offsets: auto`), and delete the mirror"
        )
        return Stop(StopReason.HOLE_TOO_LARGE, self.queued_to, text)

    def next_of(self, batch: ConvertedBatch) -> tuple[ConvertedBatch, bool]:
        """Return the markers to send now, and whether these are all of the batch."""
        fills = batch.fills
        self.is_sending = True
        if self._is_fenced or len(fills) == 1:
            return batch, True
        first = ConvertedBatch(
            batch.base_offset, 0, (), 0, batch.max_timestamp, fills=range(fills[0], fills[0] + 1)
        )
        batch.fills = fills[1:]
        return first, False

    def acknowledged(self, batch: ConvertedBatch) -> bool:
        """Process an answer; return whether it tells how many landed: for several it does not."""
        is_certain = self._is_fenced and len(batch.fills) == 1
        self.is_sending, self._is_fenced = False, True
        self.check_end = None if is_certain else batch.fills.stop
        return is_certain
