"""Markers where the source has holes, so that offsets stay equal behind them.

A marker of a transaction takes one offset and no reader sees it (`clusters.wire.markers`). It has
no place in a sequence, so that our producer's goes on as if it were not there: the offset map then
counts our records (`OffsetMap.is_filled`), and the marker's are the offsets that it lacks.

I1  Behind markers the next append's base offset must be the source's; the log's end is looked at
    where an answer leaves open how many landed.
I3  The hole is in the map, durable, before its first marker is sent: whatever landed of them, the
    map at the target's end says what comes next.
I4  Nothing else of the partition is under way beside markers. They bear no sequence, so that a late
    one would land wherever the log ends: the first of an attempt goes alone, with an epoch that
    refuses all that were sent before it (`coordinator_epoch`), and the end is looked at behind it.
"""

from __future__ import annotations

from collections.abc import Iterator

from heliostat.invariants import SEQUENCE_MODULUS, last_batch_is_ours
from heliostat.offsets.offset_map import Break, OffsetMap
from heliostat.records.batches.converted import ConvertedBatch, Stop, StopReason
from heliostat.records.copier.mirror_map import MirrorMap
from heliostat.records.copier.network import LastBatch

MARKERS_MAX = 1_000
"""Of one request and partition: brokers append some 20,000 a second."""
HOLE_MARKERS_MAX = 10_000_000
"""Of one hole: 780 MB at the target and some ten minutes."""
EPOCHS_FROM_MS, EPOCH_MS = 1_767_225_600_000, 250
"""2026, and how long an epoch lasts: 31 bits until 2043. No two rounds of a partition begin within
one; attempts of a round count on."""
EPOCH_MAX = 2**31 - 1
LEAP, LEAP_GROWTH = 60_000 // EPOCH_MS, 16
"""A round has time for a handful of tries: minutes, then hours, then days. With twice as much each
time a round of 5 s never came past a clock that was set back by an hour, nor did the next one."""
_FILLER = 2**62
_NO_SEQUENCE = SEQUENCE_MODULUS - 1
"""A control batch has sequence -1."""


def filler_of(producer_id: int) -> int:
    """The producer id that a link's markers bear: one that no broker gives out.

    Not the link's own: a broker that has forgotten it would remember it by a marker, without a
    sequence, and refuse to let it go on anywhere but at 0 (`ProducerAppendInfo.checkSequence`).
    """
    return _FILLER + producer_id


def filled_last_batch_is_ours(
    last_batch: LastBatch, producer_id: int, known: OffsetMap, end: int
) -> bool:
    """Whether the record before the target's end is what the map of a filled mirror has there."""
    if not known.holds(end - 1):
        return last_batch == (filler_of(producer_id), _NO_SEQUENCE)
    return last_batch_is_ours(last_batch, producer_id, known.target_of(end))


class Filling:
    """What one partition needs of markers, within one round.

    Parameters
    ----------
    offset_map
        The partition's.
    """

    def __init__(self, offset_map: MirrorMap) -> None:
        self._map = offset_map
        self.queued_to = 0
        """Target offset behind all that is queued."""
        self.coordinator_epoch = 0
        """Of markers of this attempt; what was sent with a lower one is refused."""
        self.is_sending = False
        """Markers are under way."""
        self.check_end: int | None = None
        """Where the target must end now, if it is to be looked at."""
        self._is_fenced = False
        self._leap = 0

    def begin(self, end: int, now_ms: int) -> None:
        """The target ends there; nothing is under way."""
        self.queued_to = end
        self.is_sending, self.check_end, self._is_fenced = False, None, False
        now_epoch = (now_ms - EPOCHS_FROM_MS) // EPOCH_MS + self._leap
        self.coordinator_epoch = min(EPOCH_MAX, max(self.coordinator_epoch + 1, now_epoch))

    @property
    def is_busy(self) -> bool:
        """Markers are under way, or it is not known yet how many landed."""
        return self.is_sending or self.check_end is not None

    def refused(self) -> None:
        """A higher epoch was used before: the clock was set back, or another machine's is ahead."""
        self._leap = max(LEAP, LEAP_GROWTH * self._leap)

    def before(self, batch: ConvertedBatch, now_ms: int) -> Iterator[ConvertedBatch]:
        """What must stand before the records of a batch; it takes over the batch's break."""
        source = batch.source_offset
        if source > self.queued_to:
            breaks, batch.breaks = batch.breaks, ()
            yield from self._up_to(source, breaks, batch.source_ahead, now_ms)
        self.queued_to = batch.next_source_offset

    def behind(self, high_watermark: int, now_ms: int) -> Iterator[ConvertedBatch]:
        """What must stand where the source goes on without records up to an offset."""
        place = Break(self._map.next_target, high_watermark)
        ahead = place.source - place.target
        if self._map.is_known_hole(place) or ahead == self._map.ahead:
            yield from self._up_to(high_watermark, (), self._map.ahead or 0, now_ms)
        else:
            yield from self._up_to(high_watermark, (place,), ahead, now_ms)

    def _up_to(
        self, source: int, breaks: tuple[Break, ...], ahead: int, now_ms: int
    ) -> Iterator[ConvertedBatch]:
        """Markers for the hole before a source offset."""
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
        """Why the hole before a source offset is not filled; None where it can be."""
        count = source - self.queued_to
        if count <= HOLE_MARKERS_MAX:
            return None
        text = (
            f"the source has a hole of {count} offsets before {source}: that many markers are not "
            "written; let its offsets differ (`offsets: auto`), and delete the mirror"
        )
        return Stop(StopReason.HOLE_TOO_LARGE, self.queued_to, text)

    def next_of(self, batch: ConvertedBatch) -> tuple[ConvertedBatch, bool]:
        """What to send of markers, and whether that is all of them."""
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
        """Take an answer; whether it says how many landed: of several it does not."""
        is_certain = self._is_fenced and len(batch.fills) == 1
        self.is_sending, self._is_fenced = False, True
        self.check_end = None if is_certain else batch.fills.stop
        return is_certain
