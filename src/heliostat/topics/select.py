"""Which topics a link mirrors, and why: full match, exclude wins, built-in excludes always hold."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from heliostat.config import (
    BUILT_IN_EXCLUDE,
    DRILL_TOPIC,
    LinkConfig,
    TopicsConfig,
    compile_pattern,
)
from heliostat.names import Alias, TopicName
from heliostat.topics.replication_policy import SEPARATOR, ReplicationPolicy, policy_of


@dataclass(frozen=True, slots=True)
class SelectionVerdict:
    """Whether a topic is mirrored, and the entry that decided."""

    selected: bool
    why: str


@dataclass(frozen=True, slots=True)
class HeartbeatsRule:
    """Heartbeats topics are mirrored, whatever the lists say, but not back to their origin."""

    policy: ReplicationPolicy
    target: Alias

    def explain(self, name: TopicName) -> SelectionVerdict | None:
        """Decide on a heartbeats topic; None for any other."""
        if not self.policy.is_heartbeats(name):
            return None
        if self.target in self.policy.sources_of(name):
            return SelectionVerdict(
                selected=False, why=f"heartbeats that came from {self.target} itself"
            )
        return SelectionVerdict(selected=True, why="heartbeats are mirrored")


@dataclass(frozen=True, slots=True)
class TopicSelection:
    """The compiled lists of a link; entries with their expressions, in the file's order."""

    built_in: tuple[tuple[str, re.Pattern[str]], ...]
    exclude: tuple[tuple[str, re.Pattern[str]], ...]
    include: tuple[tuple[str, re.Pattern[str]], ...]
    heartbeats: HeartbeatsRule | None = None

    def explain(self, name: str) -> SelectionVerdict:
        """Decide on one name; the first matching entry is the reason."""
        for entry, pattern in self.built_in:
            if pattern.fullmatch(name):
                return SelectionVerdict(selected=False, why=f"always excluded: {entry}")
        decided = None if self.heartbeats is None else self.heartbeats.explain(TopicName(name))
        if decided is not None:
            return decided
        for entry, pattern in self.exclude:
            if pattern.fullmatch(name):
                return SelectionVerdict(selected=False, why=f"excluded by {entry}")
        if DRILL_TOPIC.fullmatch(name) and all(entry != name for entry, _ in self.include):
            return SelectionVerdict(selected=False, why="made up by `heliostat drill`")
        for entry, pattern in self.include:
            if pattern.fullmatch(name):
                return SelectionVerdict(selected=True, why=f"included by {entry}")
        return SelectionVerdict(selected=False, why="no include matches")

    def selects(self, name: str) -> bool:
        """Whether the topic is mirrored."""
        return self.explain(name).selected

    def unmatched(self, names: Collection[str]) -> tuple[str, ...]:
        """Entries of `include` that match none of these."""
        return tuple(
            entry
            for entry, pattern in self.include
            if not any(pattern.fullmatch(name) for name in names)
        )

    def choose(self, names: Iterable[TopicName]) -> tuple[TopicName, ...]:
        """Return those of the names that are mirrored, sorted."""
        return tuple(sorted(name for name in set(names) if self.selects(name)))


def selection_of(link: LinkConfig) -> TopicSelection:
    """Return a link's selection: by its lists, and heartbeats if they are mirrored."""
    listed = compile_selection(link.topics)
    policy = policy_of(link)
    own = () if policy.separator == SEPARATOR else _compiled(_own_topics(policy))
    mirrored = link.heartbeats.are_mirrored
    return replace(
        listed,
        built_in=listed.built_in + own,
        heartbeats=HeartbeatsRule(policy, link.target) if mirrored else None,
    )


def why_nothing_selected(link: LinkConfig, names: Sequence[TopicName]) -> str:
    """Say why a link has no topic to copy, if the source has these; empty if it has one."""
    selection, policy = selection_of(link), policy_of(link)
    if any(selection.selects(name) and not policy.is_heartbeats(name) for name in names):
        return ""
    return (
        f"no topic of the source is selected, of the {len(names)} that can be seen there: see "
        "`heliostat topics`, topics.include and topics.exclude"
    )


def _own_topics(policy: ReplicationPolicy) -> tuple[str, ...]:
    """MirrorMaker 2's own topics if the separator is not a dot (KIP-690)."""
    separator = re.escape(policy.separator)
    return (rf"mm2.*{separator}internal", rf".+{separator}checkpoints{separator}internal")


def compile_selection(topics: TopicsConfig) -> TopicSelection:
    """Compile a link's lists; the configuration has already refused what does not compile."""
    return TopicSelection(
        built_in=_compiled(BUILT_IN_EXCLUDE),
        exclude=_compiled(topics.exclude),
        include=_compiled(topics.include),
    )


def _compiled(entries: Iterable[str]) -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple((entry, compile_pattern(entry)) for entry in entries)
