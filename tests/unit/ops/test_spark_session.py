"""Settings by master, and the archive with our code."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from heliostat.errors import SparkUnavailable
from heliostat.ops.spark_session import (
    CLUSTER_SETTINGS,
    Executor,
    executors_of,
    is_local,
    session_settings,
    wait_executors,
    zip_package,
)


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings go into the environment too: not into that of other tests."""
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_LOCAL_IP"):
        monkeypatch.setenv(name, "before")
        monkeypatch.delenv(name)


@pytest.mark.parametrize("master", ["local", "local[*]", "local[4]", "local[2,4]"])
def test_a_local_master_is_on_loopback(master: str) -> None:
    """Given a local master / when settings are made / then no listener others can reach."""
    assert is_local(master)
    settings = session_settings(master, {})
    assert settings["spark.driver.host"] == settings["spark.driver.bindAddress"] == "127.0.0.1"
    assert "spark.network.timeout" not in settings


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_standalone_master_on_loopback_has_its_driver_there(host: str) -> None:
    """Given a master here / when settings are made / then the driver listens on loopback."""
    master = f"spark://{host}:7077,other:7077"
    assert not is_local(master)
    assert session_settings(master, {})["spark.driver.host"].startswith("127.")


@pytest.mark.parametrize(
    "master", ["yarn", "k8s://https://10.0.0.1:6443", "spark://no-such.invalid:1"]
)
def test_elsewhere_spark_chooses_the_drivers_address(master: str) -> None:
    """Given YARN, Kubernetes or an unknown host name / then Spark chooses the address."""
    assert not is_local(master)
    assert "spark.driver.host" not in session_settings(master, {})


def test_user_settings_win(monkeypatch: pytest.MonkeyPatch) -> None:
    """Given user settings / when merged / then they win, the executors' Python included."""
    conf = {
        "spark.driver.host": "10.1.2.3",
        "spark.network.timeout": "300s",
        "spark.pyspark.python": "./environment/bin/python",
    }
    settings = session_settings("spark://127.0.0.1:7077", conf)
    assert conf.items() <= settings.items()
    assert os.environ["PYSPARK_PYTHON"] == "./environment/bin/python"


OVERHEAD = "spark.executor.memoryOverhead"


@pytest.mark.parametrize("master", ["yarn", "k8s://https://10.0.0.1:6443"])
@pytest.mark.parametrize(
    ("conf", "overhead"),
    [
        ({}, "1024m"),
        ({"spark.executor.cores": "4"}, "4096m"),
        ({"spark.executor.cores": "many"}, "1024m"),
        ({OVERHEAD: "3g", "spark.executor.cores": "4"}, "3g"),
        ({f"{OVERHEAD}Factor": "0.5"}, None),
    ],
)
def test_a_manager_that_counts_memory_is_asked_for_pythons_too(
    master: str, conf: dict[str, str], overhead: str | None
) -> None:
    settings = session_settings(master, conf)
    assert settings.get(OVERHEAD) == overhead
    assert settings["spark.executor.failuresValidityInterval"] == "1h"
    assert ("spark.yarn.am.attemptFailuresValidityInterval" in settings) == (master == "yarn")


@pytest.mark.parametrize("master", ["yarn", "k8s://https://10.0.0.1:6443"])
def test_executors_pods_belong_to_the_drivers(monkeypatch: pytest.MonkeyPatch, master: str) -> None:
    monkeypatch.setenv("POD_NAME", "heliostat-7d9-x")
    name = session_settings(master, {}).get("spark.kubernetes.driver.pod.name")
    assert name == ("heliostat-7d9-x" if master != "yarn" else None)


@pytest.mark.parametrize("master", ["local[2]", "spark://127.0.0.1:7077"])
def test_others_do_not_count_memory(master: str) -> None:
    assert OVERHEAD not in session_settings(master, {})


