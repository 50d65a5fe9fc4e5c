"""What fences and protection ask of a real cluster."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from heliostat.clusters.acl import AclBinding, AclListing, Permission, ResourceKind
from heliostat.clusters.admin import ClusterAdmin
from heliostat.clusters.kafka_codes import CLUSTER_AUTHORIZATION_FAILED, SECURITY_DISABLED
from heliostat.errors import BrokerError, HeliostatError
from heliostat.fencing.authorizer import Authorizer, authorizer_of
from heliostat.fencing.fence import View
from heliostat.names import BrokerId, TopicName

NOT_SHOWN = "(not shown)"
"""The class of an authorizer that is there, by brokers that refuse to show their settings."""


class ClusterRules:
    """Requests to one cluster. Every method raises `ConnectionLost` if no broker answers.

    Parameters
    ----------
    admin
        Sends them.
    """

    def __init__(self, admin: ClusterAdmin) -> None:
        self._admin = admin

    def all_rules(self) -> Mapping[BrokerId, View]:
        """Return all rules of topics, as each broker has them, asked itself."""
        asked = self._admin.each_broker(self._admin.security.describe_acls)
        return {broker: _topic_rules(answer) for broker, answer in asked.items()}

    def views(self, principals: Collection[str]) -> Mapping[BrokerId, View]:
        """Return the rules that deny these principals something, as each broker shows them."""
        names = set(principals)
        return {
            broker: view
            if isinstance(view, HeliostatError)
            else frozenset(
                binding
                for binding in view
                if binding.permission is Permission.DENY and binding.rule.principal in names
            )
            for broker, view in self.all_rules().items()
        }

    def create(self, rules: Collection[AclBinding]) -> Mapping[AclBinding, BrokerError | None]:
        """Lay rules; None for each success, also where it was there."""
        return self._admin.security.create_acls(rules)

    def delete(self, rules: Collection[AclBinding]) -> Mapping[AclBinding, BrokerError | None]:
        """Lift rules; None for each success, also where it was not there."""
        answers = self._admin.security.delete_acls(rules)
        return {
            rule: answer if isinstance(answer, BrokerError) else None
            for rule, answer in answers.items()
        }

    def authorizer(self) -> Authorizer:
        """Return how brokers decide, as far as they show it."""
        brokers = self._admin.brokers()
        try:
            shown = [self._admin.describe_broker_configs(broker.broker_id) for broker in brokers]
        except BrokerError as error:
            if error.kafka_code != CLUSTER_AUTHORIZATION_FAILED:
                raise
            return Authorizer(NOT_SHOWN)
        return authorizer_of(shown)

    def topics(self) -> frozenset[TopicName]:
        """Return all topics that we may see."""
        return frozenset(self._admin.describe_topics())

    def may_alter(self) -> bool | BrokerError:
        """Return whether we may change rules."""
        return self._admin.may_alter_cluster()

    def may_write(
        self, topics: Collection[TopicName]
    ) -> Mapping[BrokerId, Mapping[TopicName, bool | BrokerError] | HeliostatError]:
        """Return whether each broker lets us write into topics."""
        return self._admin.may_write(topics)


def _topic_rules(answer: AclListing | HeliostatError) -> View:
    if isinstance(answer, HeliostatError):
        return answer
    if not answer.has_authorizer:
        return BrokerError("the broker has no authorizer", kafka_code=SECURITY_DISABLED)
    return frozenset(
        binding for binding in answer.bindings if binding.rule.kind is ResourceKind.TOPIC
    )
