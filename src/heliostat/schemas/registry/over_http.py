"""A schema registry over HTTP: several addresses, credentials, retries. The only user of httpx.

Secrets are read for each request, and certificates whenever a connection was lost, so that renewed
ones need no restart. They go to the configured addresses only: no redirect is followed.
"""

from __future__ import annotations

import random
import ssl
import threading
import urllib.request
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import inf
from types import TracebackType
from typing import Self, TypeVar
from urllib.parse import quote, urlsplit

import httpx

from heliostat.access import RegistryAccess
from heliostat.clock import Clock, SystemClock
from heliostat.clusters import tokens
from heliostat.clusters.credentials import reveal, tls_context
from heliostat.errors import (
    HeliostatError,
    RegistryAnswerInvalid,
    RegistryUnreachable,
)
from heliostat.schemas.registry.messages import CONTENT_TYPE, Answer, Call, Request
from heliostat.schemas.registry.reading import error_of
from heliostat.schemas.registry.retries import Retries, retry_after_s

T = TypeVar("T")

ANSWER_BYTES_MAX = 256 << 20
"""All subjects' names of a large registry have some MiB; a schema may have some, too."""
AT_ONCE, AT_ONCE_FAR = 8, 64
"""Requests in flight to a registry. One nearby that is asked for 10,000 schemas at once answers no
faster; of one far away most requests are on the line, and it sees a few at a time."""
FAR_S = 0.02
"""The fastest answer from which on a registry counts as far."""
CONNECTIONS_MAX = AT_ONCE_FAR
"""To one address."""
_NO_AUTHORITIES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
_NODE_STATUSES = frozenset({408, 429})
"""Refusals of one node, besides 5xx: another may answer."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Limits of one request to one address."""

    connect_s: float = 5.0
    silence_s: float = 10.0
    """Without a byte. A slow registry takes 5 s for an answer."""
    answer_s: float = 60.0
    """For the whole answer, also if bytes keep coming."""


