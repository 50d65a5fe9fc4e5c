"""One partition's copy: which offset is fetched next, what is under way, what an answer means.

I1  Every append names the target offset it expects; the answer's base offset is checked.
I2  Position is the offset map at the target's log end, here `begin_at`; nothing else sets it.
I3  A batch that needs a break of the map is not sent before the break is durable (`MirrorMap`).
I4  After an ambiguous answer the queue is dropped and the target's end is read again. Nothing is
    sent, and the end is not read, while an append of this partition is still unanswered.
I7  Trouble changes this object only.

Pure state: no clock of its own, no network. `copier` drives it, the simulation drives `copier`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from heliostat.clusters import kafka_codes
from heliostat.errors import Append, Verdict, kafka_error
from heliostat.invariants import append_landed_where_named
from heliostat.names import Offset
from heliostat.offsets.map_rows import Stamp
from heliostat.offsets.offset_map import OffsetMap
from heliostat.records.batches.aborted import Aborted
from heliostat.records.batches.claimed_offsets import ClaimedOffsets
from heliostat.records.batches.convert import convert
from heliostat.records.batches.converted import ConvertedBatch, Place, Refusal, Stop, StopReason
from heliostat.records.batches.copied_epochs import CopiedEpochs
from heliostat.records.copier.align import StartAlignment, is_short
from heliostat.records.copier.begin_checks import (
    Beginning,
    Stopped,
    fills_holes,
    jump_at,
    why_stopped,
)
from heliostat.records.copier.lane import (
    CopySettings,
    PartitionCode,
    PartitionSpec,
    PartitionState,
    conversion_of,
)
from heliostat.records.copier.markers import Filling
from heliostat.records.copier.mirror_map import MirrorMap
from heliostat.records.copier.network import LastBatch, LogRange, Send, Want
from heliostat.records.copier.partition_standing import PartitionStanding, Phase, Trouble, counted

REFUSALS_MAX = 2  # at one and the same log end: it is not ours
CORRUPT_TRIES_MAX = 3  # fetches of a batch that the target calls corrupt: it is stored so
NO_STAMP, EXACT = Stamp(0, 0), OffsetMap()


class PartitionCopy(PartitionStanding):
    """The state of one partition within one round.

    Parameters
    ----------
    index, spec, settings, producer_id
        Its place in the lane, and the lane's.
    now_ms, stamp
        Wall clock, for `since_ms`; of the round, for rows of the offset map.
    """

    def __init__(
        self,
        index: int,
        spec: PartitionSpec,
        settings: CopySettings,
        producer_id: int,
        now_ms: int,
        *,
        stamp: Stamp = NO_STAMP,
        holds_old: bool = False,
    ) -> None:
        super().__init__(now_ms, settings.producer_expiration_s, holds_old=holds_old)
        self.index = index
        self.spec = spec
        self.settings = settings
        self.attempt, self.fetch_offset = 0, -1
        self.map = MirrorMap(spec, stamp)
        self.filling = Filling(self.map)
        self.fetching: Want | None = None
        self.fetch_bytes = settings.partition_fetch_bytes_max
        self.needs_source_range = False
        self.doubted_from: Offset | None = None
        """From this source offset on the target may hold what the source has lost (`doubts`)."""
        self._established = False
        self._resetting = False
        self._alignment: StartAlignment | None = None
        self._stop: Stop | None = None
        self._refusal: Refusal | None = None
        self._refused = self._corrupt = (-1, 0)
        self.epochs = CopiedEpochs()
        self._claimed = ClaimedOffsets()
        self.lost: tuple[int, int] | None = None
        """Source offsets that the target has lost in this round, see `RoundReport.lost`."""
        self._producer_id = producer_id
        self._convert = conversion_of(spec, settings, producer_id)

    @property
    def must_find_end(self) -> bool:
        """Whether the target's end must be read before anything else; never with one in flight."""
        is_idle = self.in_flight == 0 and not self.has_row_under_way
        return self.phase is Phase.FIND_END and is_idle

    def begin_at(
        self, target: LogRange, last_batch: LastBatch | None, offset_map: OffsetMap, now_ms: int
    ) -> None:
        """Take the map at the target's log end as the position (I2), if its tail is ours (I1).

        `last_batch` as `target_last_batches` answers it; None also where it was not asked.
        """
        end, self.missing_ms, self.looked_early = target.end, -1, self.holds_old
        fills = fills_holes(self.spec, offset_map)
        self.map.begin(offset_map, end, fills=fills)
        self.filling.begin(end, now_ms)
        self._convert = replace(self._convert, ends_at_holes=fills)
        self.position = self.map.source_offset
        if (stopped := self.why_not_from(target, last_batch, offset_map)) is not None:
            if self.spec.map_lost:
                self.position = -1  # what the map would say of it is not true
            self.stop(*stopped, now_ms)
            return
        if (jump := jump_at(self.spec, end)) is not None:
            self.position = self.map.jump(jump.source)  # behind a recorded gap (I6)
        elif offset_map.is_identity and is_short(self.spec, target) and self.spec.can_align:
            self.position = end
            self._begin_align(end, now_ms)
            return
        elif not fills and self.copied_end == end:
            # Behind the mirror's last record the source had no records: no map says so, and what
            # stood there may be gone.
            self.position = max(self.position, self.copied_to)
        self.fetch_offset = self.position
        self.phase = Phase.COPY
        if self._trouble is Trouble.NONE:
            self._become(PartitionState.COPYING, now_ms)

    def why_not_from(
        self, target: LogRange, last_batch: LastBatch | None, known: OffsetMap = EXACT
    ) -> Stopped | None:
        """Why a mirror can't be copied on behind what its log holds; None where it can."""
        is_refused = self._refused == (target.end, REFUSALS_MAX)
        noted, fills = (self.copied_to, self.copied_end), fills_holes(self.spec, known)
        begins = Beginning(target, last_batch, known, fills, *noted, is_refused)
        return why_stopped(self.spec, self._producer_id, begins)

    def _begin_align(self, end: int, now_ms: int) -> None:
        self._alignment = StartAlignment(self.spec, self._producer_id, end, now_ms)
        self.phase = Phase.ALIGN_START
        self._become(PartitionState.ALIGNING, now_ms)

    @property
    def delete_before(self) -> Offset | None:
        """Target offset below which throw-away records should go now, if any."""
        if self._alignment is None or self.phase is not Phase.ALIGN_START or self._resetting:
            return None
        return self._alignment.delete_before(self.position, is_idle=self.in_flight == 0)

    def deleted(self, before: Offset, now_ms: int) -> None:
        """Throw-away records below `before` are gone; at the start offset copying begins."""
        if self._alignment is not None:
            self._alignment.aligned_to = before
        if before >= self.spec.start:
            self._alignment = None
            self.map.begin(OffsetMap(), self.position, fills=self.map.fills)
            self.filling.begin(self.position, now_ms)
            self.fetch_offset = self.position
            self.phase = Phase.COPY
            self._become(PartitionState.COPYING, now_ms)

    # -- fetching ------------------------------------------------------------------------------

    def want(self, now_s: float) -> Want | None:
        """What to fetch now, if anything."""
        if (
            self.phase is not Phase.COPY
            or self.fetching is not None
            or self._resetting
            or self._stop is not None
            or self.needs_source_range
            or now_s < self.not_before_s
            or self.queued_bytes >= self.settings.queued_bytes_max
        ):
            return None
        epoch = self.epochs.before(self.fetch_offset)
        return Want(self.index, self.attempt, self.fetch_offset, self.fetch_bytes, epoch)

    def want_nothing(self) -> Want:
        """Its place in a group's fetch while it wants nothing."""
        return Want(self.index, self.attempt, max(0, self.fetch_offset), 0)

    def fetched(
        self,
        buffer: bytearray | memoryview,
        start: int,
        end: int,
        *,
        high_watermark: int,
        now_s: float,
        now_ms: int,
        last_stable_offset: int = -1,
        aborted: Sequence[Aborted] = (),
    ) -> None:
        """Take the batches of an answer without error."""
        self.high_watermark = high_watermark
        self.last_stable_offset = high_watermark if last_stable_offset < 0 else last_stable_offset
        if self._trouble is Trouble.FETCH or self.position == high_watermark:
            self._recovered(now_ms)
        if start == end or self._resetting:  # what is read while resetting would stay in the queue
            self._note_level(now_ms)
            return
        place = Place(self.fetch_offset, self.map.next_target, self.map.ahead)
        answer = self._claimed.believed(
            memoryview(buffer)[start:end], self.fetch_offset, self.last_stable_offset
        )
        upto = start + answer.end
        outcome = convert(buffer, start, upto, place, self._convert, aborted, self._refusal)
        outcome.stop = outcome.stop or answer.stop
        for batch in outcome.batches:
            if self.map.fills and not self._fill_before(batch, now_ms):
                outcome.next_offset = batch.source_offset
                break
            self._queue(batch)
        is_all, is_full = upto == end, end - start >= self.fetch_bytes
        if outcome.next_offset == self.fetch_offset and not outcome.stop and (is_all or is_full):
            # Bytes came, but no whole batch: it is larger than we asked for, or its length is
            # wrong: brokers give the first batch whole, whatever its size (KIP-74).
            if is_all and self.fetch_bytes >= self.settings.fetch_bytes_max:
                text = f"source offset {self.fetch_offset} can't be read: its batch never ends"
                outcome.stop = Stop(StopReason.CORRUPT, self.fetch_offset, text)
            self.fetch_bytes = min(self.fetch_bytes * 2, self.settings.fetch_bytes_max)
        self.fetch_offset = outcome.next_offset
        if self._refusal is not None and self._refusal.offset < outcome.next_offset:
            self._refusal = None
        if outcome.stop is None:
            self.epochs.fetched(answer.epoch, outcome.next_offset)
        elif not self._is_passing(outcome.stop, now_s, now_ms):
            self._stop = outcome.stop
        self._pass_hole(now_ms)
        self._settle(now_ms)

    def _queue(self, batch: ConvertedBatch) -> None:
        self._put(batch)
        self.map.queued(batch)

    def _fill_before(self, batch: ConvertedBatch, now_ms: int) -> bool:
        """Put markers for a hole before a batch; False if there would be too many."""
        self._stop = self._stop or self.filling.too_large(batch.source_offset)
        if self._stop is None:
            for markers in self.filling.before(batch, now_ms):
                self._queue(markers)
        return self._stop is None

    def _pass_hole(self, now_ms: int) -> None:
        """With nothing under way all before the next fetch is at the target or is a hole."""
        if self.in_flight or self.queue or self._resetting or self.phase is not Phase.COPY:
            return
        if self.map.fills and self.fetch_offset > self.filling.queued_to:
            self._stop = self._stop or self.filling.too_large(self.fetch_offset)
            for markers in self.filling.behind(self.fetch_offset, now_ms) if not self._stop else ():
                self._queue(markers)
            return
        self.position = self.fetch_offset
        self._note_level(now_ms)

    def _is_passing(self, stop: Stop, now_s: float, now_ms: int) -> bool:
        """Whether to fetch a damaged batch again: it may have been damaged on the way only."""
        if stop.reason is not StopReason.CORRUPT:
            return False
        self._corrupt = counted(self._corrupt, stop.offset)
        if self._corrupt[1] >= CORRUPT_TRIES_MAX:
            return False
        self._retry(Trouble.FETCH, stop.reason.name, stop.text, now_s, now_ms)
        return True

    def fetch_failed(self, error: int, reason: str, now_s: float, now_ms: int) -> None:
        """A fetch was refused (Kafka's `error`) or lost (`error` 13)."""
        if error == kafka_codes.OFFSET_OUT_OF_RANGE:
            self.epochs.distrust()  # also answered where the leader knows no such epoch
            self.needs_source_range = True
            return
        kind = kafka_error(error)
        if kind.verdict is Verdict.HALT:
            self.stop(PartitionState.BLOCKED, kind.name, f"the source refuses: {reason}", now_ms)
            return
        self._retry(Trouble.FETCH, kind.name, f"fetch: {kind.message(reason)}", now_s, now_ms)

    # -- appending -----------------------------------------------------------------------------

    def next_send(self, now_s: float, now_ms: int) -> Send | None:
        """The next batch to append now, if any; it then counts as in flight."""
        if self._resetting or self.phase in (Phase.FIND_END, Phase.STOPPED):
            return None
        if not self.queue:
            batch = self._alignment.next_batch() if self._alignment is not None else None
            if batch is None:
                return None
            self._put(batch)
        batch = self.queue[0]
        if not self.map.is_durable_for(batch) or self.filling.is_busy:
            return None
        is_old = self.is_old(batch, now_ms)
        must_wait = self.looked_early and bool(is_old or batch.fills)
        if must_wait and not self.holds_old and now_s >= self.may_land_until_s:
            self.look_again(now_ms)
        if must_wait or (not batch.fills and self.in_flight >= self._depth(is_old=is_old)):
            return None
        if batch.fills:
            return self._next_markers(batch)
        self.queue.popleft()
        self.in_flight += 1
        return Send(self.index, self.attempt, batch)

    def _next_markers(self, batch: ConvertedBatch) -> Send | None:
        """Markers go with nothing beside them (I4)."""
        if self.in_flight:
            return None
        markers, is_all = self.filling.next_of(batch)
        if is_all:
            self.queue.popleft()
        self.in_flight += 1
        return Send(self.index, self.attempt, markers, self.filling.coordinator_epoch)

    def _depth(self, *, is_old: bool) -> int:
        """Batches that may be in flight together, at least one.

        The broker's sequence check keeps a pipeline in order only while it remembers the producer:
        not before the first append, and not for records whose timestamps let it forget (I4).
        """
        if not self._established or is_old:
            return 1
        return self.settings.requests_in_flight_max

    def appended(
        self, batch: ConvertedBatch, base_offset: int, now_ms: int, *, is_repeated: bool = False
    ) -> bool:
        """An append was acknowledged; False if it does not count or landed elsewhere (I1)."""
        was_current = self._answered(batch)
        if batch.fills:
            if was_current and self.filling.acknowledged(batch):
                self._filled(now_ms)
            return was_current
        expected = self.map.lands_at(batch)
        if not append_landed_where_named(expected, base_offset):
            self._diverge(
                PartitionCode.APPENDED_ELSEWHERE,
                f"a batch for target offset {expected} landed at {base_offset}: another "
                "writer has appended to this mirror",
                now_ms,
            )
            return False
        if is_repeated and self.spec.is_compacted and not self.map.fills:
            self.repeated_to, was_current = Offset(base_offset + batch.records), False
            self.look_again(now_ms)
        if not was_current:
            return False
        self._established = True
        self._refused = (-1, 0)
        self.position = self.copied_to = batch.next_source_offset
        self.copied_end = base_offset + batch.records
        self._recovered(now_ms)
        if self.phase is Phase.COPY:
            self.records += batch.records
            self.bytes += batch.size
            self.last_timestamp_ms = max(self.last_timestamp_ms, batch.max_timestamp)
            self._note_level(now_ms)
            self._pass_hole(now_ms)
        self._settle(now_ms)
        return True

    def _filled(self, now_ms: int) -> None:
        self._recovered(now_ms)
        if not self.queue:
            self.position = Offset(self.filling.queued_to)
            self._note_level(now_ms)
        self._pass_hole(now_ms)
        self._settle(now_ms)

    def ends_at(self, end: int | None, now_s: float, now_ms: int) -> None:
        """Where the target ends behind markers; if it should elsewhere, look at all anew (I4)."""
        expected, self.filling.check_end = self.filling.check_end, None
        if expected is None or self._resetting or self.phase is not Phase.COPY:
            return
        if end == expected:
            self._filled(now_ms)
        else:
            text = f"markers: the target ends at {end} instead of {expected}"
            self._reset(PartitionCode.MARKERS_MISSING, text, now_s, now_ms)

    def append_failed(
        self,
        batch: ConvertedBatch,
        error: int,
        message: str,
        now_s: float,
        now_ms: int,
        *,
        refused: int = -1,
    ) -> None:
        """An append was refused with Kafka's `error`, for its record of number `refused`."""
        if not self._answered(batch):
            return  # follows from the first failure: the sequence has a hole now
        kind = kafka_error(error)
        if batch.fills:
            if error == kafka_codes.TRANSACTION_COORDINATOR_FENCED:
                self.filling.refused()
            message = message or f"{kind.name}: markers for offsets {batch.fills.start} on"
            if kind.verdict is Verdict.HALT:
                self.stop(PartitionState.BLOCKED, kind.name, message, now_ms)
                return
        elif error == kafka_codes.OUT_OF_ORDER_SEQUENCE_NUMBER:
            self._refused = counted(self._refused, self.map.lands_at(batch))
        elif error == kafka_codes.INVALID_PRODUCER_EPOCH:
            self._diverge(
                kind.name,
                "the link's producer id was used with a newer epoch by somebody else",
                now_ms,
            )
            return
        elif error == kafka_codes.CORRUPT_MESSAGE:
            self._corrupt = counted(self._corrupt, batch.base_offset)
            if self._corrupt[1] >= CORRUPT_TRIES_MAX:
                self.stop(
                    PartitionState.BLOCKED,
                    StopReason.CORRUPT.name,  # who of us and the target saw it first is chance
                    f"the batch at source offset {batch.source_offset} is stored corrupt at the "
                    "source: its checksum does not fit its bytes",
                    now_ms,
                )
                return
        elif kind.verdict is Verdict.HALT and kind.append is Append.NOT_APPENDED:
            at = batch.source_of(max(0, refused))
            text = f"the target refuses what stands at source offset {at}: {message or kind.name}"
            text = f"{text}. {kind.hint}".strip()
            if refused < 0 or self._refusal is not None or self.phase is not Phase.COPY:
                self.stop(PartitionState.BLOCKED, kind.name, text, now_ms)
                return
            self._refusal = Refusal(at, text)  # what stands before it is copied, then it stops
        self._reset(kind.name, f"append: {kind.message(message)}", now_s, now_ms)

    def append_lost(self, batch: ConvertedBatch, reason: str, now_s: float, now_ms: int) -> None:
        """An append will not be answered: ambiguous (I4)."""
        self._may_land(now_s)
        self.has_lost_old |= self.is_old(batch, now_ms)
        if self._answered(batch):
            self._reset(PartitionCode.CONNECTION_LOST, f"append: {reason}", now_s, now_ms)

    def look_again(self, now_ms: int) -> None:
        """Forget what was read; go on from the target's end as it is then."""
        if self.phase in (Phase.COPY, Phase.ALIGN_START) and not self._resetting:
            self._resetting = True
            self.epochs.drop(self.position)
            self._drop_queue()
            self._settle(now_ms)

    def doubt(self, end: Offset, now_ms: int) -> None:
        """The source's epoch of what was copied has ended at `end`: compare what lies behind."""
        self.doubted_from = end
        self.look_again(now_ms)

    def map_lost(self, reason: str, now_s: float, now_ms: int) -> None:
        """A row of the offset map may be durable or not: all is looked at anew (I4)."""
        if self.phase is Phase.COPY and not self._resetting:
            self._reset(PartitionCode.CONNECTION_LOST, f"offset map: {reason}", now_s, now_ms)

    # -- trouble -------------------------------------------------------------------------------

    def _reset(self, code: str, reason: str, now_s: float, now_ms: int) -> None:
        """Drop all that is queued; read the target's end once nothing is in flight (I4)."""
        self._resetting = True
        self.epochs.drop(self.position)
        self._drop_queue()
        self._retry(Trouble.APPEND, code, reason, now_s, now_ms)
        self._settle(now_ms)

    def _settle(self, now_ms: int) -> None:
        """Finish what had to wait until nothing of this partition is under way."""
        if self.in_flight or self.phase is Phase.STOPPED:
            return
        if self._resetting:
            self._resetting = False
            self._established = False
            self.attempt += 1
            self.fetching = None
            self._stop = None
            self._alignment = None
            self.phase = Phase.FIND_END
        elif self._stop is not None and not self.queue:
            self.stop(PartitionState.BLOCKED, self._stop.reason.name, self._stop.text, now_ms)

    def _answered(self, batch: ConvertedBatch) -> bool:
        """Count an answer; whether it belongs to a partition that is still going on."""
        is_current = not self._resetting and self.phase is not Phase.STOPPED
        self.in_flight -= 1
        self._take_off(batch)
        if self._resetting:
            self._settle(self.since_ms)
        return is_current
