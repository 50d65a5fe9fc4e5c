"""SIGHUP confirms the file, and ends a process whose terminal is gone."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from heliostat.cli import stop_signal
from heliostat.cli.stop_signal import ConfirmSignal, StopSignal

NUMBERS = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in NUMBERS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize(
    ("at_start", "now", "is_confirmed"),
    [(False, False, True), (True, True, True), (True, False, False)],
)
def test_sighup_confirms_unless_the_terminal_is_gone(
    monkeypatch: pytest.MonkeyPatch, at_start: bool, now: bool, is_confirmed: bool
) -> None:
    there = iter([at_start, now, now])
    monkeypatch.setattr(stop_signal, "has_terminal", lambda: next(there))
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    stop = StopSignal()
    confirm = ConfirmSignal(stop)
    confirm.install()
    os.kill(os.getpid(), signal.SIGHUP)
    assert confirm.is_set.is_set() is is_confirmed
    assert stop.is_set.is_set() is not is_confirmed


def test_sighup_that_is_ignored_stays_so() -> None:
    """Given a process under nohup / when its terminal is closed / then it runs on as it is."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    confirm = ConfirmSignal(StopSignal())
    confirm.install()
    os.kill(os.getpid(), signal.SIGHUP)
    assert not confirm.is_set.is_set()
