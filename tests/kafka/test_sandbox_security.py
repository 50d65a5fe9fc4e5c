"""A secured sandbox: every listener and mechanism accepts only the right clients."""

import base64
import json
import socket
import ssl
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError
from kafka.net.sasl.oauth import AbstractTokenProvider
from support.clusters import HEAP_MB, create_topic, until

from heliostat.access import ClusterAccess, SecretRef
from heliostat.clusters.acl import AclRule, Operation, ResourceKind
from heliostat.clusters.opened import opened
from heliostat.errors import SandboxError
from heliostat_sandbox import KAFKA_2_8, ClientAuth, Cluster, Listener, Mechanism, SandboxSecurity

pytestmark = [pytest.mark.kafka, pytest.mark.thorough]

ODD_WORD = 'p"as\\s; word='
SECURITY = SandboxSecurity(
    users={"link": ODD_WORD, "other": "other-secret"},
    client_auth=ClientAuth.REQUIRED,
    authorizer=True,
)
CONNECT_MS = 3000


@pytest.fixture(scope="module")
def secured() -> Iterator[Cluster]:
    with Cluster.start("secured", heap_mb=HEAP_MB, security=SECURITY) as cluster:
        yield cluster


class FileToken(AbstractTokenProvider):
    def __init__(self, path: str) -> None:
        self.path = path

    def token(self) -> str:
        return Path(self.path).read_text()


def topics_seen(access: ClusterAccess) -> set[str]:
    """Topics that a client of another maker sees; raises when it isn't let in."""
    security = access.security
    options = {
        "security_protocol": security.protocol,
        "ssl_cafile": security.ca_file or None,
        "ssl_certfile": security.certificate_file or None,
        "ssl_keyfile": security.key_file or None,
    }
    if security.sasl is not None:
        options["sasl_mechanism"] = security.sasl.mechanism
        if security.sasl.token is not None:
            options["sasl_oauth_token_provider"] = FileToken(security.sasl.token.file)
        else:
            options["sasl_plain_password"] = Path(security.sasl.password.file).read_text()
            options["sasl_plain_username"] = security.sasl.username
    client = opened(
        KafkaAdminClient,
        bootstrap_servers=list(access.bootstrap),
        bootstrap_timeout_ms=CONNECT_MS,
        **options,
    )
    try:
        return {str(topic) for topic in client.list_topics()}
    finally:
        client.close()


def is_let_in(access: ClusterAccess) -> bool:
    try:
        topics_seen(access)
    except (KafkaError, OSError):
        return False
    return True


WAYS = [(Listener.SSL, Mechanism.PLAIN)] + [
    (listener, mechanism)
    for listener in (Listener.SASL_PLAINTEXT, Listener.SASL_SSL)
    for mechanism in Mechanism
]


@pytest.mark.parametrize(("listener", "mechanism"), WAYS)
def test_every_mechanism_gives_the_same_user_the_same_rights(
    secured: Cluster, listener: Listener, mechanism: Mechanism
) -> None:
    mine, others = create_topic(secured), create_topic(secured)
    for user, topic in (("link", mine), ("other", others)):
        rule = AclRule(f"User:{user}", Operation.DESCRIBE, ResourceKind.TOPIC, topic)
        secured.accounts.allow([rule])
    for user, topic, hidden in (("link", mine, others), ("other", others, mine)):
        access = secured.credentials.access(user, listener, mechanism)
        until(lambda a=access, t=topic: t in topics_seen(a), "the right to be in effect")
        assert hidden not in topics_seen(access)


def test_rights_are_revoked_while_it_runs(secured: Cluster) -> None:
    topic = create_topic(secured)
    rule = AclRule("User:link", Operation.DESCRIBE, ResourceKind.TOPIC, topic)
    access = secured.credentials.access("link", Listener.SASL_PLAINTEXT)
    secured.accounts.allow([rule])
    until(lambda: topic in topics_seen(access), "the right")
    assert secured.accounts.take_back([rule]) == 1
    until(lambda: topic not in topics_seen(access), "its end")
    assert secured.accounts.take_back([rule]) == 0


