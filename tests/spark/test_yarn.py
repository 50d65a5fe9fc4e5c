"""A link on a real YARN cluster whose executors and nodes die while it copies."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from support.clusters import ClusterPair
from support.links import LinkProcess, kill, wait_for, wait_level, words_of
from support.spark_links import PARTITIONS, Copied, Page, assert_verified, configured

from heliostat_sandbox.ports import free_ports
from heliostat_sandbox.spark_cluster import SparkWorker
from heliostat_sandbox.yarn_cluster import YarnCluster

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.long]

APPLICATION_MASTER = "org.apache.spark.deploy.yarn.ExecutorLauncher"
"""Of a program in YARN's client mode; asks for its executors."""


@pytest.fixture
def yarn(monkeypatch: pytest.MonkeyPatch) -> Iterator[YarnCluster]:
    """Give two nodes, each with room for one executor and the application master."""
    with YarnCluster.start(2) as cluster:
        monkeypatch.setenv("HADOOP_CONF_DIR", str(cluster.configuration))
        yield cluster


def has_master(node: SparkWorker) -> bool:
    """Whether this node runs the application master."""
    below = psutil.Process(node.pid).children(recursive=True)
    return any(APPLICATION_MASTER in words_of(each) for each in below)


def node_with(yarn: YarnCluster, *, master: bool) -> SparkWorker:
    return next(each for each in yarn.nodes if has_master(each) is master)


def copying(yarn: YarnCluster) -> list[psutil.Process]:
    """Executors of all nodes, and their Python."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return [
            process
            for node in yarn.nodes
            for executor in node.executors()
            for process in (executor, *executor.children(recursive=True))
        ]
    return []


def test_no_fault_of_executors_and_nodes_costs_a_record(
    cluster_pair: ClusterPair, yarn: YarnCluster, tmp_path: Path
) -> None:
    """Given a link on YARN / when executors, nodes, the driver die / then exact."""
    copied = Copied(cluster_pair, "yarn-" + tmp_path.name)
    (port,) = free_ports(1)
    page = Page(port)
    place = tmp_path, cluster_pair, copied.topic, "yarn"
    with_page = {"spark.ui.enabled": "true", "spark.ui.port": str(port)}
    copied.write()

    def both_copy() -> bool:
        return page.busy_executors() == 2 and all(node.executors() for node in yarn.nodes)

    with LinkProcess(configured(*place, **yarn.spark_conf, **with_page)) as link:
        wait_level(link, copied.source, copied.target, {copied.topic: PARTITIONS})
        wait_for("a round on each node", both_copy)

        copied.write_much()
        assert yarn.nodes[0].kill_executors() == 1
        print(f"executor killed: felt {copied.write_and_wait():.1f} s")
        wait_for("both nodes busy again", both_copy)

        for master in (False, True):
            copied.write_much()
            yarn.kill_node(node_with(yarn, master=master))
            kind = "with the application master" if master else "without"
            print(f"node {kind} killed: felt {copied.write_and_wait():.1f} s")
            yarn.add_node()
            wait_for("both nodes busy again", both_copy)

        copied.write_much()
        left = yarn.kill_manager_of(node_with(yarn, master=False))
        try:
            print(f"NodeManager alone killed: felt {copied.write_and_wait():.1f} s")
            began_s = time.monotonic()
            wait_for("the end of its containers", lambda: not any(map(is_there, left)), 120)
            print(f"its containers ended {time.monotonic() - began_s:.1f} s later")
        finally:
            kill(left)
        copied.write_and_wait()

        copied.write_much()
        link.kill_driver()
    wait_for("no executor of a dead driver", lambda: not copying(yarn), 120)
    yarn.add_node()
    with LinkProcess(config := configured(*place, **yarn.spark_conf)) as link:
        copied.write_and_wait()
        assert_verified(config, copied.written * PARTITIONS)
        assert link.stop() == 0, link.text()
    wait_for("the program's end", lambda: "RUNNING" not in yarn.applications().values(), 60)
    assert list(yarn.applications().values()).count("SUCCEEDED") >= 1, yarn.applications()


def is_there(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False
