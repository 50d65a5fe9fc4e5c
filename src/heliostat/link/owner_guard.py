"""Only a link's owner changes anything; an instance that has lost the link halts (I10)."""

from __future__ import annotations

import functools
from collections.abc import Callable

from heliostat.errors import LinkTakenOver
from heliostat.state.ownership import Ownership

OWN_LASTS_S = 6.0
"""A link without rounds has an owner as well: a claim holds for this long unless renewed."""


class OwnerGuard:
    """Checks that the link is still ours before anything is changed. From any thread.

    Every method but `halt` raises `LinkTakenOver` when another instance owns the link, after which
    the link halts, and `ConnectionLost` or `BrokerError` when the target does not take a renewal.

    Parameters
    ----------
    ownership
        The claim of this instance.
    """

    def __init__(self, ownership: Ownership) -> None:
        self.ownership = ownership
        self.failure: BaseException | None = None
        """Why the link had to halt, if it had to."""

    def check(self) -> None:
        """Return if the link is ours; a process that was frozen for long notices here first."""
        try:
            self.ownership.hold(OWN_LASTS_S)
        except LinkTakenOver as error:
            self.halt(error)
            raise

    def run(self, act: Callable[[], None]) -> None:
        """Call `act` if the link is ours."""
        self.check()
        act()

    def guarded(self, act: Callable[[], None]) -> Callable[[], None]:
        """Return `act` with a check before each call that the link is ours."""
        return functools.partial(self.run, act)

    def renew(self, lasts_s: float) -> None:
        """Make durable that the link is ours for `lasts_s` more seconds, or longer."""
        try:
            self.ownership.keep(max(OWN_LASTS_S, lasts_s))
        except LinkTakenOver as error:
            self.halt(error)
            raise

    def halt(self, error: BaseException) -> None:
        """Note why the link must not continue; the first reason counts."""
        if self.failure is None:
            self.failure = error
