"""A rolling switch by API: what `heliostat switch --rolling` does, with the same functions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, TypeVar

from fastapi import Body, FastAPI, Query, Request
from starlette.responses import Response

from heliostat.config import LinkConfig
from heliostat.errors import HeliostatError
from heliostat.names import LinkName
from heliostat.operate.crossing import Crossed, InLines, wait_until_crossed
from heliostat.operate.rolling import rolling_of
from heliostat.operate.source_writers import writers_of
from heliostat.operate.turning import Turned, turn_in_place
from heliostat.serve.admin_verbs import IdempotencyKey, require_admin, require_typed
from heliostat.serve.answers import LinkParameter
from heliostat.serve.guard import caller_of
from heliostat.serve.long_verbs import (
    WAIT_MAX_S,
    LongVerbs,
    Tell,
    WaitForEnd,
    answered,
    last_course,
)
from heliostat.serve.owner_verbs import FAILS, DryRun, Topic
from heliostat.serve.problems import documented
from heliostat.serve.questions import FROM_CLUSTERS, Asking
from heliostat.serve.rolling_messages import (
    CrossingCourse,
    CrossingOrder,
    CrossingOutcome,
    RollingView,
    TurnCourse,
    TurnOrder,
    TurnOutcome,
    WritersView,
)
from heliostat.serve.switch_messages import PlannedSwitch, SwitchOrder
from heliostat.serve.switch_routes import SWITCH_RESPONSES, Switches

ROLLING = "/api/v1/links/{link}/rolling"
NAMES_MAX = 5
"""Topics that an event names."""
OutcomeT = TypeVar("OutcomeT", Turned, Crossed)


def add_rolling(app: FastAPI, asking: Asking, switches: Switches) -> None:
    """Answer what is asked of rolling switches."""
    _add_looks(app, asking)
    _add_turn(app, asking)
    _add_wait(app, asking)

    @app.post(
        f"{ROLLING}/finish",
        operation_id="finish_rolling",
        response_model=PlannedSwitch,
        responses=SWITCH_RESPONSES,
    )
    def finish_rolling(
        *,
        request: Request,
        link: LinkParameter,
        body: Annotated[SwitchOrder | None, Body()] = None,
        dry_run: DryRun = False,
        idempotency_key: IdempotencyKey = None,
    ) -> Response:
        """End a rolling switch, as `heliostat switch --rolling --finish`; role admin.

        Its steps are those of a switch, and `GET /api/v1/links/{link}/run` tells how far it is. The
        link back rests, and ends first.
        """
        order = body or SwitchOrder(topics=[], accept=[])
        wish = order.wish(require_admin(request), finishes=True)
        return switches.answer(link, order, wish, dry_run=dry_run, key=idempotency_key)


def _add_looks(app: FastAPI, asking: Asking) -> None:
    config = asking.watch.config

    @app.get(
        ROLLING,
        operation_id="get_rolling",
        response_model=RollingView,
        responses=documented(404, *FROM_CLUSTERS),
    )
    def get_rolling(request: Request, link: LinkParameter) -> Response:
        """Return which topics of a link are merged, and which still are to be merged in place."""
        of = asking.link(link)
        ask = partial(rolling_of, config, of)
        return asking.answer(request, f"rolling {of.name}", ask, lambda rolling: rolling.to_json())

    @app.get(
        f"{ROLLING}/writers",
        operation_id="list_source_writers",
        response_model=WritersView,
        responses=documented(404, *FROM_CLUSTERS),
    )
    def list_source_writers(
        request: Request,
        link: LinkParameter,
        topic: Annotated[list[Topic] | None, Query(description="Only of these.")] = None,
    ) -> Response:
        """Return producers that have written merged topics at the source lately.

        As `heliostat switch --rolling --writers`: who has no producer id is never among them.
        """
        of, topics = asking.link(link), topic or []
        return asking.answer(
            request,
            f"writers {of.name} {' '.join(topics)}",
            partial(writers_of, config, of, topics),
            lambda writers: {"link": of.name, **writers.to_json()},
        )


def _in_events(
    asking: Asking, link: LinkConfig, by: str, what: str, carry_out: Callable[[], OutcomeT]
) -> OutcomeT:
    """Carry something out, and tell among the link's events who asked, and what it came to."""
    events = asking.watch.follower(LinkName(link.name)).events
    events.info(f"{what} is begun by {by}")
    try:
        outcome = carry_out()
    except HeliostatError as error:
        events.warn(f"{what}: {error.text}")
        raise
    events.info(f"{what} by {by}: {_words(outcome)}")
    return outcome


