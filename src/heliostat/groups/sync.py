"""One turn of a link's groups: observe → plan → apply, many groups a request, idle ones rarely.

I9  A published group offset never points past what has landed and never moves a live group.

Thousands of groups that live for minutes cost little: each turn lists the groups of both sides (one
request a broker) and asks for the offsets of those only that are in use or have something pending;
a group that nobody uses is looked at once a minute.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from heliostat.clock import Clock
from heliostat.clusters.admin import ClusterAdmin
from heliostat.config import GroupsConfig
from heliostat.groups.apply import Applied, Committers, Guard, publish
from heliostat.groups.followed import FollowedGroups
from heliostat.groups.observe import Maps, Mirrors, Positions, observe_target
from heliostat.groups.plan import GroupDecision, plan_groups
from heliostat.groups.published import PublishedOffsets
from heliostat.groups.values import Reason, SourceGroups
from heliostat.names import GroupId
from heliostat.ops.events import Events

LISTED_MAX = 20
"""Groups named in the driver's report; it is written each second."""


@dataclass(frozen=True, slots=True)
class SyncCounts:
    """What the driver's report says of groups."""

    groups: int = 0
    """Selected ones at the source."""
    looked_at: int = 0
    """Of these, in the last turn."""
    published: int = 0
    """Offsets committed at the target since the driver began."""
    reasons: dict[str, int] = field(default_factory=dict)
    """Partitions of groups by reason."""
    left_alone: dict[str, str] = field(default_factory=dict)
    """Some groups that an operator may want to look at, and why."""
    last_turn_ms: int = 0
    """When the last turn ended, in ms since the epoch."""
    took_ms: dict[str, int] = field(default_factory=dict)
    """What the steps of the last turn took."""

    def to_json(self) -> dict[str, object]:
        """As JSON, for the report."""
        return {
            "groups": self.groups,
            "looked_at": self.looked_at,
            "published": self.published,
            "reasons": self.reasons,
            "left_alone": self.left_alone,
            "last_turn_ms": self.last_turn_ms,
            "took_ms": self.took_ms,
        }


class Steps:
    """How long the steps of a turn take.

    Parameters
    ----------
    clock
        Time.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._at_s = clock.monotonic_s()
        self.took_ms: dict[str, int] = {}

    def done(self, name: str) -> None:
        """The step that began with the last call has ended."""
        now_s = self._clock.monotonic_s()
        self.took_ms[name] = round((now_s - self._at_s) * 1000)
        self._at_s = now_s


class GroupSync:
    """Keeps the offsets of a link's groups at the target; one thread.

    Parameters
    ----------
    config
        Which groups, how often; without `sync` all is decided and nothing committed.
    source, target
        Both clusters, over connections of their own: commits go out several at once.
    memory
        What was published.
    mirrors
        The link's mirrors now, by source topic.
    maps
        Reads the link's offset maps.
    positions
        Source offsets below which all has landed or is a hole, as far as it is known.
    replication_factor
        Of the state topic; None: as many as is usual.
    clock, events
        Time, and where changes are told.
    guard
        Raises if the link is not ours any more (I10).
    on_decided
        Given what was decided in each turn; others have formats of their own for it.
    """

    def __init__(
        self,
        config: GroupsConfig,
        source: ClusterAdmin,
        target: Committers,
        memory: PublishedOffsets,
        *,
        mirrors: Callable[[], Mirrors],
        maps: Maps,
        positions: Positions,
        replication_factor: int | None,
        clock: Clock,
        events: Events,
        guard: Guard,
        on_decided: Callable[[Mapping[GroupId, GroupDecision]], None],
    ) -> None:
        self._config = config
        self._source = source
        self._committers = target
        self._memory = memory
        self._mirrors = mirrors
        self._maps = maps
        self._positions = positions
        self._replication_factor = replication_factor
        self._clock = clock
        self._events = events
        self._guard = guard
        self._on_decided = on_decided
        self._followed = FollowedGroups(config, memory, clock)
        self._has_read = False
        self._counts = SyncCounts()

    def report(self) -> dict[str, object]:
        """What the driver's report says of groups; from any thread."""
        return self._counts.to_json()

    def run(self) -> None:
        """One turn.

        Raises
        ------
        ConnectionLost, BrokerError
            A cluster does not answer or refuses; the next turn begins afresh.
        LinkTakenOver
            The link is another's.
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
        target = observe_target(
            self._source,
            self._committers.admin,
            seen,
            here,
            mirrors=self._mirrors(),
            maps=self._maps,
            positions=self._positions,
        )
        steps.done("target")
        plan = plan_groups(seen, target, self._memory.rows, self._config.consumed_at_target)
        steps.done("plan")
        now_ms = self._clock.wall_ms()
        applied = Applied(groups=dict(plan.groups))
        if self._config.sync:
            applied = publish(plan, self._committers, self._memory, now_ms, self._guard)
        steps.done("commit")
        self._followed.settle(due, applied.groups)
        self._counts = self._count(len(due), applied.committed, steps)
        self._on_decided(applied.groups)

    def _keep_memory(self) -> None:
        """Read the state topic once; make it anew where somebody deleted it."""
        was_missing = self._memory.ensure(self._committers.admin, self._replication_factor)
        if not self._has_read:
            self._memory.read()
            self._has_read = True
        elif was_missing:
            self._events.warn(
                f"{self._memory.topic} was gone at the target and is made anew from what this "
                "driver knows; see who deletes state topics"
            )

    def _count(self, looked_at: int, committed: int, steps: Steps) -> SyncCounts:
        total: Counter[Reason] = Counter()
        left: dict[str, str] = {}
        groups = self._followed.groups
        for group, known in groups.items():
            total.update(known.reasons)
            if known.problem and len(left) < LISTED_MAX:
                left[group] = known.problem
        return SyncCounts(
            groups=len(groups),
            looked_at=looked_at,
            published=self._counts.published + committed,
            reasons={reason.name: number for reason, number in total.items()},
            left_alone=left,
            last_turn_ms=self._clock.wall_ms(),
            took_ms=steps.took_ms,
        )
