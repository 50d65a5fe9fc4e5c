"""A cluster that limits how fast topics are made (KIP-599): waited for, and told by its name."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import pytest
from kafka.protocol.admin import AlterClientQuotasRequest
from support.clusters import ClusterPair, fresh_name
from support.links import wait_for
from support.provoked import Provoked

from heliostat.clusters.admin import ClusterAdmin, NewTopic
from heliostat.clusters.admin.caller import Caller
from heliostat.errors import BrokerError
from heliostat.names import TopicId, TopicName

pytestmark = [pytest.mark.kafka, pytest.mark.thorough]


@pytest.mark.provokes("THROTTLING_QUOTA_EXCEEDED")
def test_a_controllers_quota_is_waited_for_and_told(
    cluster_pair: ClusterPair, provoked: Provoked
) -> None:
    """Given a quota that passes soon / then all topics are made. Given one that lasts / then it is
    named at once, and other questions are answered nevertheless."""
    address = cluster_pair.target.bootstrap.split(",")
    client, prefix = fresh_name("client"), fresh_name("limited")
    first = TopicName(f"{prefix}-a")
    with ClusterAdmin(address, client_id=client) as admin:

        def made(*names: str) -> Mapping[TopicName, TopicId | BrokerError | None]:
            wanted = [TopicName(f"{prefix}-{name}") for name in names]
            return admin.create_topics([NewTopic(name, 58, 1, {}) for name in wanted])

        limit(address, client, 10.0)  # a burst of 110 partitions, then 10 a second
        began_s = time.monotonic()
        assert not any(isinstance(each, BrokerError) for each in made("a", "b", "c").values())
        assert time.monotonic() - began_s > 0.5

        limit(address, client, 0.05)
        last = wait_for("the quota", spent(made))
        began_s = time.monotonic()
        assert admin.describe_topics([first])[first].partitions
        assert time.monotonic() - began_s < 5
        provoked("THROTTLING_QUOTA_EXCEEDED", last)
        assert "controller_mutation_rate" in last.hint
        changed = admin.alter_configs({first: {"retention.ms": "7"}})
        assert set(changed.values()) == {None}  # no quota is about settings
        refused = admin.delete_topics([first]).values()
        assert [each.kafka_name for each in refused if each] == ["THROTTLING_QUOTA_EXCEEDED"]
        refused = admin.grow_partitions({first: 59}).values()
        assert [each.kafka_name for each in refused if each] == ["THROTTLING_QUOTA_EXCEEDED"]


def spent(
    made: Callable[..., Mapping[TopicName, TopicId | BrokerError | None]],
) -> Callable[[], BrokerError | None]:
    """Make topics until the quota, which takes effect in a moment, refuses one."""

    def look() -> BrokerError | None:
        answers = made(fresh_name("more")).values()
        return next((each for each in answers if isinstance(each, BrokerError)), None)

    return look


def limit(address: list[str], client: str, rate: float) -> None:
    """Let a client create and delete so many partitions a second."""
    kind = AlterClientQuotasRequest.EntryData
    entry = kind(
        entity=[kind.EntityData(entity_type="client-id", entity_name=client)],
        ops=[kind.OpData(key="controller_mutation_rate", value=rate, remove=False)],
    )
    caller = Caller(address, "test", connect_timeout_s=30.0)
    try:
        answer = caller.send_to_controller(
            AlterClientQuotasRequest(entries=[entry], validate_only=False)
        )
        assert [each.error_code for each in answer.entries] == [0]
    finally:
        caller.close()
    time.sleep(1)
