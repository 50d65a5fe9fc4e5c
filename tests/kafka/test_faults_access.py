"""Rights and credentials lost while a link runs, and restored: it continues by itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest
import yaml
from pyspark.sql import SparkSession
from support.clusters import HEAP_MB, fresh_name
from support.faults import Stage, Trial, small_load
from support.links import ends, wait_for, write_config

from heliostat.clusters.acl import AclRule, Operation, ResourceKind
from heliostat.config import load_config
from heliostat.names import TopicName
from heliostat.operate.acls import link_grants
from heliostat_sandbox import Cluster, ClusterSpec, Listener, Mechanism, SandboxSecurity, start_many

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.thorough]

USER, PASSWORD = "link", "link-secret"
SESSION_S = 3.0
"""Brokers ask connections so often who they are (KIP-368): a lost account is felt soon."""
TOKEN_S = 6.0
"""Life of the token that ends in the middle of a run."""
NO_SKEW = "listener.name.sasl_plaintext.oauthbearer.sasl.oauthbearer.clock.skew.seconds"
"""Brokers accept expired tokens for half a minute more, unless this is set."""


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[Stage]:
    """A link with its own rights and no more: by token at the source, by SCRAM at the target."""
    security = SandboxSecurity(
        users={USER: PASSWORD},
        mechanisms=(Mechanism.SCRAM_SHA_256, Mechanism.OAUTHBEARER),
        authorizer=True,
        reauthenticate_ms=int(SESSION_S * 1000),
    )
    specs = [
        ClusterSpec(name, heap_mb=HEAP_MB, security=security, settings={NO_SKEW: "0"})
        for name in ("source", "target")
    ]
    source, target = start_many(specs)
    with source, target:
        path = write_config(
            tmp_path_factory.mktemp("access"),
            *("x:1", "y:1"),
            topics={"include": ["fault-.*"], "refresh_interval_s": 1},
        )
        config = yaml.safe_load(path.read_text())
        config["clusters"] = {"east": by_token(source), "west": by_password(target)}
        path.write_text(yaml.safe_dump(config))
        loaded = load_config(path)
        sides = link_grants(loaded, loaded.links[0], f"User:{USER}")
        for cluster, side in zip((source, target), sides, strict=True):
            cluster.accounts.allow(side.rules)
        stage = Stage(source, target, path, spark)
        try:
            stage.start_link()
            yield stage
        finally:
            if stage.link is not None:
                stage.link.kill_all()


def by_token(cluster: Cluster) -> Mapping[str, object]:
    found = cluster.credentials.access(USER, Listener.SASL_PLAINTEXT, Mechanism.OAUTHBEARER)
    sasl = found.security.sasl
    assert sasl is not None
    assert sasl.token is not None
    security = {
        "protocol": "SASL_PLAINTEXT",
        "mechanism": sasl.mechanism,
        "token": {"file": sasl.token.file},
    }
    return {"bootstrap": list(found.bootstrap), "security": security}


def by_password(cluster: Cluster) -> Mapping[str, object]:
    found = cluster.credentials.access(USER, Listener.SASL_PLAINTEXT, Mechanism.SCRAM_SHA_256)
    sasl = found.security.sasl
    assert sasl is not None
    assert sasl.password is not None
    security = {
        "protocol": "SASL_PLAINTEXT",
        "mechanism": sasl.mechanism,
        "username": USER,
        "password": {"file": sasl.password.file},
    }
    return {"bootstrap": list(found.bootstrap), "security": security}


def right_on(topic: TopicName, operation: Operation) -> AclRule:
    return AclRule(f"User:{USER}", operation, ResourceKind.TOPIC, topic)


def test_rights_on_single_topics_are_revoked_and_granted_again(stage: Stage) -> None:
    """Given five topics / when four lose a right each / then reported; later all continue.

    The right to read the source, to describe the source, to write the target (its mirror is
    read-only then), to describe the mirror.
    """
    loads = [small_load(fresh_name("fault"), rate_hz=100.0) for _ in range(5)]
    *hurt, other = [load.topic for load in loads]
    lost = [
        (stage.source, right_on(hurt[0], Operation.READ)),
        (stage.source, right_on(hurt[1], Operation.DESCRIBE)),
        (stage.target, right_on(hurt[2], Operation.WRITE)),
        (stage.target, right_on(hurt[3], Operation.DESCRIBE)),
    ]
    with Trial(stage, *loads) as trial:

        def at_target() -> dict[str, list[int]]:
            return ends(stage.target.bootstrap, trial.topics)

        def stand_still() -> bool:
            """The hurt ones, while the other gets some hundred records more."""
            before = at_target()
            least = sum(before[other]) + 300
            wait_for("the other to go on", lambda: sum(at_target()[other]) >= least)
            after = at_target()
            return all(after[topic] == before[topic] for topic in hurt)

        for cluster, rule in lost:
            cluster.accounts.deny([rule])
        try:
            for topic in hurt:
                wait_for(f"word of {topic}", lambda topic=topic: is_told(stage, topic))
            wait_for("the hurt ones to stand still", stand_still)
            assert stage.said_of(other) == []
        finally:
            for cluster, rule in lost:
                assert cluster.accounts.take_back([rule]) == 1


def is_told(stage: Stage, topic: TopicName) -> bool:
    """Return whether a topic is reported with exactly its error and what to do."""
    said = stage.said_of(topic)
    words = ("AUTHORIZATION_FAILED", "grant the right")
    return bool(said) and all(word in text for text in said for word in words)


def test_token_expires_and_is_renewed(stage: Stage) -> None:
    """Given a token that expires during the run / when a new one is there / then exact."""
    credentials = stage.source.credentials
    with Trial(stage) as trial:
        credentials.renew_token(USER, TOKEN_S)
        try:
            wait_for("word of the refusal", lambda: is_refused(stage.said_of(trial.topic)))
            before = trial.copied()
            trial.wait_sent(600)
            assert trial.copied() == before
        finally:
            credentials.renew_token(USER)
        trial.wait_copied(600)


def test_account_deleted_and_recreated(stage: Stage) -> None:
    """Given no account at the target / when it is recreated / then exact, by the same link."""
    accounts = stage.target.accounts
    assert stage.link is not None
    with Trial(stage) as trial:
        seen = len(stage.link.text())
        accounts.remove_passwords([USER])
        try:
            wait_for(
                "word of the refusal",
                lambda: is_refused([stage.link.text()[seen:] if stage.link else ""]),
            )
            trial.wait_sent(1500)
        finally:
            accounts.set_passwords({USER: PASSWORD})
        trial.wait_copied(600)
        assert not stage.link.has_ended


def is_refused(said: list[str]) -> bool:
    return any("AUTHENTICATION_REFUSED" in text for text in said)
