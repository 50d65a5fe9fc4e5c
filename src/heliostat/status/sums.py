"""Partition rows summed up for people: by topic, by state, and the problems of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import chain

from heliostat.names import TopicName, TopicPartition
from heliostat.records.copier.lane import LineUse, PartitionState
from heliostat.status.lag import Ends, Lag, Reading, is_lost_as_lag, lag_of, loss_of, summed
from heliostat.status.loss import loss_from
from heliostat.status.rows import PartitionRow
from heliostat.status.values import PartitionProblem, TopicStatus

STARTING_UNSEEN_S = 5.0
"""A new round finds its positions within a second; until then the last figures are shown."""
SILENT = "silent"
"""State of a partition whose lane does not report: its last known state is outdated."""
STOPPED = "stopped"
"""State of a partition of a link that was stopped."""


class Sums:
    """Sums of one status.

    Parameters
    ----------
    ends
        Where logs end, of partitions for which that was read.
    open_since_ms
        When transactions began that are open at the source, by partition.
    """

    def __init__(self, ends: Ends, open_since_ms: Mapping[TopicPartition, int]) -> None:
        self._ends = ends
        self._open_since_ms = open_since_ms
        self._lags: dict[TopicName, list[Lag]] = {}
        self._losses: dict[TopicName, list[Lag]] = {}
        self._with_loss: set[TopicName] = set()
        """Topics of which more, or other things, would be lost than their lag says."""
        self.topics: dict[TopicName, TopicStatus] = {}
        self.problems: list[PartitionProblem] = []
        self.states: Counter[str] = Counter()

    def add(self, row: PartitionRow, *, state: str, reading: Reading, until_ms: int) -> Lag:
        """Add a partition; return its lag.

        Parameters
        ----------
        state
            Its state if its last report is outdated; empty: that of the report.
        reading, until_ms
            How far its last report holds, and until when (wall ms).
        """
        item = row.report
        topic = self.topics.get(item.source.topic)
        if topic is None:
            topic = TopicStatus(item.source.topic, item.target.topic)
            self.topics[item.source.topic] = topic
        shown = state_shown(item.state, state)
        topic.partitions += 1
        topic.states[shown] = topic.states.get(shown, 0) + 1
        self.states[shown] += 1
        topic.open_records += item.open_records
        topic.mapped += item.breaks > 0
        ends = self._ends.get(item.source) if self._ends else None
        lag = lag_of(item, reading, until_ms, ends)
        self._lags.setdefault(item.source.topic, []).append(lag)
        loss = lag
        if not is_lost_as_lag(item, reading):
            since_ms = self._open_since_ms.get(item.source, -1)
            loss = loss_of(item, reading, until_ms, ends, since_ms)
            self._with_loss.add(item.source.topic)
        self._losses.setdefault(item.source.topic, []).append(loss)
        if item.reason:
            self.problems += problems_of([row])
        return lag

    def close(self, unreported: int) -> tuple[Lag, Lag]:
        """Sum up; return lag and loss of the link, of which so many partitions have no report."""
        for name, topic in self.topics.items():
            lag = summed(self._lags[name])
            topic.lag_records, topic.lag_s, topic.unknown = lag.records, lag.age_s, lag.unknown
            loss = summed(self._losses[name]) if name in self._with_loss else lag
            topic.would_be_lost = loss_from(loss)
        rest = Lag(None, None, unreported)
        lag = summed([*chain.from_iterable(self._lags.values()), rest])
        if not self._with_loss:
            return lag, lag
        return lag, summed([*chain.from_iterable(self._losses.values()), rest])


def is_starting(row: PartitionRow, now_ms: int) -> bool:
    """Return whether a newer round has not found the partition's position for a while."""
    return bool(row.starting_ms) and now_ms - row.starting_ms > STARTING_UNSEEN_S * 1000


def state_shown(reported: PartitionState, state: str) -> str:
    """Return the state to show: a stop stays one, whoever reports."""
    return reported.value if not state or reported.is_stopped else state


def problems_of(rows: Iterable[PartitionRow]) -> list[PartitionProblem]:
    """Return the problems of partitions that are not copied as they should be."""
    return [
        PartitionProblem(
            item.source.topic,
            item.source.partition,
            item.state.value,
            item.code,
            item.reason,
            item.since_ms,
            item.position,
            item.state.is_stopped,
        )
        for item in (row.report for row in rows)
        if item.reason
    ]


def line_of(uses: Iterable[LineUse | None]) -> LineUse | None:
    """Return the lines of several lanes to one side as one; None: no lane knows it."""
    lines = [use for use in uses if use is not None]
    if not lines:
        return None
    return LineUse(
        max(use.round_trip_ms for use in lines), sum(use.in_flight_bytes for use in lines)
    )
