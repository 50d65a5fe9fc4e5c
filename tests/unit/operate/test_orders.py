"""Orders under one idempotency key are given once."""

from __future__ import annotations

import pytest

from heliostat.names import TopicName
from heliostat.operate.idempotency import KeyUsed
from heliostat.operate.orders import new_orders
from heliostat.wishes.order import Order, Orders
from heliostat.wishes.wish import Place

PLACE = Place(TopicName("t"))


def test_the_same_under_one_key_is_one_order() -> None:
    known = Orders()
    first, again = (Order.new(PLACE, by, 5, key="k") for by in ("ann", "bob"))
    assert new_orders(known, [first]) == [first]
    known.take(first.key, first.to_json())
    assert new_orders(known, [again]) == []
    keyless = Order.new(PLACE, "ann", 5)
    assert new_orders(known, [keyless]) == [keyless]
    for other in (
        Order.new(Place(), "ann", 5, key="k"),
        Order.new(PLACE, "ann", 5, "why", key="k"),
    ):
        with pytest.raises(KeyUsed, match="restart of t was ordered under that idempotency key"):
            new_orders(known, [other])


def test_under_one_key_the_places_are_the_same() -> None:
    """Given orders for two places under one key / then fewer or more are refused, and what a write

    that was cut short has left out is ordered.
    """
    places = [Place(TopicName(name)) for name in "abc"]
    orders = [Order.new(place, "ann", 5, key=f"k\n{n}") for n, place in enumerate(places)]
    known = Orders()
    for order in new_orders(known, orders[:2], "k"):
        known.take(order.key, order.to_json())
    assert new_orders(known, orders[:2], "k") == []
    for others in (orders[:1], orders):
        with pytest.raises(KeyUsed):
            new_orders(known, others, "k")
    cut = Orders()
    first, *left = new_orders(cut, orders, "k")
    cut.take(first.key, first.to_json())
    assert new_orders(cut, orders, "k") == left
