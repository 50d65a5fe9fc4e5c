"""Real brokers and a registry on this machine, for the demo, the tests and the benchmark."""

from heliostat_sandbox.broker import Broker
from heliostat_sandbox.cluster import Cluster, ClusterSpec, Storage, start_many
from heliostat_sandbox.efd import EfdTopic, Profile, efd_load, efd_topics
from heliostat_sandbox.far_line import FarLine
from heliostat_sandbox.jars import APICURIO, KAFKA, MIRROR, ensure_jars
from heliostat_sandbox.java import find_java
from heliostat_sandbox.load import LoadCounts, LoadGenerator, prepare_topics
from heliostat_sandbox.registry import SandboxRegistry
from heliostat_sandbox.security import ClientAuth, Credentials, Listener, Mechanism, SandboxSecurity
from heliostat_sandbox.shapes import GenericShape, Timestamps, TopicLoad
from heliostat_sandbox.versions import KAFKA_2_8, KAFKA_3_9, KAFKA_4_3

__all__ = [
    "APICURIO",
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
    "FarLine",
    "GenericShape",
    "Listener",
    "LoadCounts",
    "LoadGenerator",
    "Mechanism",
    "Profile",
    "SandboxRegistry",
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
