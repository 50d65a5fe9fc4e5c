"""One pass over a link's groups: observe → plan → apply; many a request, idle ones rarely.

I9  A published group offset never points past what has landed and never moves a live group.

Thousands of short-lived groups cost little: each pass lists the groups of both sides (one request a
broker) and fetches the offsets only of those that are in use or have something pending; unused
groups are checked once a minute.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from heliostat.clock import Clock
from heliostat.clusters.admin import ClusterAdmin
from heliostat.config import GroupsConfig
from heliostat.groups.apply import Applied, Committers, Guard, publish
from heliostat.groups.followed import Followed, FollowedGroups
from heliostat.groups.last_to_move import LastToMove
from heliostat.groups.merged_places import MergedPlaces
from heliostat.groups.naming import SAME_NAMES, GroupNaming
from heliostat.groups.observe import Mirrors, OpenMaps, Positions, observe_mirrors, observe_target
from heliostat.groups.plan import GroupDecision, plan_groups
from heliostat.groups.published import PublishedOffsets
from heliostat.groups.rereads import LISTED_MAX, rereads_report
from heliostat.groups.values import UNPUBLISHED, Reason, SourceGroups
from heliostat.names import GroupId
from heliostat.ops.events import Events


@dataclass(frozen=True, slots=True)
class SyncCounts:
    """The part of the driver's report on groups."""

    groups: int = 0
    """Selected groups at the source."""
    looked_at: int = 0
    """How many of them were checked in the last pass."""
    published: int = 0
    """Offsets committed at the target since the driver began."""
    reasons: dict[str, int] = field(default_factory=dict)
    """Numbers of groups' partitions, by reason."""
    left_alone: dict[str, str] = field(default_factory=dict)
    """Some groups that an operator may want to check, and why."""
    refused: int = 0
    """How many offsets the target keeps refusing."""
    last_turn_ms: int = 0
    """When the last pass ended, in ms since the epoch."""
    took_ms: dict[str, int] = field(default_factory=dict)
    """Durations of the steps of the last pass."""
    rereads: dict[str, object] = field(default_factory=dict)
    """What groups would read again if the source were gone now."""

    def to_json(self) -> dict[str, object]:
        """As JSON, for the report."""
        return {
            "groups": self.groups,
            "looked_at": self.looked_at,
            "published": self.published,
            "reasons": self.reasons,
            "left_alone": self.left_alone,
            "refused": self.refused,
            "last_turn_ms": self.last_turn_ms,
            "took_ms": self.took_ms,
            "rereads": self.rereads,
        }


