"""MirrorMaker 2 as the peer: dedicated mode, one flow A->B, a plain `java` process.

`default` is what a user gets who configures the clusters, the topics and what a one-broker target
needs (replication factors of 1), nothing else. `tuned` is the fastest we could make it; what was
tried is at `TUNED`, and `bench/compare SCENARIO --tune` tries the candidates again.
Which prefix reaches which client: connectors' consumers read `A.consumer.*`; the data producer is
the Connect worker's, so it is `B.producer.*` (`target.producer.*` would not reach it).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyspark
from reach import Way

from heliostat_sandbox.jars import MIRROR, ensure_jars

MAIN_CLASS = "org.apache.kafka.connect.mirror.MirrorMaker"
JVM = (
    # Heap and garbage collector of the distribution's own start script.
    "-Xms256M",
    "-Xmx2G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
    # Warnings only, to the part's output.log: errors must be seen, but lines cost time.
    "-Dorg.apache.logging.log4j.level=WARN",
)

QUICK_JVM = ("-XX:TieredStopAtLevel=1",)
"""For small test runs: half of the first minute would be spent on optimizing compilation."""

ALIAS = "A"
"""The source's alias; the default policy prefixes it, and a dot, to each topic's name."""


def candidate(
    tasks: int,
    *,
    batch_kb: int = 512,
    linger_ms: int = 50,
    poll_records: int = 5_000,
    fetch_mb: int = 4,
    in_flight: int = 1,
) -> dict[str, str]:
    """Return settings of one tuned MirrorMaker.

    Fetches and polls are large, and the producer has room for what a task has polled. Not larger:
    with 16 MB a partition and 256 MB of producer buffer, two tasks ran out of their 2 GB of heap.
    """
    settings = {
        "tasks.max": str(tasks),
        "A.consumer.fetch.max.bytes": str(4 * fetch_mb << 20),
        "A.consumer.max.partition.fetch.bytes": str(fetch_mb << 20),
        "A.consumer.max.poll.records": str(poll_records),
        "A.consumer.receive.buffer.bytes": str(1 << 20),
        "B.producer.batch.size": str(batch_kb << 10),
        "B.producer.linger.ms": str(linger_ms),
        "B.producer.buffer.memory": str(64 << 20),
        "B.producer.max.request.size": str(8 << 20),
        "B.producer.send.buffer.bytes": str(1 << 20),
    }
    if in_flight > 1:  # Connect's own default of 1 keeps the order when a send is repeated
        settings["B.producer.max.in.flight.requests.per.connection"] = str(in_flight)
        settings["B.producer.enable.idempotence"] = "true"
    return settings


NO_SYNCS = {"emit.offset-syncs.enabled": "false"}
"""Without them checkpoints cannot be made; checkpoints are off for this comparison anyway."""

CANDIDATES: dict[str, dict[str, str]] = {
    "2 tasks": candidate(2),
    "2 tasks, 5 in flight": candidate(2, in_flight=5),
    "2 tasks, no syncs": {**candidate(2), **NO_SYNCS},
    "1 task, 5 in flight, no syncs": {**candidate(1, in_flight=5), **NO_SYNCS},
    "2 tasks, 5 in flight, no syncs": {**candidate(2, in_flight=5), **NO_SYNCS},
    "4 tasks, 5 in flight, no syncs": {**candidate(4, in_flight=5), **NO_SYNCS},
    "2 tasks, 5 in flight, no syncs, 1 MB batches": {
        **candidate(2, in_flight=5, batch_kb=1000, linger_ms=20),
        **NO_SYNCS,
    },
    "2 tasks, 5 in flight, no syncs, 1 MB fetches": {
        **candidate(2, in_flight=5, fetch_mb=1),
        **NO_SYNCS,
    },
}
"""What `--tune` tries, by name. Five in flight are with idempotence, so that order is kept."""

QUICK: dict[str, dict[str, str]] = {
    f"{tasks} tasks, 5 in flight, no linger": {
        "tasks.max": str(tasks),
        "B.producer.max.in.flight.requests.per.connection": "5",
        "B.producer.enable.idempotence": "true",
    }
    for tasks in (2, 4)
}
"""For latency: more than one task, and sends that don't wait for the answer before."""

TUNED: dict[str, str] = {
    "bulk": "2 tasks, 5 in flight",
    "tiny": "2 tasks, 5 in flight",
    "transactional": "2 tasks, 5 in flight",
    "compacted": "2 tasks, 5 in flight",
    "pipeline": "2 tasks, 5 in flight",
    "pipeline_headers": "2 tasks, 5 in flight",
    "pipeline_sql": "2 tasks, 5 in flight",
    "pipeline_avro": "2 tasks, 5 in flight",
    "pipeline_json": "2 tasks, 5 in flight",
    "catchup": "2 tasks, 5 in flight",
    "latency": "2 tasks, 5 in flight, no linger",
    "latency_pipeline": "2 tasks, 5 in flight, no linger",
    "latency_sql": "2 tasks, 5 in flight, no linger",
    "efd": "4 tasks, 5 in flight, no linger",
    "many": "4 tasks, 5 in flight, no linger",
}
"""The best candidate by scenario that still lets offsets be translated, which a mirror is for.

Without offset syncs MirrorMaker 2 is up to 1.4 times as fast (`--tune`), and no consumer can be
moved.
"""


def target_topic(topic: str) -> str:
    """Return the topic's name by the default replication policy."""
    return f"{ALIAS}.{topic}"


def properties(
    source: Way, target: Way, topic: str, codec: str, settings: Mapping[str, str]
) -> dict[str, str]:
    """Return `mm2.properties`: the necessary settings, then `settings`."""
    necessary = {
        "clusters": f"{ALIAS}, B",
        "A.bootstrap.servers": source.bootstrap,
        "B.bootstrap.servers": target.bootstrap,
        **{f"A.{key}": value for key, value in source.properties.items()},
        **{f"B.{key}": value for key, value in target.properties.items()},
        "A->B.enabled": "true",
        "A->B.topics": topic,
        "B->A.enabled": "false",
        # One broker at each side holds one replica.
        "replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
        "heartbeats.topic.replication.factor": "1",
        "checkpoints.topic.replication.factor": "1",
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


def command(
    java: Path, folder: Path, wanted: Mapping[str, str], *, quick: bool = False
) -> Sequence[str]:
    """Write the properties file and return the command line that runs it."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "mm2.properties"
    file.write_text("".join(f"{key} = {value}\n" for key, value in wanted.items()))
    classpath = ":".join(str(jar) for jar in (*_logging_jars(), *ensure_jars(MIRROR)))
    jvm = (*JVM, *QUICK_JVM) if quick else JVM
    return [str(java), *jvm, "-cp", classpath, MAIN_CLASS, str(file)]


def _logging_jars() -> list[Path]:
    """Return the jars for logging its warnings: its own jars include no logger, PySpark's do.

    They go first: its own `slf4j-api` is an older one, for which there is no binding there.
    """
    folder = Path(pyspark.__file__).parent / "jars"
    names = ("slf4j-api-*.jar", "log4j-slf4j2-impl-*.jar", "log4j-api-*.jar", "log4j-core-*.jar")
    return [jar for name in names for jar in folder.glob(name)]
