"""Which requests are Kafka Connect's: its own paths, on the port of page and API."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from starlette.datastructures import Headers
from starlette.responses import HTMLResponse
from starlette.types import ASGIApp, Receive, Scope, Send

ROOT = "/"
AMBIGUOUS = "<h1>400 Ambiguous URI path separator</h1>"
"""Of a name with a slash in it."""
PATHS = ("/connectors", "/connector-plugins", "/admin/loggers", "/health")


def is_connects(scope: MutableMapping[str, Any]) -> bool:
    """Whether a request is Connect's; `/` is the page for who accepts one."""
    path = scope["path"].rstrip("/")
    if not path:
        return not accepts_page(scope)
    return any(path == prefix or path.startswith(f"{prefix}/") for prefix in PATHS)


def accepts_page(scope: MutableMapping[str, Any]) -> bool:
    """Whether the answer may be a page."""
    return "text/html" in Headers(scope=dict(scope)).get("accept", "")


class ConnectPaths:
    """ASGI middleware: what is Connect's goes to another app, all else on to the next.

    A slash at a path's end makes no difference there.
    """

    def __init__(self, app: ASGIApp, connect: ASGIApp) -> None:
        self._app = app
        self._connect = connect

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] != "http" or not is_connects(scope):
            await self._app(scope, receive, send)
            return
        if b"%2f" in scope.get("raw_path", b"").lower():
            await HTMLResponse(AMBIGUOUS, 400)(scope, receive, send)
            return
        scope["path"] = scope["path"].rstrip("/") or ROOT
        await self._connect(scope, receive, send)
