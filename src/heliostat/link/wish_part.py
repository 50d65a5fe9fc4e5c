"""What operators wish of a running link: read as it is written, carried out, answered.

    Steering     gives lanes their partitions, those that are to rest as paused
    WishPart     follows the topic of wishes, and says up to which of its offsets all is carried out
    order_part   orders, which are carried out once

A lane that has a partition to rest keeps it, copies nothing, and measures its lag: neighbours are
not touched, and copying goes on at once. A link that is stopped has no lanes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from time import monotonic
from typing import Any

from heliostat.definitions.definition import Definition
from heliostat.handover.promotion import Promotion
from heliostat.handover.unfenced import Unfenced
from heliostat.link.order_part import OrderPart
from heliostat.link.ordered_restarts import OrderedRestarts
from heliostat.names import LaneId, Offset, TopicName, TopicPartition
from heliostat.ops.events import Events
from heliostat.ops.loop_spec import LoopSpec, Wake
from heliostat.records.copier.lane import PartitionSpec
from heliostat.records.copier.lane_limits import ByteLimits, Priority
from heliostat.wishes.job import told_between
from heliostat.wishes.levels import Levels, Said
from heliostat.wishes.rate import rate_text
from heliostat.wishes.reading import report_of
from heliostat.wishes.restarts import RestartMemory
from heliostat.wishes.wish import Place, Wish, Wishes
from heliostat.wishes.wish_book import WishBook

EVERY_S = 1.0
"""Between two looks that could not wait at the broker: others follow each other at once."""
WAIT_S, PENDING_WAIT_S = 1.0, 0.02
"""How long one look waits for a wish, and while lanes have not all answered one."""
PENDING_S = 5.0
"""Lanes answer within milliseconds; after this a look waits as if they had."""
Wanted = Mapping[LaneId, tuple[PartitionSpec, ...]]


class Steering:
    """Gives lanes their partitions, as operators wish. Thread-safe.

    Parameters
    ----------
    assign
        See `LaneSet.assign`.
    wishes
        Returns what is wished now.
    restarts
        What is begun anew.
    """

    def __init__(
        self,
        assign: Callable[[Wanted, ByteLimits], None],
        wishes: Callable[[], Wishes],
        restarts: OrderedRestarts,
    ) -> None:
        self._assign = assign
        self._wishes = wishes
        self.restarts = restarts
        self._lock = threading.Lock()
        self._wanted: Wanted | None = None

    def assign(self, wanted: Wanted) -> None:
        """Make `wanted` the lanes' partitions."""
        with self._lock:
            self._wanted = wanted
            wishes = self._wishes()
            self._assign(_by_wishes(wanted, wishes), wishes.levels.byte_limits())

    def partitions_of(self, topics: Collection[TopicName]) -> list[TopicPartition]:
        """Return the partitions of topics that lanes have, or had until wishes took them away."""
        with self._lock:
            lanes = (self._wanted or {}).values()
            sources = (spec.source for specs in lanes for spec in specs)
            return [source for source in sources if source.topic in topics]

    def again(self) -> None:
        """Do the same with the same partitions, after the wishes have changed."""
        with self._lock:
            if self._wanted is not None:
                wishes = self._wishes()
                self._assign(_by_wishes(self._wanted, wishes), wishes.levels.byte_limits())


def _by_wishes(wanted: Wanted, wishes: Wishes) -> Wanted:
    if given_away := wishes.promotions.keys():
        kept = {
            lane: tuple(spec for spec in specs if spec.source.topic not in given_away)
            for lane, specs in wanted.items()
        }
        wanted = {lane: specs for lane, specs in kept.items() if specs}
    priorities = _priorities(wanted, wishes)
    return {
        lane: tuple(
            replace(
                spec,
                is_paused=is_paused,
                priority=priorities.get(spec.source.topic, Priority.NORMAL),
            )
            if (is_paused := wishes.is_paused(spec.source)) or spec.source.topic in priorities
            else spec
            for spec in specs
        )
        for lane, specs in wanted.items()
    }


def _priorities(wanted: Wanted, wishes: Wishes) -> dict[TopicName, Priority]:
    """Return the priorities of topics that have another than most."""
    if not any(wishes.levels.preferences()):
        return {}
    topics = {spec.source.topic for specs in wanted.values() for spec in specs}
    priorities = {topic: wishes.levels.priority_of(topic) for topic in topics}
    return {topic: each for topic, each in priorities.items() if each is not Priority.NORMAL}


