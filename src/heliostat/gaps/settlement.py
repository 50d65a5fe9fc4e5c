"""Settles stopped partitions and topics: decisions on them are recorded and carried out.

I6  Both clusters are asked for fresh facts, rows are durable, only then is anything passed, deleted
    or emptied.
I7  A failure of one partition leaves only that one as it is until the next reconciliation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from heliostat.clock import Clock
from heliostat.clusters.admin import ClusterAdmin
from heliostat.errors import BrokerError, ConnectionLost
from heliostat.gaps.choices import (
    AT_THE_LANES_POSITION,
    CAUSE_OF_CODE,
    OF_RECORDS,
    OF_WHOLE_TOPICS,
    Cause,
    Effect,
    Facts,
    GapChoice,
    effect_of,
    still_holds,
    why_not,
)
from heliostat.gaps.copy_progress import CopyProgress
from heliostat.gaps.decisions import Chosen, Decisions
from heliostat.gaps.facts import Ask, after_jump, gather
from heliostat.gaps.ledger import GapLedger, GapRow
from heliostat.gaps.record_errors import RecordErrors
from heliostat.gaps.rows import Memory, decided_row, whole_topics
from heliostat.gaps.target_cleanup import TargetCleanup
from heliostat.gaps.warn_once import WarnOnce
from heliostat.names import Offset, PartitionId, TopicName, TopicPartition
from heliostat.offsets.offset_map import MapReader
from heliostat.ops.events import Events
from heliostat.records.copier.lane import PartitionReport
from heliostat.topics.topic_plan import TopicPlan
from heliostat.topics.values import MirrorRecord

SETTLED_LOOKS = 2
"""How many reconciliations must see the same target end: an append may still land (I4)."""


@dataclass(frozen=True, slots=True)
class FactFinder:
    """Asks both clusters about stopped partitions.

    Parameters
    ----------
    source, target
        Both clusters.
    maps
        Reads the offset maps of the link's mirrors; called only when something is decided.
    ledger
        Knows jumps that lanes have not taken yet.
    progress
        Knows how far partitions were copied.
    fills
        Whether the link fills holes (`topics.offsets: exact`).
    """

    source: ClusterAdmin
    target: ClusterAdmin
    maps: Callable[[], MapReader]
    ledger: GapLedger
    progress: CopyProgress
    fills: bool

    def find(self, record: MirrorRecord, code: str, asks: list[Ask]) -> list[Facts]:
        """Return facts of a mirror's partitions, except those whose leader does not answer."""
        found = gather(
            self.source,
            self.target,
            asks,
            record=record,
            code=code,
            maps=self.maps,
            copied=self.progress.of_topic(record.source),
            fills=self.fills,
        )
        jumps = self.ledger.jumps()
        return [after_jump(facts, jumps.get(facts.source), record) for facts in found]


