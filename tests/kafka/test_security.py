"""Secured listeners of a real broker: each listener, each refusal, renewed sessions, a link."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.clusters import HEAP_MB, create_topic, fresh_name, until
from support.command import heliostat
from support.links import (
    LinkProcess,
    RunningLink,
    ends,
    wait_for,
    wait_level,
    words_of,
    write_config,
)
from support.provoked import Provoked
from support.records import Sample, encode, write_batches

from heliostat.access import ClusterAccess, SecretRef, Security, TokenEndpoint
from heliostat.clusters.admin import ClusterAdmin
from heliostat.clusters.kafka_codes import LATEST
from heliostat.clusters.keyed_topic import KeyedTopic
from heliostat.clusters.wire.cluster import WireCluster
from heliostat.clusters.wire.connection import DialSettings
from heliostat.errors import (
    AccessRefused,
    AuthenticationRefused,
    ConnectionLost,
    CredentialsUnreadable,
    TlsFailed,
)
from heliostat.names import PartitionId, TopicName, TopicPartition
from heliostat.verify.read_requests import Isolation
from heliostat.verify.reader import LogReader
from heliostat_sandbox import (
    ClientAuth,
    Cluster,
    ClusterSpec,
    Listener,
    Mechanism,
    SandboxSecurity,
    start_many,
)
from heliostat_sandbox.load import LoadGenerator, TopicLoad
from heliostat_sandbox.ports import free_ports

pytestmark = [pytest.mark.kafka, pytest.mark.core]

USER = "link"
CANARY = "canary-7f3a91c2e5"
"""The user's password at both clusters: found anywhere, it has leaked."""
SESSION_S = 5.0
"""Renewed after 85 % of it: what is left must outlast a stall of a busy machine."""
PACE_S = 0.05
"""Between two uses of a session: it is used all the time, and need not keep a core busy."""
REFUSED_WITHIN_S = 25.0


@pytest.fixture(scope="module")
def secured() -> Iterator[tuple[Cluster, Cluster]]:
    """Two clusters with all listeners, whose SASL sessions end after some seconds."""
    security = SandboxSecurity(
        users={USER: CANARY},
        client_auth=ClientAuth.REQUIRED,
        reauthenticate_ms=int(SESSION_S * 1000),
    )
    names = ("east", "west")
    specs = [ClusterSpec(name, heap_mb=HEAP_MB, security=security) for name in names]
    east, west = start_many(specs)
    with east, west:
        yield east, west


def door(
    cluster: Cluster, listener: Listener, mechanism: Mechanism = Mechanism.SCRAM_SHA_512
) -> ClusterAccess:
    return cluster.credentials.access(USER, listener, mechanism)


def without_password(found: ClusterAccess, secret: SecretRef) -> ClusterAccess:
    sasl = found.security.sasl
    assert sasl is not None
    return replace(found, security=replace(found.security, sasl=replace(sasl, password=secret)))


def by_hot_path(cluster: ClusterAccess, topic: str) -> int:
    """Metadata, an append over a data connection, and where the log ends then."""
    write_batches(cluster, topic, [encode([Sample(None, b"x" * 200_000, 1_700_000_000_000)])])
    with contextlib.closing(WireCluster(cluster, DialSettings())) as wire:
        name, only = TopicName(topic), PartitionId(0)
        leader = wire.metadata([name])[name].partitions[only].broker
        partition = TopicPartition(name, only)
        end = wire.list_offsets(leader, [partition], timestamp=LATEST)[partition]
        assert isinstance(end, int), end
        return end


def by_adapter(cluster: ClusterAccess, topic: str) -> int:
    """Admin, a state topic's producer and consumer, and the reader of `verify`."""
    with ClusterAdmin(cluster) as admin:
        assert admin.describe_topics([TopicName(topic)])[TopicName(topic)].error is None
    with KeyedTopic(cluster, fresh_name("state")) as state:
        state.ensure(1)
        state.write("a", {"b": 1})
        assert state.read_all() == {"a": {"b": 1}}
    partition = TopicPartition(TopicName(topic), PartitionId(0))
    with LogReader(cluster, Isolation.READ_COMMITTED) as reader:
        reader.topics([topic])
        return reader.bounds([partition])[partition].end


