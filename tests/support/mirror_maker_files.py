"""Small configurations of MirrorMaker 2, with a line that the import must tell for each.

A file begins with `TWO` or a connector and adds what it is about. The line is a part of one of the
differences; empty if everything is carried over.
"""

from __future__ import annotations

import json
from typing import Any

Files = dict[str, str]
Case = tuple[Files, str]
TWO = (
    "clusters = A, B\nA.bootstrap.servers = a:9092\nB.bootstrap.servers = b:9092\n"
    "A->B.enabled = true\nsync.topic.acls.enabled = false\n"
)
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


def dedicated(*lines: str) -> Files:
    return {"mm2.properties": TWO + "\n".join(lines) + "\n"}


def connector(kind: str = "Source", **more: str) -> dict[str, Any]:
    """Return a connector; `__` in a name is a dot."""
    config = {
        "connector.class": f"org.apache.kafka.connect.mirror.Mirror{kind}Connector",
        "source.cluster.alias": "A",
        "target.cluster.alias": "B",
        "source.cluster.bootstrap.servers": "a:9092",
        "target.cluster.bootstrap.servers": "b:9092",
        "sync.topic.acls.enabled": "false",
    }
    config |= {name.replace("__", "."): value for name, value in more.items()}
    return {"name": kind.lower(), "config": config}


def connectors(*given: dict[str, Any]) -> Files:
    return {"connectors.json": json.dumps(given)}


def resources(*given: dict[str, Any]) -> Files:
    """Return connectors as KafkaConnector resources, a file each."""
    found = {}
    for each in given:
        config = dict(each["config"])
        found[f"{each['name']}.yaml"] = json.dumps(
            {
                "apiVersion": "kafka.strimzi.io/v1beta2",
                "kind": "KafkaConnector",
                "metadata": {"name": each["name"]},
                "spec": {"class": config.pop("connector.class"), "tasksMax": 2, "config": config},
            }
        )
    return found


def strimzi(mirror: str, spec: str = "", a: str = "", b: str = "") -> Files:
    """Return a KafkaMirrorMaker2; `mirror` stands in a mirror, `a` and `b` in clusters."""
    return {
        "mirror-maker.yaml": "apiVersion: kafka.strimzi.io/v1beta2\nkind: KafkaMirrorMaker2\n"
        "metadata: {name: mm2}\nspec:\n"
        f"  connectCluster: b\n{spec}  clusters:\n"
        f"    - {{alias: a, bootstrapServers: 'a:9092'{a}}}\n"
        f"    - {{alias: b, bootstrapServers: 'b:9092'{b}}}\n"
        f"  mirrors:\n    - {{sourceCluster: a, targetCluster: b, {mirror}}}\n"
    }


def user(prefix: str, name: str = "u") -> tuple[str, ...]:
    """Return the lines of a user with PLAIN, at one level of prefixes."""
    return (
        f"{prefix}security.protocol = SASL_SSL",
        f"{prefix}sasl.mechanism = PLAIN",
        f'{prefix}sasl.jaas.config = {PLAIN} username="{name}" password="p";',
    )


def users(prefix: str, name: str = "u") -> dict[str, str]:
    """Return the same for a connector."""
    pairs = (line.split(" = ", 1) for line in user(prefix, name))
    return {key.replace(".", "__"): value for key, value in pairs}


QUIET = "sync.topic.acls.enabled: 'false'"
SOURCE = f"sourceConnector: {{config: {{{QUIET}}}}}"
IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
TLS = ", tls: {trustedCertificates: [{secretName: ca, certificate: ca.crt}]}"
SCRAM = (
    ", authentication: {type: scram-sha-512, username: u, passwordSecret: {secretName: s,"
    " password: p}}"
)
OAUTH = (
    ", authentication: {type: oauth, tokenEndpointUri: 'https://t/x', clientId: c, clientSecret:"
    " {secretName: s, key: k}"
)
EMPTY = ("source.cluster.alias =", "target.cluster.alias =", "replication.policy.separator =")
OWN_TOPICS = "heartbeats and checkpoints topics"