class WishPart:
    """The wishes for one link, while this process owns it.

    Parameters
    ----------
    book
        Where they are written.
    carry_out
        Does what is wished now; called once before anything is copied, and after each change.
    is_carried_out
        Returns whether that has reached all lanes.
    orders
        Carries out what is ordered.
    events
        Where changes are logged.
    is_crowded
        Returns whether there are too many links for each to wait for wishes on a thread: then they
        are looked at each second.
    """

    def __init__(
        self,
        book: WishBook,
        carry_out: Callable[[Wishes], None],
        is_carried_out: Callable[[], bool],
        orders: OrderPart,
        events: Events,
        *,
        is_crowded: Callable[[], bool] = lambda: False,
    ) -> None:
        self._book = book
        self._carry_out = carry_out
        self._is_carried_out = is_carried_out
        self._orders = orders
        self._events = events
        self._is_crowded = is_crowded
        self._lock = threading.Lock()
        self._now = Wishes()
        self._is_read = self._is_ordered = False
        self._position = self._answered = Offset(0)
        self._pending_until_s = 0.0
        self._wake = Wake()
        self.answered = Wake()
        """Set when wishes were carried out, so that this is reported at once."""

    def now(self) -> Wishes:
        """Return what is wished now."""
        with self._lock:
            return self._now

    @property
    def restarts(self) -> RestartMemory | None:
        """What is remembered of the link's restarts."""
        return self._book.restarts

    def read(self) -> None:
        """Read all wishes."""
        self._book.exists_now()
        self._book.read()

    def begin(self) -> None:
        """Read all wishes, before anything is copied."""
        self.read()
        self._is_read = True
        self._take()

    def loop(self, guarded: Callable[[Callable[[], None]], Callable[[], None]]) -> LoopSpec:
        """Return the loop that follows them."""
        return LoopSpec("wishes", EVERY_S, guarded(self.turn), self._wake)

    def turn(self) -> None:
        """Take what is new, and note what was carried out."""
        if not self._is_read:
            self.begin()
        before, jobs, began_s = self.now(), self._book.jobs.standings(), monotonic()
        is_pending = self._answered != self._position or self._is_ordered
        is_pending &= began_s < self._pending_until_s
        waits = not is_pending and not self._is_crowded()
        wait_s = WAIT_S if waits else PENDING_WAIT_S
        if is_new := self._book.consume(wait_s):
            self._take()
            for text in changes_between(before, self.now()):
                self._events.info(text)
            for text, is_good in told_between(jobs, self._book.jobs.standings()):
                (self._events.info if is_good else self._events.warn)(text)
        self._is_ordered = self._orders.turn()
        if self._answered != self._position and self._is_carried_out():
            self._answered = self._position
            self.answered.set()
        has_waited = (waits or is_pending) and monotonic() - began_s > wait_s / 2
        if is_new or has_waited:
            self._wake.set()

    def _take(self) -> None:
        now = self._book.wishes.copy()
        with self._lock:
            self._now = now
        self._position = self._book.position
        self._pending_until_s = monotonic() + PENDING_S
        try:
            self._carry_out(now)
        except BaseException:
            self._is_read = False  # all are read again, and carried out then
            raise

    def report(self) -> dict[str, Any]:
        """Return the wishes' part of the driver's report."""
        now, restarts = self.now(), self.restarts
        unfenced = Unfenced.of(now.promotions.values())
        return {
            "answered": self._answered,
            "orders": self._orders.report(),
            "restarts": None if restarts is None else restarts.to_json(),
            "unfenced": None if unfenced is None else unfenced.to_json(),
            **report_of(now),
        }

    def close(self) -> None:
        """Close the connections."""
        self._book.close()


def changes_between(before: Wishes, now: Wishes) -> list[str]:
    """Return a line for each change of what is wished; of many topics one for all."""
    lines: list[str] = []
    was, wish = before.of_link(), now.of_link()
    if wish is not None and (was is None or was.state is not wish.state):
        lines.append(f"the link is {wish.state.value}: {told(wish)}")
    elif was is not None and wish is None:
        lines.append("the link goes on" + _told_of(now, Place()))
    old = {each.place: each for each in before.pauses()}
    new = {each.place: each for each in now.pauses()}
    paused = [new[place] for place in new.keys() - old.keys()]
    if paused:
        lines.append(f"{_names([str(each.place) for each in paused])} paused: {told(paused[0])}")
    lines += _level_changes(before.levels, now.levels)
    promoted = [now.promotions[name] for name in now.promotions.keys() - before.promotions.keys()]
    if promoted:
        lines.append(f"{_names([each.topic for each in promoted])} given away: {told(promoted[0])}")
    if over := old.keys() - new.keys():
        places = sorted(over, key=str)
        names = _names([str(place) for place in places])
        lines.append(f"{names} no longer paused{_told_of(now, places[0])}")
    return lines


def _level_changes(before: Levels, now: Levels) -> Iterator[str]:
    """Yield a line for each other limit and priority."""
    old = {each.topic: each.bytes_per_s for each in before.limits()}
    new = {each.topic: each for each in now.limits()}
    for topic, each in new.items():
        if each.bytes_per_s != old.get(topic):
            place = topic or "the link"
            yield f"{place} is limited to {rate_text(each.bytes_per_s)}: {told(each.said)}"
    for topic in sorted(old.keys() - new.keys(), key=str):
        yield f"{topic or 'the link'} has no limit any more"
    known = set(before.preferences())
    for preference in now.preferences():
        if preference not in known:
            name = preference.priority.value
            yield f"{preference.topics} has {name} priority: {told(preference.said)}"


def told(wish: Wish | Said | Promotion | Definition) -> str:
    """Return who wishes it and why."""
    return f"{wish.by} wishes so" + (f", {wish.why}" if wish.why else "")


def _told_of(wishes: Wishes, place: Place) -> str:
    """Return who wishes that a place goes on, and why; nothing where the wish was forgotten."""
    wish = wishes.last_of(place)
    return "" if wish is None else f": {told(wish)}"


def _names(places: list[str]) -> str:
    first, *rest = sorted(places)
    verb = "are" if rest else "is"
    more = f" and {len(rest)} more" if rest else ""
    return f"{first}{more} {verb}"
