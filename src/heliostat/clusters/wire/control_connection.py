"""Requests to one broker, which must not delay work with other brokers (I7).

A broker that hangs accepts connections and requests as if it were healthy, and answers nothing. As
soon as that is suspected, the copying thread sends it nothing more: another thread dials it until
it answers, and each request meanwhile fails at once. Before that, with one of three brokers stopped
the partitions of the other two stood still for 61 s, due to requests and sends to it (2026-11-21).
"""

from __future__ import annotations

import contextlib
import math
import select
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from heliostat.clusters.wire.connection import Connection, DialSettings, SignsOfLife
from heliostat.clusters.wire.questions import (
    NO_VERSIONS,
    Asked,
    Question,
    Versions,
    ask,
    ask_versions,
    begin_ask,
    take_answers,
)
from heliostat.errors import AccessRefused, ConnectionLost, HeliostatError, ProtocolError
from heliostat.names import BrokerId, Endpoint

QUESTION_S = 2.0
"""Longest wait for an answer at first; it doubles with each request that is not answered."""
QUICK_S = 0.5
"""What fails within this time may be retried at once: brokers that are down refuse so fast."""
PROBE_EVERY_S = 1.0
OTHERS_S_MIN, OTHERS_FACTOR = 0.4, 2.0
"""How long to wait for the others once some have answered: a multiple of the time these took."""
POLL_S = 0.01


