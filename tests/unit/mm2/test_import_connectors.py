"""Which connectors belong together, in what state they are, and how resources say it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from heliostat.config import LinkConfig, load_config
from heliostat.errors import ConfigError
from heliostat.mm2.config import import_mm2
from heliostat.mm2.config_values import Fate, Imported

MIRROR = "org.apache.kafka.connect.mirror.Mirror"
WEST, EAST = "west-kafka:9092", "east-kafka:9092"
QUIET = {"sync.topic.acls.enabled": "false"}


def links(imported: Imported, tmp_path: Path) -> list[LinkConfig]:
    """As our own reader sees them."""
    file = tmp_path / "heliostat.yaml"
    file.write_text(imported.to_yaml(), encoding="utf-8")
    return list(load_config(file, env={}).links)


def resource(kind: str, config: dict[str, str], **spec: Any) -> str:
    """Return a KafkaConnector."""
    spec |= {"class": f"{MIRROR}{kind}Connector", "tasksMax": 2, "config": config}
    return yaml.safe_dump({"kind": "KafkaConnector", "metadata": {"name": kind}, "spec": spec})


def flow(*names: str, **addresses: str) -> dict[str, str]:
    """Return both aliases, and the addresses of the sides that are given."""
    aliases = dict(zip(("source.cluster.alias", "target.cluster.alias"), names, strict=True))
    return aliases | {f"{side}.cluster.bootstrap.servers": a for side, a in addresses.items()}


THREE = {
    "source.yaml": resource(
        "Source", flow("us-west", "us-east", source=WEST, target=EAST) | QUIET | {"topics": "test"}
    ),
    "heartbeat.yaml": resource(
        "Heartbeat",
        flow("us-west", "us-east", target=WEST) | {"producer.override.bootstrap.servers": WEST},
    ),
    "checkpoint.yaml": resource(
        "Checkpoint",
        flow("us-east", "us-west", source=WEST, target=EAST)
        | {"topics": "test", "groups": "testgroup"},
    ),
}
"""Cloudera's way: swapped aliases, and heartbeats that are written into the source."""


def test_connectors_are_paired_by_addresses_where_aliases_disagree(tmp_path: Path) -> None:
    imported = import_mm2(THREE)
    (link,) = links(imported, tmp_path)
    assert (link.name, link.topics.include) == ("us-west-to-us-east", ("test",))
    assert link.groups.include == ("testgroup",)
    assert link.heartbeats.emit
    assert link.checkpoints.emit
    told = imported.differences
    assert "checkpoint.yaml calls the clusters us-east->us-west, but has the addresses" in told[0]
    assert "heartbeat.yaml writes into the cluster with the addresses of us-west" in told[1]
    assert len(told) == 2
    (line,) = imported.todo
    assert "off in Apache's MirrorMaker 2 and on in Cloudera's" in line


def test_a_connector_that_belongs_to_no_flow_is_one_line() -> None:
    other = resource("Checkpoint", flow("a", "b", source="c:1", target="d:1"))
    imported = import_mm2(THREE | {"checkpoint.yaml": other})
    assert any("of checkpoint.yaml belongs to no MirrorSource" in t for t in imported.differences)


@pytest.mark.parametrize(
    ("spec", "state"),
    [
        ({"state": "stopped"}, "stopped"),
        ({"state": "paused"}, "paused"),
        ({"pause": True}, "paused"),
    ],
)
def test_a_resource_that_does_not_run_is_told(spec: dict[str, Any], state: str) -> None:
    config = flow("a", "b", source=WEST, target=EAST) | QUIET
    imported = import_mm2({"source.yaml": resource("Source", config, **spec)})
    assert imported.differences == (
        (
            f"a->b: its MirrorSourceConnector is {state}: nothing was copied, and a link copies as "
            "soon as it is started"
        ),
    )


@pytest.mark.parametrize("form", ["initial", "status"])
def test_a_paused_checkpoint_connector_syncs_no_group(form: str, tmp_path: Path) -> None:
    ends = flow("a", "b", source=WEST, target=EAST)
    source = {"config": {"connector.class": f"{MIRROR}SourceConnector"} | ends | QUIET}
    own = {"connector.class": f"{MIRROR}CheckpointConnector", "sync.group.offsets.enabled": "true"}
    checkpoint: dict[str, Any] = {"config": own | ends}
    if form == "initial":
        checkpoint["initial_state"] = "PAUSED"
    else:
        status = {"name": "c", "connector": {"state": "PAUSED"}, "tasks": []}
        checkpoint = {"info": checkpoint, "status": status}
    imported = import_mm2({"all.json": json.dumps({"s": source, "c": checkpoint})})
    (link,) = links(imported, tmp_path)
    assert (link.groups.sync, link.checkpoints.emit) == (False, False)
    assert "its MirrorCheckpointConnector is paused: no group was synced" in imported.differences[0]


