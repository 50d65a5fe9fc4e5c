"""Partition rows summed up for people: by topic, by state, and the problems of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from heliostat.names import TopicName
from heliostat.records.copier.lane import PartitionState
from heliostat.status.rows import PartitionRow, age_of_missing_s, missing_records
from heliostat.status.values import PartitionProblem, TopicStatus

STARTING_UNSEEN_S = 5.0
"""A new round finds its positions within a second; until then the last figures are shown."""
SILENT = "silent"
"""State of a partition whose lane does not report: its last known state is outdated."""


class Sums:
    """Sums of one status.

    Parameters
    ----------
    now_ms
        Wall time of the status, in ms since the epoch.
    """

    def __init__(self, now_ms: int) -> None:
        self._now_ms = now_ms
        self.topics: dict[TopicName, TopicStatus] = {}
        self.problems: list[PartitionProblem] = []
        self.states: Counter[str] = Counter()

    def add(self, row: PartitionRow, *, is_reporting: bool, is_own: bool) -> None:
        """Add a partition.

        Parameters
        ----------
        is_reporting
            Whether its lane reports.
        is_own
            Whether the lane belongs to the current driver: the position of an earlier driver's lane
            is outdated.
        """
        item = row.report
        topic = self.topics.get(item.source.topic)
        if topic is None:
            topic = TopicStatus(item.source.topic, item.target.topic)
            self.topics[item.source.topic] = topic
        is_starting = self._is_starting(row) or not (is_own or item.state.is_stopped)
        state = item.state.value if is_reporting else SILENT
        if is_reporting and is_starting:
            state = PartitionState.STARTING.value
        topic.partitions += 1
        topic.states[state] = topic.states.get(state, 0) + 1
        self.states[state] += 1
        lag = missing_records(item)
        topic.lag_records += lag
        topic.open_records += item.open_records
        topic.mapped += item.breaks > 0
        lag_s = age_of_missing_s(row, lag, self._now_ms)
        topic.unknown += is_starting or not (is_reporting and is_own) or lag_s is None
        if lag_s is not None:
            topic.lag_s = lag_s if topic.lag_s is None else max(topic.lag_s, lag_s)
        self.problems += problems_of([row])

    def _is_starting(self, row: PartitionRow) -> bool:
        since_ms = row.starting_ms
        return bool(since_ms) and self._now_ms - since_ms > STARTING_UNSEEN_S * 1000


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
        )
        for item in (row.report for row in rows)
        if item.reason
    ]
