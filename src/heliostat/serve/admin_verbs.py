"""What verbs have in common that only an admin may ask: the role, and the link's name typed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Protocol

from fastapi import Header, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

from heliostat.errors import HeliostatError
from heliostat.operate.idempotency import KeyUsed
from heliostat.serve.guard import ROLE, caller_of
from heliostat.serve.problems import FieldRefused
from heliostat.serve.tokens import Role

FAILS = (403, 404, 409, 413, 415, 422, 429, 503)
"""Statuses with which such a verb fails."""
IdempotencyKey = Annotated[
    str | None,
    Header(max_length=200, description="The same under the same key is done once."),
]


class TypedName(BaseModel):
    """Carries the link's name, typed by whoever asks: such a verb can't be taken back."""

    model_config = ConfigDict(extra="forbid")

    confirm: Annotated[str, Field(max_length=100)] = ""
    """The link's name again; not needed for a dry run."""


def require_admin(request: Request) -> str:
    """Return who asks.

    Raises
    ------
    HTTPException
        Their token is not an admin's (403).
    """
    name = caller_of(request)
    if request.scope.get(ROLE, Role.ADMIN) < Role.ADMIN:
        raise HTTPException(403, f"the token of {name} is no admin's")
    return name


def require_typed(link: str, body: TypedName, *, dry_run: bool) -> None:
    """See that the link's name was typed.

    Raises
    ------
    FieldRefused
        It was not (422).
    """
    if not dry_run and body.confirm != link:
        raise FieldRefused(
            "confirm",
            f"`confirm` is not the link's name, {link}",
            "type the link's name there; with dry_run=true only what would be done is told",
        )


class Keyed(Protocol):
    """What was begun under an idempotency key."""

    key: str
    wish: object
    error: HeliostatError | None

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        ...


def repeats(last: Keyed | None, key: str, wish: object) -> bool:
    """Return whether a request only asks again for what was begun last; what failed is tried anew.

    Raises
    ------
    KeyUsed
        Its key was for something else (422).
    """
    if last is None or not key or last.key != key or (last.is_over and last.error is not None):
        return False
    if last.wish != wish:
        raise KeyUsed("another one was begun under that idempotency key")
    return True


class OneAtATime:
    """Lets one such verb of a link run at a time. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._links: set[str] = set()

    @contextmanager
    def of(self, link: str) -> Iterator[None]:
        """Hold a link.

        Raises
        ------
        HTTPException
            Another one runs (429).
        """
        with self._lock:
            if link in self._links:
                text = f"another one runs for link {link}"
                raise HTTPException(429, text, headers={"Retry-After": "5"})
            self._links.add(link)
        try:
            yield
        finally:
            with self._lock:
                self._links.discard(link)
