"""A real Kafka Connect 4.3.0 worker with MirrorMaker 2's classes, as an oracle of our API."""

from __future__ import annotations

import os
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Self

from heliostat_sandbox import find_java
from heliostat_sandbox.jars import MIRROR, ensure_jars
from heliostat_sandbox.ports import LOOPBACK, free_ports

START_S, STOP_S = 90.0, 15.0
PROPERTIES = """\
bootstrap.servers={bootstrap}
group.id=connect
key.converter=org.apache.kafka.connect.json.JsonConverter
value.converter=org.apache.kafka.connect.json.JsonConverter
offset.storage.topic=connect-offsets
offset.storage.replication.factor=1
offset.storage.partitions=1
config.storage.topic=connect-configs
config.storage.replication.factor=1
status.storage.topic=connect-status
status.storage.replication.factor=1
status.storage.partitions=1
offset.flush.interval.ms=1000
listeners=http://127.0.0.1:{port}
"""


class ConnectWorker:
    """One worker; killed at the end of the block."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        (port,) = free_ports(1)
        self.url = f"http://{LOOPBACK}:{port}"
        properties = folder / "worker.properties"
        properties.write_text(PROPERTIES.format(bootstrap=bootstrap, port=port), encoding="utf-8")
        path = os.pathsep.join(str(jar) for jar in ensure_jars(MIRROR))
        options = ["-Xmx384m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        main = "org.apache.kafka.connect.cli.ConnectDistributed"
        self.log = folder / "worker.log"
        with self.log.open("ab") as out:
            self.process = subprocess.Popen(
                [str(find_java()), *options, "-cp", path, main, str(properties)],
                stdout=out,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                cwd=folder,
            )

    def __enter__(self) -> Self:
        until_s, health = time.monotonic() + START_S, f"{self.url}/health"
        while time.monotonic() < until_s and self.process.poll() is None:
            try:
                with urllib.request.urlopen(health, timeout=10):  # noqa: S310  # loopback
                    return self
            except OSError:  # it does not listen yet, or answers 404 or 503
                time.sleep(0.2)
        self.__exit__()
        raise TimeoutError(self.log.read_text(encoding="utf-8", errors="replace")[-4000:])

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(STOP_S)
