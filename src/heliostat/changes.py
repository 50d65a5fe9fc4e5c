"""What a link would change at its target, item by item, and what became of it.

Each part of a link (topics, groups, access) returns its own; verbs only show them.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


@dataclass(frozen=True, slots=True)
class Change:
    """One change of one item.

    Parameters
    ----------
    kind
        Such as `create_topic`: a word for machines.
    item
        Name of what is changed: a topic, a group, a rule.
    what
        What is changed of it, for people.
    why
        Why.
    is_deletion
        Whether something that is there goes: done only if that is allowed.
    version
        Another one once something of it was done, where more follows by itself: offsets of a group
        whose members go on. Empty: it is done once it is no longer planned.
    """

    kind: str
    item: str
    what: str
    why: str
    is_deletion: bool = False
    version: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """What tells it apart from others, whatever else is changed meanwhile."""
        return self.kind, self.item

    def text(self) -> str:
        """Return it for people."""
        return f"{self.what}: {self.why}"


class Fate(StrEnum):
    """What became of a change."""

    PLANNED = "planned"
    """It was only asked what would be done."""
    DONE = "done"
    FAILED = "failed"
    HELD_BACK = "held_back"
    """It deletes something, and that was not allowed."""
    WAITS = "waits"
    """The link's owner is to do it."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """A change, and what became of it."""

    change: Change
    fate: Fate
    text: str = ""
    """Why it is not done."""

    def to_json(self) -> dict[str, Any]:
        """Return it for answers."""
        row = asdict(self.change)
        row.pop("version")
        return {**row, "fate": self.fate.value, "text": self.text}
