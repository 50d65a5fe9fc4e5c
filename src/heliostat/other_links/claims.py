"""Which target topics belong to other links, as far as known."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from heliostat.names import LinkName, TopicName


@dataclass(frozen=True, slots=True)
class Claims:
    """What is known of other links' mirrors at a target.

    Parameters
    ----------
    by
        Target topics, and the other link that writes each.
    unsure
        Target topics that may be another link's, and why that is unknown.
    notes
        Remarks for the operator.
    """

    by: Mapping[TopicName, LinkName] = field(default_factory=dict)
    unsure: Mapping[TopicName, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __contains__(self, topic: object) -> bool:
        return topic in self.by or topic in self.unsure

    def __or__(self, other: Claims) -> Claims:
        return Claims(
            {**self.by, **other.by}, {**self.unsure, **other.unsure}, self.notes + other.notes
        )


OtherClaims = Callable[[Collection[TopicName]], Claims]
"""Returns claims on target topics that are to be new mirrors."""
NeighbourClaims = Callable[[Collection[TopicName], Collection[TopicName]], Claims]
"""Returns claims on the wanted target topics (first), of which some are our mirrors already
(second)."""
