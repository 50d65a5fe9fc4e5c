"""Plan which ranges are compared, before anything is read. Pure: no network, no Spark."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple

from heliostat.errors import OffsetMapLost, Refused
from heliostat.names import Offset, OffsetRange, PartitionId, TopicName, TopicPartition
from heliostat.slots import WHOLE_TOPIC, Slot
from heliostat.verify.places import EXACT, Places
from heliostat.verify.reader import Bounds, TopicView

LOOKAHEAD_RECORDS = 100_000  # after the end of a given range, where displaced records may be
CHUNK_RECORDS_MIN = 20_000  # smaller pieces cost more in requests than they gain in balance
NO_TARGET_TOPIC = "the target has no such topic"
STARTS_LATER = "the target's log starts later"
CHUNK_COST_RECORDS = 500  # a piece's fixed cost, in records' worth of time (about 1 ms)
TASK_RECORDS_MIN = 50_000
"""Records' worth of time that are worth a task, which first connects to both sides: some 0.1 s
nearby, and a second over a long line."""


@dataclass(frozen=True, slots=True)
class TopicPair:
    """A source topic and its mirror."""

    source: TopicName
    target: TopicName
    slot: Slot = WHOLE_TOPIC
    """Partitions of the target topic that belong to the mirror; others are ignored."""


@dataclass(frozen=True, slots=True)
class RangeSpec:
    """Source offsets to compare; by default all that both sides have.

    Parameters
    ----------
    start
        First offset, in every partition.
    until
        End offset (exclusive), in every partition.
    is_complete
        Whether the mirror must have caught up: what the target lacks is lost, not late.
    starts
        First offset of source partitions of which more is left out than `start` says.
    """

    start: int | None = None
    until: int | None = None
    is_complete: bool = False
    starts: Mapping[TopicPartition, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        low = 0 if self.start is None else self.start
        if low < 0 or (self.until is not None and self.until < low):
            raise Refused(
                "the range of offsets is empty or negative", start=self.start, until=self.until
            )

    def first(self, partition: TopicPartition) -> int:
        """Return the first offset of a source partition."""
        return max(self.start or 0, self.starts.get(partition, 0))


@dataclass(frozen=True, slots=True)
class SideView:
    """One cluster as it was when verification began."""

    cluster_id: str
    topics: Mapping[str, TopicView]
    bounds: Mapping[TopicPartition, Bounds]


@dataclass(frozen=True, slots=True)
class NotMirrored:
    """Why a link does not copy a topic or partition, and whether that is a problem."""

    reason: str
    is_problem: bool


class LeftOut(NamedTuple):
    """Source offsets `[start, end)` that the link never copies, as a person has decided."""

    start: int
    end: int
    why: str

    def within(self, start: int, end: int) -> int:
        """Return how many of these offsets are in `[start, end)`."""
        return max(0, min(self.end, end) - max(self.start, start))


class MapClaim(NamedTuple):
    """A partition's offset map as the link has it; verification checks it."""

    breaks: Iterable[tuple[int, int]]
    """Target offset and source offset of each break."""
    known_from: int = 0
    """Target offset before which the link no longer has the map."""
    left_out: Sequence[LeftOut] = ()

    def places(self) -> Places:
        """Return where it puts each source offset."""
        return Places.of(self.breaks, self.known_from)


MapView = Callable[[TopicPartition, str], MapClaim]
"""Returns the map of a target partition, given the id of its topic, too."""


def no_map(partition: TopicPartition, topic_id: str) -> MapClaim:
    """Return an empty map: every mirror is exact."""
    del partition, topic_id
    return MapClaim(())


@dataclass(frozen=True, slots=True)
class Stretch:
    """Source offsets `[start, end)` of one partition, which must be where `places` says.

    To explain a difference, each side is read up to `source_stop` or `target_stop`, in its own
    offsets: records that moved may be after the range.
    """

    source: TopicPartition
    target: TopicPartition
    start: int
    end: int
    source_stop: int
    target_stop: int
    is_cut: bool = False
    places: Places = EXACT
    is_whole: bool = False
    """Whether it is one piece of work: its target's offsets are numbers that only reading shows."""

    @property
    def target_has_more(self) -> bool:
        """Whether the target has more than the source, which no healthy mirror has."""
        return not self.is_cut and self.places.source_at(self.target_stop) > self.end


@dataclass(frozen=True, slots=True)
class NotCompared:
    """A topic or partition not compared, and why; not a problem if normal for a live link."""

    source: str
    target: str
    partition: int | None
    reason: str
    records: int
    is_problem: bool

    def to_json(self) -> dict[str, Any]:
        """Return the fields as a JSON object."""
        return asdict(self)


@dataclass(slots=True)
class ComparePlan:
    """What will be compared, what will not, and the target's lag in records."""

    stretches: list[Stretch] = field(default_factory=list)
    not_compared: list[NotCompared] = field(default_factory=list)
    behind_records: int = 0
    tails: list[OffsetRange] = field(default_factory=list)
    """Source offsets not copied yet, of partitions that lag."""


