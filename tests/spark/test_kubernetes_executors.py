"""A link whose lanes run in executors' pods, as `deploy/kubernetes/executors` has them made.

The API server is fabric8's, the kubelet the test's: what is shown is that Spark submits with this
configuration and template, that the image's entry point runs what is submitted, and that a pod
that dies is replaced. Scheduling, images, networks and rights of a cluster are not.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml
from support.clusters import ClusterPair
from support.kubernetes import Kubernetes
from support.links import LinkProcess, wait_for, wait_level
from support.spark_links import PARTITIONS, Copied, assert_verified, configured
from support.tools import ROOT

from heliostat import __version__
from heliostat_sandbox.ports import LOOPBACK, free_ports

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.long]

FOLDER = ROOT / "deploy" / "kubernetes" / "executors"


def conf_of_the_pack() -> dict[str, str]:
    """Return Spark's settings as they are shipped, with a free port each and few cores."""
    shipped = yaml.safe_load((FOLDER / "heliostat.yaml").read_text())["spark"]["conf"]
    driver, blocks = free_ports(2)
    return {
        **shipped,
        "spark.kubernetes.executor.podTemplateFile": str(FOLDER / "executor.yaml"),
        "spark.driver.host": LOOPBACK,
        "spark.driver.port": str(driver),
        "spark.blockManager.port": str(blocks),
        "spark.executor.cores": "2",
        "spark.executor.memory": "512m",
    }


def test_executors_pods_copy_and_one_that_dies_is_replaced(
    cluster_pair: ClusterPair, tmp_path: Path
) -> None:
    """Given the pack's settings / when a pod dies, and the link ends / then exact, and no pod."""
    copied = Copied(cluster_pair, "pods-" + tmp_path.name)
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    cache = Path(os.environ.get("NUMBA_CACHE_DIR") or caches / "numba")  # as of other executors
    with Kubernetes(tmp_path / "pods", {"/var/cache/heliostat/numba": cache}) as cluster:
        copied.write()
        config = configured(
            tmp_path, cluster_pair, copied.topic, cluster.master, **conf_of_the_pack()
        )
        with LinkProcess(config) as link:
            wait_level(link, copied.source, copied.target, {copied.topic: PARTITIONS})
            wait_for("both executors", lambda: len(cluster.running()) == 2)
            copied.write_much()
            cluster.kill(killed := cluster.running()[0])
            print(f"executor's pod killed: felt {copied.write_and_wait():.1f} s")
            wait_for("another pod", lambda: len(cluster.running()) == 2)
            assert killed not in cluster.running()
            assert link.stop() == 0, link.text()[-2000:]
        wait_for("no pod is left", lambda: not cluster.listed())
        for pod in cluster.pods.values():
            assert pod["metadata"]["labels"]["app.kubernetes.io/name"] == "heliostat-executor"
            (container,) = pod["spec"]["containers"]
            assert container["image"] == f"heliostat:{__version__}"
            assert container["securityContext"]["readOnlyRootFilesystem"]
            assert container["resources"]["limits"]["memory"] == "2560Mi"
    assert_verified(config, copied.written * PARTITIONS)
