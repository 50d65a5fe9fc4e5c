"""What lies on the home cluster: definitions of links, and connectors; pure.

A row is a level: one key for each name, and what was written last counts, by the topic's order and
never by a clock. Its generation is its place in that order, so no two versions share one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Self

from heliostat.names import Offset


class DefinitionKind(Enum):
    """What a definition is of."""

    LINK = "link"
    """A link, as `links:` of the file has it, without its name."""
    CONNECTOR = "connector"
    """A connector's configuration, as it was given to Kafka Connect's API."""
    STATE = "state"
    """What is wished of a connector that is no link of its own."""
    COPIES = "copies"
    """What the link of a connector copies, and how it calls that: kept when the connector goes."""
    REQUEST = "request"
    """What was asked under an idempotency key, and for which link: it is carried out once."""


NOT_WRITTEN = Offset(-1)


@dataclass(frozen=True, slots=True)
class DefinitionKey:
    """Which definition: its kind and name."""

    kind: DefinitionKind
    name: str

    @property
    def key(self) -> str:
        """Its key in the topic."""
        return f"{self.kind.value}/{self.name}"

    @classmethod
    def of_key(cls, key: str) -> Self:
        """Return the one that a key names.

        Raises
        ------
        ValueError
            It names none.
        """
        kind, slash, name = key.partition("/")
        if not slash or not name:
            raise ValueError(f"{key!r} names no definition")
        return cls(DefinitionKind(kind), name)


NOT_WRITTEN = Offset(-1)
LEAVING = "leaving"
"""In what a row keeps beside its content: it is deleted, by whom and why its row says, before it is
removed. Of a link topics may still be there."""


@dataclass(frozen=True, slots=True)
class Definition:
    """A definition: what, who, when and why."""

    key: DefinitionKey
    content: Mapping[str, Any]
    by: str
    at_ms: int
    """Wall clock of who wrote it, for people."""
    why: str = ""
    extra: Mapping[str, Any] | None = None
    """What else its kind keeps beside the content, such as a connector's wished state."""
    generation: Offset = NOT_WRITTEN
    """Offset of its row; -1: it is not written yet."""

    @property
    def is_leaving(self) -> bool:
        """Whether it is deleted: who did so, and why, is what is left of it."""
        return LEAVING in (self.extra or {})

    def leaving(self, by: str, at_ms: int, why: str = "", what: object = None) -> Self:
        """Return the row to write before it is removed: who deletes it, when and why.

        Parameters
        ----------
        what
            What else goes with it.
        """
        extra = {**(self.extra or {}), LEAVING: what or {}}
        return replace(self, extra=extra, by=by, at_ms=at_ms, why=why)

    def to_json(self) -> dict[str, Any]:
        """Return its row."""
        return {
            "content": dict(self.content),
            "extra": dict(self.extra or {}),
            "by": self.by,
            "at_ms": self.at_ms,
            "why": self.why,
        }

    @classmethod
    def from_json(cls, key: str, value: Mapping[str, Any], generation: Offset) -> Self:
        """Build from a row.

        Raises
        ------
        ValueError, LookupError, TypeError
            It is not a row.
        """
        content, extra = value["content"], value.get("extra", {})
        by, why, at_ms = value["by"], value.get("why", ""), value["at_ms"]
        if not isinstance(content, Mapping) or not isinstance(extra, Mapping):
            raise TypeError("`content` and `extra` are maps")
        if not isinstance(by, str) or not isinstance(why, str):
            raise TypeError("`by` and `why` are text")
        named = DefinitionKey.of_key(key)
        return cls(named, content, by, int(at_ms), why, extra, generation)
