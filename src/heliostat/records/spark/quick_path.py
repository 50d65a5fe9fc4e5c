"""Where Python workers import PySpark from: its folder, not the archives that Spark puts before it.

Spark tells workers to look into `pyspark.zip`, py4j's archive and its own `spark-core.jar` first.
An archive has no compiled code, so its modules are compiled each time. And for every task PySpark
drops what the importer knows, so that each worker reads the directories of all three again: 23 MB
of memory, as the jar alone has 6,000 files (2026-11-25, PySpark 4.3).
"""

from __future__ import annotations

import sys
from pathlib import Path

_ARCHIVES = ("pyspark*.zip", "py4j-*.zip", "spark-core_*.jar")


def without_archives(path: list[str]) -> list[str]:
    """Return `sys.path` without Spark's archives, if the folders that they are made from are on it.

    Only of one installation: a worker of another version than Spark's would not understand it.
    """
    archives = [place for place in map(Path, path) if any(map(place.match, _ARCHIVES))]
    zips = [place for place in archives if place.match("pyspark*.zip")]
    if len(zips) != 1:
        return path
    packages = zips[0].parents[3]  # <packages>/pyspark/python/lib/pyspark.zip
    is_installed = all((packages / name / "__init__.py").is_file() for name in ("pyspark", "py4j"))
    on_path = any(place.exists() and place.samefile(packages) for place in map(Path, path))
    if not (is_installed and on_path):
        return path
    dropped = {str(place) for place in archives}
    return [place for place in path if place not in dropped]


def drop_archives() -> None:
    """Change this process's `sys.path`, before PySpark is imported."""
    if "pyspark" in sys.modules:
        return
    path = without_archives(sys.path)
    for gone in set(sys.path) - set(path):
        sys.path_importer_cache.pop(gone, None)
    sys.path[:] = path
