"""Pausing, resuming, stopping and starting links and topics.

A wish is written to the target; the link's owner carries it out, and says so in its report.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from heliostat.clock import SystemClock
from heliostat.config import Config, LinkConfig
from heliostat.errors import Refused
from heliostat.names import LinkName, Offset
from heliostat.operate.named_places import ask_source, places_named
from heliostat.operate.wish_desk import wish_desk
from heliostat.status.board import StatusBoard
from heliostat.status.reader import StatusReader
from heliostat.status.snapshot import DRIVER_SILENT_AFTER_S
from heliostat.status.standing_wishes import HAS_NO_OWNER, IS_SILENT
from heliostat.wishes.wish import Place, Wish, WishedState

CARRIED_OUT_WITHIN_S = 15.0
"""After this the wish is told as waiting; an owner that is well needs less than two."""
READ_S = 0.1


@dataclass(frozen=True, slots=True)
class WishAnswer:
    """What became of a wish."""

    link: LinkName
    wished: WishedState
    places: tuple[str, ...]
    """The link, or its topics and partitions."""
    changed: tuple[str, ...]
    """Those for which something else was wished before; of the others nothing was written."""
    partitions: int
    """Partitions that this concerns, as far as they were reported."""
    is_done: bool
    """Whether the link's owner has carried it out."""
    waits: str
    """Why it is not carried out yet; empty: it is, or it was only tried."""
    still_paused: tuple[str, ...]
    """Topics and partitions that stay paused when the link goes on."""
    took_s: float
    is_tried: bool
    """Whether nothing was written, as it was only asked what would be done."""

    def to_json(self) -> dict[str, Any]:
        """Return the answer for `--json`."""
        return {
            "link": self.link,
            "wished": self.wished.value,
            "places": list(self.places),
            "changed": list(self.changed),
            "partitions": self.partitions,
            "is_done": self.is_done,
            "waits": self.waits,
            "still_paused": list(self.still_paused),
            "took_s": round(self.took_s, 3),
            "is_tried": self.is_tried,
        }


def make_wish(
    config: Config,
    link: LinkConfig,
    wished: WishedState,
    topics: Sequence[str | Place] = (),
    *,
    by: str,
    why: str = "",
    within_s: float = CARRIED_OUT_WITHIN_S,
    dry_run: bool = False,
) -> WishAnswer:
    """Write what is wished of a link, or of these topics of it, and wait until it is carried out.

    Parameters
    ----------
    topics
        Names at the source, or `TOPIC-PARTITION`, or places; none: the link as a whole.
    by
        Who wishes it.
    within_s
        How long to wait; after that it is told as waiting, and still counts.
    dry_run
        Whether only to tell what would change.

    Raises
    ------
    Refused
        There is no such topic or partition in the link, or a topic is to be stopped.
    ConnectionLost, BrokerError
        The target does not answer, or refuses.
    """
    with wish_desk(config, link) as desk:
        book = desk.book
        partitions = desk.reader.board.positions().keys()
        if wished is WishedState.STOPPED and topics:
            raise Refused("only a link can be stopped", hint="pause the topics")
        book.read()
        ask = ask_source(config, link)
        places = places_named(topics, partitions, book.wishes.places(), ask) or [Place()]
        wishes = [Wish(place, wished, by, desk.clock.wall_ms(), why) for place in places]
        changed = [wish for wish in wishes if not book.wishes.is_wished(wish.place, wished)]
        end = book.position
        is_done, waits = False, ""
        if not dry_run:
            if changed:
                end = book.write(changed, link.state.replication_factor)
            is_done, waits = await_owner(desk.reader, end, desk.clock, within_s)
        is_going_on = wished is WishedState.RUNNING and not topics
        return WishAnswer(
            desk.link,
            wished,
            tuple(map(str, places)),
            tuple(str(wish.place) for wish in changed),
            sum(any(place.holds(partition) for place in places) for partition in partitions),
            is_done,
            waits,
            tuple(sorted(str(pause.place) for pause in book.wishes.pauses()))
            if is_going_on
            else (),
            desk.took_s(),
            dry_run,
        )


def await_owner(
    reader: StatusReader, end: Offset, clock: SystemClock, within_s: float
) -> tuple[bool, str]:
    """Wait until the owner says that it has carried out all wishes before `end`, or why not."""
    until_s = clock.monotonic_s() + within_s
    silent_s = clock.monotonic_s() + min(within_s, DRIVER_SILENT_AFTER_S)
    heard_ms = reader.board.driver_at_ms
    while True:  # ends: it is carried out, has no owner, or the time is over
        if _answered(reader.board) >= end and reader.board.driver_at_ms is not None:
            return True, ""
        now_s = clock.monotonic_s()
        if (at_ms := reader.board.driver_at_ms) is None:
            return False, HAS_NO_OWNER
        if now_s >= until_s or (now_s >= silent_s and at_ms == heard_ms):
            break
        reader.read(READ_S)
    if at_ms == heard_ms:
        return False, IS_SILENT
    return False, f"the link's driver has not carried it out within {within_s:g} s, and still tries"


def _answered(board: StatusBoard) -> int:
    """Return up to which offset the owner has carried out the wishes; -1: an older driver."""
    return int(board.driver.get("wishes", {}).get("answered", -1))
