"""Names of MirrorMaker 2's properties that decide which component reads them (4.3.0)."""

from __future__ import annotations

DEDICATED = frozenset(
    {
        *("clusters", "dedicated.mode.enable.internal.rest", "listeners"),
        *("rest.advertised.host.name", "rest.advertised.port", "rest.advertised.listener"),
        *("access.control.allow.origin", "access.control.allow.methods"),
        *("response.http.headers.config", "ssl.client.auth"),
    }
)
"""Properties of `MirrorMakerConfig` itself."""

CONNECTOR = frozenset(
    {
        # MirrorConnectorConfig, ConnectorConfig, SourceConnectorConfig
        *("name", "connector.class", "enabled", "tasks.max", "tasks.max.enforce"),
        *("source.cluster.alias", "target.cluster.alias", "admin.timeout.ms"),
        *("replication.policy.class", "replication.policy.separator"),
        *("replication.policy.internal.topic.separator.enabled", "forwarding.admin.class"),
        *("metric.reporters", "config.providers", "key.converter", "value.converter"),
        *("header.converter", "transforms", "predicates", "config.action.reload"),
        *("errors.retry.timeout", "errors.retry.delay.max.ms", "errors.tolerance"),
        *("errors.log.enable", "errors.log.include.messages"),
        # MirrorSourceConfig
        *("topics", "topics.exclude", "topics.blacklist", "topic.filter.class"),
        *("config.properties.exclude", "config.properties.blacklist"),
        *("config.property.filter.class", "consumer.poll.timeout.ms"),
        *("refresh.topics.enabled", "refresh.topics.interval.seconds"),
        *("sync.topic.configs.enabled", "sync.topic.configs.interval.seconds"),
        *("sync.topic.acls.enabled", "sync.topic.acls.interval.seconds", "replication.factor"),
        *("offset-syncs.topic.replication.factor", "offset-syncs.topic.location"),
        *("emit.offset-syncs.enabled", "offset.lag.max", "heartbeats.replication.enabled"),
        *("metric.names.formats", "use.incremental.alter.configs"),
        "add.source.alias.to.metrics",
        # MirrorCheckpointConfig
        *("groups", "groups.exclude", "groups.blacklist", "group.filter.class"),
        *("refresh.groups.enabled", "refresh.groups.interval.seconds"),
        *("emit.checkpoints.enabled", "emit.checkpoints.interval.seconds"),
        *("sync.group.offsets.enabled", "sync.group.offsets.interval.seconds"),
        "checkpoints.topic.replication.factor",
        # MirrorHeartbeatConfig
        *("emit.heartbeats.enabled", "emit.heartbeats.interval.seconds"),
        "heartbeats.topic.replication.factor",
    }
)
"""Properties of the three connectors: the only ones that dedicated mode passes to them from the
top level."""

CHECKPOINT_ONLY = frozenset(
    {
        *("groups", "groups.exclude", "groups.blacklist", "group.filter.class"),
        *("refresh.groups.enabled", "refresh.groups.interval.seconds"),
        *("emit.checkpoints.enabled", "emit.checkpoints.interval.seconds"),
        *("sync.group.offsets.enabled", "sync.group.offsets.interval.seconds"),
        "checkpoints.topic.replication.factor",
    }
)
"""Properties that only the checkpoint connector reads."""
HEARTBEAT_ONLY = frozenset(
    {
        *("emit.heartbeats.enabled", "emit.heartbeats.interval.seconds"),
        "heartbeats.topic.replication.factor",
    }
)
"""Properties that only the heartbeat connector reads."""
HOW_HEARTBEATS = HEARTBEAT_ONLY - {"emit.heartbeats.enabled"}

WORKER_PREFIXES = (
    *("offset.storage", "config.storage", "status.storage", "key.converter", "value.converter"),
    *("header.converter", "task", "worker", "replication.policy"),
)
"""Top-level properties that dedicated mode gives its Connect workers."""

CLIENT_PREFIXES = ("ssl.", "sasl.")
CLIENT = frozenset({"bootstrap.servers", "security.protocol"})
"""With the prefixes above, the properties that dedicated mode passes to a cluster's clients."""

ROLES = ("consumer.", "producer.", "admin.")


def is_client(name: str) -> bool:
    """Return whether a property says how to connect to a cluster."""
    return name in CLIENT or name.startswith(CLIENT_PREFIXES)


def is_connector(name: str) -> bool:
    """Return whether a connector reads a property."""
    return name in CONNECTOR or name.startswith("replication.policy")
