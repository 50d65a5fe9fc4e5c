"""Who a link is: the producer id that its state says. It is made once, and never written over.

I1  A link that took another producer id would not know its own records again, and would stop at
    them as foreign. So an id is made only for a link that has appended nothing under another one:
    no mirror has begun, or all that have were taken over at their end (`Starts.adopted`).
"""

from __future__ import annotations

from collections.abc import Callable

from heliostat.clock import Clock
from heliostat.errors import StateIncomplete
from heliostat.names import LinkName, TopicName
from heliostat.records.copier.lane import PartitionCode
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
        missing = "" if claim <= FIRST_CLAIM else missing_rows(stored)
        if not missing:
            return stored
    raise StateIncomplete(f"the state of link {link} lacks {missing}", link=link, claim=claim)


def missing_rows(stored: Stored) -> str:
    """Say what the state lacks of a link that has begun mirrors; empty if nothing."""
    has_begun = bool(stored.appended_to())
    if stored.producer_id is None and (has_begun or stored.producers):
        return "its producer id"
    if stored.at_beginning is None and has_begun:
        return "the topics that the source had when the link began"
    return ""


def estranged(stored: Stored) -> frozenset[TopicName]:
    """Return source topics whose mirrors the state lists, but may not be known as the link's.

    They have stopped at a last record of another producer, which may be a former id of the link's,
    or nothing says which id is the link's.
    """
    stops = stored.stops.values()
    foreign = {stop.source.topic for stop in stops if stop.code == PartitionCode.FOREIGN_TAIL}
    if stored.producer_id is None and missing_rows(stored):
        return frozenset(stored.mirrors)
    return frozenset(foreign & stored.mirrors.keys())
