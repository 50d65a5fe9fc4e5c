"""The machine on which the figures were measured."""

from __future__ import annotations

import datetime as dt
import os
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil


def describe(java: Path, kafka: str, logs: Path) -> dict[str, Any]:
    """Return cores, memory, versions, the load before we began, and the brokers' log folder."""
    java_version = subprocess.run(
        [str(java), "-version"], capture_output=True, text=True, check=True
    ).stderr.splitlines()[0]
    return {
        **about(),
        "java": java_version,
        "kafka": kafka,
        "pyspark": version("pyspark"),
        "broker_logs": f"{_filesystem(logs)}",
    }


def about() -> dict[str, Any]:
    """Return the description without brokers."""
    return {
        "cores": os.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 2**30, 1),
        "cpu": _cpu_model(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "heliostat": version("heliostat"),
        "date": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "load_average_before": [round(value, 2) for value in os.getloadavg()],
    }


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return "unknown"


def _filesystem(folder: Path) -> str:
    """Return the type of the folder's file system, such as `ext4` or `tmpfs`."""
    best = max(
        (
            disk
            for disk in psutil.disk_partitions(all=True)
            if folder.resolve().is_relative_to(disk.mountpoint)
        ),
        key=lambda disk: len(disk.mountpoint),
    )
    return str(best.fstype)
