"""The copy of one partition: what is fetched and appended next, and what each answer means.

I1  Every append names the target offset it expects; the answer's base offset is checked.
I2  Position is the offset map at the target's log end, here `begin_at`; nothing else sets it.
I3  A batch that needs a break of the map is not sent before the break is durable (`MirrorMap`).
I4  After an ambiguous answer the queue is dropped and the target's end is read again. While an
    append of this partition is unanswered, nothing is sent and the end is not read.
I7  A fault of one partition changes this object only.

Pure state, without clock or network. `copier` drives it; the simulation drives `copier`.
"""

from __future__ import annotations

from collections.abc import Sequence

from heliostat.clusters import kafka_codes
from heliostat.errors import Verdict, kafka_error
from heliostat.invariants import append_landed_where_named
from heliostat.names import Offset
from heliostat.offsets.map_rows import Stamp
from heliostat.offsets.offset_map import OffsetMap
from heliostat.records.batches.aborted import Aborted
from heliostat.records.batches.converted import ConvertedBatch, RefusedRecord
from heliostat.records.copier.align import StartAlignment, is_short
from heliostat.records.copier.begin_checks import (
    Beginning,
    OwnProducers,
    Stopped,
    fills_holes,
    jump_at,
    refused_by,
    why_stopped,
)
from heliostat.records.copier.cells import Cells
from heliostat.records.copier.lane import (
    CopySettings,
    PartitionCode,
    PartitionSpec,
    PartitionState,
    conversion_of,
)
from heliostat.records.copier.markers import Filling
from heliostat.records.copier.mirror_map import MirrorMap
from heliostat.records.copier.network import BrokerProblem, LastBatch, LogRange, Send, Want
from heliostat.records.copier.partition_appends import PartitionAppends
from heliostat.records.copier.partition_doubts import PartitionDoubts
from heliostat.records.copier.partition_fetches import PartitionFetches
from heliostat.records.copier.partition_progress import PartitionProgress, count_landed
from heliostat.records.copier.partition_standing import Phase, Standing, Trouble
from heliostat.records.copier.refused_appends import RefusedAppends

NO_STAMP, EXACT = Stamp(0, 0), OffsetMap()


