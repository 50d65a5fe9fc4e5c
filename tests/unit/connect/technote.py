"""The configurations that the first users upload, in their order, and the file beside them."""

from __future__ import annotations

from typing import Any

from heliostat.connect.connector import StoredConnector, text_of
from heliostat.connect.file_clusters import FileClusters
from heliostat.names import Alias, Offset

MIRROR = "org.apache.kafka.connect.mirror.Mirror"
BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
ENDS = {
    "source.cluster.alias": "src",
    "source.cluster.bootstrap.servers": "broker-src:29093",
    "target.cluster.alias": "destn",
}
BOTH_ENDS = ENDS | {"target.cluster.bootstrap.servers": "broker-destn:29092"}
HEARTBEAT: dict[str, Any] = {
    "name": "heartbeat",
    "connector.class": f"{MIRROR}HeartbeatConnector",
    **ENDS,
    "topics": "foo",
}
CHECKPOINT: dict[str, Any] = {
    "name": "checkpoint",
    "connector.class": f"{MIRROR}CheckpointConnector",
    **BOTH_ENDS,
    "topics": "foo",
}
SOURCE: dict[str, Any] = {
    "name": "mirror-source",
    "connector.class": f"{MIRROR}SourceConnector",
    **BOTH_ENDS,
    "checkpoints.topic.replication.factor": 1,
    "heartbeats.topic.replication.factor": 1,
    "offset-syncs.topic.replication.factor": 1,
    "key.converter": BYTES,
    "value.converter": BYTES,
    "refresh.topics.interval.seconds": 60,
    "replication.factor": 1,
    "sync.topic.acls.enabled": False,
    "sync.topic.configs.enabled": True,
    "sync.topic.configs.interval.seconds": 60,
    "tasks.max": "1",
    "topics": "foo",
}
REPLICATOR: dict[str, Any] = {
    "name": "replicator",
    "connector.class": "io.confluent.connect.replicator.ReplicatorSourceConnector",
    "src.kafka.bootstrap.servers": "broker-src:29093",
    "dest.kafka.bootstrap.servers": "broker-destn:29092",
    "schema.registry.topic": "_schemas",
    "schema.registry.url": "http://schema-registry-destn:8084",
    "src.consumer.group.id": "replicator",
    "tasks.max": "1",
    "header.converter": "io.confluent.connect.replicator.util.ByteArrayConverter",
    "key.converter": "io.confluent.connect.replicator.util.ByteArrayConverter",
    "value.converter": "io.confluent.connect.replicator.util.ByteArrayConverter",
    "topic.whitelist": "_schemas,foo",
    "topic.rename.format": "summit.${topic}",
    "schema.subject.translator.class": (
        "io.confluent.connect.replicator.schemas.DefaultSubjectTranslator"
    ),
}
UPLOADS = (HEARTBEAT, CHECKPOINT, SOURCE)
KEPT_NAMES = {"source.cluster.alias": "", "replication.policy.separator": ""}
FILE = FileClusters(
    {
        Alias("src"): frozenset({"broker-src:29093"}),
        Alias("destn"): frozenset({"broker-destn:29092", "broker-destn-2:29092"}),
    },
    frozenset({"other"}),
    registries=frozenset({Alias("src"), Alias("destn")}),
)


def stored(*configs: dict[str, Any], **attributes: Any) -> list[StoredConnector]:
    """Return connectors, in the order in which they were written."""
    return [
        StoredConnector(
            config["name"],
            {name: text_of(value) for name, value in config.items()},
            generation=Offset(generation),
            **attributes,
        )
        for generation, config in enumerate(configs)
    ]
