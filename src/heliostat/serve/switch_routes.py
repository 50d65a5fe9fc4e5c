"""Switches by API, planned or the finish of a rolling one: by a thread, followed by their row."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

from fastapi import Body, FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from heliostat.config import LinkConfig
from heliostat.errors import HeliostatError
from heliostat.handover.run import Run
from heliostat.handover.run_report import ended_words, markdown
from heliostat.names import LinkName
from heliostat.operate.switch import SwitchWish, last_run, plan_switch, switch
from heliostat.serve.admin_verbs import IdempotencyKey, repeats, require_admin, require_typed
from heliostat.serve.answers import LinkParameter
from heliostat.serve.compared_by_job import ComparedByJob
from heliostat.serve.jobs import Jobs
from heliostat.serve.owner_verbs import FAILS, DryRun, Responses
from heliostat.serve.problems import documented
from heliostat.serve.questions import Asking
from heliostat.serve.switch_messages import PlannedSwitch, RunView, SwitchOrder
from heliostat.serve.watch import Watch

BEGINS_WITHIN_S = 25.0
"""One that was left behind is waited for some seconds, as another process may carry it out."""


class Switching:
    """A switch that this service carries out, on a thread of its own."""

    def __init__(
        self,
        watch: Watch,
        link: LinkConfig,
        wish: SwitchWish,
        key: str,
        compare: ComparedByJob,
        *,
        ended: Callable[[], None],
    ) -> None:
        self._watch = watch
        self._ended = ended
        self._compare = compare
        self._link = link
        self.wish: object = wish
        self.key = key
        self._wish = wish
        self._begun = threading.Event()
        self.run: Run | None = None
        self.error: HeliostatError | None = None
        self._thread = threading.Thread(
            target=self._carry_out, name=f"switch of {link.name}", daemon=True
        )
        self._thread.start()

    @property
    def is_over(self) -> bool:
        """Whether it has ended, one way or another."""
        return not self._thread.is_alive()

    def wait_begun(self) -> None:
        """Wait until its first row is written, or it is refused."""
        self._begun.wait(BEGINS_WITHIN_S)

    def _carry_out(self) -> None:
        events = self._watch.follower(LinkName(self._link.name)).events
        try:
            config = self._watch.config
            run = switch(config, self._link, self._wish, self._note, self._compare)
            events.info(ended_words(run))
        except HeliostatError as error:
            self.error = error
            events.warn(f"switch: {error.text}; call it again to go on, or with back")
        finally:
            self._ended()
            self._begun.set()

    def _note(self, run: Run) -> None:
        self.run = run
        self._begun.set()


def _view(run: Run, link: LinkConfig, *, is_carried_out: bool = False) -> dict[str, Any]:
    more = {"is_carried_out": is_carried_out, "may_go_back": run.may_go_back}
    return {**run.to_json(), "text": markdown(run, link.name), **more}


class Switches:
    """Those that this service was asked for last. Thread-safe."""

    def __init__(self, asking: Asking, jobs: Jobs) -> None:
        self._asking = asking
        self._jobs = jobs
        self._last: dict[LinkName, Switching] = {}
        self._lock = threading.Lock()

    def begin(self, link: LinkConfig, wish: SwitchWish, key: str) -> Switching | None:
        """Return it, begun; None: this service carries another one out already."""
        name = LinkName(link.name)
        with self._lock:
            last = self._last.get(name)
            if repeats(last, key, wish):
                return last
            if last is not None and not last.is_over:
                return None
            compare = ComparedByJob(self._jobs, name, wish.by)
            ended = partial(self._asking.questions.forget, f"run {name}")
            begun = self._last[name] = self._asking.under_way.begin(
                lambda: Switching(self._asking.watch, link, wish, key, compare, ended=ended)
            )
        begun.wait_begun()
        return begun

    def answer(
        self, name: str, order: SwitchOrder, wish: SwitchWish, *, dry_run: bool, key: str | None
    ) -> Response:
        """Begin or only plan a switch, or the finish of a rolling one, and answer who asks."""
        link = self._asking.link(name)
        if dry_run:
            return JSONResponse(plan_switch(self._asking.watch.config, link, wish).to_json())
        require_typed(link.name, order, dry_run=dry_run)
        begun = self.begin(link, wish, key or "")
        if begun is None:
            raise HTTPException(409, f"a switch of {link.name} is under way in this service")
        if begun.run is None:
            raise begun.error or HTTPException(503, "the switch has not begun yet; look at its run")
        view = _view(begun.run, link, is_carried_out=not begun.is_over)
        return JSONResponse(view, 202, {"Location": f"/api/v1/links/{link.name}/run"})

    def last(self, link: LinkConfig) -> Switching | None:
        """Return the one of a link that was begun last; None: there was none."""
        with self._lock:
            return self._last.get(LinkName(link.name))


SWITCH_RESPONSES: Responses = {
    202: {"description": "It is begun; follow its row.", "model": RunView},
    **documented(*FAILS),
}


def add_switch(app: FastAPI, asking: Asking, switches: Switches) -> None:
    """Answer what is asked of switches and runs."""

    @app.post(
        "/api/v1/links/{link}/switch",
        operation_id="switch_link",
        response_model=PlannedSwitch,
        responses=SWITCH_RESPONSES,
    )
    def switch_link(
        *,
        request: Request,
        link: LinkParameter,
        body: Annotated[SwitchOrder | None, Body()] = None,
        dry_run: DryRun = False,
        idempotency_key: IdempotencyKey = None,
    ) -> Response:
        """Move producers and consumers to the target, as `heliostat switch`; role admin.

        It is carried out in steps by this service; `GET /api/v1/links/{link}/run` tells how far it
        is. A dry run tells what would happen, and all that is in the way.
        """
        order = body or SwitchOrder(topics=[], accept=[])
        wish = order.wish(require_admin(request))
        return switches.answer(link, order, wish, dry_run=dry_run, key=idempotency_key)

    @app.get(
        "/api/v1/links/{link}/run",
        operation_id="get_run",
        response_model=RunView,
        responses=documented(404, 429, 503),
    )
    def get_run(link: LinkParameter) -> Response:
        """Return the link's last switch, or finish of a rolling one, by its row on the target."""
        of = asking.link(link)
        own = switches.last(of)
        if own is not None and own.run is not None and not own.is_over:
            return JSONResponse(_view(own.run, of, is_carried_out=True))
        reply = asking.questions.get(f"run {of.name}", partial(last_run, asking.watch.config, of))
        if reply.value is None:
            raise HTTPException(404, f"link {of.name} was never switched")
        return JSONResponse(_view(reply.value, of))