def test_heartbeats_follow_the_connector_that_writes_into_the_source(tmp_path: Path) -> None:
    source = flow("a", "b", source=WEST, target=EAST) | QUIET
    forth = flow("a", "b", target=EAST) | {"emit.heartbeats.interval.seconds": "3"}
    back = flow("b", "a", target=WEST) | {"emit.heartbeats.interval.seconds": "7"}
    files = {"s": resource("Source", source), "f": resource("Heartbeat", forth)}
    files["b"] = resource("Heartbeat", back)
    imported = import_mm2(files)
    (link,) = links(imported, tmp_path)
    assert (link.heartbeats.emit, link.heartbeats.interval_s) == (True, 7)
    assert imported.differences == ()


def test_sources_of_one_alias_are_clusters_of_their_own(tmp_path: Path) -> None:
    files = {
        "one": resource("Source", flow("a", "b", source=WEST, target=EAST) | QUIET),
        "two": resource("Source", flow("a", "b", source="c:1", target=EAST) | QUIET),
    }
    imported = import_mm2(files)
    assert {key: c["bootstrap"] for key, c in imported.config["clusters"].items()} == {
        "a": [WEST],
        "b": [EAST],
        "a-2": ["c:1"],
    }
    told = " ".join(imported.differences)
    assert "different addresses for cluster a" in told
    assert "a mirror has one writer" in told  # both write a.*


def test_plain_names_that_differ_share_nothing() -> None:
    ends = [flow("a", "b", source=s, target=EAST) | QUIET for s in (WEST, "c:1")]
    for name, config in zip(("x", "y"), ends, strict=True):
        config["topics"] = name
    imported = import_mm2({str(i): resource("Source", c) for i, c in enumerate(ends)})
    assert "one writer" not in " ".join(imported.differences)


def test_one_file_may_have_resources_of_both_kinds() -> None:
    mirror = {"sourceCluster": "x", "targetCluster": "y", "sourceConnector": {"config": QUIET}}
    clusters = [{"alias": name, "bootstrapServers": f"{name}:1"} for name in ("x", "y")]
    both = {"kind": "KafkaMirrorMaker2", "spec": {"clusters": clusters, "mirrors": [mirror]}}
    imported = import_mm2({"all.yaml": yaml.safe_dump(both) + "---\n" + THREE["source.yaml"]})
    names = [link["name"] for link in imported.config["links"]]
    assert names == ["x-to-y", "us-west-to-us-east"]


def test_a_resource_may_be_json() -> None:
    text = json.dumps(yaml.safe_load(THREE["source.yaml"]))
    assert import_mm2({"source.json": text}).config["links"][0]["name"] == "us-west-to-us-east"


def test_a_configuration_without_a_class_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"connector\.class is none of MirrorMaker 2's three"):
        import_mm2({"a.json": json.dumps({"name": "x", "config": {"topics": "y"}})})


# -- Strimzi's fields of a cluster ---------------------------------------------------------------


def cluster(**fields: Any) -> Imported:
    """Import a mirror whose source has these fields."""
    spec = {
        "target": {"alias": "b", "bootstrapServers": EAST},
        "mirrors": [
            {
                "source": {"alias": "a", "bootstrapServers": WEST, **fields},
                "sourceConnector": {"config": QUIET},
            }
        ],
    }
    return import_mm2({"m.yaml": yaml.safe_dump({"kind": "KafkaMirrorMaker2", "spec": spec})})


TLS: dict[str, Any] = {"trustedCertificates": [{"secretName": "ca", "certificate": "ca.crt"}]}
CLIENT = {
    "type": "oauth",
    "tokenEndpointUri": "https://sso.example/token",
    "clientId": "c",
    "clientSecret": {"secretName": "s", "key": "k"},
}


def test_the_switch_of_host_names_is_taken() -> None:
    switch = {"ssl.endpoint.identification.algorithm": ""}
    imported = cluster(tls=TLS, config=switch)
    assert imported.config["clusters"]["a"]["security"]["verify_hostname"] is False
    assert "verify_hostname" not in cluster(tls=TLS).config["clusters"]["a"]["security"]
    assert "security" not in cluster(config=switch).config["clusters"]["a"]


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"audience": "x"}, "oauth's audience is set; a link names no audience"),
        ({"disableTlsHostnameVerification": True}, "always verifies the endpoint's host name"),
        ({"saslExtensions": {"k": "v"}}, "sends no SASL extensions"),
        ({"clientAssertion": {"secretName": "x", "key": "y"}}, "no client assertions"),
        ({"accessTokenIsJwt": False}, ""),
    ],
)
def test_what_a_link_lacks_of_oauth_is_told(more: dict[str, Any], told: str) -> None:
    imported = cluster(tls=TLS, authentication=CLIENT | more)
    assert told in " ".join(imported.differences)
    assert len(imported.differences) == bool(told)
    (field,) = more
    outcome = [e for e in imported.findings if f"authentication.{field}" in e.origin.name]
    assert {each.fate for each in outcome} == {Fate.NOT_SUPPORTED}


