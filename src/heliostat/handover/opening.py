"""What opening the target to producers comes to, once mirrors are given away; pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Part(StrEnum):
    """What keeps producers out of former mirrors, beside rules that protect them."""

    RIGHTS = "rights"
    """`Write`, which was kept ready while they were mirrors."""
    REGISTRY = "registry"
    """Subjects of the target's schema registry that the link has closed."""


@dataclass(frozen=True, slots=True)
class Opened:
    """What became of a part, or would.

    Parameters
    ----------
    part
        Which.
    text
        What was done; or why it could not be.
    code, hint
        Of what failed, and what helps; empty: nothing failed.
    """

    part: Part
    text: str
    code: str = ""
    hint: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "part": self.part.value,
            "text": self.text,
            "code": self.code or None,
            "hint": self.hint or None,
        }

    def line(self) -> str:
        """Return a line about it."""
        if not self.code:
            return f"{self.part.value}: {self.text}"
        hint = f"; {self.hint}" if self.hint else ""
        return f"{self.part.value}: not all is open ({self.code}): {self.text}{hint}"


def is_all_open(came_to: Iterable[Opened]) -> bool:
    """Return whether no part has failed."""
    return not any(outcome.code for outcome in came_to)
