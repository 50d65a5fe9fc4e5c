"""What a verb loads that operators and scripts call often: it starts in less than a second."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = (
    "numba",
    "numpy",
    "pandas",
    "pyarrow",
    "pyspark",
    "httpx",
    "aiokafka",
    "awscrt",
    "fastavro",
)
"""Packages that take 0.1 s or more to load, each with what comes with it."""
SCRIPT = """
import importlib, sys
from heliostat.config import Config
for module in {modules}: importlib.import_module(module)
print(sorted(set({heavy}) & {{name.partition(".")[0] for name in sys.modules}}))
print("validators built with the first file" if not Config.__pydantic_complete__ else "built")
"""


@pytest.mark.parametrize(
    "modules",
    [
        pytest.param(
            ("heliostat.cli.run", "heliostat.cli.view", "heliostat.operate.status"), id="status"
        ),
        pytest.param(("heliostat.cli.gaps", "heliostat.operate.gaps"), id="gaps"),
        pytest.param(("heliostat.cli.gaps", "heliostat.operate.resolve"), id="resolve"),
        pytest.param(("heliostat.cli.dlq",), id="dlq"),
        pytest.param(("heliostat.cli.tail", "heliostat.cli.export"), id="tail"),
        pytest.param(("heliostat.cli.events", "heliostat.operate.events"), id="events"),
        pytest.param(("heliostat.cli.explain", "heliostat.operate.explain"), id="explain"),
    ],
)
def test_a_verb_loads_no_package_of_the_data_path(modules: tuple[str, ...]) -> None:
    """Given a new process / when it loads what a verb imports / then it has none of the packages

    that copy or convert records, and has built no validator of the configuration.
    """
    script = SCRIPT.format(modules=modules, heavy=HEAVY)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout.splitlines() == ["[]", "validators built with the first file"]
