"""Which groups a link syncs, and why: full match of the name, exclude wins; then the kind."""

from __future__ import annotations

import re
from dataclasses import dataclass

from heliostat.clusters.admin import ListedGroup
from heliostat.clusters.admin.group_values import (
    CLASSIC_KIND,
    CONSUMER_KIND,
    SHARE_KIND,
    STREAMS_KIND,
)
from heliostat.config import GroupsConfig, compile_pattern
from heliostat.groups.values import Published, Skip

KINDS_WITH_OFFSETS = frozenset({"", CLASSIC_KIND, CONSUMER_KIND, STREAMS_KIND})
"""Old brokers report no kind (`""`)."""
ELECTING_PROTOCOLS = frozenset({"connect", "sr"})
"""Workers of Connect and schema registries elect leaders in classic groups that commit nothing. Of
any other protocol, offsets count if there are some."""


@dataclass(frozen=True, slots=True)
class GroupChoice:
    """Whether a group is synced, and the entry or property that decided."""

    skip: Skip | None
    why: str


@dataclass(frozen=True, slots=True)
class Selection:
    """The compiled lists of a link; entries with their expressions, in the file's order."""

    exclude: tuple[tuple[str, re.Pattern[str]], ...]
    include: tuple[tuple[str, re.Pattern[str]], ...]

    def by_name(self, name: str) -> GroupChoice:
        """Decide on a name; the first matching entry is the reason."""
        for entry, pattern in self.exclude:
            if pattern.fullmatch(name):
                return GroupChoice(Skip.EXCLUDED, f"excluded by {entry}")
        for entry, pattern in self.include:
            if pattern.fullmatch(name):
                return GroupChoice(None, f"included by {entry}")
        return GroupChoice(Skip.EXCLUDED, "no include matches")

    def choose(self, listed: ListedGroup) -> GroupChoice:
        """Decide on a group as the source lists it."""
        if listed.kind == SHARE_KIND:
            why = "a share group: brokers keep what it has acknowledged, there are no offsets"
            return GroupChoice(Skip.NO_OFFSETS, why)
        if listed.kind not in KINDS_WITH_OFFSETS:
            why = f"groups of kind {listed.kind} are not known to commit offsets"
            return GroupChoice(Skip.NO_OFFSETS, why)
        if listed.protocol in ELECTING_PROTOCOLS:
            why = f"members of protocol {listed.protocol} elect a leader and commit no offsets"
            return GroupChoice(Skip.NO_OFFSETS, why)
        return self.by_name(listed.group)


def is_left_out(
    groups: GroupsConfig, listed: ListedGroup, published: Published | None, now_ms: int
) -> bool:
    """Whether a link that starts now leaves a group out until it has members.

    Parameters
    ----------
    published
        The link's row of the group, and when it was written.
    """
    if listed.has_members or "empty" in groups.states:
        return False
    if published is None:
        return True
    within_s = groups.active_within_s
    return within_s is not None and now_ms - published.at_ms > within_s * 1000


def compile_selection(groups: GroupsConfig) -> Selection:
    """Compile a link's lists; the configuration has already refused what does not compile."""
    return Selection(
        exclude=tuple((entry, compile_pattern(entry)) for entry in groups.exclude),
        include=tuple((entry, compile_pattern(entry)) for entry in groups.include),
    )
