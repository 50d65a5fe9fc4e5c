"""Requests for ACLs, quotas and SCRAM users, as they cross: each is encoded and decoded again."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterable
from typing import Any

import pytest
from kafka.protocol.admin import (
    AlterClientQuotasResponse,
    AlterUserScramCredentialsResponse,
    CreateAclsResponse,
    DeleteAclsResponse,
    DescribeAclsResponse,
    DescribeClientQuotasResponse,
    DescribeUserScramCredentialsResponse,
)
from kafka.protocol.metadata import MetadataRequest

from heliostat.clusters.acl import (
    AclBinding,
    AclListing,
    AclRule,
    Operation,
    PatternKind,
    Permission,
    ResourceKind,
)
from heliostat.clusters.admin import acl_calls, each_broker, quota_calls, scram_calls
from heliostat.clusters.admin.security_admin import SecurityAdmin
from heliostat.clusters.client_quota import QuotaEntity
from heliostat.clusters.kafka_codes import NETWORK_EXCEPTION, SECURITY_DISABLED
from heliostat.clusters.scram_user import ScramCredential, ScramMechanism, ScramUpsertion
from heliostat.errors import BrokerError, ConnectionLost
from heliostat.names import BrokerId

READ = AclBinding(
    AclRule("User:a", Operation.READ, ResourceKind.TOPIC, "t.", PatternKind.PREFIXED),
    host="10.0.0.1",
)
NO_ALL = AclBinding(AclRule("User:b", Operation.ALL, ResourceKind.USER, "*"), Permission.DENY)


class Cluster:
    """Answers requests, and keeps them as a broker would read them."""

    def __init__(self, answer: Any, version: int, brokers: dict[int, Any] | None = None) -> None:
        self.answer = answer
        self.version = version
        self.by_broker = brokers or {}
        self.heard: list[Any] = []

    def metadata(self, _: Any) -> Any:
        """Name some of the brokers; each of these names all."""
        return named(list(self.by_broker)[:1])

    def send(self, request: Any, broker: BrokerId | None = None) -> Any:
        if isinstance(request, MetadataRequest):
            return named(self.by_broker)
        sent = request.encode(version=self.version)
        self.heard.append(type(request).decode(sent, version=self.version))
        answer = self.by_broker.get(broker, self.answer) if broker is not None else self.answer
        if isinstance(answer, Exception):
            raise answer
        response = answer(self.heard[-1]) if callable(answer) else answer
        return type(response).decode(response.encode(version=self.version), version=self.version)

    send_to_controller = send


def named(brokers: Iterable[int]) -> Any:
    rows = [type("Row", (), {"node_id": node})() for node in brokers]
    return type("About", (), {"brokers": rows})()


def listing(*bindings: AclBinding, kind: int | None = None) -> DescribeAclsResponse:
    resource = DescribeAclsResponse.DescribeAclsResource
    return DescribeAclsResponse(
        resources=[
            resource(
                resource_type=kind or acl_calls._KINDS[each.rule.kind],
                resource_name=each.rule.name,
                pattern_type=acl_calls._PATTERNS[each.rule.pattern],
                acls=[
                    resource.AclDescription(
                        principal=each.rule.principal,
                        host=each.host,
                        operation=acl_calls.OPERATION_CODES[each.rule.operation],
                        permission_type=acl_calls._PERMISSIONS[each.permission],
                    )
                ],
            )
            for each in bindings
        ]
    )


def test_bindings_are_listed_with_all_their_parts() -> None:
    cluster: Any = Cluster(listing(READ, NO_ALL), 3)
    assert acl_calls.describe(cluster) == AclListing(frozenset({READ, NO_ALL}))
    assert cluster.heard[0].pattern_type_filter == 1  # any, prefixed ones too


def test_a_binding_of_an_unknown_kind_is_listed_and_never_written() -> None:
    cluster: Any = Cluster(listing(READ, kind=99), 3)
    answer = acl_calls.describe(cluster)
    assert isinstance(answer, AclListing)
    (binding,) = answer.bindings
    assert binding.rule.kind is ResourceKind.UNKNOWN
    assert not binding.is_whole
    for write in (acl_calls.create, acl_calls.delete):
        with pytest.raises(ValueError, match="unknown"):
            write(cluster, [binding])


def test_a_cluster_without_an_authorizer_is_a_value() -> None:
    cluster: Any = Cluster(DescribeAclsResponse(error_code=SECURITY_DISABLED), 3)
    assert acl_calls.describe(cluster) == AclListing(has_authorizer=False)


def test_each_broker_is_asked_itself() -> None:
    answers = {1: listing(READ), 2: listing(), 3: ConnectionLost("away"), 4: listing(NO_ALL)}
    answers[4] = DescribeAclsResponse(error_code=31, error_message="not you")
    cluster: Any = Cluster(None, 2, answers)
    by_broker = SecurityAdmin(cluster).describe_acls_everywhere()
    assert by_broker[BrokerId(1)] == AclListing(frozenset({READ}))
    assert by_broker[BrokerId(2)] == AclListing()
    assert isinstance(by_broker[BrokerId(3)], BrokerError)
    assert isinstance(by_broker[BrokerId(4)], BrokerError)
    assert "not you" in str(by_broker[BrokerId(4)])


def test_one_that_hangs_is_silent_and_keeps_nobody_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    over = threading.Event()

    def hang(_: Any) -> Any:
        over.wait(20)
        return listing()

    monkeypatch.setattr(each_broker, "LOOK_S", 0.1)
    cluster: Any = Cluster(None, 2, {1: listing(READ), 2: hang})
    by_broker = SecurityAdmin(cluster).describe_acls_everywhere()
    over.set()
    silent = by_broker[BrokerId(2)]
    assert isinstance(silent, BrokerError)
    assert silent.kafka_code == NETWORK_EXCEPTION
    assert by_broker[BrokerId(1)] == AclListing(frozenset({READ}))


def test_bindings_are_created_and_deleted_one_by_one() -> None:
    result = CreateAclsResponse.AclCreationResult
    made: Any = Cluster(
        CreateAclsResponse(results=[result(error_code=0), result(error_code=35)]), 3
    )
    answers = acl_calls.create(made, [NO_ALL, READ])
    assert answers[READ] is None
    assert isinstance(answers[NO_ALL], BrokerError)
    first = made.heard[0].creations[0]
    assert (first.resource_name, first.resource_pattern_type, first.host) == ("t.", 4, "10.0.0.1")

    row = DeleteAclsResponse.DeleteAclsFilterResult
    match = row.DeleteAclsMatchingAcl
    there = match(
        resource_type=2,
        resource_name="t.",
        pattern_type=4,
        principal="User:a",
        host="10.0.0.1",
        operation=3,
        permission_type=3,
    )
    cluster: Any = Cluster(
        DeleteAclsResponse(filter_results=[row(matching_acls=[there]), row(matching_acls=[])]), 3
    )
    assert acl_calls.delete(cluster, [READ, NO_ALL]) == {READ: True, NO_ALL: False}
    assert [each.pattern_type_filter for each in cluster.heard[0].filters] == [4, 3]


def test_quotas_are_listed_and_changed() -> None:
    entry = DescribeClientQuotasResponse.EntryData
    entity = [
        entry.EntityData(entity_type="user", entity_name="a"),
        entry.EntityData(entity_type="client-id", entity_name=None),
    ]
    values = [entry.ValueData(key="producer_byte_rate", value=1e6)]
    cluster: Any = Cluster(
        DescribeClientQuotasResponse(entries=[entry(entity=entity, values=values)]), 1
    )
    a = QuotaEntity((("client-id", None), ("user", "a")))
    assert quota_calls.describe(cluster) == {a: {"producer_byte_rate": 1e6}}

    entry = AlterClientQuotasResponse.EntryData
    entity = [
        entry.EntityData(entity_type="user", entity_name="a"),
        entry.EntityData(entity_type="client-id", entity_name=None),
    ]
    changed: Any = Cluster(
        AlterClientQuotasResponse(entries=[entry(error_code=0, entity=entity)]), 1
    )
    changes = {a: {"producer_byte_rate": 2e6, "request_percentage": None}}
    assert quota_calls.alter(changed, changes, validate_only=False) == {a: None}
    operations = changed.heard[0].entries[0].ops
    assert [(each.key, each.value, each.remove) for each in operations] == [
        ("producer_byte_rate", 2e6, False),
        ("request_percentage", 0.0, True),
    ]


def test_scram_users_are_listed_and_made_of_salted_passwords() -> None:
    row = DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult
    info = [row.CredentialInfo(mechanism=2, iterations=8192)]
    cluster: Any = Cluster(
        DescribeUserScramCredentialsResponse(results=[row(user="a", credential_infos=info)]), 0
    )
    credential = ScramCredential("a", ScramMechanism.SCRAM_SHA_512, 8192)
    assert scram_calls.describe(cluster) == {credential}

    done = AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult
    changed: Any = Cluster(
        AlterUserScramCredentialsResponse(results=[done(user="a", error_code=0)]), 0
    )
    upsertion = ScramUpsertion.of(credential, "secret", b"salt")
    assert scram_calls.alter(changed, [upsertion]) == {("a", ScramMechanism.SCRAM_SHA_512): None}
    (sent,) = changed.heard[0].upsertions
    assert bytes(sent.salted_password) == hashlib.pbkdf2_hmac("sha512", b"secret", b"salt", 8192)
    assert "secret" not in repr(upsertion)
