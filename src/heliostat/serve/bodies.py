"""Bytes of answers, made once a second or change for all who ask, and how they are sent."""

from __future__ import annotations

import gzip
import hashlib
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from starlette.requests import Request
from starlette.responses import Response

from heliostat.clock import Clock

FRESH_S = 1.0
"""Answers are at most so old."""
GZIP_LEVEL = 1
"""The least processor time: such text becomes a thirtieth all the same."""


class Body:
    """Bytes of an answer, made once for all who ask within a second."""

    def __init__(self, plain: bytes) -> None:
        self.plain = plain

    @cached_property
    def compressed(self) -> bytes:
        """The same by gzip."""
        return gzip.compress(self.plain, GZIP_LEVEL, mtime=0)

    @cached_property
    def etag(self) -> str:
        """Strong entity tag."""
        return f'"{hashlib.sha256(self.plain).hexdigest()[:24]}"'

    def response(self, request: Request, media_type: str, **more: str) -> Response:
        """Return it as was asked: compressed or not, or only its tag if that is known.

        Parameters
        ----------
        more
            Further headers, with `_` for `-`.
        """
        headers = {name.replace("_", "-"): value for name, value in more.items()}
        headers |= {"ETag": self.etag, "Vary": "Accept-Encoding"}
        if request.headers.get("if-none-match") == self.etag:
            return Response(status_code=304, headers=headers)
        if "gzip" in request.headers.get("accept-encoding", ""):
            headers["Content-Encoding"] = "gzip"
            return Response(self.compressed, headers=headers, media_type=media_type)
        return Response(self.plain, headers=headers, media_type=media_type)


@dataclass(slots=True)
class _Made:
    at_s: float
    change: object
    body: Body

    def is_fresh(self, now_s: float, change: object) -> bool:
        """Whether it may be given again."""
        return now_s - self.at_s < FRESH_S and change == self.change


class Bodies:
    """Answers by their key, each made once a second, or once something has changed. Thread-safe.

    Parameters
    ----------
    clock
        The clock.
    changes
        Returns something that is another one once anything has changed that is to be seen at once.
    """

    def __init__(self, clock: Clock, changes: Callable[[], object] = lambda: 0) -> None:
        self._clock = clock
        self._changes = changes
        self._made: dict[str, _Made] = {}
        self._lock = threading.Lock()

    def get(self, key: str, make: Callable[[], bytes]) -> Body:
        """Return the answer under that key."""
        with self._lock:
            now_s, change = self._clock.monotonic_s(), self._changes()
            made = self._made.get(key)
            if made is None or not made.is_fresh(now_s, change):
                self._made = {k: m for k, m in self._made.items() if m.is_fresh(now_s, change)}
                made = self._made[key] = _Made(now_s, change, Body(make()))
            return made.body
