"""Topics that were failed over while nothing fences their source: it may still be written; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from heliostat.handover.promotion import PromotedBy, Promotion

LISTED_MAX = 20
"""Topics named in the driver's report; it is written each second."""


@dataclass(frozen=True, slots=True)
class Unfenced:
    """Topics of which a link copies nothing any more, though their source may be written."""

    count: int
    topics: tuple[str, ...]
    """The first of them by name; 20 at most."""
    by: str
    """Who failed the first one over."""
    at_ms: int
    """When, in ms since the epoch."""

    @classmethod
    def of(cls, promotions: Iterable[Promotion]) -> Self | None:
        """Return what promotions leave so; None: nothing."""
        rows = sorted(
            (promotion for promotion in promotions if _is_unfenced(promotion)),
            key=lambda promotion: promotion.topic,
        )
        if not rows:
            return None
        first = min(rows, key=lambda promotion: promotion.at_ms)
        names = tuple(str(promotion.topic) for promotion in rows[:LISTED_MAX])
        return cls(len(rows), names, first.by, first.at_ms)

    def to_json(self) -> dict[str, Any]:
        """Return it for the driver's report."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Build from the driver's report."""
        return cls(
            int(value["count"]), tuple(value["topics"]), str(value["by"]), int(value["at_ms"])
        )

    def text(self) -> str:
        """Return a line about it."""
        noun = "topic was" if self.count == 1 else "topics were"
        return (
            f"{self.count:,} {noun} failed over by {self.by}: until the source is fenced it may "
            "still be written, and what is written there is not copied"
        )


def _is_unfenced(promotion: Promotion) -> bool:
    return promotion.how is PromotedBy.FAILOVER and not promotion.is_source_fenced
