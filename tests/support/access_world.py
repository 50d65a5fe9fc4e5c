"""Clusters with ACLs and quotas, and a topic of rows, in memory; a write may be the last one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from heliostat.clusters.acl import AclBinding, AclListing, AclRule, Operation, ResourceKind
from heliostat.clusters.client_quota import QuotaEntity
from heliostat.config.access import AccessConfig, NameRule
from heliostat.errors import BrokerError, ConnectionLost
from heliostat.names import BrokerId, ClusterId, TopicName
from heliostat.security.ledger import Ledger
from heliostat.security.names import ResourceNames
from heliostat.security.sync import AccessPlan, AccessSync, Done
from heliostat.security.wanted_acls import AclRules

LINK = "User:link"


class Power:
    """Cut after some writes: the process is gone, whether the last request has arrived or not."""

    def __init__(self) -> None:
        self.writes_left = -1
        self.arrives = False

    def write(self) -> bool:
        """Return whether this write arrives and is answered; raise if it is not answered."""
        if self.writes_left == 0:
            if self.arrives:
                return False
            raise ConnectionLost("the power is gone")
        self.writes_left -= 1
        return True


class FakeSecurity:
    def __init__(self, power: Power | None = None) -> None:
        self.acls: set[AclBinding] = set()
        self.quotas: dict[QuotaEntity, dict[str, float]] = {}
        self.has_authorizer = True
        self.others: dict[BrokerId, Any] = {}
        """Answers of further brokers."""
        self.refuses: set[AclBinding] = set()
        self.power = power or Power()
        self.deleted: list[AclBinding] = []

    def describe_acls_everywhere(self) -> Mapping[BrokerId, Any]:
        own = AclListing(frozenset(self.acls), self.has_authorizer)
        return {BrokerId(1): own, **self.others}

    def describe_quotas_everywhere(self) -> Mapping[BrokerId, Any]:
        return {BrokerId(1): {entity: dict(values) for entity, values in self.quotas.items()}}

    def create_acls(self, bindings: Iterable[AclBinding]) -> dict[AclBinding, Any]:
        answered = self.power.write()
        made = set(bindings)
        self.acls |= made - self.refuses
        self._end(answered)
        return {
            each: BrokerError("no", kafka_code=31) if each in self.refuses else None
            for each in made
        }

    def delete_acls(self, bindings: Iterable[AclBinding]) -> dict[AclBinding, Any]:
        answered = self.power.write()
        answers = {each: each in self.acls for each in bindings}
        self.deleted += [each for each, there in answers.items() if there]
        self.acls -= set(answers)
        self._end(answered)
        return answers

    def alter_quotas(self, changes: Mapping[QuotaEntity, Mapping[str, float | None]]) -> Any:
        answered = self.power.write()
        for entity, limits in changes.items():
            values = self.quotas.setdefault(entity, {})
            for key, value in limits.items():
                if value is None:
                    values.pop(key, None)
                else:
                    values[key] = value
            if not values:
                del self.quotas[entity]
        self._end(answered)
        return dict.fromkeys(changes)

    def _end(self, answered: bool) -> None:
        if not answered:
            raise ConnectionLost("the power is gone")


class FakeRows:
    def __init__(self, power: Power | None = None) -> None:
        self.rows: dict[str, dict[str, Any]] = {}
        self.power = power or Power()

    def read_all(self) -> dict[str, dict[str, Any]]:
        return dict(self.rows)

    def write_many(self, values: Mapping[str, Any]) -> None:
        answered = self.power.write()
        for key, value in values.items():
            if value is None:
                self.rows.pop(key, None)
            else:
                self.rows[key] = dict(value)
        if not answered:
            raise ConnectionLost("the power is gone")


class World:
    """Both clusters and the rows of one link, and what it has to say each time it is begun anew."""

    def __init__(self, *, rule: str = "${topic}", principals: tuple[NameRule, ...] = ()) -> None:
        self.power = Power()
        self.source = FakeSecurity()
        self.target = FakeSecurity(self.power)
        self.rows = FakeRows(self.power)
        self.source_id = ClusterId("source")
        self.topics = [TopicName("t.1"), TopicName("t.2")]
        self.config = AccessConfig(sync_acls=True, sync_quotas=True, principals=principals)
        self.rules = AclRules(
            ResourceNames(rule, "${topic}", lambda name: name.startswith("t.")),
            ResourceNames("${group}", "${group}"),
            principals,
            frozenset({LINK}),
        )

    def ledger(self) -> Ledger:
        return Ledger(self.rows)

    def sync(self) -> AccessSync:
        return AccessSync(
            self.config,
            self.rules,
            source=self.source,
            target=self.target,
            source_id=lambda: self.source_id,
            ledger=self.ledger(),
        )

    def look(self) -> AccessPlan:
        return self.sync().look(self.topics)

    def turn(self) -> tuple[AccessPlan, Done]:
        sync = self.sync()
        plan = sync.look(self.topics)
        return plan, sync.carry_out(plan)

    def confirm(self) -> None:
        self.rows.rows["confirmed"] = {"removals": self.look().confirmation}


def acl(
    operation: Operation = Operation.READ,
    name: str = "t.1",
    user: str = "a",
    kind: ResourceKind = ResourceKind.TOPIC,
    **parts: Any,
) -> AclBinding:
    rule_parts = {key: parts.pop(key) for key in ("pattern",) if key in parts}
    return AclBinding(AclRule(f"User:{user}", operation, kind, name, **rule_parts), **parts)
