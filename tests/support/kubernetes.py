"""A Kubernetes without machines: fabric8's API server, which keeps what it is given, and a kubelet.

The kubelet is ours: it starts the image's entry point for each pod of an executor, as a process of
this machine, with the pod's own variables, and tells the API server how that goes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from support.tools import ROOT

from heliostat_sandbox.jars import KUBERNETES_MOCK, ensure_jars
from heliostat_sandbox.ports import LOOPBACK
from heliostat_sandbox.spark_cluster import spark_home

ENTRYPOINT = ROOT / "deploy" / "container" / "entrypoint"
PODS = "/api/v1/namespaces/default/pods"
TAKEN = ("kubernetes-server-mock", "mockwebserver", "vertx-web-4", "vertx-bridge")
"""Jars that PySpark has not in a version of its own."""
SERVER = """
import sys
from pyspark.java_gateway import launch_gateway

java = launch_gateway().jvm
web = java.io.fabric8.mockwebserver
mock = java.io.fabric8.kubernetes.client.server.mock
kept = mock.KubernetesCrudDispatcher(java.java.util.Collections.emptyList())
server = mock.KubernetesMockServer(
    web.Context(), web.MockWebServer(), java.java.util.HashMap(), kept, False
)
server.init()
print(server.getPort(), flush=True)
sys.stdin.read()
"""
LOOK_S = 0.2
ASK_S = 20.0
Pod = dict[str, Any]


class Kubernetes:
    """A running API server with its kubelet. As a context manager both stop when the block ends.

    Parameters
    ----------
    folder
        Has a folder for each pod: its volumes and its output.
    volumes
        What is mounted in pods, by the path there: a path of this machine.
    """

    def __init__(self, folder: Path, volumes: Mapping[str, Path]) -> None:
        self.folder = folder
        self.pods: dict[str, Pod] = {}
        """Every pod that was ever started, as it was given."""
        self._volumes = volumes
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._is_over = threading.Event()
        self._kubelet = threading.Thread(target=self._run, name="kubelet")

    def __enter__(self) -> Self:
        jars = [path for path in ensure_jars(KUBERNETES_MOCK) if path.name.startswith(TAKEN)]
        class_path = ":".join(map(str, jars))
        submit = f"--conf spark.driver.extraClassPath={class_path} --master local pyspark-shell"
        self._server = subprocess.Popen(
            [sys.executable, "-c", SERVER],
            env={**os.environ, "PYSPARK_SUBMIT_ARGS": submit, "SPARK_LOCAL_IP": LOOPBACK},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._server.stdout is not None
        self._address = f"http://{LOOPBACK}:{int(self._server.stdout.readline())}"
        self._kubelet.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_over.set()
        if self._kubelet.ident is not None:
            self._kubelet.join()
        for process in (*self._processes.values(), self._server):
            process.kill()
            process.wait()

    @property
    def master(self) -> str:
        """For `spark.master`."""
        return f"k8s://{self._address}"

    def running(self) -> list[str]:
        """Return the pods whose process runs."""
        return [name for name, process in self._processes.items() if process.poll() is None]

    def kill(self, name: str) -> None:
        """Kill a pod's process, as a node does that has no memory left."""
        self._processes[name].kill()

    def listed(self) -> dict[str, Pod]:
        """Return the pods that the API server has, by name."""
        return {pod["metadata"]["name"]: pod for pod in self._ask("GET", PODS).get("items", [])}

    def _run(self) -> None:
        while not self._is_over.wait(LOOK_S):
            listed = self.listed()
            for name, pod in listed.items():
                if name not in self._processes:
                    self.pods[name] = pod
                    self._processes[name] = self._start(name, pod)
                    self._tell(name, {"phase": "Running", "podIP": LOOPBACK})
            for name, process in self._processes.items():
                if name not in listed and process.poll() is None:
                    process.terminate()  # its pod was deleted
                elif name in listed and process.poll() is not None:
                    self._tell_end(name, listed[name], process.returncode)

    def _tell_end(self, name: str, pod: Pod, code: int) -> None:
        if pod["status"].get("phase") == "Running":
            container = pod["spec"]["containers"][0]["name"]
            ended = {"exitCode": abs(code), "finishedAt": "2026-01-01T00:00:00Z"}
            states = [{"name": container, "state": {"terminated": ended}}]
            phase = "Failed" if code else "Succeeded"
            self._tell(name, {"phase": phase, "containerStatuses": states})

    def _start(self, name: str, pod: Pod) -> subprocess.Popen[bytes]:
        """Start what the pod's container starts, where its volumes are folders."""
        (container,) = pod["spec"]["containers"]
        place = self.folder / name
        variables = {row["name"]: self._value(row, name) for row in container["env"]}
        mounts: dict[str, Path] = {
            row["mountPath"]: place / row["name"] for row in container["volumeMounts"]
        }
        for path in mounts.values():
            path.mkdir(parents=True, exist_ok=True)
        here: dict[str, Path] = {**self._volumes, **mounts}
        variables = {key: _moved(value, here) for key, value in variables.items()}
        with (place / "output.log").open("wb") as output:
            return subprocess.Popen(
                [ENTRYPOINT, *container["args"]],
                env={**os.environ, **variables, "SPARK_HOME": str(spark_home())},
                cwd=_moved(container["workingDir"], here),
                stdout=output,
                stderr=output,
            )

    @staticmethod
    def _value(row: Mapping[str, Any], name: str) -> str:
        """Return the value of a pod's variable, which may be a field of the pod."""
        if "valueFrom" not in row:
            return str(row.get("value", ""))
        field = row["valueFrom"]["fieldRef"]["fieldPath"]
        return {"status.podIP": LOOPBACK, "metadata.name": name}[field]

    def _tell(self, name: str, status: Mapping[str, Any]) -> None:
        self._ask("PATCH", f"{PODS}/{name}", {"status": status})

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        request = urllib.request.Request(  # noqa: S310 - the server's own address
            self._address + path,
            None if body is None else json.dumps(body).encode(),
            {"Content-Type": "application/merge-patch+json"},
            method=method,
        )
        with urllib.request.urlopen(request, timeout=ASK_S) as answer:  # noqa: S310 - the same
            return json.load(answer)


def _moved(value: str, here: Mapping[str, Path]) -> str:
    """Return a value whose path in the pod is one of this machine."""
    for path, place in here.items():
        if value == path or value.startswith(path + "/"):
            return str(place) + value[len(path) :]
    return value
