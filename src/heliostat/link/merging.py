"""The driver's side of merged topics: whose producer ids are known, and what the link has appended.

    begin    the link's ids are in their rows before anything is appended; the source's rows are
             there, and noted
    look     each turn: whether the source's rows are still those that were noted
    turn     each turn: what lanes report of the own ends becomes notes
    lane     what a round is told
    finish   notes of partitions of which nothing is under way are closed, until the next begin

A round goes by any note: what has landed since, its look at the target shows (`own_ends`). A closed
one says that nothing has: it is opened before any round begins, and told to the first one alone.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from heliostat.clusters.admin import ClusterAdmin
from heliostat.clusters.producer_rows import ProducerRows, ProducersTopic
from heliostat.errors import BrokerError, ConnectionLost, Refused, StateIncomplete
from heliostat.link.link_context import LinkContext
from heliostat.merge.own_end import OwnNote
from heliostat.merge.producers import lost_rows
from heliostat.names import (
    LinkName,
    Offset,
    ProducerId,
    TopicName,
    TopicPartition,
    id_text,
)
from heliostat.records.copier.lane import (
    PartitionCode,
    PartitionReport,
    PartitionSpec,
    RoundReport,
)
from heliostat.records.copier.merged_lane import MergedLane
from heliostat.state.merged_notes import MergedNotes, OwnNotes

WRITE_EVERY_S = 30.0
ROWS_KNOWN_WITHIN_S = 15.0
"""Brokers learn of a new topic some time after the controller has made it."""
LOOK_AGAIN_S = 0.1
LOST_HINT = "see docs/merge.md: nothing is copied on until the topic was merged anew"


def rows_may_be_lost(link: LinkName, why: str) -> Refused:
    """Return why nothing is rebuilt where rows of producer ids at the source may be gone."""
    return Refused(
        f"link {link}: rows of links' producer ids at the source may be gone ({why}), so what "
        "links brought there can't be told",
        hint=LOST_HINT,
    )


class Merging:
    """What one link of merged topics knows besides.

    Parameters
    ----------
    context
        What all parts of the link share.
    source, target
        Both clusters.
    """

    def __init__(self, context: LinkContext, source: ClusterAdmin, target: ClusterAdmin) -> None:
        self._context = context
        self._link = LinkName(context.link.name)
        self._at_source = ProducerRows(context.source.access(), source)
        self._at_target = ProducerRows(context.state.clusters, target)
        self._notes = MergedNotes(context.state.clusters, self._link)
        self._lock = threading.Lock()
        """Guards `_own`, which rounds that begin are told from another thread."""
        self._own: dict[TopicName, OwnNotes] = {}
        self._closed: dict[TopicPartition, tuple[str, OwnNote]] = {}
        """By source partition: the target topic's id, and what no round has been told yet."""
        self._moved: set[TopicName] = set()
        self._unproven: frozenset[TopicName] = frozenset()
        self._written_at_s = -1e9
        self._seen: ProducersTopic | None = None
        self._lost = ""

    def close(self) -> None:
        """Close the connections."""
        self._at_source.close()
        self._at_target.close()
        self._notes.close()

    def begin(self, producer_ids: Iterable[ProducerId]) -> None:
        """Write rows of the link's own ids, and read what is noted.

        Parameters
        ----------
        producer_ids
            All ids that the link's state has.

        Raises
        ------
        StateIncomplete
            The link has appended under an id that its state does not have.
        ConnectionLost, BrokerError
            A cluster does not answer or refuses, or the source's rows can't be seen yet.
        """
        replicas, ids = self._context.link.state.replication_factor, set(producer_ids)
        self._notes.put_format()
        self._at_target.ensure(replicas)
        rows = self._at_target.read()
        ours = {number for number, link in rows.items() if link == self._link}
        if left := ours - ids:
            raise StateIncomplete(
                f"link {self._link} has appended to merged topics under producer ids that its "
                "state does not have: its records can't be told from others', and it would append "
                "them again",
                hint=f"`heliostat state rebuild {self._link}` rebuilds it of what both sites hold",
                ids=sorted(left),
            )
        self._at_target.put(self._link, ids - ours)
        self._at_source.ensure(replicas)
        stored = self._notes.read()
        self._own, self._seen = dict(stored.own), stored.seen
        self._unproven = stored.unproven
        self._open()
        self._look_until_known()

    def _look_until_known(self) -> None:
        """Look until a broker tells of the source's rows: no round may begin without them."""
        clock = self._context.clock
        until_s = clock.monotonic_s() + ROWS_KNOWN_WITHIN_S
        self.look()
        while self._seen is None:
            if clock.monotonic_s() >= until_s:
                raise ConnectionLost("no broker of the source knows its topic of producer ids yet")
            clock.sleep(LOOK_AGAIN_S)
            self.look()

    def _open(self) -> None:
        """Open closed notes: from now on rounds may append."""
        opened: dict[TopicName, OwnNotes] = {}
        for name, notes in self._own.items():
            closed = {n: note for n, note in notes.partitions.items() if note.is_closed}
            for number, note in closed.items():
                self._closed[TopicPartition(name, number)] = notes.target_id, note
            if closed:
                rows = {n: note._replace(is_closed=False) for n, note in closed.items()}
                opened[name] = OwnNotes(notes.target_id, {**notes.partitions, **rows})
        self._notes.put_own(opened)
        self._own |= opened

    def look(self) -> None:
        """See whether the source's rows are those that were noted; note how far they go now.

        Raises
        ------
        ConnectionLost, BrokerError
            The source does not answer, or the state can't be written.
        """
        now = self._at_source.look()
        lost = "" if self._seen is None else lost_rows(self._seen, now)
        if lost and lost != self._lost:
            self._context.events.warn(f"{lost}: merged partitions are stopped ({LOST_HINT})")
        self._lost = lost
        if not lost and now is not None and now != self._seen:
            self._notes.put_seen(now)
            self._seen = now

    def marked(
        self, specs: Mapping[TopicPartition, PartitionSpec]
    ) -> Mapping[TopicPartition, PartitionSpec]:
        """Return the specs, all stopped if rows of producer ids may be gone."""
        if not self._lost:
            return specs
        why = f"{self._lost} (hint: {LOST_HINT})"
        code = PartitionCode.PRODUCERS_LOST
        return {
            name: replace(spec, fails_at=-1, fail_code=code, why_fails=why)
            for name, spec in specs.items()
        }

    def lane(self, specs: Sequence[PartitionSpec]) -> MergedLane:
        """Return what a round with these partitions is told; from any thread."""
        assert self._seen is not None, "a round before the source's rows are known"
        found = ((index, self._note_of(spec)) for index, spec in enumerate(specs))
        told = tuple((index, note) for index, note in found if note is not None)
        return MergedLane(*self._seen, told)

    def _note_of(self, spec: PartitionSpec) -> OwnNote | None:
        target_id = id_text(spec.target_topic_id)
        with self._lock:
            closed = self._closed.pop(spec.source, None)
            notes = self._own.get(spec.source.topic)
        if closed is not None and closed[0] == target_id:
            return closed[1]
        if notes is None or notes.target_id != target_id:
            return None
        return notes.partitions.get(spec.source.partition)

    def round_ended(
        self, specs: Mapping[TopicPartition, PartitionSpec], report: RoundReport
    ) -> None:
        """Take what a round has left at rest; from any thread."""
        with self._lock:
            for source, note in report.closed:
                if (spec := specs.get(source)) is not None:
                    self._closed[source] = id_text(spec.target_topic_id), note

    def turn(
        self,
        reports: Iterable[PartitionReport],
        specs: Mapping[TopicPartition, PartitionSpec],
    ) -> None:
        """Take what lanes report of the own ends; make it durable now and then.

        Parameters
        ----------
        reports
            Last report of each partition.
        specs
            What lanes copy.
        """
        for report in reports:
            spec = specs.get(report.source)
            if report.own is not None and spec is not None:
                self._take(report.source, id_text(spec.target_topic_id), report.own)
        now_s = self._context.clock.monotonic_s()
        if now_s >= self._written_at_s + WRITE_EVERY_S:
            self._written_at_s = now_s
            self._write()

    def _write(self) -> None:
        self._notes.put_own({name: self._own[name] for name in sorted(self._moved)})
        self._moved.clear()

    def finish(self) -> None:
        """Close the notes of what rounds have left at rest: none runs, and none is given out.

        Raises
        ------
        ConnectionLost, BrokerError
            The state can't be written.
        """
        with self._lock:
            closed, self._closed = self._closed, {}
        for source, (target_id, note) in closed.items():
            self._take(source, target_id, note)
        self._write()

    def _take(self, source: TopicPartition, target_id: str, note: OwnNote) -> None:
        name, number = source.topic, source.partition
        was = self._own.get(name)
        rows = dict(was.partitions) if was is not None and was.target_id == target_id else {}
        if rows.get(number) != note:
            rows[number] = note
            with self._lock:
                self._own[name] = OwnNotes(target_id, rows)
            self._moved.add(name)

    def restore(self) -> None:
        """Write all notes again, into a state topic that was gone."""
        if self._seen is not None:
            self._notes.put_seen(self._seen)
        self._notes.put_own(self._own)
        self._notes.put_unproven(self._unproven)


def ends_at_begin(
    target: ClusterAdmin, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, Offset]:
    """Return where the target's logs end now; partitions without a leader are missing.

    Raises
    ------
    ConnectionLost
        The target does not answer.
    """
    ends = target.list_log_ends(list(partitions), confirmed=True)
    return {each: end for each, end in ends.items() if not isinstance(end, BrokerError)}
