"""OAUTHBEARER tokens from a token endpoint: the client credentials grant of RFC 6749, section 4.4.

A token is kept in this process until it has almost expired, since each of a task's
connections needs one.
"""

from __future__ import annotations

import http.client
import json
import ssl
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass

from typing_extensions import override

from heliostat.access import TokenEndpoint
from heliostat.errors import CredentialsUnreadable, TokenRefused

ANSWER_TIMEOUT_S = 10.0
ANSWER_BYTES_MAX = 1024 * 1024
"""Limit of an endpoint's answer: a token has a few KiB."""
LIFE_USED_PART = 0.8
"""A new token is requested after this part of its lifetime, so that none expires in use."""


@dataclass(frozen=True, slots=True)
class _Kept:
    token: str
    until_s: float


_kept: dict[TokenEndpoint, _Kept] = {}
_lock = threading.Lock()


def fetch(endpoint: TokenEndpoint, secret: Callable[[], str]) -> str:
    """A token that is still valid, from memory or from the endpoint.

    Raises
    ------
    TokenRefused
        The endpoint can't be reached, refuses, or returns no token.
    """
    with _lock:
        kept = _kept.get(endpoint)
        if kept is None or time.monotonic() >= kept.until_s:
            kept = _kept[endpoint] = _ask(endpoint, secret())
        return kept.token


def forget(endpoint: TokenEndpoint) -> None:
    """Drop a kept token, after a broker has refused it."""
    with _lock:
        _kept.pop(endpoint, None)


def _ask(endpoint: TokenEndpoint, secret: str) -> _Kept:
    form = {"grant_type": "client_credentials"} | (
        {"scope": endpoint.scope} if endpoint.scope else {}
    )
    quote = urllib.parse.quote_plus  # both parts are form-encoded first (RFC 6749 section 2.3.1)
    who = b64encode(f"{quote(endpoint.client_id)}:{quote(secret)}".encode()).decode()
    request = urllib.request.Request(  # noqa: S310  # http and https only, config checks it
        endpoint.url,
        urllib.parse.urlencode(form).encode(),
        {"Authorization": f"Basic {who}", "Accept": "application/json"},
    )
    asked_s = time.monotonic()
    try:
        over_tls = urllib.request.HTTPSHandler(context=_context(endpoint))
        opener = urllib.request.build_opener(proxies(), NoRedirect(), over_tls)
        with opener.open(request, timeout=ANSWER_TIMEOUT_S) as answer:
            fields = json.loads(answer.read(ANSWER_BYTES_MAX))
        token, lasts_s = str(fields["access_token"]), float(fields.get("expires_in", 0))
    except urllib.error.HTTPError as error:
        error.close()
        raise _refused("refuses", endpoint, f"status {error.code}") from None
    except OSError as error:
        why = str(getattr(error, "reason", error))
        raise _refused("can't be reached", endpoint, why) from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise _refused("returns no token", endpoint, "") from None
    except http.client.HTTPException as error:  # a listener of another protocol
        raise _refused("doesn't speak HTTP", endpoint, type(error).__name__) from None
    return _Kept(token, asked_s + lasts_s * LIFE_USED_PART)


def _refused(what: str, endpoint: TokenEndpoint, why: str) -> TokenRefused:
    return TokenRefused(f"the token endpoint {what}", at=endpoint.url, why=why)


def proxies() -> urllib.request.ProxyHandler:
    """The environment's proxies, for TLS only: others could read the secret."""
    urls = urllib.request.getproxies()
    return urllib.request.ProxyHandler({"https": urls["https"]} if "https" in urls else {})


class NoRedirect(urllib.request.HTTPRedirectHandler):
    """The secret goes to the configured address only."""

    @override
    def redirect_request(self, *_: object) -> None:
        return None


def _context(endpoint: TokenEndpoint) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=endpoint.ca_file or None)
    except OSError as error:
        why = error.strerror or "it holds no certificate"
        raise CredentialsUnreadable(
            f"a file for TLS can't be used: {why}", file=endpoint.ca_file
        ) from None
