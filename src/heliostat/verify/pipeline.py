"""Verify a link on Spark: fix the ranges, compare, explain what differs, check for changes.

Of `verify` only this file and `work_places` import Spark. No shuffle: a task reads the same offsets
of both sides. The ends are fixed before reading, the target's first: what the target has then, the
source must have had before. They are read while Spark starts.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from py4j import protocol
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from heliostat.access import ClusterAccess, Reachable, access_of
from heliostat.clock import SystemClock
from heliostat.clusters.admin import ClusterAdmin
from heliostat.clusters.retention import RETENTION_KEYS, kept_shorter
from heliostat.errors import BrokerError, ConnectionLost, HeliostatError, ProtocolError
from heliostat.names import Offset, TopicName, TopicPartition, is_still
from heliostat.ops.asked import PendingAnswer, asked_at_once
from heliostat.ops.driver_death import begun, report_death, stopped
from heliostat.ops.pyspark_private import active_context, ask_numpy_converters_of_numpy_only
from heliostat.ops.quick_jvm import driver_java_options
from heliostat.ops.spark_session import ShippedPackage, is_local, session_settings, wait_executors
from heliostat.verify.both_readers import both_readers
from heliostat.verify.compaction import CLEANING_KEYS, Cleaning, CleaningRule
from heliostat.verify.merged_plan import MergedView, as_merged, merged_view
from heliostat.verify.origin import LinkIds, Origin
from heliostat.verify.piped import Pipes
from heliostat.verify.progress import CountedWork
from heliostat.verify.ranges import (
    STARTS_LATER,
    ComparePlan,
    MapView,
    NotCompared,
    NotMirrored,
    RangeSpec,
    SideView,
    Stretch,
    TopicPair,
    no_map,
    pack,
    plan,
)
from heliostat.verify.read_requests import Isolation
from heliostat.verify.reader import Bounds, LogReader
from heliostat.verify.report import PartitionResult, VerifyReport
from heliostat.verify.schema_ids import NO_IDS, MirroredIds
from heliostat.verify.tails import offsets_without_record
from heliostat.verify.work import (
    ChunkResult,
    ComparedClusters,
    Differing,
    ExplainedStretch,
)
from heliostat.verify.work_places import InDriver, OnSpark, Work

TASKS_PER_CORE = 4  # enough to balance ranges of equal record count but unequal cost
TASKS_PER_CORE_TOLD = 16  # each tells how far it is when it ends
HOLE_RANGES_KEPT_MAX = 20  # per partition in the report
Blocked = Mapping[TopicPartition, NotMirrored]
OpenPipes = Callable[[SparkContext], AbstractContextManager[Pipes]]
"""Makes a link's pipelines ready to be run in a Spark."""


def verify_pair(
    spark: SparkSession | str,
    source: Reachable,
    target: Reachable,
    pairs: Sequence[TopicPair],
    *,
    ranges: RangeSpec | None = None,
    tasks: int | None = None,
    not_copied: Mapping[TopicName, NotMirrored] | None = None,
    decode_all: bool = False,
    conf: Mapping[str, str] | None = None,
    read_map: Callable[[], MapView] = lambda: no_map,
    read_ids: Callable[[], MirroredIds] = lambda: NO_IDS,
    read_blocked: Callable[[], Blocked] = dict,
    read_links: Callable[[], LinkIds] | None = None,
    open_pipes: OpenPipes | None = None,
    counted: CountedWork | None = None,
) -> VerifyReport:
    """Compare mirrors with their sources by content, while they may still be written.

    Parameters
    ----------
    spark
        A session, or a master such as `local[*]` for a session of our own; if this process
        already has a session, as in a notebook, it is used and left running.
    source, target, pairs
        How to connect to the clusters; source topics and their mirrors.
    ranges, tasks
        Offsets to compare, by default all that both sides have; greatest number of Spark tasks, by
        default a few per core.
    not_copied
        Source topics that the link does not copy at all: they are listed, not compared.
    decode_all, conf
        Whether to decode also equal batches; settings for a session of our own.
    read_map, read_ids, read_blocked, read_links
        Read the link's maps of offsets and of schema ids (without them both are equal), which
        source partitions the link reports as not copied, and links' producer ids if it merges.
    open_pipes, counted
        Makes ready the pipelines that some topics go through; is told how far it is. None: no need.

    Raises
    ------
    Refused, ConnectionLost, SparkUnavailable
        A topic would be compared with itself; a cluster does not answer; no Java, or it has died.
    """
    began_s = time.monotonic()
    counted, ranges = counted or CountedWork(), ranges or RangeSpec()
    sides = ComparedClusters(access_of(source), access_of(target), decode_all)
    reads = read_map, read_ids, read_blocked
    plan_it = partial(_planned, sides, pairs, ranges, not_copied, reads, read_links=read_links)
    planning = PendingAnswer(plan_it, "verify plan")  # while Spark starts
    # Or each record at which a pipeline fails is told by Spark, too.
    log_level = "ERROR" if open_pipes is None else "OFF"
    settings = {"spark.log.level": log_level, **(conf or {})}
    with _context(spark, settings, has_rows=open_pipes is not None) as context:
        planned, source_view, target_view, ids, origins = planning.answer()
        sides = replace(sides, ids=ids, origins=origins)
        counted.plan(planned.stretches)
        results, failed = _compare_all(
            context, sides, planned, tasks, open_pipes=open_pipes, counted=counted
        )
    _look_again(sides, planned, source_view, target_view)
    if ranges.is_complete:
        _find_expired(sides, planned)
    return VerifyReport(
        results=results,
        not_compared=[*planned.not_compared, *failed],
        behind_records=planned.behind_records,
        elapsed_s=time.monotonic() - began_s,
    )


