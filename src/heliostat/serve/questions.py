"""Questions that clusters must answer: few at once, each asked once for all who wait for it.

Each opens connections of its own to both clusters, and may wait for one that is dead. So no more
than `AT_ONCE` run, their answers hold for `KEPT_S`, and who asks one more than that is told to come
again, instead of holding a thread that other answers need.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fastapi import Request
from starlette.exceptions import HTTPException
from starlette.responses import Response

from heliostat.clock import Clock
from heliostat.config import LinkConfig
from heliostat.ops.asked import NoAnswerYet, PendingAnswer
from heliostat.serve.bodies import Bodies
from heliostat.serve.pages import rows_page
from heliostat.serve.under_way import UnderWay
from heliostat.serve.watch import Watch

AT_ONCE = 4
WAITING_MAX = 16
"""Threads that wait for answers; a service has 40 for all that is asked."""
KEPT_S = 5.0
WITHIN_S = 30.0
AGAIN_S = 2
FROM_CLUSTERS = (409, 429, 503)
"""How such a question may fail."""


@dataclass(frozen=True, slots=True)
class Known:
    """An answer, and when it was given."""

    value: Any
    at_ms: int


class _Asked:
    """A question, and since when it is over."""

    def __init__(self, name: str, ask: Callable[[], Any], clock: Clock) -> None:
        self._ask = ask
        self._clock = clock
        self.over_at_s: float | None = None
        self.pending = PendingAnswer(self._run, name)

    def _run(self) -> Known:
        try:
            return Known(self._ask(), self._clock.wall_ms())
        finally:
            self.over_at_s = self._clock.monotonic_s()

    def is_kept(self, now_s: float) -> bool:
        """Whether it still runs, or was answered so lately that nobody asks again."""
        return self.over_at_s is None or now_s - self.over_at_s < KEPT_S


class Questions:
    """Answers by their key. Thread-safe."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._asked: dict[str, _Asked] = {}
        self._waiting = 0

    def get(self, key: str, ask: Callable[[], Any]) -> Known:
        """Return the answer under a key; asks if none is fresh and nobody has.

        Raises
        ------
        HTTPException
            Too much is asked (429), or there is no answer yet (503): who asks again may find it.
        HeliostatError
            What the question raised.
        """
        with self._lock:
            asked = self._asked_under(key, ask)
            if not asked.pending.is_over and self._waiting >= WAITING_MAX:
                raise _too_many()
            self._waiting += 1
        try:
            return asked.pending.answer(WITHIN_S)
        except NoAnswerYet:
            raise HTTPException(503, f"no answer within {WITHIN_S:g} s; ask again") from None
        finally:
            with self._lock:
                self._waiting -= 1

    def forget(self, beginning: str) -> None:
        """Ask anew what has such a key: something was changed that it is about."""
        with self._lock:
            kept = self._asked.items()
            self._asked = {
                key: asked
                for key, asked in kept
                if asked.over_at_s is None or not key.startswith(beginning)
            }

    def _asked_under(self, key: str, ask: Callable[[], Any]) -> _Asked:
        now_s = self._clock.monotonic_s()
        self._asked = {k: asked for k, asked in self._asked.items() if asked.is_kept(now_s)}
        if key in self._asked:
            return self._asked[key]
        if sum(asked.over_at_s is None for asked in self._asked.values()) >= AT_ONCE:
            raise _too_many()
        asked = self._asked[key] = _Asked(f"question {key}", ask, self._clock)
        return asked


def _too_many() -> HTTPException:
    text = f"{AT_ONCE} questions are asked of clusters already; ask again in {AGAIN_S} s"
    return HTTPException(429, text, headers={"Retry-After": str(AGAIN_S)})


class Asking:
    """What routes whose answers come from clusters share."""

    def __init__(self, watch: Watch, bodies: Bodies, under_way: UnderWay) -> None:
        self.watch = watch
        self.under_way = under_way
        self.questions = Questions(watch.clock)
        self._bodies = bodies

    def link(self, name: str) -> LinkConfig:
        """Return a link; 404 if there is none of that name."""
        try:
            return self.watch.config.link(name)
        except KeyError:
            names = ", ".join(self.watch.names)
            raise HTTPException(404, f"there is no link {name}; there are {names}") from None

    def answer(
        self, request: Request, key: str, ask: Callable[[], Any], shown: Callable[[Any], Any]
    ) -> Response:
        """Answer with what a question's answer is as JSON, and when that was so."""
        reply = self.questions.get(key, ask)

        def make() -> bytes:
            return json.dumps({**shown(reply.value), "as_of_ms": reply.at_ms}).encode()

        # The time is a part of the key: what was made of an older answer is not shown again.
        name = f"{reply.at_ms} {request.url.path}?{request.url.query}"
        return self._bodies.get(name, make).response(request, "application/json")


def page(
    value: dict[str, Any], field: str, key: Callable[[Any], str], after: str, limit: int
) -> dict[str, Any]:
    """Return an answer in which a list has become a page of it, with the next page's cursor."""
    rest = {name: content for name, content in value.items() if name != field}
    items, following = rows_page(value[field], key, after, limit)
    return {**rest, "items": items, "next": following}
