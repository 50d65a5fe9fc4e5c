"""Links by API: made, changed and deleted on the home, by generation and never twice.

A definition's ETag is its generation; what changes it says which one it means (`If-Match`).
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import Annotated, Any, Literal

from fastapi import Body, FastAPI, Header, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from heliostat.config import ConfigFile
from heliostat.errors import ConfigError
from heliostat.operate.link_definitions import (
    WHY_CHARS_MAX,
    Asker,
    DefinitionAnswer,
    LinkDefinition,
    NameRefused,
    NoSuchLink,
    Origin,
    StaleGeneration,
    change_link,
    create_link,
    definition_of,
    list_definitions,
)
from heliostat.operate.link_removal import Removal, delete_link
from heliostat.serve.answers import LinkParameter
from heliostat.serve.guard import caller_of
from heliostat.serve.problems import documented, problem
from heliostat.serve.questions import AT_ONCE
from heliostat.serve.watch import Watch

MERGE_PATCH = "application/merge-patch+json"
KEY_CHARS_MAX = 200
FAILS = (403, 404, 409, 413, 415, 429, 503)
CONDITIONAL = (*FAILS, 412, 428)
DryRun = Annotated[bool, Query(description="Only tell what would change.")]
IfMatch = Annotated[
    str | None,
    Header(description="ETag of the definition that is meant; `*`: whichever it is. Required."),
]
Why = Annotated[str, Field(max_length=WHY_CHARS_MAX)]
Content = Annotated[
    dict[str, Any],
    Field(description="What `links:` of the configuration would have, without the name."),
]


class LinkChange(BaseModel):
    """A definition, or the fields of it that change (RFC 7396), and why."""

    model_config = ConfigDict(extra="forbid")

    content: Content
    why: Why = ""


class NewLink(LinkChange):
    """A new link."""

    name: Annotated[str, Field(min_length=1, max_length=100)]
    """Letters, digits and `-`."""


class DefinedLink(BaseModel):
    """How a link is defined."""

    name: str
    origin: Literal["file", "home", "connector"]
    """A link of the file is not changed by API."""
    content: dict[str, Any] | None
    """Without defaults of the file; null: it is in the file, see `/api/v1/configuration`."""
    generation: int | None
    """Grows with each change; null: it is in the file."""
    by: str
    at_ms: int | None
    why: str
    waits: list[str]
    """Why this service's file can't take it; none: it can."""


class DefinedLinks(BaseModel):
    """All links that are defined."""

    items: list[DefinedLink]
    home: str | None
    """Alias of the cluster that holds those that are not in the file; null: there is none."""
    error: str | None
    """Why the home's links are not known."""


class TopicCountView(BaseModel):
    """A number of topics of the source, and of their partitions."""

    topics: int
    partitions: int


class ReachView(BaseModel):
    """What a definition would select now."""

    selected: TopicCountView
    begun: TopicCountView
    """That the definition before it does not select."""
    left: TopicCountView
    """That only the definition before it selects: copied no more, and their mirrors stay."""
    error: str
    """Why none of it is known; empty: it is."""


class ChangeOutcome(BaseModel):
    """What became of a change."""

    link: str
    did: Literal["created", "changed", "deleted", "nothing"]
    generation: int | None
    """Of the definition as it is now; null: there is none, or it was only tried."""
    content: dict[str, Any] | None
    differs: list[str]
    """Fields that differ from what was there before."""
    notes: list[str]
    """What else must be known, such as a change by somebody else in between."""
    topics: list[str]
    """Topics of the target that were deleted with it, or would be."""
    is_tried: bool
    """Whether nothing was written, as it was only asked what would be done."""
    is_repeated: bool
    """Whether the same was asked under the same key before, and nothing was done now."""
    reach: ReachView | None
    """Which partitions it would concern; null: it was not only tried, or nothing differs."""


