"""What a link writes for MirrorMaker 2's clients, each part in a loop of its own.

A link does not depend on any of it: copying never waits for it, and what fails here is reported
and retried, and never halts the link.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

from heliostat.access import ClusterAccess
from heliostat.clock import Clock
from heliostat.clusters.admin import ClusterAdmin
from heliostat.clusters.byte_topic import ByteTopic
from heliostat.config import LinkConfig
from heliostat.errors import BrokerError, HeliostatError, InterchangeFailed, Verdict
from heliostat.mm2.checkpoints import Checkpoints, GroupRow
from heliostat.mm2.heartbeats import HeartbeatEmitter, HeartbeatWatch
from heliostat.mm2.offset_syncs import CopiedRange, OffsetSyncs
from heliostat.mm2.upstream_beats import UpstreamBeats, by_origin, newest_flows
from heliostat.names import TopicName, TopicPartition, id_text, is_still
from heliostat.offsets.ends_then_maps import EndsThenMaps
from heliostat.offsets.landed import NOT_REPORTED, Landed
from heliostat.offsets.log_bounds import landed_bounds
from heliostat.offsets.offset_map import MapReader
from heliostat.ops.loop_spec import LoopSpec
from heliostat.topics.naming import naming_of
from heliostat.topics.replication_policy import HEARTBEATS, policy_of
from heliostat.topics.values import MirrorRecord

CLIENT_ID = "heliostat-interchange"
WATCH_S = 0.5
"""Heartbeats are polled for so long, then as long not: their age is accurate to half a second."""
UPSTREAM_S = 5.0
CHECKPOINTS_S = 1.0
"""Interval at which new decisions of the groups' loop are written."""


