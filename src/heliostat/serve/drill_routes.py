"""A drill by API: carried out by a thread of this service, which keeps a link's last report."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import Body, FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from heliostat.config import ConfigFile, LinkConfig
from heliostat.errors import HeliostatError
from heliostat.handover.drill import DrillWish
from heliostat.handover.drill_report import DrillReport, DrillStep
from heliostat.names import LinkName
from heliostat.operate.drill import clean_drills, drill, plan_drill
from heliostat.serve.admin_verbs import IdempotencyKey, repeats, require_admin, require_typed
from heliostat.serve.answers import LinkParameter
from heliostat.serve.drill_messages import DrillOrder, DrillView, PlannedDrill
from heliostat.serve.owner_verbs import FAILS, DryRun
from heliostat.serve.problems import documented
from heliostat.serve.questions import Asking
from heliostat.serve.watch import Watch

AT_ONCE_S = 2.0
"""What is refused at once is answered so."""


class Drilling:
    """A drill that this service carries out, on a thread of its own."""

    def __init__(
        self,
        watch: Watch,
        file: ConfigFile,
        link: LinkConfig,
        wish: DrillWish,
        *,
        cleans: bool,
        key: str,
    ) -> None:
        self._watch = watch
        self._file = file
        self._link = link
        self.wish: object = (wish, cleans)
        self.key = key
        self._wish = wish
        self._cleans = cleans
        self._steps: list[DrillStep] = []
        self._report: DrillReport | None = None
        self._cleaned: tuple[str, ...] = ()
        self.error: HeliostatError | None = None
        self._thread = threading.Thread(
            target=self._carry_out, name=f"drill of {link.name}", daemon=True
        )
        self._thread.start()

    @property
    def is_over(self) -> bool:
        """Whether it has ended, one way or another."""
        return not self._thread.is_alive()

    def wait(self, seconds: float) -> None:
        """Wait for its end."""
        self._thread.join(seconds)

    def to_json(self) -> dict[str, Any]:
        """Return how far it is."""
        report = self._report
        return {
            "link": self._link.name,
            "by": self._wish.by,
            "is_over": self.is_over,
            "steps": [step.to_json() for step in list(self._steps)],
            "report": None if report is None else report.to_json(),
            "cleaned": list(self._cleaned if report is None else report.cleaned),
            "error": "" if self.error is None else self.error.text,
        }

    def _carry_out(self) -> None:
        events = self._watch.follower(LinkName(self._link.name)).events
        try:
            if self._cleans:
                self._cleaned = clean_drills(self._file, self._link)
                events.info(f"drills that had crashed were cleaned: {len(self._cleaned)}")
                return
            report = drill(self._file, self._link, self._wish, self._steps.append)
            self._report, self._cleaned = report, report.cleaned
            events.info(f"drill: {report.verdict_text()}")
        except HeliostatError as error:
            self.error = error
            events.warn(f"drill: {error.text}")


def add_drill(app: FastAPI, asking: Asking, file: Callable[[], ConfigFile]) -> None:
    """Answer what is asked of drills."""
    drills: dict[LinkName, Drilling] = {}
    lock = threading.Lock()

    def begin(of: LinkConfig, wish: DrillWish, key: str, *, cleans: bool) -> Drilling:
        name = LinkName(of.name)
        with lock:
            last = drills.get(name)
            if last is not None and repeats(last, key, (wish, cleans)):
                return last
            if last is not None and not last.is_over:
                raise HTTPException(409, f"a drill of {of.name} is under way in this service")
            drills[name] = asking.under_way.begin(
                lambda: Drilling(asking.watch, file(), of, wish, cleans=cleans, key=key)
            )
            return drills[name]

    @app.post(
        "/api/v1/links/{link}/drill",
        operation_id="drill_link",
        response_model=PlannedDrill,
        responses={
            202: {"description": "It is begun; ask how far it is.", "model": DrillView},
            **documented(*FAILS, 422),
        },
    )
    def drill_link(
        *,
        request: Request,
        link: LinkParameter,
        body: Annotated[DrillOrder | None, Body()] = None,
        dry_run: DryRun = False,
        idempotency_key: IdempotencyKey = None,
    ) -> Response:
        """Rehearse a switch with made-up topics and groups, as `heliostat drill`; role admin.

        This service carries it out; `GET` of the same address tells how far it is, and its report.
        A dry run tells what would be made, and which rights are missing.
        """
        of, order = asking.link(link), body or DrillOrder()
        wish = order.wish(require_admin(request))
        require_typed(of.name, order, dry_run=dry_run)
        if dry_run:
            return JSONResponse(plan_drill(file(), of, wish).to_json())
        begun = begin(of, wish, idempotency_key or "", cleans=order.clean)
        begun.wait(AT_ONCE_S)
        if begun.error is not None:
            raise begun.error
        place = f"/api/v1/links/{of.name}/drill"
        return JSONResponse(begun.to_json(), 202, {"Location": place})

    @app.get(
        "/api/v1/links/{link}/drill",
        operation_id="get_drill",
        response_model=DrillView,
        responses=documented(404, 429, 503),
    )
    def get_drill(link: LinkParameter) -> Response:
        """Return how far the link's drill is, or how the last one of this service ended."""
        of = asking.link(link)
        begun = drills.get(LinkName(of.name))
        if begun is None:
            raise HTTPException(404, f"this service has carried out no drill of {of.name}")
        return JSONResponse(begun.to_json())
