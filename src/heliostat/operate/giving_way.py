"""A link that runs gives way to a verb that writes its state, and goes on by what is there then."""

from __future__ import annotations

from heliostat.config import Config, LinkConfig
from heliostat.operate.orders import await_orders
from heliostat.operate.wish_desk import wish_desk
from heliostat.wishes.order import Order, OrderVerb, Stage
from heliostat.wishes.wish import Place

WITHIN_S = 15.0


def ask_to_give_way(config: Config, link: LinkConfig, by: str, why: str) -> None:
    """Order that the link's driver resigns for a while; without one nothing is ordered.

    Whoever claims the link next waits for that, or until a driver that is silent has no leases.

    Raises
    ------
    ConnectionLost, BrokerError
        The target does not answer, or refuses.
    """
    with wish_desk(config, link) as desk:
        if not desk.is_reported or desk.reader.board.driver_at_ms is None:
            return
        desk.book.read()
        order = Order.new(Place(), by, desk.clock.wall_ms(), why, verb=OrderVerb.GIVE_WAY)
        desk.book.order([order], link.state.replication_factor)
        standings, _ = await_orders(desk.reader, desk.book, [order], desk.clock, WITHIN_S)
        if all(standing.stage is Stage.WAITS for standing in standings):
            desk.book.put({order.key: None})  # a driver that comes later need not