class Interchange:
    """Heartbeats, checkpoints and offset syncs of one link, those that its configuration enables.

    Parameters
    ----------
    link
        Configuration of the link.
    source, target
        Admin connections to both clusters.
    source_access, target_access
        How to connect to them, to write and read records.
    mirrors
        Returns the link's current mirrors.
    maps
        Returns their current offset maps.
    landed
        Returns how far source partitions are copied, as last reported.
    clock
        Clock of the driver.
    """

    def __init__(
        self,
        link: LinkConfig,
        source: ClusterAdmin,
        target: ClusterAdmin,
        *,
        source_access: ClusterAccess,
        target_access: ClusterAccess,
        mirrors: Callable[[], Mapping[TopicName, MirrorRecord]],
        maps: Callable[[], MapReader],
        landed: Callable[[], Mapping[TopicPartition, Landed]],
        clock: Clock,
    ) -> None:
        self._link = link
        self._target = target
        self._mirrors = mirrors
        self._maps = maps
        self._landed = landed
        self._clock = clock
        self._topics: list[ByteTopic] = []
        policy, admins = policy_of(link), {"source": source, "target": target}

        def topic(side: str, name: TopicName) -> ByteTopic:
            access = source_access if side == "source" else target_access
            byte_topic = ByteTopic(access, name, CLIENT_ID)
            self._topics.append(byte_topic)
            return byte_topic

        self._emitters: dict[str, HeartbeatEmitter] = {}
        self._watch: HeartbeatWatch | None = None
        self._upstream: UpstreamBeats | None = None
        self._checkpoints: Checkpoints | None = None
        self._syncs: OffsetSyncs | None = None
        self._heartbeats_mirror = naming_of(link).target_name(HEARTBEATS)
        beats, checkpoints, syncs = link.heartbeats, link.checkpoints, link.offset_syncs
        for side, is_on in (("source", beats.emit), ("target", beats.at_target)):
            if is_on:
                names = (link.source, link.target)
                written = topic(side, HEARTBEATS)
                self._emitters[side] = HeartbeatEmitter(
                    written, admins[side], *names, beats.replication_factor
                )
        if beats.are_mirrored:
            mirror_topic = topic("target", self._heartbeats_mirror)
            self._watch = HeartbeatWatch(mirror_topic, link.source, link.target, is_ours=beats.emit)
            self._upstream = UpstreamBeats(link, partial(topic, "target"))
        if checkpoints.emit:
            written = topic("target", policy.checkpoints_topic(link.source))
            self._checkpoints = Checkpoints(written, target, checkpoints.replication_factor)
        if syncs.emit:
            other = link.target if syncs.location == "source" else link.source
            written = topic(syncs.location, policy.offset_syncs_topic(other))
            admin = admins[syncs.location]
            self._syncs = OffsetSyncs(written, admin, syncs.replication_factor)

    def parts(self) -> Iterator[LoopSpec]:
        """Yield the loops to run."""
        for side, emitter in self._emitters.items():
            name = "heartbeats" if side == "source" else "heartbeats at the target"
            turn = self._part(name, partial(self._emit, emitter))
            yield LoopSpec(name, self._link.heartbeats.interval_s, turn)
        if self._watch is not None:
            yield LoopSpec("heartbeat age", WATCH_S, self._part("the heartbeats' age", self._look))
        if self._upstream is not None:
            turn = self._part("upstream heartbeats", self._look_upstream)
            yield LoopSpec("upstream heartbeats", UPSTREAM_S, turn)
        if self._checkpoints is not None:
            yield LoopSpec(
                "checkpoints", CHECKPOINTS_S, self._part("checkpoints", self._tell_groups)
            )
        if self._syncs is not None:
            interval_s = self._link.offset_syncs.interval_s
            yield LoopSpec(
                "offset syncs", interval_s, self._part("offset syncs", self._tell_offsets)
            )

    @property
    def wants_groups(self) -> bool:
        """Whether `take_groups` does anything."""
        return self._checkpoints is not None

    def take_groups(self, rows: Iterable[GroupRow]) -> None:
        """Take decisions on groups' offsets (I9) for the next checkpoints; does no I/O."""
        if self._checkpoints is not None:
            self._checkpoints.take(rows)

    def report(self) -> dict[str, object]:
        """Return the part of the driver's report about them."""
        report: dict[str, object] = {}
        watch = self._watch
        if watch is not None:
            newest = watch.newest
            upstream = {} if self._upstream is None else self._upstream.beats()
            beats = by_origin(self._link, watch.beats)
            for key, at_ms in upstream.items():
                beats[key] = max(at_ms, beats.get(key, 0))
            further = [] if self._upstream is None else self._upstream.flows()
            report["flows"] = newest_flows(watch.beats, *further)
            report["beats"] = [[*key, at_ms] for key, at_ms in sorted(beats.items())]
            report["heartbeat"] = {
                "timestamp_ms": None if newest is None else newest.timestamp_ms,
                "delay_ms": None if newest is None else newest.delay_ms,
                "unreadable": watch.unreadable,
            }
        if self._checkpoints is not None:
            report["checkpoints"] = self._checkpoints.count
        if self._syncs is not None:
            report["offset_syncs"] = self._syncs.count
        return report

    def close(self) -> None:
        """Close the connections, after the loops have ended."""
        for topic in self._topics:
            topic.close()

    def _part(self, what: str, act: Callable[[], None]) -> Callable[[], None]:
        return lambda: _apart(what, act)

    def _emit(self, emitter: HeartbeatEmitter) -> None:
        emitter.emit(self._clock.wall_ms())

    def _tell_groups(self) -> None:
        assert self._checkpoints is not None
        self._checkpoints.write(self._clock.wall_ms())

    def _look(self) -> None:
        assert self._watch is not None
        if not self._watch.follows:
            name = self._heartbeats_mirror
            if self._target.describe_topics([name])[name].error is not None:
                return  # not mirrored yet; the topics' own loop reports trouble with that
        self._watch.look(self._clock.wall_ms, WATCH_S)

    def _look_upstream(self) -> None:
        assert self._upstream is not None
        self._upstream.look(self._mirrors(), self._clock.wall_ms)

    def _tell_offsets(self) -> None:
        assert self._syncs is not None
        self._syncs.publish(self._copied(), self._clock.wall_ms())

    def _copied(self) -> Iterator[CopiedRange]:
        """Yield what the target has of each partition."""
        records = dict(self._mirrors())
        infos = self._target.describe_topics({record.target for record in records.values()})
        sources: dict[TopicPartition, tuple[TopicPartition, str]] = {}
        for record in records.values():
            info = infos[record.target]
            if info.error is not None or not is_still(record.target_id, info.topic_id):
                continue  # gone or recreated: the topics' own loop reports it
            for mirror, number in record.own(info.partitions).items():
                source = TopicPartition(record.source, number)
                sources[mirror] = (source, id_text(record.target_id))
        landed = self._landed()
        reached = {
            mirror: landed.get(source, NOT_REPORTED).target_end
            for mirror, (source, _) in sources.items()
        }
        snapshot = EndsThenMaps(lambda: landed_bounds(self._target, reached), self._maps)
        for mirror, (source, topic_id) in sources.items():
            bounds = snapshot.ends[mirror]
            if snapshot.maps.is_lost(mirror, topic_id):
                continue  # it is stopped, and without its map its offsets can't be translated
            if not isinstance(bounds, BrokerError):
                offset_map = snapshot.maps.of(mirror, topic_id)
                yield CopiedRange(source, bounds.start, bounds.end, offset_map)


def _apart(what: str, act: Callable[[], None]) -> None:
    """Act; an error that would halt the link elsewhere only fails this part.

    Raises
    ------
    InterchangeFailed
        In place of an error that can't be retried.
    """
    try:
        act()
    except HeliostatError as error:
        if error.verdict is Verdict.RETRY:
            raise
        raise InterchangeFailed(f"{what}: {error}") from error
