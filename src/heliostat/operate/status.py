"""`heliostat status`: the state of links within seconds, even if a cluster hangs."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial

from heliostat.clock import SystemClock
from heliostat.clusters.wire.cluster import WireCluster
from heliostat.clusters.wire.connection import DialSettings, SignsOfLife
from heliostat.clusters.wire.lent import LentClusters
from heliostat.config import ClusterConfig, Config, LinkConfig
from heliostat.errors import BrokerError, ConnectionLost, HeliostatError
from heliostat.names import LinkName
from heliostat.operate.links import links_of
from heliostat.operate.shut_out import why_not
from heliostat.ops.asked import NoAnswerYet, PendingAnswer
from heliostat.state.link_state import LinkState
from heliostat.status.board import StatusBoard, unreachable
from heliostat.status.both_ends import read_ends
from heliostat.status.halted import NO_DRIVER
from heliostat.status.lag import Ends
from heliostat.status.reader import last_heard
from heliostat.status.snapshot import NO_ENDS
from heliostat.status.values import LinkStatus, PartitionStatus
from heliostat.wishes.reading import remembered_of

READ_WITHIN_S = 3.0
"""Enough for a thousand mirrors. Then it counts whether brokers hang: the state topics' leader may.
"""
READ_MAX_S = 15.0
"""Where no broker hangs: many thousand mirrors take so long."""
PROBE_S = 1.0
ENDS_WITHIN_S, ENDS_MAX_S = 1.2, 10.0
"""A status without these ends says less, and is in time. Over a long line they take longer, while
there are signs of life."""


def link_statuses(config: Config, link_name: str | None = None) -> list[LinkStatus]:
    """Return the state of links, read from the targets' state topics; works on any machine.

    Raises
    ------
    ConnectionLost
        A target does not answer.
    """
    answers = statuses_apart(config, link_name)
    for _, error in answers:
        if error is not None:
            raise error
    return [status for status, _ in answers]


@dataclass(frozen=True, slots=True)
class LinkPicture:
    """A link at one moment with each of its partitions."""

    status: LinkStatus
    partitions: tuple[PartitionStatus, ...] = ()
    error: HeliostatError | None = None
    """Why nothing is known; None: the target answers."""


def link_picture(config: Config, link: LinkConfig) -> LinkPicture:
    """Return the state of one link and all its partitions, as `link_statuses` reads it."""
    [look] = _looks(config, (link,))
    status, error = look.status()
    return LinkPicture(status, look.partitions(), error)


def statuses_apart(
    config: Config, link_name: str | None = None
) -> list[tuple[LinkStatus, HeliostatError | None]]:
    """Return the state of each link, with the error if its target does not answer.

    Links are read concurrently, and their targets probed meanwhile: some of their brokers may hang.
    """
    return [look.status() for look in _looks(config, links_of(config, link_name))]


def _looks(config: Config, links: Sequence[LinkConfig]) -> list[StatusLook]:
    looks = [StatusLook(config, link) for link in links]
    probes = {name: Probe(config.clusters[name]) for name in {link.target for link in links}}
    began_s = time.monotonic()
    _wait(looks, began_s + READ_WITHIN_S)
    until_s = began_s + READ_WITHIN_S + PROBE_S
    for look in looks:
        if look.must_probe:
            look.hung = probes[look.link.target].hung(max(0.0, until_s - time.monotonic()))
    _wait([look for look in looks if look.hung is None], began_s + READ_MAX_S)
    return looks


def _wait(looks: Iterable[StatusLook], until_s: float) -> None:
    for look in looks:
        look.wait(max(0.0, until_s - time.monotonic()))


class Probe:
    """Asks a cluster which of its brokers hang, on a thread of its own."""

    def __init__(self, cluster: ClusterConfig) -> None:
        self._signs = SignsOfLife()
        self._asked = PendingAnswer(partial(_hung, cluster, self._signs), "probe")

    def hung(self, within_s: float) -> ConnectionLost | None:
        """Return an error that names the brokers that hang, or says that none answers.

        Over a long line a handshake takes longer than that; it is waited for while it goes on.
        """
        with suppress(NoAnswerYet):
            return self._asked.answer_while(lambda: self._signs.last_s, within_s, READ_MAX_S)
        return ConnectionLost("no broker of the target answers in time")


class StatusLook:
    """Reads one link's state topics on a thread of its own, as their leader may hang."""

    def __init__(self, config: Config, link: LinkConfig) -> None:
        self.link = link
        self.hung: ConnectionLost | None = None
        """Names brokers of the target that hang."""
        self._asked = PendingAnswer(partial(_status, config, link), f"{link.name} look")
        self._found: _Seen | None = None
        self._error: HeliostatError | None = None

    def wait(self, within_s: float) -> None:
        """Wait for the answer."""
        if self._found is None and self._error is None:
            try:
                self._found = self._asked.answer(within_s)
            except NoAnswerYet:
                pass
            except HeliostatError as error:
                self._error = error

    @property
    def must_probe(self) -> bool:
        """Whether hung brokers may be why there is no status."""
        return self._found is None and isinstance(self._error, ConnectionLost | BrokerError | None)

    def status(self) -> tuple[LinkStatus, HeliostatError | None]:
        """Return the status, or what is wrong with the target."""
        if self._found is not None:
            return self._found.status(), None
        error = self.hung or self._error or ConnectionLost("the target's answers take too long")
        now_ms = SystemClock().wall_ms()
        return unreachable(LinkName(self.link.name), now_ms, error), error

    def partitions(self) -> tuple[PartitionStatus, ...]:
        """Return all partitions; none if the target does not answer."""
        return () if self._found is None else self._found.partitions()


