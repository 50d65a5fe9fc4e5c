"""What of merged topics is compared: a target's log as the numbers of the link's own records.

Numbers are looked up in the log, once per partition and before the plan is made. Where the log
does not tell them, the partition is listed and not compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from heliostat.errors import BrokerError, OffsetMapLost
from heliostat.names import PartitionId, TopicPartition
from heliostat.verify.origin import LinkIds, Origin, own_range
from heliostat.verify.ranges import ComparePlan, MapView, NotCompared, SideView, TopicPair
from heliostat.verify.reader import Bounds, LogReader

NONE_LEFT = "none of the link's records is left in the target's log, so how many it had is open"


@dataclass(slots=True)
class MergedView:
    """Merged partitions as they are compared."""

    target: SideView
    """The target with numbers as bounds."""
    origins: dict[TopicPartition, Origin] = field(default_factory=dict)
    """By source partition."""
    unknown: dict[TopicPartition, str] = field(default_factory=dict)
    """Source partitions that can't be compared, and why."""


def merged_view(
    reader: LogReader,
    pairs: Sequence[TopicPair],
    source: SideView,
    target: SideView,
    *,
    ids: LinkIds,
    maps: MapView,
) -> MergedView:
    """Look up the numbers of all merged partitions that both sides have."""
    seen = MergedView(target)
    numbers: dict[TopicPartition, Bounds] = {}
    for pair in pairs:
        if pair.source not in source.topics or pair.target not in target.topics:
            continue
        topic_id = target.topics[pair.target].topic_id
        both = source.topics[pair.source].leaders.keys() & target.topics[pair.target].leaders.keys()
        for number in sorted(both):
            one = TopicPartition(pair.source, PartitionId(number))
            two = TopicPartition(pair.target, PartitionId(number))
            log = target.bounds[two]
            try:
                near = maps(two, topic_id).places().target_at(source.bounds[one].end)
                own = own_range(reader, two, (log.start, log.end), ids.at_target, near)
            except OffsetMapLost:
                continue  # the plan says it
            except BrokerError as error:
                seen.unknown[one] = str(error)
                continue
            if own is None:
                seen.unknown[one] = NONE_LEFT
                continue
            seen.origins[one] = Origin(ids, log.start, log.end, own.start)
            begin = own.start if log.start else 0  # a cleaner may have taken the first ones
            numbers[two] = Bounds(begin, max(own.end, min(ids.noted.get(one, 0), near)))
    seen.target = replace(target, bounds={**target.bounds, **numbers})
    return seen


def as_merged(
    made: ComparePlan, seen: MergedView, source: Mapping[TopicPartition, Bounds], *, must: bool
) -> ComparePlan:
    """Return a plan without what is not known, and whose merged stretches are one piece each.

    Of a range that somebody has given no more is read than that.

    Parameters
    ----------
    made
        The plan by numbers.
    source
        The source's bounds.
    must
        Whether the mirror must have all: then what is not known is a problem.
    """
    left_out = {(one.topic, one.partition) for one in seen.unknown}
    stretches = [
        replace(one, is_whole=one.source in seen.origins)
        for one in made.stretches
        if one.source not in seen.unknown
    ]
    not_compared = [one for one in made.not_compared if (one.source, one.partition) not in left_out]
    for cut in (one for one in stretches if one.is_whole and one.is_cut):
        seen.origins[cut.source] = replace(seen.origins[cut.source], to_end=False)
    for one, why in seen.unknown.items():
        held = source[one].end - source[one].start
        is_problem = held > 0 and (must or why != NONE_LEFT)
        not_compared.append(
            NotCompared(one.topic, one.topic, one.partition, why, held, is_problem=is_problem)
        )
    tails = [one for one in made.tails if one.partition not in seen.unknown]
    lost = sum(len(one) for one in made.tails) - sum(len(one) for one in tails)
    return ComparePlan(stretches, not_compared, made.behind_records - lost, tails)
