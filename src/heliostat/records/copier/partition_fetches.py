"""The fetch side of one partition: what is fetched next, and what is queued from an answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from heliostat.names import Offset
from heliostat.records.batches.aborted import Aborted
from heliostat.records.batches.batch import Codec
from heliostat.records.batches.claimed_offsets import ClaimedOffsets
from heliostat.records.batches.convert import convert
from heliostat.records.batches.converted import (
    BatchPlace,
    ConvertedBatch,
    ConvertSettings,
    RefusedRecord,
    Stop,
    StopReason,
)
from heliostat.records.batches.copied_epochs import NO_EPOCH, CopiedEpochs, last_epoch
from heliostat.records.batches.plain_batch import plain_batch
from heliostat.records.copier.begin_checks import Stopped
from heliostat.records.copier.cells import FETCH_OFFSET, POSITION, RAN_TO, Cell
from heliostat.records.copier.lane import CopySettings, PartitionCode, PartitionState
from heliostat.records.copier.markers import Filling
from heliostat.records.copier.mirror_map import MirrorMap
from heliostat.records.copier.network import LogRange, Want
from heliostat.records.copier.partition_appends import PartitionAppends


@dataclass(slots=True)
class FetchSize:
    """Bytes that a fetch asks for."""

    batch: int
    """So many that one batch fits."""
    line: int = 0
    """So many at least while the partition is far behind a long line."""
    most: int = 0
    """So many at most, as a limit wants; a larger batch comes all the same. 0: no limit."""

    @property
    def bytes(self) -> int:
        """The larger one, within the limit."""
        wanted = max(self.batch, self.line)
        return min(wanted, self.most) if self.most else wanted


class PartitionFetches:
    """The fetches of one partition, up to the queue of its appends.

    Parameters
    ----------
    settings, conversion
        Settings of the lane, and how this partition's batches are converted.
    offset_map, filling, appends
        Map, markers and appends of the partition.
    """

    offset = Cell(FETCH_OFFSET)
    """Source offset to fetch next."""

    def __init__(
        self,
        settings: CopySettings,
        conversion: ConvertSettings,
        *,
        offset_map: MirrorMap,
        filling: Filling,
        appends: PartitionAppends,
    ) -> None:
        self.cells = appends.cells
        self._bytes_max = settings.fetch_bytes_max
        self._convert = conversion
        self._map = offset_map
        self._filling = filling
        self._appends = appends
        self.under_way: Want | None = None
        self.size = FetchSize(settings.partition_fetch_bytes)
        self.needs_source_range = False
        """Whether the source answered that the offset is out of range."""
        self._epochs = CopiedEpochs()
        self.stop: Stop | None = None
        """Why nothing after the queue is copied; the partition stops once the queue is appended."""
        self.refusal: RefusedRecord | None = None
        """A record that the target refuses: records before it are copied."""
        self.opened = Codec.NONE
        """Of the answer that is taken next, see `ConvertSettings.opened`."""
        self._claimed = ClaimedOffsets()

    def begin(self, *, fills: bool) -> None:
        """Begin at the target's end; `fills`: holes are filled."""
        self._convert = replace(self._convert, ends_at_holes=fills)

    def target_is(self, *, far: bool) -> None:
        """Convert for a target that is far, or not, see `ConvertSettings`."""
        if far != self._convert.is_target_far:
            self._convert = replace(self._convert, is_target_far=far)

    def go_on(self, offset: int, refusal: RefusedRecord | None) -> None:
        """Fetch from a source offset on, up to a record that the driver refuses, if any."""
        self.offset = offset
        self.refusal = refusal or self.refusal

    def reset(self) -> None:
        """Forget the fetch in flight and the stop."""
        self.under_way = None
        self.stop = None

    def begin_anew(self) -> None:
        """Forget also what stopped the partition or kept it from its records."""
        self.reset()
        self.refusal = None
        self.needs_source_range = False

    @property
    def epochs(self) -> CopiedEpochs:
        """The leader epochs of what was fetched, by either way."""
        at = self.cells.at
        if at[RAN_TO]:
            self._epochs.ran_to(min(at[POSITION], at[RAN_TO]))  # what is at the target ends here
            self._epochs.ran_to(at[RAN_TO])
            at[RAN_TO] = 0
        return self._epochs

    @epochs.setter
    def epochs(self, known: CopiedEpochs) -> None:
        self._epochs = known

    @property
    def is_settled(self) -> bool:
        """Whether the next answer has nothing to do with an earlier one."""
        return not (self.are_held or self.refusal is not None or self._claimed.holds_back)

    @property
    def are_held(self) -> bool:
        """Whether nothing may be fetched now: a fetch is in flight, or a question is open."""
        return self.under_way is not None or self.stop is not None or self.needs_source_range

    def take(
        self,
        buffer: bytearray | memoryview,
        start: int,
        end: int,
        *,
        stable: int,
        aborted: Sequence[Aborted],
        now_ms: int,
    ) -> Stop | None:
        """Queue the batches of an answer; return why copying can't continue after them, if so.

        `stable` is the last stable offset.
        """
        self.cells.leave_plain()
        settings = self._convert
        if self.opened is not Codec.NONE:
            settings = replace(settings, opened=self.opened)
        # Where the first answer is not appended whole, its first batch's epoch is all there is.
        first = last_epoch(buffer, start, end) if self.epochs.named < 0 else NO_EPOCH
        place = BatchPlace(self.offset, self._map.next_target, self._map.ahead)
        view = memoryview(buffer)
        plain = plain_batch(view, start, end, place, settings) if not self.refusal else None
        if plain is not None:
            self._claimed.continued()
            answer, outcome = plain
            upto = end
        else:
            answer = self._claimed.believed(view[start:end], self.offset, stable)
            upto = start + answer.end
            outcome = convert(buffer, start, upto, place, settings, aborted, self.refusal)
        outcome.stop = outcome.stop or answer.stop
        self._appends.will_put(outcome.batches, now_ms)
        for batch in outcome.batches:
            if self._map.fills and not self._fill_before(batch, now_ms):
                outcome.next_offset = batch.source_offset
                break
            self._queue(batch)
        is_all, is_full = upto == end, end - start >= self.size.batch
        if outcome.next_offset == self.offset and not outcome.stop and (is_all or is_full):
            # Bytes came, but no whole batch: it is larger than we asked for, or its length is
            # wrong, as brokers return the first batch whole, whatever its size (KIP-74).
            if is_all and self.size.batch >= self._bytes_max:
                text = f"source offset {self.offset} can't be read: its batch is never complete"
                outcome.stop = Stop(StopReason.CORRUPT, self.offset, text)
            self.size.batch = min(self.size.batch * 2, self._bytes_max)
        self.offset = outcome.next_offset
        if self.refusal is not None and self.refusal.offset < outcome.next_offset:
            self.refusal = None
        if first.offset <= outcome.next_offset:
            self.epochs.fetched(first, first.offset)
        if outcome.stop is None:
            self.epochs.fetched(answer.epoch, outcome.next_offset)
        return outcome.stop

    def _queue(self, batch: ConvertedBatch) -> None:
        self._appends.put(batch)
        self._map.queued(batch)

    def _fill_before(self, batch: ConvertedBatch, now_ms: int) -> bool:
        """Queue markers for the hole before a batch; return False if there would be too many."""
        self.stop = self.stop or self._filling.too_large(batch.source_offset)
        if self.stop is None:
            for markers in self._filling.before(batch, now_ms):
                self._queue(markers)
        return self.stop is None

    def fill_after(self, now_ms: int) -> bool:
        """Queue markers for a hole up to the next fetch; return whether there is one to fill.

        It is filled before a record at which the partition stops as well: the stop is at its offset
        only once the target ends there.
        """
        if not self._map.fills or self.offset <= self._filling.queued_to:
            return False
        too_large = self._filling.too_large(self.offset)
        self.stop = too_large or self.stop
        for markers in self._filling.after(self.offset, now_ms) if too_large is None else ():
            self._queue(markers)
        return True

    def reach(self, stop: Stop, *, is_next: bool) -> bool:
        """Pass the hole before a record that can't be copied; return whether it is next now.

        Parameters
        ----------
        stop
            Why it can't be copied.
        is_next
            Whether no batch is left between the next fetch and it. No checksum covers its offset
            (`claimed_offsets`), so two answers must agree.
        """
        if self.offset < stop.offset and is_next and self._claimed.confirms(stop.offset):
            self.cells.leave_plain()
            self.offset = Offset(stop.offset)
        return self.offset >= stop.offset

    def out_of_range(self) -> None:
        """Note OFFSET_OUT_OF_RANGE, which a leader also answers to an epoch it does not know."""
        self.cells.leave_plain()
        self.epochs.distrust()
        self.needs_source_range = True

    def why_gone(self, source: LogRange) -> Stopped | None:
        """Return why the wanted offset is gone, given what the source holds; None if it is not."""
        if not self.needs_source_range:
            return None
        self.needs_source_range = False
        wanted = self.offset
        if wanted < source.start:
            return Stopped(
                PartitionState.GAP,
                PartitionCode.SOURCE_OVERTOOK,
                f"source offsets {wanted} to {source.start - 1} are gone before they were copied "
                f"(retention or DeleteRecords; the source now begins at {source.start})",
            )
        if wanted > source.end:
            return Stopped(
                PartitionState.GAP,
                PartitionCode.SOURCE_TRUNCATED,
                f"the target holds offsets up to {wanted - 1}, the source ends at {source.end}: "
                "the source was truncated or recreated",
            )
        return None
