"""A real standalone Spark cluster on loopback: a master and workers, each a process of its own.

The jars of the PySpark package have both (Spark's classes `deploy.master.Master` and
`deploy.worker.Worker`), so nothing else needs to be installed.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import shutil
import signal
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil

from heliostat.errors import SandboxError
from heliostat.ops.quick_jvm import QUICK_JVM
from heliostat_sandbox.java import find_java
from heliostat_sandbox.ports import LOOPBACK, free_ports
from heliostat_sandbox.process import OwnProcess

MASTER_CLASS = "org.apache.spark.deploy.master.Master"
WORKER_CLASS = "org.apache.spark.deploy.worker.Worker"
EXECUTOR_CLASS = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
DAEMON_HEAP_MB = 160
"""Master and workers only exchange messages."""
WORKER_MEMORY_MB = 1024
"""Memory that a worker offers to executors; not allocated, only counted."""
WORKER_TIMEOUT_S = 15
"""The master drops a worker without heartbeats for this long (Spark's default: 60)."""
READY_TIMEOUT_S = 60.0
"""Measured 3 s each on two cores; a multiple for several JVMs at once on a busy machine."""
STOP_TIMEOUT_S = 15.0
REMOVE_TIMEOUT_S = 60.0
"""A worker that is removed gracefully first lets its executors' tasks end: one round."""
LOOK_S = 0.05
ASK_S = 5.0
LOG_TAIL_LINES = 20
DECOMMISSION = signal.SIGPWR
"""`spark.worker.decommission.signal`: a worker accepts no more tasks and lets running ones end."""


class SparkWorker:
    """One worker of a `SparkCluster`, or a NodeManager of YARN; represents a machine.

    Parameters
    ----------
    number
        Number of the worker, from 0, never reused.
    folder
        Folder of its logs and its executors.
    process
        Its process.
    executor_class
        Main class of its executors.
    """

    def __init__(
        self,
        number: int,
        folder: Path,
        process: OwnProcess,
        executor_class: str = EXECUTOR_CLASS,
    ) -> None:
        self.number = number
        self.folder = folder
        self.process = process
        self._executor_class = executor_class

    @property
    def pid(self) -> int:
        """Process id."""
        return self.process.pid

    def is_alive(self) -> bool:
        """Whether its process runs."""
        return self.process.is_alive()

    def executors(self) -> list[psutil.Process]:
        """Return its executors' JVMs; each has a Python daemon, whose children are the workers."""
        return [each for each in self._children() if self._is_executor(each)]

    def kill(self) -> None:
        """End it and its executors at once (SIGKILL), as a power cut of the machine would."""
        whole = self._children()
        self.process.signal(signal.SIGKILL)
        for process in whole:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        _, alive = psutil.wait_procs(whole, timeout=STOP_TIMEOUT_S)
        if alive or not self.process.wait(STOP_TIMEOUT_S):
            raise SandboxError("a Spark worker can't be killed", pid=self.pid)

    def kill_alone(self) -> list[psutil.Process]:
        """Kill only its own process (SIGKILL); return what it had started, which may go on."""
        whole = self._children()
        self.process.signal(signal.SIGKILL)
        if not self.process.wait(STOP_TIMEOUT_S):
            raise SandboxError("a Spark worker can't be killed", pid=self.pid)
        return whole

    def kill_executors(self) -> int:
        """Kill only its executors' JVMs (SIGKILL), and return how many there were."""
        victims = self.executors()
        for process in victims:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(victims, timeout=STOP_TIMEOUT_S)
        return len(victims)

    def _is_executor(self, process: psutil.Process) -> bool:
        """Whether it is the JVM itself, and no shell that starts it."""
        words = _command_of(process)
        return bool(words) and Path(words[0]).name == "java" and self._executor_class in words

    def _children(self) -> list[psutil.Process]:
        found = self.process.identity.find()
        try:
            return found.children(recursive=True) if found is not None else []
        except psutil.NoSuchProcess:
            return []


class SparkCluster:
    """A running master with its workers. As a context manager it stops when the block ends.

    Parameters
    ----------
    folder
        Has a folder for the master and for each worker.
    worker_cores, worker_memory_mb
        Cores and memory (MB) that each worker offers.
    """

    def __init__(self, folder: Path, *, worker_cores: int, worker_memory_mb: int) -> None:
        self.folder = folder
        self.workers: list[SparkWorker] = []
        """Workers that were not removed or killed."""
        self._worker_cores = worker_cores
        self._worker_memory_mb = worker_memory_mb
        self._started = 0
        port, web_port = free_ports(2)
        self.master = f"spark://{LOOPBACK}:{port}"
        """Value for `spark.master`."""
        self.web_url = f"http://{LOOPBACK}:{web_port}"
        """Address of the master's web page."""
        home = folder / "master"
        home.mkdir()
        words = ["--host", LOOPBACK, "--port", str(port), "--webui-port", str(web_port)]
        options = [
            f"-Dspark.worker.timeout={WORKER_TIMEOUT_S}",
            "-Dspark.master.rest.enabled=false",  # it would take a fixed port
        ]
        self._master = _start(home, MASTER_CLASS, options, words)

    @classmethod
    def start(
        cls,
        workers: int = 2,
        *,
        worker_cores: int = 1,
        worker_memory_mb: int = WORKER_MEMORY_MB,
        parent: Path | None = None,
    ) -> SparkCluster:
        """Start a master and `workers` workers and wait until all are registered.

        Its processes end with this one, whatever ends it.

        Parameters
        ----------
        workers
            Number of workers, 0 or more.
        worker_cores
            Cores that each worker offers; may exceed the machine's.
        worker_memory_mb
            Memory in MB that each worker offers to executors.
        parent
            Folder in which the cluster's folder is created; a temporary one by default.

        Raises
        ------
        SandboxError
            It did not start; the text has the end of the log. Nothing is left running.
        """
        folder = Path(tempfile.mkdtemp(prefix="heliostat-spark-", dir=parent))
        cluster: SparkCluster | None = None
        try:
            cluster = cls(folder, worker_cores=worker_cores, worker_memory_mb=worker_memory_mb)
            cluster._wait(lambda: cluster.state() is not None, "the master does not answer")
            for _ in range(workers):
                cluster._launch_worker()
            cluster.wait_workers(workers)
        except BaseException:
            if cluster is not None:
                cluster.stop()
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return cluster

    def state(self) -> dict[str, Any] | None:
        """Return the master's JSON page (Spark class `JsonProtocol`); None without answer."""
        try:
            address = f"{self.web_url}/json/"
            with urllib.request.urlopen(address, timeout=ASK_S) as answer:  # noqa: S310  # loopback
                found: dict[str, Any] = json.load(answer)
                return found
        except (OSError, urllib.error.URLError, ValueError):
            return None

    def applications(self) -> list[str]:
        """Return the names of the running applications."""
        state = self.state() or {}
        return [str(each["name"]) for each in state.get("activeapps", [])]

    def wait_workers(self, count: int, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Wait until the master has exactly `count` workers alive.

        Raises
        ------
        SandboxError
            That was not so in time, or a process ended meanwhile.
        """

        def is_so() -> bool:
            state = self.state() or {}
            alive = [each for each in state.get("workers", []) if each["state"] == "ALIVE"]
            return len(alive) == count

        self._wait(is_so, f"the master does not have {count} workers", timeout_s)

    def add_worker(self, timeout_s: float = READY_TIMEOUT_S) -> SparkWorker:
        """Start one more worker and wait until it is registered."""
        worker = self._launch_worker()
        self.wait_workers(len(self.workers), timeout_s)
        return worker

    def remove_worker(self, worker: SparkWorker, timeout_s: float = REMOVE_TIMEOUT_S) -> None:
        """Remove a worker gracefully: it gets no new tasks, and running ones end first.

        Applications must have `spark.decommission.enabled`, or lose tasks there at once.

        Raises
        ------
        SandboxError
            Its executors still ran after `timeout_s`, and were killed.
        """
        self.workers.remove(worker)
        worker.process.signal(DECOMMISSION)
        deadline_s = time.monotonic() + timeout_s
        while worker.executors():
            if time.monotonic() > deadline_s:
                worker.kill()
                raise SandboxError(
                    "a Spark worker's executors did not end in time and were killed",
                    timeout_s=timeout_s,
                    log=log_tail(worker.folder),
                )
            time.sleep(LOOK_S)
        worker.kill()
        self.wait_workers(len(self.workers))

    def kill_worker(self, worker: SparkWorker) -> None:
        """Remove a worker and its executors with SIGKILL."""
        self.workers.remove(worker)
        worker.kill()

    def stop(self) -> None:
        """End all processes and delete the cluster's folder."""
        try:
            with contextlib.ExitStack() as each:  # a failure of one must not spare the others
                each.callback(self._end_master)
                for worker in self.workers:
                    each.callback(worker.kill)
        finally:
            self.workers = []
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

    def _launch_worker(self) -> SparkWorker:
        number = self._started
        self._started += 1
        home = self.folder / f"worker-{number}"
        home.mkdir()
        words = [
            *("--host", LOOPBACK, "--cores", str(self._worker_cores)),
            *("--memory", f"{self._worker_memory_mb}m", "--work-dir", str(home)),
            self.master,
        ]
        options = [
            "-Dspark.decommission.enabled=true",
            "-Dspark.worker.ui.port=0",
            f"-Dspark.worker.timeout={WORKER_TIMEOUT_S}",
        ]
        worker = SparkWorker(number, home, _start(home, WORKER_CLASS, options, words))
        self.workers.append(worker)
        return worker

    def _end_master(self) -> None:
        self._master.signal(signal.SIGKILL)
        if not self._master.wait(STOP_TIMEOUT_S):
            raise SandboxError("a Spark master can't be killed", pid=self._master.pid)

    def _wait(
        self, is_so: Callable[[], bool], why: str, timeout_s: float = READY_TIMEOUT_S
    ) -> None:
        deadline_s = time.monotonic() + timeout_s
        while not is_so():
            processes = [("master", self._master)]
            processes += [(each.folder.name, each.process) for each in self.workers]
            for name, process in processes:
                if not process.is_alive():
                    log = log_tail(self.folder / name)
                    raise SandboxError("a process of Spark ended", name=name, log=log)
            if time.monotonic() > deadline_s:
                logs = "".join(log_tail(self.folder / name) for name, _ in processes)
                raise SandboxError(f"Spark: {why}", timeout_s=timeout_s, log=logs)
            time.sleep(LOOK_S)


def spark_home() -> Path:
    """Return the folder of the PySpark package, which has Spark's jars.

    Raises
    ------
    SandboxError
        It is not installed.
    """
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        raise SandboxError("the package pyspark is not installed")
    return Path(found.origin).parent


def _start(
    folder: Path, main_class: str, options: Sequence[str], words: Sequence[str]
) -> OwnProcess:
    """Start one of Spark's daemons; it and its children use only loopback and `folder`."""
    home = spark_home()
    command = [
        "/usr/bin/env",  # becomes java: the pid stays
        *("-u", "PYTHONPATH"),  # executors must import only what the job brings
        f"SPARK_HOME={home}",
        f"SPARK_SCALA_VERSION={_scala_version(home)}",
        f"SPARK_LOCAL_IP={LOOPBACK}",
        f"SPARK_PUBLIC_DNS={LOOPBACK}",
        f"SPARK_LOCAL_DIRS={folder / 'local'}",
        str(find_java()),
        f"-Xmx{DAEMON_HEAP_MB}m",
        *QUICK_JVM,
        *options,
        *("-cp", f"{home / 'jars'}/*", main_class),
        *words,
    ]
    return OwnProcess.start(command, output=folder / "log", folder=folder, dies_with_owner=True)


def _scala_version(home: Path) -> str:
    """Return the Scala version of Spark's jars; without it a worker can't start executors."""
    for jar in (home / "jars").glob("spark-core_*.jar"):
        return jar.name.removeprefix("spark-core_").partition("-")[0]
    raise SandboxError("the package pyspark has no Spark jars", folder=str(home / "jars"))


def log_tail(folder: Path) -> str:
    """Return the end of a daemon's log, for an error."""
    log = folder / "log"
    if not log.is_file():
        return "(no log)"
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return "\n".join(["", *lines[-LOG_TAIL_LINES:]])


def _command_of(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []
