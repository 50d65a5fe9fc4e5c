"""Real brokers on this machine, for the demo, the tests and the benchmark."""

from heliostat.sandbox.broker import Broker
from heliostat.sandbox.cluster import Cluster, ClusterSpec, Storage, start_many
from heliostat.sandbox.efd import EfdTopic, Profile, efd_load, efd_topics
from heliostat.sandbox.jars import KAFKA, MIRROR, ensure_jars
from heliostat.sandbox.java import find_java
from heliostat.sandbox.load import LoadCounts, LoadGenerator, prepare_topics
from heliostat.sandbox.security import ClientAuth, Credentials, Listener, Mechanism, SandboxSecurity
from heliostat.sandbox.shapes import GenericShape, Timestamps, TopicLoad
from heliostat.sandbox.versions import KAFKA_2_8, KAFKA_3_9, KAFKA_4_3

__all__ = [
    "KAFKA",
    "KAFKA_2_8",
    "KAFKA_3_9",
    "KAFKA_4_3",
    "MIRROR",
    "Broker",
    "ClientAuth",
    "Cluster",
    "ClusterSpec",
    "Credentials",
    "EfdTopic",
    "GenericShape",
    "Listener",
    "LoadCounts",
    "LoadGenerator",
    "Mechanism",
    "Profile",
    "SandboxSecurity",
    "Storage",
    "Timestamps",
    "TopicLoad",
    "efd_load",
    "efd_topics",
    "ensure_jars",
    "find_java",
    "prepare_topics",
    "start_many",
]
