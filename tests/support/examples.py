"""How many examples a property is tried with; `scripts/test --quick` takes a tenth of them."""

import os

from hypothesis import settings

SHARE = float(os.environ.get("HELIOSTAT_EXAMPLES", "1"))
LEAST = 5


def count(examples: int) -> int:
    """Return how many of so many examples this run takes."""
    return max(min(examples, LEAST), round(examples * SHARE))


def examples(number: int) -> settings:
    """Decorate a property that is tried with so many examples in a whole run."""
    return settings(max_examples=count(number))
