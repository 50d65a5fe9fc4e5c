"""What all parts of one link share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from heliostat.clock import Clock
from heliostat.clusters.foreign_records import ForeignRecords
from heliostat.config import ClusterConfig, LinkConfig, MetricsConfig
from heliostat.groups.progress import progress_group
from heliostat.link.held_changes import NotInForce
from heliostat.link.known import Known
from heliostat.link.loops import Loops
from heliostat.link.owner_guard import OwnerGuard
from heliostat.names import GroupId, LinkName
from heliostat.ops.events import Events
from heliostat.records.copier.lane import PartitionReport
from heliostat.state.link_state import LinkState
from heliostat.status.board import StatusBoard
from heliostat.wishes.wish import Wishes


@dataclass(slots=True)
class WantedLink:
    """What a link should be now; whoever changes it replaces these, and the link takes them."""

    link: LinkConfig
    not_in_force: NotInForce = field(default_factory=NotInForce)
    in_force: LinkConfig | None = None
    """What it goes by; None: it has not begun."""
    live_ms: int = 0
    """Since when it goes by that (ms since the epoch)."""

    def takes_effect(self, now_ms: int) -> None:
        """Note that the link goes by it from now on, if it does not yet."""
        if self.in_force != self.link:
            self.in_force, self.live_ms = self.link, now_ms

    def report(self) -> dict[str, object]:
        """Return the part of the driver's report about the configuration."""
        held = 0 if self.not_in_force.is_refused else len(self.not_in_force.lines)
        return {"live_ms": self.live_ms, "refused": self.not_in_force.is_refused, "held": held}


@dataclass(frozen=True, slots=True)
class LinkContext:
    """What all parts of one link share.

    Parameters
    ----------
    link
        Its configuration, as far as it is in force.
    source, target
        How both clusters are configured.
    state
        The link's durable state, on the target.
    foreign
        Told of records that others wrote into its topics.
    board
        The link's status, updated from the lanes' reports.
    owner
        Checks that the link is still ours.
    clock, events
        Time, and where changes are logged.
    metrics
        What is measured.
    wishes
        Returns what operators wish now.
    wanted
        What the link should be now, which may be newer than `link`.
    loops
        Those of the parts that copy.
    """

    link: LinkConfig
    source: ClusterConfig
    target: ClusterConfig
    state: LinkState
    foreign: ForeignRecords
    board: StatusBoard
    owner: OwnerGuard
    clock: Clock
    events: Events
    metrics: MetricsConfig
    wishes: Callable[[], Wishes]
    wanted: WantedLink
    loops: Loops

    def as_wanted(self) -> LinkContext:
        """Return it with the configuration that is wanted now."""
        return replace(self, link=self.wanted.link)

    @property
    def progress_group(self) -> GroupId | None:
        """Under which the copied offsets are committed at the source; None: under none."""
        return progress_group(self.metrics.progress_group, LinkName(self.link.name))

    def keep_stops(self, reports: list[PartitionReport], known: Known) -> None:
        """Make stops durable soon, so that a status shows them before a lane finds them again."""
        self.state.stops.keep(reports, known.mirrored())
        self.board.know_stops(self.state.stops.known)
