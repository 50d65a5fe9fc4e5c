"""ACLs, client quotas and SCRAM users: the broker takes what we send, and lists it again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from support.clusters import HEAP_MB, until

from heliostat.clusters.acl import (
    AclBinding,
    AclListing,
    AclRule,
    Operation,
    PatternKind,
    Permission,
    ResourceKind,
)
from heliostat.clusters.admin import ClusterAdmin
from heliostat.clusters.client_quota import QuotaEntity
from heliostat.clusters.scram_user import ScramCredential, ScramMechanism, ScramUpsertion
from heliostat.errors import BrokerError
from heliostat_sandbox import Cluster, Listener, Mechanism, SandboxSecurity

pytestmark = [pytest.mark.kafka, pytest.mark.thorough]

SECURITY = SandboxSecurity(users={"link": "secret"}, authorizer=True)


@pytest.fixture(scope="module")
def secured() -> Iterator[Cluster]:
    with Cluster.start("secured", heap_mb=HEAP_MB, security=SECURITY) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def admin(secured: Cluster) -> Iterator[ClusterAdmin]:
    with ClusterAdmin(secured.bootstrap) as client:
        yield client


def listed(admin: ClusterAdmin) -> frozenset[AclBinding]:
    answer = admin.security.describe_acls()
    assert isinstance(answer, AclListing)
    return answer.bindings


def test_bindings_of_every_kind_come_back_as_they_were_made(admin: ClusterAdmin) -> None:
    bindings = {
        AclBinding(
            AclRule("User:a", operation, ResourceKind.TOPIC, f"t.{operation.name}", pattern),
            permission,
            host,
        )
        for operation in (Operation.ALL, Operation.READ, Operation.WRITE, Operation.ALTER_CONFIGS)
        for pattern in (PatternKind.LITERAL, PatternKind.PREFIXED)
        for permission in (Permission.ALLOW, Permission.DENY)
        for host in ("*", "10.0.0.1")
    }
    for kind, operation, name in (
        (ResourceKind.GROUP, Operation.READ, "*"),
        (ResourceKind.TRANSACTIONAL_ID, Operation.WRITE, "x"),
        (ResourceKind.CLUSTER, Operation.IDEMPOTENT_WRITE, "kafka-cluster"),
        (ResourceKind.DELEGATION_TOKEN, Operation.DESCRIBE, "d"),
        (ResourceKind.USER, Operation.DESCRIBE_TOKENS, "User:a"),
    ):
        bindings.add(AclBinding(AclRule("User:b", operation, kind, name)))
    assert set(admin.security.create_acls(bindings).values()) == {None}
    until(lambda: listed(admin) == bindings, "all bindings")
    everywhere = admin.security.describe_acls_everywhere()
    assert list(everywhere.values()) == [AclListing(frozenset(bindings))]

    one, *rest = sorted(bindings, key=lambda each: each.sort_key)
    assert admin.security.delete_acls([one]) == {one: True}
    until(lambda: listed(admin) == set(rest), "one less: others that differ in a part stay")
    assert admin.security.delete_acls([one]) == {one: False}
    assert set(admin.security.delete_acls(rest).values()) == {True}
    until(lambda: not listed(admin), "the end of all")


def test_a_binding_that_brokers_refuse_keeps_no_other_back(admin: ClusterAdmin) -> None:
    good = AclBinding(AclRule("User:a", Operation.READ, ResourceKind.TOPIC, "good"))
    bad = AclBinding(AclRule("nobody", Operation.READ, ResourceKind.TOPIC, "bad"))
    answers = admin.security.create_acls([good, bad])
    assert answers[good] is None
    assert isinstance(answers[bad], BrokerError)
    assert admin.security.delete_acls([good]) == {good: True}


def test_without_the_right_to_describe_the_cluster_it_is_an_error(secured: Cluster) -> None:
    access = secured.credentials.access("link", Listener.SASL_PLAINTEXT, Mechanism.SCRAM_SHA_512)
    with ClusterAdmin(access) as client:
        answer = client.security.describe_acls()
    assert isinstance(answer, BrokerError)
    assert answer.kafka.name == "CLUSTER_AUTHORIZATION_FAILED"


def test_quotas_come_back_as_they_were_set(admin: ClusterAdmin) -> None:
    both = QuotaEntity.of({"user": "a", "client-id": None})
    user = QuotaEntity.of({"user": "a"})
    changes = {both: {"producer_byte_rate": 1e6}, user: {"request_percentage": 50.0}}
    assert admin.security.alter_quotas(changes, validate_only=True) == {both: None, user: None}
    assert not admin.security.describe_quotas()
    assert admin.security.alter_quotas(changes) == {both: None, user: None}
    until(lambda: admin.security.describe_quotas() == changes, "both")
    gone = {both: {"producer_byte_rate": None}, user: {"request_percentage": None}}
    assert admin.security.alter_quotas(gone) == {both: None, user: None}
    until(lambda: not admin.security.describe_quotas(), "the end of both")


def test_a_user_that_was_made_is_let_in(secured: Cluster, admin: ClusterAdmin) -> None:
    made = [ScramCredential("new", mechanism, 8192) for mechanism in ScramMechanism]
    upsertions = [ScramUpsertion.of(each, "his word", b"salt of him") for each in made]
    keys = [("new", mechanism) for mechanism in ScramMechanism]
    assert admin.security.alter_scram_users(upsertions) == dict.fromkeys(keys)
    until(lambda: admin.security.describe_scram_users() >= set(made), "the user")
    word = secured.credentials.folder / "new.password"
    word.write_text("his word")
    access = secured.credentials.access("link", Listener.SASL_PLAINTEXT, Mechanism.SCRAM_SHA_256)
    sasl = replace(
        access.security.sasl,
        username="new",
        password=replace(access.security.sasl.password, file=str(word)),
    )
    access = replace(access, security=replace(access.security, sasl=sasl))
    with ClusterAdmin(access) as client:
        assert client.cluster_id()
    assert admin.security.alter_scram_users([], keys) == dict.fromkeys(keys)
