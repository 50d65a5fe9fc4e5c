"""MirrorMaker 2's real Java classes, called from a test: a JVM with their jars behind py4j.

Needs a Java runtime and no compiler. Its gateway listens on loopback, requires a token and ends
with this process.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import pyspark
from py4j import java_gateway, protocol
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from heliostat.mm2.formats import Checkpoint, Heartbeat, OffsetSync
from heliostat.names import TopicPartition
from heliostat_sandbox.jars import MIRROR, ensure_jars
from heliostat_sandbox.java import find_java

PACKAGE = "org.apache.kafka.connect.mirror."
STOP_S = 15.0
HEAP = "-Xmx192m"
Record = Heartbeat | Checkpoint | OffsetSync


@contextmanager
def as_java_raises() -> Iterator[None]:
    """Within it errors of Java come as py4j raises them.

    PySpark, once a session has begun in this process, looks at each for one of Spark's own, and
    fails at that in a JVM without Spark.
    """
    replaced = java_gateway.get_return_value
    java_gateway.get_return_value = protocol.get_return_value
    try:
        yield
    finally:
        java_gateway.get_return_value = replaced


class MirrorJvm:
    """A JVM with the classes of `connect-mirror` and `connect-mirror-client` 4.3.0."""

    def __init__(self) -> None:
        py4j = max(Path(pyspark.__file__).parent.glob("jars/py4j-*.jar"))
        port, token, self._process = launch_gateway(
            jarpath=str(py4j),
            classpath=os.pathsep.join(str(jar) for jar in ensure_jars(MIRROR)),
            javaopts=[HEAP, "-Dorg.apache.logging.log4j.level=ERROR"],
            die_on_exit=True,
            java_path=str(find_java()),
            enable_auth=True,
            return_proc=True,
        )
        parameters = GatewayParameters(
            port=port, auth_token=token, auto_convert=True, auto_field=True
        )
        self._gateway = JavaGateway(gateway_parameters=parameters)
        self.jvm: Any = self._gateway.jvm

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._gateway.shutdown()
        try:
            self._process.stdin.close()  # the JVM ends with its standard input
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(STOP_S)

    def mirror(self, name: str) -> Any:
        """Return a class of MirrorMaker 2."""
        return getattr(self.jvm.org.apache.kafka.connect.mirror, name)

    def array(self, kind: Any, length: int) -> Any:
        """Return a new array."""
        return self._gateway.new_array(kind, length)

    def properties(self, bootstrap: str, **more: str) -> Any:
        """Return the properties for a `MirrorClient`."""
        found = self.jvm.java.util.HashMap()
        found.put("bootstrap.servers", bootstrap)
        for key, value in more.items():
            found.put(key.replace("_", "."), value)
        return found

    def encode(self, record: Record) -> tuple[bytes, bytes]:
        """Return key and value as the Java class writes them."""
        java = self._made(record)
        return bytes(self._call(java, "recordKey")), bytes(self._call(java, "recordValue"))

    def decode(self, record: Record) -> str:
        """Return the Java class's `toString` of our bytes."""
        kind = self.mirror(type(record).__name__)
        return str(kind.deserializeRecord(self._consumed(record)).toString())

    def words(self, record: Record) -> str:
        """Return the Java class's `toString` of an object with these values."""
        return str(self._made(record).toString())

    def offset_syncs(self, syncs: Iterable[OffsetSync]) -> Any:
        """Return MirrorMaker 2's checkpoint store after it has read these to the end."""
        lang = self.jvm.java.lang
        kind = lang.Class.forName(f"{PACKAGE}OffsetSyncStore")
        constructor = kind.getDeclaredConstructor(self._gateway.new_array(lang.Class, 0))
        constructor.setAccessible(True)
        store = constructor.newInstance(self._gateway.new_array(lang.Object, 0))
        for name, value in (("initializationMustReadToEnd", False), ("readToEnd", True)):
            flag = kind.getDeclaredField(name)
            flag.setAccessible(True)
            flag.setBoolean(store, value)
        types = self._gateway.new_array(lang.Class, 1)
        types[0] = lang.Class.forName("org.apache.kafka.clients.consumer.ConsumerRecord")
        handle = kind.getDeclaredMethod("handleRecord", types)
        handle.setAccessible(True)
        for sync in syncs:
            given = self._gateway.new_array(lang.Object, 1)
            given[0] = self._consumed(sync)
            handle.invoke(store, given)
        return store

    def translate(self, store: Any, partition: TopicPartition, offset: int) -> int:
        """Translate a group's offset by that store; -1 if it can't."""
        java = self.jvm.org.apache.kafka.common.TopicPartition(partition.topic, partition.partition)
        return int(store.translateDownstream("g", java, self._long(offset)).getAsLong())

    def _consumed(self, record: Record) -> Any:
        return self.jvm.org.apache.kafka.clients.consumer.ConsumerRecord(
            "any", 0, 0, bytearray(record.key()), bytearray(record.value())
        )

    def _made(self, record: Record) -> Any:
        if isinstance(record, Heartbeat):
            names = (record.source, record.target)
            return self.mirror("Heartbeat")(*names, self._long(record.timestamp_ms))
        partition = self.jvm.org.apache.kafka.common.TopicPartition(
            record.partition.topic, record.partition.partition
        )
        offsets = (self._long(record.upstream), self._long(record.downstream))
        if isinstance(record, Checkpoint):
            return self.mirror("Checkpoint")(record.group, partition, *offsets, record.metadata)
        return self.mirror("OffsetSync")(partition, *offsets)

    def _long(self, value: int) -> Any:
        return self.jvm.java.lang.Long.parseLong(str(value))

    def _call(self, java: Any, method: str) -> Any:
        """Call a package-private method."""
        lang = self.jvm.java.lang
        found = java.getClass().getDeclaredMethod(method, self._gateway.new_array(lang.Class, 0))
        found.setAccessible(True)
        return found.invoke(java, self._gateway.new_array(lang.Object, 0))
