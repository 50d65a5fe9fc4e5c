"""Who a link is: the producer id that its state says. It is made once, and never written over.

I1  A link that took another producer id would not know its own records again, and would stop at
    them as foreign. So an id is made only for a link that has appended nothing under another one:
    no mirror has begun, or all that have were taken over at their end (`Starts.adopted`).
"""

from __future__ import annotations

from collections.abc import Callable

from heliostat.clock import Clock
from heliostat.errors import StateIncomplete
from heliostat.names import LinkName
from heliostat.state.link_state import Stored

LOOKS = 3
PAUSE_S = 2.0
FIRST_CLAIM = 1


def whole_state(link: LinkName, read: Callable[[], Stored], claim: int, clock: Clock) -> Stored:
    """Read the link's state, again where rows are missing that the link has had.

    Parameters
    ----------
    read
        Reads all rows, with a connection of its own at each call.
    claim
        Number of this owner's claim.

    Raises
    ------
    StateIncomplete
        They are still missing.
    """
    for look in range(LOOKS):
        if look:
            clock.sleep(PAUSE_S)
        stored = read()
        missing = _missing(stored, claim)
        if not missing:
            return stored
    raise StateIncomplete(f"the state of link {link} lacks {missing}", link=link, claim=claim)


def _missing(stored: Stored, claim: int) -> str:
    """Say what a state lacks that its link has had; empty if nothing."""
    if claim <= FIRST_CLAIM or not stored.appended_to():
        return ""
    if stored.producer_id is None:
        return "its producer id"
    if stored.at_beginning is None:
        return "the topics that the source had when the link began"
    return ""
