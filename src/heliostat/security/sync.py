"""One comparison of both clusters' ACLs and quotas, and what it leads to.

`look` only reads and decides; `carry_out` does it. A row is written before the request that it is
about; what brokers refuse is no row of ours any more.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from heliostat.clusters.acl import AclBinding, ResourceKind
from heliostat.clusters.client_quota import CLIENT_ID, IP, USER, QuotaEntity
from heliostat.config.access import AccessConfig
from heliostat.errors import BrokerError
from heliostat.names import ClusterId, TopicName
from heliostat.security.follow import Seen, Share, Steps, confirmation_of, steps, why_ask
from heliostat.security.ledger import (
    ACL,
    CONFIRMED,
    HELD,
    QUOTA,
    SOURCE,
    Held,
    Ledger,
    Limit,
    acl_key,
    limit_key,
)
from heliostat.security.names import renamed
from heliostat.security.observe import Security, seen_acls, seen_limits
from heliostat.security.wanted_acls import AclRules, WantedAcls, pattern_of, wanted_acls

Key = TypeVar("Key")
ALL_PROMOTED = "all mirrors were promoted: nothing is followed any more"
NO_AUTHORIZER = "the target has no authorizer: ACLs have no effect there, none is made"


@dataclass(slots=True)
class AccessPlan:
    """What would be done, and why some of it is not."""

    seen: Seen
    acls: Steps[AclBinding, bool] = field(default_factory=Steps)
    limits: Steps[Limit, float] = field(default_factory=Steps)
    hold: dict[AclBinding, Held] = field(default_factory=dict)
    """To be kept ready from now on."""
    drop: list[AclBinding] = field(default_factory=list)
    """To be kept ready no more."""
    kept: int = 0
    """How many are kept ready."""
    refused: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    reasons: dict[AclBinding, list[AclBinding]] = field(default_factory=dict)
    """Bindings of the source for which each is made."""
    asks: str = ""
    """Why removals wait for a person; empty: they don't."""
    is_confirmed: bool = False
    is_other_cluster: bool = False
    is_over: bool = False
    """Whether all mirrors were promoted, so that nothing is followed any more."""

    @property
    def is_in_step(self) -> bool:
        """Whether there is nothing to do, and nothing that a person must decide."""
        is_idle = not (self.acls.make or self.limits.make or self.hold or self.removals)
        return is_idle and not self.refused

    @property
    def removals(self) -> list[str]:
        """What would be removed, for people."""
        return [
            *(str(acl) for acl in self.acls.remove),
            *(limit.text for limit in self.limits.remove),
            *(f"kept ready: {acl}" for acl in self.drop),
        ]

    @property
    def confirmation(self) -> str:
        """What a person confirms: just these removals."""
        return confirmation_of(self.seen, self.removals)

    @property
    def may_remove(self) -> bool:
        """Whether removals are carried out."""
        return not self.seen.silent and (self.is_confirmed or not self.asks)

    @property
    def may_make(self) -> bool:
        """Whether anything is made: not from a source that has become another cluster."""
        return self.is_confirmed or not self.is_other_cluster

    def lines(self) -> list[str]:
        """Return it for people: what would be done and why, one line each."""
        lines = [f"make {acl}{self._why(acl)}" for acl in self.acls.make]
        lines += [f"set {limit.text} to {value:g}" for limit, value in self.limits.make.items()]
        lines += [f"keep ready {acl}: for the promotion" for acl in self.hold]
        lines += [f"{self._removing} {removal}: gone at the source" for removal in self.removals]
        lines += [f"refused: {right}: {why}" for right, why in self.refused.items()]
        lines += [ALL_PROMOTED] if self.is_over else []
        return [*lines, *self.notes]

    def keep_all(self) -> None:
        """Remove nothing."""
        self.acls.remove, self.limits.remove, self.drop = [], [], []
        self.is_confirmed = False

    def troubles(self, failed: Mapping[str, str]) -> list[str]:
        """Return what a person should know, one line each; the same words while it lasts."""
        lines = [f"rights: refused by the target: {right}: {why}" for right, why in failed.items()]
        lines += [f"rights: not followed: {right}: {why}" for right, why in self.refused.items()]
        lines += [f"rights: {note}" for note in self.notes]
        if self.asks and not self.is_confirmed:
            lines.append(f"rights: nothing is removed: {self.asks}: see `heliostat access`")
        return lines

    def report(self, named_max: int) -> dict[str, Any]:
        """Return it for the driver's report, with so many rules by name."""
        return {
            "is_over": self.is_over,
            "waiting": len(self.removals) if self.asks and not self.is_confirmed else 0,
            "asks": "" if self.is_confirmed else self.asks,
            "removals": self.removals[:named_max] if self.asks and not self.is_confirmed else [],
            "kept_ready": self.kept,
            "foreign": len(self.acls.foreign) + len(self.limits.foreign),
            "refused": dict(list(self.refused.items())[:named_max]),
            "refused_count": len(self.refused),
            "notes": self.notes[:named_max],
        }

    @property
    def _removing(self) -> str:
        return "remove" if self.may_remove else "would remove"

    def _why(self, binding: AclBinding) -> str:
        causes = [cause for cause in self.reasons.get(binding, []) if cause != binding]
        return f": the source has {causes[0]}" if causes else ""


