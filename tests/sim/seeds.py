"""Which seeds a scenario of the simulation runs: some hundred, with each commit others.

`scripts/test` sets the first by the commit. HELIOSTAT_SIM_FIRST and HELIOSTAT_SIM_SEEDS choose by
hand: a failure names its seed, and `HELIOSTAT_SIM_FIRST=SEED HELIOSTAT_SIM_SEEDS=1` runs it alone.
"""

import os
from collections.abc import Collection, Iterator

FIRST = int(os.environ.get("HELIOSTAT_SIM_FIRST", "0"))
SEEDS = int(os.environ.get("HELIOSTAT_SIM_SEEDS", "100"))
"""Of a scenario; of those that take long a part of it."""
IS_WHOLE = SEEDS >= 100
"""A few seeds may not meet what a scenario is about; so many do."""
MORE = 10
"""How many times as many seeds are run at most until a rare event has come."""
CHUNK = 100
"""Seeds of one test, where more than that are run."""


def seeds(share: float = 1.0, *, least: int = 1) -> range:
    """Return the seeds of a scenario that runs a share of `SEEDS`."""
    return range(FIRST, FIRST + count(share, least))


def until_met(rare: Collection[object], ran: range) -> Iterator[int]:
    """Yield these seeds, and more of them until a scenario has met what is rare in it."""
    yield from ran
    for seed in range(ran.stop, ran.stop + MORE * len(ran)):
        if rare or not IS_WHOLE:
            return
        yield seed


def count(share: float = 1.0, least: int = 1) -> int:
    """Return how many `seeds` gives; a run of one seed by hand runs no more."""
    return max(min(least, SEEDS), round(SEEDS * share))


def chunks(share: float = 1.0, *, least: int = 1, size: int = CHUNK) -> list[range]:
    """Return the same in parts, for a test each."""
    whole = seeds(share, least=least)
    return [whole[start : start + size] for start in range(0, len(whole), size)]