class PartitionCopy:
    """The state of one partition within one round.

    Parameters
    ----------
    index, spec
        Position of the partition in its lane, and what to copy where.
    settings, producer_id, former_producers
        Those of the lane.
    now_ms
        Wall clock, for `since_ms`.
    stamp
        Generation and round, written into rows of the offset map.
    holds_old
        Whether an earlier round may still run: records that the target's brokers no longer
        deduplicate by sequence have to wait for its end.
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
        former_producers: frozenset[int] = frozenset(),
    ) -> None:
        self.phase = Phase.FIND_END
        cells = Cells()
        self.standing = Standing(now_ms, cells)
        self.progress = PartitionProgress(cells)
        self.appends = PartitionAppends(settings.producer_expiration_s, cells, holds_old=holds_old)
        self.index = index
        self.spec = spec
        self.settings = settings
        self.attempt = 0
        self.map = MirrorMap(spec, stamp, cells)
        self.filling = Filling(self.map)
        self.fetches = PartitionFetches(
            settings,
            conversion_of(spec, settings, producer_id),
            offset_map=self.map,
            filling=self.filling,
            appends=self.appends,
        )
        self.doubts = PartitionDoubts()
        self.has_row_under_way = False
        """A row of its offset map was sent and is not acknowledged yet (`MapWriter`)."""
        self._resetting = False
        self._alignment: StartAlignment | None = None
        self.refusals = RefusedAppends(self.map)
        self._producers = OwnProducers(producer_id, former_producers)

    @property
    def must_find_end(self) -> bool:
        """Whether the target's end must be read first; never while an append is in flight."""
        is_idle = self.appends.in_flight == 0 and not self.has_row_under_way
        return self.phase is Phase.FIND_END and is_idle

    def begin_at(
        self, target: LogRange, last_batch: LastBatch | None, offset_map: OffsetMap, now_ms: int
    ) -> None:
        """Take the map at the target's log end as position (I2), if the last batch is ours (I1).

        `last_batch` is what `target_last_batches` returns; None also where that was not asked.
        """
        end, progress, appends = target.end, self.progress, self.appends
        progress.missing_ms, appends.looked_early = -1, appends.holds_old
        fills = fills_holes(self.spec, offset_map)
        self.map.begin(offset_map, end, fills=fills)
        self.filling.begin(end, now_ms)
        self.fetches.begin(fills=fills)
        progress.position = self.map.source_offset
        if not fills:
            progress.pass_last_hole(end)
        if (stopped := self.why_not_from(target, last_batch, offset_map)) is not None:
            if self.spec.map_lost:
                progress.position = -1  # the map is lost: a position read from it would be wrong
            self.stop(*stopped, now_ms)
            return
        if (jump := jump_at(self.spec, end)) is not None:
            progress.position = self.map.jump(jump.source)  # after a recorded gap (I6)
        elif offset_map.is_identity and is_short(self.spec, target) and self.spec.can_align:
            progress.position = end
            self._alignment = StartAlignment(self.spec, self._producers.current, end, now_ms)
            self.phase = Phase.ALIGN_START
            self.standing.become(PartitionState.ALIGNING, now_ms)
            return
        self.fetches.go_on(progress.position, refused_by(self.spec, progress.position))
        self.phase = Phase.COPY
        if self.standing.trouble is Trouble.NONE:
            self.standing.become(PartitionState.COPYING, now_ms)

    def begin(
        self,
        target: LogRange,
        last_batch: LastBatch | None,
        known: OffsetMap,
        now_ms: int,
        *,
        now_s: float,
    ) -> None:
        """Continue at the target's end; `now_s` was taken before the target was asked."""
        self.begin_at(target, last_batch, known, now_ms)
        self.appends.looked_early |= now_s < self.appends.may_land_until_s
        self.progress.found_end(target.end, copies=self.phase is Phase.COPY)

    def why_not_from(
        self, target: LogRange, last_batch: LastBatch | None, known: OffsetMap = EXACT
    ) -> Stopped | None:
        """Return why copying can't continue at the mirror's end; None where it can."""
        at, is_refused = self.progress, self.refusals.is_foreign_end(target.end)
        fills, noted = fills_holes(self.spec, known), (at.copied_to, at.copied_end)
        begins = Beginning(target, last_batch, known, fills, *noted, is_refused)
        return why_stopped(self.spec, self._producers, begins)

    @property
    def delete_before(self) -> Offset | None:
        """Target offset below which filler records should be deleted now, if any."""
        if self._alignment is None or self.phase is not Phase.ALIGN_START or self._resetting:
            return None
        is_idle = self.appends.in_flight == 0
        return self._alignment.delete_before(self.progress.position, is_idle=is_idle)

    def deleted(self, before: Offset, now_ms: int) -> None:
        """Note that filler records below `before` are gone; at the start offset copying begins."""
        if self._alignment is not None:
            self._alignment.aligned_to = before
        if before >= self.spec.start:
            self._alignment = None
            self.fetches.go_on(at := self.progress.position, refused_by(self.spec, at))
            self.map.begin(OffsetMap(), at, fills=self.map.fills)
            self.filling.begin(at, now_ms)
            self.phase = Phase.COPY
            self.standing.become(PartitionState.COPYING, now_ms)

    # -- fetching ------------------------------------------------------------------------------

    def want(self, now_s: float) -> Want | None:
        """Return what to fetch now, if anything."""
        if (
            self.phase is not Phase.COPY
            or self._resetting
            or self.fetches.are_held
            or now_s < self.standing.not_before_s
            or self.appends.queued_bytes >= self.settings.queued_bytes_max
        ):
            return None
        fetches = self.fetches
        epoch = fetches.epochs.before(fetches.offset)
        return Want(self.index, self.attempt, fetches.offset, fetches.size.bytes, epoch)

    def want_nothing(self) -> Want:
        """Return an entry that keeps its place in a group's fetch while nothing is wanted."""
        return Want(self.index, self.attempt, max(0, self.fetches.offset), 0)

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
        """Take the batches of a fetch response that has no error."""
        progress = self.progress
        progress.source_ends(high_watermark, last_stable_offset)
        stable = progress.last_stable_offset
        if self.standing.is_over_with_answer(is_level=progress.position == high_watermark):
            self._recovered(now_ms)
        if start == end or self._resetting:  # what is queued while resetting would stay there
            progress.note_level(now_ms)
            return
        stop = self.fetches.take(buffer, start, end, stable=stable, aborted=aborted, now_ms=now_ms)
        if stop is not None and self.refusals.may_pass(stop):
            self.standing.retry(Trouble.FETCH, stop.reason.name, stop.text, now_s, now_ms)
        elif stop is not None:
            self.fetches.stop = stop
        self.go_on(now_ms)

    def go_on(self, now_ms: int) -> None:
        """With nothing under way, all before the next fetch is at the target or is a hole."""
        is_busy = self.appends.in_flight or self.appends.queue or self.filling.is_busy
        is_at_rest = not (is_busy or self._resetting) and self.phase is Phase.COPY
        if is_at_rest and not self.fetches.fill_after(now_ms):
            self.progress.position = self.fetches.offset
            self.progress.note_level(now_ms)
        self._settle(now_ms)

    def fetch_failed(self, error: int, reason: str, now_s: float, now_ms: int) -> None:
        """Take a fetch that the broker refused (Kafka's `error`), or whose answer was lost (13)."""
        if error == kafka_codes.OFFSET_OUT_OF_RANGE:
            self.fetches.out_of_range()
            return
        kind = kafka_error(error)
        if kind.verdict is Verdict.HALT:
            self.stop(PartitionState.BLOCKED, kind.name, f"the source refuses: {reason}", now_ms)
            return
        self.progress.is_end_old = True
        self.standing.retry(
            Trouble.FETCH, kind.name, f"fetch: {kind.message(reason)}", now_s, now_ms
        )

    def source_stands(self, source: LogRange, now_ms: int) -> None:
        """Take the source's log range; it decides what an offset out of range means."""
        self.progress.source_ends(source.end, -1)
        if (stopped := self.fetches.why_gone(source)) is not None:
            self.stop(*stopped, now_ms)

    # -- appending -----------------------------------------------------------------------------

    def next_send(self, now_s: float, now_ms: int) -> Send | None:
        """Return the next batch to append, if any; it counts as in flight from then on."""
        if self._resetting or self.phase in (Phase.FIND_END, Phase.STOPPED, Phase.GIVEN_UP):
            return None
        appends = self.appends
        if not appends.queue:
            batch = self._alignment.next_batch() if self._alignment is not None else None
            if batch is None:
                return None
            appends.put(batch)
        batch = appends.queue[0]
        if not self.map.is_durable_for(batch) or self.filling.is_busy:
            return None
        is_old = appends.is_old(batch, now_ms)
        must_wait = appends.looked_early and bool(is_old or batch.fills)
        if must_wait and not appends.holds_old and now_s >= appends.may_land_until_s:
            self.look_again(now_ms)
        in_flight_max = self.settings.requests_in_flight_max
        if must_wait or not (batch.fills or appends.have_room(in_flight_max, is_old=is_old)):
            return None
        if batch.fills:
            return self._next_markers(batch)
        appends.queue.popleft()
        appends.in_flight += 1
        return Send(self.index, self.attempt, batch)

    def _next_markers(self, batch: ConvertedBatch) -> Send | None:
        """Return the next markers; they are sent with nothing else in flight (I4)."""
        if self.appends.in_flight:
            return None
        markers, is_all = self.filling.next_of(batch)
        if is_all:
            self.appends.queue.popleft()
        self.appends.in_flight += 1
        return Send(self.index, self.attempt, markers, self.filling.coordinator_epoch)

    def appended(
        self, batch: ConvertedBatch, base_offset: int, now_ms: int, *, is_repeated: bool = False
    ) -> bool:
        """Take an acknowledged append; False if it is outdated or landed elsewhere (I1)."""
        was_current = self._answered(batch)
        if batch.fills:
            if was_current and self.filling.acknowledged(batch):
                self._filled(now_ms)
            return was_current
        expected = self.map.lands_at(batch)
        if not append_landed_where_named(expected, base_offset):
            self.stop(
                PartitionState.DIVERGED,
                PartitionCode.APPENDED_ELSEWHERE,
                f"a batch for target offset {expected} landed at {base_offset}: another "
                "writer has appended to this mirror",
                now_ms,
            )
            return False
        if is_repeated and self.spec.is_compacted and not self.map.fills:
            self.doubts.repeated_to, was_current = Offset(base_offset + batch.records), False
            self.look_again(now_ms)
        if not was_current:
            return False
        self.appends.is_established = True
        self.refusals.acknowledged()
        progress = self.progress
        progress.position = progress.copied_to = batch.next_source_offset
        progress.copied_end = base_offset + batch.records
        self._recovered(now_ms)
        if self.phase is Phase.COPY:
            count_landed(progress, batch, now_ms)
        self.go_on(now_ms)
        return True

    def _filled(self, now_ms: int) -> None:
        self._recovered(now_ms)
        if not self.appends.queue:
            self.progress.filled_to(Offset(self.filling.queued_to), now_ms)
        self.go_on(now_ms)

    def ends_at(self, end: int | None, now_s: float, now_ms: int) -> None:
        """Compare the target's end after markers with the expected one; reset if it differs."""
        expected, self.filling.check_end = self.filling.check_end, None
        if expected is None or self._resetting or self.phase is not Phase.COPY:
            return
        if end == expected:
            self.progress.found_end(end, copies=False)
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
        """Take an append that was refused with Kafka's `error`, because of its record `refused`."""
        if not self._answered(batch):
            return  # a consequence of the first failure: the sequence has a hole now
        kind = kafka_error(error)
        if batch.fills:
            message = message or f"{kind.name}: markers for offsets {batch.fills.start} on"
            if error == kafka_codes.TRANSACTION_COORDINATOR_FENCED:
                self.filling.refused()
        found = self.refusals.verdict(batch, error, message, refused)
        if isinstance(found, RefusedRecord):
            if refused < 0 or self.fetches.refusal is not None or self.phase is not Phase.COPY:
                found = Stopped(PartitionState.BLOCKED, kind.name, found.text)
            else:
                self.fetches.refusal, found = found, None  # what stands before it is copied first
        if found is not None:
            self.stop(*found, now_ms)
            return
        self._reset(kind.name, f"append: {kind.message(message)}", now_s, now_ms)

    def append_lost(self, batch: ConvertedBatch, reason: str, now_s: float, now_ms: int) -> None:
        """Take an append whose answer was lost: it may have landed or not (I4)."""
        self.appends.lost(batch, now_s, now_ms)
        if self._answered(batch):
            self._reset(PartitionCode.CONNECTION_LOST, f"append: {reason}", now_s, now_ms)

    def look_again(self, now_ms: int) -> None:
        """Drop what was fetched, and read the target's end again before continuing."""
        if self.phase in (Phase.COPY, Phase.ALIGN_START):
            self._resetting = True
            self.fetches.epochs.drop(self.progress.keep_place(self.doubts.doubted_from))
            self.appends.drop_queue()
            self._settle(now_ms)

    def doubt(self, end: Offset, now_ms: int) -> None:
        """Compare what was copied from `end` on: the source's log of that epoch ended there."""
        self.doubts.doubted_from = end
        self.look_again(now_ms)

    def map_lost(self, reason: str, now_s: float, now_ms: int) -> None:
        """Reset: a row of the offset map may be durable or not (I4)."""
        if self.phase is Phase.COPY and not self._resetting:
            self._reset(PartitionCode.CONNECTION_LOST, f"offset map: {reason}", now_s, now_ms)

    # -- trouble -------------------------------------------------------------------------------

    def stop(self, state: PartitionState, code: str, reason: str, now_ms: int) -> None:
        """Stop copying this partition until a person decides (I7)."""
        self.appends.drop_queue()
        if self.phase is Phase.GIVEN_UP:
            return  # whoever takes it finds the same
        self.phase = Phase.STOPPED
        self.standing.stop(state, code, reason, now_ms)

    def unanswered(
        self, problem: BrokerProblem, now_s: float, now_ms: int, *, is_target: bool
    ) -> None:
        """Note that a broker does not answer; a late answer ends that state."""
        self.appends.may_land(now_s if is_target else -1e9)
        self.progress.is_end_old |= not is_target
        goes_on = self.phase is not Phase.STOPPED
        self.standing.unanswered(problem, now_s, now_ms, is_target=is_target, goes_on=goes_on)

    def find_end_failed(self, problem: BrokerProblem, now_s: float, now_ms: int) -> None:
        """Note that the target's end, or the lane's offset maps, could not be read."""
        self.appends.may_land(now_s)
        self.standing.find_end_failed(problem, now_s, now_ms)

    def _recovered(self, now_ms: int) -> None:
        self.standing.recovered(now_ms, aligns=self.phase is Phase.ALIGN_START)

    def _reset(self, code: str, reason: str, now_s: float, now_ms: int) -> None:
        """Drop the queue; the target's end is read once nothing is in flight (I4)."""
        self.standing.retry(Trouble.APPEND, code, reason, now_s, now_ms)
        self.look_again(now_ms)

    def _settle(self, now_ms: int) -> None:
        """Finish what had to wait until nothing of this partition is in flight."""
        if self.appends.in_flight or self.phase in (Phase.STOPPED, Phase.GIVEN_UP):
            return
        if self._resetting:
            self._resetting = False
            self.attempt += 1
            self.fetches.reset()
            self._alignment = None
            self.phase = Phase.FIND_END
        elif (stop := self.fetches.stop) and not (self.appends.queue or self.filling.is_busy):
            self.stop(PartitionState.BLOCKED, stop.reason.name, stop.text, now_ms)

    def _answered(self, batch: ConvertedBatch) -> bool:
        """Count an answer; return whether the partition still copies in the attempt it is of."""
        is_current = not self._resetting and self.phase is not Phase.STOPPED
        self.appends.answered(batch)
        if self._resetting:
            self._settle(self.standing.since_ms)
        return is_current