def test_a_wrong_password_certificate_or_token_is_rejected(secured: Cluster) -> None:
    credentials = secured.credentials
    for mechanism in (Mechanism.PLAIN, Mechanism.SCRAM_SHA_256, Mechanism.SCRAM_SHA_512):
        access = credentials.access("link", Listener.SASL_PLAINTEXT, mechanism)
        wrong = SecretRef(file=str(credentials.folder / "other.password"))
        sasl = replace(access.security.sasl, password=wrong)
        assert not is_let_in(replace(access, security=replace(access.security, sasl=sasl)))
    tls = credentials.access("link", Listener.SSL)
    stranger = credentials.stranger
    for change in (
        {"certificate_file": "", "key_file": ""},
        {"certificate_file": str(stranger.certificate), "key_file": str(stranger.key)},
        {"ca_file": str(credentials.stranger_ca_file)},
    ):
        assert not is_let_in(replace(tls, security=replace(tls.security, **change)))
    assert is_let_in(tls)


def test_tokens_expire_and_forged_ones_are_refused(secured: Cluster) -> None:
    access = secured.credentials.access("other", Listener.SASL_PLAINTEXT, Mechanism.OAUTHBEARER)
    path = secured.credentials.renew_token("other", lifetime_s=-60)
    assert not is_let_in(access)
    secured.credentials.renew_token("other")
    assert is_let_in(access)
    head, claims, signature = path.read_text().split(".")
    said = json.loads(base64.urlsafe_b64decode(claims + "=="))
    forged = base64.urlsafe_b64encode(json.dumps({**said, "sub": "admin"}).encode())
    path.write_text(".".join([head, forged.decode().rstrip("="), signature]))
    try:
        assert not is_let_in(access)
    finally:
        secured.credentials.renew_token("other")


def test_one_listener_shows_a_certificate_for_another_host(secured: Cluster) -> None:
    access = secured.credentials.access("link", Listener.WRONG_HOST)
    host, port = access.bootstrap[0].split(":")
    context = ssl.create_default_context(cafile=access.security.ca_file)
    context.load_cert_chain(access.security.certificate_file, access.security.key_file)
    with pytest.raises(ssl.SSLCertVerificationError, match="IP address mismatch"):
        _shake_hands(context, host, int(port))
    context.check_hostname = False
    _shake_hands(context, host, int(port))


def _shake_hands(context: ssl.SSLContext, host: str, port: int) -> None:
    with socket.create_connection((host, port), 5) as plain:
        context.wrap_socket(plain, server_hostname=host).close()


def test_passwords_change_while_it_runs(secured: Cluster) -> None:
    access = secured.credentials.access("other", Listener.SASL_PLAINTEXT)
    secured.accounts.set_passwords({"other": "another one"})
    until(lambda: not is_let_in(access), "the old password to be refused")
    secured.accounts.set_passwords({"other": "other-secret"})
    until(lambda: is_let_in(access), "the old password again")


def test_three_brokers_keep_users_rights_and_certificates_over_a_restart(start_cluster) -> None:
    cluster = start_cluster("secured3", brokers=3, security=SECURITY)
    topic = create_topic(cluster, replicas=3)
    access = cluster.credentials.access("link", Listener.SASL_SSL, Mechanism.SCRAM_SHA_256)
    assert len(access.bootstrap) == 3
    cluster.accounts.allow([AclRule("User:link", Operation.READ, ResourceKind.TOPIC, topic)])
    for broker in cluster.brokers:
        broker.kill()
    for broker in cluster.brokers:
        broker.launch()
    cluster.wait_ready()
    for address in access.bootstrap:
        one = replace(access, bootstrap=(address,))
        until(lambda one=one: topic in topics_seen(one), f"the topic at {address}")


def test_mechanisms_that_are_not_offered_are_refused(secured: Cluster) -> None:
    with pytest.raises(SandboxError, match="no such user"):
        secured.credentials.access("nobody", Listener.SSL)
    with pytest.raises(SandboxError, match="signed tokens"):
        Cluster.start("old", version=KAFKA_2_8, security=SECURITY)
    with pytest.raises(SandboxError, match="no such version"):
        Cluster.start("odd", version="0.8")


def test_no_secret_is_shown_or_readable_by_others(secured: Cluster) -> None:
    folder = secured.credentials.folder
    assert ODD_WORD not in repr(secured.credentials.access("link", Listener.SASL_SSL))
    open_files = [p.name for p in folder.iterdir() if p.stat().st_mode & 0o077]
    assert not [n for n in open_files if n.endswith((".key", ".password", ".token", "-store.pem"))]
