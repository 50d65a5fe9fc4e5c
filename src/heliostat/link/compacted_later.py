"""A source that begins to compact: its mirror does once it has what was written before.

Brokers refuse a record without a key for a compacted topic (`INVALID_RECORD`). What the source took
while it did not compact may have none, and a mirror that is behind still has to take it: compacted
at once it would stop at each such record, one after the other. From the change on the source takes
none either. So the mirror's `cleanup.policy` waits for what stood there when the change was seen.
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
    """What waits, from one turn to the next; a driver that begins anew sees it anew.

    Parameters
    ----------
    source
        Tells where its logs end.
    """

    def __init__(self, source: ClusterAdmin) -> None:
        self._source = source
        self._ends: dict[TopicName, Mapping[TopicPartition, Offset]] = {}
        """By source topic: where those of its partitions ended that held anything."""

    def hold(
        self, plan: TopicPlan, reports: Iterable[PartitionReport]
    ) -> tuple[TopicPlan, tuple[str, ...]]:
        """The plan without what must wait, and remarks on that.

        Parameters
        ----------
        reports
            How far partitions are.

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
            f"{change.target}: {POLICY} becomes {change.changes[POLICY]} once what the source took "
            "before it compacted is copied: it may have records without a key"
            for _, change in sorted(waiting.items())
        )
        return replace(plan, configure=kept), notes

    def _look(self, plan: TopicPlan, names: Iterable[TopicName]) -> None:
        """Note where these end; of one that does not tell now nothing, so that it waits."""
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
        bounds = bounds_of(self._source, partitions)
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
