"""`heliostat tail export` and `append`: what never crossed goes into files, a topic, or back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from typing import Any

from heliostat.clock import Clock
from heliostat.config import Config, LinkConfig
from heliostat.errors import Refused
from heliostat.exporting.exported import ExportedRecord
from heliostat.exporting.origin import Origin
from heliostat.exporting.to_topic import OffsetSet, TopicCopy
from heliostat.framed_ids import shown_id
from heliostat.link.pipeline_rules import pipeline_of
from heliostat.names import TopicName
from heliostat.operate.dead_letters import require_plain_topic
from heliostat.operate.destination import Destination, Exporter, FileExporter
from heliostat.operate.tail import (
    SAMPLE,
    TailDesk,
    TailReport,
    deleted_row,
    record_in_ledger,
    report_of,
    require_known,
    tail_desk,
)
from heliostat.rescue.appending import RefusedRecord, TailAppender, TailRules
from heliostat.rescue.look import TailLook, TailPartition
from heliostat.rescue.newer_keys import NewerKeys
from heliostat.rescue.target_log import ClusterLog
from heliostat.verify.both_readers import BothReaders, both_readers

PIPED = "a pipeline changes the records of this topic"


@dataclass(frozen=True, slots=True)
class TailMoved:
    """What was, or would be, exported or appended."""

    report: TailReport
    """As it was before."""
    appended: int
    exported: int
    refused: dict[str, int]
    """Records that were not appended but exported, by why."""
    destination: Destination | None
    is_tried: bool
    is_done: bool = True
    """Whether there was time for all of it; else it goes on when it is asked again."""

    def to_json(self) -> dict[str, Any]:
        """Return the answer for `--json`."""
        destination = None if self.destination is None else self.destination.to_json()
        return {
            "link": self.report.link,
            "appended": self.appended,
            "exported": self.exported,
            "refused": dict(self.refused),
            "destination": destination,
            "is_tried": self.is_tried,
            "is_done": self.is_done,
            "rows": [row.to_json() for row in self.report.rows],
        }


def export_tail(
    config: Config,
    link: LinkConfig,
    topics: Sequence[str],
    destination: Destination,
    *,
    by: str,
    dry_run: bool = False,
    within_s: float = inf,
) -> TailMoved:
    """Write tails into files or a topic; they stay tails, to be appended or dropped.

    Parameters
    ----------
    within_s
        For how long to write, once the source rests: for those who ask again. Into a topic only.

    Raises
    ------
    Refused
        The source does not rest, a tail can't be known, or the destination can't take it.
    ConnectionLost, BrokerError
        A cluster does not answer, or refuses; whoever asks again goes on.
    """
    with tail_desk(config, link, topics, by) as desk, _sides(desk) as pair:
        if not dry_run:
            desk.require_rest()
        require_known(desk)
        tails = desk.tails(SAMPLE)
        report = report_of(desk, tails)
        written = 0
        exporter = exporter_of(desk, pair, destination)
        look, deadline = TailLook(pair), _Deadline(desk.clock, within_s)
        for tail in tails if not dry_run else ():
            if tail.counts.records:
                written += exporter.write(deadline.of(look.records(tail, tail.first)))
        is_done = not deadline.was_met
        return TailMoved(report, 0, written, {}, destination, dry_run, is_done)


def append_tail(
    config: Config,
    link: LinkConfig,
    topics: Sequence[str] = (),
    refused_to: Destination | None = None,
    *,
    by: str,
    dry_run: bool = False,
    within_s: float = inf,
) -> TailMoved:
    """Append tails to the topics that were mirrors; what may not be appended is exported.

    Parameters
    ----------
    refused_to
        Where that goes; None: it must be nothing.
    within_s
        For how long to append, once the source rests: for those who ask again.

    Raises
    ------
    Refused
        The source does not rest, a tail can't be known, somebody else appends it, or some of it may
        not be appended and has no place to go: then nothing was appended.
    ConnectionLost, BrokerError
        A cluster does not answer, or refuses; whoever asks again goes on, without a second copy.
    """
    with tail_desk(config, link, topics, by) as desk, _sides(desk) as pair:
        if not dry_run:
            desk.require_rest()
        require_known(desk)
        tails = [tail for tail in desk.tails(SAMPLE) if tail.counts.records or tail.note.is_open]
        report = report_of(desk, tails)
        deadline = _Deadline(desk.clock, within_s)
        moving = _Moving(desk, pair, _judges(desk, tails), deadline)
        refused = moving.refused(tails)
        if dry_run:
            count = refused.total()
            return TailMoved(report, report.records - count, count, dict(refused), refused_to, True)
        if refused and refused_to is None:
            reasons = ", ".join(f"{count:,} {why}" for why, count in sorted(refused.items()))
            raise Refused(
                f"of {report.records:,} records some may not be appended: {reasons}",
                hint="say where they go: --refused-to-parquet DIR, or --refused-to-topic TOPIC",
            )
        exporter = None if refused_to is None else exporter_of(desk, pair, refused_to)
        desk.notes.ensure(link.state.replication_factor)
        gone = [tail for tail in tails if tail.deleted and not tail.note.is_open]
        record_in_ledger(desk, [deleted_row(tail, desk) for tail in gone])
        appended = 0
        exported = Counter[str]()
        for tail in tails:
            if deadline.is_over():
                break
            added, why = moving.append(tail, exporter)
            appended += added
            exported += why
        moved = TailMoved(
            report, appended, exported.total(), dict(exported), refused_to, is_tried=False
        )
        return replace(moved, is_done=not deadline.was_met)


class _Deadline:
    """Until when to go on.

    Parameters
    ----------
    clock, within_s
        From now on, for so long.
    """

    def __init__(self, clock: Clock, within_s: float) -> None:
        self._clock = clock
        self._until_s = clock.monotonic_s() + within_s
        self.was_met = False
        """Whether something was left because of it."""

    def is_over(self) -> bool:
        """Return whether to stop; then something is left."""
        self.was_met |= self._clock.monotonic_s() >= self._until_s
        return self.was_met

    def of(self, records: Iterable[ExportedRecord]) -> Iterator[ExportedRecord]:
        """Yield records until it is over."""
        for record in records:
            if self.is_over():
                return
            yield record


@contextmanager
def _sides(desk: TailDesk) -> Iterator[BothReaders]:
    clusters = desk.config.clusters
    with both_readers(
        clusters[desk.link.source].access(), clusters[desk.link.target].access()
    ) as pair:
        yield pair


def exporter_of(desk: TailDesk, pair: BothReaders, destination: Destination) -> Exporter:
    """Return what writes to a destination.

    Raises
    ------
    Refused
        The topic is a mirror, or is not there.
    """
    if destination.folder is not None:
        return FileExporter(destination.folder, destination.file_bytes)
    assert destination.topic is not None
    topic = destination.topic
    count = require_plain_topic(desk.config, desk.link, topic, desk.target)
    log = ClusterLog(desk.target, pair.target, desk.clock)
    return TopicCopy(log, topic, count, desk.source_cluster)


Why = Callable[[ExportedRecord], str]


def _judges(desk: TailDesk, tails: Sequence[TailPartition]) -> dict[TopicName, Why]:
    """Return, by topic, what says why a record may not be appended."""
    former = {tail.mirror.source.topic: tail.mirror.target.topic for tail in tails}
    topics = set(former)
    judges: dict[TopicName, Why] = {
        topic: lambda _: PIPED for topic in topics if pipeline_of(desk.link, topic)
    }
    plain = topics - judges.keys()
    if not plain or desk.link.schemas.strategy == "off":
        return judges | dict.fromkeys(plain, lambda _: "")
    from heliostat.operate.replayed_ids import replayed_ids  # loads an HTTP client

    ids = replayed_ids(desk.config, desk.link, plain, former)

    def judged(topic: TopicName, record: ExportedRecord) -> str:
        number = ids.other_of(topic, record)
        if number is None:
            return ""
        return f"of a schema (id {shown_id(number)}) that is another one at the target"

    return judges | {topic: partial(judged, topic) for topic in plain}


@dataclass(slots=True)
class _Moving:
    """Appends one partition after the other."""

    desk: TailDesk
    pair: BothReaders
    judges: dict[TopicName, Why]
    deadline: _Deadline
    log: ClusterLog = field(init=False)

    def __post_init__(self) -> None:
        self.log = ClusterLog(self.desk.target, self.pair.target, self.desk.clock)

    def refused(self, tails: Iterable[TailPartition]) -> Counter[str]:
        """Return how many records may not be appended, by why."""
        reasons = Counter[str]()
        for tail in tails:
            reasons += Counter(why for _, why in self._judged(tail, self._newer(tail)))
        return reasons

    def append(self, tail: TailPartition, exporter: Exporter | None) -> tuple[int, Counter[str]]:
        """Append a tail; return how many records came, and those that were exported, by why."""
        look, before = TailLook(self.pair), tail.note
        newer = self._newer(tail)
        reasons, kept = Counter[str](), OffsetSet()

        def bulk() -> Iterator[ExportedRecord]:
            for record, why in self._judged(tail, newer):
                reasons[why] += 1
                kept.add(record.offset)
                yield record

        def keep(rows: list[RefusedRecord]) -> None:
            unkept = [row for row in rows if row.record.offset not in kept]
            if not unkept:
                return
            if exporter is None:
                raise _has_no_place(unkept[0])
            exporter.write(row.record for row in unkept)
            for row in unkept:
                reasons[row.why] += 1
                kept.add(row.record.offset)

        if exporter is not None:
            exporter.write(bulk())
        appender = TailAppender(
            self.log, self.desk.notes, self.desk.clock, self.desk.source_cluster
        )
        judge = self.judges[tail.mirror.source.topic]
        rules = TailRules(judge, keep, newer, self.deadline.is_over)
        note = appender.append(tail.note, tail.end, partial(look.records, tail), rules)
        return note.appended - before.appended, reasons

    def _judged(
        self, tail: TailPartition, newer: NewerKeys | None
    ) -> Iterator[tuple[ExportedRecord, str]]:
        """Yield the records that may not be appended, each with why."""
        judge = self.judges[tail.mirror.source.topic]
        for record in TailLook(self.pair).records(tail, tail.first):
            why = "" if newer is None else newer.why_not(record.key)
            if why := why or judge(record):
                yield record, why

    def _newer(self, tail: TailPartition) -> NewerKeys | None:
        """Return what others have written of the tail's keys; None: the target does not compact."""
        mirror = tail.mirror
        if not mirror.compacts:
            return None
        records = TailLook(self.pair).records(tail, tail.uncrossed.first)
        newer = NewerKeys(
            partial(self.log.records, mirror.target),
            mirror.ended.target_end,
            (record.key for record in records if record.key is not None),
            self._is_of(tail),
        )
        newer.read_to(self.log.end(mirror.target))
        return newer

    def _is_of(self, tail: TailPartition) -> Callable[[Iterable[tuple[str, bytes | None]]], bool]:
        place = self.desk.source_cluster, tail.mirror.source

        def is_of(headers: Iterable[tuple[str, bytes | None]]) -> bool:
            origin = Origin.of(headers)
            return origin is not None and (origin.cluster, origin.partition) == place

        return is_of


def _has_no_place(row: RefusedRecord) -> Refused:
    record = row.record
    return Refused(
        f"{record.partition} offset {record.offset} may not be appended: {row.why}",
        hint="say where such records go: --refused-to-parquet DIR, or --refused-to-topic TOPIC; "
        "what was appended stays, and is not appended again",
    )
