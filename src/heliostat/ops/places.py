"""How many lanes Spark runs at once, and so which share of a core one counts for.

On one machine memory is what limits them: lanes mostly wait for the network, and an idle one takes
40 MB (docs/adr/0052). On a Spark cluster executors are sized by cores.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable
from pathlib import Path

from heliostat.ops.spark_session import local_cores

TASK_CPUS = 0.25
"""Four lanes a core, so that those of a machine that died find room on the others."""
TASK_CPUS_MIN = 0.01
STEP = 1000
"""Shares of a core are whole thousandths: Spark and we then count the same places."""
PLACE_BYTES = 256 << 20
"""Memory counted for a lane: an idle one takes a sixth of it, one whose target is slow twice."""
LANES_SHARE = 0.5
"""Of the machine's memory; the rest is the driver's, Spark's, the system's, other programs'."""
LIMIT_FILES = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)


def memory_bytes() -> int:
    """Return the memory that this process and its children may use: the machine's, or less."""
    limit_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path in LIMIT_FILES:
        with contextlib.suppress(OSError, ValueError):  # there is no limit, or it is the word "max"
            limit_bytes = min(limit_bytes, int(path.read_text()))
    return limit_bytes


def task_cpus_of(
    wanted: float | str, master: str, memory: Callable[[], int] = memory_bytes
) -> float:
    """Return the cores that a lane counts for.

    Parameters
    ----------
    wanted
        As configured: a number, or `auto`.
    master
        Spark's master.
    memory
        Returns the machine's memory.
    """
    if not isinstance(wanted, str):
        return wanted
    cores = local_cores(master)
    if cores is None:
        return TASK_CPUS
    places = max(1.0, memory() * LANES_SHARE / PLACE_BYTES)
    return min(TASK_CPUS, max(TASK_CPUS_MIN, math.floor(STEP * cores / places) / STEP))


def places_of(cores: int, task_cpus: float) -> int:
    """Return how many lanes run at once on these cores."""
    return int(cores / task_cpus + 1e-9)
