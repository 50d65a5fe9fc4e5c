"""Which groups of the source are followed, and which of them are due in a pass; no I/O.

A group that nobody uses, and for which nothing is pending, is checked once a minute.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from heliostat.clock import Clock
from heliostat.clusters.admin import GroupListing, ListedGroup
from heliostat.config import GroupsConfig
from heliostat.errors import BrokerError
from heliostat.groups.naming import SAME_NAMES, GroupNaming
from heliostat.groups.plan import GroupDecision
from heliostat.groups.published import PublishedOffsets
from heliostat.groups.rereads import NOT_KNOWN, NOTHING, Reread, reread_of
from heliostat.groups.select import GroupChoice, compile_selection
from heliostat.groups.values import UNPUBLISHED, CommitDecision, FetchedOffsets, Reason
from heliostat.names import GroupId

CHOICES_MAX = 100_000
"""How many decisions by name are cached; groups with random names come and go."""
IDLE_AFTER_S = 30.0
"""A group without members whose offsets have not changed for this long is checked rarely."""
IDLE_LOOK_S = 60.0
"""The longest interval of such checks; they are spread over its second half."""
_OPEN = frozenset(
    {
        Reason.PUBLISH,
        Reason.RESET,
        Reason.NOT_LANDED,
        Reason.ACTIVE_AT_TARGET,
        Reason.NOT_TOLD,
        *UNPUBLISHED,
    }
)
"""What may change without a change at the source: checked in each pass."""
_LEFT = (
    Reason.MOVED_AT_TARGET,
    Reason.REWOUND_AT_TARGET,
    Reason.TARGET_SHORTER,
    *UNPUBLISHED,
    Reason.NOT_TOLD,
)
"""What an operator may want to check."""


@dataclass(slots=True)
class Followed:
    """A group between passes; times by the monotonic clock except `alive_ms`."""

    alive_ms: int
    """When it was last seen with members or new offsets, in ms since the epoch; 0 for never."""
    changed_s: float
    offsets: FetchedOffsets | None = None
    looked_s: float = 0.0
    is_open: bool = True
    reasons: Counter[Reason] = field(default_factory=Counter)
    problem: str = ""
    reread: Reread = NOT_KNOWN
    """What it would read again, as of the last pass that looked at it; nothing, once it is no
    longer followed."""


class FollowedGroups:
    """The selected groups of one link, kept between passes; one thread.

    Parameters
    ----------
    config
        Which groups are selected.
    memory
        The record of what was published.
    clock
        Time.
    naming
        How groups are called at the target.
    """

    def __init__(
        self,
        config: GroupsConfig,
        memory: PublishedOffsets,
        clock: Clock,
        naming: GroupNaming = SAME_NAMES,
    ) -> None:
        self.groups: dict[GroupId, Followed] = {}
        self._ran_there: dict[GroupId, GroupId] = {}
        """What `running_there` has returned last, without those that had left by then."""
        self._config = config
        self._memory = memory
        self.naming = naming
        self._clock = clock
        self._selection = compile_selection(config)
        self._choices: dict[tuple[str, str, str], GroupChoice] = {}

    def follow(self, there: GroupListing, here: GroupListing) -> None:
        """Add new groups and drop those that are gone at the source.

        Rows of published offsets stay until the group is gone at both sides.
        """
        now_ms, now_s = self._clock.wall_ms(), self._clock.monotonic_s()
        for group, listed in there.groups.items():
            known = self.groups.get(group)
            if known is None and self._choice(listed).skip is None:
                row = self._memory.rows.get(self.naming.target_name(group))
                alive_ms = now_ms if "empty" in self._config.states else row.at_ms if row else 0
                known = self.groups[group] = Followed(alive_ms, changed_s=now_s)
            if known is not None and listed.has_members:
                known.alive_ms = now_ms
        if there.failed:
            return
        for group in self.groups.keys() - there.groups.keys():
            del self.groups[group]
        if not here.failed:
            names = {self.naming.target_name(group) for group in there.groups}
            self._memory.forget(self._memory.rows.keys() - names - here.groups.keys())

    def running_there(self, there: GroupListing, here: GroupListing) -> Mapping[GroupId, GroupId]:
        """Return selected groups with members at the target and none at the source.

        Once more after the last member has left: it may have committed as it did.

        Returns
        -------
        Their names at the target, by those at the source. None that a broker of the source, which
        does not answer, may have.
        """
        running: dict[GroupId, GroupId] = {}
        for name, listed in here.groups.items():
            group = self.naming.source_name(name)
            if group is None or not listed.has_members:
                continue
            at_source = there.groups.get(group)
            moved = there.failed if at_source is None else at_source.has_members
            if not moved and self._choice(replace(listed, group=group)).skip is None:
                running[group] = name
        before, self._ran_there = self._ran_there, running
        return before | running

    def _choice(self, listed: ListedGroup) -> GroupChoice:
        key = (listed.group, listed.kind, listed.protocol)
        choice = self._choices.get(key)
        if choice is None:
            if len(self._choices) > CHOICES_MAX:
                self._choices.clear()
            choice = self._choices[key] = self._selection.choose(listed)
        return choice

    def due(self, there: GroupListing) -> list[GroupId]:
        """Listed groups whose offsets are to be requested in this pass."""
        return [group for group, each in self.groups.items() if self._is_due(there, group, each)]

    def _is_due(self, there: GroupListing, group: GroupId, known: Followed) -> bool:
        listed = there.groups.get(group)
        if listed is None:
            return False  # its broker does not list it now
        now_s = self._clock.monotonic_s()
        if known.offsets is None or listed.has_members or known.is_open:
            return True
        if now_s - known.changed_s < IDLE_AFTER_S:
            return True
        spread = zlib.crc32(group.encode()) / 2**32
        return now_s - known.looked_s >= IDLE_LOOK_S * (1 + spread) / 2

    def note(self, offsets: Mapping[GroupId, FetchedOffsets | BrokerError]) -> None:
        """Note the source's offsets, and which groups have moved."""
        now_ms, now_s = self._clock.wall_ms(), self._clock.monotonic_s()
        for group, rows in offsets.items():
            known = self.groups[group]
            known.looked_s = now_s
            if isinstance(rows, BrokerError):
                continue
            if known.offsets is not None and rows != known.offsets:
                known.changed_s, known.alive_ms = now_s, now_ms
            known.offsets = rows

    def alive(
        self, there: GroupListing, offsets: Mapping[GroupId, FetchedOffsets | BrokerError]
    ) -> dict[GroupId, FetchedOffsets | BrokerError]:
        """Groups that are in use, or were recently (`groups.active_within_s`)."""
        return {group: rows for group, rows in offsets.items() if self._is_alive(there, group)}

    def _is_alive(self, there: GroupListing, group: GroupId) -> bool:
        alive_ms, within_s = self.groups[group].alive_ms, self._config.active_within_s
        if there.groups[group].has_members:
            return True
        if alive_ms == 0 or within_s is None:
            return alive_ms > 0
        return self._clock.wall_ms() - alive_ms <= within_s * 1000

    def settle(self, due: Iterable[GroupId], decided: Mapping[GroupId, GroupDecision]) -> None:
        """Note the decisions on groups, and which groups must be checked in each pass."""
        for group in due:
            known, found = self.groups[group], decided.get(group)
            rows = () if found is None else found.partitions
            known.reasons = Counter(row.reason for row in rows)
            known.problem = "" if found is None else found.problem or _problem(rows)
            known.reread = NOTHING if found is None else reread_of(found)
            known.is_open = found is not None and bool(
                found.problem or known.reasons.keys() & _OPEN
            )

    def moving(self, there: GroupListing) -> int:
        """Return how many groups may read on: with members there, moved lately, or unlisted."""
        now_s = self._clock.monotonic_s()
        return len(there.failed) + sum(
            now_s - known.changed_s < IDLE_AFTER_S
            or group not in there.groups
            or there.groups[group].has_members
            for group, known in self.groups.items()
        )


def _problem(rows: Iterable[CommitDecision]) -> str:
    """Say why a partition of a group was left alone, a refused one first; empty: none was."""
    left = sorted(
        (row for row in rows if row.reason in _LEFT), key=lambda row: row.reason not in UNPUBLISHED
    )
    return next((f"{row.source}: {row.why}" for row in left), "")
