"""Requests about who may do what (ACLs, client quotas, SCRAM users), and what disks hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from heliostat.clusters.acl import AclBinding
from heliostat.clusters.admin import acl_calls, log_dir_calls, quota_calls, scram_calls
from heliostat.clusters.admin.caller import Caller
from heliostat.clusters.admin.each_broker import Answer, each_broker
from heliostat.clusters.client_quota import QuotaEntity, Quotas
from heliostat.clusters.kafka_codes import NETWORK_EXCEPTION
from heliostat.clusters.scram_user import ScramCredential, ScramUpsertion
from heliostat.errors import BrokerError, ConnectionLost, HeliostatError
from heliostat.names import BrokerId


class SecurityAdmin:
    """ACLs, client quotas, SCRAM users and sizes of logs of a cluster; `ClusterAdmin.security`.

    Every method raises `ConnectionLost` if no broker answers.
    """

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def _everywhere(
        self, describe: Callable[[Caller, BrokerId], Answer]
    ) -> dict[BrokerId, Answer | BrokerError]:
        answers = each_broker(self._caller, partial(describe, self._caller))
        return {broker: _refusal_or(broker, answer) for broker, answer in answers.items()}

    def describe_acls(self, broker: BrokerId | None = None) -> acl_calls.Describing:
        """All bindings as one broker knows them; a cluster without an authorizer says so."""
        return acl_calls.describe(self._caller, broker)

    def describe_acls_everywhere(self) -> Mapping[BrokerId, acl_calls.Describing]:
        """All bindings as each broker knows them itself, as any may lag; or its error."""
        return self._everywhere(acl_calls.describe)

    def create_acls(
        self, bindings: Iterable[AclBinding]
    ) -> Mapping[AclBinding, BrokerError | None]:
        """Create bindings; None for each success, also where the same one was there before.

        Brokers apply them a moment after this returns.
        """
        return acl_calls.create(self._caller, bindings)

    def delete_acls(
        self, bindings: Iterable[AclBinding]
    ) -> Mapping[AclBinding, bool | BrokerError]:
        """Delete exactly these bindings; whether each was there."""
        return acl_calls.delete(self._caller, bindings)

    def log_sizes(self) -> Mapping[BrokerId, log_dir_calls.Sizes | HeliostatError]:
        """Bytes of all replicas by the brokers that have them, or a broker's error."""
        return log_dir_calls.log_sizes(self._caller)

    def describe_quotas(self) -> Quotas:
        """Limits of all entities, as one broker knows them.

        Raises
        ------
        BrokerError
            We may not see them, or the cluster is older than 2.6.
        """
        return quota_calls.describe(self._caller)

    def describe_quotas_everywhere(self) -> Mapping[BrokerId, Quotas | BrokerError]:
        """Limits of all entities as each broker knows them itself, or its error."""
        return self._everywhere(quota_calls.describe)

    def alter_quotas(
        self, changes: quota_calls.Changes, *, validate_only: bool = False
    ) -> Mapping[QuotaEntity, BrokerError | None]:
        """Set limits, remove those given as None; None for each entity that succeeded."""
        return quota_calls.alter(self._caller, changes, validate_only=validate_only)

    def describe_scram_users(self) -> frozenset[ScramCredential]:
        """Credentials of all users: names, mechanisms and iterations, never hashes.

        Raises
        ------
        BrokerError
            We may not see them, or the cluster is older than 2.7.
        """
        return scram_calls.describe(self._caller)

    def describe_scram_users_everywhere(
        self,
    ) -> Mapping[BrokerId, frozenset[ScramCredential] | BrokerError]:
        """Credentials of all users as each broker knows them itself, or its error."""
        return self._everywhere(scram_calls.describe)

    def alter_scram_users(
        self,
        upsertions: Iterable[ScramUpsertion],
        deletions: Iterable[scram_calls.ScramKey] = (),
    ) -> Mapping[scram_calls.ScramKey, BrokerError | None]:
        """Make or replace credentials, and delete others; None for each that succeeded."""
        return scram_calls.alter(self._caller, upsertions, deletions)


def _refusal_or(broker: BrokerId, answer: Answer | HeliostatError) -> Answer | BrokerError:
    """Return an answer; of a broker that has not given one, that it is silent."""
    if isinstance(answer, ConnectionLost):
        text = f"broker {broker} does not answer: {answer.text}"
        return BrokerError(text, kafka_code=NETWORK_EXCEPTION)
    if isinstance(answer, HeliostatError) and not isinstance(answer, BrokerError):
        raise answer
    return answer
