"""A fence: rules that deny writing, laid at a cluster, shown by every broker of it, and lifted.

Rules reach brokers one after the other. Each decides by what it has, so a fence stands only when
every broker, asked itself, shows all its rules. What was laid is noted before (`RuleMemory`), so
that another process can lift it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from heliostat.clock import Clock
from heliostat.clusters.acl import AclBinding
from heliostat.errors import BrokerError, ConnectionLost, HeliostatError
from heliostat.fencing.rule_book import Purpose, RuleMemory
from heliostat.names import BrokerId

SHOWN_WITHIN_S = 10.0
"""Brokers show a new rule within a tenth of a second, unless one is overloaded or cut off."""
LOOK_AGAIN_S = 0.05

View = frozenset[AclBinding] | HeliostatError
"""The rules that a broker shows, or why it shows none."""


class Rules(Protocol):
    """Requests about rules, to one cluster."""

    def views(self, principals: Collection[str]) -> Mapping[BrokerId, View]:
        """Return the rules that deny these principals something, as each broker shows them."""

    def create(self, rules: Collection[AclBinding]) -> Mapping[AclBinding, BrokerError | None]:
        """Lay rules; None for each success, also where it was there."""

    def delete(self, rules: Collection[AclBinding]) -> Mapping[AclBinding, BrokerError | None]:
        """Lift rules; None for each success, also where it was not there."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Whether brokers have taken what was asked for."""

    brokers: tuple[BrokerId, ...] = ()
    """Those that show it."""
    missing: Mapping[BrokerId, str] = field(default_factory=dict)
    """Those that don't, and why."""
    took_s: float = 0.0

    @property
    def is_whole(self) -> bool:
        """Whether every broker shows it."""
        return bool(self.brokers) and not self.missing

    def text(self) -> str:
        """Return a line about it."""
        if self.is_whole:
            return f"{len(self.brokers)} brokers show it, after {self.took_s:.1f} s"
        lines = "; ".join(f"broker {broker}: {why}" for broker, why in self.missing.items())
        return f"not every broker shows it after {self.took_s:.1f} s: {lines or 'none answers'}"


class Fence:
    """Lays and lifts rules of one purpose at one cluster. For one thread.

    Every method raises `ConnectionLost` if a cluster does not answer; what was noted stays so.

    Parameters
    ----------
    rules
        Requests to the cluster.
    memory
        Remembers which rules are ours.
    purpose
        Where they are, and what for.
    clock
        For time limits.
    """

    def __init__(self, rules: Rules, memory: RuleMemory, purpose: Purpose, clock: Clock) -> None:
        self._rules = rules
        self._memory = memory
        self._purpose = purpose
        self._clock = clock

    @property
    def laid(self) -> frozenset[AclBinding]:
        """The rules laid for this purpose, by whomever."""
        return self._memory.rules(self._purpose)

    def put_up(self, wanted: Collection[AclBinding], within_s: float = SHOWN_WITHIN_S) -> Standing:
        """Lay rules, and wait until every broker shows them; what is there already stays.

        One that somebody else has laid is not made ours.

        Raises
        ------
        BrokerError
            The cluster takes one not; nothing that it took is lifted.
        """
        rules = frozenset(wanted)
        if not rules:
            return Standing()
        strangers = self._strangers(rules)
        ours = rules - strangers
        self._memory.note(self._purpose, ours - self.laid, self._clock.wall_ms())
        _raise_first(self._rules.create(ours))
        return self._wait(rules, within_s, is_shown=True)

    def _strangers(self, rules: frozenset[AclBinding]) -> frozenset[AclBinding]:
        """Return those of the rules that are there, and not ours."""
        ours = self.laid | self._memory.others(self._purpose)
        views = self._rules.views(_principals(rules))
        shown = [view for view in views.values() if not isinstance(view, HeliostatError)]
        if not shown:
            raise _none_answers(views)
        return (rules & frozenset().union(*shown)) - ours

    def take_down(
        self,
        unwanted: Collection[AclBinding] | None = None,
        within_s: float = SHOWN_WITHIN_S,
    ) -> Standing:
        """Lift rules of ours, all of this purpose by default, and wait until no broker shows them.

        Raises
        ------
        BrokerError
            The cluster refuses to lift one; it stays noted.
        """
        rules = self.laid if unwanted is None else self.laid & frozenset(unwanted)
        if not rules:
            return Standing()
        needed = rules & self._memory.others(self._purpose)
        lifted = rules - needed
        standing = Standing()
        if lifted:
            _raise_first(self._rules.delete(lifted))
            standing = self._wait(lifted, within_s, is_shown=False)
        if standing.is_whole or not lifted:
            self._memory.forget(self._purpose, rules)
        else:
            self._memory.forget(self._purpose, needed)
        return standing

    def _wait(self, rules: frozenset[AclBinding], within_s: float, *, is_shown: bool) -> Standing:
        began_s = self._clock.monotonic_s()
        principals = _principals(rules)
        while True:  # ends: every broker shows it, or the time is over
            views = self._rules.views(principals)
            missing = {
                broker: why
                for broker, view in sorted(views.items())
                if (why := _difference(view, rules, is_shown=is_shown))
            }
            took_s = self._clock.monotonic_s() - began_s
            if took_s >= within_s or (views and not missing):
                shown = tuple(broker for broker in sorted(views) if broker not in missing)
                return Standing(shown, missing, took_s)
            self._clock.sleep(LOOK_AGAIN_S)


def _principals(rules: Collection[AclBinding]) -> frozenset[str]:
    return frozenset(rule.rule.principal for rule in rules)


def _difference(view: View, rules: frozenset[AclBinding], *, is_shown: bool) -> str:
    """Return what a broker's view lacks; empty if it is as it should be."""
    if isinstance(view, HeliostatError):
        return view.text
    left = rules - view if is_shown else rules & view
    if not left:
        return ""
    return f"{len(left)} of {len(rules)} rules are {'not there' if is_shown else 'still there'}"


def _raise_first(answers: Mapping[AclBinding, BrokerError | None]) -> None:
    for answer in answers.values():
        if answer is not None:
            raise answer


def _none_answers(views: Mapping[BrokerId, View]) -> HeliostatError:
    for view in views.values():
        if isinstance(view, HeliostatError):
            return view
    return ConnectionLost("no broker says which rules there are")
