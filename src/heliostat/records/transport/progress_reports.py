"""A lane's reports to the progress topic: only what changed, so that thousands of rows are cheap.

A round's first report holds every partition, and so do the first after a change of its plan and its
last one. Others hold the partitions that changed since they were last written, and a slice of all
others: a new reader knows every partition after `REFRESH_S`. Where many move, each is written once
in `MOVED_EVERY_S`, but at once if its state changes: a row costs a lane and its driver some 50 us
of processor time. A report of many rows is several
records, each readable by itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from heliostat.merge.own_end import OwnNote
from heliostat.names import LaneId, PartitionId, TopicName, TopicPartition
from heliostat.ops.latency import BUCKETS
from heliostat.ops.process_use import ProcessUse
from heliostat.ops.request_times import SIDE_NUMBERS
from heliostat.records.copier.lane import (
    LineUse,
    PartitionReport,
    PartitionState,
    RoundReport,
    Suspect,
)
from heliostat.records.copier.lane_limits import LimitUse

REFRESH_S = 30.0
"""Every partition is written at least once in this time, changed or not."""
MOVED_EVERY_S = 5.0
DUE_SLACK_S = 0.5
"""Tolerance, as reports come each second or a little later."""
MOVED_MAX = 100
"""Up to this many partitions that moved are all written in every report."""
ROWS_PER_RECORD = 1000
"""About 80 bytes each: a record stays far below a broker's `message.max.bytes` (1 MiB)."""
ROWS_PER_STEP = 64
"""Rows encoded without a pause, about 0.2 ms: the copier's thread waits that long for the GIL."""
REASON_CHARACTERS_MAX = 400
"""A thousand reasons of this length still fit into a record."""

END_OLD_AT, OWN_AT = 16, 17
"""Places in a row."""
OWN_NUMBERS = 3

_Key = tuple[TopicName, PartitionId]
_Standing = tuple[object, ...]
_Moved = tuple[int, ...]
_UNWRITTEN: tuple[_Standing, _Moved, float] = ((), (), 0.0)
Pause = Callable[[], None]


@dataclass(frozen=True, slots=True)
class LaneProgress:
    """One record of the progress topic, read back.

    Parameters
    ----------
    report
        The report; its partitions are those of this record, its other figures the round's.
    at_ms
        Time of writing, by the wall clock of the lane's machine.
    is_whole
        Whether it is the last record of a report with every partition of the lane.
    """

    report: RoundReport
    at_ms: int
    is_whole: bool


