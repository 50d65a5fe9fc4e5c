"""Errors as `application/problem+json` (RFC 9457), with our code and hint, never with a stack."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from heliostat.errors import (
    BrokerError,
    ConfigError,
    ConnectionLost,
    HeliostatError,
    OffsetMapLost,
    ProtocolError,
    Refused,
    RegistryAnswerInvalid,
    RegistryError,
    RegistryUnreachable,
    StateIncomplete,
)
from heliostat.operate.idempotency import KeyUsed

TYPE = "about:blank"
MEDIA_TYPE = "application/problem+json"


class Problem(BaseModel):
    """What is wrong with a request, or why it can't be answered."""

    type: str = TYPE
    title: str
    """Its kind in words."""
    status: int
    """The HTTP status."""
    detail: str
    """This case in words."""
    code: str
    """Our code of it; those in capitals stand in docs/reference/errors.md."""
    field: str | None = None
    """The parameter that is wrong, or the place in the body, as `content/topics/include/0`."""
    hint: str | None = None
    """What to do."""


NO_ANSWER = (
    ConnectionLost,
    BrokerError,
    ProtocolError,
    RegistryUnreachable,
    RegistryError,
    RegistryAnswerInvalid,
)
AS_THINGS_ARE = (ConfigError, Refused, StateIncomplete, OffsetMapLost)
TITLES = {
    400: ("Bad request", "bad_request"),
    401: ("A token is needed", "token_needed"),
    403: ("Not allowed", "not_allowed"),
    404: ("Not found", "not_found"),
    405: ("Method not allowed", "method_not_allowed"),
    409: ("Not as things are", "conflict"),
    412: ("Changed since", "changed_since"),
    413: ("Request too large", "too_large"),
    415: ("Unsupported media type", "unsupported_media_type"),
    421: ("Unknown host", "unknown_host"),
    422: ("Invalid request", "invalid"),
    428: ("A condition is needed", "condition_needed"),
    429: ("Too much is asked", "too_many"),
    500: ("Internal error", "internal"),
    503: ("A cluster or registry does not answer, or refuses", "unavailable"),
}


class FieldRefused(HTTPException):
    """Says which field of a request is wrong (422), and what to give there."""

    def __init__(self, field: str, detail: str, hint: str) -> None:
        super().__init__(422, detail)
        self.field = field
        self.hint = hint


def problem(
    status: int,
    detail: str,
    *,
    code: str | None = None,
    field: str | None = None,
    hint: str | None = None,
    headers: dict[str, str] | None = None,
) -> JSONResponse:
    """Return an answer that says what is wrong."""
    title, usual = TITLES.get(status, ("Error", "error"))
    content = Problem(
        title=title,
        status=status,
        detail=detail,
        code=code or usual,
        field=field,
        hint=hint,
    )
    return JSONResponse(
        content.model_dump(exclude_none=True), status, headers, media_type=MEDIA_TYPE
    )


def of_error(error: HeliostatError) -> JSONResponse:
    """Return the answer about one of our errors."""
    if isinstance(error, KeyUsed):
        status = 422
    else:
        is_refused = isinstance(error, AS_THINGS_ARE)
        status = 503 if isinstance(error, NO_ANSWER) else 409 if is_refused else 500
    return problem(status, error.text, code=error.code, hint=error.hint or None)


def documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return problems of these kinds, for the OpenAPI document."""
    schema = {"schema": {"$ref": "#/components/schemas/Problem"}}
    return {
        status: {"description": TITLES[status][0], "content": {MEDIA_TYPE: schema}}
        for status in statuses
    }
