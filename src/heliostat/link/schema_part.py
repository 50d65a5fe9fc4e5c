"""Schemas of a running link: mirrored before the records that need them (I8).

A turn compares both registries, brings over what is missing, and announces to the lanes which ids
can be read at the target. Lanes hold back records with other ids and report these; that asks for a
turn at once. Failures are logged and retried: the partitions concerned wait, others go on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from heliostat.access import RegistryAccess
from heliostat.clock import Clock
from heliostat.config import LinkConfig
from heliostat.framed_ids import Headers, ids_of_record, shown_id
from heliostat.link.avro_part import AvroPart
from heliostat.link.known_ids import KnownIds, known_ids
from heliostat.link.pipeline_rules import decoded_of
from heliostat.link.schema_rules import TopicLooks, frames_in, frames_of, registries_of, rules_of
from heliostat.link.topic_frames import NO_TOPICS, Frames, TopicFrames
from heliostat.link.wanted_ids import SureIds, WantedIds
from heliostat.names import LaneId, TopicName
from heliostat.ops.events import Events
from heliostat.ops.loop_spec import LoopSpec
from heliostat.records.copier.lane import NO_FRAMES, RoundReport, SchemaFrames, SchemaIds
from heliostat.schemas import HttpRegistry
from heliostat.schemas.mirroring import MirroredSchemas, mirror_schemas

WAITING_EVERY_S = 5.0
"""Pause between two turns while partitions wait: a follower of a registry may lag, or somebody may
mend what was refused."""
REPORTED_MAX = 20
"""Schemas and ids named in the driver's report, which is written each second."""
Announce = Callable[[str, SchemaIds], None]
_VALUES = SchemaFrames.VALUES


class _Sides(NamedTuple):
    source: HttpRegistry
    target: HttpRegistry
    nodes: tuple[HttpRegistry, ...]
    """The target's addresses one by one, if it has several."""


class _Turn(NamedTuple):
    done: MirroredSchemas
    known: KnownIds
    at_ms: int
    brought: int
    """Versions imported or registered by all turns so far."""


