"""Memory, sockets, files, threads and processes of Heliostat on one machine, by process role."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import psutil

from heliostat.records.spark.worker_daemon import WORKER_DAEMON

DRIVER, JVM, DAEMON, WORKER, OTHER = "driver", "jvm", "daemon", "worker", "other"
ROLES = (DRIVER, JVM, DAEMON, WORKER, OTHER)
TOTAL = "total"
FIGURES = ("rss_mb", "pss_mb", "sockets", "files", "threads", "processes")
"""Files are all open file descriptors, sockets included."""
DAEMONS = (WORKER_DAEMON, "pyspark.daemon")
MB = 1e6
DIGITS = 2

Footprint = dict[str, dict[str, float]]
"""Figures by role, and `total`."""


def footprint(root: psutil.Process) -> Footprint:
    """Count what the driver's process and all below it hold now."""
    found: Footprint = {role: dict.fromkeys(FIGURES, 0) for role in (*ROLES, TOTAL)}
    for role, process in _members(root):
        with contextlib.suppress(psutil.Error, OSError):  # it has ended meanwhile
            held = _held(process)
            for place in (role, TOTAL):
                for figure, amount in held.items():
                    found[place][figure] = round(found[place][figure] + amount, DIGITS)
    return found


def _members(root: psutil.Process) -> Iterator[tuple[str, psutil.Process]]:
    """Yield each process with its role; workers are what a daemon has forked."""
    yield DRIVER, root
    daemons: set[int] = set()
    for process in root.children(recursive=True):  # parents come before their children
        with contextlib.suppress(psutil.Error):
            words = process.cmdline()
            if any(name in words for name in DAEMONS):
                is_worker = process.ppid() in daemons
                if not is_worker:
                    daemons.add(process.pid)
                yield WORKER if is_worker else DAEMON, process
            else:
                yield JVM if process.name() == "java" else OTHER, process


def _held(process: psutil.Process) -> dict[str, float]:
    memory = process.memory_full_info()
    links = _open(process.pid)
    return {
        "rss_mb": memory.rss / MB,
        "pss_mb": memory.pss / MB,
        "sockets": sum(link.startswith("socket:") for link in links),
        "files": len(links),
        "threads": process.num_threads(),
        "processes": 1,
    }


def _open(pid: int) -> list[str]:
    """Return what the file descriptors of a process point to; some close while we look."""
    found: list[str] = []
    for each in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found.append(str(each.readlink()))
    return found
