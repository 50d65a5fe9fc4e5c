"""A cluster's rules as its brokers have them: each takes a change when it gets to it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from sim.sim_clock import SimClock

from heliostat.clusters.acl import AclBinding, Permission
from heliostat.errors import BrokerError, ConnectionLost, HeliostatError
from heliostat.fencing.authorizer import Authorizer
from heliostat.fencing.rule_book import Purpose
from heliostat.names import BrokerId, TopicName


class Died(Exception):
    """The process was killed here."""


@dataclass
class Killer:
    """Kills the process at its n-th step; 0: never."""

    at: int = 0
    steps: int = 0

    def step(self) -> None:
        self.steps += 1
        if self.steps == self.at:
            raise Died


@dataclass
class SimulatedRules:
    """Requests to a cluster of some brokers, of which each takes changes after a while."""

    clock: SimClock
    lag_s: dict[BrokerId, float]
    killer: Killer = field(default_factory=Killer)
    rules: set[AclBinding] = field(default_factory=set)
    silent: set[BrokerId] = field(default_factory=set)
    refusal: int = 0
    decides: Authorizer = field(default_factory=lambda: Authorizer("A"))
    existing: frozenset[TopicName] = frozenset()
    changes: list[tuple[float, AclBinding, bool]] = field(default_factory=list)

    def lay(self, *rules: AclBinding) -> None:
        """Have somebody lay rules, some time ago."""
        self.rules |= set(rules)
        self.changes += [(-1e9, rule, True) for rule in rules]

    def revoke(self, *rules: AclBinding) -> None:
        """Have somebody lift rules, some time ago."""
        self.rules -= set(rules)
        self.changes += [(-1e9, rule, False) for rule in rules]

    def view(self, broker: BrokerId) -> frozenset[AclBinding]:
        """Return what a broker has by now."""
        until_s = self.clock.monotonic_s() - self.lag_s[broker]
        seen: set[AclBinding] = set()
        for at_s, rule, is_there in self.changes:
            if at_s <= until_s:
                (seen.add if is_there else seen.discard)(rule)
        return frozenset(seen)

    def all_rules(self) -> Mapping[BrokerId, frozenset[AclBinding] | HeliostatError]:
        return {
            broker: BrokerError("refused", kafka_code=self.refusal)
            if self.refusal
            else ConnectionLost("does not answer")
            if broker in self.silent
            else self.view(broker)
            for broker in self.lag_s
        }

    def views(
        self, principals: Collection[str]
    ) -> Mapping[BrokerId, frozenset[AclBinding] | HeliostatError]:
        return {
            broker: view
            if isinstance(view, HeliostatError)
            else frozenset(
                rule
                for rule in view
                if rule.rule.principal in principals and rule.permission is Permission.DENY
            )
            for broker, view in self.all_rules().items()
        }

    def create(self, rules: Collection[AclBinding]) -> Mapping[AclBinding, BrokerError | None]:
        for rule in sorted(rules, key=repr):
            self.killer.step()
            self.rules.add(rule)
            self.changes.append((self.clock.monotonic_s(), rule, True))
        self.killer.step()
        return dict.fromkeys(rules)

    def delete(self, rules: Collection[AclBinding]) -> Mapping[AclBinding, BrokerError | None]:
        for rule in sorted(rules, key=repr):
            self.killer.step()
            self.rules.discard(rule)
            self.changes.append((self.clock.monotonic_s(), rule, False))
        self.killer.step()
        return dict.fromkeys(rules)

    def authorizer(self) -> Authorizer:
        return self.decides

    def topics(self) -> frozenset[TopicName]:
        return self.existing


@dataclass
class MemoryOfRules:
    """Rows that outlive the process."""

    killer: Killer = field(default_factory=Killer)
    rows: dict[Purpose, frozenset[AclBinding]] = field(default_factory=dict)

    def rules(self, purpose: Purpose) -> frozenset[AclBinding]:
        return self.rows.get(purpose, frozenset())

    def others(self, purpose: Purpose) -> frozenset[AclBinding]:
        return frozenset().union(
            *(
                rules
                for other, rules in self.rows.items()
                if other != purpose and other.cluster == purpose.cluster
            )
        )

    def note(self, purpose: Purpose, rules: Collection[AclBinding], at_ms: int) -> None:
        self.killer.step()
        self.rows[purpose] = self.rules(purpose) | frozenset(rules)
        self.killer.step()

    def forget(self, purpose: Purpose, rules: Collection[AclBinding]) -> None:
        self.killer.step()
        self.rows[purpose] = self.rules(purpose) - frozenset(rules)
        self.killer.step()
