"""A real YARN cluster on loopback: a ResourceManager and NodeManagers, each a process of its own.

Their jars are Hadoop's `hadoop-client-minicluster`, of the version whose client PySpark contains.
There is no HDFS: what an application brings lies in local folders.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from xml.sax.saxutils import escape

import psutil

from heliostat.errors import SandboxError
from heliostat.ops.quick_jvm import QUICK_JVM
from heliostat_sandbox.jars import YARN, ensure_jars
from heliostat_sandbox.java import find_java
from heliostat_sandbox.ports import LOOPBACK, free_ports
from heliostat_sandbox.process import OwnProcess
from heliostat_sandbox.spark_cluster import (
    ASK_S,
    LOOK_S,
    READY_TIMEOUT_S,
    STOP_TIMEOUT_S,
    SparkWorker,
    log_tail,
    spark_home,
)

MANAGER_CLASS = "org.apache.hadoop.yarn.server.resourcemanager.ResourceManager"
NODE_CLASS = "org.apache.hadoop.yarn.server.nodemanager.NodeManager"
EXECUTOR_CLASS = "org.apache.spark.executor.YarnCoarseGrainedExecutorBackend"
HEAP_MB = 256
NODE_MEMORY_MB = 2560
"""Memory that a node offers to containers: one executor of a core (1536) and Spark's application
master (896), not two executors. Only counted, not allocated."""
NODE_CORES = 4
EXPIRES_MS = 15_000
"""The manager gives a node up that is silent for this long (Hadoop's default: 600,000)."""
MASTER_EXPIRES_MS = 90_000
"""The same for an application master, which a busy machine takes 20 s to start; one that is lost
with its node goes with that."""
LOG4J2 = """\
rootLogger.level = INFO
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %p %c{2}: %m%n
"""
SCHEDULER = {
    "yarn.scheduler.capacity.root.queues": "default",
    "yarn.scheduler.capacity.root.default.capacity": "100",
    "yarn.scheduler.capacity.maximum-am-resource-percent": "1.0",
}


class YarnCluster:
    """A running ResourceManager with its nodes. As a context manager it stops when the block ends.

    Parameters
    ----------
    folder
        Has a folder for the manager and for each node.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.nodes: list[SparkWorker] = []
        """NodeManagers that were not killed."""
        self.configuration = folder / "manager"
        """Folder for `HADOOP_CONF_DIR`."""
        self._started = 0
        tracker, scheduler, client, admin, web = (f"{LOOPBACK}:{port}" for port in free_ports(5))
        self.web_url = f"http://{web}"
        """Address of the manager's web page and REST API."""
        self._common = {
            "yarn.resourcemanager.hostname": LOOPBACK,
            "yarn.resourcemanager.resource-tracker.address": tracker,
            "yarn.resourcemanager.scheduler.address": scheduler,
            "yarn.resourcemanager.address": client,
            "yarn.resourcemanager.admin.address": admin,
            "yarn.resourcemanager.webapp.address": web,
            "yarn.scheduler.minimum-allocation-mb": "128",
            "yarn.scheduler.include-port-in-node-name": "true",  # all nodes have one host
            "yarn.nm.liveness-monitor.expiry-interval-ms": str(EXPIRES_MS),
            "yarn.am.liveness-monitor.expiry-interval-ms": str(MASTER_EXPIRES_MS),
        }
        self._manager = self._launch(self.configuration, MANAGER_CLASS, {}, "cluster")

    @classmethod
    def start(cls, nodes: int = 2, *, parent: Path | None = None) -> YarnCluster:
        """Start a ResourceManager and `nodes` NodeManagers and wait until all are registered.

        Its processes end with this one, whatever ends it.

        Parameters
        ----------
        nodes
            Number of nodes, 0 or more.
        parent
            Folder in which the cluster's folder is created; a temporary one by default.

        Raises
        ------
        SandboxError
            It did not start; the text has the end of the log. Nothing is left running.
        """
        folder = Path(tempfile.mkdtemp(prefix="heliostat-yarn-", dir=parent))
        cluster: YarnCluster | None = None
        try:
            cluster = cls(folder)
            cluster._wait(lambda: cluster._ask("info") is not None, "the manager does not answer")
            for _ in range(nodes):
                cluster._launch_node()
            cluster.wait_nodes(nodes)
        except BaseException:
            if cluster is not None:
                cluster.stop()
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return cluster

    @property
    def spark_conf(self) -> dict[str, str]:
        """Spark's settings for a link here: nothing is copied, and all is on loopback."""
        return {
            "spark.driver.host": LOOPBACK,
            "spark.driver.bindAddress": LOOPBACK,
            "spark.yarn.jars": f"local:{spark_home() / 'jars'}/*",
            "spark.yarn.stagingDir": (self.folder / "staging").as_uri(),
        }

    def applications(self) -> dict[str, str]:
        """Return how applications stand, by id: `RUNNING`, or how they ended (`SUCCEEDED`)."""
        answer = (self._ask("apps") or {}).get("apps") or {}
        return {
            str(each["id"]): str(each["state" if each["state"] == "RUNNING" else "finalStatus"])
            for each in answer.get("app", [])
        }

    def wait_nodes(self, count: int, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Wait until the manager has exactly `count` nodes running.

        Raises
        ------
        SandboxError
            That was not so in time, or a process ended meanwhile.
        """

        def is_so() -> bool:
            answer = (self._ask("nodes?states=RUNNING") or {}).get("nodes") or {}
            return len(answer.get("node", [])) == count

        self._wait(is_so, f"the ResourceManager does not have {count} nodes", timeout_s)

    def add_node(self, timeout_s: float = READY_TIMEOUT_S) -> SparkWorker:
        """Start one more NodeManager and wait until it is registered."""
        node = self._launch_node()
        self.wait_nodes(len(self.nodes), timeout_s)
        return node

    def kill_node(self, node: SparkWorker) -> None:
        """Remove a NodeManager and all its containers with SIGKILL, as a power cut would."""
        self.nodes.remove(node)
        node.kill()

    def kill_manager_of(self, node: SparkWorker) -> list[psutil.Process]:
        """Kill a NodeManager alone (SIGKILL); return its containers' processes, which go on."""
        self.nodes.remove(node)
        return node.kill_alone()

    def stop(self) -> None:
        """End all processes and delete the cluster's folder."""
        try:
            with contextlib.ExitStack() as each:  # a failure of one must not spare the others
                each.callback(self._end_manager)
                for node in self.nodes:
                    each.callback(node.kill)
        finally:
            self.nodes = []
            shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _ask(self, path: str) -> dict[str, Any] | None:
        """Return the manager's answer; None without one."""
        try:
            address = f"{self.web_url}/ws/v1/cluster/{path}"
            with urllib.request.urlopen(address, timeout=ASK_S) as answer:  # noqa: S310  # loopback
                read: dict[str, Any] = json.load(answer)
                return read
        except (OSError, urllib.error.URLError, ValueError):
            return None

    def _launch_node(self) -> SparkWorker:
        number = self._started
        self._started += 1
        home = self.folder / f"node-{number}"
        own, localizer, web = (f"{LOOPBACK}:{port}" for port in free_ports(3))
        settings = {
            "yarn.nodemanager.hostname": LOOPBACK,
            "yarn.nodemanager.address": own,
            "yarn.nodemanager.localizer.address": localizer,
            "yarn.nodemanager.webapp.address": web,
            "yarn.nodemanager.local-dirs": str(home / "local"),
            "yarn.nodemanager.log-dirs": str(home / "containers"),
            "yarn.nodemanager.resource.memory-mb": str(NODE_MEMORY_MB),
            "yarn.nodemanager.resource.cpu-vcores": str(NODE_CORES),
            "yarn.nodemanager.user-home-dir": str(Path.home()),  # `/home` by default
            "yarn.nodemanager.vmem-check-enabled": "false",
            # A disk of a machine for tests may be nearly full.
            "yarn.nodemanager.disk-health-checker.enable": "false",
        }
        process = self._launch(home, NODE_CLASS, settings, "node")
        node = SparkWorker(number, home, process, EXECUTOR_CLASS)
        self.nodes.append(node)
        return node

    def _launch(
        self, home: Path, main_class: str, settings: Mapping[str, str], page: str
    ) -> OwnProcess:
        """Start one of YARN's daemons, which uses only loopback and `home`."""
        (home / "webapps" / page).mkdir(parents=True)  # its pages: not in that jar, but looked for
        for name, content in (
            ("core-site.xml", {"fs.defaultFS": "file:///", "hadoop.tmp.dir": str(home / "tmp")}),
            ("yarn-site.xml", {**self._common, **settings}),
            ("capacity-scheduler.xml", SCHEDULER),
        ):
            (home / name).write_text(_site(content), encoding="utf-8")
        (home / "log4j2.properties").write_text(LOG4J2, encoding="utf-8")
        command = [
            *("/usr/bin/env", "-u", "PYTHONPATH"),  # becomes java: the pid stays
            str(find_java()),
            f"-Xmx{HEAP_MB}m",
            *QUICK_JVM,
            f"-Dlog4j2.configurationFile={home / 'log4j2.properties'}",
            f"-Dhadoop.log.dir={home}",
            *("-cp", os.pathsep.join(map(str, (home, *ensure_jars(YARN)))), main_class),
        ]
        return OwnProcess.start(command, output=home / "log", folder=home, dies_with_owner=True)

    def _end_manager(self) -> None:
        self._manager.signal(signal.SIGKILL)
        if not self._manager.wait(STOP_TIMEOUT_S):
            raise SandboxError("a ResourceManager can't be killed", pid=self._manager.pid)

    def _wait(
        self, is_so: Callable[[], bool], why: str, timeout_s: float = READY_TIMEOUT_S
    ) -> None:
        deadline_s = time.monotonic() + timeout_s
        while not is_so():
            processes = [(self.configuration, self._manager)]
            processes += [(each.folder, each.process) for each in self.nodes]
            for folder, process in processes:
                if not process.is_alive():
                    log = log_tail(folder)
                    raise SandboxError("a process of YARN ended", name=folder.name, log=log)
            if time.monotonic() > deadline_s:
                logs = "".join(log_tail(folder) for folder, _ in processes)
                raise SandboxError(f"YARN: {why}", timeout_s=timeout_s, log=logs)
            time.sleep(LOOK_S)


def _site(settings: Mapping[str, str]) -> str:
    """Return settings as a file of Hadoop."""
    rows = (
        f"<property><name>{escape(name)}</name><value>{escape(value)}</value></property>\n"
        for name, value in settings.items()
    )
    return f"<configuration>\n{''.join(rows)}</configuration>\n"
