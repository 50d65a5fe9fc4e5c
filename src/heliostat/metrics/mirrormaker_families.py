"""The names of MirrorMaker 2's metrics that are served beside our own; pure.

As Strimzi's rules for Prometheus' JMX exporter write them, and where they differ as its own metrics
reporter does. Names with a unit such as `_ms` are what Prometheus' linter refuses: they are served
at an address of their own.
"""

from __future__ import annotations

from heliostat.metrics.families import Family, Kind

MIRROR = ("source", "target", "destination", "topic", "partition")
LINK = ("source", "target")
CLIENT = ("clientid", "client_id", *LINK)
SPREADS = ("", "_avg", "_min", "_max")
"""The newest value, and those of a minute."""
TASK_STATES = (
    "total", "running", "paused", "failed", "unassigned", "destroyed", "restarting"
)  # fmt: skip


def _gauge(name: str, labels: tuple[str, ...], meaning: str) -> Family:
    return Family(name, Kind.GAUGE, labels, meaning)


def _of_source(name: str, meaning: str) -> Family:
    return _gauge(f"kafka_connect_mirror_mirrorsourceconnector_{name}", MIRROR, meaning)


RECORD_COUNT = _of_source("record_count", "Records copied since the service began to watch.")
RECORD_RATE = _of_source("record_rate", "Records copied a second.")
BYTE_COUNT = _of_source("byte_count", "Bytes of batches copied since the service began to watch.")
BYTE_RATE = _of_source("byte_rate", "Bytes of batches copied a second.")
RECORD_AGE = tuple(
    _of_source(f"record_age_ms{spread}", "Age of its topic's records at their append.")
    for spread in SPREADS
)
LATENCY = tuple(
    _of_source(f"replication_latency_ms{spread}", "Age of its topic's records at their append.")
    for spread in SPREADS
)
CHECKPOINT_LATENCY = tuple(
    _gauge(
        f"kafka_connect_mirror_mirrorcheckpointconnector_checkpoint_latency_ms{spread}",
        LINK,
        "Time that the last pass over consumer groups took.",
    )
    for spread in SPREADS
)
RECORDS_LAG = tuple(
    _gauge(name, (*CLIENT, "topic", "partition"), "Records missing at the target.")
    for name in (
        "kafka_consumer_fetch_manager_records_lag",
        "kafka_consumer_consumer_fetch_manager_metrics_records_lag",
    )
)
INCOMING = tuple(
    Family(name, Kind.COUNTER, CLIENT, "Bytes that a lane has fetched in its round.")
    for name in (
        "kafka_consumer_incoming_byte_total",
        "kafka_consumer_consumer_metrics_incoming_byte_total",
    )
)
OUTGOING = tuple(
    Family(name, Kind.COUNTER, CLIENT, "Bytes of a lane's round that brokers have acknowledged.")
    for name in (
        "kafka_producer_outgoing_byte_total",
        "kafka_producer_producer_metrics_outgoing_byte_total",
    )
)
CONNECTORS = tuple(
    _gauge(name, LINK, "Connectors that MirrorMaker 2 would have for the link.")
    for name in (
        "kafka_connect_worker_connector_count",
        "kafka_connect_coordinator_assigned_connectors",
        "kafka_connect_connect_worker_metrics_connector_count",
        "kafka_connect_connect_coordinator_metrics_assigned_connectors",
    )
)
TASKS = tuple(
    _gauge(name, LINK, "Lanes of the link.")
    for name in (
        "kafka_connect_worker_task_count",
        "kafka_connect_coordinator_assigned_tasks",
        "kafka_connect_connect_worker_metrics_task_count",
        "kafka_connect_connect_coordinator_metrics_assigned_tasks",
    )
)
REBALANCING = tuple(
    _gauge(name, LINK, "Always 0: links have no rebalances.")
    for name in (
        "kafka_connect_worker_rebalance_rebalancing",
        "kafka_connect_connect_worker_rebalance_metrics_rebalancing",
    )
)
CONNECTOR_STATUS = _gauge(
    "kafka_connect_connector_status",
    ("connector", "task", "status", *LINK),
    "1 for the state of a lane.",
)
TASK_COUNTS = {
    state: _gauge(
        f"kafka_connect_worker_connector_{state}_task_count",
        ("connector", *LINK),
        "Lanes of the link in that state.",
    )
    for state in TASK_STATES
}

FAMILIES = (
    RECORD_COUNT, RECORD_RATE, BYTE_COUNT, BYTE_RATE, *RECORD_AGE, *LATENCY, *CHECKPOINT_LATENCY,
    *RECORDS_LAG, *INCOMING, *OUTGOING, *CONNECTORS, *TASKS, *REBALANCING, CONNECTOR_STATUS,
    *TASK_COUNTS.values(),
)  # fmt: skip
"""All of them, in their order."""
