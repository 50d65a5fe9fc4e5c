"""A driver's gap keeper in a simulated world: its reports, decisions and actions, turn by turn."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Literal
from unittest.mock import Mock
from uuid import UUID

from sim.partition_log import PartitionLog
from support.ledger import KeptTopic, ledger_on
from support.simulated_admin import SimulatedAdmin
from support.simulated_cluster import Call, SimulatedCluster
from typing_extensions import override

from heliostat.clusters.admin.values import ConfigEntry, ConfigSource
from heliostat.config import ErrorsConfig, GapsConfig, LinkConfig, TopicsConfig
from heliostat.gaps.choices import Facts, FailingRange, GapChoice
from heliostat.gaps.facts import OwnRecords
from heliostat.gaps.keeper import GapKeeper
from heliostat.gaps.ledger import GapDecision, GapRow
from heliostat.gaps.originals import Failing
from heliostat.gaps.record_errors import RecordErrors
from heliostat.gaps.rows import Memory
from heliostat.gaps.source_truncation import LostRange
from heliostat.names import (
    Alias,
    ClusterId,
    LaneId,
    LinkName,
    Offset,
    PartitionId,
    TopicId,
    TopicName,
    TopicPartition,
)
from heliostat.offsets.offset_map import MapReader
from heliostat.records.copier.lane import (
    PartitionReport,
    PartitionSpec,
    PartitionState,
    RoundReport,
)
from heliostat.state.link_state import Starts
from heliostat.topics.topic_plan import RefusedTopic, TopicPlan
from heliostat.topics.values import MirrorRecord, SourceTopic

T = TopicName("t")
P = TopicPartition(T, PartitionId(0))
OLD_ID, NEW_ID, TARGET_ID = UUID(int=1), UUID(int=2), UUID(int=3)
RECORD = MirrorRecord(T, T, OLD_ID, TARGET_ID, ClusterId("c"), "earliest", 1)
NOW_MS = 1000
NOT_LEADER = 6


def side(topic_id: TopicId, start: int, end: int, *epochs: int) -> SimulatedCluster:
    """Return one partition with log [start, end) in batches of ten; `epochs` are its leaders'."""
    made = SimulatedCluster()
    made.create(T).topic_id = topic_id
    for epoch in epochs:
        log_of(made).lead(epoch)
    write(made, end)
    log_of(made).delete_before(start)
    return made


def log_of(cluster: SimulatedCluster) -> PartitionLog:
    return cluster.topics[T].logs[0]


def write(cluster: SimulatedCluster, end: int) -> None:
    while log_of(cluster).end < end:
        cluster.append(T, min(10, end - log_of(cluster).end))


class ErrorsOfOneRecord(RecordErrors):
    """Takes it that the record at the position fails, and notes what would be kept."""

    def __init__(self, config: ErrorsConfig | None, clock: Any) -> None:
        self.retried: list[TopicPartition] = []
        self.kept: list[Offset] = []
        self._heard: Callable[[], None] = lambda: None
        super().__init__(
            config or ErrorsConfig(),
            Mock(),
            Mock(),
            Mock(),
            clock=clock,
            on_retry=self.retried.append,
        )

    @override
    def failing(self, facts: Facts) -> Failing | None:
        """See `RecordErrors`."""
        return Failing(FailingRange(Offset(facts.position + 1), 1), ())

    @override
    def keep(self, failing: Failing, facts: Facts, *_: Any) -> None:
        """See `RecordErrors`."""
        self.kept.append(facts.position)
        self._heard()

    def listen(self, heard: Callable[[], None]) -> None:
        """Call `heard` when something is kept."""
        self._heard = heard


