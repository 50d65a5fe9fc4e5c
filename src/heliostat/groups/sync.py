"""One turn of a link's groups: observe → plan → apply, many groups a request, idle ones rarely.

I9  A published group offset never points past what has landed and never moves a live group.

Thousands of groups that live for minutes cost little: each turn lists the groups of both sides (one
request a broker) and asks for the offsets of those only that are in use or have something pending;
a group that nobody uses is looked at once a minute.
"""

from __future__ import annotations

import threading
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from heliostat.clock import Clock
from heliostat.clusters.admin import ClusterAdmin, GroupListing, ListedGroup
from heliostat.config import GroupsConfig
from heliostat.errors import BrokerError
from heliostat.groups.apply import Applied, Committers, Guard, publish
from heliostat.groups.observe import Maps, Mirrors, Positions, observe_target
from heliostat.groups.plan import GroupDecision, plan_groups
from heliostat.groups.published import PublishedOffsets
from heliostat.groups.select import Choice, compile_selection
from heliostat.groups.values import Decision, FetchedOffsets, Reason, SourceGroups
from heliostat.names import GroupId
from heliostat.ops.events import Events

CHOICES_MAX = 100_000
"""Decisions by name that are kept; groups with random names come and go."""
IDLE_AFTER_S = 30.0
"""A group without members whose offsets stayed so long is looked at rarely."""
IDLE_LOOK_S = 60.0
"""How rarely, at most; looks are spread over the second half of it."""
TOLD_MAX = 20
"""Groups named in the driver's report; it is written each second."""
_OPEN = frozenset(
    {
        Reason.PUBLISH,
        Reason.RESET,
        Reason.NOT_LANDED,
        Reason.ACTIVE_AT_TARGET,
        Reason.NOT_TOLD,
        Reason.REFUSED,
    }
)
"""What changes without a change at the source: looked at in each turn."""
_LEFT = (
    Reason.MOVED_AT_TARGET,
    Reason.REWOUND_AT_TARGET,
    Reason.TARGET_SHORTER,
    Reason.REFUSED,
    Reason.NOT_TOLD,
)
"""What an operator may want to look at."""


@dataclass(slots=True)
class Followed:
    """A group between turns; times by the monotonic clock but for `alive_ms`."""

    alive_ms: int
    """When it was last seen with members or new offsets; 0: never."""
    changed_s: float
    offsets: FetchedOffsets | None = None
    looked_s: float = 0.0
    is_open: bool = True
    reasons: Counter[Reason] = field(default_factory=Counter)
    problem: str = ""