class ControlConnection:
    """A connection for rare requests. Used by one thread; only its probe has its own.

    Parameters
    ----------
    endpoint
        The broker's listener.
    settings
        How to open a connection, and the longest wait for an answer.
    alias
        Alias of the cluster, for errors; may be empty.
    versions
        What the broker supports, if another connection has asked: see `versions`.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        settings: DialSettings,
        alias: str = "",
        versions: Versions = NO_VERSIONS,
    ) -> None:
        self.endpoint = endpoint
        self._settings = settings
        self._alias = alias
        self._connection: Connection | None = None
        self._versions = versions
        self.patience = _Patience(settings.request_timeout_s)
        self._probe: _Probe | None = None

    def close(self) -> None:
        """Close the connection; a later request opens another."""
        self._disconnect()
        probe, self._probe = self._probe, None
        if probe is not None:
            probe.abandon()

    # -- whether it answers --------------------------------------------------------------------

    def doubt(self) -> None:
        """Send nothing more before the broker, which is silent, has answered a probe; start it."""
        if self._probe is None:
            self._disconnect()
            self._probe = _Probe(self.endpoint, self._settings, self._alias)

    def begin_probe(self) -> None:
        """Start to connect in another thread; `is_answering` reports when that is done."""
        if self._connection is None:
            self.doubt()

    @property
    def quiet_s(self) -> float:
        """For how long the probe has had no answer of any kind (s); 0 without a probe."""
        return 0.0 if self._probe is None else self._probe.quiet_s

    def is_answering(self, within_s: float = 0.0) -> bool:
        """Whether requests may be sent, now or within that time."""
        if self._probe is not None and self._probe.over.wait(within_s):
            self._end_probe()
        return self._probe is None

    def silence(self, from_s: float = 0.0) -> ConnectionLost | None:
        """Error to raise if the broker has not answered a probe for `from_s` seconds, or None."""
        if self.is_answering() or self._probe is None or self._probe.quiet_s < from_s:
            return None
        for_s = round(self._probe.age_s, 1)
        lost = ConnectionLost("the broker does not answer", broker=str(self.endpoint), for_s=for_s)
        if self._alias:
            lost.context["cluster"] = self._alias
        return lost

    def look(self) -> None:
        """Check that requests may be sent now.

        Raises
        ------
        ConnectionLost
            The broker is silent.
        """
        if (silence := self.silence()) is not None:
            raise silence

    def _end_probe(self) -> None:
        probe = self._probe
        assert probe is not None
        self._probe = None
        if probe.connection is not None:  # otherwise it refuses: a request will report how
            self._connection, self._versions = probe.connection, probe.versions

    # -- requests ------------------------------------------------------------------------------

    @property
    def is_connected(self) -> bool:
        """Whether a connection is open, and requests may be sent."""
        return self._probe is None and self._connection is not None

    @property
    def known_versions(self) -> Versions:
        """As `versions`, without asking; empty if nobody has asked."""
        return self._versions

    def versions(self) -> Versions:
        """Lowest and highest version of each request that the broker supports, by API key.

        Raises
        ------
        ConnectionLost
            It does not answer.
        """
        if not self._versions:
            with self._timed():
                self._versions = ask_versions(self._open(), self.patience.wait_s)
        return self._versions

    def exchange(self, requests: Sequence[Any], response: Any, version_max: int) -> list[Any]:
        """Send requests of one kind and return their answers.

        Raises
        ------
        ConnectionLost
            The broker does not answer.
        ProtocolError
            It does not support the request, or answers another one.
        """
        return self.exchange_kinds(Question(requests, response, version_max))[0]

    def exchange_kinds(self, *questions: Question) -> list[list[Any]]:
        """Send requests of several kinds together; return the answers of each; see `exchange`."""
        versions = [self._version_of(kind.requests[0], kind.version_max) for kind in questions]
        began_s = time.monotonic()
        try:
            return self._round_trip(questions, versions)
        except AccessRefused:
            raise
        except ConnectionLost:
            if time.monotonic() > began_s + self.patience.quick_s:
                raise
            # The broker may have closed a connection that was idle: try again with a new one.
            # Safe: every request sent here may be repeated.
            return self._round_trip(questions, versions)

    def connect(self) -> None:
        """Open a connection unless one is open; requests are sent over it.

        Raises
        ------
        ConnectionLost
            It can't be opened; nothing was sent.
        """
        self.versions()
        with self._timed(is_whole=False):
            self._open()

    def exchange_once(
        self,
        requests: Sequence[Any],
        response: Any,
        version_max: int,
        within_s: float,
        version_min: int = 0,
    ) -> list[Any]:
        """Send requests that must not be repeated on a guess, and return their answers.

        Raises
        ------
        As `exchange`: whether they were carried out is not known if no answer came `within_s`.
        """
        version = self._version_of(requests[0], version_max, version_min)
        with self._timed():
            return ask(self._open(), requests, response, version, within_s)

    def begin(self, requests: Sequence[Any], version_max: int) -> Asked:
        """Send requests; `end` must take their answers before anything else is sent.

        Raises
        ------
        As `exchange`.
        """
        version = self._version_of(requests[0], version_max)
        with self._timed(is_whole=False):
            return begin_ask(self._open(), requests, version)

    def end(self, asked: Asked, response: Any) -> list[Any]:
        """Return the answers to the requests of `begin`; raises as `exchange`."""
        try:
            with self._timed(began_s=asked.sent_s):
                return take_answers(asked, response, self.patience.wait_s)
        except AccessRefused:
            raise
        except ConnectionLost:
            if not self.is_answering():
                raise
            question = Question(asked.requests, response, asked.version)
            return self._round_trip([question], [asked.version])[0]

    def _version_of(self, request: Any, version_max: int, version_min: int = 0) -> int:
        key = request.API_KEY
        low, high = self.versions().get(key, (0, -1))
        version = min(high, version_max)
        if version < max(low, version_min):
            raise ProtocolError("broker and Heliostat share no version of a request", api_key=key)
        return version

    def _round_trip(
        self, questions: Sequence[Question], versions: Sequence[int]
    ) -> list[list[Any]]:
        with self._timed():
            connection = self._open()
            asked = [
                begin_ask(connection, question.requests, version)
                for question, version in zip(questions, versions, strict=True)
            ]
            return [
                take_answers(some, question.response, self.patience.wait_s)
                for some, question in zip(asked, questions, strict=True)
            ]

    @contextlib.contextmanager
    def _timed(self, *, is_whole: bool = True, began_s: float = 0.0) -> Iterator[None]:
        """Close the connection if the request fails; doubt the broker if that took long.

        If `is_whole`, a round trip began then or now; connecting is none: it may be to a proxy.
        """
        self.look()
        began_s = began_s or time.monotonic()
        try:
            yield
        except HeliostatError as error:
            if self._alias:  # addresses alone tell an operator little
                error.context.setdefault("cluster", self._alias)
            self._disconnect()
            took_s = time.monotonic() - began_s
            if isinstance(error, ConnectionLost) and took_s > self.patience.quick_s:
                self.patience.double()
                self.doubt()
            raise
        if is_whole:
            self.patience.learn(time.monotonic() - began_s)

    def _open(self) -> Connection:
        if self._connection is not None and self._connection.has_ended():
            self._disconnect()  # brokers close idle connections: nothing was sent to this one
        if self._connection is None:
            self._connection = Connection(self.endpoint, self._settings)
        return self._connection

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def probe_side_by_side(
    conns: Iterable[ControlConnection], within_s: float
) -> list[ControlConnection]:
    """Probe all in parallel; return those that answer, without those that are much slower."""
    waiting, responders = list(conns), []
    for conn in waiting:
        conn.begin_probe()
    began_s, left_s = time.monotonic(), within_s
    while waiting and time.monotonic() < began_s + left_s:
        came = [conn for conn in waiting if conn.is_answering()]
        if came:
            responders += came
            waiting = [conn for conn in waiting if conn not in came]
            took_s = time.monotonic() - began_s
            left_s = min(within_s, max(OTHERS_S_MIN, OTHERS_FACTOR * took_s))
        else:
            waiting[0].is_answering(POLL_S)
    return responders


def ask_side_by_side(
    questions: Mapping[BrokerId, tuple[ControlConnection, Sequence[Any]]],
    response: Any,
    version_max: int,
) -> dict[BrokerId, list[Any] | ConnectionLost]:
    """Ask several brokers in parallel, and doubt those that are much slower than the others.

    Raises
    ------
    ProtocolError
        One does not support the request, or answers another one.
    """
    answers: dict[BrokerId, list[Any] | ConnectionLost] = {}
    waiting: dict[BrokerId, Asked] = {}
    for broker, (conn, requests) in questions.items():
        try:
            waiting[broker] = conn.begin(requests, version_max)
        except ConnectionLost as error:
            answers[broker] = error
    wrong: ProtocolError | None = None
    began_s, left_s = time.monotonic(), QUESTION_S
    while waiting:  # ends: each turn takes one's answer, or the time is over
        answered = _answered(waiting, began_s + left_s - time.monotonic())
        for broker in answered or list(waiting):
            conn, asked = questions[broker][0], waiting.pop(broker)
            if not answered:
                conn.doubt()
            try:
                answers[broker] = conn.end(asked, response)
            except ConnectionLost as error:
                answers[broker] = error
            except ProtocolError as error:
                wrong = error  # take the others' answers first
        left_s = max(OTHERS_S_MIN, OTHERS_FACTOR * (time.monotonic() - began_s))
    if wrong is not None:
        raise wrong
    return answers


def _answered(waiting: Mapping[BrokerId, Asked], within_s: float) -> list[BrokerId]:
    """Brokers whose answers are the first to arrive within that time."""
    held = [broker for broker, asked in waiting.items() if asked.connection.has_held()]
    if held:
        return held
    poller = select.poll()
    by_file = {asked.connection.fileno(): broker for broker, asked in waiting.items()}
    for file in by_file:
        poller.register(file, select.POLLIN)
    return [by_file[file] for file, _ in poller.poll(1000 * max(0.0, within_s))]


class _Patience:
    """How long to wait for a broker's answers, by how long earlier ones took.

    Parameters
    ----------
    most_s
        The longest wait.
    """

    def __init__(self, most_s: float) -> None:
        self._most_s = most_s
        self.wait_s = min(QUESTION_S, most_s)
        """Wait for the next answer."""
        self.fastest_s = math.inf
        """The shortest time that an answer took: little more than the line's round trip."""

    @property
    def quick_s(self) -> float:
        """Time within which a failure may be retried at once: over a long line more."""
        return QUICK_S if self.fastest_s == math.inf else max(QUICK_S, 2 * self.fastest_s)

    def double(self) -> None:
        """Wait longer for the next answer: none came."""
        self.wait_s = min(self._most_s, 2 * self.wait_s)

    def learn(self, took_s: float) -> None:
        """Note how long an answer took."""
        self.wait_s = min(self._most_s, max(QUESTION_S, 2 * took_s))
        self.fastest_s = min(self.fastest_s, took_s)


