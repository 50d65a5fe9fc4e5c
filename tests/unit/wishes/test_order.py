"""Orders: each row counts once, in whatever number it arrives."""

from __future__ import annotations

from typing import Any

import pytest

from heliostat.names import PartitionId, TopicName
from heliostat.wishes.order import (
    KEPT_MS,
    Order,
    Orders,
    Stage,
    begun_key,
    ended_key,
    is_order_key,
)
from heliostat.wishes.wish import Place

ORDER = Order("0f" * 16, Place(), "ops", 5, "it hangs")
MINE: dict[str, Any] = {"instance": "mine", "host": "a", "at_ms": 6}
OTHER: dict[str, Any] = {**MINE, "instance": "other"}
DONE: dict[str, Any] = {"stage": "done", "text": "2 lanes began anew", "at_ms": 7}
BEGIN, END = begun_key(ORDER.order_id), ended_key(ORDER.order_id)


def taken(*rows: tuple[str, dict[str, Any] | None]) -> Orders:
    orders = Orders()
    for key, value in rows:
        orders.take(key, value)
    return orders


@pytest.mark.parametrize(
    ("rows", "stage"),
    [
        ([(ORDER.key, ORDER.to_json())], Stage.WAITS),
        ([(ORDER.key, ORDER.to_json()), (BEGIN, MINE)], Stage.BEGUN),
        ([(ORDER.key, ORDER.to_json()), (BEGIN, MINE), (END, DONE)], Stage.DONE),
        ([(BEGIN, MINE), (END, DONE), (ORDER.key, ORDER.to_json())], Stage.DONE),
        ([(ORDER.key, ORDER.to_json()), (BEGIN, MINE), (ORDER.key, ORDER.to_json())], Stage.BEGUN),
    ],
)
def test_a_repeated_row_takes_nothing_back(
    rows: list[tuple[str, dict[str, Any] | None]], stage: Stage
) -> None:
    standing = taken(*rows).standing(ORDER.order_id)
    assert standing is not None
    assert standing.stage is stage


def test_who_begins_first_has_it() -> None:
    standing = taken((ORDER.key, ORDER.to_json()), (BEGIN, OTHER), (BEGIN, MINE)).standing(
        ORDER.order_id
    )
    assert standing is not None
    assert standing.begun is not None
    assert standing.begun.instance == "other"


def test_orders_are_kept_for_a_day_after_they_have_ended() -> None:
    waiting = Order.new(Place(TopicName("t"), PartitionId(3)), "ops", 0)
    orders = taken(
        (ORDER.key, ORDER.to_json()), (BEGIN, MINE), (END, DONE), (waiting.key, waiting.to_json())
    )
    assert orders.outdated(7 + KEPT_MS - 1) == []
    assert orders.outdated(7 + KEPT_MS) == [ORDER.key, BEGIN, END]
    for key in (ORDER.key, BEGIN, END):
        orders.take(key, None)
    assert [each.order for each in orders.standings()] == [waiting]
    assert orders.outdated(KEPT_MS * 9) == []


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("order/1", {}),
        (f"{ORDER.key}/over", DONE),
        (f"{ORDER.key}/begun/now", MINE),
        (ORDER.key, {**ORDER.to_json(), "verb": "delete"}),
        (ORDER.key, {}),
        (END, {**DONE, "stage": "forgotten"}),
        (BEGIN, {"instance": "a"}),
    ],
)
def test_what_is_no_order_is_refused(key: str, value: dict[str, Any]) -> None:
    assert is_order_key(key)
    with pytest.raises((ValueError, LookupError, TypeError)):
        Orders().take(key, value)


def test_places_are_read_as_they_were_written() -> None:
    for place in (Place(), Place(TopicName("t")), Place(TopicName("t"), PartitionId(3))):
        order = Order.new(place, "ops", 5)
        assert Order.from_json(order.order_id, order.to_json()) == order
