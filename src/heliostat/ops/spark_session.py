"""The settings of our Spark sessions, and how our own code reaches their executors.

Shared by the pipelines that copy and verify; imports no PySpark, callers pass its objects in.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import socket
import sys
import tempfile
import time
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import heliostat
from heliostat.errors import SparkUnavailable
from heliostat.ops.pyspark_private import scala_context
from heliostat.ops.quick_jvm import QUICK_JVM

LOOPBACK = "127.0.0.1"
PYTHON_KEY = "spark.pyspark.python"
LOCAL = re.compile(r"local(\[[^\]]*\])?$")
STANDALONE = re.compile(r"spark://(?P<host>\[[^\]]+\]|[^:,/]+):(?P<port>\d+)")
ZIP_TIME = (1980, 1, 1, 0, 0, 0)
"""Time of all files, so that the same code gives the same archive."""
FIRST_EXECUTOR_WITHIN_S = 60.0
"""Executors take 5 to 10 s to start; YARN and Kubernetes may have to find room first."""
SETTLED_S = 1.0
"""If no further executor appears for this long, all are there."""
LOOK_S = 0.1

KEPT_CODE = "heliostat.ops.kept_code:ShippedCode"
"""Where executors look for compiled code first, before Numba's own places."""
LOCATORS = [
    KEPT_CODE.replace(":", "."),
    "UserProvidedCacheLocator",
    "InTreeCacheLocator",
    "UserWideCacheLocator",
    "ZipCacheLocator",
]
CLUSTER_SETTINGS = {
    # A machine that vanishes silently is given up after 30 to 40 s (Spark's default: 120 to 180).
    # A process that ends is noticed at once, whatever these settings are.
    "spark.network.timeout": "30s",
    "spark.executor.heartbeatInterval": "5s",
    "spark.network.timeoutInterval": "10s",
    # A standalone driver waits this long (by default 5 s) for the master to report why an executor
    # is gone; if its worker is gone too, nothing reports it, and its lanes stop meanwhile.
    "spark.standalone.executorRemoveDelayOnDisconnection": "1s",
    "spark.decommission.enabled": "true",  # a decommissioned worker lets rounds end
    "spark.dynamicAllocation.enabled": "false",  # lanes are not a backlog of tasks
    "spark.excludeOnFailure.enabled": "false",  # a failed round doesn't mean a bad executor
    "spark.locality.wait": "0s",  # the chosen executor, or any other at once
    "spark.executor.memory": "512m",  # its JVM only schedules; Python's memory comes on top
    "spark.executor.extraJavaOptions": " ".join(QUICK_JVM),
    "spark.executorEnv.NUMBA_CACHE_LOCATOR_CLASSES": ",".join(LOCATORS),
}
YARN = "yarn"
FAILURES_COUNT_FOR = "1h"
"""After a few executors that ended by themselves YARN and Kubernetes end the whole program, by
default however long ago they did; a link runs for months. (A lost node never counts.)"""
MANAGED_SETTINGS = {"spark.executor.failuresValidityInterval": FAILURES_COUNT_FOR}
YARN_SETTINGS = {"spark.yarn.am.attemptFailuresValidityInterval": FAILURES_COUNT_FOR}
OVERHEAD_MB = 1024
"""Memory beside the JVM's for each core of an executor: two lanes (docs/spark.md). Spark's default
is 384 MB in all, and YARN and Kubernetes kill what takes more than it asked for."""
OVERHEAD_KEYS = ("spark.executor.memoryOverhead", "spark.executor.memoryOverheadFactor")
KUBERNETES = "k8s://"
POD_NAME = "POD_NAME"
"""A variable with the name of the driver's own pod: its executors' pods go when it goes."""
HADOOP_FOLDERS = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")


def is_local(master: str) -> bool:
    """Whether tasks run beside the driver, in one JVM."""
    return LOCAL.match(master) is not None


def local_cores(master: str) -> int | None:
    """Return how many cores Spark has on this machine; None: they are a cluster's."""
    if not is_local(master):
        return None
    count = master.removeprefix("local").strip("[]").partition(",")[0]
    if count == "*":
        return len(os.sched_getaffinity(0))
    return int(count or 1)


def session_settings(master: str, conf: Mapping[str, str]) -> dict[str, str]:
    """Return settings for a master, overridden by `conf`; sets the environment of Spark's JVM.

    Parameters
    ----------
    master
        `local[*]`, `spark://host:port`, `yarn`, `k8s://...`.
    conf
        The user's settings. `spark.pyspark.python` is the executors' Python; without it they use
        the path of the driver's own.
    """
    # Except under spark-submit, PySpark reads this variable instead of the setting.
    python = conf.get(PYTHON_KEY)
    if python:
        os.environ["PYSPARK_PYTHON"] = python
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **({} if is_local(master) else CLUSTER_SETTINGS),
        **_managed(master, conf),
    }
    address = _driver_address(master)
    if address is not None:
        settings["spark.driver.host"] = address
        settings["spark.driver.bindAddress"] = address
        if address == LOOPBACK:
            os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
    return {**settings, **conf}