def _compare_all(
    context: SparkContext,
    sides: ComparedClusters,
    planned: ComparePlan,
    tasks: int | None,
    *,
    open_pipes: OpenPipes | None,
    counted: CountedWork,
) -> tuple[list[PartitionResult], list[NotCompared]]:
    """Compare all stretches; return the results, and what could not be compared."""
    plain = [PartitionResult(stretch) for stretch in planned.stretches]
    per_core = TASKS_PER_CORE_TOLD if counted.is_told else TASKS_PER_CORE
    count = tasks or per_core * context.defaultParallelism
    on_spark = OnSpark(context, sides, count, one_by_one=counted.is_told)
    if open_pipes is None:
        _count_tails(sides, planned)
        return _compare(on_spark, plain, counted)
    with open_pipes(context) as pipes:
        sides_here = replace(sides, pipes=pipes)
        _count_tails(sides_here, planned)
        through = [one for one in plain if one.stretch.source.topic in pipes.topics]
        plain = [one for one in plain if one.stretch.source.topic not in pipes.topics]
        results, failed = _compare(on_spark, plain, counted)
        in_driver = InDriver(sides_here, context.defaultParallelism)
        more, also_failed = _compare(in_driver, through, counted)
        for one in more:
            one.notes += _failed_records(pipes.failed.get(one.stretch.source, {}))
    return [*results, *more], [*failed, *also_failed]


def _failed_records(failed: Mapping[Offset, str]) -> list[str]:
    """Return a note of the records at which a pipeline failed, if there are any."""
    if not failed:
        return []
    first = min(failed)
    some = f"{len(failed)} records" if len(failed) > 1 else "1 record"
    return [f"the pipeline fails at {some}, first at offset {first}: {failed[first]}"]


def _count_tails(sides: ComparedClusters, planned: ComparePlan) -> None:
    if planned.tails:
        with LogReader(sides.source, Isolation.READ_COMMITTED) as reader:
            planned.behind_records -= offsets_without_record(reader, planned.tails, sides.views)


class _Planned(NamedTuple):
    """What is compared, both sides as they were then, and which ids mirrors have."""

    plan: ComparePlan
    source: SideView
    target: SideView
    ids: MirroredIds
    origins: Mapping[TopicPartition, Origin]


def _planned(
    sides: ComparedClusters,
    pairs: Sequence[TopicPair],
    ranges: RangeSpec,
    not_copied: Mapping[TopicName, NotMirrored] | None,
    reads: tuple[Callable[[], MapView], Callable[[], MirroredIds], Callable[[], Blocked]],
    *,
    read_links: Callable[[], LinkIds] | None,
) -> _Planned:
    """Fix what is compared. The target's ends are read first: all else covers them.

    Rows of producer ids are read after both sides' ends: they name whoever has written below these.
    """
    ours, theirs = [pair.source for pair in pairs], [pair.target for pair in pairs]
    with both_readers(sides.source, sides.target) as readers:
        target = _view(readers.target, theirs)
        asks: dict[str, Callable[[], Any]] = {
            "source": partial(_view, readers.source, ours),
            **dict(zip(("maps", "ids", "blocked"), reads, strict=True)),
        }
        source, maps, ids, blocked = asked_at_once(asks).values()
        seen = MergedView(target)
        if read_links is not None:
            seen = merged_view(readers.target, pairs, source, target, ids=read_links(), maps=maps)
    made = plan(pairs, source, seen.target, ranges, blocked, map_view=maps, not_copied=not_copied)
    made = as_merged(made, seen, source.bounds, must=ranges.is_complete)
    return _Planned(made, source, target, ids, seen.origins)


