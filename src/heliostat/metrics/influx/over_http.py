"""Sends points to InfluxDB 1.x over HTTP; credentials are read for each request."""

from __future__ import annotations

import http.client
import json
import re
import urllib.error
import urllib.parse
import urllib.request
from base64 import b64encode
from dataclasses import dataclass

from heliostat.clusters.credentials import reveal, tls_context
from heliostat.clusters.tokens import NoRedirect, proxies
from heliostat.config.influx import InfluxConfig
from heliostat.errors import CredentialsUnreadable

ANSWER_WITHIN_S = 10.0
"""A busy InfluxDB takes 5 s; it gives up itself after 10 s (`write-timeout`)."""
ANSWER_BYTES_MAX = 64 << 10
TOLD_MAX = 300
"""Characters of an answer that are told; it may quote a line for each point."""
_WRITTEN = 204
_REFUSED = frozenset({400, 413, 422})
"""It will refuse the same points again. What else it refuses, somebody can put right."""
_DROPPED = re.compile(r"dropped=(\d+)")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a request: written, refused in part or whole, or to be sent again."""

    is_over: bool
    """Whether it shall not be sent again."""
    refused: int = 0
    """Points that InfluxDB will never take."""
    why: str = ""
    """What it said; empty: all were written."""


class InfluxHttp:
    """Writes to one database. See `InfluxConfig`."""

    def __init__(self, config: InfluxConfig) -> None:
        self._config = config
        query = {"db": config.database, "precision": "ms"}
        if config.retention_policy is not None:
            query["rp"] = config.retention_policy
        self._address = f"{config.url}/write?{urllib.parse.urlencode(query)}"

    def send(self, body: bytes, points: int) -> Outcome:
        """Send compressed lines, so many points; never raises for what InfluxDB does."""
        headers = {"Content-Type": "text/plain; charset=utf-8", "Content-Encoding": "gzip"}
        try:
            headers |= self._authorization()
            request = urllib.request.Request(self._address, body, headers)  # noqa: S310  # checked
            with self._opener().open(request, timeout=ANSWER_WITHIN_S) as answer:
                return outcome_of(answer.status, answer.read(ANSWER_BYTES_MAX), points)
        except urllib.error.HTTPError as error:
            with error:
                return outcome_of(error.code, _text(error), points)
        except CredentialsUnreadable as error:
            return Outcome(is_over=False, why=error.text)
        except (OSError, http.client.HTTPException, ValueError) as error:
            why = getattr(error, "reason", None) or error
            return Outcome(is_over=False, why=f"{type(error).__name__}: {why}"[:TOLD_MAX])

    def _authorization(self) -> dict[str, str]:
        if self._config.password is None:
            return {}
        both = f"{self._config.username}:{reveal(self._config.password.reference())}".encode()
        return {"Authorization": f"Basic {b64encode(both).decode('ascii')}"}

    def _opener(self) -> urllib.request.OpenerDirector:
        """A new one reads the authorities now: renewed ones need no restart."""
        handlers: list[urllib.request.BaseHandler] = [proxies(), NoRedirect()]
        if self._config.url.startswith("https:"):
            context = tls_context(self._config.security())
            handlers.append(urllib.request.HTTPSHandler(context=context))
        return urllib.request.build_opener(*handlers)


def outcome_of(status: int, content: bytes, points: int) -> Outcome:
    """Return what an answer to so many points means."""
    if status == _WRITTEN:
        return Outcome(is_over=True)
    why = _said(status, content)
    if status not in _REFUSED:
        return Outcome(is_over=False, why=why)
    return Outcome(is_over=True, refused=min(_refused(status, why, points), points), why=why)


def _refused(status: int, why: str, points: int) -> int:
    """How many of the points it has not written, as far as it says so."""
    if status != 400:
        return points
    dropped = _DROPPED.search(why)  # without those that it can't read
    return max(1, why.count("unable to parse '") + (int(dropped[1]) if dropped else 0))


def _said(status: int, content: bytes) -> str:
    text = content.decode(errors="replace")
    try:
        fields = json.loads(text)
        text = str(fields["error"])
    except (ValueError, KeyError, TypeError):
        pass  # what stands before it may answer with a page
    return f"status {status}: {' '.join(text.split())}"


def _text(error: urllib.error.HTTPError) -> bytes:
    try:
        return error.read(ANSWER_BYTES_MAX)
    except (OSError, http.client.HTTPException):
        return b""