class LinkRoutes:
    """Answers what is asked of definitions; each question goes to the home.

    Parameters
    ----------
    watch
        Where changes are told.
    file
        Returns the configuration file.
    """

    def __init__(self, watch: Watch, file: Callable[[], ConfigFile]) -> None:
        self._watch = watch
        self._file = file
        self._at_once = threading.BoundedSemaphore(AT_ONCE)

    def look(self, ask: Callable[[ConfigFile], Response]) -> Response:
        """Ask, and answer with what is wrong if it can't be."""
        if not self._at_once.acquire(blocking=False):
            text = f"{AT_ONCE} definitions are asked for already"
            raise HTTPException(429, text, headers={"Retry-After": "2"})
        try:
            return ask(self._file())
        except ConfigError as error:
            return problem(
                422, error.text, code=error.code, field=_field(error), hint=error.hint or None
            )
        except NoSuchLink as error:
            return problem(404, error.text, hint=error.hint)
        except StaleGeneration as error:
            return problem(412, error.text, hint=error.hint)
        finally:
            self._at_once.release()

    def change(
        self, asker: Asker, ask: Callable[[ConfigFile], DefinitionAnswer], status: int = 200
    ) -> Response:
        """Change something, and tell it among the events."""

        def ask_and_tell(file: ConfigFile) -> Response:
            answer = ask(file)
            if not (answer.is_tried or answer.is_repeated or answer.did == "nothing"):
                why = f", {asker.why}" if asker.why else ""
                text = f"link {answer.link} is {answer.did}: {asker.by} asks so{why}"
                self._watch.service_events.info(text)
            headers = {} if answer.generation is None else {"ETag": f'"{answer.generation}"'}
            if status == 201 and not answer.is_tried:
                headers["Location"] = f"/api/v1/links/{answer.link}/definition"
                return JSONResponse(answer.to_json(), 201, headers)
            return JSONResponse(answer.to_json(), 200, headers)

        return self.look(ask_and_tell)


def add_definitions(app: FastAPI, watch: Watch, file: Callable[[], ConfigFile]) -> None:
    """Answer how links are defined, and change it."""
    routes = LinkRoutes(watch, file)
    _add_reading(app, routes)
    _add_creation(app, routes)
    _add_changes(app, routes)
    _add_deletion(app, routes)


def _add_reading(app: FastAPI, routes: LinkRoutes) -> None:
    @app.get(
        "/api/v1/definitions",
        operation_id="list_definitions",
        response_model=DefinedLinks,
        responses=documented(409, 429, 503),
    )
    def list_all() -> Response:
        """Return all links that are defined: in the file, and on the home."""

        def ask(file: ConfigFile) -> Response:
            listing = list_definitions(file)
            rows = {"items": [_shown(link) for link in listing.links]}
            return JSONResponse({**listing.to_json(), **rows})

        return routes.look(ask)

    @app.get(
        "/api/v1/links/{link}/definition",
        operation_id="get_definition",
        response_model=DefinedLink,
        responses={304: {"description": "It is still that one."}, **documented(404, 409, 429, 503)},
    )
    def get(link: LinkParameter, if_none_match: Annotated[str | None, Header()] = None) -> Response:
        """Return how a link is defined; its ETag is its generation."""

        def ask(file: ConfigFile) -> Response:
            definition = definition_of(file, link)
            tag = f'"{definition.generation}"'
            headers = {} if definition.generation is None else {"ETag": tag}
            if headers and if_none_match == tag:
                return Response(status_code=304, headers=headers)
            return JSONResponse(_shown(definition), headers=headers)

        return routes.look(ask)


def _add_creation(app: FastAPI, routes: LinkRoutes) -> None:
    @app.post(
        "/api/v1/links",
        operation_id="create_link",
        response_model=ChangeOutcome,
        status_code=201,
        responses={
            200: {"description": "What would be done.", "model": ChangeOutcome},
            **documented(*FAILS),
        },
    )
    def create(
        *,
        request: Request,
        body: Annotated[NewLink, Body()],
        dry_run: DryRun = False,
        idempotency_key: Annotated[
            str | None,
            Header(
                min_length=1,
                max_length=KEY_CHARS_MAX,
                description="The same under the same key is done once; kept for a day.",
            ),
        ] = None,
    ) -> Response:
        """Make a link on the home: every `run` with that home takes part in it."""
        asker = _asker(request, body.why, dry_run=dry_run, key=idempotency_key or "")
        return routes.change(
            asker, lambda file: create_link(file, body.name, body.content, asker), 201
        )


