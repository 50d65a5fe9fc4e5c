"""The work of a Spark task: read the same offsets of both sides and compare them.

Plain functions over picklable values, so that tests call them without Spark.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice

from heliostat.access import ClusterAccess
from heliostat.clusters.kafka_codes import OFFSET_OUT_OF_RANGE
from heliostat.errors import BrokerError, ConnectionLost, HeliostatError
from heliostat.names import TopicPartition
from heliostat.verify.align import Content, Findings, Holes, explain, placed
from heliostat.verify.both_logs import BothLogs, rows_of
from heliostat.verify.both_readers import BothReaders, both_readers, first_parts
from heliostat.verify.compaction import CleaningRule, Compacted, judge
from heliostat.verify.compare import Compared, compare
from heliostat.verify.fetch_fit import PARTITION_BYTES, PARTITION_BYTES_MAX
from heliostat.verify.mapped import KeptTarget, MovedSource, without
from heliostat.verify.merged_logs import MergedLogs
from heliostat.verify.origin import Origin, OwnRecords, target_stream
from heliostat.verify.piped import Pipes
from heliostat.verify.ranges import Chunk, Stretch
from heliostat.verify.reader import FetchedPart, LogReader
from heliostat.verify.schema_ids import AS_THEY_ARE, NO_IDS, MirroredIds, Views
from heliostat.verify.stream import Batch, ConsumedRecord, PartitionStream

SMALL_RECORDS_MAX = 2_000  # pieces of up to this many records are fetched together
SMALL_TOGETHER = 100  # pieces per request: 7,000 partitions take 70 round trips a side, not 7,000
SMALL_BYTES = 256 * 1024  # of each small piece in such an answer; the rest is fetched afterwards
LARGE_TOGETHER = PARTITION_BYTES_MAX // PARTITION_BYTES
"""Larger pieces per request to a side that is far: one answer holds the beginning of so many."""
RESTARTS_MAX = 5  # a log start that overtakes the reader this often will do so again


@dataclass(frozen=True, slots=True)
class ComparedClusters:
    """Both clusters of a link; travels to Spark's workers."""

    source: ClusterAccess
    target: ClusterAccess
    decode_all: bool = False
    ids: MirroredIds = NO_IDS
    """Which schema ids the mirrors have instead of the source's."""
    pipes: Pipes | None = None
    """Which topics go through pipelines; not at Spark's workers, which can run none."""
    origins: Mapping[TopicPartition, Origin] = field(default_factory=dict)
    """Whose records source partitions have that several sites write."""

    def views(self, partition: TopicPartition) -> Views:
        """Return how a partition of the source and its mirror are compared."""
        found = self.ids.views(partition.topic)._replace(origin=self.origins.get(partition))
        if self.pipes is None or partition.topic not in self.pipes.topics:
            return found
        return found._replace(pipe=self.pipes.of(partition))