@pytest.mark.thorough
def test_the_archive_is_the_same_each_time_and_can_be_imported(tmp_path: Path) -> None:
    """Given the package / when zipped twice / then equal, and Python imports it from there."""
    folders = tmp_path / "a", tmp_path / "b"
    for folder in folders:
        folder.mkdir()
    first, second = (zip_package(folder) for folder in folders)
    assert (first.name, first.read_bytes()) == (second.name, second.read_bytes())
    # As an executor does it: by a relative path. All that a task runs, and a loop compiled there:
    # all loops would take most of a minute, and compile there as in the tree.
    everything = "heliostat.records.spark.copy_round as task, heliostat.verify.work"
    for wanted, is_plain in ((everything, "1"), ("heliostat.clusters.wire.scan as task", "0")):
        code = "import sys; sys.path.insert(0, sys.argv[1])\n"
        code += f"import {wanted}\nprint(task.__file__)"
        place = f"./{first.name}"
        done = subprocess.run(
            [sys.executable, "-c", code, place],
            capture_output=True,
            text=True,
            check=False,
            cwd=folders[0],
            env={**os.environ, "NUMBA_DISABLE_JIT": is_plain},
        )
        assert done.stdout.startswith(place), done.stderr


COMPILED = """
import sys
sys.path.insert(0, sys.argv[1])
from heliostat.clusters.wire.scan import uvarint_at
print(uvarint_at.stats.cache_path, len(uvarint_at.stats.cache_hits))
"""


@pytest.mark.thorough
def test_compiled_code_of_one_executor_is_reused_by_the_next(tmp_path: Path) -> None:
    """Given the archive in two executors' folders / when both compile / then the first alone."""
    name = "spark.executorEnv.NUMBA_CACHE_LOCATOR_CLASSES"
    kept = tmp_path / "kept"
    environment = {
        **os.environ,
        "NUMBA_CACHE_DIR": str(kept),
        name.rpartition(".")[2]: CLUSTER_SETTINGS[name],
    }
    told = []
    for executor in ("0", "1"):
        (tmp_path / executor).mkdir()
        archive = zip_package(tmp_path / executor)
        done = subprocess.run(
            [sys.executable, "-c", COMPILED, str(archive)],
            capture_output=True,
            text=True,
            check=False,
            env=environment,
        )
        told.append(done.stdout.split() or done.stderr)
    assert told == [[f"{kept}/{archive.stem}/wire", hits] for hits in ("0", "1")]


def spark_with(*executors: tuple[str, str, int], leaving: str = "") -> Any:
    """A stand-in for a `SparkContext` whose store lists these executors."""
    rows = [
        SimpleNamespace(id=lambda n=n: n, hostPort=lambda h=h: h, totalCores=lambda c=c: c)
        for n, h, c in executors
    ]
    listed = SimpleNamespace(size=lambda: len(rows), apply=lambda index: rows[index])
    store = SimpleNamespace(executorList=lambda active: listed)
    state = SimpleNamespace(
        getExecutorDecommissionState=lambda n: SimpleNamespace(isEmpty=lambda: n != leaving)
    )
    inner = SimpleNamespace(statusStore=lambda: store, taskScheduler=lambda: state)
    return SimpleNamespace(_jsc=SimpleNamespace(sc=lambda: inner), master="spark://m:7077")


def test_executors_are_awaited_without_counting_the_driver() -> None:
    """Given a driver and two executors / when awaited / then the two, hosts without ports."""
    found = wait_executors(spark_with(("driver", "d:1", 0), ("0", "a:2", 3), ("1", "::1:4", 1)))
    assert found == [Executor("0", "a", 3), Executor("1", "::1", 1)]


def test_an_executor_that_is_decommissioned_does_not_count() -> None:
    """It stays listed until its tasks have ended, which they don't by themselves."""
    assert executors_of(spark_with(("0", "a:2", 3), ("1", "b:4", 1), leaving="0")) == [
        Executor("1", "b", 1)
    ]


def test_a_cluster_without_free_cores_is_reported() -> None:
    """Given no executor / when the wait times out / then the error says where to look."""
    with pytest.raises(SparkUnavailable, match=r"SPARK_UNAVAILABLE.*cores and memory"):
        wait_executors(spark_with(("driver", "d:1", 0)), timeout_s=0.2)