@dataclass(frozen=True, slots=True)
class _Seen:
    """The reports of a link, and where logs end of partitions whose lag they don't tell."""

    board: StatusBoard
    now_ms: int
    ends: Ends

    def status(self) -> LinkStatus:
        return self.board.status(self.now_ms, self.ends)

    def partitions(self) -> tuple[PartitionStatus, ...]:
        return tuple(self.board.partitions(self.now_ms, self.ends))


def _hung(cluster: ClusterConfig, signs: SignsOfLife) -> ConnectionLost | None:
    access, dead = cluster.access(), None
    settings = DialSettings(
        "heliostat-status", connect_timeout_s=PROBE_S, request_timeout_s=PROBE_S, signs=signs
    )
    with closing(WireCluster(access, settings)) as target:
        try:
            target.metadata([])
        except ConnectionLost as error:
            dead = error
        hung = ", ".join(str(broker) for broker in target.silent(PROBE_S))
    if not hung:
        return dead
    return ConnectionLost(
        f"{hung} of {access.described} accepts connections and does not answer",
        hint="the broker hangs: check its machine and disk; other brokers become leaders of "
        "its partitions once the cluster's controller has noticed",
    )


def _status(config: Config, link: LinkConfig) -> _Seen:
    name, target = LinkName(link.name), config.clusters[link.target]
    clock, lent = SystemClock(), LentClusters(target.access(), DialSettings("heliostat-status"))
    with closing(lent), closing(LinkState(link, lent)) as state:
        stops = PendingAnswer(state.read_stops, f"{name} stops")
        last_report = last_heard(name, lent, clock)
        board, now_ms = last_report or (StatusBoard(name), clock.wall_ms())
        if board.driver_at_ms is None or board.status(now_ms).state in NO_DRIVER:
            board.know_remembered(remembered_of(name, lent))
        if last_report is None:
            return _Seen(board, now_ms, NO_ENDS)
        board.know_stops(stops.answer())
        if board.status(now_ms).state == "silent":
            mirrors = sorted({item.target.topic for item in board.reports()})
            with suppress(HeliostatError):  # the lease holds, whatever brokers say
                board.know_denial(can_deny=not why_not(config, link, lent, board.driver, mirrors))
    reports = board.to_read(now_ms)
    if not reports:
        return _Seen(board, now_ms, NO_ENDS)
    source = config.clusters[link.source].access()
    signs = SignsOfLife()
    read = partial(read_ends, source, target.access(), reports, signs)
    asked = PendingAnswer(read, f"{name} ends")
    with suppress(NoAnswerYet, HeliostatError):
        ends = asked.answer_while(lambda: signs.last_s, ENDS_WITHIN_S, ENDS_MAX_S)
        return _Seen(board, now_ms, ends)
    return _Seen(board, now_ms, NO_ENDS)
