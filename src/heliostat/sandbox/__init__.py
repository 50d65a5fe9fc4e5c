"""Real brokers on this machine, for the demo, the tests and the benchmark."""

from heliostat.sandbox.broker import Broker
from heliostat.sandbox.cluster import Cluster, ClusterSpec, Storage, start_many
from heliostat.sandbox.jars import KAFKA, MIRROR, ensure_jars
from heliostat.sandbox.java import find_java

__all__ = [
    "KAFKA",
    "MIRROR",
    "Broker",
    "Cluster",
    "ClusterSpec",
    "Storage",
    "ensure_jars",
    "find_java",
    "start_many",
]
