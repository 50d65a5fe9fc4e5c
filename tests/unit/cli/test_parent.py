"""A process that ends with the one that has started it."""

from __future__ import annotations

import os

from heliostat.cli.stop_signal import StopSignal


def test_a_parent_that_has_ended_already_is_noticed() -> None:
    """Whoever started us may be gone before we have looked: our parent is another one then."""
    stop = StopSignal()
    stop.set_with(os.getpid())  # nobody is his own parent
    assert stop.is_set.wait(5)


def test_without_a_parent_or_while_it_lives_nothing_ends() -> None:
    for parent in (None, os.getppid()):
        stop = StopSignal()
        stop.set_with(parent)
        assert not stop.is_set.wait(0.05)
