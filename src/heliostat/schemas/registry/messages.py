"""Requests to a schema registry and its answers, as values: no socket is known here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from typing_extensions import override

T = TypeVar("T")

CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"
"""What Confluent's API names its JSON; it is accepted back under this name and as plain JSON."""

Method = Literal["GET", "POST", "PUT", "DELETE"]


@dataclass(frozen=True, slots=True)
class Request:
    """One request, without the registry's address.

    Parameters
    ----------
    method
        HTTP's method.
    path
        Begins with a slash; names in it are percent-encoded.
    query
        Names and values, not encoded.
    body
        JSON, or None.
    """

    method: Method
    path: str
    query: tuple[tuple[str, str], ...] = ()
    body: str | None = None

    @override
    def __str__(self) -> str:
        """Method and path with its query, for messages; never the body, which may be long."""
        query = "&".join(f"{name}={value}" for name, value in self.query)
        return f"{self.method} {self.path}" + (f"?{query}" if query else "")


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back.

    Parameters
    ----------
    status
        HTTP's status.
    body
        As received.
    retry_after_s
        Seconds to wait by the answer's `Retry-After`; None if it has none that we can read.
    """

    status: int
    body: bytes = b""
    retry_after_s: float | None = None


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """A request, and how its answer is read.

    Parameters
    ----------
    request
        What is sent.
    read
        Makes the value of a successful answer; raises `RegistryAnswerInvalid` if it is none.
    is_repeatable
        Whether sending it again, after an answer was lost, does no more than sending it once.
    """

    request: Request
    read: Callable[[Answer], T]
    is_repeatable: bool = True
