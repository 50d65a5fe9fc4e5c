"""Spark's daemon of Python workers, with the copying code loaded before it forks them.

Each round of a lane may get a worker process of its own. Loading numpy, Numba and its compiled code
takes 1.4 s of processor time; a fork of this process has all of it at once, and shares the memory.
Spark starts it as `python -m heliostat.records.spark.worker_daemon pyspark.worker`
(`spark.python.daemon.module`), on local masters only: elsewhere our code comes with the job.
"""

from __future__ import annotations

from pyspark import daemon

import heliostat.records.spark.copy_round  # noqa: F401  # loaded before the fork
from heliostat.records.spark.warm_up import warm_up

if __name__ == "__main__":
    warm_up()
    daemon.manager()
