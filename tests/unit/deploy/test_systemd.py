"""The unit file, by systemd's own reader."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.tools import ROOT

from heliostat.cli.exit_codes import HALTED, USAGE
from heliostat.cli.run import run_command

UNIT = ROOT / "deploy" / "systemd" / "heliostat@.service"
PROGRAM = "/opt/heliostat/bin/heliostat"
ANALYZE = shutil.which("systemd-analyze")


def lines() -> list[str]:
    return UNIT.read_text(encoding="utf-8").splitlines()


@pytest.mark.skipif(ANALYZE is None, reason="no systemd here")
def test_systemd_finds_no_fault(tmp_path: Path) -> None:
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text(encoding="utf-8").replace(PROGRAM, sys.executable))

    done = subprocess.run(
        [str(ANALYZE), "verify", unit], capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stderr) == (0, "")


def test_it_runs_a_verb_with_options_that_exist() -> None:
    (start,) = (line for line in lines() if line.startswith("ExecStart="))
    program, verb, *words = start.removeprefix("ExecStart=").split()
    options = {option for parameter in run_command.params for option in parameter.opts}

    assert (program, verb) == (PROGRAM, run_command.name)
    assert {word for word in words if word.startswith("-")} <= options


def test_a_wrong_configuration_is_not_tried_again_and_a_halt_is() -> None:
    (prevented,) = (line for line in lines() if line.startswith("RestartPreventExitStatus="))

    codes = {int(code) for code in prevented.partition("=")[2].split()}

    assert USAGE in codes
    assert HALTED not in codes


def test_what_compiles_at_run_time_may_do_so() -> None:
    assert not [
        line for line in lines() if line.startswith(("MemoryDenyWriteExecute", "PrivateNetwork"))
    ]