def _words(outcome: Turned | Crossed) -> str:
    if isinstance(outcome, Turned):
        return outcome.text()
    return "all has crossed" if outcome.is_whole else "not all has crossed"


def _add_turn(app: FastAPI, asking: Asking) -> None:
    verbs: LongVerbs[Turned] = LongVerbs(
        asking.watch.clock, lambda turned: "\n".join(turned.start_lines()), asking.under_way
    )

    @app.get(
        f"{ROLLING}/turn",
        operation_id="get_turn",
        response_model=TurnCourse,
        responses=documented(404),
    )
    def get_turn(link: LinkParameter) -> Response:
        """Return the turn, or the look at it, that this service was asked for last."""
        of = asking.link(link)
        return last_course(verbs, LinkName(of.name), f"merge mirrors of {of.name}")

    @app.post(
        f"{ROLLING}/turn",
        operation_id="turn_in_place",
        response_model=TurnOutcome,
        responses={
            202: {"description": "It is under way.", "model": TurnCourse},
            **documented(*FAILS),
        },
    )
    def turn(
        *,
        request: Request,
        link: LinkParameter,
        body: Annotated[TurnOrder | None, Body()] = None,
        dry_run: DryRun = False,
        wait_s: WaitForEnd = WAIT_MAX_S,
        idempotency_key: IdempotencyKey = None,
    ) -> Response:
        """Make mirrors merged topics, in place; role admin, and the link's name typed.

        As `heliostat switch --rolling`: there is no way back. Asked again it tells the same cuts.
        """
        of, order = asking.link(link), body or TurnOrder(topics=[])
        by = require_admin(request)
        require_typed(of.name, order, dry_run=dry_run)

        def carry_out(_: Tell) -> Turned:
            config = asking.watch.config
            verb = partial(turn_in_place, config, of, order.topics, by, dry_run=dry_run)
            if dry_run:
                return verb()
            turned = _in_events(asking, of, by, "merging in place", verb)
            asking.questions.forget(f"rolling {of.name}")
            return turned

        name = LinkName(of.name)
        begun = verbs.begin(
            name, carry_out, by=by, key=idempotency_key, asked=order, is_tried=dry_run
        )
        return answered(begun, wait_s, f"/api/v1/links/{of.name}/rolling/turn")


def _add_wait(app: FastAPI, asking: Asking) -> None:
    def report(crossed: Crossed) -> str:
        link = asking.link(crossed.link)
        return "\n".join(crossed.describe(link.source, link.target))

    verbs = LongVerbs(asking.watch.clock, report, asking.under_way)

    @app.get(
        f"{ROLLING}/wait",
        operation_id="get_wait",
        response_model=CrossingCourse,
        responses=documented(404),
    )
    def get_wait(link: LinkParameter) -> Response:
        """Return the waiting that this service was asked for last."""
        of = asking.link(link)
        return last_course(verbs, LinkName(of.name), f"wait for topics of {of.name}")

    @app.post(
        f"{ROLLING}/wait",
        operation_id="wait_until_crossed",
        response_model=CrossingOutcome,
        responses={
            202: {"description": "It is waited.", "model": CrossingCourse},
            **documented(*FAILS),
        },
    )
    def wait(
        *,
        request: Request,
        link: LinkParameter,
        body: Annotated[CrossingOrder, Body()],
        wait_s: WaitForEnd = WAIT_MAX_S,
        idempotency_key: IdempotencyKey = None,
    ) -> Response:
        """Wait until all that merged topics have at the source now is at the target; role operate.

        As `heliostat switch --rolling --wait`: whoever stopped before may go on at the target then.
        It changes nothing. One at a time for a link.
        """
        of, by = asking.link(link), caller_of(request)

        def carry_out(tell: Tell) -> Crossed:
            config, lines = asking.watch.config, InLines(tell, asking.watch.clock)
            verb = partial(wait_until_crossed, config, of, body.topics, body.within_s, lines)
            names = ", ".join(body.topics[:NAMES_MAX])
            return _in_events(asking, of, by, f"waiting until {names} has crossed", verb)

        begun = verbs.begin(
            LinkName(of.name), carry_out, by=by, key=idempotency_key, asked=body, is_tried=False
        )
        return answered(begun, wait_s, f"/api/v1/links/{of.name}/rolling/wait")
