"""Kafka Connect's API as an app of its own: its paths, its bodies, its errors."""

from __future__ import annotations

import threading
from collections.abc import Callable

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from heliostat.connect.positions import OffsetsRefused
from heliostat.errors import HeliostatError
from heliostat.operate.connectors import (
    ConnectorExists,
    Connectors,
    DeclaredElsewhere,
    Invalid,
    NoHome,
    NotStopped,
)
from heliostat.operate.shown_connectors import NoSuchConnector
from heliostat.serve.connect.answers import WORDS, Asked, ConnectError, bare_error, error_response
from heliostat.serve.connect.loggers import Loggers
from heliostat.serve.connect.plugin_routes import PluginRoutes
from heliostat.serve.connect.routes import ConnectRoutes, Handler
from heliostat.serve.guard import BODY_BYTES_MAX, CALLER

WAITING_MAX = 16
"""Requests that wait for clusters; a service has 40 threads for all that is asked."""
NOBODY = "connect"
"""Who asks where no tokens are needed."""


def connect_app(
    connectors: Connectors, loggers: Loggers, cluster_id: Callable[[], str] = str
) -> Starlette:
    """Return what answers at Connect's paths."""
    table = [
        *ConnectRoutes(connectors, cluster_id).table(),
        *PluginRoutes(connectors, loggers).table(),
    ]
    waiting = threading.BoundedSemaphore(WAITING_MAX)
    app = Starlette(
        routes=[
            Route(path, _endpoint(handler, waiting), methods=[method])
            for path, method, handler in table
        ],
        exception_handlers={HTTPException: _refused, Exception: _crashed},
    )
    app.router.redirect_slashes = False
    return app


async def _refused(_: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    return bare_error(status) if status in WORDS else error_response(status, str(error))


async def _crashed(_: Request, error: Exception) -> Response:
    return error_response(500, f"an error of the service itself ({type(error).__name__})")


def _endpoint(handler: Handler, waiting: threading.BoundedSemaphore) -> Callable[[Request], object]:
    async def endpoint(request: Request) -> Response:
        body = bytearray()
        async for chunk in request.stream():
            body += chunk
            if len(body) > BODY_BYTES_MAX:
                return error_response(413, f"a request has at most {BODY_BYTES_MAX} bytes")
        asked = Asked(
            request.path_params,
            {name: request.query_params.getlist(name) for name in request.query_params},
            bytes(body),
            str(request.base_url),
            request.scope.get(CALLER) or NOBODY,
        )
        return await run_in_threadpool(_bounded, handler, asked, waiting)

    return endpoint


def _bounded(handler: Handler, asked: Asked, waiting: threading.BoundedSemaphore) -> Response:
    if not waiting.acquire(blocking=False):
        return error_response(500, "Request timed out. The worker is currently busy: ask again")
    try:
        return answered(handler, asked)
    finally:
        waiting.release()


NOT_STOPPED = (
    "Connectors must be in the STOPPED state before their offsets can be modified. This can be "
    "done for the specified connector by issuing a 'PUT' request to the '/connectors/{name}/stop' "
    "endpoint"
)
DECLARED = (
    "link {text} is no connector's: it is declared in the configuration file, or was made by "
    "another API, and is changed there; pause, resume and restart work here"
)
TOLD: tuple[tuple[type[HeliostatError], int, str], ...] = (
    (Invalid, 400, "{text}"),
    (NoHome, 400, "{text}"),
    (DeclaredElsewhere, 403, DECLARED),
    (ConnectorExists, 409, "Connector {text} already exists"),
    (NotStopped, 400, NOT_STOPPED),
    (NoSuchConnector, 404, "Connector {text} not found"),
    (HeliostatError, 500, "{code}: {text}{hint}"),
)
"""Status and text of an error; the first that fits counts."""


def answered(handler: Handler, asked: Asked) -> Response:
    """Return what a handler answers, or what is wrong in Connect's words."""
    try:
        return handler(asked)
    except ConnectError as error:
        return error.response()
    except OffsetsRefused as error:
        return error_response(500, str(error))
    except HeliostatError as error:
        status, text = next((s, text) for kind, s, text in TOLD if isinstance(error, kind))
        named = {
            "code": error.code,
            "text": error.text,
            "hint": f"; {error.hint}" if error.hint else "",
            "name": asked.path.get("name", ""),
        }
        return error_response(status, text.format_map(named))
