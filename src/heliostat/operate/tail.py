"""`heliostat tail`: records that never crossed before a mirror was given away.

Each verb looks first; what changes something asks the source to rest (`require_rest`), and is the
same with `dry_run`, up to where something would be written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from heliostat.clock import Clock, SystemClock
from heliostat.clusters.admin import ClusterAdmin
from heliostat.config import Config, LinkConfig
from heliostat.errors import Refused
from heliostat.gaps.choices import Cause, GapChoice
from heliostat.gaps.ledger import GapLedger, GapRow
from heliostat.handover.promotion import Promotion
from heliostat.link.pipeline_rules import pipeline_of
from heliostat.names import ClusterId, LinkName, Offset, TopicName, TopicPartition
from heliostat.offsets.store import read_maps
from heliostat.operate.reach import require_answer
from heliostat.operate.source_fence import RESCUE, SourceFence, note_fenced
from heliostat.rebuild.compared_rows import view_of
from heliostat.rebuild.several_readers import SeveralReaders
from heliostat.rescue.look import (
    LostMirror,
    TailLook,
    TailPartition,
    TopicsAtBothSides,
    records_shown,
)
from heliostat.rescue.notes import TailNote, TailNotes
from heliostat.rescue.source_rest import OpenProducer, open_producers, require_rest
from heliostat.state.link_state import LinkState
from heliostat.topics.merged_links import refuse_if_merged
from heliostat.topics.values import MirrorRecord
from heliostat.verify.both_readers import BothReaders
from heliostat.verify.schema_ids import Views
from heliostat.wishes.wish_book import WishBook

SAMPLE = 3
REQUEST_TIMEOUT_MS = 4_000
"""Shorter than between two notes of who appends."""


@dataclass(frozen=True, slots=True)
class TailRow:
    """The tail of one partition, as it is shown."""

    source: TopicPartition
    target: TopicPartition
    records: int
    """Records that never crossed and are not dealt with yet."""
    bytes: int
    first: Offset | None
    last: Offset | None
    first_ms: int | None
    last_ms: int | None
    deleted: int
    """Offsets that never crossed and that the source has deleted since."""
    lost_at_source: int
    """Offsets that crossed, and that the source has lost: an unclean election."""
    appended: int
    refused: int
    dropped: int
    is_open: bool
    """Whether somebody appends it, or was stopped while appending."""
    sample: tuple[dict[str, Any], ...]
    """Its first records; bytes in base64."""

    @classmethod
    def of(cls, tail: TailPartition) -> TailRow:
        """Return a partition's tail as it is shown."""
        counts, note = tail.counts, tail.note
        return cls(
            tail.mirror.source,
            tail.mirror.target,
            counts.records,
            counts.bytes,
            counts.first,
            counts.last,
            counts.first_ms,
            counts.last_ms,
            tail.deleted,
            tail.lost_at_source,
            note.appended,
            note.refused,
            note.dropped,
            note.is_open,
            tuple(records_shown(counts.sample)),
        )

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "topic": self.source.topic,
            "partition": self.source.partition,
            "target": self.target.topic,
            **{name: getattr(self, name) for name in _SHOWN},
            "sample": list(self.sample),
        }


_SHOWN = (
    *("records", "bytes", "first", "last", "first_ms", "last_ms", "deleted", "lost_at_source"),
    *("appended", "refused", "dropped", "is_open"),
)


@dataclass(frozen=True, slots=True)
class TailReport:
    """The tails of a link's promoted mirrors."""

    link: LinkName
    rows: tuple[TailRow, ...]
    """Of partitions that have or had one."""
    why_not: dict[TopicName, str]
    """Topics whose tails can't be known, and why."""
    open_transactions: tuple[OpenProducer, ...]
    """At the source: what they commit is a part of the tail, too."""
    partitions: int

    @property
    def records(self) -> int:
        """Records that are not dealt with yet."""
        return sum(row.records for row in self.rows)

    @property
    def is_clear(self) -> bool:
        """Whether nothing waits, and nothing is unknown."""
        return not (self.records or self.why_not or self.open_transactions)

    def to_json(self) -> dict[str, Any]:
        """Return the answer for `--json`."""
        return {
            "link": self.link,
            "partitions": self.partitions,
            "records": self.records,
            "rows": [row.to_json() for row in self.rows],
            "why_not": dict(self.why_not),
            "open_transactions": [row.to_json() for row in self.open_transactions],
        }


