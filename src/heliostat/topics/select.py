"""Which topics a link mirrors, and why: full match, exclude wins, built-in excludes always hold."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from heliostat.config import BUILT_IN_EXCLUDE, TopicsConfig, compile_pattern
from heliostat.names import TopicName


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether a topic is mirrored, and the entry that decided."""

    selected: bool
    why: str


@dataclass(frozen=True, slots=True)
class Selection:
    """The lists of a link, compiled; entries beside their expressions, in the file's order."""

    built_in: tuple[tuple[str, re.Pattern[str]], ...]
    exclude: tuple[tuple[str, re.Pattern[str]], ...]
    include: tuple[tuple[str, re.Pattern[str]], ...]

    def explain(self, name: str) -> Decision:
        """Decide on one name; the first entry that matches is named."""
        for entry, pattern in self.built_in:
            if pattern.fullmatch(name):
                return Decision(selected=False, why=f"always excluded: {entry}")
        for entry, pattern in self.exclude:
            if pattern.fullmatch(name):
                return Decision(selected=False, why=f"excluded by {entry}")
        for entry, pattern in self.include:
            if pattern.fullmatch(name):
                return Decision(selected=True, why=f"included by {entry}")
        return Decision(selected=False, why="no include matches")

    def selects(self, name: str) -> bool:
        """Whether the topic is mirrored."""
        return self.explain(name).selected

    def choose(self, names: Iterable[TopicName]) -> tuple[TopicName, ...]:
        """The mirrored ones of some names, sorted."""
        return tuple(sorted(name for name in set(names) if self.selects(name)))


def compile_selection(topics: TopicsConfig) -> Selection:
    """Compile a link's lists; the configuration has already refused what does not compile."""
    return Selection(
        built_in=_compiled(BUILT_IN_EXCLUDE),
        exclude=_compiled(topics.exclude),
        include=_compiled(topics.include),
    )


def _compiled(entries: Iterable[str]) -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple((entry, compile_pattern(entry)) for entry in entries)