class SchemaPart:
    """The schemas of one link, while it runs.

    Parameters
    ----------
    link
        Its configuration.
    source, target
        How to reach both registries.
    mirrors
        Target topics by source topic, as they are now.
    topics
        The source's topics.
    announce
        Tells the lanes which ids can be read at the target, and for which registries that holds
        (`LaneSpec.registries`); durable when it returns.
    clock, events
        Time, and where changes are logged.
    guard
        Raises if the link is not ours any more (I10).
    told
        From which plan on each lane knows what is wanted of it.
    frames
        What an earlier driver has found out, where ids are replaced.
    reframed
        Called with what is to be remembered, and as records wait for what `frames` says now.
    avro
        Takes schemas for pipelines.
    """

    def __init__(
        self,
        link: LinkConfig,
        source: RegistryAccess,
        target: RegistryAccess,
        *,
        mirrors: Callable[[], Mapping[TopicName, TopicName]],
        topics: TopicLooks,
        announce: Announce,
        clock: Clock,
        events: Events,
        guard: Callable[[], None],
        told: Callable[[], Mapping[LaneId, int]],
        frames: Frames = NO_TOPICS,
        reframed: Callable[[Frames], None] = lambda _: None,
        avro: AvroPart | None = None,
    ) -> None:
        self._link = link
        self._avro = avro
        self.registries = registries_of(link, source, target)
        """See `LaneSpec.registries`."""
        urls = target.urls if len(target.urls) > 1 else ()
        self._sides = _Sides(
            HttpRegistry(source),
            HttpRegistry(target),
            tuple(HttpRegistry(target.at_only(url)) for url in urls),
        )
        self._mirrors = mirrors
        self._topics = topics
        self._announce = announce
        self._clock = clock
        self._events = events
        self._guard = guard
        self._wanted = WantedIds(clock.monotonic_s)
        self._frames = TopicFrames(frames, SureIds(told), reframed)
        self._due_s = 0.0
        """When the next turn is due, if nobody asks for one before (monotonic seconds)."""
        self._last: _Turn | None = None
        self._told: frozenset[str] = frozenset()

    def loop(self, guarded: Callable[[Callable[[], None]], Callable[[], None]]) -> LoopSpec:
        """Return the loop that runs the turns."""
        pause_s = min(self._link.schemas.interval_s, WAITING_EVERY_S)
        return LoopSpec("schemas", pause_s, guarded(self.turn_if_due), self._wanted.wake)

    def wants(self, report: RoundReport) -> None:
        """Take the ids that a lane's partitions wait for; what is new asks for a turn at once."""
        if self._avro is not None:
            self._avro.wants(report)  # first, as the next line wakes who looks for them
        self._wanted.take(report)
        if self._frames.sure.take(report):
            self._wanted.ask()

    def framing(self) -> object:
        """Return what `frames` goes by at the moment, for `planned`."""
        return self._frames.known

    def planned(self, framing: object) -> None:
        """Take it that lanes' plans go by that framing; ask for a turn if there are new mirrors."""
        if framing is self._frames.known:
            self._frames.sure.planned()
        last = self._last
        if self._mirrors() != ({} if last is None else last.done.rules.naming.topics):
            self._wanted.ask()

    def frames(self, topic: TopicName) -> SchemaFrames:
        """Return what of a topic's records begins with a schema id, as far as is known."""
        known = self._frames.known.get(topic, NO_FRAMES) | decoded_of(self._link, topic)
        return frames_of(self._link.schemas, topic, {topic: known})

    def is_readable(self, schema_id: int) -> bool:
        """See `MissingSchemas`."""
        return self._last is not None and schema_id in self._last.known.readable

    def missing_id(
        self, topic: TopicName, key: bytes | None, value: bytes | None, headers: Headers
    ) -> int | None:
        """See `MissingSchemas`."""
        frames = self.frames(topic)
        if self._last is None or not frames:
            return None
        readable, at_source, _ = self._last.known
        of_key, of_value, in_headers = ids_of_record(key, value, headers)
        is_unclear, is_replaced = _VALUES not in frames, SchemaFrames.REPLACED in frames
        sure: list[int | None] = [*in_headers, of_key if SchemaFrames.KEYS in frames else None]
        for each in sure:
            is_foreign = is_unclear and not is_replaced and each not in at_source
            if each is not None and each not in readable and not is_foreign:
                return each
        if of_value is None or not frames & (_VALUES | SchemaFrames.MAYBE_VALUES):
            return None
        if not is_unclear:
            return None if of_value in readable else of_value
        passes = of_value in readable and not is_replaced
        return None if of_value not in at_source or passes else of_value

    def turn_if_due(self) -> None:
        """Compare both registries if it is time, if somebody has asked, or if partitions wait."""
        if self._wanted.asks() or self._clock.monotonic_s() >= self._due_s:
            self.turn()

    def turn(self) -> None:
        """Compare both registries once.

        Raises
        ------
        RegistryError, RegistryUnreachable, RegistryAnswerInvalid
            It failed; ids that could be read before count as such, and the next turn starts over.
        ConnectionLost, BrokerError
            The lanes can't be told, or the source's topics not be looked at.
        LinkTakenOver
            Another instance owns the link.
        """
        wanted = self._wanted.ever()  # before the source is looked at
        mirrors, source_topics = self._mirrors(), self._topics.known()
        if source_topics is None:
            return  # a reconciliation asks for a turn
        done = mirror_schemas(
            self._sides.source,
            self._sides.target,
            rules_of(self._link, mirrors, source_topics, self._topics.among),
            nodes=self._sides.nodes,
            guard=self._guard,
        )
        frames = frames_in(done.source, mirrors)
        known = known_ids(done, wanted, self._frames.sure_ids(frames))
        # Each time: somebody may have deleted the announcement.
        self._announce(self.registries, known.announced)
        self._frames.take(frames)
        notes: list[str] = []
        if self._avro is not None:
            sides = self._sides
            notes = self._avro.turn(done.source, mirrors, sides.target, sides.nodes, self._guard)
        done = replace(done, notes=(*done.notes, *notes))
        before = 0 if self._last is None else self._last.brought
        self._last = _Turn(done, known, self._clock.wall_ms(), before + done.brought)
        self._due_s = self._clock.monotonic_s() + self._link.schemas.interval_s
        self._tell(done)

    def _tell(self, done: MirroredSchemas) -> None:
        """Log what was done, and what has newly failed."""
        if done.actions:
            self._events.info(f"schemas: {done.actions} actions at the target's registry")
        missing = (
            f"schema not mirrored: {of.subject} version {of.version}: {why}"
            for of, why in done.unresolved.items()
        )
        troubles = frozenset([*missing, *(f"schemas: {each}" for each in done.notes)])
        for each in sorted(troubles - self._told)[:REPORTED_MAX]:
            self._events.warn(each)
        self._told = troubles

    def report(self) -> dict[str, Any]:
        """Return the schemas' part of the driver's report."""
        waiting = [
            each if each >= 0 else shown_id(each) for each in self._wanted.now()[:REPORTED_MAX]
        ]
        own = {
            "strategy": self._link.schemas.strategy,
            "waiting": waiting,
            "waits": self._wanted.waits(),
            "copied": 0 if self._last is None else self._last.brought,
        }
        if self._last is None:
            return own
        last = self._last.done
        missing = sorted(last.unresolved.items(), key=lambda item: item[0])
        return {
            **own,
            "at_ms": self._last.at_ms,
            "versions": len(last.source.versions),
            "ids": len(last.ids),
            "unresolved": {
                f"{of.subject} version {of.version}": why for of, why in missing[:REPORTED_MAX]
            },
            "unresolved_count": len(missing),
            "notes": list(last.notes[:REPORTED_MAX]),
        }

    def close(self) -> None:
        """Close the connections; call it when the loop has ended."""
        for each in (self._sides.source, self._sides.target, *self._sides.nodes):
            each.close()
