"""Who a link is: the producer id that its state says. It is made once, and never written over.

I1  A link that took another producer id would not know its own records again, and would stop at
    them as foreign. So an id is made only for a link that has appended nothing under another one:
    no mirror has begun, or all that have were taken over at their end (`Starts.adopted`).
"""

from __future__ import annotations

from collections.abc import Callable

from heliostat.clock import Clock
from heliostat.clusters.admin import ClusterAdmin
from heliostat.errors import StateIncomplete
from heliostat.link.known import Known
from heliostat.names import LinkName, ProducerId, TopicName
from heliostat.ops.asked import both
from heliostat.records.copier.lane import PartitionCode
from heliostat.state.link_state import LinkState, Stored

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


def own_identity(
    state: LinkState, link: LinkName, target: ClusterAdmin, clock: Clock
) -> tuple[Stored, ProducerId]:
    """Return the state, and the link's producer id, which is made and noted at its first start.

    Raises
    ------
    StateIncomplete
        See `whole_state`.
    ConnectionLost, BrokerError
        The target does not answer; what was made is noted, or is of no use to anybody.
    """

    def stored_state() -> Stored:
        return whole_state(link, state.read, state.claim, clock)

    if state.claim <= FIRST_CLAIM:  # it has none yet, unless it begins again: then it is not used
        made, stored = both(target.init_producer_id, stored_state)
    else:
        made, stored = None, stored_state()
    producer_id = stored.producer_id
    if producer_id is None:
        producer_id = target.init_producer_id() if made is None else made
    if stored.producer_id is None or producer_id not in stored.producers:
        state.put_producer(producer_id, stored.producers)
    return stored, producer_id


def known_of(stored: Stored, producer_id: ProducerId) -> Known:
    """Return what a driver knows at its start."""
    return Known(
        stored.mirrors,
        stored.starts,
        making=stored.making,
        promoted=stored.promoted,
        producer_id=producer_id,
        former_producers=stored.producers - {producer_id},
        at_beginning=stored.at_beginning,
        frames=stored.frames,
        unproven=stored.unproven,
    )


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