@dataclass(frozen=True, slots=True)
class TailDesk:
    """All that the verbs about tails need, opened."""

    config: Config
    link: LinkConfig
    by: str
    source: ClusterAdmin
    target: ClusterAdmin
    notes: TailNotes
    mirrors: tuple[LostMirror, ...]
    why_not: dict[TopicName, str]
    source_cluster: ClusterId
    clock: Clock = field(default_factory=SystemClock)

    def tails(self, sample: int = 0) -> list[TailPartition]:
        """Look at all partitions, several at once."""
        notes = self.notes.read()
        with closing(self.readers()) as readers:

            def looked(pair: BothReaders, some: Sequence[LostMirror]) -> list[TailPartition]:
                look = TailLook(pair)
                return [look.partition(mirror, _note(mirror, notes), sample) for mirror in some]

            return list(readers.each(self.mirrors, looked))

    def readers(self) -> SeveralReaders:
        """Return readers of both sides; who asks for them closes them."""
        clusters = self.config.clusters
        return SeveralReaders(
            clusters[self.link.source].access(), clusters[self.link.target].access()
        )

    def require_rest(self) -> None:
        """See that the source rests, by rules where the link may lay any.

        They stay: what is written there later would be lost again. `heliostat reverse` lifts them.

        Raises
        ------
        As `heliostat.rescue.source_rest.require_rest`.
        """
        partitions = [mirror.source for mirror in self.mirrors]
        topics = {partition.topic for partition in partitions}
        target = self.config.clusters[self.link.target].access()
        fence = SourceFence(self.config, self.link, self.source, target, RESCUE).put_up(topics)
        is_closed = fence.is_closed and fence.is_whole
        require_rest(self.source, partitions, self.clock, is_fenced=is_closed)
        if is_closed:  # super users, if there are some or none is shown, may write on
            note_fenced(self.config, self.link, topics)


def _note(mirror: LostMirror, notes: dict[TopicPartition, TailNote]) -> TailNote:
    note = notes.get(mirror.source)
    return note if note is not None and note.is_about(mirror.wanted) else mirror.wanted


def promotions_of(config: Config, link: LinkConfig) -> dict[TopicName, Promotion]:
    """Return the mirrors of a link that were given away, by source topic.

    Raises
    ------
    ConnectionLost, BrokerError
        The link's wishes can't be read.
    """
    access = config.clusters[link.target].access()
    with closing(WishBook(LinkName(link.name), access)) as book:
        book.read()
        return dict(book.wishes.promotions)


def _former_mirrors(config: Config, link: LinkConfig) -> dict[TopicName, MirrorRecord]:
    """Return what the link's state has of its mirrors, of those too that were given away."""
    with closing(LinkState(link, config.clusters[link.target])) as state:
        stored = state.read()
    former = {topic: row.record for topic, row in stored.promoted.items() if row.record}
    return {**stored.mirrors, **former}