class _Probe:
    """Dials a broker and asks for its versions until it answers, in a thread of its own."""

    def __init__(self, endpoint: Endpoint, settings: DialSettings, alias: str) -> None:
        self.connection: Connection | None = None
        self.versions = NO_VERSIONS
        self.over = threading.Event()
        """Set once it has answered, or refused, which is an answer, too."""
        self._endpoint = endpoint
        self._of_all = settings.signs
        self._signs = SignsOfLife(settings.signs)
        self._settings = replace(settings, signs=self._signs)
        self._began_s = time.monotonic()
        self._is_abandoned = False
        self._handing_over = threading.Lock()
        name = f"probe {alias} {endpoint}"
        threading.Thread(target=self._run, name=name, daemon=True).start()

    @property
    def age_s(self) -> float:
        """Seconds since the probe began."""
        return time.monotonic() - self._began_s

    @property
    def quiet_s(self) -> float:
        """Seconds since it began, or since the last answer, a part of a handshake included."""
        return time.monotonic() - max(self._began_s, self._signs.last_s)

    def abandon(self) -> None:
        """Stop: nobody needs the answer any more."""
        with self._handing_over:
            self._is_abandoned = True
            if self.connection is not None:
                self.connection.close()

    def _run(self) -> None:
        while not self._is_abandoned:  # ends: it answers, refuses, or is abandoned
            tried_s = time.monotonic()
            try:
                self._try()
            except HeliostatError as error:
                is_quick = time.monotonic() < tried_s + QUICK_S
                if not is_quick and not isinstance(error, AccessRefused):
                    time.sleep(PROBE_EVERY_S)
                    continue
            self.over.set()
            return

    def _try(self) -> None:
        connection = Connection(self._endpoint, self._settings)
        try:
            self.versions = ask_versions(connection, self._settings.request_timeout_s)
        except BaseException:
            connection.close()
            raise
        with self._handing_over:
            connection.settings = replace(connection.settings, signs=self._of_all)
            self.connection = connection
            if self._is_abandoned:
                connection.close()