class Turns:
    """A keeper in a world: source [150, 200), target [0, 100)."""

    def __init__(
        self,
        policy: Literal["stop", "continue", "restart"] = "stop",
        source: SimulatedCluster | None = None,
        offsets: Literal["auto", "exact"] = "auto",
        errors: ErrorsConfig | None = None,
        own: OwnRecords | None = None,
    ) -> None:
        self.done: list[str] = []
        self.source = source or side(OLD_ID, 150, 200)
        self.target = side(TARGET_ID, 0, 100)
        self.target.answered = self._note
        self.kept = KeptTopic()
        self.target.create(self.kept.topic)
        self.ledger = ledger_on(self.kept)
        write_many = self.kept.write_many

        def noted(values: dict[str, Any]) -> None:
            self.done.extend(f"write {key.split('/')[0]}" for key in values)
            write_many(values)

        self.kept.write_many = noted  # type: ignore[method-assign]  # to see the order
        self.events = Mock()
        self.clock = SimpleNamespace(wall_ms=lambda: NOW_MS, monotonic_s=lambda: 1.0)
        gaps, topics = GapsConfig(policy=policy), TopicsConfig(offsets=offsets)
        link = LinkConfig(
            name=LinkName("l"), source=Alias("a"), target=Alias("b"), gaps=gaps, topics=topics
        )
        self.errors = ErrorsOfOneRecord(errors, self.clock)
        self.keeper = GapKeeper(
            link,
            SimulatedAdmin(self.source),
            SimulatedAdmin(self.target),
            self.ledger,
            maps=MapReader,
            errors=self.errors,
            clock=self.clock,
            events=self.events,
            own=own,
        )
        self.keeper.begin()
        delete = ConfigEntry("delete", ConfigSource.DEFAULT, True, False, False)
        self.topic = SourceTopic(T, OLD_ID, 1, 1, {"cleanup.policy": delete})
        self.starts = {T: Starts(TARGET_ID, {PartitionId(0): Offset(0)})}
        self.refuse: dict[TopicName, RefusedTopic] = {}

    def _note(self, call: Call) -> None:
        if call.method == "delete_records":
            rows = zip(call.items, call.values, strict=True)
            self.done += [f"empty {partition} to {offset}" for partition, offset in rows]
        if call.method == "delete_topics":
            self.done += [f"delete {name}" for name in call.items]

    def turn(self, *reports: PartitionReport) -> dict[TopicName, MirrorRecord | None]:
        memory = Memory({T: RECORD}, self.starts, {T: self.topic})
        self.keeper.consume(reports, memory)
        return self.keeper.settle(TopicPlan(refuse=self.refuse), reports, memory)

    def told(self) -> None:
        """Lanes are told what was settled: the next reports are of lanes that know it."""
        self.keeper.told()

    def rows(self) -> list[GapRow]:
        return list(self.ledger.rows.values())

    def spec(self) -> PartitionSpec:
        spec = PartitionSpec(P, P, OLD_ID, TARGET_ID, Offset(0), 1 << 20, is_compacted=False)
        return self.keeper.with_gaps({P: spec})[P]

    def lose(self, first: int, end: int, source_id: UUID = OLD_ID) -> None:
        """A lane reports that the target has lost `[first, end)`."""
        self.keeper.note_lost(LostRange(P, P, first, end), source_id)

    def decide(
        self, choice: GapChoice, code: str = "SOURCE_OVERTOOK", *, whole: bool = False
    ) -> None:
        which = None if whole else PartitionId(0)
        self.ledger.decide(GapDecision(T, which, code, choice, "ops", 7))
        self.done.clear()


def stopped(
    position: int = 100, code: str = "SOURCE_OVERTOOK", since_ms: int = 5
) -> PartitionReport:
    state = PartitionState.DIVERGED if code == "FOREIGN_TAIL" else PartitionState.GAP
    return PartitionReport(P, P, state, position, 200, 0, 0, -1, -1, since_ms, code, "gone")


def copying(position: int, copied_to: int, epoch: int) -> PartitionReport:
    return PartitionReport(
        P,
        P,
        PartitionState.COPYING,
        position,
        200,
        0,
        0,
        -1,
        -1,
        5,
        copied_to=copied_to,
        copied_epoch=epoch,
    )


def ended(offset: int, epoch: int, end: int) -> RoundReport:
    """The last report of a round that copied so far."""
    found = RoundReport(LaneId(0), 1, 0, 1, 1, "plan", [])
    found.copied = [(P, offset, epoch, end)]
    return found