class Thinning:
    """Chooses the rows of a round's next report. Pure.

    Parameters
    ----------
    refresh_s
        Time (s) within which every partition is chosen at least once.
    """

    def __init__(self, refresh_s: float = REFRESH_S) -> None:
        self._refresh_s = refresh_s
        self._known: dict[_Key, PartitionReport] = {}
        self._written: dict[_Key, tuple[_Standing, _Moved, float]] = {}
        """What was written last, and when (monotonic seconds)."""
        self._moved: set[_Key] = set()
        """Partitions whose figures have changed since they were written."""
        self._order: list[_Key] = []
        self._next = 0
        self._at_s = 0.0

    def choose(
        self,
        rows: Sequence[PartitionReport],
        now_s: float,
        *,
        whole: bool,
        pause: Pause,
        is_last: bool = False,
    ) -> list[PartitionReport]:
        """Return the rows to write now, sorted by topic; they count as written.

        Parameters
        ----------
        rows
            Partitions that may have changed since the last call; all of them in the first call.
        now_s
            Current time (monotonic seconds).
        whole
            Whether `rows` are all partitions of the lane: all are chosen, any others forgotten.
        pause
            Called between steps of `ROWS_PER_STEP`.
        is_last
            Whether to choose all that moved.
        """
        chosen: set[_Key] = set()
        if whole:
            self._keep_only({(row.source.topic, row.source.partition) for row in rows})
        for number, row in enumerate(rows):
            if number % ROWS_PER_STEP == 0:
                pause()
            key = (row.source.topic, row.source.partition)
            if key not in self._known:
                self._order.append(key)
            self._known[key] = row
            standing, moved, _ = self._written.get(key, _UNWRITTEN)
            if standing != _standing(row):
                chosen.add(key)
            elif moved != _moved(row):
                self._moved.add(key)
        chosen.update(self._due(now_s, every=is_last))
        chosen.update(self._order if whole else self._slice(now_s - self._at_s))
        self._at_s = now_s
        pause()
        keys = sorted(chosen)
        for place, key in enumerate(keys):
            row = self._known[key]
            # Staggered times, so that the rows of one report are not all due at once later.
            apart_s = MOVED_EVERY_S * place / len(keys) if whole else 0.0
            self._written[key] = (_standing(row), _moved(row), now_s - apart_s)
        self._moved -= chosen
        return [self._known[key] for key in keys]

    def _keep_only(self, keys: set[_Key]) -> None:
        """Forget partitions that the lane has given up."""
        self._order = [key for key in self._order if key in keys]
        self._moved &= keys
        for key in self._known.keys() - keys:
            del self._known[key]
            self._written.pop(key, None)

    def _due(self, now_s: float, *, every: bool) -> list[_Key]:
        """Return the moved partitions to write: all if they are few, else those that are due."""
        if every or len(self._moved) <= MOVED_MAX:
            return list(self._moved)
        before_s = now_s - MOVED_EVERY_S + DUE_SLACK_S
        return [key for key in self._moved if self._written[key][2] <= before_s]

    def _slice(self, past_s: float) -> list[_Key]:
        """Return the next partitions in turn, as many as `refresh_s` requires after `past_s`."""
        count = len(self._order)
        share = min(count, int(count * past_s / self._refresh_s) + 1)
        start, self._next = self._next, self._next + share
        found = [self._order[at % count] for at in range(start, self._next)]
        self._next = self._next % count if count else 0
        return found


def _standing(row: PartitionReport) -> _Standing:
    """Return the values whose change makes a row worth writing at once."""
    return (row.state, row.since_ms, row.code, row.reason, row.is_end_old)


def _moved(row: PartitionReport) -> _Moved:
    """Return the values whose change makes it worth writing soon; `caught_up_ms` always changes."""
    at = (row.position, row.high_watermark, row.bytes)
    return (*at, row.open_records, row.breaks, row.missing_ms)


def encode_progress(
    report: RoundReport,
    rows: Sequence[PartitionReport],
    at_ms: int,
    *,
    is_whole: bool,
    pause: Pause = lambda: None,
) -> Iterator[bytes]:
    """Yield the records of one report, at least one; `rows` are sorted by topic."""
    starts = range(0, max(1, len(rows)), ROWS_PER_RECORD)
    for start in starts:
        head = {
            "at_ms": at_ms,
            "lane": report.lane,
            "generation": report.generation,
            "round": report.round_number,
            "records": report.records,
            "bytes": report.bytes,
            "ended_by": report.ended_by,
            "latency": report.latency_ms,
            "lane_partitions": report.lane_partitions,
            "is_whole": is_whole and start == starts[-1],
            "number": report.number,
            "plan": report.plan,
        }
        if report.source_line or report.target_line:
            head["lines"] = [_line(report.source_line), _line(report.target_line)]
        if report.process is not None and not start:
            head["process"] = list(report.process)
        if report.topic_latency and not start:
            head["topics_latency"] = [
                [topic, [number for pair in counts for number in pair]]
                for topic, counts in report.topic_latency
            ]
        if report.requests and not start:
            head["requests"] = report.requests
        if report.limits and not start:
            head["limits"] = [list(each) for each in report.limits]
        if report.lost and not start:
            head["lost"] = [[*_place(source), *lost] for source, *lost in report.lost]
        if report.schema_ids and not start:
            head["schema_ids"] = list(report.schema_ids)
        if report.hangs and not start:
            head["hangs"] = report.hangs
        if report.suspect is not None and not start:
            head["suspect"] = [*_place(report.suspect.source), *report.suspect[1:]]
        steps: list[bytes] = []
        end = min(len(rows), start + ROWS_PER_RECORD)
        for at in range(start, end, ROWS_PER_STEP):
            steps.append(_encoded_topics(rows[at : min(end, at + ROWS_PER_STEP)]))
            pause()
        encoded = json.dumps(head, separators=(",", ":")).encode()
        yield encoded[:-1] + b',"topics":[' + b",".join(steps) + b"]}"


