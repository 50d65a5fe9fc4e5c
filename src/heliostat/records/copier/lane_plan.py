"""The partitions that a round has, and how they change while it runs (docs/adr/0018).

What is given up sends nothing more. Once nothing of it is under way the round reports the change's
generation, and another lane may take it (I10). Partitions that a change does not name go on.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from heliostat.invariants import predecessors_have_ended
from heliostat.names import TopicPartition
from heliostat.records.copier.lane import LaneSpec, PlanChange, TakenPartition
from heliostat.records.copier.lane_copies import copies_of, copy_of
from heliostat.records.copier.network import Network
from heliostat.records.copier.partition_copy import PartitionCopy
from heliostat.records.copier.partition_leave import continue_from, give_up, is_at_rest


class Moved(NamedTuple):
    """What a change of the plan has moved."""

    out: list[PartitionCopy]
    new: list[tuple[PartitionCopy, float]]
    """With records a second, as far as known."""


class LanePlan:
    """The plan of one round.

    Parameters
    ----------
    lane
        What the round begins with.
    network
        Connections to both clusters, for these partitions.
    now_ms
        Wall clock time.
    begins_s
        When the round begins (monotonic seconds).
    """

    def __init__(self, lane: LaneSpec, network: Network, *, begins_s: float, now_ms: int) -> None:
        self._lane = lane
        self._network = network
        self.partitions: list[PartitionCopy] = copies_of(lane, begins_s, now_ms)
        """All that the round has had; an index never changes its partition."""
        self.holds: list[tuple[Collection[str], Sequence[PartitionCopy]]] = []
        """Partitions whose old records wait until these rounds have ended."""
        if lane.waits_for:
            self.holds.append((lane.waits_for, self.partitions[:]))
        self._now = {item.spec.source: item for item in self.partitions}
        self._newest = lane.generation
        self._leaving: dict[int, tuple[int, PartitionCopy]] = {}
        """Given up and not at rest yet, by index, with the generation of that change."""
        self._entering: dict[TopicPartition, tuple[PlanChange, TakenPartition]] = {}
        """To be taken once the same partition, given up before, is at rest."""
        self._left: dict[TopicPartition, PartitionCopy] = {}

    @property
    def size(self) -> int:
        """How many partitions the lane has."""
        return len(self._now) + len(self._entering)

    @property
    def generation(self) -> int:
        """The newest plan that is carried out."""
        return min([self._newest, *(at - 1 for at, _ in self._leaving.values())])

    def take(self, changes: Sequence[PlanChange]) -> None:
        """Begin changes that are new; `carry_out` ends them."""
        for change in changes:
            if change.generation <= self._newest:
                continue
            self._newest = change.generation
            for source in change.give_up:
                self._entering.pop(source, None)
                item = self._now.pop(source, None)
                if item is not None:
                    give_up(item)
                    self._leaving[item.index] = change.generation, item
            for taken in change.take:
                self._entering[taken.spec.source] = change, taken

    @property
    def is_open(self) -> bool:
        """Whether some change is not carried out yet."""
        return bool(self._leaving or self._entering)

    def carry_out(self, now_s: float, now_ms: int) -> Moved | None:
        """Let go of what is at rest, and take what is free.

        Returns
        -------
        What has changed; None: nothing yet.
        """
        at_rest = [item for _, item in self._leaving.values() if is_at_rest(item, now_s)]
        for item in at_rest:
            del self._leaving[item.index]
            self._left[item.spec.source] = item
        held = {item.spec.source for _, item in self._leaving.values()}
        free = [source for source in self._entering if source not in held]
        entering = [self._entering.pop(source) for source in free]
        new = [(self._enter(*each, now_s, now_ms), each[1].rate) for each in entering]
        if not self.is_open:
            self._left.clear()
        if not at_rest and not new:
            return None
        self._network.change([item.index for item in at_rest], [item.spec for item, _ in new])
        return Moved(at_rest, new)

    def released(self, running: frozenset[str] | None) -> list[PartitionCopy]:
        """Return partitions that waited for earlier rounds which have ended now (I10)."""
        own = self._lane.round_id
        found: list[PartitionCopy] = []
        for hold in self.holds[:]:
            waits_for, items = hold
            if predecessors_have_ended(own, waits_for, running):
                self.holds.remove(hold)
                found += items
        return found

    def _enter(
        self, change: PlanChange, taken: TakenPartition, now_s: float, now_ms: int
    ) -> PartitionCopy:
        index = len(self.partitions)
        spec, note = taken.spec, taken.copied
        item = copy_of(self._lane, change, index, spec, note, begins_s=now_s, now_ms=now_ms)
        before = self._left.pop(spec.source, None)
        if before is not None and not change.waits_for:  # it is at rest: nothing may land any more
            item.appends.may_land_until_s = before.appends.may_land_until_s
        if before is not None and note is not None:
            continue_from(item, before)  # it knows more than what the driver has noted
        self.partitions.append(item)
        self._now[spec.source] = item
        if change.waits_for:
            self.holds.append((change.waits_for, [item]))
        return item
