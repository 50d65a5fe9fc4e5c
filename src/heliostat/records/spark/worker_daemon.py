"""Spark's daemon of Python workers, with the copying code loaded before it forks them.

Each round of a lane has a worker process of its own. Loading numpy, Numba and its compiled code
takes 1.4 s of processor time; a fork of this process has all of it at once, and shares the memory.
Spark starts it as `python -m heliostat.records.spark.worker_daemon pyspark.worker`
(`spark.python.daemon.module`), on local masters only: elsewhere our code comes with the job.
"""

from __future__ import annotations

import importlib
import os
import signal

from heliostat.records.spark.quick_path import drop_archives

WORKER_DAEMON = "heliostat.records.spark.worker_daemon"
"""This module."""

LOADED = ("pyspark.worker", "heliostat.records.spark.task", "heliostat.records.spark.copy_round")
"""What workers would import, each by itself, after the fork."""
LOADED_FOR_PIPELINES = (
    "heliostat.records.spark.piped_in_place",
    "heliostat.records.transport.row_exchange",
)
"""The same where lanes have pipelines: compiled loops and Arrow."""
HAS_PIPELINES = "HELIOSTAT_HAS_PIPELINES"
"""Environment variable: whether they have; `ONLY`: nothing is copied, records are tried."""
ONLY = "only"


def main() -> None:
    """Load all that a worker needs, then serve Spark's requests for workers.

    The daemon and its workers do not hear SIGTERM: the driver ends a round when it is asked to end.
    Spark ends the daemon by closing its input, and a worker by SIGKILL.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    drop_archives()
    copies = os.environ.get(HAS_PIPELINES) != ONLY
    for module in (
        *(LOADED if copies else LOADED[:1]),
        *(LOADED_FOR_PIPELINES if HAS_PIPELINES in os.environ else ()),
    ):
        importlib.import_module(module)
    from pyspark import daemon

    if copies:
        from heliostat.records.spark.warm_up import warm_up

        warm_up()
    daemon.manager()


if __name__ == "__main__":
    main()
