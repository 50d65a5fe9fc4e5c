"""Real-life configurations of MirrorMaker 2, and the import of each property."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from heliostat.config import LinkConfig, load_config
from heliostat.errors import ConfigError
from heliostat.mm2.config import import_mm2
from heliostat.mm2.config_values import Fate, Imported
from heliostat.topics.naming import naming_of
from heliostat.topics.select import selection_of

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
TWO = "clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nA->B.enabled = true\n"


def dedicated(more: str = "", **options: Any) -> Imported:
    return import_mm2({"mm2.properties": TWO + more}, **options)


def links(found: Imported, tmp_path: Path) -> list[LinkConfig]:
    """As our own reader sees them."""
    file = tmp_path / "heliostat.yaml"
    file.write_text(found.to_yaml(), encoding="utf-8")
    return list(load_config(file, env={"BOOT": "x:1"}).links)


def fates(found: Imported) -> dict[str, Fate]:
    return {each.origin.name: each.fate for each in found.findings}


def text_of(found: Imported, name: str) -> str:
    return next(each.text for each in found.findings if each.origin.name == name)


# -- dedicated mode ----------------------------------------------------------------------------


def test_the_smallest_file_becomes_a_link_with_mirror_makers_defaults(tmp_path: Path) -> None:
    (link,) = links(dedicated(), tmp_path)
    selection, naming = selection_of(link), naming_of(link)
    assert (link.name, link.source, link.target) == ("A-to-B", "A", "B")
    assert naming.target_name("orders") == "A.orders"
    assert selection.selects("orders")
    assert selection.selects("C.orders")
    for never in ("__consumer_offsets", "mm2-offsets.A.internal", "x.replica", ".hidden"):
        assert not selection.selects(never)
    assert not selection.selects("B.orders")  # it came from there
    assert not selection.selects("C.B.orders")
    assert selection.selects("B")
    assert naming.target_name("heartbeats") == "A.heartbeats"
    assert not link.groups.sync
    assert link.checkpoints.emit
    assert link.heartbeats.emit  # the pair B->A writes them into A, enabled or not


def test_every_property_gets_an_answer() -> None:
    found = dedicated("a.b = c\nreplication.factor = 2\nB.foo = 1\nproducer.acks = 1\n#x = y\n")
    assert list(fates(found)) == [
        *("clusters", "A.bootstrap.servers", "B.bootstrap.servers", "A->B.enabled"),
        *("a.b", "replication.factor", "B.foo", "producer.acks"),
    ]
    assert all(each.text for each in found.findings)


@pytest.mark.parametrize(
    ("line", "section", "key", "value"),
    [
        ("topics = a\\\\..*, b-c", "topics", "include", ("a\\..*", "b-c")),
        ("A->B.topics = only", "topics", "include", ("only",)),
        ("topics = ", "topics", "include", ()),
        ("replication.factor = 3", "topics", "replication_factor", 3),
        ("replication.policy.separator = _", "topics", "naming", "A_"),
        ("A.consumer.auto.offset.reset = latest", "topics", "start", "latest"),
        ("sync.topic.configs.enabled = false", "topics", "sync_configs", False),
        ("A->B.use.defaults.from = source", "topics", "sync_broker_values", True),
        ("refresh.topics.interval.seconds = 30", "topics", "refresh_interval_s", 30),
        ("sync.topic.configs.interval.seconds = 0", "topics", "refresh_interval_s", 0.1),
        ("B.producer.compression.type = zstd", "records", "compression", "zstd"),
        ("A->B.producer.override.compression.type = lz4", "records", "compression", "lz4"),
        ("A.consumer.fetch.max.bytes = 99999999", "records", "fetch_bytes_max", 55 << 20),
        (
            "A.consumer.max.partition.fetch.bytes = 2097152",
            "records",
            "partition_fetch_bytes_max",
            2097152,
        ),
        (
            "B.producer.max.in.flight.requests.per.connection = 3",
            "records",
            "in_flight_max",
            3,
        ),
        ("B.offset.storage.replication.factor = 2", "state", "replication_factor", 2),
        ("offset.storage.replication.factor = 1", "state", "replication_factor", 1),
        ("groups = app-.*, one", "groups", "include", ("app-.*", "one")),
        ("groups.exclude = tmp-.*", "groups", "exclude", ("tmp-.*",)),
        ("groups.blacklist = tmp-.*", "groups", "exclude", ("tmp-.*",)),
        ("sync.group.offsets.enabled = true", "groups", "sync", True),
        ("sync.group.offsets.interval.seconds = 20", "groups", "interval_s", 20),
        ("heartbeats.replication.enabled = false", "heartbeats", "mirror", False),
        ("heartbeats.replication.enabled = false", "heartbeats", "emit", False),
        ("emit.heartbeats.enabled = false", "heartbeats", "emit", False),
        ("B->A.emit.heartbeats.enabled = false", "heartbeats", "emit", False),
        ("emit.heartbeats.interval.seconds = 5", "heartbeats", "interval_s", 5),
        ("heartbeats.topic.replication.factor = 2", "heartbeats", "replication_factor", 2),
        ("emit.checkpoints.enabled = false", "checkpoints", "emit", False),
        ("checkpoints.topic.replication.factor = 2", "checkpoints", "replication_factor", 2),
        ("emit.offset-syncs.enabled = true", "offset_syncs", "location", "source"),
    ],
)
def test_a_property_becomes_its_key(
    line: str, section: str, key: str, value: object, tmp_path: Path
) -> None:
    found = dedicated(line + "\n")
    (link,) = links(found, tmp_path)
    got = getattr(getattr(link, section), key)
    assert getattr(got, "prefix", got) == value
    assert fates(found)[line.partition(" = ")[0]] is Fate.USED


def test_group_sync_needs_checkpoints_as_in_mirror_maker(tmp_path: Path) -> None:
    lines = "sync.group.offsets.enabled = true\nemit.checkpoints.enabled = false\n"
    (link,) = links(dedicated(lines), tmp_path)
    assert not link.groups.sync


def test_names_stay_with_the_identity_policy(tmp_path: Path) -> None:
    policy = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
    found = dedicated(f"replication.policy.class = {policy}\n")
    (link,) = links(found, tmp_path)
    assert link.topics.naming == "same"
    assert selection_of(link).selects("B.orders")  # it knows no cycles


def test_a_policy_of_their_own_needs_a_format(tmp_path: Path) -> None:
    line = "replication.policy.class = com.example.OurPolicy\n"
    with pytest.raises(ConfigError, match="OurPolicy"):
        dedicated(line)
    (link,) = links(dedicated(line, naming="copy-${topic}"), tmp_path)
    assert naming_of(link).target_name("a") == "copy-a"


def test_excluded_topic_settings_are_added_to_ours(tmp_path: Path) -> None:
    (link,) = links(dedicated("config.properties.exclude = retention\\\\..*\n"), tmp_path)
    assert "retention\\..*" in link.topics.config_exclude
    assert "compression.type" in link.topics.config_exclude
    assert "min.insync.replicas" not in link.topics.config_exclude  # theirs is replaced


@pytest.mark.parametrize(
    ("line", "fate", "words"),
    [
        ("tasks.max = 8", Fate.REPLACED, "lanes.count"),
        ("producer.linger.ms = 5", Fate.WITHOUT_EFFECT, "drops it at the top level"),
        ("B.producer.linger.ms = 5", Fate.WITHOUT_EFFECT, "Java's producer"),
        ("A.topics = x", Fate.WITHOUT_EFFECT, "under a cluster"),
        ("use.defaults.from = source", Fate.WITHOUT_EFFECT, "drops it"),
        ("B->A.topics = x", Fate.WITHOUT_EFFECT, "B->A is not enabled"),
        ("A->C.topics = x", Fate.WITHOUT_EFFECT, "no such flow"),
        ("A->B.offset.lag.max = 10", Fate.REPLACED, "offset map"),
        ("offset-syncs.topic.location = target", Fate.REPLACED, "offset map"),
        ("B.exactly.once.source.support = enabled", Fate.REPLACED, "exactly once"),
        ("B.offset.flush.interval.ms = 1", Fate.REPLACED, "target's log end"),
        ("B.group.id = mm2", Fate.WITHOUT_EFFECT, "no Connect workers"),
        ("dedicated.mode.enable.internal.rest = true", Fate.WITHOUT_EFFECT, "REST"),
        ("A.consumer.isolation.level = read_committed", Fate.REPLACED, "commit"),
        ("A.client.id = x", Fate.WITHOUT_EFFECT, "no enabled flow uses"),
        ("admin.timeout.ms = 1", Fate.WITHOUT_EFFECT, "time-outs"),
    ],
)
def test_a_property_without_a_key_is_explained(
    line: str, fate: Fate, words: str, tmp_path: Path
) -> None:
    found = dedicated(line + "\n")
    name = line.partition(" = ")[0]
    assert fates(found)[name] is fate
    assert words in text_of(found, name)
    assert links(found, tmp_path)


def test_a_flows_property_wins_over_the_top_level(tmp_path: Path) -> None:
    found = dedicated("replication.factor = 1\nA->B.replication.factor = 3\n")
    (link,) = links(found, tmp_path)
    assert link.topics.replication_factor == 3
    assert text_of(found, "replication.factor") == "A->B.replication.factor wins"


@pytest.mark.parametrize("name", ["topics", "groups", "config.properties"])
def test_a_name_that_later_versions_do_not_read_is_to_do(name: str) -> None:
    found = dedicated(f"{name}.blacklist = x\n")
    assert any(f"reads {name}.blacklist before 4.0 only" in text for text in found.todo)
    both = dedicated(f"{name}.blacklist = x\n{name}.exclude = y\n")
    assert not any("blacklist" in text for text in both.todo)


def test_consumers_are_read_in_mirror_makers_own_order(tmp_path: Path) -> None:
    """`A->B.source.consumer.x` over `A.consumer.x` over `A->B.consumer.x`."""
    key = "consumer.auto.offset.reset"
    (link,) = links(dedicated(f"A->B.{key} = latest\nA.{key} = earliest\n"), tmp_path)
    assert link.topics.start == "earliest"
    (link,) = links(dedicated(f"A.{key} = earliest\nA->B.source.{key} = latest\n"), tmp_path)
    assert link.topics.start == "latest"


def test_both_directions_and_a_third_cluster_make_a_link_each(tmp_path: Path) -> None:
    text = """