class Steps:
    """Durations of the steps of a pass.

    Parameters
    ----------
    clock
        Source of the time.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._at_s = clock.monotonic_s()
        self.took_ms: dict[str, int] = {}

    def done(self, name: str) -> None:
        """Note that the step which began at the last call has ended."""
        now_s = self._clock.monotonic_s()
        self.took_ms[name] = round((now_s - self._at_s) * 1000)
        self._at_s = now_s


class GroupSync:
    """Keeps the offsets of a link's groups at the target up to date; one thread.

    Parameters
    ----------
    config
        Which groups, how often; without `sync`, decisions are made but nothing is committed.
    source, target
        Both clusters, over connections of their own: commits go out several at once.
    memory
        The record of what was published.
    mirrors
        Returns the link's current mirrors, by source topic.
    maps
        Reads the link's offset maps.
    positions
        Returns source offsets below which all has landed or is a hole, as far as known.
    replication_factor
        Replication factor of the state topic; None for the default.
    clock, events
        Time, and where changes are logged.
    guard
        Raises if we no longer own the link (I10).
    naming
        How groups are called at the target.
    merged
        Tells where groups of merged topics go on; None: the link merges none.
    on_decided
        Called with the decisions of each pass; others publish them in their own formats.
    """

    def __init__(
        self,
        config: GroupsConfig,
        source: ClusterAdmin,
        target: Committers,
        memory: PublishedOffsets,
        *,
        mirrors: Callable[[], Mirrors],
        maps: OpenMaps,
        positions: Positions,
        replication_factor: int | None,
        clock: Clock,
        events: Events,
        guard: Guard,
        naming: GroupNaming = SAME_NAMES,
        merged: MergedPlaces | None = None,
        on_decided: Callable[[Mapping[GroupId, GroupDecision]], None],
    ) -> None:
        self._config = config
        self._source = source
        self._committers = target
        self._memory = memory
        self._mirrors = mirrors
        self._replication_factor = replication_factor
        self._clock = clock
        self._events = events
        self._guard = guard
        self._on_decided = on_decided
        self._followed = FollowedGroups(config, memory, clock, naming)
        self._observed = partial(
            observe_target,
            source,
            target.admin,
            maps=maps,
            positions=positions,
            naming=naming,
            merged=merged,
        )
        admin = target.admin
        mirrors_of = partial(observe_mirrors, source, admin, maps=maps, positions=positions)
        self._last_to_move = LastToMove(source, admin, mirrors_of)
        self._has_read = False
        self._counts = SyncCounts()

    def report(self) -> dict[str, object]:
        """The part of the driver's report on groups; may be called from any thread."""
        return self._counts.to_json()

    @property
    def followed(self) -> Mapping[GroupId, Followed]:
        """The groups of the last pass; for the thread that runs it."""
        return self._followed.groups

    def run(self) -> None:
        """Run one pass.

        Raises
        ------
        ConnectionLost, BrokerError
            A cluster does not answer or refuses; the next pass starts again.
        LinkTakenOver
            Another instance owns the link.
        """
        steps = Steps(self._clock)
        if self._config.sync:
            self._keep_memory()
        there, here = self._source.list_groups(), self._committers.admin.list_groups()
        steps.done("list")
        self._followed.follow(there, here)
        due = self._followed.due(there)
        offsets = self._source.committed_offsets(due)
        steps.done("source offsets")
        self._followed.note(offsets)
        seen = SourceGroups(there, self._followed.alive(there, offsets))
        mirrors = self._mirrors()
        target = self._observed(seen, here, mirrors=mirrors)
        steps.done("target")
        policy = self._config.consumed_at_target
        plan = plan_groups(seen, target, self._memory.rows, policy, self._followed.naming)
        steps.done("plan")
        now_ms = self._clock.wall_ms()
        applied = Applied(groups=dict(plan.groups))
        if self._config.sync:
            applied = publish(plan, self._committers, self._memory, now_ms, self._guard)
        steps.done("commit")
        self._followed.settle(due, applied.groups)
        moving = self._followed.moving(there)
        self._counts = self._count(len(due), applied.committed, moving, steps)
        self._on_decided(applied.groups)
        if self._config.sync and any(record.is_returned for record in mirrors.values()):
            running = self._followed.running_there(there, here)
            self._last_to_move.publish(running, mirrors, self._guard)

    def _keep_memory(self) -> None:
        """Read the state topic once; recreate it if somebody deleted it."""
        was_missing = self._memory.ensure(self._committers.admin, self._replication_factor)
        if not self._has_read:
            self._memory.read()
            self._has_read = True
        elif was_missing:
            self._events.warn(
                f"{self._memory.topic} was gone at the target and is recreated from what this "
                "driver knows; check who deletes state topics"
            )

    def _count(self, looked_at: int, committed: int, moving: int, steps: Steps) -> SyncCounts:
        total: Counter[Reason] = Counter()
        left: dict[str, str] = {}
        groups = self._followed.groups
        for known in groups.values():
            total.update(known.reasons)
        named = ((group, known) for group, known in groups.items() if known.problem)
        refused_first = sorted(named, key=lambda item: not item[1].reasons.keys() & UNPUBLISHED)
        for group, known in refused_first[:LISTED_MAX]:
            left[group] = known.problem
        return SyncCounts(
            groups=len(groups),
            looked_at=looked_at,
            published=self._counts.published + committed,
            reasons={reason.name: number for reason, number in total.items()},
            left_alone=left,
            refused=sum(total[reason] for reason in UNPUBLISHED),
            last_turn_ms=self._clock.wall_ms(),
            took_ms=steps.took_ms,
            rereads=rereads_report(
                {group: known.reread for group, known in groups.items()},
                moving=moving,
                is_synced=self._config.sync,
            ),
        )
