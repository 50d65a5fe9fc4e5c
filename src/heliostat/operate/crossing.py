"""Waiting until all that a source has now is at the target: then a producer may move in order.

    ask      where the source's logs end, once, by the word of all brokers
    follow   what the link reports after that: how far each partition is copied
    pass     a position has reached its end, and no transaction is open below

What others write meanwhile is not waited for. The target's own end says nothing here: others write
there. A report from before the ends were asked counts only where it says that nothing is copied.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Protocol

from heliostat.clock import Clock, SystemClock
from heliostat.clusters.admin import OpenTransaction, TopicInfo
from heliostat.clusters.recent_records import RecentRecords
from heliostat.config import Config, LinkConfig
from heliostat.errors import BrokerError, ConnectionLost
from heliostat.handover.desk import Problem, Weight
from heliostat.names import LinkName, Offset, ProducerId, TopicName, TopicPartition
from heliostat.operate.promotion import promotable
from heliostat.operate.source_writers import NO_ROLLING, merged_topics
from heliostat.operate.switching.preflight import STOPPED_HINT, link_problems, partition_problem
from heliostat.records.copier.lane import PartitionReport, PartitionState
from heliostat.rescue.source_rest import named_producers
from heliostat.state.connections import connected
from heliostat.state_topics import progress_topic
from heliostat.status.board import StatusBoard
from heliostat.status.reader import StatusReader
from heliostat.status.snapshot import DRIVER_SILENT_AFTER_S, ENDED_STATES
from heliostat.status.values import LinkStatus, state_words
from heliostat.topics.merged_links import refuse_unless_merged

CLIENT_ID = "heliostat-crossing"
READ_S = 0.25
TRANSACTIONS_EVERY_S = 2.0
"""How often the source is asked which transactions are open in partitions that wait."""
TOLD_EVERY_S = 2.0
LACKING_MAX = 5
"""Partitions that are named in a line of progress."""
Open = Mapping[TopicPartition, Sequence[OpenTransaction]]


class Stage(Enum):
    """How far a partition is."""

    WAITS = "waits"
    PASSED = "passed"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class Crossing:
    """One partition of the source, and what it waits for.

    Parameters
    ----------
    end
        Where its log ended when that was asked.
    position
        All below it is at the target, as last reported since; -1: nothing was reported yet.
    passed_ms
        When that was known to have reached the end, by the wall clock here; -1: it is not.
    code, text
        Why it is stopped, or what it waits for.
    """

    partition: TopicPartition
    end: Offset
    stage: Stage = Stage.WAITS
    position: int = -1
    passed_ms: int = -1
    code: str = ""
    text: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return it for `--json`."""
        return {
            "topic": self.partition.topic,
            "partition": self.partition.partition,
            "end": self.end,
            "stage": self.stage.value,
            "position": None if self.position < 0 else self.position,
            "passed_ms": None if self.passed_ms < 0 else self.passed_ms,
            "code": self.code,
            "text": self.text,
        }


def crossing_of(
    was: Crossing, report: PartitionReport | None, open_below: Sequence[str], now_ms: int
) -> Crossing:
    """Return how far a partition is by a report that came after its end was asked.

    Parameters
    ----------
    report
        None: it was not reported since.
    open_below
        Transactions that are open below its end, in words.
    """
    if was.stage is not Stage.WAITS:
        return was
    now = was if report is None else replace(was, position=report.position)
    has_reached = now.position >= was.end
    if report is not None and (stop := _stop(report, has_reached=has_reached)):
        return replace(now, stage=Stage.STOPPED, code=stop[0], text=stop[1])
    if open_below:
        return replace(now, code="open_transactions", text="; ".join(open_below))
    if report is None:
        return replace(now, code="", text="the link has not reported it since")
    if has_reached:
        return replace(now, stage=Stage.PASSED, passed_ms=now_ms, code="", text="")
    lacking = f"{was.end - report.position} offsets are to cross"
    text = lacking if report.position >= 0 else "its position is not known yet"
    why = f", retried: {report.reason}" if report.code else ""
    return replace(now, code=report.code, text=f"{text}{why}")


