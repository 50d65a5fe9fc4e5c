"""The page's logic without a browser: what `node --test` says."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

TESTS = Path(__file__).with_name("pure.test.mjs")
WITHIN_S = 60


@pytest.mark.thorough
def test_logic_of_the_page() -> None:
    node = shutil.which("node")
    if node is None:
        pytest.fail("no node: apt-get install nodejs (20 or later)", pytrace=False)
    run = subprocess.run(  # our own tests
        [node, "--test", str(TESTS)], capture_output=True, text=True, timeout=WITHIN_S, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "# pass 0" not in run.stdout