def _encoded_topics(rows: Sequence[PartitionReport]) -> bytes:
    """Encode as `[source, target, [row, ...]], ...`: each topic's names once, with its rows."""
    topics = [
        [source, target, [_row(item) for item in group]]
        for (source, target), group in groupby(rows, _names)
    ]
    return json.dumps(topics, separators=(",", ":")).encode()[1:-1]


def _names(item: PartitionReport) -> tuple[str, str]:
    return item.source.topic, item.target.topic


def _row(item: PartitionReport) -> list[object]:
    row: list[object] = [
        _numbers(item),
        item.state.value,
        item.position,
        item.high_watermark,
        item.records,
        item.bytes,
        item.last_timestamp_ms,
        item.caught_up_ms,
        item.since_ms,
        _copied(item),
    ]
    is_mapped = bool(item.open_records or item.breaks)
    is_elsewhere = item.target_end != item.position
    has_age = item.missing_ms >= 0 or is_elsewhere
    has_more = item.is_end_old or item.own is not None
    if item.code or item.reason or is_mapped or has_age or has_more:
        row += [item.code, item.reason[:REASON_CHARACTERS_MAX]]
    if is_mapped or has_age or has_more:
        row += [item.open_records, item.breaks]
    row += [item.missing_ms] if has_age or has_more else []
    row += [item.target_end] if is_elsewhere or has_more else []
    row += [int(item.is_end_old)] if has_more else []
    return row if item.own is None else [*row, list(item.own[:OWN_NUMBERS])]


def _line(use: LineUse | None) -> list[int]:
    return [] if use is None else [use.round_trip_ms, use.in_flight_bytes]


def _place(partition: TopicPartition) -> tuple[str, int]:
    return partition.topic, partition.partition


def _numbers(item: PartitionReport) -> object:
    """Return the partition's number; both sides' numbers where they differ, as with fan-in."""
    source, target = item.source.partition, item.target.partition
    return source if source == target else [source, target]


def decode_progress(value: Mapping[str, Any]) -> LaneProgress:
    """Build a `LaneProgress` from one record's JSON.

    What others write there may be anything: it must not reach sums that are kept.

    Raises
    ------
    LookupError, TypeError, ValueError
        It is no report.
    """
    partitions = [
        _partition(TopicName(source), TopicName(target), row)
        for source, target, rows in value["topics"]
        for row in rows
    ]
    report = RoundReport(
        LaneId(value["lane"]),
        value["generation"],
        value["round"],
        value["records"],
        value["bytes"],
        value["ended_by"],
        partitions,
        value["latency"],
    )
    report.number, report.plan = value.get("number", 0), value.get("plan", report.generation)
    report.lane_partitions = value["lane_partitions"]
    report.schema_ids = tuple(value.get("schema_ids", ()))
    report.hangs = value.get("hangs", "")
    lines = value.get("lines", ((), ()))
    report.source_line, report.target_line = (LineUse(*line) if line else None for line in lines)
    _take_usage(report, value)
    if "suspect" in value:
        topic, partition, *ends = value["suspect"]
        source = TopicPartition(TopicName(topic), PartitionId(partition))
        report.suspect = Suspect(source, *ends)
    report.lost = [
        (TopicPartition(TopicName(topic), PartitionId(partition)), first, end)
        for topic, partition, first, end in value.get("lost", ())
    ]
    _only(int, value["lane"], value["generation"], value["round"], value["at_ms"])
    _only(int, report.records, report.bytes, report.number, report.plan, report.lane_partitions)
    _only(int, *report.latency_ms, *report.schema_ids)
    _only(int, *(number for _, *ends in report.lost for number in ends))
    _only(int, *(() if report.suspect is None else report.suspect[1:]))
    _only(int, *(number for line in lines for number in line))
    _only(str, report.ended_by, report.hangs)
    return LaneProgress(report, value["at_ms"], bool(value["is_whole"]))


