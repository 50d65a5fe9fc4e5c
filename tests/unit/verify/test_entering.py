"""A reader that isn't let in says why, and soon; a seed that hangs delays no healthy one."""

from __future__ import annotations

import time

import pytest

from heliostat.access import access_of
from heliostat.errors import AccessRefused
from heliostat.verify import reader
from heliostat.verify.read_requests import Isolation
from heliostat.verify.reader import LogReader


def test_a_refusal_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Given a listener that refuses us / then kafka-python's silent attempts are not waited for."""

    def refuse(*_: object) -> None:
        raise AccessRefused("wrong password")

    monkeypatch.setattr(reader, "enter", refuse)
    began_s = time.monotonic()
    with pytest.raises(AccessRefused, match="wrong password"):
        LogReader(access_of("127.0.0.1:9"), Isolation.READ_COMMITTED)
    assert time.monotonic() - began_s < 1.0
