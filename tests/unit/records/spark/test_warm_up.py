"""Warming up a process: the first conversion is done before copying starts."""

from __future__ import annotations

import gc
import subprocess
import sys

from heliostat.records.spark.warm_up import warm_up

SCRIPT = """
import gc
import heliostat.records.spark.copy_round
from heliostat.records.spark.warm_up import warm_up
warm_up()
print(gc.get_freeze_count() > 10_000)
"""


def test_it_converts_records_and_freezes_objects_for_forks() -> None:
    """Given a new process / when warmed up / then forks' collectors skip what is loaded."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout.strip() == "True"


def test_it_is_done_once() -> None:
    """Given a process that is warm / when warmed up again / then nothing happens."""
    warm_up()
    before = gc.get_freeze_count()
    kept: list[list[int]] = [[] for _ in range(1000)]
    warm_up()
    # What was frozen may be freed meanwhile, by any thread; nothing was added.
    assert gc.get_freeze_count() <= before
    assert len(kept) == 1000
    gc.unfreeze()
