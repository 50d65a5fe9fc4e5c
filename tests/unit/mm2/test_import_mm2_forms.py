"""Connectors' JSON and Strimzi's resource: the same rules for other formats."""

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

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"


def links(found: Imported, tmp_path: Path) -> list[LinkConfig]:
    """As our own reader sees them."""
    file = tmp_path / "heliostat.yaml"
    file.write_text(found.to_yaml(), encoding="utf-8")
    return list(load_config(file, env={}).links)


def fates(found: Imported) -> dict[str, Fate]:
    return {each.origin.name: each.fate for each in found.findings}


# -- connectors --------------------------------------------------------------------------------


def connector(
    kind: str, source: str = "east", target: str = "west", **more: object
) -> dict[str, Any]:
    ports = {"east": 1, "west": 2}
    return {
        "connector.class": f"org.apache.kafka.connect.mirror.Mirror{kind}Connector",
        "source.cluster.alias": source,
        "target.cluster.alias": target,
        "source.cluster.bootstrap.servers": f"{source}:{ports[source]}",
        "target.cluster.bootstrap.servers": f"{target}:{ports[target]}",
        **more,
    }


def test_three_connectors_make_one_link(tmp_path: Path) -> None:
    files = {
        "source.json": json.dumps(
            {
                "name": "copy",
                "config": connector(
                    "Source",
                    topics="a,b",
                    **{
                        "tasks.max": 4,
                        "header.converter": "x.ByteArrayConverter",
                        "source.cluster.security.protocol": "SASL_PLAINTEXT",
                        "source.cluster.sasl.mechanism": "SCRAM-SHA-256",
                        "source.cluster.sasl.jaas.config": f'{SCRAM} username="u" password="p4ss";',
                        "consumer.auto.offset.reset": "latest",
                        "producer.override.compression.type": "gzip",
                    },
                ),
            }
        ),
        "checkpoint.json": json.dumps(
            connector("Checkpoint", **{"groups": "g.*", "sync.group.offsets.enabled": True})
        ),
        "heartbeat.json": json.dumps(connector("Heartbeat")),
    }
    found = import_mm2(files)
    (link,) = links(found, tmp_path)
    assert link.name == "east-to-west"
    assert link.topics.include == ("a", "b")
    assert link.topics.start == "latest"
    assert link.records.compression == "gzip"
    assert link.groups.sync
    assert link.groups.include == ("g.*",)
    assert link.checkpoints.emit
    assert not link.heartbeats.emit  # it writes into west, which no link copies
    assert "p4ss" not in json.dumps(found.to_json())
    assert {each.origin.file for each in found.findings} == set(files)
    assert fates(found)["config.tasks.max"] is Fate.REPLACED


def test_a_heartbeat_connector_of_the_other_direction_feeds_the_link(
    tmp_path: Path,
) -> None:
    both = [connector("Source"), connector("Heartbeat", "west", "east")]
    (link,) = links(import_mm2({"all.json": json.dumps(both)}), tmp_path)
    assert link.heartbeats.emit
    assert not link.checkpoints.emit
    assert not link.groups.sync


def test_connects_rest_answers_are_read_too(tmp_path: Path) -> None:
    answer = {"copy": {"info": {"name": "copy", "config": connector("Source"), "tasks": []}}}
    assert links(import_mm2({"f": json.dumps(answer)}), tmp_path)[0].name == "east-to-west"


# -- Strimzi -----------------------------------------------------------------------------------

