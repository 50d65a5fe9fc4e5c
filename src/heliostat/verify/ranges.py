"""What is compared with what, fixed before anything is read. Pure: no network, no Spark."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple

from heliostat.errors import OffsetMapLost, Refused
from heliostat.names import Offset, OffsetRange, PartitionId, TopicName, TopicPartition
from heliostat.slots import WHOLE_TOPIC, Slot
from heliostat.verify.places import EXACT, Places
from heliostat.verify.reader import Bounds, TopicView

LOOKAHEAD_RECORDS = 100_000  # behind a range cut on request: where displaced records may stand
CHUNK_RECORDS_MIN = 20_000  # smaller pieces cost more in requests than they win in balance
NO_TARGET_TOPIC = "the target has no such topic"
STARTS_LATER = "the target's log starts later"
CHUNK_COST_RECORDS = 500  # a piece's fixed cost, in records' worth of time (about 1 ms)


@dataclass(frozen=True, slots=True)
class TopicPair:
    """A source topic and its mirror."""

    source: TopicName
    target: TopicName
    slot: Slot = WHOLE_TOPIC
    """Which of the target's partitions are the mirror's; the others are not looked at."""


@dataclass(frozen=True, slots=True)
class RangeSpec:
    """Which offsets to compare; by default all that both sides hold.

    Parameters
    ----------
    start
        First offset, in every partition.
    until
        End (not included), in every partition.
    is_complete
        The mirror should have caught up: what the target lacks of the source is lost, not late.
    """

    start: int | None = None
    until: int | None = None
    is_complete: bool = False

    def __post_init__(self) -> None:
        low = 0 if self.start is None else self.start
        if low < 0 or (self.until is not None and self.until < low):
            raise Refused(
                "the range of offsets is empty or negative", start=self.start, until=self.until
            )


@dataclass(frozen=True, slots=True)
class SideView:
    """One cluster as it was when verification began."""

    cluster_id: str
    topics: Mapping[str, TopicView]
    bounds: Mapping[TopicPartition, Bounds]


@dataclass(frozen=True, slots=True)
class NotMirrored:
    """Why a link does not copy a topic; a problem unless that is as it should be."""

    reason: str
    is_problem: bool


class MapClaim(NamedTuple):
    """What the link says of which offset stands where."""

    breaks: Iterable[tuple[int, int]]
    """Target offset and source offset of each."""
    known_from: int = 0
    """Target offset before which it says nothing."""


MapView = Callable[[TopicPartition, str], MapClaim]
"""Of a target partition, and the id of its topic."""


def no_map(partition: TopicPartition, topic_id: str) -> MapClaim:
    """Every mirror is exact."""
    del partition, topic_id
    return MapClaim(())


@dataclass(frozen=True, slots=True)
class Stretch:
    """Source offsets `[start, end)` of one partition, to be at the target where `places` says.

    `source_stop` and `target_stop` end what may be read to explain a difference, each in its
    side's offsets: records that moved may stand behind the range.
    """

    source: TopicPartition
    target: TopicPartition
    start: int
    end: int
    source_stop: int
    target_stop: int
    is_cut: bool = False
    places: Places = EXACT

    @property
    def target_has_more(self) -> bool:
        """The target holds more than the source, which no healthy mirror does."""
        return not self.is_cut and self.places.source_at(self.target_stop) > self.end


@dataclass(frozen=True, slots=True)
class NotCompared:
    """Something that was not compared, and why; a problem unless it is normal for a live link."""

    source: str
    target: str
    partition: int | None
    reason: str
    records: int
    is_problem: bool

    def to_json(self) -> dict[str, Any]:
        """Give the fields as a JSON object."""
        return asdict(self)


@dataclass(slots=True)
class ComparePlan:
    """What will be compared, what will not, and how far the target is behind (records)."""

    stretches: list[Stretch] = field(default_factory=list)
    not_compared: list[NotCompared] = field(default_factory=list)
    behind_records: int = 0
    tails: list[OffsetRange] = field(default_factory=list)
    """Source offsets that the target is behind, where there are any."""


def plan(
    pairs: Sequence[TopicPair],
    source: SideView,
    target: SideView,
    spec: RangeSpec,
    blocked: Mapping[TopicPartition, str] | None = None,
    *,
    map_view: MapView = no_map,
    not_copied: Mapping[TopicName, NotMirrored] | None = None,
) -> ComparePlan:
    """Fix the ranges of all partitions of all pairs.

    Parameters
    ----------
    blocked
        Source partitions that the link says it does not copy, with its reason.
    map_view
        The link's offset map, read after the target's ends were.
    not_copied
        Source topics that the link does not copy at all: what has the name of their mirror is none.

    Raises
    ------
    Refused
        A topic would be compared with itself.
    """
    made = ComparePlan()
    for pair in pairs:
        if source.cluster_id == target.cluster_id and pair.source == pair.target:
            raise Refused(
                "a topic cannot be verified against itself",
                cluster=source.cluster_id,
                topic=pair.source,
                hint="source and target bootstrap lead to the same cluster",
            )
        left = (not_copied or {}).get(pair.source)
        if left is not None:
            held = _held(source, pair.source)
            whole = _whole(pair, left.reason, held)
            made.not_compared.append(replace(whole, is_problem=left.is_problem))
        elif pair.source not in source.topics:
            made.not_compared.append(_whole(pair, "the source has no such topic", 0))
        elif pair.target not in target.topics:
            held = _held(source, pair.source)
            made.not_compared.append(_whole(pair, NO_TARGET_TOPIC, held))
        else:
            _plan_topic(
                made, pair, source, target, spec=spec, blocked=blocked or {}, map_view=map_view
            )
    return made


def _plan_topic(
    made: ComparePlan,
    pair: TopicPair,
    source: SideView,
    target: SideView,
    *,
    spec: RangeSpec,
    blocked: Mapping[TopicPartition, str],
    map_view: MapView,
) -> None:
    topic_id = target.topics[pair.target].topic_id
    ours = source.topics[pair.source].leaders.keys()
    there = (pair.slot.source_partition(PartitionId(n)) for n in target.topics[pair.target].leaders)
    theirs = {number for number in there if number is not None}
    for number in sorted(ours | theirs):
        one = _partition(pair.source, number)
        two = _partition(pair.target, pair.slot.target_partition(PartitionId(number)))
        if number not in theirs:
            held = source.bounds[one].end - source.bounds[one].start
            reason = "the target lacks this partition"
            made.not_compared.append(_one(one, two, reason, held, is_problem=True))
        elif number not in ours:
            held = target.bounds[two].end - target.bounds[two].start
            reason = "the source lacks this partition"
            made.not_compared.append(_one(one, two, reason, held, is_problem=True))
        else:
            bounds = source.bounds[one], target.bounds[two]
            try:
                places = Places.of(*map_view(two, topic_id))
            except OffsetMapLost as error:
                held = bounds[0].end - bounds[0].start
                made.not_compared.append(_one(one, two, error.text, held, is_problem=True))
            else:
                _plan_partition(made, (one, two), bounds, spec, (blocked.get(one), places))


def _plan_partition(
    made: ComparePlan,
    pair: tuple[TopicPartition, TopicPartition],
    bounds: tuple[Bounds, Bounds],
    spec: RangeSpec,
    known: tuple[str | None, Places],
) -> None:
    one, two = pair
    source, target = bounds
    blocked, places = known
    # A log start that went back, as a leader changed, may lie before what the map still tells.
    head = places.source_at(max(target.start, places.known_from))
    position = places.source_at(target.end)
    start = max(source.start, head, spec.start or 0)
    end = source.end if spec.is_complete else min(source.end, position)
    is_cut = spec.until is not None and spec.until < max(source.end, position)
    if spec.until is not None:
        end = min(end, spec.until)
    end = max(start, end)
    behind = max(0, source.end - max(position, source.start))
    if behind and not spec.is_complete:
        made.behind_records += behind
        made.tails.append(OffsetRange(one, Offset(source.end - behind), Offset(source.end)))
    if blocked is not None and behind:
        reason = f"the link does not copy it: {blocked}"
        made.not_compared.append(_one(one, two, reason, behind, is_problem=False))
    elif target.end <= target.start and behind and not spec.is_complete:
        reason = "nothing of it is at the target yet"
        made.not_compared.append(_one(one, two, reason, behind, is_problem=False))
    missing_head = min(head, source.end) - max(source.start, spec.start or 0)
    if missing_head > 0:
        made.not_compared.append(_one(one, two, STARTS_LATER, missing_head, is_problem=False))
    far = LOOKAHEAD_RECORDS
    made.stretches.append(
        Stretch(
            source=one,
            target=two,
            start=start,
            end=end,
            source_stop=min(source.end, end + far) if is_cut else source.end,
            target_stop=min(target.end, places.target_at(end) + far) if is_cut else target.end,
            is_cut=is_cut,
            places=places,
        )
    )


def _held(side: SideView, topic: TopicName) -> int:
    """Offsets that a side's log has of a topic; 0 where it has none of that name."""
    view = side.topics.get(topic)
    partitions = () if view is None else (_partition(topic, number) for number in view.leaders)
    return sum(side.bounds[one].end - side.bounds[one].start for one in partitions)