DEDICATED: dict[str, Case] = {
    "smallest": (dedicated(), ""),
    "topics": (dedicated("topics = orders.*, sales_A", "A->B.groups = app.*"), ""),
    "no topics": (dedicated("topics = "), ""),
    "topics with a dot": (dedicated("topics = orders\\\\..*, orders"), ""),
    "flow over top": (dedicated("topics = orders.*", "A->B.topics = pay.*"), ""),
    "topics of a cluster": (dedicated("A.topics = orders", "B.groups = x"), ""),
    "excluded topics": (dedicated("topics.exclude = pay.*, .*secret.*"), ""),
    "excluded nothing": (dedicated("topics.exclude = none"), ""),
    "groups": (dedicated("groups = app.*", "groups.exclude = app-1"), ""),
    "groups with blanks": (dedicated("groups = a b, testgroup"), ""),
    "group sync": (
        dedicated("sync.group.offsets.enabled = true", "A->B.sync.group.offsets.enabled = false"),
        "",
    ),
    "empty aliases": (dedicated(*EMPTY), OWN_TOPICS),
    "empty source alias": (dedicated("A->B.source.cluster.alias ="), OWN_TOPICS),
    "another source alias": (dedicated("A->B.source.cluster.alias = mirror"), OWN_TOPICS),
    "another target alias": (dedicated("target.cluster.alias = C"), OWN_TOPICS),
    "no separator": (dedicated("replication.policy.separator ="), OWN_TOPICS),
    "dash": (dedicated("replication.policy.separator = -"), ""),
    "two dashes": (dedicated("A->B.replication.policy.separator = --"), ""),
    "underscore at a cluster": (dedicated("A.replication.policy.separator = _"), ""),
    "dash without internals": (
        dedicated(
            "replication.policy.separator = -",
            "replication.policy.internal.topic.separator.enabled = false",
        ),
        "checkpoints topic has the separator",
    ),
    "identity": (dedicated(f"replication.policy.class = {IDENTITY}"), ""),
    "identity with a dash": (
        dedicated(f"replication.policy.class={IDENTITY}", "replication.policy.separator=-"),
        OWN_TOPICS,
    ),
    "no heartbeats": (
        dedicated("heartbeats.replication.enabled = false"),
        "heartbeats were written",
    ),
    "factor 3": (dedicated("replication.factor = 3"), ""),
    "factor of the broker": (dedicated("replication.factor = -1"), "default.replication.factor"),
    "no settings": (dedicated("sync.topic.configs.enabled = false"), ""),
    "user of a cluster": (dedicated(*user("A.")), ""),
    "user of both at top": (dedicated(*user("")), ""),
    "user of the target": (dedicated(*user("B.")), ""),
    "user of a cluster over top": (dedicated(*user(""), *user("A.", "a")), ""),
    "user of the consumer": (dedicated(*user("A.", "x"), *user("A.consumer.")), "source admin"),
    "user of the flow's consumer": (dedicated(*user("A->B.consumer.")), "source admin"),
    "user of the flow's source consumer": (
        dedicated(*user("A->B.source.consumer."), *user("A->B.source.admin.")),
        "",
    ),
    "three levels": (
        dedicated(
            *user("A.", "a"),
            *user("A.consumer.", "b"),
            *user("A->B.consumer.", "c"),
            *user("A->B.source.consumer.", "d"),
        ),
        "source admin",
    ),
    "user of the producer": (dedicated(*user("B.producer.")), "target admin"),
    "user of the flow's override": (
        dedicated(*user("A->B.producer.override."), *user("B.admin.")),
        "",
    ),
    "addresses of the consumer": (
        dedicated("A.consumer.bootstrap.servers = other:1, more:2"),
        "source admin",
    ),
    "addresses of the flow": (dedicated("A->B.source.cluster.bootstrap.servers = other:1"), ""),
    "addresses of the flow's consumer": (
        dedicated("A->B.source.consumer.bootstrap.servers = o:1", *user("A.")),
        "source admin",
    ),
    "any host name": (
        dedicated("A.security.protocol=SSL", "A.ssl.endpoint.identification.algorithm="),
        "",
    ),
    "any host name at top": (
        dedicated("security.protocol=SSL", "ssl.endpoint.identification.algorithm="),
        "",
    ),
    "from the end": (
        dedicated("A.consumer.auto.offset.reset = latest", "A->B.consumer.fetch.max.bytes = 99999"),
        "",
    ),
    "fetch levels": (
        dedicated(
            "A->B.consumer.max.partition.fetch.bytes = 5000",
            "A.consumer.max.partition.fetch.bytes = 6000",
            "A->B.source.consumer.max.partition.fetch.bytes = 7000",
        ),
        "",
    ),
    "compression": (
        dedicated("B.producer.compression.type = lz4", "producer.compression.type = gzip"),
        "",
    ),
    "both ways": (dedicated("B->A.enabled = true", "B->A.topics = pay.*"), ""),
    "heartbeats of the other direction": (
        dedicated(
            "B->A.emit.heartbeats.interval.seconds = 7", "A->B.emit.heartbeats.interval.seconds=3"
        ),
        "",
    ),
    "heartbeats of this direction": (dedicated("A->B.emit.heartbeats.interval.seconds = 3"), ""),
    "no heartbeats of the other direction": (
        dedicated("B->A.emit.heartbeats.enabled = false"),
        "",
    ),
    "enabled at top": (dedicated("enabled = true", "B->A.topics = pay"), ""),
    "enabled at top without heartbeats": (
        dedicated("enabled = true", "emit.heartbeats.enabled = false"),
        "",
    ),
    "three clusters": (
        {
            "mm2.properties": (TWO + "C->B.enabled=true\nC.bootstrap.servers=c:1\n").replace(
                "A, B", "A, B, C"
            )
        },
        "",
    ),
    "fan-in": (
        {
            "mm2.properties": (TWO + "C->B.enabled=true\nC.bootstrap.servers=c:1\n").replace(
                "A, B", "A, B, C"
            )
            + f"replication.policy.class = {IDENTITY}\n"
        },
        "a mirror has one writer",
    ),
}
CONNECTORS: dict[str, Case] = {
    "connector": (connectors(connector(topics="orders.*"), connector("Checkpoint")), ""),
    "no checkpoints": (connectors(connector()), ""),
    "groups of the source connector": (
        connectors(connector(groups="app"), connector("Checkpoint", groups="x,app-1")),
        "",
    ),
    "consumer's addresses": (
        connectors(connector(consumer__bootstrap__servers="other:1")),
        "source admin",
    ),
    "three levels of a connector": (
        connectors(
            connector(
                **users("source.cluster.", "a"), **users("consumer."), **users("source.admin.")
            )
        ),
        "",
    ),
    "admin of a connector": (connectors(connector(**users("admin."))), "source admin"),
    "target's admin": (
        connectors(connector(**users("target.admin."), **users("producer.override."))),
        "",
    ),
    "no aliases": (
        connectors(
            connector(
                source__cluster__alias="",
                target__cluster__alias="",
                replication__policy__separator="",
                topics="orders.*,sales_A",
                heartbeats__replication__enabled="false",
            )
        ),
        "",
    ),
    "checkpoints with swapped aliases": (
        connectors(
            connector(topics="orders"),
            connector(
                "Checkpoint",
                source__cluster__alias="B",
                target__cluster__alias="A",
                topics="orders",
                groups="testgroup",
            ),
        ),
        "has the addresses of A->B",
    ),
    "heartbeats into the source": (
        connectors(
            connector(),
            connector(
                "Heartbeat",
                target__cluster__bootstrap__servers="a:9092",
                emit__heartbeats__interval__seconds="9",
            ),
        ),
        "writes into the cluster with the addresses of A",
    ),
    "resources with swapped aliases": (
        resources(
            connector(topics="test"),
            connector(
                "Checkpoint",
                source__cluster__alias="B",
                target__cluster__alias="A",
                topics="test",
                groups="testgroup",
            ),
            connector(
                "Heartbeat",
                target__cluster__bootstrap__servers="a:9092",
                producer__override__bootstrap__servers="a:9092",
            ),
        ),
        "calls the clusters B->A, but has the addresses of A->B",
    ),
    "heartbeats of the reverse": (
        connectors(
            connector(),
            connector(
                "Heartbeat",
                source__cluster__alias="B",
                target__cluster__alias="A",
                target__cluster__bootstrap__servers="a:9092",
                emit__heartbeats__interval__seconds="5",
            ),
        ),
        "",
    ),
    "another listener for the producer": (
        connectors(
            connector(producer__override__bootstrap__servers="b:9093"), connector("Checkpoint")
        ),
        "target admin",
    ),
    "checkpoints of another flow": (
        connectors(
            connector(),
            connector("Checkpoint", source__cluster__bootstrap__servers="other:1"),
        ),
        "belongs to no MirrorSourceConnector",
    ),
    "two sources of one alias": (
        connectors(
            connector(topics="orders"),
            connector(topics="pay", source__cluster__bootstrap__servers="other:1"),
        ),
        "different addresses",
    ),
}
STRIMZI: dict[str, Case] = {
    "the mirror's topics": (
        strimzi(
            f"topicsPattern: 'pay.*', topicsExcludePattern: pays, groupsPattern: 'app.*',"
            f" sourceConnector: {{config: {{topics: orders, topics.exclude: pay, {QUIET}}}}},"
            " checkpointConnector: {config: {groups: x, sync.group.offsets.enabled: 'true'}}"
        ),
        "",
    ),
    "the config's topics": (
        strimzi(f"sourceConnector: {{config: {{topics: 'orders,pay', {QUIET}}}}}"),
        "",
    ),
    "version 3.6": (strimzi(SOURCE, spec="  version: 3.6.0\n"), ""),
    "version 3.9 with a list": (
        strimzi(f"topicsExcludePattern: 'pay.*', {SOURCE}", spec="  version: 3.9.1\n"),
        "",
    ),
    "version 4.1": (strimzi(SOURCE, spec="  version: 4.1.0\n"), ""),
    "a cluster's consumer": (
        strimzi(SOURCE, a=", config: {consumer.auto.offset.reset: latest}"),
        "",
    ),
    "a connector's consumer": (
        strimzi(
            f"sourceConnector: {{config: {{consumer.auto.offset.reset: latest, {QUIET}}}}}",
        ),
        "",
    ),
    "tls": (strimzi(SOURCE, a=TLS), ""),
    "tls with any host name": (
        strimzi(SOURCE, a=TLS + ", config: {ssl.endpoint.identification.algorithm: ''}"),
        "",
    ),
    "scram": (strimzi(SOURCE, a=TLS + SCRAM, b=SCRAM), ""),
    "oauth": (strimzi(SOURCE, a=TLS + OAUTH + "}"), ""),
    "oauth with an audience": (strimzi(SOURCE, a=TLS + OAUTH + ", audience: k}"), "audience"),
    "stopped": (
        strimzi(f"sourceConnector: {{state: stopped, config: {{{QUIET}}}}}"),
        "is stopped: nothing was copied",
    ),
    "identity": (
        strimzi(f"sourceConnector: {{config: {{replication.policy.class: {IDENTITY}, {QUIET}}}}}"),
        "",
    ),
    "an admin client of its own": (
        strimzi(f"sourceConnector: {{config: {{admin.bootstrap.servers: 'o:1', {QUIET}}}}}"),
        "the source admin and the target admin",
    ),
    "a consumer of its own": (
        strimzi(f"sourceConnector: {{config: {{consumer.bootstrap.servers: 'o:1', {QUIET}}}}}"),
        "source consumer",
    ),
}
CASES = (
    {f"dedicated: {name}": case for name, case in DEDICATED.items()}
    | {f"connectors: {name}": case for name, case in CONNECTORS.items()}
    | {f"strimzi: {name}": case for name, case in STRIMZI.items()}
)
