"""What operators order of a link: unlike a wish it is done once, or not at all; pure.

An order has an id, and up to three rows, each written once:

    order/ID         what is ordered, by whoever orders it
    order/ID/begun   by the owner, durable before it does anything
    order/ID/ended   by the owner: it was done; or by a later one, that it was cut short

An owner carries out an order only if the first row that says "begun" is its own. So nothing is done
twice, whoever dies when: one that died after that row leaves an order of which nobody can tell how
far it came, and which is not repeated. Rows arrive in any number, as a write may be repeated.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Self

from heliostat.names import PartitionId, TopicName
from heliostat.wishes.wish import NAME_CHARS_MAX, WHY_CHARS_MAX, Place

ORDER_PREFIX = "order"
KEPT_MS = 24 * 3_600_000
"""An order that has ended is kept for a day, by the clock of the link's owner."""
CUT_SHORT = "its driver ended after it had begun: it may have been done or not, and is not repeated"
_ID = re.compile(r"[0-9a-f]{32}")
_BEGUN, _ENDED = "begun", "ended"


class OrderVerb(Enum):
    """What is ordered."""

    RESTART = "restart"
    """Begin anew."""
    APPLY = "apply"
    """Bring the target up to date now; nothing begins anew."""
    GIVE_WAY = "give_way"
    """End in order, and begin anew after a while: a verb writes the link's state meanwhile."""


class Stage(Enum):
    """How far an order came."""

    WAITS = "waits"
    """No owner has begun it."""
    BEGUN = "begun"
    DONE = "done"
    CUT_SHORT = "cut_short"
    """The owner that had begun it died, or was taken over: it may have been done, or not."""


@dataclass(frozen=True, slots=True)
class Order:
    """An order to restart a link, or what is stopped of a topic or partition; or to apply."""

    order_id: str
    place: Place
    by: str
    at_ms: int
    """Wall clock of who wrote it, for people."""
    why: str = ""
    verb: OrderVerb = OrderVerb.RESTART

    @classmethod
    def new(
        cls,
        place: Place,
        by: str,
        at_ms: int,
        why: str = "",
        *,
        verb: OrderVerb = OrderVerb.RESTART,
        key: str = "",
    ) -> Self:
        """Return an order with an id of its own, or the same one each time for a key."""
        order_id = hashlib.sha256(key.encode()).hexdigest()[:32] if key else uuid.uuid4().hex
        return cls(order_id, place, by[:NAME_CHARS_MAX], at_ms, why[:WHY_CHARS_MAX], verb)

    @property
    def key(self) -> str:
        """Its key in the topic."""
        return f"{ORDER_PREFIX}/{self.order_id}"

    def to_json(self) -> dict[str, Any]:
        """Return its row."""
        return {
            "verb": self.verb.value,
            "topic": self.place.topic,
            "partition": self.place.partition,
            "by": self.by,
            "at_ms": self.at_ms,
            "why": self.why,
        }

    @classmethod
    def from_json(cls, order_id: str, value: Mapping[str, Any]) -> Self:
        """Build from a row.

        Raises
        ------
        ValueError, LookupError, TypeError
            It is not a row.
        """
        verb = OrderVerb(value["verb"])
        topic, partition = value["topic"], value["partition"]
        place = Place(
            None if topic is None else TopicName(str(topic)),
            None if topic is None or partition is None else PartitionId(int(partition)),
        )
        by, why = str(value["by"]), str(value.get("why", ""))
        at_ms = int(value["at_ms"])
        return cls(order_id, place, by[:NAME_CHARS_MAX], at_ms, why[:WHY_CHARS_MAX], verb)


