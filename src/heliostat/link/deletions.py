"""Deletes from mirrors what their sources have deleted, where `topics.follow_deletes` wants it.

    topics/deletion_rule    in which mirrors, and why
    source_starts           by which moves of a source's log start, and up to where
    here                    looks, deletes, tells

A start that this driver finds when it begins is told, and followed with the next move that it sees:
it can't know under which settings the source got there. The same holds after a long pause.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from heliostat.clock import Clock
from heliostat.clusters.admin import EARLIEST, ClusterAdmin
from heliostat.errors import BrokerError, OffsetMapLost
from heliostat.gaps.keeper import GapKeeper
from heliostat.gaps.warn_once import WarnOnce
from heliostat.link.source_starts import MirrorStanding, WatchedStart, kept_note, what_goes
from heliostat.names import Offset, TopicName, TopicPartition, id_text
from heliostat.offsets.offset_map import MapReader
from heliostat.ops.events import Events, Subject
from heliostat.records.copier.lane import PartitionReport, PartitionSpec, PartitionState
from heliostat.topics.deletion_rule import FOLLOWED, DeletionRule
from heliostat.topics.same_topics import delete_in_same_topics, not_shown_same

Specs = Mapping[TopicPartition, PartitionSpec]
"""What lanes copy, by source partition."""
Unread = Callable[[Specs], Mapping[TopicPartition, Offset]]
"""Returns from which target offset on groups have not read, by source partition."""

PAUSE_MAX_S = 120.0
"""After a longer pause starts are found as by a new driver: settings may have been others
meanwhile. Brokers look for what has expired each 300 s."""
NOTHING = Offset(-1)
TOLD_EVERY_S = 3600.0
"""How often an event tells of a topic in which deletions are followed by default: its application
deletes all the time."""

OWED = (
    "is to lose records that the source deleted while this driver did not watch: they go when the "
    "source deletes more"
)


@dataclass(slots=True)
class _Watch:
    """What is known of one partition."""

    source_id: str
    target_id: str
    start: WatchedStart
    begins: Offset
    """The target's log start, as last seen or made."""
    upto: Offset = NOTHING
    """Source offset up to which all that can go has gone."""
    is_owed: bool | None = None
    """Whether the target has records that the source had deleted before; None: not known yet."""
    why_kept: str = ""

    def is_of(self, spec: PartitionSpec) -> bool:
        """Whether it is about topics of the same ids."""
        ids = id_text(spec.source_topic_id), id_text(spec.target_topic_id)
        return (self.source_id, self.target_id) == ids


@dataclass(slots=True)
class _Sum:
    """Deleted offsets of one topic that no event has told yet, and when the last one did."""

    offsets: int = 0
    event_s: float | None = None