def _managed(master: str, conf: Mapping[str, str]) -> dict[str, str]:
    """Return settings for YARN and Kubernetes, which keep a program to what it asked for."""
    if is_local(master) or STANDALONE.match(master):
        return {}
    settings = {**MANAGED_SETTINGS, **(YARN_SETTINGS if master == YARN else {})}
    pod = os.environ.get(POD_NAME, "")
    if pod and master.startswith(KUBERNETES):
        settings["spark.kubernetes.driver.pod.name"] = pod
    if not any(key in conf for key in OVERHEAD_KEYS):
        cores = conf.get("spark.executor.cores", "1")
        count = int(cores) if cores.isdigit() else 1  # Spark says what is wrong with it
        settings[OVERHEAD_KEYS[0]] = f"{OVERHEAD_MB * max(1, count)}m"
    return settings


def lacks_hadoop(master: str) -> bool:
    """Whether this is YARN, and no variable says where its settings are."""
    return master == YARN and not any(map(os.environ.get, HADOOP_FOLDERS))


def _driver_address(master: str) -> str | None:
    """Return the address at which executors reach the driver; None leaves it to Spark.

    A local master needs no listener that other machines can reach. For a standalone one it is
    the address of the interface that leads to the master: the machine's own name often does not.
    """
    if master.startswith("local"):
        return LOOPBACK
    match = STANDALONE.match(master)
    if match is None:
        return None
    try:
        kind, *_, target = socket.getaddrinfo(
            match["host"].strip("[]"), int(match["port"]), type=socket.SOCK_DGRAM
        )[0]
        with socket.socket(kind, socket.SOCK_DGRAM) as probe:
            probe.connect(target)  # sends nothing, only chooses a route
            return str(probe.getsockname()[0])
    except OSError:
        return None  # Spark will report that the master can't be reached


@dataclass(frozen=True, slots=True)
class Executor:
    """A running executor.

    Parameters
    ----------
    number
        Its id in Spark.
    host
        Its host, as Spark names it.
    cores
        Cores that it offers.
    """

    number: str
    host: str
    cores: int


def executors_of(context: Any) -> list[Executor]:
    """Return the executors that take new tasks; none with a local master.

    Read from the store behind Spark's own page (Scala class `AppStatusStore`): Python has no other
    way to learn an executor's id and cores. One that is being decommissioned stays there until its
    tasks have ended (Scala class `TaskSchedulerImpl`).
    """
    scala = scala_context(context)
    listed, scheduler = scala.statusStore().executorList(True), scala.taskScheduler()
    summaries = [listed.apply(index) for index in range(listed.size())]
    return [
        Executor(summary.id(), summary.hostPort().rpartition(":")[0], summary.totalCores())
        for summary in summaries
        if summary.id() != "driver"
        and summary.hostPort()  # empty until its block manager has registered
        and scheduler.getExecutorDecommissionState(summary.id()).isEmpty()
    ]


def wait_executors(context: Any, timeout_s: float = FIRST_EXECUTOR_WITHIN_S) -> list[Executor]:
    """Wait for the first executor, then until no more appear for a moment.

    Raises
    ------
    SparkUnavailable
        None appeared in time.
    """
    deadline_s = time.monotonic() + timeout_s
    executors: list[Executor] = []
    since_s = time.monotonic()
    while not executors or time.monotonic() < since_s + SETTLED_S:
        now = executors_of(context)
        if len(now) != len(executors):
            since_s = time.monotonic()
        executors = now
        if time.monotonic() > deadline_s:
            if executors:
                break
            raise SparkUnavailable(
                "Spark has no executor for this program", master=context.master, waited_s=timeout_s
            )
        time.sleep(LOOK_S)
    return executors


class ShippedPackage:
    """Our own package, sent to a session's executors, so that they run the driver's code.

    Parameters
    ----------
    context
        The session's `SparkContext`.
    """

    def __init__(self, context: Any) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="heliostat-code-"))
        try:
            context.addPyFile(str(zip_package(self._folder)))
        except BaseException:
            self.delete()
            raise

    def delete(self) -> None:
        """Delete the archive; executors that start later can't fetch it any more."""
        shutil.rmtree(self._folder, ignore_errors=True)


def zip_package(folder: Path) -> Path:
    """Write the running package to `folder`, as `heliostat-<hash of its content>.zip`.

    The same code gives the same bytes and name.
    """
    package = Path(heliostat.__file__).parent
    files = sorted(
        path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts
    )
    draft = folder / "draft.zip"
    with zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in files:
            entry = zipfile.ZipInfo(path.relative_to(package.parent).as_posix(), ZIP_TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, path.read_bytes())
    digest = hashlib.sha256(draft.read_bytes()).hexdigest()[:12]
    return draft.rename(folder / f"heliostat-{digest}.zip")


_DEATHS = (
    (
        "Python worker exited unexpectedly",
        "a Python worker of Spark has died: killed, or out of memory (see the machine's log)",
    ),
    (
        "Python worker failed to connect back",
        "a Python worker of Spark has not started in time (see the machine's load)",
    ),
    ("ExecutorLostFailure", "an executor of Spark is gone: killed, or its machine is"),
)
"""Spark tells these by Java's stack only."""


def essence(text: str) -> str:
    """Return the line of a Spark error that says what happened; ours have a code in brackets."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    coded = [line for line in lines if ": [" in line and line.startswith("heliostat.")]
    if coded:
        return coded[-1]
    if lines and lines[0].startswith("["):  # of Spark SQL, with its condition
        return lines[0][:500]
    for words, meaning in _DEATHS:
        if words in text:
            return meaning
    lines = [line.removeprefix("Caused by: ") for line in lines if not line.startswith("at ")]
    causes = [line for line in lines if "Error" in line or "Exception" in line]
    return (causes or lines or ["no text"])[-1][:500]
