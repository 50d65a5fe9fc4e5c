"""Answers in Kafka Connect's shape, and what is asked of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple, NoReturn

from starlette.responses import JSONResponse, Response

from heliostat.connect.connector import text_of

WORDS = {
    404: "HTTP 404 Not Found",
    405: "HTTP 405 Method Not Allowed",
    415: "HTTP 415 Unsupported Media Type",
}
NULL = "Null value can not be supplied as the configuration value."


class ConnectError(Exception):
    """What is wrong, as Connect's status and text."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message

    def response(self) -> JSONResponse:
        """Return the answer."""
        return error_response(self.status, self.message)


def error_response(status: int, message: str) -> JSONResponse:
    """Return an error in Connect's shape."""
    return JSONResponse({"error_code": status, "message": message}, status)


def bare_error(status: int) -> Response:
    """Return an error of the paths themselves; Connect gives these no content type."""
    response = error_response(status, WORDS[status])
    del response.headers["content-type"]
    return response


def nothing(status: int) -> Response:
    """Return an answer without a body, and so without a type."""
    return Response(None, status)


class Asked(NamedTuple):
    """A request."""

    path: Mapping[str, str]
    query: Mapping[str, list[str]]
    body: bytes
    base_url: str
    by: str
    """Name of the token that was given."""

    def is_true(self, name: str) -> bool:
        """Whether a parameter is true as Java reads it: anything else is false, never an error."""
        return self.first(name).lower() == "true"

    def first(self, name: str) -> str:
        """Return the first value of a parameter; empty: it is not given."""
        return next(iter(self.query.get(name, ())), "")

    def json(self) -> Any:
        """Return the body.

        Raises
        ------
        ConnectError
            It is none.
        """
        try:
            return json.loads(self.body, parse_constant=_no_number)
        except (ValueError, RecursionError):
            raise ConnectError(400, "the body is not JSON") from None

    def object(self) -> dict[str, Any]:
        """Return the body, which must be an object."""
        value = self.json()
        if not isinstance(value, dict):
            raise ConnectError(400, "the body is not a JSON object")
        return value


def _no_number(text: str) -> NoReturn:
    raise ValueError(text)


def config_in(value: Any) -> dict[str, str]:
    """Return a configuration: scalars, as texts.

    Raises
    ------
    ConnectError
        A value is null, a list or an object.
    """
    if not isinstance(value, dict):
        raise ConnectError(400, "a configuration is a JSON object of texts, numbers and booleans")
    config: dict[str, str] = {}
    for name, setting in value.items():
        if setting is None:
            raise ConnectError(400, f"{name}: {NULL}")
        try:
            config[name] = text_of(setting)
        except ValueError as error:
            raise ConnectError(400, f"{name}: {error}") from None
    return config
