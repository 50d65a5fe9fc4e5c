"""Verbs that take long: carried out by a thread of the service, waited for or followed.

If the service ends meanwhile it is as if a command line was killed: whoever asks again goes on.
"""

from __future__ import annotations

import secrets
import threading
from collections import deque
from collections.abc import Callable
from typing import Annotated, Any, Generic, Literal, Protocol, TypeVar

from fastapi import Query
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from heliostat.clock import Clock
from heliostat.errors import HeliostatError
from heliostat.names import LinkName
from heliostat.operate.idempotency import KeyUsed
from heliostat.ops.asked import NoAnswerYet, PendingAnswer
from heliostat.serve.job_messages import JobProblem
from heliostat.serve.under_way import UnderWay

AT_ONCE = 2
TOLD_MAX = 50
"""Lines of what it has waited for: who waits an hour would tell thousands."""
WAIT_MAX_S = 600.0
WaitForEnd = Annotated[
    float,
    Query(
        ge=0,
        le=WAIT_MAX_S,
        description="Seconds to wait for its end; then 202, and GET tells how it goes on.",
    ),
]
Tell = Callable[[str], None]


class Outcome(Protocol):
    """What a verb came to."""

    def to_json(self) -> dict[str, Any]:
        """Return it."""
        ...


OutcomeT = TypeVar("OutcomeT", bound=Outcome)


class Course(BaseModel):
    """How far a verb that takes long is."""

    id: str
    """Empty: another process carried it out, and it is told by its rows at the target."""
    by: str
    is_tried: bool
    """Whether nothing is changed, as it was only asked what would be done."""
    state: Literal["running", "done", "failed"]
    told: list[str]
    """What it has waited for lately, the last one now."""
    started_ms: int
    ended_ms: int | None
    text: str
    """The report, once it is done."""
    problem: JobProblem | None
    """Why it has failed; whoever asks again goes on."""


class LongVerb(Generic[OutcomeT]):
    """One that is carried out.

    Parameters
    ----------
    text
        Makes a report of what it came to.
    by
        Who asks.
    key
        Another request with this key means this one; empty: none does.
    asked
        All that was asked of it.
    is_tried
        Whether it changes nothing.
    """

    def __init__(
        self,
        carry_out: Callable[[Tell], OutcomeT],
        text: Callable[[OutcomeT], str],
        clock: Clock,
        *,
        by: str,
        key: str,
        asked: object,
        is_tried: bool,
    ) -> None:
        self.id = secrets.token_hex(6)
        self.key = key
        self.asked = asked
        self.is_tried = is_tried
        self._by = by
        self._text = text
        self._clock = clock
        self._told: deque[str] = deque(maxlen=TOLD_MAX)
        self._started_ms = clock.wall_ms()
        self._ended_ms: int | None = None
        self._carry_out = carry_out
        self._pending = PendingAnswer(self._run, f"verb {self.id}")

    def _run(self) -> OutcomeT:
        try:
            return self._carry_out(self._told.append)
        finally:
            self._ended_ms = self._clock.wall_ms()

    @property
    def is_over(self) -> bool:
        """Whether it has ended, one way or another."""
        return self._pending.is_over

    def answer(self, within_s: float) -> OutcomeT | None:
        """Return what it came to, or raise what it raised; None: it still runs."""
        try:
            return self._pending.answer(within_s)
        except NoAnswerYet:
            return None

    def to_json(self) -> dict[str, Any]:
        """Return how far it is."""
        outcome, problem = None, None
        if self.is_over:
            try:
                outcome = self.answer(0)
            except HeliostatError as error:
                problem = {"code": error.code, "detail": error.text, "hint": error.hint or None}
            except Exception as error:  # noqa: BLE001 - it is told, as the service tells its own
                text = f"an error of the service itself ({type(error).__name__})"
                problem = {"code": "internal", "detail": text, "hint": None}
        state = "failed" if problem else "running" if outcome is None else "done"
        return {
            "id": self.id,
            "by": self._by,
            "is_tried": self.is_tried,
            "state": state,
            "told": list(self._told),
            "started_ms": self._started_ms,
            "ended_ms": self._ended_ms if state != "running" else None,
            "result": None if outcome is None else outcome.to_json(),
            "text": "" if outcome is None else self._text(outcome),
            "problem": problem,
        }


class LongVerbs(Generic[OutcomeT]):
    """Verbs of a kind: one at a time for a link, the last one kept. Thread-safe.

    Parameters
    ----------
    text
        Makes a report of what one came to.
    under_way
        Has each until it has ended.
    """

    def __init__(self, clock: Clock, text: Callable[[OutcomeT], str], under_way: UnderWay) -> None:
        self._text = text
        self._clock = clock
        self._under_way = under_way
        self._lock = threading.Lock()
        self._last: dict[LinkName, LongVerb[OutcomeT]] = {}

    def last(self, link: LinkName) -> LongVerb[OutcomeT] | None:
        """Return the one of a link that was begun last; None: there was none."""
        with self._lock:
            return self._last.get(link)

    def begin(
        self,
        link: LinkName,
        carry_out: Callable[[Tell], OutcomeT],
        *,
        by: str,
        key: str | None,
        asked: object,
        is_tried: bool,
    ) -> LongVerb[OutcomeT]:
        """Begin one, or return the one that was begun under this key.

        Parameters
        ----------
        asked
            All that was asked of it; under one key always the same.

        Raises
        ------
        KeyUsed
            Something else was asked under this key.
        HTTPException
            Another one of this link runs (409), or too many do (429).
        """
        with self._lock:
            last = self._last.get(link)
            if last is not None and key and (key, is_tried) == (last.key, last.is_tried):
                if asked != last.asked:
                    raise KeyUsed(f"another request was made under the key {key}")
                return last
            if last is not None and not last.is_over:
                raise HTTPException(409, f"another one of link {link} is under way already")
            if sum(not verb.is_over for verb in self._last.values()) >= AT_ONCE:
                text = f"{AT_ONCE} of them are under way already"
                raise HTTPException(429, text, headers={"Retry-After": "5"})
            begun = self._under_way.begin(
                lambda: LongVerb(
                    carry_out,
                    self._text,
                    self._clock,
                    by=by,
                    key=key or "",
                    asked=asked,
                    is_tried=is_tried,
                )
            )
            self._last[link] = begun
            return begun


def last_course(verbs: LongVerbs[Any], link: LinkName, what: str) -> Response:
    """Answer how far the verb of a link is that was begun last.

    Parameters
    ----------
    what
        What is to be asked for first, if nobody has: a verb, and of which link.
    """
    begun = verbs.last(link)
    if begun is None:
        raise HTTPException(404, f"nobody has asked this service to {what}")
    return JSONResponse(begun.to_json())


def answered(verb: LongVerb[OutcomeT], wait_s: float, place: str) -> Response:
    """Answer with what a verb came to, or with how far it is once the time is over."""
    outcome = verb.answer(wait_s)
    if outcome is None:
        return JSONResponse(verb.to_json(), 202, {"Location": place})
    return JSONResponse(outcome.to_json())