def _partition(topic: TopicName, number: int) -> TopicPartition:
    return TopicPartition(topic, PartitionId(number))


def _whole(pair: TopicPair, reason: str, records: int) -> NotCompared:
    return NotCompared(pair.source, pair.target, None, reason, records, is_problem=True)


def _one(
    source: TopicPartition, target: TopicPartition, reason: str, records: int, *, is_problem: bool
) -> NotCompared:
    return NotCompared(
        source.topic, target.topic, source.partition, reason, records, is_problem and records > 0
    )


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a stretch, small enough for all cores to have work; `stretch` is its index.

    `target_end` is lower than the place of `end` where a target that should be complete is not.
    `places` is the part of the map that concerns it.
    """

    stretch: int
    source: TopicPartition
    target: TopicPartition
    start: int
    end: int
    target_end: int
    places: Places = EXACT

    @property
    def target_start(self) -> int:
        """Target offset of the first record."""
        return self.places.target_at(self.start)

    @property
    def target_stop(self) -> int:
        """Target offset behind the last record, if it is all there."""
        return self.places.target_at(self.end)


def pack(stretches: Sequence[Stretch], tasks: int) -> list[list[Chunk]]:
    """Cut large stretches and share the pieces out so that tasks take about as long.

    Largest first, always to the task with the least to do.
    """
    total = sum(one.end - one.start for one in stretches)
    size = max(CHUNK_RECORDS_MIN, -(-total // max(1, tasks)))
    chunks = [
        _chunk(index, one, start, min(start + size, one.end))
        for index, one in enumerate(stretches)
        for start in range(one.start, one.end, size)
    ]
    chunks.sort(key=lambda chunk: (chunk.start - chunk.end, chunk.stretch))
    shares: list[list[Chunk]] = [[] for _ in range(min(tasks, len(chunks)))]
    loads = [(0, number) for number in range(len(shares))]
    for chunk in chunks:
        load, number = heapq.heappop(loads)
        shares[number].append(chunk)
        cost = chunk.end - chunk.start + CHUNK_COST_RECORDS
        heapq.heappush(loads, (load + cost, number))
    return shares


def _chunk(index: int, one: Stretch, start: int, end: int) -> Chunk:
    low, high = one.places.target_at(start), one.places.target_at(end)
    target_end = max(low, min(high, one.target_stop))
    places = one.places.between(start, end)
    return Chunk(index, one.source, one.target, start, end, target_end, places)
