"""Which partitions go into which lane: packed by load, moved as little as possible.

Pure. A partition that moves waits until the round that served it has ended, so that no partition
is ever copied by two lanes (I10). Moving costs, so only a lopsided packing is changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from heliostat.names import LaneId, TopicPartition

WEIGHT_BYTES_FLOOR = 256.0
"""Bytes a second that even an idle partition counts for: it costs fetches and state."""
LOPSIDED_RATIO = 1.5
"""Lanes are packed again when the heaviest has this many times its share."""

PIPELINE_LANES = 10_000
"""Lanes of the first pipeline have numbers from this one on, of the second from twice this one on,
and so on: a lane has one pipeline, or none. More than a link may have without (`lanes.count`)."""
SHARED_ROWS, SHARED_BYTES = 10_000, 10_001
"""Numbers, as of a pipeline, of lanes that several share: those as rows, and those on the bytes of
batches. A link has fewer pipelines."""

Packing = Mapping[LaneId, tuple[TopicPartition, ...]]


def pack(
    partitions: Sequence[TopicPartition],
    bytes_per_s: Mapping[TopicPartition, float],
    lane_count: int,
    previous: Packing,
) -> dict[LaneId, tuple[TopicPartition, ...]]:
    """Spread `partitions` over at most `lane_count` lanes.

    Parameters
    ----------
    partitions
        All partitions to copy, source side.
    bytes_per_s
        Observed load; missing partitions count as idle.
    lane_count
        The most lanes, at least 1.
    previous
        The current packing; kept as far as it is balanced.

    Returns
    -------
    dict
        Non-empty lanes only. The same input gives the same packing.
    """
    weights = {p: WEIGHT_BYTES_FLOOR + bytes_per_s.get(p, 0.0) for p in partitions}
    kept = _kept(partitions, lane_count, previous)
    packing = _fill(kept, weights, lane_count)
    if _is_lopsided(packing, weights, lane_count):
        packing = _fill({}, weights, lane_count)
    return {lane: tuple(sorted(items)) for lane, items in sorted(packing.items()) if items}


def pack_pipeline(
    number: int,
    partitions: Sequence[TopicPartition],
    bytes_per_s: Mapping[TopicPartition, float],
    lane_count: int,
    previous: Packing,
) -> dict[LaneId, tuple[TopicPartition, ...]]:
    """Spread the partitions of a link's pipeline of this number, from 0, over lanes of its own.

    See `pack`; `previous` may have other lanes, too.
    """
    first = PIPELINE_LANES * (number + 1)
    own = {LaneId(lane - first): items for lane, items in previous.items()}  # others drop out
    packing = pack(partitions, bytes_per_s, lane_count, own)
    return {LaneId(first + lane): items for lane, items in packing.items()}


def _kept(
    partitions: Sequence[TopicPartition], lane_count: int, previous: Packing
) -> dict[LaneId, list[TopicPartition]]:
    wanted = set(partitions)
    return {
        lane: [p for p in items if p in wanted]
        for lane, items in previous.items()
        if lane < lane_count
    }


def _fill(
    kept: Mapping[LaneId, list[TopicPartition]],
    weights: Mapping[TopicPartition, float],
    lane_count: int,
) -> dict[LaneId, list[TopicPartition]]:
    """Put unplaced partitions into the lightest lane, the heaviest first (LPT rule)."""
    packing = {LaneId(n): list(kept.get(LaneId(n), [])) for n in range(lane_count)}
    loads = {lane: sum(weights[p] for p in items) for lane, items in packing.items()}
    placed = {p for items in packing.values() for p in items}
    rest = sorted((p for p in weights if p not in placed), key=lambda p: (-weights[p], p))
    for partition in rest:
        lane = min(loads, key=lambda lane: (loads[lane], lane))
        packing[lane].append(partition)
        loads[lane] += weights[partition]
    return packing


def _is_lopsided(
    packing: Mapping[LaneId, list[TopicPartition]],
    weights: Mapping[TopicPartition, float],
    lane_count: int,
) -> bool:
    """Return whether the heaviest lane could be much lighter; a hot partition can't be split."""
    counts = [len(items) for items in packing.values()]
    if min(counts) == 0 and max(counts) > 1:
        return True  # lanes were added
    loads = [sum(weights[p] for p in items) for items in packing.values()]
    share = sum(weights.values()) / lane_count
    unavoidable = max(weights.values(), default=0.0)
    return max(loads, default=0.0) > LOPSIDED_RATIO * max(share, unavoidable)
