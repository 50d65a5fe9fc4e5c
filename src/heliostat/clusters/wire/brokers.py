"""The known brokers of one cluster, and which of them gets requests that any broker can answer.

Each has a control connection. A broker that is known not to answer gets no request (I7).
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from heliostat.access import ClusterAccess
from heliostat.clusters.wire.connection import DialSettings
from heliostat.clusters.wire.control_connection import (
    POLL_S,
    ControlConnection,
    ask_side_by_side,
    probe_side_by_side,
)
from heliostat.clusters.wire.questions import NO_VERSIONS, Versions
from heliostat.errors import AccessRefused, ConnectionLost
from heliostat.names import BrokerId, Endpoint

Answer = TypeVar("Answer")
SEED_AFTER_S = 0.3
"""If a seed has not answered within this time, the next one is tried at the same time."""


@dataclass(frozen=True, slots=True)
class BrokerFacts:
    """What was learnt of a cluster's brokers, for connections that are opened later.

    Parameters
    ----------
    endpoints
        Where they listen.
    versions
        What those at these addresses support.
    connected
        Those that had an open connection: they answered lately.
    """

    endpoints: Mapping[BrokerId, Endpoint] = field(default_factory=dict)
    versions: Mapping[Endpoint, Versions] = field(default_factory=dict)
    connected: frozenset[BrokerId] = frozenset()


class Brokers:
    """Brokers of the bootstrap, and those that answers have named since. Not thread-safe.

    Parameters
    ----------
    access
        Access to the cluster.
    settings
        How to open connections.
    facts
        What others have learnt of them.
    """

    def __init__(
        self, access: ClusterAccess, settings: DialSettings, facts: BrokerFacts | None = None
    ) -> None:
        facts = facts or BrokerFacts()
        self._access = access
        self._settings = settings
        self._versions = facts.versions
        self._brokers: dict[BrokerId, ControlConnection] = {}
        self._seeds = [self._conn(endpoint) for endpoint in access.endpoints]
        for broker, endpoint in facts.endpoints.items():
            self.learn(broker, endpoint)
        self._first = facts.connected
        """Those to ask before any is connected."""

    def close(self) -> None:
        """Close the connections."""
        for conn in [*self._brokers.values(), *self._seeds]:
            conn.close()

    def _conn(self, endpoint: Endpoint) -> ControlConnection:
        versions = self._versions.get(endpoint, NO_VERSIONS)
        return ControlConnection(endpoint, self._settings, self._access.alias, versions)

    def facts(self) -> BrokerFacts:
        """What the next one that begins need not ask."""
        conns = {conn.endpoint: conn for conn in [*self._seeds, *self._brokers.values()]}
        return BrokerFacts(
            {broker: conn.endpoint for broker, conn in self._brokers.items()},
            {
                endpoint: conn.known_versions
                for endpoint, conn in conns.items()
                if conn.known_versions
            },
            frozenset(broker for broker, conn in self._brokers.items() if conn.is_connected),
        )

    @property
    def fastest_s(self) -> float:
        """The shortest time that any answer took; infinite: none came."""
        return min(conn.patience.fastest_s for conn in [*self._seeds, *self._brokers.values()])

    def known(self, broker: BrokerId) -> ControlConnection:
        """Connection to a broker that an answer has named.

        Raises
        ------
        ConnectionLost
            No answer has named it.
        """
        try:
            return self._brokers[broker]
        except KeyError:
            raise ConnectionLost("no such broker in the metadata", broker=broker) from None

    def knows(self, broker: BrokerId) -> bool:
        """Whether an answer has named it."""
        return broker in self._brokers

    def learn(self, broker: BrokerId, endpoint: Endpoint) -> None:
        """Note where a broker listens now."""
        conn = self._brokers.get(broker)
        if conn is None or conn.endpoint != endpoint:
            if conn is not None:
                conn.close()
            # A seed at that address is connected already, which costs round trips.
            seeds = (seed for seed in self._seeds if seed.endpoint == endpoint)
            self._brokers[broker] = next(seeds, None) or self._conn(endpoint)

    # -- who answers ---------------------------------------------------------------------------

    def reach(self, brokers: Iterable[BrokerId]) -> None:
        """Connect to these in parallel, and doubt those that are much slower than the others."""
        conns = [
            self._brokers[broker] for broker in sorted(set(brokers)) if broker in self._brokers
        ]
        probe_side_by_side(conns, self._settings.connect_timeout_s)

    def seeds_that_answer(self, within_s: float) -> list[Endpoint]:
        """Bootstrap addresses at which a broker answers; one that refuses does, too."""
        return [conn.endpoint for conn in probe_side_by_side(self._seeds, within_s)]

    def doubt(self, broker: BrokerId) -> None:
        """Send a broker nothing until it answers a probe: it is silent on another connection."""
        if broker in self._brokers:
            self._brokers[broker].doubt()

    def silence_of(self, broker: BrokerId, from_s: float) -> ConnectionLost | None:
        """Error to raise if a broker has not answered a probe for `from_s` seconds, or None."""
        conn = self._brokers.get(broker)
        return conn.silence(from_s) if conn is not None else None

    def silent(self, within_s: float) -> list[Endpoint]:
        """Brokers, with those of the bootstrap, that say nothing for that time; all are probed.

        One that refuses connections is not among them: that is an answer, and requests report it.
        """
        conns = {conn.endpoint: conn for conn in [*self._seeds, *self._brokers.values()]}
        for conn in conns.values():
            conn.begin_probe()
        return [endpoint for endpoint, conn in conns.items() if not _answers(conn, within_s)]

    # -- requests to any of them ---------------------------------------------------------------

    def ask_any(self, request: Any, response: Any, version_max: int) -> Any:
        """Ask any broker that answers, see `ControlConnection.exchange`.

        Raises
        ------
        ConnectionLost
            No broker answered.
        """
        return self.first_of(lambda conn: conn.exchange([request], response, version_max)[0])

    def connected(self) -> ControlConnection:
        """Return one that requests can be sent to: its connection is open.

        Raises
        ------
        ConnectionLost
            No broker can be reached.
        """

        def opened(conn: ControlConnection) -> ControlConnection:
            conn.connect()
            return conn

        return self.first_of(opened)

    def first_of(self, ask: Callable[[ControlConnection], Answer]) -> Answer:
        """Ask one broker after the other until one answers; raises as `ask_any`."""
        reasons: list[ConnectionLost] = []
        for conn in self._in_order():
            try:
                return ask(conn)
            except ConnectionLost as error:
                reasons.append(error)
        for reason in reversed(reasons):
            if isinstance(reason, AccessRefused):
                raise reason  # a refusal says more than that others are gone
        raise ConnectionLost(
            f"no broker of {self._access.described} answers",
            hint=next(
                (failure.hint for failure in reasons if failure.hint != ConnectionLost.hint), None
            )
            or "check the addresses in `bootstrap` and that the brokers run",
            tried="; ".join(map(_tried, reasons[-3:])),
        )

    def ask_all(self, request: Any, response: Any, version_max: int) -> list[Any]:
        """Ask every broker that answers, and return the answers.

        Raises
        ------
        ConnectionLost
            No broker answered.
        """
        questions = {broker: (conn, [request]) for broker, conn in self._brokers.items()}
        answers = ask_side_by_side(questions, response, version_max).values()
        good = [answer[0] for answer in answers if not isinstance(answer, ConnectionLost)]
        return good or [self.ask_any(request, response, version_max)]

    def answering(self, request: Any, response: Any, version_max: int) -> dict[BrokerId, bool]:
        """Whether each broker that an answer has named answers a request; all asked at once."""
        questions = {broker: (conn, [request]) for broker, conn in self._brokers.items()}
        answers = ask_side_by_side(questions, response, version_max)
        return {
            broker: not isinstance(answer, ConnectionLost) for broker, answer in answers.items()
        }

    def _in_order(self) -> Iterator[ControlConnection]:
        """Brokers in the order in which to ask them.

        Those that do not answer come last: they fail at once, with the reason.
        """
        brokers = sorted(
            self._brokers.items(),
            key=lambda item: (not item[1].is_answering(), not item[1].is_connected),
        )
        if any(conn.is_connected for _, conn in brokers):
            first = [conn for _, conn in brokers]
        else:  # a seed's probe finds one that answers sooner than a request to one that hangs
            first = [conn for broker, conn in brokers if broker in self._first]
        later = [conn for _, conn in brokers if conn not in first]
        return itertools.chain(first, self._answering_seeds(), later)

    def _answering_seeds(self) -> Iterator[ControlConnection]:
        """Seeds in the order in which to ask them; a slow one does not hold up the next."""
        left = list(self._seeds)
        until_s = time.monotonic() + 2 * self._settings.connect_timeout_s
        for seed in self._seeds:
            seed.begin_probe()
            if seed.is_answering(SEED_AFTER_S):
                left.remove(seed)
                yield seed
        while left:  # ends: each turn yields one, or time passes
            next_seed = next(
                (candidate for candidate in left if candidate.is_answering(POLL_S)), None
            )
            if next_seed is None and time.monotonic() >= until_s:
                quiet = (
                    candidate
                    for candidate in left
                    if candidate.quiet_s >= self._settings.connect_timeout_s
                )
                next_seed = next(quiet, None)  # its error has the reason
            if next_seed is not None:
                left.remove(next_seed)
                yield next_seed


def _answers(conn: ControlConnection, within_s: float) -> bool:
    """Whether a probe is over in that time, which begins anew with each part of its handshake."""
    while (left_s := within_s - conn.quiet_s) > 0:
        if conn.is_answering(left_s):
            return True
    return conn.is_answering()


def _tried(lost: ConnectionLost) -> str:
    """A failed attempt in a few words."""
    why = lost.context.get("why")
    return f"{lost.context.get('broker')}: {lost.text}" + (f" ({why})" if why else "")
