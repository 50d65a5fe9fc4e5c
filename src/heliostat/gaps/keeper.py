"""The driver's side of gaps: decides on stops, records the decisions, then carries them out.

    copy_progress     how far was copied, and whether the source still holds that
    settlement        carries out decisions on stopped partitions
    decisions         by an operator, or else by policy
    target_cleanup    what is deleted at the target for that
    here              what plans and lanes must know of gaps

I6  Order of everything here: both clusters are asked for fresh facts, rows are durable, only then
    is a target emptied or does a lane continue elsewhere. If a driver dies in between, its
    successor finds the rows and finishes what they say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from heliostat.clock import Clock
from heliostat.clusters.admin import ClusterAdmin
from heliostat.clusters.keyed_topic import missing_topics
from heliostat.config import ErrorsConfig, GapsConfig, LinkConfig
from heliostat.errors import HeliostatError
from heliostat.gaps.choices import MIXES_WRITERS, OF_RECORDS, Cause, GapChoice
from heliostat.gaps.copy_progress import CopyProgress
from heliostat.gaps.decisions import Decisions
from heliostat.gaps.ledger import CopyNote, GapLedger, GapRow, copied_of
from heliostat.gaps.record_errors import RecordErrors
from heliostat.gaps.rows import Memory, gone_rows
from heliostat.gaps.settlement import FactFinder, Settlement
from heliostat.gaps.source_truncation import LostRange
from heliostat.gaps.target_cleanup import TargetCleanup
from heliostat.gaps.warn_once import WarnOnce
from heliostat.names import Offset, PartitionId, TopicId, TopicName, TopicPartition, id_text
from heliostat.offsets.marks import MirrorId
from heliostat.offsets.offset_map import MapReader
from heliostat.ops.events import Events
from heliostat.records.copier.lane import PartitionReport, PartitionSpec, RoundReport
from heliostat.records.copier.partition_standing import truncated_text
from heliostat.state.link_state import Starts
from heliostat.topics.topic_plan import TopicPlan
from heliostat.topics.values import MirrorRecord


class GapKeeper:
    """Decides, records and acts; used by the driver's reconciliation only.

    Parameters
    ----------
    link
        Its configuration.
    source, target
        Both clusters.
    ledger
        The link's ledger; only this object reads and writes it.
    maps
        Reads the offset maps of the link's mirrors; called only when something is decided.
    errors
        Knows records that can't be copied.
    clock, events
        Time, and where decisions are logged.
    """

    def __init__(
        self,
        link: LinkConfig,
        source: ClusterAdmin,
        target: ClusterAdmin,
        ledger: GapLedger,
        *,
        maps: Callable[[], MapReader],
        errors: RecordErrors,
        clock: Clock,
        events: Events,
    ) -> None:
        self._replication_factor = link.state.replication_factor
        self._target = target
        self._ledger = ledger
        self._errors = errors
        self._clock = clock
        self._events = events
        warnings = WarnOnce(events)
        self._progress = CopyProgress(source, ledger, clock=clock, events=events)
        self._cleanup = TargetCleanup(target, ledger, events, warnings)
        fills = link.topics.offsets == "exact"
        self._decisions = Decisions(ledger, link.gaps, errors)
        self._settlement = Settlement(
            FactFinder(source, target, maps, ledger, self._progress, fills),
            self._decisions,
            ledger,
            self._progress,
            self._cleanup,
            errors=errors,
            clock=clock,
            events=events,
            warnings=warnings,
        )

    def go_by(self, gaps: GapsConfig, errors: ErrorsConfig) -> None:
        """Decide by other policies from now on."""
        self._decisions.config = gaps
        self._errors.config = errors

    def begin(self) -> None:
        """Read what was recorded before."""
        self._ledger.exists_now()
        self._ledger.read()
        self._progress.begin()
        for row in self._ledger.jumps().values():
            if row.cause is Cause.SKIPPED and self._is_new(row):
                self._events.warn(f"{row.source}: {row.told()}")

    def _is_new(self, row: GapRow) -> bool:
        """Return whether nothing was noted as copied since a row that moves its mirror."""
        note = self._progress.copied_to(row.source)
        return row.jump is not None and note is not None and note.end <= row.jump.target

    def close(self) -> None:
        """Write how far was copied, and close."""
        try:
            self._progress.finish()
        except HeliostatError as error:
            self._events.warn(f"the last minute's copy progress can't be written: {error}")
        finally:
            self._ledger.close()

    def report(self) -> dict[str, Any]:
        """Return sums for the driver's report."""
        rows = list(self._ledger.rows.values())
        skipped = dict.fromkeys(sorted(OF_RECORDS, key=lambda cause: cause.value), 0)
        for row in rows:
            if row.cause in skipped and row.choice is not GapChoice.RESTART:
                skipped[row.cause] += row.count or 0
        return {
            "rows": len(rows),
            "skipped": {cause.value: count for cause, count in skipped.items()},
            "records_lost": sum(row.count or 0 for row in rows),
            "unknown": sum(1 for row in rows if row.count is None),
            "dead_letters": sum(1 for row in rows if row.choice is GapChoice.DEAD_LETTER),
        }

    # -- how far was copied --------------------------------------------------------------------

    def copied(self, specs: Sequence[PartitionSpec]) -> tuple[tuple[int, int, int, int], ...]:
        """Return the `LaneSpec.copied` of a lane that begins a round; from any thread."""
        return self._progress.copied(specs)

    def copied_to(self, source: TopicPartition) -> CopyNote | None:
        """Return how far a source partition was copied, as far as that is noted."""
        return self._progress.copied_to(source)

    def noted(self, spec: PartitionSpec) -> Offset:
        """Return up to which source offset it is durably noted as copied; -1: it is not."""
        notes = copied_of(self._ledger.copied.get(spec.source.topic), id_text(spec.source_topic_id))
        note = notes.get(spec.source.partition)
        return Offset(-1 if note is None else note.offset)

    def others_before(self) -> dict[MirrorId, Offset]:
        """Return, by mirror, before which target offset a decision left records of others."""
        found: dict[MirrorId, Offset] = {}
        for row in self._ledger.rows.values():
            if row.jump is not None and row.cause in MIXES_WRITERS:
                mirror, offset = (row.target, row.target_id), Offset(row.jump.target)
                found[mirror] = max(offset, found.get(mirror, offset))
        return found

    def round_ended(
        self, specs: Mapping[TopicPartition, PartitionSpec], report: RoundReport
    ) -> None:
        """Note how far a round has copied of its partitions; from any thread."""
        self._progress.round_ended(specs, report)

    def note_lost(self, loss: LostRange, source_id: TopicId | None) -> None:
        """Note what a lane reports that the target has lost; from any thread."""
        self._progress.note_lost(loss, source_id)

    # -- in each reconciliation ----------------------------------------------------------------

    def consume(self, reports: Sequence[PartitionReport], memory: Memory) -> None:
        """Take new reports; check whether the source was truncated."""
        self._progress.update(self._settlement.fresh(reports), memory)

    def look(self) -> None:
        """Take new decisions, and what else others wrote; recreate the ledger if it was deleted."""
        topic = self._ledger.topic
        if missing_topics(self._target, [topic]):
            self._ledger.restore(self._replication_factor)
            self._events.warn(f"{topic} was gone at the target and is recreated with all its rows")
            self._ledger.read()
        else:
            self._ledger.consume()

    def settle(
        self, plan: TopicPlan, reports: Iterable[PartitionReport], memory: Memory
    ) -> dict[TopicName, MirrorRecord | None]:
        """Carry out decisions on stopped partitions.

        Returns
        -------
        dict
            Source topics to plan again, with the mirror's new record; None if its target was
            deleted.

        Raises
        ------
        ConnectionLost, BrokerError
            A cluster or the ledger does not answer; nothing unrecorded was passed.
        """
        return self._settlement.settle(plan, reports, memory)

    def told(self) -> None:
        """Take it that lanes' plans go by what `with_gaps` returned last."""
        self._settlement.told()

    # -- for plans and lanes -------------------------------------------------------------------

    def with_gaps(
        self, specs: Mapping[TopicPartition, PartitionSpec]
    ) -> dict[TopicPartition, PartitionSpec]:
        """Add to specs where partitions continue after recorded gaps, and truncated sources.

        Also what is tried again, and which record stops a partition that waits for its schema. What
        an operator has skipped waits while copied records are lost at the source.
        """
        found = self._errors.marked(specs)
        for source, row in self._ledger.jumps().items():
            spec = found.get(source)
            is_lost = row.cause is Cause.SKIPPED and source in self._progress.diverged
            if spec is not None and row.is_done and _is_of(row, spec) and not is_lost:
                found[source] = replace(spec, jump=row.jump)
        for source, divergence in self._progress.diverged.items():
            if source in found:
                found[source] = replace(found[source], truncated=truncated_text(divergence.at))
        return found

    def record_deleted_mirror(
        self, record: MirrorRecord, was: Starts, now: Mapping[PartitionId, Offset]
    ) -> None:
        """Record what a deleted mirror may have had and the source no longer has."""
        for number in was.offsets:
            self._progress.forget(TopicPartition(record.source, number))
        if self._cleanup.has_deleted(record.target, was.target_id):
            return  # by us, and recorded
        rows = gone_rows(record, was, now, self._clock.wall_ms())
        self._ledger.record(rows)
        for row in rows:
            self._events.warn(f"{row.source}: the mirror was deleted at the target; {row.text}")


def _is_of(row: GapRow, spec: PartitionSpec) -> bool:
    """Return whether a row is about this target topic, of the same id."""
    return row.target_id == id_text(spec.target_topic_id) and row.mirror == spec.target.topic
