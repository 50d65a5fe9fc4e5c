"""`heliostat demo --technote`: the technote's toy in one command, as its page says."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from support.tools import ROOT

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.long]

WITHIN_S = 400.0


def test_the_toy_is_played_to_its_end() -> None:
    """Given nothing / when the command is called / then it says each step, and ends by itself."""
    folders = os.pathsep.join(str(ROOT / name) for name in ("src", "sandbox"))
    done = subprocess.run(
        [sys.executable, "-m", "heliostat.cli.entry", "demo", "--technote", "--seconds", "0"],
        env={**os.environ, "PYTHONPATH": folders},
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )
    text = done.stdout
    assert done.returncode == 0, text + done.stderr
    steps = [
        "kafkaconnect upload heartbeat-connector.json --name heartbeat",
        "kafkaconnect upload mirror-source-connector.json --name mirror-source",
        "destn has heartbeats",
        "src has mm2-offset-syncs.destn.internal",
        "destn has src.foo: 3 records\n",
        "destn has src.foo: 3 records in each of its two partitions",
        "kafkaconnect status mirror-source: RUNNING",
        "src-to-destn",
    ]
    places = [text.find(step) for step in steps]
    assert -1 not in places, text
    assert places == sorted(places), text