DOORS = [
    (Listener.PLAINTEXT, Mechanism.PLAIN),
    (Listener.SSL, Mechanism.PLAIN),
    *((Listener.SASL_PLAINTEXT, mechanism) for mechanism in Mechanism),
    *((Listener.SASL_SSL, mechanism) for mechanism in Mechanism),
]


@pytest.mark.parametrize(
    ("listener", "mechanism"), DOORS, ids=lambda value: getattr(value, "value", "")
)
def test_each_listener_accepts_the_hot_path_and_the_adapter(
    secured: tuple[Cluster, Cluster], listener: Listener, mechanism: Mechanism
) -> None:
    """Given a listener and a mechanism / when both paths connect / then records are copied."""
    topic = create_topic(secured[0])
    found = door(secured[0], listener, mechanism)
    assert by_hot_path(found, topic) == 1
    assert by_adapter(found, topic) == 1


def wrong_password(cluster: Cluster, at: Path) -> ClusterAccess:
    (at / "wrong").write_text("not it")
    return without_password(door(cluster, Listener.SASL_SSL), SecretRef(str(at / "wrong")))


def no_password(cluster: Cluster, at: Path) -> ClusterAccess:
    return without_password(door(cluster, Listener.SASL_SSL), SecretRef(str(at / "none")))


def expired_token(cluster: Cluster, at: Path) -> ClusterAccess:
    token = at / "token"
    token.write_text(cluster.credentials.token(USER, -600))
    found = door(cluster, Listener.SASL_SSL, Mechanism.OAUTHBEARER)
    sasl = found.security.sasl
    assert sasl is not None
    return replace(
        found,
        security=replace(found.security, sasl=replace(sasl, token=SecretRef(str(token)))),
    )


def other_protocol(cluster: Cluster, security: Security, listener: Listener) -> ClusterAccess:
    return replace(door(cluster, listener), security=security)


def stranger(cluster: Cluster, _: Path) -> ClusterAccess:
    found, shown = door(cluster, Listener.SSL), cluster.credentials.stranger
    security = replace(
        found.security, certificate_file=str(shown.certificate), key_file=str(shown.key)
    )
    return replace(found, security=security)


def no_certificate(cluster: Cluster, _: Path) -> ClusterAccess:
    found = door(cluster, Listener.SSL)
    return replace(found, security=replace(found.security, certificate_file="", key_file=""))


def untrusted(cluster: Cluster, _: Path) -> ClusterAccess:
    found = door(cluster, Listener.SSL)
    authority = str(cluster.credentials.stranger_ca_file)
    return replace(found, security=replace(found.security, ca_file=authority))


def sasl_to_plain(cluster: Cluster, _: Path) -> ClusterAccess:
    asked = door(cluster, Listener.SASL_PLAINTEXT).security
    return other_protocol(cluster, asked, Listener.PLAINTEXT)