class Settlement:
    """Settles stopped partitions, by decision of an operator or by policy.

    Parameters
    ----------
    facts
        Asks both clusters.
    decisions
        The decision on each stop.
    ledger
        Stores the rows.
    progress
        Knows how far partitions were copied; forgets that of those that pass a gap.
    cleanup
        Deletes at the target.
    errors
        Knows records that can't be copied.
    clock
        The clock, for the times of rows.
    events, warnings
        Log what was done, and what is not possible.
    """

    def __init__(
        self,
        facts: FactFinder,
        decisions: Decisions,
        ledger: GapLedger,
        progress: CopyProgress,
        cleanup: TargetCleanup,
        *,
        errors: RecordErrors,
        clock: Clock,
        events: Events,
        warnings: WarnOnce,
    ) -> None:
        self._facts = facts
        self._decisions = decisions
        self._ledger = ledger
        self._progress = progress
        self._cleanup = cleanup
        self._errors = errors
        self._clock = clock
        self._events = events
        self._warnings = warnings
        self._ends: dict[TopicPartition, tuple[Offset, int]] = {}
        """Ends of stopped targets, and how many reconciliations in a row have seen them."""
        self._settled: set[TopicName | TopicPartition] = set()
        """What was settled and lanes are not told of: reports of these are outdated."""

    def fresh(self, reports: Iterable[PartitionReport]) -> list[PartitionReport]:
        """Return reports of partitions whose last settlement is carried out, and lanes know of."""
        stale = self._settled | {row.source for row in self._cleanup.undone()}
        return [r for r in reports if r.source not in stale and r.source.topic not in stale]

    def told(self) -> None:
        """Take it that lanes are told what was settled: reports from now on are of lanes that know.

        What they are told differs in any case (`RecordErrors.take_anew`), so that the lanes' plans
        say which reports are older. No clock could: a lane's is another one than the driver's, and
        either may be put right.
        """
        self._settled.clear()

    def settle(
        self, plan: TopicPlan, reports: Iterable[PartitionReport], memory: Memory
    ) -> dict[TopicName, MirrorRecord | None]:
        """See `GapKeeper.settle`."""
        for old in self._decisions.forget_others(memory.mirrors):
            self._events.warn(
                f"{old.topic}: {old.choice.value}, decided by user {old.decided_by}, is dropped: "
                "it was about a topic of this name that was deleted"
            )
        fresh = self.fresh(reports)
        self._give_up_schemas(fresh)
        stopped = [
            report
            for report in fresh
            if report.state.is_stopped
            and report.code in CAUSE_OF_CODE
            and report.source.topic in memory.mirrors
        ]
        settled: dict[TopicName, MirrorRecord | None] = {}
        for name, code in whole_topics(plan, stopped):
            record, chosen = memory.mirrors.get(name), self._decisions.chosen(name, None, code)
            if record is not None and chosen is not None and name not in settled:
                self._settle_topic(code, record, memory, settled, chosen)
        self._settle_partitions(
            [r for r in stopped if CAUSE_OF_CODE[r.code] not in OF_WHOLE_TOPICS], memory, settled
        )
        self._cleanup.empty_partitions(memory)
        return settled

    # -- whole topics --------------------------------------------------------------------------

    def _settle_topic(
        self,
        code: str,
        record: MirrorRecord,
        memory: Memory,
        settled: dict[TopicName, MirrorRecord | None],
        chosen: Chosen,
    ) -> None:
        name, (choice, decided_by) = record.source, chosen
        if self._cleanup.has_deleted(record.target, record.target_id):
            return
        asks = memory.all_of(record)
        facts = self._facts.find(record, code, asks)
        if len(facts) < len(asks):
            return  # something does not answer: the next reconciliation asks again
        now_ms = self._clock.wall_ms()
        rows: list[GapRow] = []
        for item in facts:
            effect = effect_of(replace(item, is_recreated=True), choice)
            if effect is None:
                why = f"{choice.value} is not possible: {why_not(item, choice)}"
                self._warnings.warn(name, why)
                return
            rows.append(decided_row(item, effect, decided_by, record, now_ms))
        self._ledger.record(rows)  # I6: before anything is passed
        for row in rows:
            self._progress.pass_gap(row.source)
        if choice is GapChoice.RESTART and not self._cleanup.delete_topic(record, rows):
            return
        topic = memory.topics.get(name)
        source_id = record.source_id if topic is None else topic.topic_id
        settled[name] = (
            replace(record, source_id=source_id) if choice is GapChoice.CONTINUE else None
        )
        self._settled.add(name)
        for ask in asks:
            self._errors.take_anew(ask.source)
        self._decisions.forget_topic(name, code)
        cause = CAUSE_OF_CODE[code]
        self._events.warn(f"{name}: {cause.words}; {choice.value}, decided by {decided_by}")

    # -- single partitions ---------------------------------------------------------------------

    def _settle_partitions(
        self,
        stopped: Iterable[PartitionReport],
        memory: Memory,
        settled: dict[TopicName, MirrorRecord | None],
    ) -> None:
        wanted: dict[tuple[TopicName, str], dict[PartitionId, tuple[PartitionReport, Chosen]]] = {}
        for report in stopped:
            name, partition = report.source.topic, report.source.partition
            chosen = self._decisions.chosen(name, partition, report.code, report.position)
            if chosen is not None:
                wanted.setdefault((name, report.code), {})[partition] = report, chosen
        for (name, code), items in wanted.items():
            record = memory.mirrors[name]
            for facts in self._facts.find(record, code, memory.asks(record, items)):
                report, chosen = items[facts.source.partition]
                passed = Offset(max(facts.position, report.position))
                is_passed = facts.cause in AT_THE_LANES_POSITION
                at = replace(facts, position=passed) if is_passed else facts
                if name in settled or not (self._is_settled(facts, report) and still_holds(at)):
                    continue
                ready = self._ready(at, record, report, chosen)
                if ready is None:
                    continue
                at = ready
                effect = effect_of(at, chosen.choice)
                if effect is None:
                    why = f"the decision can't be carried out: {why_not(at, chosen.choice)}"
                    self._warnings.warn(str(at.source), why)
                elif effect.recreates:
                    self._settle_topic(code, record, memory, settled, chosen)
                else:
                    self._settle_partition(at, effect, chosen.decided_by, record)
                    self._errors.passed(at.source)

    def _ready(
        self, at: Facts, record: MirrorRecord, report: PartitionReport, chosen: Chosen
    ) -> Facts | None:
        """Return facts with what can't be copied, which is kept if that was chosen; None: not now.

        What can't be read or kept concerns this partition only (I7).
        """
        if at.cause not in OF_RECORDS:
            return at
        try:
            failing = self._errors.failing(at)
            if failing is None:  # it is copied now; of a damaged batch the end is not known
                return at if at.cause is Cause.RECORD_CORRUPT else None
            if chosen.choice is GapChoice.DEAD_LETTER:
                self._errors.keep(failing, at, record, report.reason, chosen.decided_by)
        except (BrokerError, ConnectionLost) as error:
            self._warnings.warn(str(at.source), f"it can't be read, or kept, and stays: {error}")
            return None
        return replace(at, failing=failing.range)

    def _give_up_schemas(self, reports: Sequence[PartitionReport]) -> None:
        for report in self._errors.waiting(reports):
            try:
                self._errors.give_up(report)
            except (BrokerError, ConnectionLost) as error:
                why = f"records that wait for a schema can't be looked at: {error}"
                self._warnings.warn(str(report.source), why)

    def _settle_partition(
        self, facts: Facts, effect: Effect, decided_by: str, record: MirrorRecord
    ) -> None:
        source, now_ms = facts.source, self._clock.wall_ms()
        was = self._ledger.jumps().get(source)
        is_new = was is None or was.jump != effect.jump or was.cause is not facts.cause
        row = decided_row(facts, effect, decided_by, record, now_ms)
        if is_new or was is None or was.target_id != row.target_id:
            self._ledger.record([row])
        self._settled.add(source)
        self._errors.take_anew(source)
        self._progress.pass_gap(source)
        self._decisions.forget(source.topic, source.partition, facts.code)
        self._events.warn(f"{source}: {row.told()}")

    def _is_settled(self, facts: Facts, report: PartitionReport) -> bool:
        """Return whether the target's end no longer moves, or is the one that the lane reports."""
        end, looks = self._ends.get(facts.source, (Offset(-1), 0))
        looks = looks + 1 if end == facts.target_end else 1
        self._ends[facts.source] = (facts.target_end, looks)
        return looks >= SETTLED_LOOKS or report.position >= facts.position