class DeletionFollower:
    """Follows deletions; used by the driver's reconciliation only.

    Parameters
    ----------
    source, target
        Both clusters.
    gaps
        Knows how far was copied, and where records of others are.
    maps
        Reads the offset maps.
    unread
        Where groups are that must not lose what they have not read.
    pause_max_s
        Returns the longest pause, see `PAUSE_MAX_S`.
    clock, events
        Time, and where deletions are told.
    """

    def __init__(
        self,
        source: ClusterAdmin,
        target: ClusterAdmin,
        *,
        gaps: GapKeeper,
        maps: Callable[[], MapReader],
        unread: Unread,
        pause_max_s: Callable[[], float],
        clock: Clock,
        events: Events,
    ) -> None:
        self._source = source
        self._target = target
        self._gaps = gaps
        self._maps = maps
        self._unread = unread
        self._pause_max_s = pause_max_s
        self._clock = clock
        self._events = events
        self._warnings = WarnOnce(events)
        self._watches: dict[TopicPartition, _Watch] = {}
        self._turn_s = clock.monotonic_s()
        self._sums: dict[TopicName, _Sum] = defaultdict(_Sum)

    def turn(
        self,
        rules: Mapping[TopicName, DeletionRule],
        specs: Specs,
        reports: Callable[[], Iterable[PartitionReport]],
    ) -> tuple[str, ...]:
        """Look once, and delete what two looks have shown to be deleted; return notes.

        Parameters
        ----------
        rules
            The plan's rules of topics that follow.
        specs
            All partitions that are copied.
        reports
            Returns reports of the lanes' newest plans.

        Raises
        ------
        ConnectionLost, BrokerError
            A cluster does not answer; the next turn goes on.
        """
        wanted = {source: spec for source, spec in specs.items() if source.topic in rules}
        now_s = self._clock.monotonic_s()
        if now_s - self._turn_s > self._pause_max_s():
            self._watches.clear()
        self._turn_s = now_s
        self._watches = {
            source: watch
            for source, watch in self._watches.items()
            if source in wanted and watch.is_of(wanted[source])
        }
        if not wanted:
            return ()
        self._look(wanted)
        positions = {row.source: row for row in reports()}
        self._follow(rules, wanted, self._standings(rules, wanted, positions))
        return self._notes(wanted)

    # -- looking -------------------------------------------------------------------------------

    def _look(self, wanted: Specs) -> None:
        """Look where logs begin; a second look, and the first of all, asks every broker."""
        watches = self._watches
        sure = {p for p in wanted if p not in watches or watches[p].start.moved is not None}
        starts = _starts(self._source, sure, confirmed=True)
        starts |= _starts(self._source, wanted.keys() - sure)
        kept = {source for source, watch in watches.items() if watch.why_kept}
        new = starts.keys() - watches.keys()
        begins = _starts(self._target, [wanted[source].target for source in new | kept])
        for source, start in starts.items():
            watch, spec = watches.get(source), wanted[source]
            if watch is not None:
                watch.start = watch.start.after(start)
            elif spec.target in begins:
                ids = id_text(spec.source_topic_id), id_text(spec.target_topic_id)
                watches[source] = _Watch(*ids, WatchedStart(start), begins[spec.target])
        for source in kept:
            begin = begins.get(wanted[source].target, watches[source].begins)
            if begin != watches[source].begins:
                watches[source].begins, watches[source].upto = begin, NOTHING
        self._forget_recreated(sure)

    def _forget_recreated(self, sources: Collection[TopicPartition]) -> None:
        """Forget partitions whose topic may be another one by now: ListOffsets asks by name."""
        watches = self._watches
        ids = {p.topic: watches[p].source_id for p in sources if p in watches}
        if ids:
            others = not_shown_same(self._source.confirm_topics(ids), ids)
            for source in [source for source in watches if source.topic in others]:
                del watches[source]

    # -- deciding ------------------------------------------------------------------------------

    def _standings(
        self,
        rules: Mapping[TopicName, DeletionRule],
        wanted: Specs,
        reports: Mapping[TopicPartition, PartitionReport],
    ) -> dict[TopicPartition, MirrorStanding]:
        """Return how mirrors stand for which there is something to decide.

        Positions before maps: a map that is read later covers them (I3).
        """
        places: dict[TopicPartition, tuple[Offset, Offset, Offset]] = {}
        for source, watch in self._watches.items():
            report, goal = reports.get(source), watch.start.goal
            if report is None or not _is_sound(wanted[source], report):
                continue
            position = Offset(report.position)
            if goal is not None:
                noted = self._gaps.noted(wanted[source])
                if min(goal, position, noted) > watch.upto:
                    places[source] = goal, position, noted
            elif watch.is_owed is None:
                places[source] = watch.start.settled, position, position
        if not places:
            return {}
        try:
            maps = self._maps()
        except OffsetMapLost:
            return {}  # the keeper of maps tells it, and stops mirrors: they are not copied then
        others = self._gaps.others_before()
        by_default = {p: wanted[p] for p in places if rules[p.topic].needs_exact}
        unread = self._unread(by_default) if by_default else {}
        standings: dict[TopicPartition, MirrorStanding] = {}
        for source, place in places.items():
            spec = wanted[source]
            name = spec.target, id_text(spec.target_topic_id)
            if not maps.is_lost(*name):
                standings[source] = MirrorStanding(
                    *place,
                    offset_map=maps.of(*name),
                    begins=self._watches[source].begins,
                    others_before=max(spec.adopted_at or Offset(0), others.get(name, Offset(0))),
                    needs_exact=rules[source.topic].needs_exact,
                    unread_from=unread.get(source),
                )
        return standings

    # -- deleting ------------------------------------------------------------------------------

    def _follow(
        self,
        rules: Mapping[TopicName, DeletionRule],
        wanted: Specs,
        standings: Mapping[TopicPartition, MirrorStanding],
    ) -> None:
        """Delete what goes, and tell it."""
        verdicts = {source: what_goes(standing) for source, standing in standings.items()}
        before: dict[TopicPartition, Offset] = {}
        sources: dict[TopicPartition, TopicPartition] = {}
        for source, verdict in verdicts.items():
            watch = self._watches[source]
            watch.why_kept = verdict.why_kept
            if watch.start.goal is None:
                watch.is_owed = verdict.before is not None or not verdict.is_whole
            elif verdict.before is not None:
                before[wanted[source].target] = verdict.before
                sources[wanted[source].target] = source
            elif verdict.is_whole:
                watch.upto = standings[source].upto
        if not before:
            return
        ids = {mirror.topic: self._watches[source].target_id for mirror, source in sources.items()}
        deleted = delete_in_same_topics(self._target, before, ids)
        for mirror, answer in deleted.answers.items():
            source = sources[mirror]
            self._take(source, mirror, answer)
            if not isinstance(answer, BrokerError) and verdicts[source].is_whole:
                self._watches[source].upto = standings[source].upto
        for name in sorted(deleted.meanwhile):
            self._events.warn(
                f"{name} was recreated at the target while records were deleted as at the source: "
                "records that others wrote there may be gone as well"
            )
        self._tell(rules)

    def _take(
        self, source: TopicPartition, mirror: TopicPartition, answer: Offset | BrokerError
    ) -> None:
        watch = self._watches[source]
        if isinstance(answer, BrokerError):
            watch.why_kept = f"the target does not delete it ({answer.kafka.name})"
            self._warnings.warn(str(mirror), f"what the source has deleted stays: {answer}")
            return
        self._sums[source.topic].offsets += max(0, answer - watch.begins)
        watch.begins = answer

    # -- telling -------------------------------------------------------------------------------

    def _tell(self, rules: Mapping[TopicName, DeletionRule]) -> None:
        now_s = self._clock.monotonic_s()
        for topic, untold in sorted(self._sums.items()):
            rule = rules.get(topic)
            if rule is None or not untold.offsets:
                continue
            is_time = untold.event_s is None or now_s - untold.event_s >= TOLD_EVERY_S
            if is_time or not rule.needs_exact:
                self._events.info(
                    f"{topic}: {untold.offsets} offsets {FOLLOWED} ({rule.why})",
                    Subject(topic=topic),
                )
                self._sums[topic] = _Sum(event_s=now_s)

    def _notes(self, wanted: Specs) -> tuple[str, ...]:
        """Return what stays at the target, by topic, in words that last."""
        lines: set[str] = set()
        for source, watch in self._watches.items():
            name = wanted[source].target.topic
            if watch.why_kept:
                lines.add(kept_note(name, watch.why_kept))
            elif watch.is_owed and watch.start.goal is None:
                lines.add(f"{name} {OWED}")
        return tuple(sorted(lines))


def _starts(
    admin: ClusterAdmin, partitions: Iterable[TopicPartition], *, confirmed: bool = False
) -> dict[TopicPartition, Offset]:
    """Return log starts of partitions whose leaders answer; others are asked in the next turn."""
    asked = dict.fromkeys(partitions, EARLIEST)
    answers = admin.list_offsets(asked, confirmed=confirmed) if asked else {}
    return {p: a.offset for p, a in answers.items() if not isinstance(a, BrokerError)}


def _is_sound(spec: PartitionSpec, report: PartitionReport) -> bool:
    """Whether the mirror is known to be the link's alone now: a stopped one may be in use there."""
    is_copying = report.state is PartitionState.COPYING and report.position >= 0
    return is_copying and not (spec.truncated or spec.map_lost or spec.why_fails)