def _add_changes(app: FastAPI, routes: LinkRoutes) -> None:
    def change(
        request: Request,
        link: str,
        body: LinkChange,
        if_match: str | None,
        *,
        dry_run: bool,
        is_whole: bool,
    ) -> Response:
        expected = _expected(if_match)
        asker = _asker(request, body.why, dry_run=dry_run)
        return routes.change(
            asker,
            lambda file: change_link(
                file, link, body.content, asker, is_whole=is_whole, expected=expected
            ),
        )

    @app.put(
        "/api/v1/links/{link}/definition",
        operation_id="replace_definition",
        response_model=ChangeOutcome,
        responses=documented(*CONDITIONAL),
    )
    def replace(
        *,
        request: Request,
        link: LinkParameter,
        body: Annotated[LinkChange, Body()],
        if_match: IfMatch = None,
        dry_run: DryRun = False,
    ) -> Response:
        """Replace a definition by another one."""
        return change(request, link, body, if_match, dry_run=dry_run, is_whole=True)

    @app.patch(
        "/api/v1/links/{link}/definition",
        operation_id="change_definition",
        response_model=ChangeOutcome,
        responses=documented(*CONDITIONAL),
    )
    def patch(
        *,
        request: Request,
        link: LinkParameter,
        body: Annotated[LinkChange, Body(media_type=MERGE_PATCH)],
        if_match: IfMatch = None,
        dry_run: DryRun = False,
    ) -> Response:
        """Change fields of a definition, by a merge patch (RFC 7396): null takes one out."""
        return change(request, link, body, if_match, dry_run=dry_run, is_whole=False)


def _add_deletion(app: FastAPI, routes: LinkRoutes) -> None:
    @app.delete(
        "/api/v1/links/{link}/definition",
        operation_id="delete_link",
        response_model=ChangeOutcome,
        responses=documented(*CONDITIONAL),
    )
    def delete(
        *,
        request: Request,
        link: LinkParameter,
        if_match: IfMatch = None,
        state: Annotated[bool, Query(description="Delete its own topics, too.")] = False,
        mirrors: Annotated[bool, Query(description="Delete its mirrors, too.")] = False,
        why: Annotated[str, Query(max_length=WHY_CHARS_MAX)] = "",
        dry_run: DryRun = False,
    ) -> Response:
        """Delete a link of the home; its topics stay unless asked for.

        They are deleted once it has no owner any more: 409 while it has one, then ask again.
        """
        expected = _expected(if_match)
        asker = _asker(request, why, dry_run=dry_run)
        return routes.change(
            asker,
            lambda file: delete_link(
                file, link, asker, Removal(state, mirrors), expected=expected, within_s=15
            ),
        )


def _asker(request: Request, why: str, *, dry_run: bool, key: str = "") -> Asker:
    return Asker(caller_of(request), why, dry_run, key)


def _expected(if_match: str | None) -> int | None:
    """Return the generation that a header means; None: whichever it is."""
    if if_match is None:
        raise HTTPException(428, "say which definition is meant: If-Match with its ETag, or *")
    text = if_match.strip()
    if text == "*":
        return None
    number = text.removeprefix('"').removesuffix('"')
    if text != f'"{number}"' or not (number.isascii() and number.isdecimal() and len(number) < 20):
        raise HTTPException(412, "the definition has another ETag: If-Match takes one, or *")
    return int(number)


def _field(error: ConfigError) -> str | None:
    """Return which part of a body is wrong first; the link's name stands beside the content."""
    first = error.problems[0].partition(":")[0] if error.problems else ""
    if isinstance(error, NameRefused) or not first:
        return first or None
    return "content/" + re.sub(r"\[(\d+)\]", r"/\1", first).replace(".", "/")


def _shown(link: LinkDefinition) -> dict[str, Any]:
    """Return a link for whoever may look; what stands in the file is shown without secrets."""
    row = link.to_json()
    del row["state"], row["owner"]
    return {**row, "content": None} if link.origin is Origin.FILE else row