@dataclass(slots=True)
class ChunkResult:
    """Result of comparing one chunk; `error` if it could not be read."""

    stretch: int
    start: int
    records: int = 0
    differs_at: int | None = None
    batches_equal: int = 0
    control_batches: int = 0
    aborted_batches: int = 0
    source_holes: int = 0
    target_holes: int = 0
    hole_ranges: list[tuple[int, int]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    error: HeliostatError | None = None


@dataclass(slots=True)
class ExplainedStretch:
    """Findings of one stretch from its first difference on, and what compaction explains."""

    stretch: int
    findings: Findings
    error: HeliostatError | None = None
    compacted: Compacted | None = None


@contextmanager
def _no_collector() -> Iterator[None]:
    """Pause the cycle collector, which would scan up to 100,000 waiting rows repeatedly.

    Rows have no cycles; without it comparing takes 40 % less CPU (measured 2026-11-21).
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def compare_chunks(sides: ComparedClusters, chunks: Iterable[Chunk]) -> Iterator[ChunkResult]:
    """Compare chunk by chunk; many small ones are fetched together.

    An error is in the chunk's result; if a connection can't be opened, it is in all results.
    """
    pending = iter(chunks)
    with ExitStack() as stack:
        try:
            readers = stack.enter_context(both_readers(sides.source, sides.target))
        except HeliostatError as error:
            yield from (ChunkResult(one.stretch, one.start, error=error) for one in pending)
            return
        while group := list(islice(pending, SMALL_TOGETHER)):
            small = [one for one in group if one.end - one.start <= SMALL_RECORDS_MAX]
            large = [one for one in group if one.end - one.start > SMALL_RECORDS_MAX]
            is_far = (readers.source.fit.is_far, readers.target.fit.is_far)
            for at in range(0, len(large), LARGE_TOGETHER):
                some = large[at : at + LARGE_TOGETHER]
                yield from _compare_group(sides, readers, some, PARTITION_BYTES, is_far)
            yield from _compare_group(sides, readers, small, SMALL_BYTES, (True, True))


def _compare_group(
    sides: ComparedClusters,
    readers: BothReaders,
    group: Sequence[Chunk],
    first_bytes: int,
    together: tuple[bool, bool],
) -> Iterator[ChunkResult]:
    """Compare chunks, whose first parts come with one fetch of a side where `together` says so."""
    ours = {one.source: one.start for one in group} if together[0] else {}
    numbered = {one.target for one in group if one.source in sides.origins}
    theirs = {one.target: one.target_start for one in group if one.target not in numbered}
    source_first = first_parts(readers.source, ours, first_bytes)
    target_first = first_parts(readers.target, theirs if together[1] else {}, first_bytes)
    for one in group:
        firsts = (source_first.pop(one.source, None), target_first.pop(one.target, None))
        with _no_collector():
            result = _compare_chunk(sides, readers.source, readers.target, one, firsts)
        yield result


def _compare_chunk(
    sides: ComparedClusters,
    source: LogReader,
    target: LogReader,
    chunk: Chunk,
    firsts: tuple[FetchedPart | None, FetchedPart | None],
) -> ChunkResult:
    result = ChunkResult(chunk.stretch, chunk.start)
    views = sides.views(chunk.source)
    for _ in range(RESTARTS_MAX):
        low = chunk.target_start
        one = PartitionStream(source, chunk.source, chunk.start, chunk.end, firsts[0])
        two = target_stream(
            target, chunk.target, low, chunk.target_end, first=firsts[1], origin=views.origin
        )
        try:
            there = views.of_source(one), views.of_target(two)
            compared = _compared(chunk, *there, decode_all=sides.decode_all)
        except BrokerError as error:
            if error.kafka_code != OFFSET_OUT_OF_RANGE:
                result.error = error
                return result
            later, views = _start_now(source, target, chunk, views)
            if later == chunk.start:
                result.error = error
                return result
            result.notes.append(
                f"records [{chunk.start}, {later}) were deleted before they were read"
            )
            high = max(chunk.places.target_at(later), chunk.target_end)
            chunk, firsts = replace(chunk, start=later, target_end=high), (None, None)
        except HeliostatError as error:
            result.error = error
            return result
        else:
            result.records = compared.records
            result.differs_at = _first_differing(compared, two, chunk)
            result.batches_equal = compared.batches_equal
            result.control_batches, result.aborted_batches = (
                one.control_batches,
                one.aborted_batches,
            )
            result.source_holes, result.target_holes = one.holes, two.holes
            result.hole_ranges = one.hole_ranges
            return result
    result.error = ConnectionLost("the log start overtakes reading", partition=str(chunk.source))
    return result


def _compared(
    chunk: Chunk, one: Iterable[Batch], two: Iterable[Batch], *, decode_all: bool
) -> Compared:
    """Compare in target offsets; return the first difference in source offsets."""
    if chunk.places.is_exact:
        return compare(one, two, chunk.start, chunk.end, decode_all=decode_all)
    moved = MovedSource(one, chunk.start, chunk.end, chunk.places)
    low, high = chunk.target_start, chunk.target_stop
    kept = KeptTarget(two, chunk.places)
    found = compare(moved, kept, low, high, decode_all=decode_all)
    differs = [] if found.differs_at is None else [chunk.places.source_at(found.differs_at)]
    if moved.without_place is not None:
        differs.append(moved.without_place)
    return replace(found, differs_at=min(differs, default=None))


def _first_differing(
    compared: Compared, two: PartitionStream | OwnRecords, chunk: Chunk
) -> int | None:
    """Return the first source offset that differs; a repeated number does, whatever it has."""
    differs = [] if compared.differs_at is None else [compared.differs_at]
    if isinstance(two, OwnRecords) and two.repeated_at is not None:
        differs.append(min(chunk.places.source_at(two.repeated_at), chunk.end - 1))
    return min(differs, default=None)


def _start_now(
    source: LogReader, target: LogReader, chunk: Chunk, views: Views
) -> tuple[int, Views]:
    """Return the first source offset that both sides still have, and how they are seen then."""
    start = target.bounds([chunk.target])[chunk.target].start
    if (origin := views.origin) is not None:
        origin = origin.from_(target, chunk.target, start)
        views, start = views._replace(origin=origin), origin.number
    starts = source.bounds([chunk.source])[chunk.source].start, chunk.places.source_at(start)
    return min(max(chunk.start, *starts), chunk.end), views


@dataclass(frozen=True, slots=True)
class Differing:
    """A stretch, with its index, whose sides differ from a source offset on."""

    index: int
    stretch: Stretch
    start: int
    rule: CleaningRule | None = None
    """How both sides clean the topic; None if neither compacts."""


def explain_stretches(
    sides: ComparedClusters, stretches: Iterable[Differing]
) -> Iterator[ExplainedStretch]:
    """Explain for each stretch what happened to its records."""
    pending = iter(stretches)
    with ExitStack() as stack:
        try:
            source, target = stack.enter_context(both_readers(sides.source, sides.target))
        except HeliostatError as error:
            yield from (ExplainedStretch(one.index, Findings(), error) for one in pending)
            return
        for one in pending:
            try:
                views = sides.views(one.stretch.source)
                yield _explained(source, target, one, views)
            except HeliostatError as error:
                yield ExplainedStretch(one.index, Findings(), error)


def _explained(
    source: LogReader, target: LogReader, one: Differing, views: Views = AS_THEY_ARE
) -> ExplainedStretch:
    """Explain a stretch: first by compaction, if a side compacts, then by alignment."""
    stretch, rule = one.stretch, one.rule
    if rule is None:
        found = _explain(source, target, one, views)
        return ExplainedStretch(one.index, found)
    sides = source, target, stretch, one.start, views
    logs = BothLogs(*sides) if views.origin is None else MergedLogs(*sides, views.origin)
    with _no_collector():
        judged = judge(logs, stretch.places, rule, stretch.target_stop)
    if logs.repeats:  # what follows is moved: no hole explains that
        found = _explain(source, target, replace(one, rule=None), views)
        return ExplainedStretch(one.index, found)
    if judged.findings.is_clean and not stretch.target_has_more:
        return ExplainedStretch(one.index, judged.findings, compacted=judged.compacted)
    named = _explain(source, target, one, views)
    findings = judged.findings if named.is_clean else named
    return ExplainedStretch(one.index, findings, compacted=judged.compacted)


def _explain(source: LogReader, target: LogReader, one: Differing, views: Views) -> Findings:
    stretch, start, rule = one.stretch, one.start, one.rule

    def of_source(first: int) -> Iterator[ConsumedRecord]:
        return rows_of(source, stretch.source, first, stretch.source_stop, views.of_source)

    def find_in_source(wanted: set[Content]) -> dict[Content, int]:
        times = {content[0] for content in wanted}
        found: dict[Content, int] = {}
        for row in of_source(stretch.start):
            if row[1] in times:
                offset, content = placed(row)
                if content in wanted:
                    found.setdefault(content, offset)
                    if len(found) == len(wanted):
                        break
        return found

    low = stretch.places.target_at(start)
    stop = stretch.target_stop
    if views.origin is not None and not stretch.is_cut:
        stop += views.origin.end  # what repeats numbers moves those behind it
    stops = stretch.source_stop, stop
    holes = None
    if rule is not None:
        holes = Holes(rule.source.compacts, rule.target.compacts, (start, low), stops)
    return explain(
        of_source(start),
        without(
            rows_of(target, stretch.target, low, stop, views.of_target, origin=views.origin),
            stretch.places.lost_source_ranges(),
        ),
        stretch.end,
        find_in_source,
        is_cut=stretch.is_cut,
        places=stretch.places,
        holes=holes,
    )
