"""Who may ask, and from where: what stands before every request.

On this machine's own address a browser is still another's tool: a page of any site may send it
here. So the name by which we are called must be ours (DNS rebinding), and what changes something
must come from our own page.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Collection, Iterable, MutableMapping
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from heliostat.serve.connect.answers import WORDS, bare_error, error_response
from heliostat.serve.connect.paths import accepts_page, is_connects
from heliostat.serve.problems import problem
from heliostat.serve.tokens import Role, Tokens

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
OPEN_PATHS = frozenset({"/livez", "/readyz"})
"""Asked by supervisors that have no token."""
JSON_TYPES = frozenset({"application/json", "application/merge-patch+json"})
BODY_BYTES_MAX = 1 << 20
PAGE_PATH, STATIC_PATHS = "/", "/static/"
"""The page itself holds nothing of the clusters; it asks for a token before it shows any."""


def content_policy(hashes: Iterable[str] = ()) -> str:
    """Return what a page may do, with the hashes of scripts that stand in the page itself."""
    scripts = " ".join(["'self'", *(f"'{digest}'" for digest in hashes)])
    return (
        f"default-src 'none'; script-src {scripts}; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; base-uri 'none'; frame-ancestors 'none'; form-action 'self'"
    )


SECURITY_HEADERS = {
    "Content-Security-Policy": content_policy(),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


CALLER, ROLE = "heliostat.caller", "heliostat.role"
"""Under these keys a request's scope has name and role of the token that was given."""


def caller_of(request: Request) -> str:
    """Return who asks; `api`, where no tokens are needed."""
    return str(request.scope.get(CALLER) or "api")


class Guard:
    """ASGI middleware.

    Parameters
    ----------
    app
        What answers.
    hosts
        Values of `Host` that are ours, with the port; None: any, as behind a proxy.
    tokens
        Tokens of those who may ask; None: everybody may.
    """

    def __init__(self, app: App, *, hosts: Collection[str] | None, tokens: Tokens | None) -> None:
        self._app = app
        self._hosts = None if hosts is None else frozenset(host.lower() for host in hosts)
        self._tokens = tokens

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refusal: Response | None = self._refusal(scope, Headers(scope=dict(scope)))

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        if refusal is not None:
            if is_connects(scope):
                refusal = _as_connect(refusal)
            await refusal(scope, receive, send_guarded)
        else:
            await self._app(scope, receive, send_guarded)

    def _refusal(self, scope: Scope, headers: Headers) -> JSONResponse | None:
        host = headers.get("host", "").lower()
        if self._hosts is not None and host not in self._hosts:
            return problem(
                421,
                f"this service is not called {host[:100]!r}",
                hint="add the name to service.host_names",
            )
        if scope["method"] not in SAFE and not _is_own(headers, host, scope["scheme"]):
            return problem(403, "a page of another site may not change anything here")
        if _length(headers) > BODY_BYTES_MAX:
            return problem(413, f"a request has at most {BODY_BYTES_MAX} bytes")
        if scope["method"] not in SAFE and not _is_json(headers):
            return problem(415, "what changes something is asked by JSON", hint="application/json")
        if self._tokens is None or _is_open(scope):
            return None
        return _refusal_of(self._tokens, scope, headers)


def _length(headers: Headers) -> int:
    """Return the length of the body; 0 if it is not known, as of one in chunks."""
    text = headers.get("content-length", "")
    return int(text) if text.isascii() and text.isdecimal() else 0


def _is_json(headers: Headers) -> bool:
    """Whether a body is one that no form of another site's page can send."""
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    has_body = _length(headers) > 0 or "transfer-encoding" in headers
    return kind in JSON_TYPES or (not has_body and not kind)


def _is_open(scope: Scope) -> bool:
    path = scope["path"]
    if path == PAGE_PATH:
        return accepts_page(scope)
    return path in OPEN_PATHS or path.startswith(STATIC_PATHS)


def _as_connect(refusal: Response) -> Response:
    """Return a refusal in the shape that Kafka Connect's clients read."""
    if refusal.status_code in WORDS:
        return bare_error(refusal.status_code)
    problem = json.loads(bytes(refusal.body))
    response = error_response(refusal.status_code, problem["detail"])
    if "www-authenticate" in refusal.headers:
        response.headers["WWW-Authenticate"] = refusal.headers["www-authenticate"]
    return response


def _refusal_of(tokens: Tokens, scope: Scope, headers: Headers) -> JSONResponse | None:
    """Return why a request without a token that allows it is refused; None: it is allowed.

    Then its scope names who asks.
    """
    caller = tokens.caller(headers.get("authorization", ""))
    if caller is None:
        return problem(
            401,
            "this service answers only those who give a token",
            hint="send Authorization: Bearer TOKEN, or the token as Basic's password",
            headers={"WWW-Authenticate": 'Bearer realm="heliostat"'},
        )
    if scope["method"] not in SAFE and caller.role < Role.OPERATE:
        return problem(403, f"the token of {caller.name} may only look")
    scope[CALLER], scope[ROLE] = caller.name, caller.role
    return None


def _is_own(headers: Headers, host: str, scheme: str) -> bool:
    """Whether a browser that sends it shows our own page, or none sends it."""
    origin = headers.get("origin")
    site = headers.get("sec-fetch-site", "none")
    return origin in (None, f"{scheme}://{host}") and site in ("same-origin", "none")
