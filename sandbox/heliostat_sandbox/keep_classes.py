"""Make the class archive of Kafka's brokers, see `heliostat_sandbox.kept_classes`."""

from __future__ import annotations

import os

from heliostat.clusters.admin import LATEST, ClusterAdmin, NewTopic
from heliostat.names import GroupId, PartitionId, TopicName, TopicPartition
from heliostat_sandbox.cluster import Cluster
from heliostat_sandbox.kept_classes import MAKING_VARIABLE, archive_of
from heliostat_sandbox.versions import KAFKA_4_3, kafka_version

HEAP_MB = 320


def make_archive() -> None:
    """Run a broker, send it clients' requests, stop it, and archive the classes it has loaded.

    Raises
    ------
    SandboxError
        The broker does not start, or does not end.
    OSError
        The archive can't be written.
    """
    archive = archive_of(kafka_version(KAFKA_4_3).jars)
    archive.parent.mkdir(parents=True, exist_ok=True)
    draft = archive.with_name(f".{archive.name}.{os.getpid()}")
    os.environ[MAKING_VARIABLE] = str(draft)
    try:
        with Cluster.start("classes", heap_mb=HEAP_MB) as cluster:
            _ask(cluster.bootstrap)
            cluster.brokers[0].stop()
        draft.replace(archive)
    finally:
        del os.environ[MAKING_VARIABLE]
        draft.unlink(missing_ok=True)


def _ask(bootstrap: str) -> None:
    topic = TopicName("classes")
    with ClusterAdmin([bootstrap]) as admin:
        admin.create_topics([NewTopic(topic, 1, 1, {"cleanup.policy": "compact"})])
        admin.describe_topics([topic])
        admin.describe_configs([topic])
        admin.list_offsets({TopicPartition(topic, PartitionId(0)): LATEST})
        admin.init_producer_id()
        admin.committed_offsets([GroupId("classes")])


if __name__ == "__main__":
    make_archive()
