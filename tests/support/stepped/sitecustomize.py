"""A wall clock that can be stepped; Python imports this at startup if it is on PYTHONPATH.

The file named by the environment has the number of seconds. Monotonic time is unchanged.
"""

import os
import time
from pathlib import Path

STEP_FILE = "HELIOSTAT_TEST_CLOCK_STEP_FILE"


def _install(step: Path) -> None:
    real_ns = time.time_ns

    def time_ns() -> int:
        return real_ns() + round(float(step.read_text(encoding="ascii")) * 1e9)

    time.time_ns = time_ns
    time.time = lambda: time_ns() / 1e9


if STEP_FILE in os.environ:
    _install(Path(os.environ[STEP_FILE]))
