"""A stand-in for Chronograf's API of dashboards: no Chronograf can be had where tests run.

It holds what its source has (`server/dashboards.go`, `server/cells.go`): ids are its own, answers
have links, a query's own reading and each axis; POST answers 201, PUT 200, an unknown id 404, and
what is no JSON 400, with `code` and `message`.
"""

from __future__ import annotations

import json
import re
import threading
from copy import deepcopy
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from typing_extensions import override

from heliostat_sandbox.ports import LOOPBACK

PATH = "/chronograf/v1/dashboards"
AXES = ("x", "y", "y2")


class Chronograf:
    """One site's, with its dashboards; ends with its `with` block.

    Parameters
    ----------
    authorization
        The header that it wants; none by default.
    """

    def __init__(self, authorization: str = "") -> None:
        self.authorization = authorization
        self.boards: dict[int, dict[str, Any]] = {}
        self.asked: list[str] = []
        """Method and path of each request."""
        self._server = ThreadingHTTPServer((LOOPBACK, 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://{LOOPBACK}:{self._server.server_port}"

    def add(self, board: dict[str, Any]) -> int:
        """Keep a dashboard under an id of its own."""
        number = max(self.boards, default=0) + 1
        self.put(number, board)
        return number

    def put(self, number: int, board: dict[str, Any]) -> None:
        """Keep a dashboard under an id; what Chronograf has no field for is not kept."""
        cells = [{**deepcopy(cell), "i": f"{number}-{n}"} for n, cell in enumerate(board["cells"])]
        templates = [
            {**deepcopy(template), "id": f"t{n}"}
            for n, template in enumerate(board.get("templates") or ())
        ]
        self.boards[number] = {"name": board["name"], "cells": cells, "templates": templates}

    def shown(self, number: int) -> dict[str, Any]:
        """Return a dashboard as it answers."""
        board = deepcopy(self.boards[number])
        for cell in board["cells"]:
            own = cell.get("axes") or {}
            cell["axes"] = {axis: own.get(axis, {"bounds": ["", ""]}) for axis in AXES}
            cell["links"] = {"self": f"{PATH}/{number}/cells/{cell['i']}"}
            cell["noteVisibility"] = cell.get("noteVisibility") or "default"
            for query in cell["queries"]:
                query["queryConfig"] = {"rawText": query["query"], "tags": {}}
        links = {"self": f"{PATH}/{number}", "cells": f"{PATH}/{number}/cells"}
        return {"id": number, **board, "organization": "default", "links": links}


def _handler(site: Chronograf) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def _serve(self) -> None:
            site.asked.append(f"{self.command} {self.path}")
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if self.headers.get("Authorization", "") != site.authorization:
                said = (
                    f"who is {self.headers.get('Authorization')}?"  # a careless server repeats it
                )
                self._reply(401, {"code": 401, "message": said})
                return
            try:
                board = json.loads(body) if body else {}
            except ValueError:
                self._reply(400, {"code": 400, "message": "Unparsable JSON"})
                return
            match = re.fullmatch(rf"{PATH}(?:/(\d+))?", self.path)
            number = int(match[1]) if match and match[1] else None
            if match is None or (number is not None and number not in site.boards):
                self._reply(404, {"code": 404, "message": f"ID {number} not found"})
            elif self.command == "GET" and number is None:
                self._reply(200, {"dashboards": [site.shown(board_id) for board_id in site.boards]})
            elif self.command == "POST":
                self._reply(201, site.shown(site.add(board)))
            elif self.command == "PUT" and number is not None:
                site.put(number, board)
                self._reply(200, site.shown(number))
            else:
                self._reply(405, {"code": 405, "message": "Method Not Allowed"})

        do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = _serve  # noqa: N815  # the base class's

        def _reply(self, status: int, answer: dict[str, Any]) -> None:
            content = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        @override
        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    return Handler