def _stop(report: PartitionReport, *, has_reached: bool) -> tuple[str, str] | None:
    """Return code and reason of a partition that is copied no further; None: it is copied."""
    state = report.state
    # A gap or foreign records mean that source or target is not what the position counts in.
    if state.is_stopped and not (has_reached and state is PartitionState.BLOCKED):
        return report.code or "not_copied", f"{state_words(state.value)}: {report.reason}"
    if state is PartitionState.PAUSED and not has_reached:
        return "paused", "paused"
    return None


@dataclass(frozen=True, slots=True)
class Crossed:
    """What waiting came to.

    Parameters
    ----------
    asked_ms
        When the ends were asked, by the wall clock here.
    problems
        Why it was not waited any longer; none: all has crossed.
    """

    link: LinkName
    asked_ms: int
    rows: tuple[Crossing, ...]
    took_s: float
    problems: tuple[Problem, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether all that was asked for has crossed."""
        return not self.problems and all(row.stage is Stage.PASSED for row in self.rows)

    def topics(self) -> dict[TopicName, list[Crossing]]:
        """Return partitions by topic."""
        by_topic: dict[TopicName, list[Crossing]] = {}
        for row in self.rows:
            by_topic.setdefault(row.partition.topic, []).append(row)
        return by_topic

    def describe(self, source: str, target: str) -> Iterator[str]:
        """Yield lines for people, with the clusters' names."""
        for problem in self.problems:
            yield f"[{problem.code}] {problem.text} (hint: {problem.hint})"
        for topic, rows in self.topics().items():
            ends = ", ".join(f"{row.partition.partition}: {row.end:,}" for row in rows)
            passed = sum(row.stage is Stage.PASSED for row in rows)
            if passed < len(rows):
                yield f"{topic}: {passed} of {len(rows)} partitions have crossed (ends {ends})"
                continue
            took_s = (max(row.passed_ms for row in rows) - self.asked_ms) / 1000
            yield (
                f"{topic}: all that {source} had is at {target}, {took_s:.1f} s after it was asked "
                f"(ends {ends}); who stopped before may go on there"
            )

    def to_json(self) -> dict[str, Any]:
        """Return it for `--json`."""
        return {
            "link": self.link,
            "has_crossed": self.is_whole,
            "asked_ms": self.asked_ms,
            "took_s": round(self.took_s, 3),
            "topics": {
                topic: all(row.stage is Stage.PASSED for row in rows)
                for topic, rows in self.topics().items()
            },
            "partitions": [row.to_json() for row in self.rows],
            "problems": [problem.to_json() for problem in self.problems],
        }


class Source(Protocol):
    """What is asked of the source; `ClusterAdmin` is one."""

    def describe_topics(self, names: Iterable[TopicName]) -> Mapping[TopicName, TopicInfo]:
        """Return topics with their partitions."""

    def list_log_ends(
        self, partitions: Iterable[TopicPartition], *, confirmed: bool = False
    ) -> Mapping[TopicPartition, Offset | BrokerError]:
        """Return log end offsets."""

    def open_transactions(
        self, partitions: Iterable[TopicPartition]
    ) -> Mapping[TopicPartition, tuple[OpenTransaction, ...] | BrokerError]:
        """Return transactions that have not ended."""

    def transactional_ids(self, producers: Iterable[ProducerId]) -> Mapping[ProducerId, str]:
        """Return names of producers, of those that have some."""


class Reports(Protocol):
    """What a link reports; `LinkReports` is one."""

    def before(self, clock: Clock) -> LinkStatus:
        """Return the link's status by what was reported so far."""

    def begin_anew(self) -> None:
        """Forget all that was reported until now."""

    def read(self, timeout_s: float) -> StatusBoard:
        """Return what was reported since, waiting at most so long for more."""


class LinkReports:
    """The reports of one link, from its progress topic. For one thread."""

    def __init__(self, link: LinkName, progress: RecentRecords) -> None:
        self._link = link
        self._progress = progress
        self._reader = StatusReader(link, progress)

    def before(self, clock: Clock) -> LinkStatus:
        """Return the link's status by what was reported so far."""
        if not self._progress.exists():
            return self._reader.board.status(clock.wall_ms())
        self._reader.begin()
        return self._reader.board.status(self._reader.seen_at_ms(clock))

    def begin_anew(self) -> None:
        """Read on behind the topic's end, into an empty board."""
        self._progress.newest()  # reading goes on behind it
        self._reader = StatusReader(self._link, self._progress)

    def read(self, timeout_s: float) -> StatusBoard:
        """Return what was reported since, waiting at most so long for more."""
        self._reader.read(timeout_s)
        return self._reader.board


Tell = Callable[[Sequence[Crossing]], None]


class InLines:
    """Tells how far partitions are in a line, now and then."""

    def __init__(self, tell: Callable[[str], None], clock: Clock) -> None:
        self._tell = tell
        self._clock = clock
        self._told_s = clock.monotonic_s()

    def __call__(self, rows: Sequence[Crossing]) -> None:
        """Tell it, if it is time and some have not crossed yet."""
        now_s = self._clock.monotonic_s()
        left = [row for row in rows if row.stage is not Stage.PASSED]
        if not left or now_s - self._told_s < TOLD_EVERY_S:
            return
        self._told_s = now_s
        named = "; ".join(f"{row.partition}: {row.text}" for row in left[:LACKING_MAX])
        more = " …" if len(left) > LACKING_MAX else ""
        self._tell(f"{len(rows) - len(left)} of {len(rows)} have crossed; {named}{more}")


class _Driver:
    """Whether the link's driver goes on reporting, by the clock here."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._at_ms: int | None = None
        self._since_s = clock.monotonic_s()

    def problems(self, board: StatusBoard, topics: Collection[TopicName]) -> Iterator[Problem]:
        """Yield why waiting is in vain."""
        if board.driver.get("state") in ENDED_STATES:
            yield from link_problems(board.status(self._clock.wall_ms()), topics)
            return
        at_ms, now_s = board.driver_at_ms, self._clock.monotonic_s()
        if at_ms != self._at_ms:
            self._at_ms, self._since_s = at_ms, now_s
        if now_s - self._since_s > DRIVER_SILENT_AFTER_S:
            yield Problem(
                *("not_running", "the link's driver reports no more"),
                "`heliostat run` the link, or look at its driver; then call this again",
                Weight.STOPS,
            )
        elif at_ms is not None:
            yield from link_problems(board.status(at_ms), topics)


class Waiting:
    """Waits for topics of one link. For one thread.

    Parameters
    ----------
    source
        The cluster from which records are to cross.
    reports
        What the link reports.
    tell
        Called with all partitions after each look.
    """

    def __init__(
        self, link: LinkName, source: Source, reports: Reports, clock: Clock, tell: Tell
    ) -> None:
        self._link = link
        self._source = source
        self._reports = reports
        self._clock = clock
        self._tell = tell
        self._open: dict[TopicPartition, list[str]] = {}
        self._asked_s = -1e9

    def wait(self, topics: Collection[TopicName], within_s: float) -> Crossed:
        """Wait until all that the topics have now has crossed, or can't.

        Raises
        ------
        ConnectionLost, BrokerError
            A cluster does not answer, or refuses.
        """
        began_s, asked_ms = self._clock.monotonic_s(), self._clock.wall_ms()
        before = self._reports.before(self._clock)
        stops = [
            problem
            for problem in before.problems
            if problem.is_stopped and problem.source in topics
        ]
        # What is stopped now stands before a record that is there: its end lies behind that.
        problems = [*link_problems(before, topics), *map(partition_problem, stops)]
        rows: list[Crossing] = []
        if not problems:
            rows = [
                Crossing(partition, end) for partition, end in sorted(self._ends(topics).items())
            ]
            asked_ms = self._clock.wall_ms()
            self._reports.begin_anew()
        driver = _Driver(self._clock)
        while not problems and any(row.stage is Stage.WAITS for row in rows):
            board = self._reports.read(READ_S)
            rows = self._look(rows, board)
            self._tell(rows)
            problems = [*map(_stopped, (row for row in rows if row.stage is Stage.STOPPED))]
            if left := {row.partition.topic for row in rows if row.stage is Stage.WAITS}:
                problems += driver.problems(board, left)
            if not problems and self._clock.monotonic_s() - began_s >= within_s:
                problems = [_late(row, within_s) for row in rows if row.stage is Stage.WAITS]
        took_s = self._clock.monotonic_s() - began_s
        return Crossed(self._link, asked_ms, tuple(rows), took_s, tuple(problems))

    def _ends(self, topics: Collection[TopicName]) -> dict[TopicPartition, Offset]:
        infos = self._source.describe_topics(topics)
        for info in infos.values():
            if info.error is not None:
                raise info.error
        partitions = [
            TopicPartition(name, part.partition)
            for name, info in infos.items()
            for part in info.partitions
        ]
        ends: dict[TopicPartition, Offset] = {}
        for partition, end in self._source.list_log_ends(partitions, confirmed=True).items():
            if isinstance(end, BrokerError):
                raise ConnectionLost(f"the end of {partition} can't be read now: {end.text}")
            ends[partition] = end
        return ends

    def _look(self, rows: Sequence[Crossing], board: StatusBoard) -> list[Crossing]:
        reports = {report.source: report for report in board.reports()}
        waiting = [row for row in rows if row.stage is Stage.WAITS]
        reached = [
            row
            for row in waiting
            if row.partition in reports and reports[row.partition].position >= row.end
        ]
        now_s = self._clock.monotonic_s()
        if reached or now_s - self._asked_s >= TRANSACTIONS_EVERY_S:
            self._asked_s = now_s
            self._open = self._open_below(waiting)
        now_ms = self._clock.wall_ms()
        return [
            crossing_of(row, reports.get(row.partition), self._open.get(row.partition, ()), now_ms)
            for row in rows
        ]

    def _open_below(self, waiting: Sequence[Crossing]) -> dict[TopicPartition, list[str]]:
        """Return transactions that are open below ends; brokers before 2.8 name none.

        There the position alone tells: a link copies no further than the last stable offset.
        """
        ends = {row.partition: row.end for row in waiting}
        lines: dict[TopicPartition, list[str]] = {}
        for producer in named_producers(self._source, self._source.open_transactions(ends)):
            if producer.first < ends[producer.partition]:
                lines.setdefault(producer.partition, []).append(producer.line())
        return lines


def _stopped(row: Crossing) -> Problem:
    hint = "`heliostat resume` it" if row.code == "paused" else STOPPED_HINT
    return Problem(row.code, f"{row.partition} is {row.text}", hint, Weight.STOPS)


def _late(row: Crossing, within_s: float) -> Problem:
    hint = "call it again, with a longer --records-wait: it asks for new ends then"
    if row.code == "open_transactions":
        hint = "end or abort it (kafka-transactions.sh), then call this again"
    text = f"{row.partition} has not crossed within {within_s:g} s: {row.text}"
    return Problem(row.code or "not_crossed", text, hint, Weight.STOPS)


def wait_until_crossed(
    config: Config,
    link: LinkConfig,
    topics: Collection[str],
    within_s: float,
    tell: Tell = lambda _: None,
) -> Crossed:
    """Wait until all that merged topics have at the source now is at the target.

    Parameters
    ----------
    topics
        Names at the source.
    within_s
        How long to wait.
    tell
        Called with all partitions after each look.

    Raises
    ------
    Refused
        A topic is not merged.
    ConnectionLost, BrokerError
        A cluster does not answer, or refuses.
    """
    refuse_unless_merged(link, NO_ROLLING)
    name = LinkName(link.name)
    asks: dict[str, Callable[[], None]] = {}
    with (
        connected(config, link, CLIENT_ID) as both,
        both.admins(asks) as admins,
        closing(RecentRecords(both.target, progress_topic(name))) as progress,
    ):
        with closing(both.state()) as state:
            names = merged_topics(promotable(state, topics), topics)
        reports = LinkReports(name, progress)
        waiting = Waiting(name, admins.source, reports, SystemClock(), tell)
        return waiting.wait(names, within_s)