class HttpRegistry:
    """Asks a registry; may be used by several threads. See `heliostat.schemas.registry.calls`.

    Parameters
    ----------
    access
        Addresses and credentials.
    retries, timeouts
        How long a request is tried.
    clock
        For pauses and limits.
    chance
        Numbers from 0 to 1 that spread pauses.
    """

    def __init__(
        self,
        access: RegistryAccess,
        *,
        retries: Retries | None = None,
        timeouts: Timeouts | None = None,
        clock: Clock | None = None,
        chance: Callable[[], float] | None = None,
    ) -> None:
        self._access = access
        self._retries = retries or Retries()
        self._timeouts = timeouts or Timeouts()
        self._clock = clock or SystemClock()
        self._chance = chance or random.SystemRandom().random
        self._clients: dict[str, httpx.Client] = {}
        self._lock = threading.Lock()
        self._first = 0
        self._fastest_s = inf

    @property
    def at_once(self) -> int:
        """How many requests to have in flight, by the fastest answer so far."""
        return AT_ONCE_FAR if FAR_S <= self._fastest_s < inf else AT_ONCE

    def ask(self, call: Call[T]) -> T:
        """Send a request, to the next address if one fails, and again after a pause.

        Raises
        ------
        RegistryError
            The registry refuses, or all its nodes have trouble of their own.
        RegistryUnreachable
            No address answers; what can't be repeated may have been carried out.
        RegistryAnswerInvalid
            What answers is no registry.
        CredentialsUnreadable, TokenRefused
            There is nothing to authenticate with.
        """
        until_s = self._clock.monotonic_s() + self._retries.within_s
        failures: dict[str, HeliostatError] = {}
        wanted_s: float | None = None
        for turn in range(self._retries.turns):
            if turn:
                pause_s = self._retries.pause_before(turn, wanted_s, self._chance())
                if self._clock.monotonic_s() + pause_s > until_s:
                    break
                self._clock.sleep(pause_s)
            wanted_s = None
            for url in self._order():
                try:
                    value = self._ask_at(url, call)
                except _NodeFailed as failed:
                    failures[url] = failed.error
                    wanted_s = max(wanted_s or 0.0, failed.retry_after_s or 0.0)
                    if failed.was_sent and not call.is_repeatable:
                        raise self._told(call, failures, url) from None
                else:
                    self._first = self._access.urls.index(url)
                    return value
        raise self._told(call, failures, url)

    def ask_each(self, call: Call[T]) -> Mapping[str, T | HeliostatError]:
        """Ask each address once, and give its answer or what is wrong, by address."""
        answers: dict[str, T | HeliostatError] = {}
        for url in self._access.urls:
            try:
                answers[url] = self._ask_at(url, call)
            except _NodeFailed as failed:
                answers[url] = failed.error
            except HeliostatError as error:
                answers[url] = error
        return answers

    def close(self) -> None:
        """Close all connections; a later request opens new ones."""
        with self._lock:
            clients, self._clients = self._clients, {}
        for client in clients.values():
            client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _order(self) -> Iterator[str]:
        """The address that answered last, then the others."""
        urls, first = self._access.urls, self._first
        yield from urls[first:] + urls[:first]

    def _ask_at(self, url: str, call: Call[T]) -> T:
        """Ask one address.

        Raises
        ------
        _NodeFailed
            Another address may answer.
        RegistryError
            The registry refuses.
        """
        answer = self._send(url, call.request)
        endpoint = self._access.token_endpoint
        if answer.status == httpx.codes.UNAUTHORIZED and endpoint is not None:
            tokens.forget(endpoint)  # it may have been revoked before its time
            answer = self._send(url, call.request)
        try:
            if httpx.codes.is_success(answer.status):
                return call.read(answer)
            error = error_of(answer)
        except RegistryAnswerInvalid as invalid:
            error = invalid
        error.context |= {"asked": str(call.request), "registry": url}
        if answer.retry_after_s is not None:
            error.context["retry_after_s"] = answer.retry_after_s
        is_of_node = answer.status >= 500 or answer.status in _NODE_STATUSES
        if is_of_node or isinstance(error, RegistryAnswerInvalid):
            raise _NodeFailed(error, was_sent=True, retry_after_s=answer.retry_after_s)
        raise error

    def _send(self, url: str, request: Request) -> Answer:
        """Send a request to one address and read the answer.

        Raises
        ------
        _NodeFailed
            There is none, or it is too large or too slow.
        """
        headers = {"Accept": f"{CONTENT_TYPE}, application/json", **self._authorization()}
        if request.body is not None:
            headers["Content-Type"] = CONTENT_TYPE
        client = self._client(url)
        began_s = self._clock.monotonic_s()
        until_s = began_s + self._timeouts.answer_s
        body = bytearray()
        try:
            with client.stream(
                request.method,
                url.rstrip("/") + _target(request),
                content=request.body,
                headers=headers,
            ) as response:
                self._fastest_s = min(self._fastest_s, self._clock.monotonic_s() - began_s)
                for chunk in response.iter_bytes():
                    body += chunk
                    if len(body) > ANSWER_BYTES_MAX or self._clock.monotonic_s() > until_s:
                        raise _endless(url, request, len(body))
                wait = retry_after_s(response.headers.get("Retry-After"), self._clock.wall_ms())
                return Answer(response.status_code, bytes(body), wait)
        except (httpx.TransportError, httpx.DecodingError) as error:
            self._forget(url, client)
            was_sent = not isinstance(
                error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout
            )
            raise _NodeFailed(
                RegistryUnreachable(
                    "the registry does not answer",
                    asked=str(request),
                    registry=url,
                    why=f"{type(error).__name__}: {error}",
                ),
                was_sent=was_sent,
            ) from None

    def _authorization(self) -> dict[str, str]:
        access = self._access
        if access.password is not None:
            both = f"{access.username}:{reveal(access.password)}".encode()
            return {"Authorization": f"Basic {b64encode(both).decode('ascii')}"}
        if access.token is not None:
            return {"Authorization": f"Bearer {reveal(access.token)}"}
        if access.token_endpoint is not None:
            endpoint = access.token_endpoint
            token = tokens.fetch(endpoint, lambda: reveal(endpoint.client_secret))
            return {"Authorization": f"Bearer {token}"}
        return {}

    def _client(self, url: str) -> httpx.Client:
        with self._lock:
            if url not in self._clients:
                self._clients[url] = self._new_client(url)
            return self._clients[url]

    def _new_client(self, url: str) -> httpx.Client:
        # Without TLS a context is not used; an empty one spares reading all authorities.
        verify = tls_context(self._access.security) if _is_secured(url) else _NO_AUTHORITIES
        limits = self._timeouts
        return httpx.Client(
            verify=verify,
            trust_env=False,
            proxy=_proxy(url),
            follow_redirects=False,
            timeout=httpx.Timeout(limits.silence_s, connect=limits.connect_s),
            limits=httpx.Limits(max_connections=CONNECTIONS_MAX),
        )

    def _forget(self, url: str, client: httpx.Client) -> None:
        """Drop a client whose connection failed: the next one reads the certificates again.

        It is not closed, as other threads may wait for their answers; its last user ends it.
        """
        with self._lock:
            if _is_secured(url) and self._clients.get(url) is client:
                del self._clients[url]

    def _told(
        self, call: Call[T], failures: Mapping[str, HeliostatError], last: str
    ) -> HeliostatError:
        """The error of the address asked last, with those of the others."""
        error = failures[last]
        others = {url: failure.text for url, failure in failures.items() if url != last}
        if others:
            error.context["others"] = others
        if not call.is_repeatable:
            error.context["note"] = "it may have been carried out"
        return error


class _NodeFailed(Exception):
    """One address failed; another, or the same later, may answer."""

    def __init__(
        self, error: HeliostatError, *, was_sent: bool, retry_after_s: float | None = None
    ) -> None:
        super().__init__(error)
        self.error = error
        self.was_sent = was_sent
        self.retry_after_s = retry_after_s


def _is_secured(url: str) -> bool:
    return urlsplit(url).scheme == "https"


def _target(request: Request) -> str:
    """Path and query as they are sent."""
    query = "&".join(f"{quote(name, '')}={quote(value, '')}" for name, value in request.query)
    return request.path + (f"?{query}" if query else "")


def _endless(url: str, request: Request, received_bytes: int) -> _NodeFailed:
    error = RegistryAnswerInvalid(
        "the answer is too large or takes too long",
        asked=str(request),
        registry=url,
        received_bytes=received_bytes,
    )
    return _NodeFailed(error, was_sent=True)


def _proxy(url: str) -> str | None:
    """The environment's proxy, for TLS only: others could read the secret."""
    parts = urlsplit(url)
    if parts.scheme != "https" or urllib.request.proxy_bypass(parts.hostname or ""):
        return None
    return urllib.request.getproxies().get("https")