def plan(
    pairs: Sequence[TopicPair],
    source: SideView,
    target: SideView,
    spec: RangeSpec,
    blocked: Mapping[TopicPartition, NotMirrored] | None = None,
    *,
    map_view: MapView = no_map,
    not_copied: Mapping[TopicName, NotMirrored] | None = None,
) -> ComparePlan:
    """Fix the ranges of all partitions of all pairs.

    Parameters
    ----------
    pairs
        Source topics and their mirrors.
    source, target
        Both clusters as they were when verification began.
    spec
        Offsets to compare.
    blocked
        Source partitions that the link reports as not copied, with its reason.
    map_view
        The link's offset map, read after the target's ends.
    not_copied
        Source topics that the link does not copy: target topics of that name are not its mirrors.

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
    blocked: Mapping[TopicPartition, NotMirrored],
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
                claim = map_view(two, topic_id)
            except OffsetMapLost as error:
                held = bounds[0].end - bounds[0].start
                made.not_compared.append(_one(one, two, error.text, held, is_problem=True))
            else:
                _plan_partition(made, (one, two), bounds, spec, (blocked.get(one), claim))


def _plan_partition(
    made: ComparePlan,
    pair: tuple[TopicPartition, TopicPartition],
    bounds: tuple[Bounds, Bounds],
    spec: RangeSpec,
    known: tuple[NotMirrored | None, MapClaim],
) -> None:
    one, two = pair
    source, target = bounds
    blocked, claim = known
    places = claim.places()
    # A log start that went back after a leader change may be before what the map still covers.
    head = places.source_at(max(target.start, places.known_from))
    position = places.source_at(target.end)
    start = max(source.start, head, spec.first(one))
    end = source.end if spec.is_complete else min(source.end, position)
    is_cut = spec.until is not None and spec.until < max(source.end, position)
    if spec.until is not None:
        end = min(end, spec.until)
    end = max(start, end)
    behind = max(0, source.end - max(position, source.start))
    behind -= sum(gone.within(max(position, source.start), source.end) for gone in claim.left_out)
    if behind and not spec.is_complete:
        made.behind_records += behind
        made.tails.append(OffsetRange(one, Offset(source.end - behind), Offset(source.end)))
    if blocked is not None and behind:
        reason = f"the link does not copy it: {blocked.reason}"
        is_problem = blocked.is_problem
        made.not_compared.append(_one(one, two, reason, behind, is_problem=is_problem))
    elif target.end <= target.start and behind and not spec.is_complete:
        reason = "the target has no record of it yet"
        made.not_compared.append(_one(one, two, reason, behind, is_problem=False))
    missing_head = min(head, source.end) - max(source.start, spec.first(one))
    if missing_head > 0:
        made.not_compared.append(_one(one, two, STARTS_LATER, missing_head, is_problem=False))
    far = LOOKAHEAD_RECORDS
    whole = Stretch(
        source=one,
        target=two,
        start=start,
        end=end,
        source_stop=min(source.end, end + far) if is_cut else source.end,
        target_stop=min(target.end, places.target_at(end) + far) if is_cut else target.end,
        is_cut=is_cut,
        places=places,
    )
    for part in _without(whole, claim.left_out):
        if isinstance(part, Stretch):
            made.stretches.append(part)
        else:
            records = part.end - part.start
            made.not_compared.append(_one(one, two, part.why, records, is_problem=False))


def _without(whole: Stretch, left_out: Iterable[LeftOut]) -> Iterator[Stretch | LeftOut]:
    """Yield what of a stretch is left out, and the stretches before, between and after it."""
    first = whole.start
    for gone in sorted(left_out):
        start, end = max(gone.start, first), min(gone.end, whole.end)
        if start >= end:
            continue
        if first < start:
            stop = min(whole.target_stop, whole.places.target_at(start))
            yield replace(
                whole, start=first, end=start, source_stop=start, target_stop=stop, is_cut=True
            )
        yield gone._replace(start=start, end=end)
        first = end
    yield replace(whole, start=first)


def _held(side: SideView, topic: TopicName) -> int:
    """Return the number of offsets in a topic's logs; 0 if there is no such topic."""
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

    `target_end` is lower than the place of `end` if a target that must be complete is not.
    `places` is the part of the map for this piece.
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
        """Target offset after the last record, if the target is complete."""
        return self.places.target_at(self.end)


def pack(stretches: Sequence[Stretch], tasks: int) -> list[list[Chunk]]:
    """Cut large stretches, and distribute the pieces so that tasks take about equally long.

    Largest first, always to the task with the least work. Little work is for few tasks.
    """
    total = sum(one.end - one.start for one in stretches)
    size = max(CHUNK_RECORDS_MIN, -(-total // max(1, tasks)))
    chunks = [
        _chunk(index, one, start, min(start + step, one.end))
        for index, one in enumerate(stretches)
        for step in [max(size, one.end - one.start) if one.is_whole else size]
        for start in range(one.start, one.end, step)
    ]
    chunks.sort(key=lambda chunk: (chunk.start - chunk.end, chunk.stretch))
    work = total + CHUNK_COST_RECORDS * len(chunks)
    tasks = min(tasks, len(chunks), -(-work // TASK_RECORDS_MIN))
    shares: list[list[Chunk]] = [[] for _ in range(tasks)]
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
