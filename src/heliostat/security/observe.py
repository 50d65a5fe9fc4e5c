"""ACLs as all brokers of a cluster show them, and limits of quotas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from heliostat.clusters.acl import AclBinding, AclListing
from heliostat.clusters.client_quota import QuotaEntity, Quotas
from heliostat.errors import BrokerError
from heliostat.names import BrokerId
from heliostat.security.ledger import Limit


class Security(Protocol):
    """Requests, as `SecurityAdmin`."""

    def describe_acls_everywhere(self) -> Mapping[BrokerId, AclListing | BrokerError]:
        """All bindings as each broker knows them itself."""
        ...

    def create_acls(self, bindings: Any, /) -> Mapping[AclBinding, BrokerError | None]:
        """Create bindings."""
        ...

    def delete_acls(self, bindings: Any, /) -> Mapping[AclBinding, bool | BrokerError]:
        """Delete bindings."""
        ...

    def describe_quotas_everywhere(self) -> Mapping[BrokerId, Quotas | BrokerError]:
        """Limits of all entities as each broker knows them itself."""
        ...

    def alter_quotas(self, changes: Any, /) -> Mapping[QuotaEntity, BrokerError | None]:
        """Set and remove limits."""
        ...


class SeenAcls(NamedTuple):
    """What the brokers of a cluster show together."""

    bindings: frozenset[AclBinding]
    """All that any of them shows: one that lags proves nothing gone."""
    has_authorizer: bool
    silent: str
    """Why some did not answer; empty: all did."""


def seen_acls(security: Security) -> SeenAcls:
    """Ask every broker.

    Raises
    ------
    BrokerError
        None of them tells us.
    ConnectionLost
        None answers.
    """
    answers = security.describe_acls_everywhere()
    listings = [answer for answer in answers.values() if isinstance(answer, AclListing)]
    refusals = [answer for answer in answers.values() if isinstance(answer, BrokerError)]
    if not listings:
        raise refusals[0]
    bindings = frozenset[AclBinding]().union(*(listing.bindings for listing in listings))
    silent = str(refusals[0]) if refusals else ""
    return SeenAcls(bindings, any(listing.has_authorizer for listing in listings), silent)


class SeenLimits(NamedTuple):
    """What the brokers of a cluster show together, limit by limit."""

    limits: dict[Limit, float]
    silent: str


def seen_limits(security: Security) -> SeenLimits:
    """Ask every broker; where two disagree, as one lags, the answer says so.

    Raises
    ------
    BrokerError
        None of them tells us.
    ConnectionLost
        None answers.
    """
    answers = security.describe_quotas_everywhere().values()
    refusals = [answer for answer in answers if isinstance(answer, BrokerError)]
    if refusals and len(refusals) == len(answers):
        raise refusals[0]
    silent = str(refusals[0]) if refusals else ""
    limits: dict[Limit, float] = {}
    for quotas in answers:
        for entity, values in () if isinstance(quotas, BrokerError) else quotas.items():
            for key, value in values.items():
                limit = Limit(entity, key)
                if limits.setdefault(limit, value) != value:
                    silent = silent or f"brokers disagree about {limit.text}"
    return SeenLimits(limits, silent)