@dataclass(frozen=True, slots=True)
class Begun:
    """That an owner has begun an order."""

    instance: str
    """Of the owner; each claim of a link has another one."""
    host: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class Ended:
    """What became of an order."""

    stage: Stage
    text: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class OrderStanding:
    """An order, and how far it came."""

    order: Order
    begun: Begun | None = None
    ended: Ended | None = None

    @property
    def stage(self) -> Stage:
        """How far it came."""
        if self.ended is not None:
            return self.ended.stage
        return Stage.WAITS if self.begun is None else Stage.BEGUN

    def to_json(self) -> dict[str, Any]:
        """Return it for reports and answers."""
        return {
            "id": self.order.order_id,
            "verb": self.order.verb.value,
            "place": str(self.order.place),
            "by": self.order.by,
            "at_ms": self.order.at_ms,
            "why": self.order.why,
            "stage": self.stage.value,
            "begun_ms": None if self.begun is None else self.begun.at_ms,
            "ended_ms": None if self.ended is None else self.ended.at_ms,
            "text": "" if self.ended is None else self.ended.text,
        }


class Orders:
    """All orders of a link, in the order in which they were written."""

    def __init__(self) -> None:
        self._orders: dict[str, Order] = {}
        self._begun: dict[str, Begun] = {}
        self._ended: dict[str, Ended] = {}

    def take(self, key: str, value: Mapping[str, Any] | None) -> None:
        """Take a row; the first of each kind counts, as a write may be repeated.

        Raises
        ------
        ValueError, LookupError, TypeError
            It is not a row.
        """
        order_id, kind = _parts(key)
        of_kind: tuple[dict[str, Any], ...] = (self._orders, self._begun, self._ended)
        rows = of_kind[("", _BEGUN, _ENDED).index(kind)]
        if value is None:
            rows.pop(order_id, None)
        elif kind == _BEGUN:
            begun = Begun(str(value["instance"]), str(value["host"]), int(value["at_ms"]))
            self._begun.setdefault(order_id, begun)
        elif kind == _ENDED:
            ended = Ended(Stage(value["stage"]), str(value["text"]), int(value["at_ms"]))
            self._ended.setdefault(order_id, ended)
        else:
            self._orders.setdefault(order_id, Order.from_json(order_id, value))

    def standing(self, order_id: str) -> OrderStanding | None:
        """Return how far an order came; None: there is none of that id."""
        order = self._orders.get(order_id)
        if order is None:
            return None
        return OrderStanding(order, self._begun.get(order_id), self._ended.get(order_id))

    def standings(self) -> Iterator[OrderStanding]:
        """Yield all orders, the earliest first."""
        for order_id, order in self._orders.items():
            yield OrderStanding(order, self._begun.get(order_id), self._ended.get(order_id))

    def of(self, stage: Stage) -> list[OrderStanding]:
        """Return the orders that came just so far, the earliest first."""
        return [standing for standing in self.standings() if standing.stage is stage]

    def outdated(self, now_ms: int) -> list[str]:
        """Return the keys of rows that need not be kept: the order itself goes first.

        An order that no owner has ended is never one of them.
        """
        old = [
            order_id for order_id, ended in self._ended.items() if now_ms - ended.at_ms >= KEPT_MS
        ]
        return [
            key
            for order_id in old
            for key in (f"{ORDER_PREFIX}/{order_id}", begun_key(order_id), ended_key(order_id))
        ]


def begun_key(order_id: str) -> str:
    """Return the key under which an owner notes that it begins an order."""
    return f"{ORDER_PREFIX}/{order_id}/{_BEGUN}"


def ended_key(order_id: str) -> str:
    """Return the key under which it is noted what became of an order."""
    return f"{ORDER_PREFIX}/{order_id}/{_ENDED}"


def is_order_key(key: str) -> bool:
    """Return whether a row is about an order."""
    return key.split("/", 1)[0] == ORDER_PREFIX


def _parts(key: str) -> tuple[str, str]:
    match key.split("/"):
        case [prefix, order_id] if prefix == ORDER_PREFIX and _ID.fullmatch(order_id):
            return order_id, ""
        case [prefix, order_id, kind] if (
            prefix == ORDER_PREFIX and _ID.fullmatch(order_id) and kind in {_BEGUN, _ENDED}
        ):
            return order_id, kind
    raise ValueError(f"{key!r} is no order's key")
