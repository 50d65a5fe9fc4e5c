"""The page's files: read once, so that a request can only name one of them, and never a path."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

from fastapi import FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response

from heliostat.serve.bodies import Body
from heliostat.serve.guard import content_policy

FOLDER = Path(__file__).parent.parent / "page" / "static"
PAGE = "index.html"
MEDIA_TYPES: Mapping[str, str] = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".mjs": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
INLINE_SCRIPT = re.compile(rb"<script(?![^>]*\ssrc=)[^>]*>(.*?)</script>", re.DOTALL)


def files_below(folder: Path) -> dict[str, Body]:
    """Return all files that may be asked for, by their path below a folder."""
    return {
        path.relative_to(folder).as_posix(): Body(path.read_bytes())
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix in MEDIA_TYPES
    }


def inline_hashes(html: bytes) -> list[str]:
    """Return what a content policy needs to allow the scripts that stand in a page itself."""
    digests = (hashlib.sha256(script).digest() for script in INLINE_SCRIPT.findall(html))
    return [f"sha256-{base64.b64encode(digest).decode()}" for digest in digests]


def add_page(app: FastAPI, folder: Path = FOLDER) -> None:
    """Answer `/` for browsers, and the page's files below `/static/`."""
    files = files_below(folder)
    page = files[PAGE]
    policy = content_policy(inline_hashes(page.plain))

    @app.api_route("/", methods=["GET", "HEAD"], include_in_schema=False)
    async def show_page(request: Request) -> Response:
        """Return the page to who accepts it."""
        if "text/html" not in request.headers.get("accept", ""):
            raise HTTPException(404, "here is the page, for browsers; the API is at /api/v1")
        response = _file(request, page, PAGE)
        response.headers["Content-Security-Policy"] = policy
        response.headers["Vary"] = "Accept, Accept-Encoding"
        return response

    @app.api_route("/static/{name:path}", methods=["GET", "HEAD"], include_in_schema=False)
    async def show_file(request: Request, name: str) -> Response:
        """Return one of the page's files."""
        if name not in files or name == PAGE:
            raise HTTPException(404, "the page has no such file")
        return _file(request, files[name], name)


def _file(request: Request, body: Body, name: str) -> Response:
    return body.response(request, MEDIA_TYPES[Path(name).suffix], Cache_Control="no-cache")