@contextmanager
def tail_desk(
    config: Config, link: LinkConfig, topics: Sequence[str] = (), by: str = ""
) -> Iterator[TailDesk]:
    """Open what a verb about tails needs: both clusters answer, and mirrors were given away.

    Parameters
    ----------
    topics
        Names at the source; none: all that were given away.
    by
        Who asks.

    Raises
    ------
    Refused
        No such mirror was given away, or one not wholly.
    ConnectionLost, BrokerError
        A cluster does not answer, or refuses.
    """
    refuse_if_merged(link, "tail")
    source, target = config.clusters[link.source], config.clusters[link.target]
    require_answer(source, target)
    promoted = _ended(link, promotions_of(config, link), topics)
    maps = read_maps(target.access(), LinkName(link.name))
    ids = view_of(link)

    def views_of(topic: TopicName) -> Views | None:
        return None if pipeline_of(link, topic) else Views(ids, ids)

    with ExitStack() as stack:
        at_source = stack.enter_context(ClusterAdmin(source.access()))
        at_target = stack.enter_context(
            ClusterAdmin(target.access(), request_timeout_ms=REQUEST_TIMEOUT_MS)
        )
        ends = {topic: promotion.ends for topic, promotion in promoted.items()}
        sides = TopicsAtBothSides(at_source, at_target, maps, views_of)
        mirrors, why_not = sides.mirrors(
            {topic: mirror_ends for topic, mirror_ends in ends.items() if mirror_ends is not None},
            _former_mirrors(config, link),
            by,
        )
        cluster = at_source.cluster_id()
        strange = {mirror_ends.source_cluster for mirror_ends in ends.values() if mirror_ends} - {
            cluster
        }
        if strange:
            raise Refused(
                f"{link.source} is the cluster {cluster}, the mirrors were of {strange.pop()}",
                hint="the source must be the one that came back",
            )
        notes = stack.enter_context(closing(TailNotes(LinkName(link.name), target.access())))
        yield TailDesk(
            config, link, by, at_source, at_target, notes, tuple(mirrors), why_not, cluster
        )


def _ended(
    link: LinkConfig, promotions: dict[TopicName, Promotion], topics: Sequence[str]
) -> dict[TopicName, Promotion]:
    wanted = [TopicName(topic) for topic in topics] or sorted(promotions)
    missing = [topic for topic in wanted if topic not in promotions]
    if missing or not wanted:
        which = ", ".join(missing) or "no mirror"
        raise Refused(
            f"{which} of link {link.name} was given away"
            if not missing
            else f"link {link.name} has given away no mirror of {which}",
            hint="a mirror has a tail once `heliostat failover` or `switch` gave it away",
        )
    open_ones = [topic for topic in wanted if promotions[topic].ends is None]
    if open_ones:
        raise Refused(
            f"{', '.join(open_ones)}: giving the mirror away was cut short",
            hint="end it first: ask for the same failover or switch again",
        )
    return {topic: promotions[topic] for topic in wanted}


def show_tail(
    config: Config, link: LinkConfig, topics: Sequence[str] = (), *, sample: int = SAMPLE
) -> TailReport:
    """Return what never crossed; changes nothing, and does not ask the source to rest.

    Raises
    ------
    As `tail_desk`.
    """
    with tail_desk(config, link, topics) as desk:
        return report_of(desk, desk.tails(sample))


def report_of(desk: TailDesk, tails: Sequence[TailPartition]) -> TailReport:
    """Return looked-at tails as they are shown."""
    rows = [TailRow.of(tail) for tail in tails]
    return TailReport(
        LinkName(desk.link.name),
        tuple(
            row
            for row in rows
            if row.records
            or row.deleted
            or row.lost_at_source
            or row.is_open
            or row.appended
            or row.refused
            or row.dropped
        ),
        desk.why_not,
        tuple(open_producers(desk.source, [mirror.source for mirror in desk.mirrors])),
        len(rows),
    )


@dataclass(frozen=True, slots=True)
class TailDropped:
    """What was, or would be, given up."""

    report: TailReport
    """As it was before."""
    is_tried: bool

    def to_json(self) -> dict[str, Any]:
        """Return the answer for `--json`."""
        return {
            "link": self.report.link,
            "dropped": self.report.records,
            "is_tried": self.is_tried,
            "rows": [row.to_json() for row in self.report.rows],
        }