def _view(reader: LogReader, names: Iterable[str]) -> SideView:
    topics = reader.topics(dict.fromkeys(names))
    bounds = reader.bounds(
        TopicPartition(name, number)  # type: ignore[arg-type]  # names come off the wire
        for name, topic in topics.items()
        for number in topic.leaders
    )
    return SideView(reader.cluster_id, topics, bounds)


@contextmanager
def _context(
    spark: SparkSession | str, conf: Mapping[str, str], *, has_rows: bool
) -> Iterator[SparkContext]:
    """Yield the given session's context, or one of our own that ends with the block.

    Not a session of our own: comparing needs no SQL, thousands of classes that a JVM would load.
    """
    if not isinstance(spark, str):
        yield spark.sparkContext
        return
    running = active_context(SparkContext)
    if running is not None:
        yield running
        return
    settings = {
        "spark.driver.extraJavaOptions": driver_java_options(has_rows=has_rows and is_local(spark)),
        **session_settings(spark, conf),
    }
    ask_numpy_converters_of_numpy_only(protocol.INPUT_CONVERTER)
    wanted = SparkConf().setMaster(spark).setAppName("heliostat verify")
    wanted.setAll(list(settings.items()))
    context: SparkContext = begun(lambda: SparkContext.getOrCreate(wanted), SparkContext)
    package: ShippedPackage | None = None
    try:
        if not is_local(spark):
            package = ShippedPackage(context)
            wait_executors(context)
        with report_death(context):
            yield context
    finally:
        stopped(context, context.stop)
        if package is not None:
            package.delete()


def _compare(
    work: Work, results: list[PartitionResult], counted: CountedWork
) -> tuple[list[PartitionResult], list[NotCompared]]:
    """Fill in the results; return those of what could be compared, and what could not be."""
    shares = pack([one.stretch for one in results], work.tasks)
    differing: dict[int, int] = {}  # first offset that differs, by index
    failed: dict[int, NotCompared] = {}
    if shares:
        by_stretch: dict[int, list[ChunkResult]] = defaultdict(list)
        counted.share_out([one.stretch for one in results], shares)
        for found in work.compare(shares):
            counted.compared(found)
            by_stretch[found.stretch].append(found)
        for index, chunks in by_stretch.items():
            _gather(results[index], sorted(chunks, key=lambda one: one.start), index, failed)
            offsets = [one.differs_at for one in chunks if one.differs_at is not None]
            if offsets:
                differing[index] = min(offsets)
                equal = (one.records for one in chunks if one.start <= min(offsets))
                results[index].records = sum(equal)
    for index, one in enumerate(results):
        if one.stretch.target_has_more:
            differing.setdefault(index, one.stretch.end)
    left = {index: start for index, start in differing.items() if index not in failed}
    if left:
        counted.explain()
        rules = _rules(work.sides, [results[index] for index in left])
        wanted: list[Differing] = []
        for index, start in left.items():
            stretch = results[index].stretch
            rule = rules[stretch.source.topic]
            if rule is not None and work.sides.pipes is not None:
                failed[index] = _cleaned_otherwise(stretch, start)
            else:
                wanted.append(Differing(index, stretch, start, rule))
        for answer in work.explain(wanted):
            _apply(results[answer.stretch], answer, failed)
    kept = [one for index, one in enumerate(results) if index not in failed]
    return kept, list(failed.values())


def _cleaned_otherwise(stretch: Stretch, start: int) -> NotCompared:
    """Return that a compacted topic and what a pipeline makes of it differ.

    Each side is cleaned by its own keys, and tombstones may have been filtered out: what is on one
    side only may be right.
    """
    return NotCompared(
        stretch.source.topic,
        stretch.target.topic,
        stretch.source.partition,
        f"from offset {start} on it differs, which may be right: both sides are compacted, and "
        "what a pipeline changes is not cleaned in the same way",
        stretch.end - start,
        is_problem=False,
    )


def _find_expired(sides: ComparedClusters, planned: ComparePlan) -> None:
    """Make it a problem if a mirror lacks its beginning because it has shorter retention."""
    later = [one for one in planned.not_compared if one.reason == STARTS_LATER]
    if not later:
        return
    names = {TopicName(one.source) for one in later}, {TopicName(one.target) for one in later}
    asks = {
        "source": partial(_retention, sides.source, names[0]),
        "target": partial(_retention, sides.target, names[1]),
    }
    source, target = asked_at_once(asks).values()
    for one in later:
        less = kept_shorter(source[one.source], target[one.target])
        if less is not None:
            told = replace(one, reason=f"{STARTS_LATER}: it has {less}", is_problem=True)
            planned.not_compared[planned.not_compared.index(one)] = told


def _retention(
    access: ClusterAccess, topics: Iterable[TopicName]
) -> dict[str, dict[str, str | None]]:
    """Return topics' retention settings; none for topics that can't be described."""
    with ClusterAdmin(access, "heliostat-verify") as admin:
        answers = admin.describe_configs(topics, RETENTION_KEYS)
    return {
        name: {}
        if isinstance(one, BrokerError)
        else {key: one[key].value for key in RETENTION_KEYS if key in one}
        for name, one in answers.items()
    }