REFUSALS: dict[str, tuple[Callable[[Cluster, Path], ClusterAccess], type, str]] = {
    "wrong password": (wrong_password, AuthenticationRefused, "refuses our credentials"),
    "expired token": (expired_token, AuthenticationRefused, "refuses our credentials"),
    "no password file": (no_password, CredentialsUnreadable, "none can't be read"),
    "certificate of another host": (
        lambda cluster, _: door(cluster, Listener.WRONG_HOST),
        TlsFailed,
        "for another host",
    ),
    "broker not trusted": (untrusted, TlsFailed, "not trusted"),
    "no client certificate": (no_certificate, TlsFailed, "refuses our certificate"),
    "client certificate not trusted": (stranger, TlsFailed, "refuses our certificate"),
    "SASL asked of a plain listener": (
        sasl_to_plain,
        AuthenticationRefused,
        "speaks no SASL",
    ),
    "TLS asked of a plain listener": (
        lambda cluster, _: other_protocol(
            cluster, door(cluster, Listener.SSL).security, Listener.PLAINTEXT
        ),
        TlsFailed,
        "one without TLS",
    ),
    "plain asked of a TLS listener": (
        lambda cluster, _: other_protocol(cluster, Security(), Listener.SSL),
        ConnectionLost,
        "security.protocol",
    ),
    "plain asked of a SASL listener": (
        lambda cluster, _: other_protocol(cluster, Security(), Listener.SASL_PLAINTEXT),
        ConnectionLost,
        "check security.protocol",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_a_real_brokers_refusal_is_classified(
    case: str, secured: tuple[Cluster, Cluster], tmp_path: Path
) -> None:
    """Given a misfit / when both paths connect / then verdict and reason are reported, soon."""
    build, kind, text = REFUSALS[case]
    found = build(secured[0], tmp_path)
    began_s = time.monotonic()
    with pytest.raises(ConnectionLost) as caught:
        by_hot_path(found, "none")
    assert isinstance(caught.value, kind), caught.value
    assert text in str(caught.value)
    assert CANARY not in str(caught.value)
    if issubclass(kind, AccessRefused):
        with pytest.raises(kind, match=text):
            ClusterAdmin(found)
        with pytest.raises(kind, match=text):
            LogReader(found, Isolation.READ_COMMITTED)
    assert time.monotonic() - began_s < REFUSED_WITHIN_S


TOLD = {
    "wrong password": "AUTHENTICATION_REFUSED",
    "no password file": "CREDENTIALS_UNREADABLE",
    "broker not trusted": "TLS_FAILED",
    "plain asked of a SASL listener": "CONNECTION_LOST",
}


@pytest.mark.provokes(
    "AUTHENTICATION_REFUSED", "CREDENTIALS_UNREADABLE", "TLS_FAILED", "CONNECTION_LOST"
)
def test_each_refusal_has_its_code(
    secured: tuple[Cluster, Cluster], tmp_path: Path, provoked: Provoked
) -> None:
    """Given a misfit of each kind / when the cluster is observed / then its code is reported."""
    for case, code in TOLD.items():
        with pytest.raises(ConnectionLost) as caught:
            by_hot_path(REFUSALS[case][0](secured[0], tmp_path), "none")
        provoked(code, caught.value)


@pytest.mark.provokes("TOKEN_REFUSED", how="the endpoint it asks is a listener that speaks no HTTP")
def test_a_token_endpoint_without_tokens_is_reported(
    secured: tuple[Cluster, Cluster], tmp_path: Path, provoked: Provoked
) -> None:
    """Given a broker's TLS listener as endpoint / when asked for a token / then reported."""
    found = door(secured[0], Listener.SASL_PLAINTEXT, Mechanism.OAUTHBEARER)
    sasl = found.security.sasl
    assert sasl is not None
    secret = tmp_path / "secret"
    secret.write_text(CANARY)
    port = door(secured[0], Listener.SSL).bootstrap[0].rpartition(":")[2]
    asked = TokenEndpoint(f"http://127.0.0.1:{port}/token", USER, SecretRef(str(secret)))
    sasl = replace(sasl, token=None, token_endpoint=asked)
    with pytest.raises(ConnectionLost) as caught:
        by_hot_path(replace(found, security=replace(found.security, sasl=sasl)), "none")
    provoked("TOKEN_REFUSED", caught.value)
    assert CANARY not in str(caught.value)


@pytest.mark.thorough
@pytest.mark.parametrize("mechanism", [Mechanism.SCRAM_SHA_256, Mechanism.OAUTHBEARER])
def test_sessions_are_renewed_while_they_are_used(
    secured: tuple[Cluster, Cluster], mechanism: Mechanism
) -> None:
    """Given short sessions / when one connection is used for three of them / then none is lost."""
    topic = create_topic(secured[0])
    found = door(secured[0], Listener.SASL_SSL, mechanism)
    name, only = TopicName(topic), PartitionId(0)
    partition = TopicPartition(name, only)
    with (
        contextlib.closing(WireCluster(found, DialSettings())) as wire,
        ClusterAdmin(found) as admin,
    ):
        leader = wire.metadata([name])[name].partitions[only].broker
        connection = wire.open_data(leader)
        with contextlib.closing(connection):
            until_s = time.monotonic() + 2.5 * SESSION_S
            while time.monotonic() < until_s:
                pipelined(connection, 20)
                answer = wire.list_offsets(leader, [partition], timestamp=LATEST)
                assert answer == {partition: 0}
                assert admin.cluster_id() == secured[0].cluster_id
                time.sleep(PACE_S)


def pipelined(connection: Any, requests: int) -> None:
    """Ask for versions many times at once; each is answered, in order."""
    from kafka.protocol.metadata import ApiVersionsRequest

    from heliostat.clusters.wire.primitives import request_header

    numbers = []
    for _ in range(requests):
        number = connection.next_correlation_id()
        header = request_header(ApiVersionsRequest.API_KEY, 0, number, "test", flexible=False)
        connection.send([header])
        numbers.append(number)
    assert [connection.receive(10).correlation_id for _ in numbers] == numbers


def secured_config(
    folder: Path, east: Cluster, west: Cluster, topic: str, spark: dict[str, Any]
) -> Path:
    """A link over SASL_SSL with SCRAM; one password from a file, the other from a variable."""
    path = write_config(folder, "x:1", "y:1", topics={"include": [topic]}, lanes={"lease_s": 12})
    config = yaml.safe_load(path.read_text())
    for alias, cluster in (("east", east), ("west", west)):
        found = door(cluster, Listener.SASL_SSL)
        sasl = found.security.sasl
        assert sasl is not None
        assert sasl.password is not None
        config["clusters"][alias] = {
            "bootstrap": list(found.bootstrap),
            "security": {
                "protocol": "SASL_SSL",
                "ca_file": found.security.ca_file,
                "mechanism": sasl.mechanism,
                "username": sasl.username,
                "password": {"file": sasl.password.file},
            },
        }
    config["clusters"]["west"]["security"]["password"] = {"env": "HELIOSTAT_TEST_SECRET"}
    config["spark"] |= spark
    path.write_text(yaml.safe_dump(config))
    return path


def state_bytes(cluster: Cluster) -> bytes:
    """All that stands in the link's topics at the target."""
    found = bytearray()
    with (
        ClusterAdmin(cluster.bootstrap) as admin,
        LogReader(door(cluster, Listener.PLAINTEXT), Isolation(0)) as log,
    ):
        names = [name for name in admin.describe_topics() if name.startswith("heliostat.")]
        log.topics(names)
        written = 0
        for name in names:
            partition = TopicPartition(name, PartitionId(0))
            bounds = log.bounds([partition])[partition]
            if not bounds.end:
                continue  # such as gaps and offsets, of which there are none
            written += 1
            found += log.fetch_alone(partition, bounds.start).data
    assert written >= 3, names
    return bytes(found)


@pytest.mark.thorough
@pytest.mark.spark
def test_a_link_over_tls_and_scram_copies_all_and_shows_no_secret(
    secured: tuple[Cluster, Cluster], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given short sessions under load / when copied / then verified, and no password anywhere."""
    east, west = secured
    monkeypatch.setenv("HELIOSTAT_TEST_SECRET", CANARY)
    topic = create_topic(east, partitions=3)
    [port] = free_ports(1)
    events = tmp_path / "events"
    events.mkdir()
    settings = {
        "spark.ui.enabled": "true",
        "spark.ui.port": str(port),
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.as_uri(),
    }
    config = secured_config(tmp_path, east, west, topic, {"conf": settings})
    loads = [TopicLoad(topic, 3, 500.0)]
    told: dict[str, bytes] = {}
    with LinkProcess(config) as link:
        over_s = time.monotonic() + 4 * SESSION_S
        with LoadGenerator(east.bootstrap, loads, seed=3):
            until(lambda: time.monotonic() > over_s, "load over several sessions")
        wait_level(link, east.bootstrap, west.bootstrap, {topic: 3})
        told["arguments"] = b"\n".join(
            b" ".join(map(str.encode, words_of(process))) for process in link.tree()
        )
        page = f"http://127.0.0.1:{port}"
        [app] = json.loads(fetched(f"{page}/api/v1/applications"))
        told["Spark's settings"] = fetched(f"{page}/api/v1/applications/{app['id']}/environment")
        told["Spark's page"] = fetched(f"{page}/environment/")
        told["Spark's jobs"] = fetched(f"{page}/api/v1/applications/{app['id']}/jobs")
        until(lambda: heliostat(config, "status").returncode == 0, "a status in sync")
        told["status"] = command(config, "status", "--json").encode()
        told["state topics"] = state_bytes(west)
        assert link.stop() == 0
        told["log"] = link.text().encode()
    verified = command(config, "verify", "--complete", "--json")
    report = json.loads(verified)
    assert report["records"] == sum(ends(west.bootstrap, {topic: 3})[topic]) > 1000
    assert report["lost"] == report["doubled"] == report["reordered"] == report["different"] == 0
    told["verify"], told["plan"] = verified.encode(), command(config, "plan").encode()
    told["Spark's events"] = b"".join(
        path.read_bytes() for path in sorted(events.rglob("*")) if path.is_file()
    )
    for code in (b"CONNECTION_LOST", b"AUTHENTICATION_REFUSED"):
        assert code not in told["state topics"] + told["log"], "a session was not renewed in time"
    for where, text in told.items():
        assert text, f"nothing was read of {where}"
        assert CANARY.encode() not in text, f"the password stands in {where}"


@pytest.mark.thorough
@pytest.mark.spark
def test_a_changed_password_is_reported_and_the_new_one_is_used(
    secured: tuple[Cluster, Cluster], tmp_path: Path
) -> None:
    """Given a link under load / when the source's password changes / then reported, then used."""
    east, west = secured
    topic = create_topic(east)
    config = secured_config(tmp_path, east, west, topic, {})
    word = tmp_path / "password"
    word.write_text(CANARY)
    settings = yaml.safe_load(config.read_text())
    sections = {alias: each["security"] for alias, each in settings["clusters"].items()}
    sections["west"]["password"] = sections["east"]["password"]  # the same word, which stays
    sections["east"]["password"] = {"file": str(word)}
    config.write_text(yaml.safe_dump(settings))

    def copied() -> int:
        return sum(ends(west.bootstrap, {topic: 1})[topic])

    with RunningLink(config) as link:
        with LoadGenerator(east.bootstrap, [TopicLoad(topic, 1, 200.0)], seed=4):
            wait_for("records at the target", lambda: copied() > 100)
            east.accounts.set_passwords({USER: "changed"})
            try:
                wait_for(
                    "the refusal in the status",
                    lambda: "AUTHENTICATION_REFUSED" in status_of(config),
                )
                word.write_text("changed")
                held = copied()
                wait_for("more records at the target", lambda: copied() > held + 100)
            finally:
                east.accounts.set_passwords({USER: CANARY})
                word.write_text(CANARY)
        wait_level(link, east.bootstrap, west.bootstrap, {topic: 1})
        assert link.stop() == 0
    verified = heliostat(config, "verify", "--complete", "--json")
    assert CANARY not in verified.stderr
    report = verified.json
    assert report["records"] == copied()
    assert report["lost"] == report["doubled"] == report["reordered"] == report["different"] == 0


def status_of(config: Path) -> str:
    """Return the output of `heliostat status`, whatever its exit code."""
    return heliostat(config, "status", "--json").stdout


def command(config: Path, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "heliostat.cli.entry", *words, "-c", str(config)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert CANARY not in done.stderr
    return done.stdout


def fetched(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310  # Spark's, on loopback
        return bytes(answer.read())
