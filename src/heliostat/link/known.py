"""What a link knows between reconciliations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from heliostat.names import LaneId, ProducerId, TopicName, TopicPartition
from heliostat.records.copier.lane import SchemaFrames
from heliostat.state.link_state import Starts
from heliostat.state.promotions import PromotedMirror
from heliostat.topics.drift import Drift, drift_report
from heliostat.topics.values import MirrorRecord

REPORTED_MAX = 100
"""Topics named in the driver's report: a record of some 30 kB at most."""


@dataclass(slots=True)
class Known:
    """What the link knows between reconciliations; all of it is on the target as well."""

    mirrors: dict[TopicName, MirrorRecord]
    starts: dict[TopicName, Starts]
    making: set[TopicName] = field(default_factory=set)
    """Source topics whose mirrors are about to be created, by the link's state."""
    promoted: dict[TopicName, PromotedMirror] = field(default_factory=dict)
    """Former mirrors that were given away."""
    packing: dict[LaneId, tuple[TopicPartition, ...]] = field(default_factory=dict)
    refused: dict[TopicName, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    """Notes of the last plan: mirrors whose source is gone, fewer replicas than wanted."""
    producer_id: ProducerId | None = None
    former_producers: frozenset[ProducerId] = frozenset()
    at_beginning: frozenset[TopicName] | None = None
    """The source's topics when the link began; None: this is its first reconciliation."""
    frames: dict[TopicName, SchemaFrames] = field(default_factory=dict)
    """What of topics' records began with a schema id that is replaced, by an earlier driver."""
    unproven: frozenset[TopicName] = frozenset()
    """Topics to be merged that may not begin: the state was lost, and nothing has proven them."""
    source_topics: frozenset[TopicName] | None = None
    """All topics of the source; None: not looked yet."""
    turns: int = 0
    """Reconciliations that succeeded."""
    topics: dict[str, int] = field(default_factory=dict)
    """Numbers of topics by what the last reconciliation made of them, see `count_topics`."""
    drift: tuple[Drift, ...] = ()
    """Where mirrors differ from what is wanted, once the last plan was applied."""
    nothing_selected: str = ""
    """Why there is no topic to copy; empty: there is one."""
    old_backlog: str | None = ""
    """The note on records without a duplicate check at the brokers; empty: not looked yet."""

    def promote(self, former: Mapping[TopicName, PromotedMirror]) -> None:
        """Take it that mirrors were given away; from any thread, as often as it is noticed."""
        self.promoted = {**self.promoted, **former}
        self.drop_promoted()

    def drop_promoted(self) -> None:
        """Forget promoted mirrors that a reconciliation under way has remembered again."""
        for name in self.promoted.keys() & self.mirrors.keys():
            self.mirrors.pop(name, None)

    def mirrored(self) -> Callable[[TopicPartition], bool]:
        """Return a test whether a partition is copied or refused; true for all at the beginning."""
        copied = frozenset(chain.from_iterable(self.packing.values()))
        return lambda each: not self.turns or each in copied or each.topic in self.refused

    def report(self) -> dict[str, Any]:
        """Return the topics' part of the driver's report: limited, as it is written each second."""
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
            "topics": self.topics,
            "drift": drift_report(self.drift) if self.turns else None,
            "partitions": sum(len(partitions) for partitions in self.packing.values()),
            "troubles": [self.nothing_selected] if self.nothing_selected else [],
        }
