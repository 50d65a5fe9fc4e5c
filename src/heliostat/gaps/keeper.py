"""The driver's side of gaps: what stands stopped is decided on, recorded, and then acted on.

I6  Order of everything here: facts are asked of both clusters anew, rows are durable, only then
    is a target emptied or a lane told to go on elsewhere. A driver that dies in between finds the
    rows and finishes what they say.
I7  What can't be asked or done for one partition leaves it as it is until the next turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from heliostat.clock import Clock
from heliostat.clusters.admin import ClusterAdmin
from heliostat.clusters.kafka_codes import UNKNOWN_TOPIC_OR_PARTITION
from heliostat.config import LinkConfig
from heliostat.errors import BrokerError, HeliostatError
from heliostat.gaps.choices import (
    AT_THE_LANES_POSITION,
    CAUSE_OF_CODE,
    OF_WHOLE_TOPICS,
    Cause,
    Choice,
    Facts,
    effect_of,
    still_holds,
    why_not,
)
from heliostat.gaps.facts import Ask, gather
from heliostat.gaps.ledger import Copied, GapLedger, GapRow
from heliostat.gaps.rows import Memory, decided_row, gone_rows, lost_row, whole_topics
from heliostat.gaps.source_truncation import WRITE_EVERY_S, Divergence, EpochBook, truncations
from heliostat.names import Offset, PartitionId, TopicName, TopicPartition, id_text, is_still
from heliostat.offsets.offset_map import MapReader
from heliostat.ops.events import Events
from heliostat.records.copier.lane import LaneSpec, PartitionReport, PartitionSpec, RoundReport
from heliostat.records.copier.partition_standing import truncated_text
from heliostat.state.link_state import Starts
from heliostat.topics.same_topics import not_shown_same, recreated
from heliostat.topics.topic_plan import TopicPlan
from heliostat.topics.values import MirrorRecord

SETTLED_TURNS = 2
"""Turns that must see the same end of a stopped target: an append may still land (I4)."""
NOTHING_NOTED = Copied(Offset(-1), -1)


class GapKeeper:
    """Decides, records and acts; used by the driver's turn only.

    Parameters
    ----------
    link
        Its configuration.
    source, target
        Both clusters.
    ledger
        Read and written here alone.
    maps
        Reads the offset maps of the link's mirrors; asked only when something is decided.
    clock, events
        Time, and where decisions are told.
    """

    def __init__(
        self,
        link: LinkConfig,
        source: ClusterAdmin,
        target: ClusterAdmin,
        ledger: GapLedger,
        *,
        maps: Callable[[], MapReader],
        clock: Clock,
        events: Events,
    ) -> None:
        self._link = link
        self._source = source
        self._target = target
        self._ledger = ledger
        self._maps = maps
        self._clock = clock
        self._events = events
        self._book = EpochBook({})
        self._mirrors: Mapping[TopicName, MirrorRecord] = {}
        self._is_first = True
        self._written_at_s = clock.monotonic_s()
        self._ends: dict[TopicPartition, tuple[Offset, int]] = {}
        self._said: dict[str, str] = {}
        self._settled_ms: dict[TopicName | TopicPartition, int] = {}
        """Reports of these from before then speak of what has been settled."""
        self._deleted: dict[TopicName, str] = {}
        """Ids of target topics that were deleted here to be made anew."""
        self._diverged: dict[TopicPartition, Divergence] = {}

    def begin(self) -> None:
        """Read what was recorded before."""
        self._ledger.ensure(self._link.state.replication_factor)
        self._ledger.read()
        self._book = EpochBook(self._ledger.copied)

    def close(self) -> None:
        """Write how far was copied, and close."""
        try:
            self._take(())  # of rounds that have ended since the last turn
            self._book.settle_noted(is_over=True)  # no round runs any more: nothing heard is newer
            self._ledger.put_copied(self._book.due(all_moved=True))
        except HeliostatError as error:
            self._events.warn(f"how far was copied in the last minute can't be written: {error}")
        finally:
            self._ledger.close()

    def report(self) -> dict[str, int]:
        """Sums for the driver's report."""
        rows = list(self._ledger.rows.values())
        return {
            "rows": len(rows),
            "records_lost": sum(row.count or 0 for row in rows),
            "unknown": sum(1 for row in rows if row.count is None),
        }

    def copied(self, specs: Sequence[PartitionSpec]) -> tuple[tuple[int, int, int, int], ...]:
        """For a lane that begins a round, see `LaneSpec.copied`; from any thread."""
        found: list[tuple[int, int, int, int]] = []
        for index, spec in enumerate(specs):
            row = self._book.row_of(spec)
            if row is not None or self._book.has_begun(spec):
                found.append((index, *(row or NOTHING_NOTED)))
        return tuple(found)

    def copied_to(self, source: TopicPartition) -> Copied | None:
        """How far a source partition was copied, as far as that is written down."""
        topic = self._book.topics().get(source.topic)
        return None if topic is None else topic.partitions.get(source.partition)

    def round_ended(self, spec: LaneSpec, report: RoundReport) -> None:
        """Note how far a round has copied, and what the target lost in it; from any thread."""
        for index, *lost in report.lost:
            self._book.note_lost(spec.partitions[index], *lost)
        for index, *row in report.copied:
            self._book.note(spec.partitions[index], Copied(*row))

    # -- what was heard ------------------------------------------------------------------------

    def consume(self, reports: Sequence[PartitionReport], memory: Memory) -> None:
        """Take decisions and reports since the last turn; look whether the source was truncated."""
        self._keep_ledger()
        self._mirrors = memory.mirrors
        self._take(self._fresh(reports))
        self._book.settle_noted(is_over=False)
        self._look_at_epochs([n for n, r in memory.mirrors.items() if _is_same(memory, r)])
        is_time = self._clock.monotonic_s() >= self._written_at_s + WRITE_EVERY_S
        if is_time:
            self._written_at_s = self._clock.monotonic_s()
        self._ledger.put_copied(self._book.due(all_moved=is_time))

    def _keep_ledger(self) -> None:
        """Take what others wrote; make the ledger anew where it was deleted."""
        topic = self._ledger.topic
        error = self._target.describe_topics([topic])[topic].error
        if error is not None and error.kafka_code == UNKNOWN_TOPIC_OR_PARTITION:
            self._ledger.restore(self._link.state.replication_factor)
            self._events.warn(f"{topic} was gone at the target and is made anew with all its rows")
            self._ledger.read()
        else:
            self._ledger.consume()

    def _look_at_epochs(self, names: Sequence[TopicName]) -> None:
        """Ask about partitions whose leader has changed; at the beginning about all of them."""
        leaders = None if self._is_first else self._leader_epochs(names)
        answers = truncations(self._source, self._book.to_ask(leaders, names))
        self._diverged = {
            p: divergence for p, divergence in answers.items() if divergence is not None
        }
        self._book.confirm(p for p, divergence in answers.items() if divergence is None)
        self._is_first = False

    def _leader_epochs(self, names: Iterable[TopicName]) -> dict[TopicPartition, int]:
        infos = self._source.describe_topics()
        return {
            TopicPartition(name, partition.partition): partition.leader_epoch
            for name in names
            if name in infos
            for partition in infos[name].partitions
        }

    def _take(self, reports: Iterable[PartitionReport]) -> None:
        """Note how far was copied, and record what the target lost of that: it is copied again."""
        source_ids = {name: record.source_id for name, record in self._mirrors.items()}
        now_ms = self._clock.wall_ms()
        lost = self._book.take(reports, source_ids)
        rows = [  # two of one partition differ in their time, which names them
            lost_row(item, self._mirrors[item.partition.topic], now_ms + place)
            for place, item in enumerate(lost)
        ]
        for row in rows:
            self._events.warn(f"{row.target}: {row.text}")
        if rows:
            self._ledger.record(rows)

    def _fresh(self, reports: Iterable[PartitionReport]) -> list[PartitionReport]:
        """Those of a state begun after its topic was last settled, and all of that carried out."""
        pending = {row.source for row in self._pending()}
        return [r for r in reports if r.source not in pending and self._is_after(r)]

    def _is_after(self, report: PartitionReport) -> bool:
        partition = report.source
        settled_ms = (self._settled_ms.get(key, -1) for key in (partition, partition.topic))
        return report.since_ms > max(settled_ms)

    def _pending(self) -> list[GapRow]:
        """Rows whose mirrors are still to be emptied, before the lanes hear of the jump."""
        rows = self._ledger.rows.values()
        return [row for row in rows if not row.is_done and row.jump is not None]

    # -- whole topics --------------------------------------------------------------------------

    def settle(
        self, plan: TopicPlan, reports: Iterable[PartitionReport], memory: Memory
    ) -> dict[TopicName, MirrorRecord | None]:
        """Decide on what stands stopped and carry it out.

        Returns
        -------
        dict
            Source topics to plan anew, with the record to keep of the mirror from now on; None
            where its target was deleted.

        Raises
        ------
        ConnectionLost, BrokerError
            A cluster or the ledger does not answer; nothing was passed that is not recorded.
        """
        stopped = [
            report
            for report in self._fresh(reports)
            if report.state.is_stopped
            and report.code in CAUSE_OF_CODE
            and report.source.topic in memory.mirrors
        ]
        settled: dict[TopicName, MirrorRecord | None] = {}
        for name, code in whole_topics(plan, stopped):
            record = memory.mirrors.get(name)
            if record is not None and name not in settled:
                self._settle_topic(code, record, memory, settled, self._choice(name, None, code))
        self._settle_partitions(
            [r for r in stopped if CAUSE_OF_CODE.get(r.code) not in OF_WHOLE_TOPICS],
            memory,
            settled,
        )
        self._empty_targets(memory)
        return settled

    def _settle_topic(
        self,
        code: str,
        record: MirrorRecord,
        memory: Memory,
        settled: dict[TopicName, MirrorRecord | None],
        chosen: tuple[Choice | None, str],
    ) -> None:
        name, (choice, decided_by) = record.source, chosen
        was_deleted = self._deleted.get(record.target) == id_text(record.target_id)
        if choice is None or choice is Choice.WAIT or was_deleted:
            return
        asks = memory.all_of(record)
        facts = self._facts(record, code, asks)
        if len(facts) < len(asks):
            return  # something does not answer: the next turn asks again
        now_ms = self._clock.wall_ms()
        rows: list[GapRow] = []
        for item in facts:
            effect = effect_of(replace(item, is_recreated=True), choice)
            if effect is None:
                self._say_once(name, f"{choice.value} is not possible: {why_not(item, choice)}")
                return
            rows.append(decided_row(item, effect, decided_by, record, now_ms))
        self._ledger.record(rows)  # I6: before anything is passed
        for row in rows:
            self._book.forget(row.source)
            self._diverged.pop(row.source, None)
        if choice is Choice.RESTART and not self._delete(record, rows):
            return
        topic = memory.topics.get(name)
        source_id = record.source_id if topic is None else topic.topic_id
        settled[name] = replace(record, source_id=source_id) if choice is Choice.CONTINUE else None
        self._settled_ms[name] = self._clock.wall_ms()
        self._forget_decisions(name, code)
        cause = CAUSE_OF_CODE[code]
        self._events.warn(f"{name}: {cause.words}; {choice.value}, decided by {decided_by}")

    def _delete(self, record: MirrorRecord, rows: list[GapRow]) -> bool:
        """Delete the target topic; the plan then makes it anew as an exact mirror."""
        ids = {record.target: id_text(record.target_id)}
        was_theirs = any(row.cause is Cause.TARGET_RECREATED for row in rows)
        if not was_theirs and not_shown_same(self._target, ids):
            self._say_once(record.source, f"{record.target} was made anew: it is not deleted")
            return False
        error = self._target.delete_topics([record.target])[record.target]
        if error is not None and error.kafka_code != UNKNOWN_TOPIC_OR_PARTITION:
            self._say_once(record.source, f"{record.target} can't be deleted: {error}")
            return False
        self._deleted[record.target] = id_text(record.target_id)
        self._ledger.record([replace(row, is_done=True) for row in rows])
        return True

    # -- single partitions ---------------------------------------------------------------------

    def _settle_partitions(
        self,
        stopped: Iterable[PartitionReport],
        memory: Memory,
        settled: dict[TopicName, MirrorRecord | None],
    ) -> None:
        wanted: dict[tuple[TopicName, str], dict[PartitionId, PartitionReport]] = {}
        for report in stopped:
            name, partition = report.source.topic, report.source.partition
            choice, _ = self._choice(name, partition, report.code)
            is_known = report.code in CAUSE_OF_CODE
            if is_known and choice is not None and choice is not Choice.WAIT:
                wanted.setdefault((name, report.code), {})[partition] = report
        for (name, code), reports in wanted.items():
            record = memory.mirrors[name]
            for facts in self._facts(record, code, memory.asks(record, reports)):
                report = reports[facts.source.partition]
                passed = Offset(max(facts.position, report.position))
                is_passed = facts.cause in AT_THE_LANES_POSITION
                at = replace(facts, position=passed) if is_passed else facts
                if name in settled or not (self._is_settled(facts, report) and still_holds(at)):
                    continue
                chosen = self._choice(name, facts.source.partition, code)
                effect = None if chosen[0] is None else effect_of(at, chosen[0])
                if effect is not None and effect.recreates:
                    self._settle_topic(code, record, memory, settled, chosen)
                else:
                    self._settle_partition(at, record, report.since_ms)

    def _settle_partition(self, facts: Facts, record: MirrorRecord, since_ms: int) -> None:
        source = facts.source
        choice, decided_by = self._choice(source.topic, source.partition, facts.code)
        effect = None if choice is None else effect_of(facts, choice)
        if choice is None or effect is None:
            why = "" if choice is None else why_not(facts, choice)
            self._say_once(str(source), f"what was decided is not possible: {why}")
            return
        now_ms = self._clock.wall_ms()
        was = self._ledger.jumps().get(source)
        is_new = was is None or was.jump != effect.jump or was.cause is not facts.cause
        if is_new or was is None or was.target_id != id_text(record.target_id):
            self._ledger.record([decided_row(facts, effect, decided_by, record, now_ms)])
        self._settled_ms[source] = max(now_ms, since_ms)
        self._book.forget(source)
        self._diverged.pop(source, None)
        self._forget_decision(source.topic, source.partition, facts.code)
        self._events.warn(
            f"{source}: {facts.cause.words}; {choice.value}, decided by {decided_by}: "
            f"{effect.records}"
        )

    def _is_settled(self, facts: Facts, report: PartitionReport) -> bool:
        """Whether the target's end stands still, or is what the lane's report speaks of."""
        end, turns = self._ends.get(facts.source, (Offset(-1), 0))
        turns = turns + 1 if end == facts.target_end else 1
        self._ends[facts.source] = (facts.target_end, turns)
        return turns >= SETTLED_TURNS or report.position >= facts.position

    # -- carrying out --------------------------------------------------------------------------

    def _empty_targets(self, memory: Memory) -> None:
        """Delete records where rows say so and it is not done; also what another driver began.

        Never of a topic that is no mirror of the link, whatever a row says.
        """
        pending = {row.target: row for row in self._pending() if memory.is_of_mirror(row)}
        if not pending:
            return
        ids = {row.target.topic: row.target_id for row in pending.values()}
        anew = recreated(self._target, ids)
        done = [row for row in pending.values() if row.target.topic in anew]  # it is gone, with all
        kept = anew | not_shown_same(self._target, ids)
        left = {mirror: row for mirror, row in pending.items() if mirror.topic not in kept}
        answers = self._target.delete_records(
            {mirror: Offset(row.jump.target) for mirror, row in left.items() if row.jump}
        )
        for mirror, row in left.items():
            answer = answers[mirror]
            if isinstance(answer, BrokerError):
                self._say_once(str(row.source), f"{mirror} can't be emptied: {answer}")
            else:
                done.append(row)
        self._ledger.record([replace(row, is_done=True) for row in done])
        for name in sorted(recreated(self._target, ids) - kept):
            self._events.warn(
                f"{name} was made anew at the target while its mirror was emptied: records that "
                "others wrote there may be gone as well"
            )

    def with_gaps(
        self, specs: Mapping[TopicPartition, PartitionSpec]
    ) -> dict[TopicPartition, PartitionSpec]:
        """Tell lanes where recorded gaps let partitions go on, and which sources were truncated."""
        found = dict(specs)
        for source, row in self._ledger.jumps().items():
            spec = found.get(source)
            if spec is not None and row.is_done and _is_of(row, spec):
                found[source] = replace(spec, jump=row.jump)
        for source, divergence in self._diverged.items():
            if source in found:
                found[source] = replace(found[source], truncated=truncated_text(divergence.at))
        return found

    def note_again(
        self, record: MirrorRecord, was: Starts, now: Mapping[PartitionId, Offset]
    ) -> None:
        """Record what went with a mirror that somebody deleted, where the source has less now."""
        for number in was.offsets:  # how far the one before was copied says nothing of this one
            self._book.forget(TopicPartition(record.source, number))
        if self._deleted.get(record.target) == id_text(was.target_id):
            return  # by us, and recorded
        rows = gone_rows(record, was, now, self._clock.wall_ms())
        self._ledger.record(rows)
        for row in rows:
            self._events.warn(f"{row.source}: the mirror was deleted at the target; {row.text}")

    # -- what was decided ----------------------------------------------------------------------

    def _choice(
        self, topic: TopicName, partition: PartitionId | None, code: str
    ) -> tuple[Choice | None, str]:
        """What is to be done and who says so: an operator, or else the policy."""
        decision = self._ledger.decision_for(topic, partition, code)
        if decision is not None:
            return decision.choice, f"user {decision.decided_by}"
        policy = self._link.gaps.policy_of(topic)
        return (None, "") if policy == "stop" else (Choice(policy), "policy")

    def _forget_decision(self, topic: TopicName, partition: PartitionId, code: str) -> None:
        """One that was made for this very partition; one for the topic concerns others too."""
        decision = self._ledger.decision_for(topic, partition, code)
        if decision is not None and decision.partition is not None:
            self._ledger.forget(decision)

    def _forget_decisions(self, topic: TopicName, code: str) -> None:
        for decision in list(self._ledger.decisions.values()):
            if decision.topic == topic and decision.is_about(code):
                self._ledger.forget(decision)

    def _facts(self, record: MirrorRecord, code: str, asks: list[Ask]) -> list[Facts]:
        found = gather(
            self._source,
            self._target,
            asks,
            record=record,
            code=code,
            maps=self._maps,
            copied=self._book.topics().get(record.source),
            fills=self._link.topics.offsets == "exact",
        )
        return [self._after_jump(facts, record) for facts in found]

    def _after_jump(self, facts: Facts, record: MirrorRecord) -> Facts:
        """Where a jump is recorded that the lane has not taken yet, it stands behind that."""
        row = self._ledger.jumps().get(facts.source)
        if row is None or row.jump is None or row.target_id != id_text(record.target_id):
            return facts
        if row.jump.target != facts.target_end:
            return facts
        return replace(facts, position=Offset(row.jump.source))

    def _say_once(self, what: str, why: str) -> None:
        if self._said.get(what) != why:
            self._said[what] = why
            self._events.warn(f"{what}: {why}")


def _is_same(memory: Memory, record: MirrorRecord) -> bool:
    """Whether the source still has the very topic that was copied."""
    topic = memory.topics.get(record.source)
    return topic is not None and is_still(record.source_id, topic.topic_id)


def _is_of(row: GapRow, spec: PartitionSpec) -> bool:
    """Whether a row speaks of this very target topic."""
    return row.target_id == id_text(spec.target_topic_id) and row.mirror == spec.target.topic
