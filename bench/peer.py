"""MirrorMaker 2 as the peer: dedicated mode, one flow A->B, a plain `java` process.

`default` is what a user gets who writes down the clusters, the topics and what a one-broker target
needs (replication factors of 1), nothing else. `tuned` is the fastest we could make it; what was
tried stands at `TUNED`, and `bench/compare SCENARIO --tune` tries the candidates again.
Which prefix reaches which client: connectors' consumers read `A.consumer.*`; the data producer is
the Connect worker's, so it is `B.producer.*` (`target.producer.*` would not reach it).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from heliostat.sandbox import ensure_jars

JARS = "mirror-4.3.0"
MAIN_CLASS = "org.apache.kafka.connect.mirror.MirrorMaker"
JVM = (
    # Heap and collector of the distribution's own start script.
    "-Xms256M",
    "-Xmx2G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)

ALIAS = "A"
"""The source's alias; the default policy puts it, and a dot, before each topic's name."""


def candidate(
    tasks: int,
    *,
    batch_kb: int = 512,
    linger_ms: int = 50,
    poll_records: int = 10_000,
    fetch_mb: int = 16,
    in_flight: int = 1,
) -> dict[str, str]:
    """Settings of one tuned MirrorMaker.

    Its fetches are as large as its heap allows, it polls thousands of records at a time, and its
    producer has room for what all its tasks have polled.
    """
    settings = {
        "tasks.max": str(tasks),
        "A.consumer.fetch.max.bytes": str(4 * fetch_mb << 20),
        "A.consumer.max.partition.fetch.bytes": str(fetch_mb << 20),
        "A.consumer.max.poll.records": str(poll_records),
        "A.consumer.fetch.min.bytes": str(256 << 10),
        "A.consumer.fetch.max.wait.ms": "100",
        "A.consumer.receive.buffer.bytes": str(4 << 20),
        "B.producer.batch.size": str(batch_kb << 10),
        "B.producer.linger.ms": str(linger_ms),
        "B.producer.buffer.memory": str(256 << 20),
        "B.producer.max.request.size": str(8 << 20),
        "B.producer.send.buffer.bytes": str(4 << 20),
    }
    if in_flight > 1:  # Connect's own default of 1 keeps the order when a send is repeated
        settings["B.producer.max.in.flight.requests.per.connection"] = str(in_flight)
        settings["B.producer.enable.idempotence"] = "true"
    return settings


CANDIDATES: dict[str, dict[str, str]] = {
    "2 tasks": candidate(2),
    "4 tasks": candidate(4),
    "2 tasks, 5 in flight, idempotent": candidate(2, in_flight=5),
    "4 tasks, 5 in flight, idempotent": candidate(4, in_flight=5),
    "2 tasks, 1 MB batches, 20 ms linger": candidate(2, batch_kb=1000, linger_ms=20),
    "2 tasks, 5000 records a poll, 4 MB fetches": candidate(2, poll_records=5000, fetch_mb=4),
    "2 tasks, no offset syncs": {**candidate(2), "emit.offset-syncs.enabled": "false"},
}
"""What `--tune` tries, by name."""

TUNED: dict[str, str] = {"bulk": "2 tasks", "tiny": "2 tasks"}
"""The best candidate by scenario."""


def target_topic(topic: str) -> str:
    """Where the default replication policy puts the topic."""
    return f"{ALIAS}.{topic}"


def properties(
    source: str, target: str, topic: str, codec: str, settings: Mapping[str, str]
) -> dict[str, str]:
    """All of `mm2.properties`: what is necessary, then `settings`."""
    necessary = {
        "clusters": f"{ALIAS}, B",
        "A.bootstrap.servers": source,
        "B.bootstrap.servers": target,
        "A->B.enabled": "true",
        "A->B.topics": topic,
        "B->A.enabled": "false",
        # One broker at each side holds one replica.
        "replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
        "B.config.storage.replication.factor": "1",
        "B.offset.storage.replication.factor": "1",
        "B.status.storage.replication.factor": "1",
        # Off for both sides of the comparison.
        "emit.heartbeats.enabled": "false",
        "emit.checkpoints.enabled": "false",
    }
    if settings and codec != "none":  # the default one decompresses and does not compress again
        necessary["B.producer.compression.type"] = codec
    tuned = dict(settings)
    if tuned.get("emit.offset-syncs.enabled") == "false":
        # With them off, any other setting of theirs is refused.
        del necessary["offset-syncs.topic.replication.factor"]
    return {**necessary, **tuned}


def command(java: Path, folder: Path, wanted: Mapping[str, str]) -> Sequence[str]:
    """Write the properties file and answer the command line that runs it."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "mm2.properties"
    file.write_text("".join(f"{key} = {value}\n" for key, value in wanted.items()))
    classpath = ":".join(str(jar) for jar in ensure_jars(JARS))
    return [str(java), *JVM, "-cp", classpath, MAIN_CLASS, str(file)]