@dataclass(slots=True)
class Done:
    """What was done, and what brokers refused."""

    made: int = 0
    removed: int = 0
    kept: int = 0
    failed: dict[str, str] = field(default_factory=dict)


class AccessSync:
    """ACLs and quotas of one link.

    Parameters
    ----------
    wanted
        What is followed.
    rules
        How ACLs are followed.
    source, target
        Requests to both clusters.
    source_id
        Returns the source's id.
    ledger
        What the link has made.
    fences
        Reads which rules at the source are a fence of the link's own: they are not followed.
    guard
        Raises if the link is not ours any more (I10).
    """

    def __init__(
        self,
        wanted: AccessConfig,
        rules: AclRules,
        *,
        source: Security,
        target: Security,
        source_id: Callable[[], ClusterId],
        ledger: Ledger,
        fences: Callable[[], frozenset[AclBinding]] = frozenset,
        guard: Callable[[], None] = lambda: None,
    ) -> None:
        self._fences = fences
        self._wanted = wanted
        self._rules = rules
        self._source = source
        self._target = target
        self._source_id = source_id
        self._ledger = ledger
        self._guard = guard
        self._promoted: frozenset[TopicName] = frozenset()

    def look(
        self,
        topics: Iterable[TopicName],
        promoted: Iterable[TopicName] = (),
        *,
        is_over: bool = False,
    ) -> AccessPlan:
        """Read both clusters and the ledger, and decide; changes nothing.

        Parameters
        ----------
        topics
            The source's topics that the link selects, and those that it has mirrored.
        promoted
            Those about which nothing is done: their mirrors are promoted, or both sites write them.
            The ledger knows more if their rights were granted.
        is_over
            Whether no mirror is left: then rights of groups and quotas are the target's own, too.

        Raises
        ------
        ConnectionLost, BrokerError
            A cluster does not answer or refuses: nothing is concluded from that.
        """
        ledger = self._ledger
        ledger.read()
        former = {TopicName(self._rules.topics.target_name(topic)) for topic in promoted}
        self._promoted = frozenset(former | ledger.promoted)
        plan = AccessPlan(Seen(self._source_id(), 0), is_over=is_over, kept=len(ledger.held))
        if is_over:
            return plan
        counts: list[int] = []
        if self._wanted.sync_acls:
            counts.append(self._look_at_acls(plan, topics))
        if self._wanted.sync_quotas:
            counts.append(self._look_at_quotas(plan))
        plan.seen = replace(plan.seen, count=min(counts, default=0))
        plan.is_other_cluster = ledger.source not in {None, plan.seen.cluster_id}
        shares = (
            Share("ACLs", len(ledger.acls), len(plan.acls.remove)),
            Share("limits", len(ledger.limits), len(plan.limits.remove)),
            Share("ACLs kept ready", len(ledger.held), len(plan.drop)),
        )
        plan.asks = why_ask(plan.seen, ledger.source, shares)
        plan.is_confirmed = bool(plan.asks) and ledger.confirmed == plan.confirmation
        if plan.seen.silent:
            plan.notes.append(f"nothing is removed: {plan.seen.silent}")
        return plan

    def _look_at_acls(self, plan: AccessPlan, topics: Iterable[TopicName]) -> int:
        fences = self._fences()
        source, target = seen_acls(self._source), seen_acls(self._target)
        fences |= self._fences()  # one is noted before it is laid, and until it is lifted
        source = source._replace(bindings=source.bindings - fences)
        plan.seen = replace(plan.seen, has_authorizer=source.has_authorizer, silent=source.silent)
        if not target.has_authorizer:
            plan.notes.append(NO_AUTHORIZER)
            return len(source.bindings) or 1
        ledger = self._ledger
        wanted = wanted_acls(source.bindings, self._rules, topics)
        plan.reasons = wanted.granted
        there = dict.fromkeys(target.bindings, True)
        granted = dict.fromkeys(wanted.granted, True)
        plan.acls = steps(granted, there, ledger.acls, self._is_over)
        plan.hold = self._to_hold(wanted)
        plan.drop = [
            acl for acl in ledger.held if acl not in wanted.held and not self._is_over(acl)
        ]
        plan.kept = len(wanted.held)
        plan.refused |= {str(acl): why for acl, why in wanted.refused.items()}
        return len(source.bindings) if ledger.acls or ledger.held else 1

    def _to_hold(self, wanted: WantedAcls) -> dict[AclBinding, Held]:
        held = {
            acl: Held(tuple(wanted.only_for(acl))) for acl in wanted.held if not self._is_over(acl)
        }
        return {acl: row for acl, row in held.items() if self._ledger.held.get(acl) != row}

    def _is_over(self, binding: AclBinding) -> bool:
        """Return whether it is for a topic that was promoted: nothing is synced any more."""
        if binding.rule.kind is not ResourceKind.TOPIC:
            return False
        pattern = pattern_of(binding)
        return any(pattern.covers(topic) for topic in self._promoted)

    def _look_at_quotas(self, plan: AccessPlan) -> int:
        source, silent = seen_limits(self._source)
        there = seen_limits(self._target).limits
        plan.seen = replace(plan.seen, silent=plan.seen.silent or silent)
        wanted: dict[Limit, float] = {}
        for limit, value in source.items():
            entity = self._entity(limit.entity)
            if entity is not None:  # of two that become one, the lower limit
                at_target = Limit(entity, limit.key)
                wanted[at_target] = min(value, wanted.get(at_target, value))
        plan.limits = steps(wanted, there, self._ledger.limits)
        return len(source) if self._ledger.limits else 1

    def _entity(self, entity: QuotaEntity) -> QuotaEntity | None:
        names: dict[str, str | None] = {}
        for kind, name in entity.parts:
            if kind == IP:
                return None  # addresses of the source's clients are others at the target
            if name is None or kind not in {USER, CLIENT_ID}:
                names[kind] = name
                continue
            prefix = "User:" if kind == USER else ""
            rules = self._wanted.principals if kind == USER else self._wanted.client_ids
            there = renamed(prefix + name, rules)
            if there is None:
                return None
            names[kind] = there.removeprefix(prefix)
        return QuotaEntity.of(names)

    def carry_out(self, plan: AccessPlan) -> Done:
        """Do what was decided.

        Raises
        ------
        ConnectionLost
            The target does not answer; the next comparison goes on from what the ledger has.
        """
        done = Done()
        if plan.may_make:
            self._make(plan, done)
        if plan.may_remove and plan.removals:
            self._remove(plan, done)
        rows: dict[str, None] = {}
        if plan.may_make:
            rows |= {f"{ACL}{acl_key(acl)}": None for acl in plan.acls.forget}
            rows |= {f"{QUOTA}{limit_key(limit)}": None for limit in plan.limits.forget}
        if plan.is_confirmed:
            rows[CONFIRMED] = None
        self._write(rows)
        return done

    def _make(self, plan: AccessPlan, done: Done) -> None:
        ledger = self._ledger
        if (plan.acls.make or plan.limits.make or plan.hold or plan.is_confirmed) and (
            ledger.source != plan.seen.cluster_id
        ):
            self._write({SOURCE: {"cluster_id": plan.seen.cluster_id}})
        self._write(
            {
                f"{HELD}{acl_key(acl)}": {"parts": [acl_key(part) for part in held.parts]}
                for acl, held in plan.hold.items()
            }
        )
        done.kept += len(plan.hold)
        acls = plan.acls.make
        new = [acl for acl in acls if acl not in ledger.acls]
        self._write({f"{ACL}{acl_key(acl)}": {"made": True} for acl in new})
        answers = self._target.create_acls(list(acls)) if acls else {}
        refused = _noted(answers, done, str)
        self._write({f"{ACL}{acl_key(acl)}": None for acl in new if acl in refused})
        done.made += len(acls) - len(refused)
        self._set_limits(plan.limits, done)

    def _set_limits(self, limits: Steps[Limit, float], done: Done) -> None:
        """Set limits; while that is under way a row has both values, so that either is ours."""
        ledger, make = self._ledger, limits.make
        before = {limit: ledger.limits.get(limit, ()) for limit in make}
        rows = {limit: _values(*before[limit], value) for limit, value in make.items()}
        self._write({f"{QUOTA}{limit_key(limit)}": row for limit, row in rows.items()})
        refused = self._alter(dict(make), done)
        after: dict[str, Any] = {}
        for limit, value in make.items():
            old = _values(*before[limit]) if before[limit] else None
            after[f"{QUOTA}{limit_key(limit)}"] = old if limit in refused else _values(value)
        self._write(after)
        done.made += len(make) - len(refused)

    def _alter(self, values: Mapping[Limit, float | None], done: Done) -> set[Limit]:
        changes: dict[QuotaEntity, dict[str, float | None]] = defaultdict(dict)
        for limit, value in values.items():
            changes[limit.entity][limit.key] = value
        answers = self._target.alter_quotas(changes) if changes else {}
        refused = _noted(answers, done, lambda entity: f"quotas of {entity}")
        return {limit for limit in values if limit.entity in refused}

    def _remove(self, plan: AccessPlan, done: Done) -> None:
        acls, limits = plan.acls.remove, plan.limits.remove
        self._guard()
        answers = self._target.delete_acls(acls) if acls else {}
        kept = _noted(answers, done, str)
        stay = self._alter(dict.fromkeys(limits), done)
        rows: dict[str, Any] = {f"{ACL}{acl_key(acl)}": None for acl in acls if acl not in kept}
        rows |= {f"{QUOTA}{limit_key(limit)}": None for limit in limits if limit not in stay}
        done.removed += len(rows)
        self._write(rows | {f"{HELD}{acl_key(acl)}": None for acl in plan.drop})

    def _write(self, rows: Mapping[str, Any]) -> None:
        if rows:
            self._guard()
            self._ledger.write(rows)


def _values(*values: float) -> dict[str, list[float]]:
    return {"values": sorted(set(values))}


def _noted(answers: Mapping[Key, object], done: Done, text: Callable[[Key], str]) -> set[Key]:
    """Note what brokers refused, and return it."""
    refused = {key: answer for key, answer in answers.items() if isinstance(answer, BrokerError)}
    done.failed.update({text(key): str(error) for key, error in refused.items()})
    return set(refused)
