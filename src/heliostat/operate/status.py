"""`heliostat status`: the state of links, even if a target hangs."""

from __future__ import annotations

import time
from contextlib import closing, suppress
from functools import partial

from heliostat.clock import SystemClock
from heliostat.clusters.wire.cluster import WireCluster
from heliostat.clusters.wire.connection import DialSettings
from heliostat.config import Config, LinkConfig
from heliostat.errors import BrokerError, ConnectionLost, HeliostatError
from heliostat.names import LinkName
from heliostat.operate.links import links_of
from heliostat.ops.asked import NoAnswerYet, PendingAnswer
from heliostat.state.link_state import LinkState
from heliostat.status.board import StatusBoard, unreachable
from heliostat.status.reader import last_reported
from heliostat.status.values import LinkStatus

STATUS_WITHIN_S = 10.0
"""Enough for many thousand mirrors. Limited because the state topics' leader may hang."""
PROBE_S = 1.5


def link_statuses(config: Config, link_name: str | None = None) -> list[LinkStatus]:
    """Return the state of links, read from the targets' state topics; works on any machine.

    Raises
    ------
    ConnectionLost
        A target does not answer.
    """
    found = statuses_apart(config, link_name)
    for _, error in found:
        if error is not None:
            raise error
    return [status for status, _ in found]


def statuses_apart(
    config: Config, link_name: str | None = None
) -> list[tuple[LinkStatus, HeliostatError | None]]:
    """Return the state of each link, with the error if its target does not answer.

    Links are read concurrently, none for longer than `STATUS_WITHIN_S` and a probe.
    """
    looks = [StatusLook(config, link) for link in links_of(config, link_name)]
    until_s = time.monotonic() + STATUS_WITHIN_S
    return [look.status(max(0.0, until_s - time.monotonic())) for look in looks]


class StatusLook:
    """Reads one link's state topics on a thread of its own, as their leader may hang."""

    def __init__(self, config: Config, link: LinkConfig) -> None:
        self._config = config
        self._link = link
        self._asked = PendingAnswer(partial(_status, config, link), f"{link.name} look")

    def status(self, within_s: float) -> tuple[LinkStatus, HeliostatError | None]:
        """Return the status within `within_s` seconds, or an error that names hung brokers."""
        error: HeliostatError | None = None
        try:
            return self._asked.answer(within_s), None
        except NoAnswerYet:
            pass
        except HeliostatError as found:
            error = found
        if error is None or isinstance(error, (ConnectionLost, BrokerError)):
            error = self._hung() or error or ConnectionLost("the target's answers take too long")
        now_ms = SystemClock().wall_ms()
        return unreachable(LinkName(self._link.name), now_ms, error), error

    def _hung(self) -> ConnectionLost | None:
        access = self._config.clusters[self._link.target].access()
        settings = DialSettings("heliostat-status", request_timeout_s=PROBE_S)
        with closing(WireCluster(access, settings)) as target:
            with suppress(ConnectionLost):
                target.metadata([])
            hung = ", ".join(str(each) for each in target.silent(PROBE_S))
        if not hung:
            return None
        return ConnectionLost(
            f"the status of link {self._link.name} can't be read: {hung} of {access.described} "
            "accepts connections and does not answer",
            hint="the broker hangs: check its machine and disk; other brokers become leaders of "
            "its partitions once the cluster's controller has noticed",
        )


def _status(config: Config, link: LinkConfig) -> LinkStatus:
    name, target = LinkName(link.name), config.clusters[link.target]
    board = last_reported(name, target.access())
    if board is None:
        board = StatusBoard(name)
    else:
        with closing(LinkState(link, target)) as state:
            board.know_stops(state.read_stops())
    return board.status(SystemClock().wall_ms())