@dataclass(slots=True)
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
    also_tell
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
        also_tell: Callable[[Mapping[GroupId, GroupDecision]], None],
    ) -> None:
        self._config = config
        self._source = source
        self._committers = target
        self._target = target.admin
        self._memory = memory
        self._mirrors = mirrors
        self._maps = maps
        self._positions = positions
        self._replication_factor = replication_factor
        self._clock = clock
        self._events = events
        self._guard = guard
        self._also_tell = also_tell
        self._selection = compile_selection(config)
        self._choices: dict[tuple[str, str, str], Choice] = {}
        self._followed: dict[GroupId, Followed] = {}
        self._has_read = False
        self._lock = threading.Lock()
        self._counts = SyncCounts()

    def report(self) -> dict[str, object]:
        """What the driver's report says of groups; from any thread."""
        with self._lock:
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
        there, here = self._source.list_groups(), self._target.list_groups()
        steps.done("list")
        self._follow(there, here)
        due = [group for group, each in self._followed.items() if self._is_due(there, group, each)]
        offsets = self._source.committed_offsets(due)
        steps.done("source offsets")
        self._note(offsets)
        alive = {group: rows for group, rows in offsets.items() if self._is_alive(there, group)}
        seen = SourceGroups(there, alive)
        target = observe_target(
            self._source,
            self._target,
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
        self._settle(due, applied.groups)
        self._tell(len(due), applied.committed, steps)
        self._also_tell(applied.groups)

    def _keep_memory(self) -> None:
        """Read the state topic once; make it anew where somebody deleted it."""
        was_missing = self._memory.ensure(self._target, self._replication_factor)
        if not self._has_read:
            self._memory.read()
            self._has_read = True
        elif was_missing:
            self._events.warn(
                f"{self._memory.topic} was gone at the target and is made anew from what this "
                "driver knows; see who deletes state topics"
            )

    def _follow(self, there: GroupListing, here: GroupListing) -> None:
        """Take up new groups, let go of those that are gone; what was published for them stays."""
        now_ms, now_s = self._clock.wall_ms(), self._clock.monotonic_s()
        for group, listed in there.groups.items():
            known = self._followed.get(group)
            if known is None and self._choice(listed).skip is None:
                row = self._memory.rows.get(group)
                alive_ms = now_ms if "empty" in self._config.states else row.at_ms if row else 0
                known = self._followed[group] = Followed(alive_ms, changed_s=now_s)
            if known is not None and listed.has_members:
                known.alive_ms = now_ms
        if there.failed:
            return
        for group in self._followed.keys() - there.groups.keys():
            del self._followed[group]
        if not here.failed:
            self._memory.forget(self._memory.rows.keys() - there.groups.keys() - here.groups.keys())

    def _choice(self, listed: ListedGroup) -> Choice:
        key = (listed.group, listed.kind, listed.protocol)
        choice = self._choices.get(key)
        if choice is None:
            if len(self._choices) > CHOICES_MAX:
                self._choices.clear()
            choice = self._choices[key] = self._selection.choose(listed)
        return choice

    def _is_due(self, there: GroupListing, group: GroupId, known: Followed) -> bool:
        listed = there.groups.get(group)
        if listed is None:
            return False  # its broker does not tell now
        now_s = self._clock.monotonic_s()
        if known.offsets is None or listed.has_members or known.is_open:
            return True
        if now_s - known.changed_s < IDLE_AFTER_S:
            return True
        spread = zlib.crc32(group.encode()) / 2**32
        return now_s - known.looked_s >= IDLE_LOOK_S * (1 + spread) / 2

    def _note(self, offsets: Mapping[GroupId, FetchedOffsets | BrokerError]) -> None:
        """Remember what the source told, and which groups have moved."""
        now_ms, now_s = self._clock.wall_ms(), self._clock.monotonic_s()
        for group, rows in offsets.items():
            known = self._followed[group]
            known.looked_s = now_s
            if isinstance(rows, BrokerError):
                continue
            if known.offsets is not None and rows != known.offsets:
                known.changed_s, known.alive_ms = now_s, now_ms
            known.offsets = rows

    def _is_alive(self, there: GroupListing, group: GroupId) -> bool:
        alive_ms, within_s = self._followed[group].alive_ms, self._config.active_within_s
        if there.groups[group].has_members:
            return True
        if alive_ms == 0 or within_s is None:
            return alive_ms > 0
        return self._clock.wall_ms() - alive_ms <= within_s * 1000

    def _settle(self, due: Iterable[GroupId], decided: Mapping[GroupId, GroupDecision]) -> None:
        for group in due:
            known, found = self._followed[group], decided.get(group)
            rows = () if found is None else found.partitions
            known.reasons = Counter(row.reason for row in rows)
            known.problem = "" if found is None else found.problem or _problem(rows)
            known.is_open = found is not None and bool(
                found.problem or known.reasons.keys() & _OPEN
            )

    def _tell(self, looked_at: int, committed: int, steps: Steps) -> None:
        total: Counter[Reason] = Counter()
        left: dict[str, str] = {}
        for group, known in self._followed.items():
            total.update(known.reasons)
            if known.problem and len(left) < TOLD_MAX:
                left[group] = known.problem
        with self._lock:
            self._counts = SyncCounts(
                groups=len(self._followed),
                looked_at=looked_at,
                published=self._counts.published + committed,
                reasons={reason.name: number for reason, number in total.items()},
                left_alone=left,
                last_turn_ms=self._clock.wall_ms(),
                took_ms=steps.took_ms,
            )


def _problem(rows: Iterable[Decision]) -> str:
    """The first of a group's partitions that was left alone, in words."""
    return next((f"{row.source}: {row.why}" for row in rows if row.reason in _LEFT), "")