def _rules(
    sides: ComparedClusters, results: Iterable[PartitionResult]
) -> dict[TopicName, CleaningRule | None]:
    """Return how both sides clean topics, by source topic; None if neither compacts."""
    topics: dict[TopicName, TopicName] = {}
    asked: dict[TopicName, list[PartitionResult]] = defaultdict(list)
    for one in results:
        topics[one.stretch.source.topic] = one.stretch.target.topic
        asked[one.stretch.source.topic].append(one)
    now_ms = SystemClock().wall_ms()
    asks = {
        "source": partial(_cleaning, sides.source, topics),
        "target": partial(_cleaning, sides.target, topics.values()),
    }
    source, target = asked_at_once(asks).values()
    rules: dict[TopicName, CleaningRule | None] = {}
    for name, other in topics.items():
        found = [source[name], target[other]]
        known = [Cleaning() if isinstance(each, BrokerError) else each for each in found]
        for result in asked[name]:
            result.notes += [
                f"not known whether it is compacted: {each}"
                for each in found
                if isinstance(each, BrokerError)
            ]
        rule = CleaningRule(known[0], known[1], now_ms)
        rules[name] = rule if rule.matters else None
    return rules


def _cleaning(
    access: ClusterAccess, topics: Iterable[TopicName]
) -> dict[TopicName, Cleaning | BrokerError]:
    with ClusterAdmin(access, "heliostat-verify") as admin:
        answers = admin.describe_configs(topics, CLEANING_KEYS)
    return {
        name: one if isinstance(one, BrokerError) else Cleaning.of(one)
        for name, one in answers.items()
    }


def _gather(
    result: PartitionResult,
    chunks: list[ChunkResult],
    index: int,
    failed: dict[int, NotCompared],
) -> None:
    for one in chunks:
        if one.error is not None:
            failed[index] = _failed(result.stretch, one.error)
            return
        result.records += one.records
        result.batches_equal += one.batches_equal
        result.control_batches += one.control_batches
        result.aborted_batches += one.aborted_batches
        result.source_holes += one.source_holes
        result.target_holes += one.target_holes
        room = HOLE_RANGES_KEPT_MAX - len(result.hole_ranges)
        result.hole_ranges += one.hole_ranges[:room]
        result.notes += one.notes


def _apply(
    result: PartitionResult, answer: ExplainedStretch, failed: dict[int, NotCompared]
) -> None:
    if answer.error is not None:
        failed[answer.stretch] = _failed(result.stretch, answer.error)
        return
    result.findings = answer.findings
    result.records += answer.findings.records
    if answer.compacted is not None:
        result.compacted = answer.compacted
    elif answer.findings.is_clean:
        failed[answer.stretch] = _failed(
            result.stretch,
            ProtocolError("both sides differed when compared, but not when read again"),
        )


def _failed(stretch: Stretch, error: HeliostatError) -> NotCompared:
    if isinstance(error, ConnectionLost):
        raise error
    return NotCompared(
        stretch.source.topic,
        stretch.target.topic,
        stretch.source.partition,
        str(error),
        stretch.end - stretch.start,
        is_problem=True,
    )


def _look_again(
    sides: ComparedClusters, planned: ComparePlan, source_before: SideView, target_before: SideView
) -> None:
    """Report partitions whose topic was recreated, or whose log end went back, meanwhile."""
    befores = {"source": source_before, "target": target_before}
    with both_readers(sides.source, sides.target) as readers:
        asks = {
            "source": partial(_view, readers.source, source_before.topics),
            "target": partial(_view, readers.target, target_before.topics),
        }
        views = asked_at_once(asks)
    for side, now in views.items():
        before = befores[side]
        for one in planned.stretches:
            partition: TopicPartition = getattr(one, side)
            reason = _moved(partition, before, now)
            if reason:
                planned.not_compared.append(
                    NotCompared(
                        one.source.topic,
                        one.target.topic,
                        one.source.partition,
                        f"{side}: {reason}",
                        one.end - one.start,
                        is_problem=True,
                    )
                )


def _moved(partition: TopicPartition, before: SideView, now: SideView) -> str | None:
    topic = now.topics.get(partition.topic)
    if topic is None:
        return "the topic was deleted while it was read"
    if not is_still(before.topics[partition.topic].topic_id, topic.topic_id):
        return "the topic was recreated while it was read"
    old, new = before.bounds[partition], now.bounds.get(partition, Bounds(0, 0))
    if new.end < old.end:
        return f"the log end went back from {old.end} to {new.end} while it was read"
    return None