STRIMZI = """
apiVersion: kafka.strimzi.io/v1beta2
kind: KafkaMirrorMaker2
metadata: {name: mirror}
spec:
  version: 4.1.0
  replicas: 2
  connectCluster: usdf
  clusters:
    - alias: summit
      bootstrapServers: summit-kafka-bootstrap:9093
      tls:
        trustedCertificates:
          - {secretName: summit-cluster-ca-cert, certificate: ca.crt}
      authentication:
        type: scram-sha-512
        username: mirror
        passwordSecret: {secretName: mirror-user, password: password}
    - alias: usdf
      bootstrapServers: usdf-kafka-bootstrap:9093
      tls:
        trustedCertificates:
          - {secretName: one, certificate: ca.crt}
          - {secretName: two, pattern: "*.crt"}
      authentication:
        type: tls
        certificateAndKey: {secretName: own, certificate: user.crt, key: user.key}
      config:
        config.storage.replication.factor: 1
        offset.storage.replication.factor: 3
        producer.compression.type: lz4
  mirrors:
    - sourceCluster: summit
      targetCluster: usdf
      topicsPattern: "lsst.sal.*"
      groupsPattern: ".*"
      groupsExcludePattern: "console-.*"
      sourceConnector:
        tasksMax: 10
        autoRestart: {enabled: true}
        config:
          replication.factor: 3
          offset-syncs.topic.replication.factor: 3
          sync.topic.acls.enabled: "false"
          replication.policy.class: org.apache.kafka.connect.mirror.IdentityReplicationPolicy
          consumer.max.poll.records: 2000
      checkpointConnector:
        config: {sync.group.offsets.enabled: true, refresh.groups.interval.seconds: 60}
  resources: {limits: {cpu: 2, memory: 4Gi}}
"""


def test_a_strimzi_resource_makes_a_link(tmp_path: Path) -> None:
    found = import_mm2({"mm2.yaml": STRIMZI}, secrets="/mnt")
    (link,) = links(found, tmp_path)
    assert (link.name, link.topics.naming) == ("summit-to-usdf", "same")
    assert link.topics.include == ("lsst.sal.*",)
    assert link.topics.replication_factor == 3
    assert link.groups.sync
    assert link.groups.exclude == ("console-.*",)
    assert link.records.compression == "lz4"
    assert link.state.replication_factor == 3
    clusters = found.config["clusters"]
    assert clusters["summit"]["security"] == {
        "protocol": "SASL_SSL",
        "ca_file": "/mnt/summit-cluster-ca-cert/ca.crt",
        "mechanism": "SCRAM-SHA-512",
        "username": "mirror",
        "password": {"file": "/mnt/mirror-user/password"},
    }
    assert clusters["usdf"]["security"] == {
        "protocol": "SSL",
        "ca_file": "/mnt/usdf-ca.pem",
        "certificate_file": "/mnt/own/user.crt",
        "key_file": "/mnt/own/user.key",
    }
    assert found.differences == ()
    known = fates(found)
    assert known["spec.mirrors[0].topicsPattern"] is Fate.USED
    assert known["spec.mirrors[0].sourceConnector.tasksMax"] is Fate.REPLACED
    assert known["spec.mirrors[0].sourceConnector.autoRestart.enabled"] is Fate.REPLACED
    assert known["spec.resources.limits.cpu"] is Fate.WITHOUT_EFFECT
    assert known["spec.mirrors[0].sourceConnector.config.consumer.max.poll.records"] is (
        Fate.WITHOUT_EFFECT
    )
    assert len(known) == sum(1 for _ in leaves(yaml.safe_load(STRIMZI)["spec"]))


def leaves(value: object) -> Any:
    nested = (
        value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    )
    if nested is None:
        yield value
    else:
        for each in nested:
            yield from leaves(each)


def test_strimzis_newer_form_is_read_too(tmp_path: Path) -> None:
    resource = """
kind: KafkaMirrorMaker2
spec:
  target:
    {alias: b, bootstrapServers: "b:1", groupId: g, offsetStorageTopic: o, config: {x.y: 1}}
  mirrors:
    - source:
        alias: a
        bootstrapServers: a:1
        authentication: {type: oauth, clientId: c, tokenEndpointUri: "https://t.example/x",
          clientSecret: {secretName: s, key: k}}
      sourceConnector: {config: {topics: "x, y"}}
"""
    found = import_mm2({"f": resource})
    (link,) = links(found, tmp_path)
    assert (link.name, link.topics.include) == ("a-to-b", ("x", "y"))
    security = found.config["clusters"]["a"]["security"]
    assert security["protocol"] == "SASL_PLAINTEXT"
    assert security["token_endpoint"]["client_secret"] == {"file": "/etc/heliostat/secrets/s/k"}
    assert fates(found)["spec.target.groupId"] is Fate.REPLACED


def test_a_mirror_of_an_undefined_cluster_is_refused() -> None:
    resource = "kind: KafkaMirrorMaker2\nspec: {mirrors: [{sourceCluster: a, targetCluster: b}]}"
    with pytest.raises(ConfigError, match="names a cluster a"):
        import_mm2({"f": resource})
