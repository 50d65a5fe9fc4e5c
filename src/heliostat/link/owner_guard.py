"""Whatever a link changes is changed by its owner only; who has lost it halts (I10)."""

from __future__ import annotations

import functools
from collections.abc import Callable

from heliostat.errors import LinkTakenOver
from heliostat.state.ownership import Ownership

OWN_LASTS_S = 6.0
"""A link without rounds has an owner all the same: renewed in time, believed for so long."""


class OwnerGuard:
    """Looks whether the link is still ours before anything is changed. From any thread.

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
        """Return while the link is ours; a process that was stopped for long learns here first."""
        try:
            self.ownership.hold(OWN_LASTS_S)
        except LinkTakenOver as error:
            self.halt(error)
            raise

    def run(self, act: Callable[[], None]) -> None:
        """Do it while the link is ours."""
        self.check()
        act()

    def guarded(self, act: Callable[[], None]) -> Callable[[], None]:
        """The same, looking first whether the link is ours, each time that it is called."""
        return functools.partial(self.run, act)

    def announce_deadline(self, deadline_ms: int) -> None:
        """Make durable that rounds may send until then, by this machine's wall clock."""
        try:
            self.ownership.announce(deadline_ms)
        except LinkTakenOver as error:
            self.halt(error)
            raise

    def renew(self, ahead_s: float) -> None:
        """Renew the claim, for so long at least as rounds are to be announced."""
        self.ownership.keep(max(OWN_LASTS_S, ahead_s))

    def halt(self, error: BaseException) -> None:
        """Keep why the link must not go on; the first reason counts."""
        if self.failure is None:
            self.failure = error
