"""Orders under one idempotency key are given once."""

from __future__ import annotations

import pytest

from heliostat.errors import Refused
from heliostat.names import TopicName
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
    with pytest.raises(Refused, match="restart of t was ordered under that idempotency key"):
        new_orders(known, [Order.new(Place(), "ann", 5, key="k")])
