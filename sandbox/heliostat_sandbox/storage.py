"""Format a broker's data folder, which KRaft requires before the first start.

A formatted folder has the ids (`meta.properties`) and the cluster's first records
(`bootstrap.checkpoint`: metadata version and features), which are the same for every cluster with
a fixed list of voters. So Kafka's own StorageTool formats once per set of jars; its checkpoint is
cached and only new ids are written, which saves a JVM start for each broker.
"""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Sequence
from pathlib import Path

from heliostat.errors import SandboxError
from heliostat.names import BrokerId, ClusterId
from heliostat_sandbox.jars import cache_folder
from heliostat_sandbox.settings import Ports, server_properties

FORMAT_TIMEOUT_S = 120.0
"""Measured 2 s."""
CHECKPOINT = "bootstrap.checkpoint"
META = "meta.properties"


def new_cluster_id() -> ClusterId:
    """Return a random id like those of Kafka's `Uuid.randomUuid`: 22 characters, no dash first."""
    while True:  # one in 64 begins with a dash, which command lines take for an option
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return ClusterId(text)


def format_folder(data: Path, cluster_id: ClusterId, broker: BrokerId, checkpoint: Path) -> None:
    """Create `data` as `kafka-storage.sh format` would."""
    data.mkdir(parents=True)
    (data / META).write_text(
        f"version=1\ncluster.id={cluster_id}\nnode.id={broker}\ndirectory.id={new_cluster_id()}\n",
        encoding="utf-8",
    )
    shutil.copyfile(checkpoint, data / CHECKPOINT)


def bootstrap_checkpoint(java: Path, jars: Sequence[Path], set_name: str) -> Path:
    """Return the file of a cluster's first records; StorageTool makes it once per set of jars.

    Raises
    ------
    SandboxError
        The tool failed.
    """
    kept = cache_folder() / f"{set_name}.{CHECKPOINT}"
    if kept.is_file():
        return kept
    with tempfile.TemporaryDirectory() as work:
        data = Path(work) / "data"
        settings = Path(work) / "server.properties"
        broker = BrokerId(1)
        properties = server_properties(broker, {broker: Ports(9092, 9093)}, data, {})
        settings.write_text(
            "".join(f"{key}={value}\n" for key, value in properties.items()), encoding="utf-8"
        )
        classpath = ":".join(map(str, jars))
        command = [str(java), "-cp", classpath, "kafka.tools.StorageTool", "format"]
        done = subprocess.run(
            [*command, "--cluster-id", new_cluster_id(), "--config", str(settings)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=FORMAT_TIMEOUT_S,
            check=False,
        )
        made = data / CHECKPOINT
        if done.returncode or not made.is_file():
            raise SandboxError("a data folder can't be formatted", tool_said=done.stdout[-2000:])
        kept.parent.mkdir(parents=True, exist_ok=True)
        part = kept.with_name(f".{kept.name}.{os.getpid()}")
        shutil.copyfile(made, part)
        part.replace(kept)  # atomic, as several processes may do this at once
    return kept
