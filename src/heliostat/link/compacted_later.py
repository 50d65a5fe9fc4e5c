"""When a source becomes compacted, its mirror follows once it has all older records.

Brokers refuse a record without a key for a compacted topic (`INVALID_RECORD`). Records from before
the change may have no key, and a mirror that lags still has to take them: compacted at once, it
would stop at each such record, one after the other. After the change the source takes none either.
So the mirror's `cleanup.policy` waits until all records that the source had then are copied.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from heliostat.clusters.admin import ClusterAdmin
from heliostat.errors import BrokerError
from heliostat.names import Offset, PartitionId, TopicName, TopicPartition
from heliostat.offsets.log_bounds import bounds_of
from heliostat.records.copier.lane import PartitionReport
from heliostat.topics.topic_plan import SetConfigs, TopicPlan

POLICY, COMPACT = "cleanup.policy", "compact"


class CompactedLater:
    """Remembers what waits between reconciliations; a new driver finds it again.

    Parameters
    ----------
    source
        The source cluster, asked for log ends.
    """

    def __init__(self, source: ClusterAdmin) -> None:
        self._source = source
        self._ends: dict[TopicName, Mapping[TopicPartition, Offset]] = {}
        """By source topic: log ends of its non-empty partitions."""

    def hold(
        self, plan: TopicPlan, reports: Iterable[PartitionReport]
    ) -> tuple[TopicPlan, tuple[str, ...]]:
        """Return the plan without the changes that must wait, and notes on them.

        Parameters
        ----------
        reports
            Positions of partitions.

        Raises
        ------
        ConnectionLost
            The source does not answer.
        """
        changing = {each.source: each for each in plan.configure if _begins_to_compact(each)}
        self._ends = {name: ends for name, ends in self._ends.items() if name in changing}
        if not changing:
            return plan, ()
        self._look(plan, changing.keys() - self._ends.keys())
        at = {report.source: report.position for report in reports}
        waiting = {
            name: change
            for name, change in changing.items()
            if any(at.get(one, -1) < end for one, end in self._ends.get(name, {}).items())
            or name not in self._ends
        }
        configure = [
            _without_policy(each) if each.source in waiting else each for each in plan.configure
        ]
        kept = tuple(each for each in configure if each.changes)
        notes = tuple(
            f"{change.target}: {POLICY} becomes {change.changes[POLICY]} once all records from "
            "before the source's change are copied: some may have no key"
            for _, change in sorted(waiting.items())
        )
        return replace(plan, configure=kept), notes

    def _look(self, plan: TopicPlan, names: Iterable[TopicName]) -> None:
        """Note where these topics end; nothing for one whose leaders don't answer: it waits."""
        wanted = set(names)
        asked = {
            mirror.source: [
                TopicPartition(mirror.source, PartitionId(number))
                for number in range(mirror.partitions)
            ]
            for mirror in plan.mirrors
            if mirror.source in wanted
        }
        partitions = [one for some in asked.values() for one in some]
        if not partitions:
            return
        bounds = bounds_of(self._source, partitions, confirmed=True)
        for name, some in asked.items():
            found: dict[TopicPartition, Offset] = {}
            for one in some:
                range_ = bounds[one]
                if isinstance(range_, BrokerError):
                    break
                if range_.start < range_.end:
                    found[one] = range_.end
            else:
                self._ends[name] = found


def _begins_to_compact(change: SetConfigs) -> bool:
    policy = change.changes.get(POLICY) or ""
    return COMPACT in policy and COMPACT not in (change.was.get(POLICY) or "")


def _without_policy(change: SetConfigs) -> SetConfigs:
    changes = {key: value for key, value in change.changes.items() if key != POLICY}
    return replace(change, changes=changes)