def _take_usage(report: RoundReport, value: Mapping[str, Any]) -> None:
    if "process" in value:
        cpu_s, *numbers = value["process"]
        _only(int, *numbers)
        report.process = ProcessUse(float(cpu_s), *numbers)
    requests = list(value.get("requests", ()))
    _only(int, *requests)
    if len(requests) == 2 * SIDE_NUMBERS:  # a version with other bounds can't be added up
        report.requests = requests
    report.limits = [LimitUse(*each) for each in value.get("limits", ())]
    _only(int, *(number for _, *numbers in report.limits for number in numbers))
    _only(str, *(topic for topic, *_ in report.limits if topic is not None))
    latency = value.get("topics_latency", ())
    _only(str, *(topic for topic, _ in latency))
    _only(int, *(number for _, numbers in latency for number in numbers))
    report.topic_latency = [
        (TopicName(topic), tuple(zip(numbers[::2], numbers[1::2], strict=True)))
        for topic, numbers in latency
    ]
    if any(not 0 <= bucket < BUCKETS for _, counts in report.topic_latency for bucket, _ in counts):
        raise ValueError("no such bucket")


def _only(kind: type, *values: object) -> None:
    """Raise `TypeError` unless all are of this kind."""
    if values and {*map(type, values)} != {kind}:
        raise TypeError(f"no {kind.__name__}: {values}")


def _partition(source: TopicName, target: TopicName, row: Sequence[Any]) -> PartitionReport:
    number, state, position, high_watermark, records, size, last_ms, caught_up_ms, since_ms = row[
        :9
    ]
    copied_to, epoch = row[9] if isinstance(row[9], list) else (position, row[9])
    code, reason = row[10:12] or ("", "")
    open_records, breaks = row[12:14] or (0, 0)
    missing_ms = row[14] if row[14:] else -1
    target_end = row[15] if row[15:] else position
    own = None if len(row) <= OWN_AT else OwnNote(*row[OWN_AT])
    one, other = number if isinstance(number, list) else (number, number)
    _only(int, one, other, position, high_watermark, records, size, last_ms, caught_up_ms, since_ms)
    _only(int, copied_to, epoch, open_records, breaks, missing_ms, target_end)
    _only(int, *(() if own is None else own[:OWN_NUMBERS]))
    _only(str, source, target, code, reason)
    return PartitionReport(
        TopicPartition(source, PartitionId(one)),
        TopicPartition(target, PartitionId(other)),
        PartitionState(state),
        position,
        high_watermark,
        records,
        size,
        last_ms,
        caught_up_ms,
        since_ms,
        code,
        reason,
        open_records,
        breaks,
        copied_to if epoch >= 0 else -1,
        epoch,
        missing_ms,
        target_end,
        is_end_old=len(row) > END_OLD_AT and row[END_OLD_AT] == 1,
        own=own,
    )


def _copied(item: PartitionReport) -> object:
    """Return the leader epoch of the last copied batch, and its end unless it is the position."""
    is_level = item.copied_epoch < 0 or item.copied_to == item.position
    return item.copied_epoch if is_level else [item.copied_to, item.copied_epoch]
