"""The link back of merged topics while their rolling switch is finished: it rests, and ends first.

Its pause is a wish of the run, by whose `why` any later process knows it again. Taking it back
deletes just that wish: what an operator had paused stays paused.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import closing
from dataclasses import dataclass

from heliostat.config import Config, LinkConfig
from heliostat.errors import Refused
from heliostat.handover.promotion import PromotedBy
from heliostat.names import TopicName
from heliostat.operate.promotion import promote
from heliostat.operate.wish_desk import wish_desk
from heliostat.operate.wishes import CARRIED_OUT_WITHIN_S, await_owner
from heliostat.state.link_state import LinkState, Stored
from heliostat.topics.select import selection_of
from heliostat.wishes.wish import Place, Wish, WishedState


def links_back_of(
    config: Config, link: LinkConfig, topics: Collection[TopicName]
) -> list[LinkConfig]:
    """Return links that bring the target's records of these topics back."""
    return [
        each
        for each in config.links
        if (each.source, each.target) == (link.target, link.source)
        and each.topics.merges
        and any(map(selection_of(each).selects, topics))
    ]


def link_back_of(
    config: Config, link: LinkConfig, topics: Collection[TopicName]
) -> LinkConfig | None:
    """Return the one link back of these topics; None: there is none.

    Raises
    ------
    Refused
        There are several.
    """
    back = links_back_of(config, link, topics)
    if len(back) > 1:
        raise Refused(
            f"several links lead back from {link.target} to {link.source}: "
            + ", ".join(each.name for each in back),
            hint="finish the topics of each with --topics",
        )
    return back[0] if back else None


@dataclass(frozen=True, slots=True)
class LinkBack:
    """What a run does with the link back.

    Parameters
    ----------
    topics
        Those of the run that it selects.
    why
        Names the run.
    """

    config: Config
    link: LinkConfig
    topics: tuple[TopicName, ...]
    by: str
    why: str

    def stored(self) -> Stored:
        """Return its state; empty: it has never begun."""
        with (
            wish_desk(self.config, self.link) as desk,
            closing(LinkState(self.link, desk.target)) as state,
        ):
            return state.read()

    def rest(self) -> str:
        """Pause its topics until the run has ended; return what that came to.

        Raises
        ------
        ConnectionLost, BrokerError
            Its target does not answer, or refuses; call it again.
        """
        with wish_desk(self.config, self.link) as desk:
            desk.book.read()
            wishes, now_ms = desk.book.wishes, desk.clock.wall_ms()
            places = [
                place
                for place in map(Place, self.topics)
                if not wishes.is_wished(place, WishedState.PAUSED)
            ]
            rows = [Wish(each, WishedState.PAUSED, self.by, now_ms, self.why) for each in places]
            end = desk.book.position
            if rows:
                end = desk.book.write(rows, self.link.state.replication_factor)
            _, waits = await_owner(desk.reader, end, desk.clock, CARRIED_OUT_WITHIN_S)
        return f"{self.link.name} copies nothing of them" + (f"; {waits}" if waits else "")

    def go_on(self) -> str:
        """Take back what this run has paused; return what that came to.

        Raises
        ------
        ConnectionLost, BrokerError
            As `rest`.
        """
        with wish_desk(self.config, self.link) as desk:
            desk.book.read()
            rows = [
                each
                for each in desk.book.wishes.pauses()
                if each.why == self.why and each.place.topic in self.topics
            ]
            if not rows:
                return f"{self.link.name} was not paused"
            desk.book.put({each.key: None for each in rows})
        return f"{self.link.name} goes on"

    def give_away(self) -> str:
        """End its copying of these topics; done again it changes nothing.

        Raises
        ------
        ConnectionLost, BrokerError
            As `rest`.
        """
        stored = self.stored()
        names = [name for name in self.topics if name in {*stored.mirrors, *stored.promoted}]
        if not names:
            return f"{self.link.name} has never copied them"
        answer = promote(self.config, self.link, names, PromotedBy.FINISH, by=self.by, why=self.why)
        self.go_on()
        return f"{self.link.name} has given {len(answer.promotions):,} topics away"
