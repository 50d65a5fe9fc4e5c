"""What a link knows between its turns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import chain

from heliostat.names import LaneId, ProducerId, TopicName, TopicPartition
from heliostat.state.link_state import Starts
from heliostat.topics.values import MirrorRecord

REPORTED_MAX = 100
"""Topics named in the driver's report: a record of some 30 kB at most."""


@dataclass(slots=True)
class Known:
    """What the link knows between turns; all of it is on the target as well."""

    mirrors: dict[TopicName, MirrorRecord]
    starts: dict[TopicName, Starts]
    making: set[TopicName] = field(default_factory=set)
    """Source topics whose mirrors' topics the state says are about to be created."""
    packing: dict[LaneId, tuple[TopicPartition, ...]] = field(default_factory=dict)
    refused: dict[TopicName, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    """What the last plan remarked: mirrors whose source is gone, fewer replicas than wanted."""
    producer_id: ProducerId | None = None
    at_beginning: frozenset[TopicName] | None = None
    """The source's topics when the link began; None: this is its first turn."""
    turns: int = 0
    """Those that came to their end."""
    nothing_selected: str = ""
    """Why there is no topic to copy; empty: there is one."""
    old_backlog: str | None = ""
    """What is remarked of records that brokers check no duplicates of; empty: not looked yet."""

    def mirrored(self) -> Callable[[TopicPartition], bool]:
        """Tells what is copied or refused, as far as is known: until the first turn all may be."""
        copied = frozenset(chain.from_iterable(self.packing.values()))
        return lambda each: not self.turns or each in copied or each.topic in self.refused

    def report(self) -> dict[str, object]:
        """What the driver's report says of topics; it is written each second, so not of all."""
        refused = sorted(self.refused.items())
        notes = list(self.notes[:REPORTED_MAX])
        if refused[REPORTED_MAX:]:
            notes.insert(0, f"{len(refused) - REPORTED_MAX} more topics are refused")
        if self.notes[REPORTED_MAX:]:
            notes.append(f"and {len(self.notes) - REPORTED_MAX} more remarks")
        return {
            "refused": dict(refused[:REPORTED_MAX]),
            "notes": notes,
            "turns": self.turns,
            "partitions": sum(len(partitions) for partitions in self.packing.values()),
            "troubles": [self.nothing_selected] if self.nothing_selected else [],
        }