def drop_tail(
    config: Config,
    link: LinkConfig,
    topics: Sequence[str] = (),
    *,
    by: str,
    why: str,
    dry_run: bool = False,
) -> TailDropped:
    """Give tails up: a row of the ledger says who, why and how many; the source keeps its records.

    Raises
    ------
    Refused
        The source does not rest, a tail can't be known, or somebody appends it.
    ConnectionLost, BrokerError
        A cluster does not answer, or refuses.
    """
    refuse_if_merged(link, "tail")
    with tail_desk(config, link, topics, by) as desk:
        if not dry_run:
            desk.require_rest()
        require_known(desk)
        tails = desk.tails(SAMPLE)
        appending = [str(tail.mirror.source) for tail in tails if tail.note.is_open]
        if appending:
            raise Refused(
                f"the tail of {', '.join(appending[:5])} is being appended, or that was cut short",
                hint="append it again: it goes on to its end; then drop what is left",
            )
        report = report_of(desk, tails)
        if not dry_run:
            record_in_ledger(desk, [deleted_row(tail, desk) for tail in tails if tail.deleted])
            _write_dropped(desk, [tail for tail in tails if tail.counts.records], why)
        return TailDropped(report, dry_run)


def require_known(desk: TailDesk) -> None:
    """Refuse where the tail of a topic can't be known.

    Raises
    ------
    Refused
        All such topics are named.
    """
    if desk.why_not:
        reasons = "; ".join(f"{topic}: {why}" for topic, why in sorted(desk.why_not.items()))
        raise Refused(
            f"not every tail can be known: {reasons}",
            hint="name the other topics with --topic",
        )


def _write_dropped(desk: TailDesk, tails: Sequence[TailPartition], why: str) -> None:
    record_in_ledger(desk, [_dropped_row(tail, desk, why) for tail in tails])  # first (I6)
    for tail in tails:
        note = tail.note
        dropped = note.dropped + tail.counts.records
        dealt = replace(note, by=desk.by, dropped=dropped, next=tail.end)
        desk.notes.write(dealt, desk.clock.wall_ms())


def record_in_ledger(desk: TailDesk, rows: Sequence[GapRow]) -> None:
    """Write rows into the link's ledger; they are durable when it returns.

    Raises
    ------
    ConnectionLost, BrokerError
        The target does not answer, or refuses.
    """
    if not rows:
        return
    name, target = LinkName(desk.link.name), desk.config.clusters[desk.link.target].access()
    with closing(GapLedger(name, target)) as ledger:
        ledger.ensure(desk.link.state.replication_factor)
        ledger.read()
        ledger.record(rows)


def _dropped_row(tail: TailPartition, desk: TailDesk, why: str) -> GapRow:
    counts = tail.counts
    assert counts.first is not None
    return replace(
        _row(tail, desk),
        first=counts.first,
        last=counts.last,
        count=counts.records,
        cause=Cause.TAIL_DROPPED,
        text=f"dropped after the failover: {why}",
    )


def deleted_row(tail: TailPartition, desk: TailDesk) -> GapRow:
    """Return the ledger's row of what the source deleted before it could be rescued."""
    return replace(
        _row(tail, desk),
        first=tail.first,
        last=Offset(tail.start - 1),
        count=None,
        cause=Cause.SOURCE_OVERTOOK,
        text="deleted at the source before its tail was rescued",
    )


def _row(tail: TailPartition, desk: TailDesk) -> GapRow:
    mirror = tail.mirror
    return GapRow(
        topic=mirror.source.topic,
        partition=mirror.source.partition,
        first=tail.first,
        last=None,
        count=None,
        cause=Cause.TAIL_DROPPED,
        at_ms=desk.clock.wall_ms(),
        choice=GapChoice.CONTINUE,
        decided_by=f"user {desk.by}",
        mirror=mirror.target.topic,
        mirror_partition=mirror.target.partition,
        source_id=mirror.wanted.source_id,
        target_id=mirror.wanted.target_id,
    )
