"""Serves a registry double over real HTTP, with the troubles that a test asks for."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qsl, unquote, urlsplit

from support.registry_double import ALL_CONTEXTS, RegistryDouble, RegistryRefusal
from typing_extensions import override

from heliostat_sandbox.ports import LOOPBACK

CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"


@dataclass(frozen=True)
class Asked:
    """A request as it arrived: nothing in its target is decoded."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True)
class Reply:
    """What is sent back; without a status the connection is closed."""

    status: int | None
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    silence_s: float = 0.0
    """Before the first byte."""
    drip_s: float = 0.0
    """Between two bytes of the body."""
    announced_bytes: int | None = None
    """Length that the header claims, if not the body's."""


Trouble = Callable[[Asked], Reply | None]
"""A reply in the registry's place; None lets the registry answer."""


class RegistryServer:
    """A double behind a free port of loopback; ends with its `with` block.

    Parameters
    ----------
    double
        Who answers.
    path
        Path of the API.
    tls
        For `https`.
    """

    def __init__(
        self,
        double: RegistryDouble | None = None,
        *,
        path: str = "",
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.double = double or RegistryDouble()
        self.asked: list[Asked] = []
        self.troubles: list[Trouble] = []
        """Asked in turn; the first with a reply counts."""
        self.connections = 0
        self._path = path
        self._lock = threading.Lock()
        self._ending = threading.Event()
        self._server = _Server((LOOPBACK, 0), _handler(self))
        self._scheme = "https" if tls else "http"
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    @property
    def url(self) -> str:
        """Address of the API."""
        port = self._server.socket.getsockname()[1]
        return f"{self._scheme}://{LOOPBACK}:{port}{self._path}"

    def once(self, *replies: Reply) -> None:
        """Give these replies to the next requests, one each."""
        left = list(replies)
        self.troubles.append(lambda _: left.pop(0) if left else None)

    def reply_to(self, asked: Asked) -> Reply:
        """Answer one request."""
        with self._lock:
            self.asked.append(asked)
            for trouble in self.troubles:
                reply = trouble(asked)
                if reply is not None:
                    return reply
            return answer(self.double, asked, self._path)

    def wait(self, seconds: float) -> None:
        """Be silent, but not beyond the server's end."""
        self._ending.wait(seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ending.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    @override
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: clients that go away are what tests want."""


def _handler(server: RegistryServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 60.0
        disable_nagle_algorithm = True

        @override
        def setup(self) -> None:
            super().setup()
            server.connections += 1

        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            asked = Asked(self.command, self.path, dict(self.headers.items()), body)
            reply = server.reply_to(asked)
            server.wait(reply.silence_s)
            if reply.status is None:
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            self.send_response(reply.status)
            headers = {"Content-Type": CONTENT_TYPE, **reply.headers}
            announced = len(reply.body) if reply.announced_bytes is None else reply.announced_bytes
            for name, value in {**headers, "Content-Length": str(announced)}.items():
                self.send_header(name, value)
            self.end_headers()
            if reply.drip_s:
                for byte in reply.body:
                    self.wfile.write(bytes([byte]))
                    server.wait(reply.drip_s)
            else:
                self.wfile.write(reply.body)
            if announced != len(reply.body):
                self.close_connection = True

        do_GET = do_POST = do_PUT = do_DELETE = _serve  # noqa: N815  # names of the base class

        @override
        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    return Handler


def answer(double: RegistryDouble, asked: Asked, path: str = "") -> Reply:
    """What the double answers to a request, as HTTP has it."""
    parts = urlsplit(asked.target)
    if not parts.path.startswith(path):
        return _error(404, "HTTP 404 Not Found")
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    names = [unquote(part) for part in parts.path.removeprefix(path).strip("/").split("/")]
    names, query = _in_context(names, query)
    try:
        body = json.loads(asked.body) if asked.body else {}
        found = _route(double, asked.method, names, query, body)
    except RegistryRefusal as refusal:
        return _error(refusal.code, refusal.message)
    return Reply(200, json.dumps(found).encode())


def _error(code: int, message: str) -> Reply:
    status = code if code < 1000 else code // 100
    return Reply(status, json.dumps({"error_code": code, "message": message}).encode())


def _in_context(names: list[str], query: dict[str, str]) -> tuple[list[str], dict[str, str]]:
    """Put the context of `/contexts/.name/...` before the subject (class `ContextFilter`)."""
    if names[0] != "contexts" or len(names) < 3:
        return names, query
    context, names = f":{names[1].strip(':')}:", names[2:]
    if context == ":.:":
        context = ""
    if names[0] in ("subjects", "config", "mode") and len(names) > 1:
        if not names[1].startswith(":"):
            names = [names[0], context + names[1], *names[2:]]
    elif names[0] in ("config", "mode") and context:
        names = [names[0], context]
    elif names[0] in ("subjects", "schemas") and len(names) == 1:
        query = {**query, "subjectPrefix": context + query.get("subjectPrefix", "")}
    elif names[:2] == ["schemas", "ids"]:
        query = {**query, "subject": context + query.get("subject", "")}
    return names, query


def _route(  # noqa: PLR0911  # one row for each request
    double: RegistryDouble, method: str, names: list[str], query: dict[str, str], body: Any
) -> Any:
    deleted, permanent = query.get("deleted") == "true", query.get("permanent") == "true"
    inherited, force = query.get("defaultToGlobal") == "true", query.get("force") == "true"
    match method, *names:
        case "GET", "contexts":
            return [".", *(name for name in double.contexts if name != ".")]
        case "GET", "schemas":
            offset = int(query.get("offset", "0"))
            return double.page(query.get("subjectPrefix", ""), offset, deleted=deleted)
        case "GET", "subjects":
            return double.names(query.get("subjectPrefix", ALL_CONTEXTS), deleted=deleted)
        case "GET", "subjects", subject, "versions":
            return double.versions(subject, deleted=deleted)
        case "GET", "subjects", subject, "versions", version:
            return double.version(subject, version, deleted=deleted)
        case "POST", "subjects", subject, "versions":
            return double.register(subject, body)
        case "POST", "subjects", subject:
            return double.look_up(subject, body, deleted=deleted)
        case "DELETE", "subjects", subject:
            return double.delete_subject(subject, permanent=permanent)
        case "DELETE", "subjects", subject, "versions", version:
            return double.delete_version(subject, version, permanent=permanent)
        case "GET", "schemas", "ids", schema_id if schema_id.isdigit():
            return double.by_id(int(schema_id), query.get("subject"))
        case "GET", "schemas", "guids", guid:
            return double.by_guid(guid)
        case "GET", "schemas", "ids", schema_id, "versions" if schema_id.isdigit():
            return double.versions_of_id(int(schema_id), query.get("subject"), deleted=deleted)
        case "POST", "compatibility", "subjects", subject, "versions", "latest":
            return {"is_compatible": double.is_compatible(subject, body)}
        case "GET", "config", *scope:
            return {"compatibilityLevel": double.level(_scope(scope), inherited=inherited)}
        case "PUT", "config", *scope:
            return {"compatibility": double.set_level(_scope(scope), body["compatibility"])}
        case "DELETE", "config", *scope:
            return {"compatibilityLevel": double.clear_level(_scope(scope))}
        case "GET", "mode", *scope:
            return {"mode": double.mode(_scope(scope), inherited=inherited)}
        case "PUT", "mode", *scope:
            return {"mode": double.set_mode(_scope(scope), body["mode"], force=force)}
        case "DELETE", "mode", *scope:
            return {"mode": double.clear_mode(_scope(scope))}
        case _:
            raise RegistryRefusal(404, "HTTP 404 Not Found")


def _scope(names: list[str]) -> str | None:
    """The subject or context of a setting; None for the registry's own."""
    return names[0] if names and names[0] not in ("", ":.:") else None
