"""What names at the source are at the target, in ACLs and quotas."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from heliostat.clusters.acl import EVERYTHING, PatternKind
from heliostat.config import compile_pattern
from heliostat.config.access import NameRule


@dataclass(frozen=True, slots=True)
class Pattern:
    """Which resources a binding is for: one name, all that begin with it, or all."""

    name: str
    kind: PatternKind = PatternKind.LITERAL

    @property
    def is_everything(self) -> bool:
        """Whether it is for all names."""
        return self.name == EVERYTHING and self.kind is PatternKind.LITERAL

    def covers(self, name: str) -> bool:
        """Whether it is for this name."""
        if self.kind is PatternKind.PREFIXED:
            return name.startswith(self.name)
        return self.is_everything or self.name == name


@dataclass(frozen=True, slots=True)
class ResourceNames:
    """How names of one kind of resource are selected and changed.

    Parameters
    ----------
    rule
        The link's format, with `variable` for the source's name.
    selects
        Whether a single name concerns the link.
    """

    rule: str
    variable: str
    selects: Callable[[str], bool] = lambda _: True

    def target_name(self, name: str) -> str:
        """The target's name for one of the source."""
        return self.rule.replace(self.variable, name)

    def target_pattern(self, source: Pattern) -> Pattern | None:
        """The target's pattern; None if no pattern of Kafka's can say it.

        All names with a prefix in the rule are a prefix there (never the useless `A.*`). With a
        suffix in it, neither a prefix nor `*` selects just those names.
        """
        if source.kind is PatternKind.LITERAL and not source.is_everything:
            return Pattern(self.target_name(source.name))
        before, _, after = self.rule.partition(self.variable)
        if after:
            return None
        if source.is_everything:
            return Pattern(before, PatternKind.PREFIXED) if before else source
        return Pattern(before + source.name, PatternKind.PREFIXED)


def renamed(name: str, rules: Sequence[NameRule]) -> str | None:
    """The target's name by the first rule that matches; None: it is left out."""
    for rule in rules:
        match = compile_pattern(rule.pattern).fullmatch(name)
        if match is not None:
            return None if rule.to is None else match.expand(rule.to)
    return name