def test_the_endpoints_authorities_are_taken(tmp_path: Path) -> None:
    trusted = [{"secretName": "sso", "certificate": "sso.crt"}]
    imported = cluster(tls=TLS, authentication=CLIENT | {"tlsTrustedCertificates": trusted})
    endpoint = imported.config["clusters"]["a"]["security"]["token_endpoint"]
    assert endpoint["ca_file"] == "/etc/heliostat/secrets/sso/sso.crt"
    assert links(imported, tmp_path)


def test_a_refresh_token_needs_a_person(tmp_path: Path) -> None:
    given = {k: v for k, v in CLIENT.items() if k != "clientSecret"}
    given["refreshToken"] = {"secretName": "r", "key": "k"}
    imported = cluster(tls=TLS, authentication=given)
    assert "oauth's refreshToken is set" in imported.differences[0]
    assert any("put a token for cluster a into" in text for text in imported.todo)
    assert not any("None" in text for text in imported.todo)
    assert links(imported, tmp_path)


def test_scram_of_a_custom_type_is_read(tmp_path: Path) -> None:
    jaas = "org.apache.kafka.common.security.scram.ScramLoginModule required"
    config = {
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": f'{jaas} username="u" password="${{dir:/mnt/s:p}}";',
    }
    authentication = {"type": "custom", "sasl": True, "config": config}
    imported = cluster(tls=TLS, authentication=authentication)
    security = imported.config["clusters"]["a"]["security"]
    assert (security["protocol"], security["mechanism"]) == ("SASL_SSL", "SCRAM-SHA-512")
    assert security["username"] == "u"
    assert security["password"] == {"file": "/mnt/s/p"}
    assert imported.differences == ()
    assert links(imported, tmp_path)


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ('extension_logicalCluster="lkc-1"', "the option extension_logicalCluster"),
        ('oauth.audience="kafka"', "the option oauth.audience"),
        ('scope="kafka"', ""),
    ],
)
def test_options_of_oauth_that_a_link_lacks_are_told(more: str, told: str) -> None:
    login = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
    lines = (
        "clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1",
        "A->B.enabled = true\nsync.topic.acls.enabled = false\nA.security.protocol = SASL_SSL",
        "A.sasl.mechanism = OAUTHBEARER\nA.sasl.oauthbearer.token.endpoint.url = https://t/x",
        f'A.sasl.jaas.config = {login} clientId="c" clientSecret="s" {more};',
    )
    imported = import_mm2({"mm2.properties": "\n".join(lines)})
    assert told in " ".join(imported.differences)
    assert len(imported.differences) == bool(told)
    assert '"kafka"' not in " ".join(imported.differences)  # names of options, never values


# -- addresses -----------------------------------------------------------------------------------


def test_an_address_that_begins_with_an_equals_sign_is_named() -> None:
    text = "clusters = A, B\nA.bootstrap.servers == a:1\nB.bootstrap.servers = b:1\n"
    with pytest.raises(ConfigError, match=r"A\.bootstrap\.servers begins with '='"):
        import_mm2({"mm2.properties": text + "A->B.enabled = true\n"})


IAM = "software.amazon.msk.auth.iam.IAMLoginModule required"
HANDLER = "software.amazon.msk.auth.iam.IAMClientCallbackHandler"


@pytest.mark.parametrize(
    ("options", "profile", "todo"),
    [
        ("", None, "give the link AWS credentials for cluster A"),
        (' awsProfileName="mirror"', "mirror", "install heliostat[msk-iam]"),
        (' awsRoleArn="arn:aws:iam::1:role/m"', "A", "assumes arn:aws:iam::1:role/m"),
    ],
)
def test_iam_of_amazons_brokers_is_read(
    options: str, profile: str | None, todo: str, tmp_path: Path
) -> None:
    lines = (
        "clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1",
        "A->B.enabled = true\nsync.topic.acls.enabled = false\nA.security.protocol = SASL_SSL",
        f"A.sasl.mechanism = AWS_MSK_IAM\nA.sasl.jaas.config = {IAM}{options};",
        f"A.sasl.client.callback.handler.class = {HANDLER}",
    )
    imported = import_mm2({"mm2.properties": "\n".join(lines)})
    security = imported.config["clusters"]["A"]["security"]
    assert (security["mechanism"], security.get("aws_profile")) == ("AWS_MSK_IAM", profile)
    assert todo in " ".join(imported.todo)
    assert imported.differences == ()
    assert links(imported, tmp_path)


def test_tokens_of_aws_become_its_own_mechanism(tmp_path: Path) -> None:
    """Given MSK's listener by OAUTHBEARER, in Strimzi's custom type / then by AWS_MSK_IAM."""
    config = {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule "
        'required awsProfileName="mirror";',
        "sasl.login.callback.handler.class": "software.amazon.msk.auth.iam."
        "IAMOAuthBearerLoginCallbackHandler",
    }
    imported = cluster(tls=TLS, authentication={"type": "custom", "sasl": True, "config": config})
    security = imported.config["clusters"]["a"]["security"]
    assert (security["mechanism"], security["aws_profile"]) == ("AWS_MSK_IAM", "mirror")
    assert imported.differences == ()
    assert links(imported, tmp_path)
