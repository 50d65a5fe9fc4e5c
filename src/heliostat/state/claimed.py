"""A link claimed by a command, for as long as it changes the link's state."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from heliostat.clock import Clock, SystemClock
from heliostat.config import LinkConfig
from heliostat.errors import LinkTakenOver, Refused
from heliostat.names import LinkName
from heliostat.ops.events import Events
from heliostat.state.link_state import LinkState
from heliostat.state.ownership import Ownership, owner_lasts_s

OWNER_SLACK_S = 9.0
"""The owner of a killed link keeps it for as long as its last lease; a claim takes seconds."""


class DrivenElsewhere(Refused):
    """Another instance drives the link."""


@contextlib.contextmanager
def claimed(link: LinkConfig, state: LinkState) -> Iterator[Ownership]:
    """Claim the link, which has no driver or one that is gone; resign at the end.

    Raises
    ------
    DrivenElsewhere
        Another instance drives it.
    ConnectionLost, BrokerError
        The target does not answer, or refuses.
    """
    clock: Clock = SystemClock()
    state.ensure()
    until_s = clock.monotonic_s() + owner_lasts_s(link.lanes.lease_s) + OWNER_SLACK_S
    ownership = Ownership(
        LinkName(link.name),
        state.owner,
        clock=clock,
        events=Events(clock.wall_ms, out=None),
        must_stop=lambda: clock.monotonic_s() > until_s,
    )
    if not ownership.claim():
        raise DrivenElsewhere(
            f"link {link.name} is driven by another instance", hint="stop it, then try again"
        )
    try:
        yield ownership
    finally:
        with contextlib.suppress(LinkTakenOver):
            ownership.resign()