clusters = us-east, us.west, eu_1
us-east.bootstrap.servers = e:1, e:2
us.west.bootstrap.servers = w:1
eu_1.bootstrap.servers = u:1
us-east->us.west.enabled = true
us.west->us-east.enabled = true
us-east->eu_1.enabled = true
us-east->eu_1.topics = eu-.*
topics = shared-.*
"""
    found = links(import_mm2({"f": text}), tmp_path)
    assert [link.name for link in found] == [
        *("us-east-to-us-west", "us-east-to-eu-1", "us-west-to-us-east"),
    ]
    assert [link.topics.include for link in found] == [("shared-.*",), ("eu-.*",), ("shared-.*",)]
    assert not selection_of(found[0]).selects("us.west.shared-a")


def test_a_repeated_name_counts_as_in_java(tmp_path: Path) -> None:
    found = dedicated("topics = a\ntopics = b\n")
    assert links(found, tmp_path)[0].topics.include == ("b",)
    assert any("given twice" in text for text in found.todo)


# -- secrets -----------------------------------------------------------------------------------

SECURED = f"""
A.security.protocol = SASL_SSL
A.sasl.mechanism = SCRAM-SHA-512
A.sasl.jaas.config = {SCRAM} username="mirror" password="hunter2\\\\"x";
A.ssl.truststore.location = /etc/tls/trust.jks
A.ssl.truststore.password = changeit
A.ssl.endpoint.identification.algorithm =
B.security.protocol = SSL
B.ssl.truststore.type = PEM
B.ssl.truststore.location = /etc/tls/ca.pem
B.ssl.keystore.location = /etc/tls/own.p12
B.ssl.keystore.password = s3cret
B.ssl.key.password = k3ysecret
B.ssl.protocol = TLSv1.3
"""


def test_secrets_are_referenced_and_never_written(tmp_path: Path) -> None:
    found = dedicated(SECURED, secrets="/run/secrets/")
    everything = json.dumps(found.to_json()) + found.to_yaml()
    for secret in ("hunter2", "changeit", "s3cret", "k3ysecret"):
        assert secret not in everything
    assert links(found, tmp_path)
    clusters = found.config["clusters"]
    assert clusters["A"]["security"] == {
        "protocol": "SASL_SSL",
        "ca_file": "/run/secrets/A-ca.pem",
        "verify_hostname": False,
        "mechanism": "SCRAM-SHA-512",
        "username": "mirror",
        "password": {"file": "/run/secrets/A-password"},
    }
    assert clusters["B"]["security"] == {
        "protocol": "SSL",
        "ca_file": "/etc/tls/ca.pem",
        "certificate_file": "/run/secrets/B-cert.pem",
        "key_file": "/run/secrets/B-key.pem",
        "key_password": {"file": "/run/secrets/B-key-password"},
    }
    for path in ("A-ca.pem", "A-password", "B-cert.pem", "B-key-password"):
        assert any(f"/run/secrets/{path}" in text for text in found.todo)


@pytest.mark.parametrize(
    ("reference", "section"),
    [
        ("${env:PW}", {"env": "PW"}),
        ("${strimzienv:PW}", {"env": "PW"}),
        ("${dir:/mnt/own:pw}", {"file": "/mnt/own/pw"}),
        ("${file:/mnt/all.properties:pw}", {"file": "/etc/heliostat/secrets/A-password"}),
        ("plain", {"file": "/etc/heliostat/secrets/A-password"}),
    ],
)
def test_references_of_connects_providers_stay_references(
    reference: str, section: dict[str, str], tmp_path: Path
) -> None:
    found = dedicated(
        "A.security.protocol = SASL_PLAINTEXT\nA.sasl.mechanism = PLAIN\n"
        f"A.sasl.jaas.config = x.PlainLoginModule required username='u' password='{reference}';\n"
    )
    assert found.config["clusters"]["A"]["security"]["password"] == section
    assert links(found, tmp_path)


def test_top_level_security_applies_to_all_clusters(tmp_path: Path) -> None:
    found = dedicated("security.protocol = SSL\nB.security.protocol = PLAINTEXT\n")
    assert found.config["clusters"]["A"]["security"] == {"protocol": "SSL"}
    assert "security" not in found.config["clusters"]["B"]
    assert links(found, tmp_path)


def test_tokens_by_client_credentials(tmp_path: Path) -> None:
    found = dedicated(
        "A.security.protocol = SASL_SSL\nA.sasl.mechanism = OAUTHBEARER\n"
        "A.sasl.oauthbearer.token.endpoint.url = https://login.example.org/token\n"
        "A.sasl.jaas.config = x.OAuthBearerLoginModule required clientId='mm2' "
        "clientSecret='verysecret' scope='kafka';\n"
    )
    assert found.config["clusters"]["A"]["security"]["token_endpoint"] == {
        "url": "https://login.example.org/token",
        "client_id": "mm2",
        "client_secret": {"file": "/etc/heliostat/secrets/A-client-secret"},
        "scope": "kafka",
    }
    assert "verysecret" not in found.to_yaml() + json.dumps(found.to_json())
    assert links(found, tmp_path)


def test_an_unsupported_mechanism_is_reported(tmp_path: Path) -> None:
    found = dedicated(
        "A.security.protocol = SASL_SSL\nA.sasl.kerberos.service.name = kafka\n"
        "A.sasl.jaas.config = com.sun.security.auth.module.Krb5LoginModule required;\n"
    )
    assert any("GSSAPI" in text for text in found.differences)
    assert links(found, tmp_path)


# -- what can't be taken over ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "ours"),
    [
        ("\\\\Qa.b\\\\E-.*", "a\\.b-.*"),
        ("(?<site>x|y)-.*", "(?P<site>x|y)-.*"),
        ("\\\\p{Alpha}+", "[a-zA-Z]+"),
        ("a++", "a++"),
    ],
)
def test_java_patterns_become_python_patterns(given: str, ours: str, tmp_path: Path) -> None:
    (link,) = links(dedicated(f"topics = {given}\n"), tmp_path)
    assert link.topics.include == (ours,)


@pytest.mark.parametrize("given", ["[a-z&&[^b]]", "\\\\p{IsGreek}.*", "a{1,3}", "*"])
def test_patterns_that_only_java_has_are_refused(given: str) -> None:
    with pytest.raises(ConfigError, match=r"topics\.exclude"):
        dedicated(f"topics.exclude = ok, {given}\n")


def test_transforms_and_custom_filters_are_reported(tmp_path: Path) -> None:
    found = dedicated(
        "A->B.transforms = rename\nA->B.transforms.rename.type = x.RegexRouter\n"
        "topic.filter.class = com.example.Filter\nerrors.tolerance = all\n"
    )
    told = " ".join(found.differences)
    for word in ("transform rename", "Filter", "errors.tolerance", "sync.topic.acls"):
        assert word in told
    assert links(found, tmp_path)


def test_without_acls_and_such_nothing_differs() -> None:
    found = dedicated("sync.topic.acls.enabled = false\n")
    assert found.differences == ()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("clusters = A\n", "fewer than two"),
        ("clusters = A, B\nA.bootstrap.servers = a:1\nA->B.enabled = true\n", "B has no bootstrap"),
        ("clusters = A, B\n", "no flow copies anything"),
        ("a = b\n", "no MirrorMaker 2 configuration"),
        ('{"config": {"connector.class": "x.JdbcConnector"}}', "none of MirrorMaker 2's three"),
        ("{", "not JSON"),
        ('{"a": 1}', "no connector's configuration"),
        (TWO + "replication.factor = two\n", "not a number"),
    ],
)
def test_invalid_files_are_refused(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        import_mm2({"file": text})
