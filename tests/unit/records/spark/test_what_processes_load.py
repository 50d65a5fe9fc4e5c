"""What the driver and the daemon of workers load: each process only what it runs."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from heliostat.ops.pyspark_private import ask_numpy_converters_of_numpy_only
from heliostat.records.spark.quick_path import without_archives

DRIVER = """
import sys
import heliostat.cli.run, heliostat.link.running
heavy = {"numba", "llvmlite", "pandas", "pyarrow", "pyspark", "httpx"}
print(sorted(name for name in sys.modules if name.partition(".")[0] in heavy))
print(sorted(name for name in sys.modules if name.endswith((".copier.copier", ".copy_round"))))
"""


def test_a_driver_does_not_load_the_copying_code() -> None:
    """Given a new process / when it loads what runs links / then no copying code, no Numba, and no

    client of schema registries, which takes a quarter of a second.
    """
    done = subprocess.run(
        [sys.executable, "-c", DRIVER], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout.split() == ["[]", "[]"], done.stdout


DAEMON = """
import importlib, sys
from heliostat.records.spark import worker_daemon
for module in worker_daemon.LOADED: importlib.import_module(module)
names = ("pyarrow", "heliostat.records.rows.in_place", "heliostat.records.avro.cuts")
print([name for name in names if name in sys.modules])
for module in worker_daemon.LOADED_FOR_PIPELINES: importlib.import_module(module)
print([name for name in names if name in sys.modules])
"""


@pytest.mark.thorough
def test_workers_load_what_pipelines_need_only_where_there_are_some() -> None:
    """Given a daemon of workers / when it loads what lanes need / then no Arrow and no loops of

    pipelines, unless lanes have those; and never Avro.
    """
    done = subprocess.run(
        [sys.executable, "-c", DAEMON], capture_output=True, text=True, timeout=120, check=True
    )
    plain, piped = done.stdout.splitlines()
    assert plain == "[]"
    assert piped == "['pyarrow', 'heliostat.records.rows.in_place']"


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """Give a folder of packages with PySpark, as pip installs it, and py4j."""
    packages = tmp_path / "site-packages"
    for folder in ("pyspark/python/lib", "pyspark/jars", "py4j"):
        (packages / folder).mkdir(parents=True)
    for name in ("pyspark", "py4j"):
        (packages / name / "__init__.py").touch()
    for name in ("python/lib/pyspark.zip", "python/lib/py4j-1-src.zip", "jars/spark-core_2-4.jar"):
        with zipfile.ZipFile(packages / "pyspark" / name, "w"):
            pass
    return packages


def archives(packages: Path) -> list[str]:
    """Return the archives that Spark puts before everything else."""
    spark = packages / "pyspark"
    return [
        str(spark / "python/lib/pyspark.zip"),
        str(spark / "python/lib/py4j-1-src.zip"),
        str(spark / "jars/spark-core_2-4.jar"),
    ]


def test_workers_import_pyspark_from_its_folder(packages: Path, tmp_path: Path) -> None:
    """Given a path with archives and the same packages / then the archives are left out."""
    also = tmp_path / "the same"
    also.symlink_to(packages)
    path = ["", *archives(packages), "/code/job.zip", str(also)]
    assert without_archives(path) == ["", "/code/job.zip", str(also)]


@pytest.mark.parametrize("missing", ["on the path", "pyspark", "py4j", "one zip only"])
def test_the_archives_stay_if_other_packages_could_be_found(packages: Path, missing: str) -> None:
    """Given another installation, or none, beside the archives / then the path is unchanged."""
    path = [*archives(packages), str(packages)]
    if missing == "on the path":
        path[-1] = str(packages.parent)
    elif missing == "one zip only":
        path.insert(0, "/other/python/lib/pyspark.zip")
    else:
        (packages / missing / "__init__.py").unlink()
    assert without_archives(path) == path


class NumpyArrayConverter:
    """Stands for PySpark's converter of this name."""

    def can_convert(self, value: object) -> bool:
        """Claim all values."""
        return value is not None

    def convert(self, value: object, gateway_client: object) -> object:
        """Give both back."""
        return value, gateway_client


def test_pysparks_numpy_converters_are_asked_about_numpy_alone() -> None:
    """Given PySpark's converters / when asked about text or numpy / then only numpy counts."""
    import numpy as np

    other = SimpleNamespace()
    converters: list[Any] = [NumpyArrayConverter(), other]
    ask_numpy_converters_of_numpy_only(converters)
    assert converters[1] is other
    assert not converters[0].can_convert("text")
    assert converters[0].can_convert(np.zeros(1))
    assert converters[0].can_convert(np.int64(1))
    assert converters[0].convert(1, 2) == (1, 2)
