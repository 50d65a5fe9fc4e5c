"""Consumer groups of a running link: own connections, one sync, checkpoints for the interchange.

Failures here are logged and retried; they never halt the copying.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing

from heliostat.access import ClusterAccess
from heliostat.clock import Clock
from heliostat.clusters.admin import ClusterAdmin
from heliostat.clusters.foreign_records import ForeignRecords
from heliostat.clusters.wire.connection import DialSettings
from heliostat.clusters.wire.lent import LentClusters
from heliostat.config import LinkConfig
from heliostat.errors import GroupsFailed, HeliostatError, LinkTakenOver, Verdict
from heliostat.groups.apply import Committers, Guard
from heliostat.groups.measured import GroupFigures, MeasuredGroups
from heliostat.groups.merged_places import MergedPlaces
from heliostat.groups.merged_site import MergedSite
from heliostat.groups.naming import group_naming_of
from heliostat.groups.observe import Mirrors, OpenMaps, Positions
from heliostat.groups.plan import GroupDecision
from heliostat.groups.published import PublishedOffsets
from heliostat.groups.sync import GroupSync
from heliostat.mm2.checkpoints import GroupRow
from heliostat.mm2.emitters import Interchange
from heliostat.names import GroupId, LinkName
from heliostat.ops.events import Events

CLIENT_ID = "heliostat-groups"
LOOK_BYTES = 64 * 1024 * 1024
"""Most bytes of merged topics' logs that a pass reads at a site: the next one goes on."""


class GroupPart:
    """Groups of one link, while it runs.

    Parameters
    ----------
    link
        Its configuration.
    source_access, target_access
        How to reach both clusters.
    mirrors, maps, positions
        The link's mirrors, their offset maps, and how far they are copied, as they are now.
    foreign
        Told of records that others wrote into the link's topics.
    interchange
        Writes checkpoints, if they are wanted.
    clock, events
        Time, and where changes are logged.
    guard
        Raises if the link is not ours any more (I10).
    measured
        Measures groups for metrics; None: none are.

    Raises
    ------
    ConnectionLost
        A cluster does not answer.
    """

    def __init__(
        self,
        link: LinkConfig,
        *,
        source_access: ClusterAccess,
        target_access: ClusterAccess,
        mirrors: Callable[[], Mirrors],
        maps: OpenMaps,
        positions: Positions,
        foreign: ForeignRecords,
        interchange: Interchange,
        clock: Clock,
        events: Events,
        guard: Guard,
        measured: MeasuredGroups | None = None,
    ) -> None:
        self._interchange = interchange
        self._measured = measured or MeasuredGroups()
        self._figures: list[GroupFigures] = []
        self._naming = group_naming_of(link)
        with ExitStack() as opened:
            source = opened.enter_context(ClusterAdmin(source_access, CLIENT_ID))
            target = opened.enter_context(
                closing(
                    Committers(
                        opened.enter_context(ClusterAdmin(target_access, CLIENT_ID)),
                        lambda: ClusterAdmin(target_access, CLIENT_ID),
                    )
                )
            )
            memory = self._memory = opened.enter_context(
                closing(PublishedOffsets(target_access, LinkName(link.name), foreign))
            )
            merged = None
            if link.topics.merges:
                merged = opened.enter_context(
                    closing(_merged(source_access, target_access, target.admin, opened))
                )
            self._open = opened.pop_all()
        self._sync = GroupSync(
            link.groups,
            source,
            target,
            memory,
            mirrors=mirrors,
            maps=maps,
            positions=positions,
            replication_factor=link.state.replication_factor,
            clock=clock,
            events=events,
            guard=guard,
            naming=self._naming,
            merged=merged,
            on_decided=self._on_decided,
        )

    def turn(self) -> None:
        """Sync groups once.

        Raises
        ------
        ConnectionLost, BrokerError, GroupsFailed
            It failed; the next call starts over.
        LinkTakenOver
            Another instance owns the link.
        """
        try:
            self._sync.run()
        except LinkTakenOver:
            raise
        except HeliostatError as error:
            if error.verdict is Verdict.RETRY:
                raise
            raise GroupsFailed(str(error)) from error

    def report(self) -> dict[str, object]:
        """Return the groups' part of the driver's report."""
        return {**self._sync.report(), "measured": self._figures}

    def close(self) -> None:
        """Close the connections; call it when the loop has ended."""
        self._open.close()

    def _on_decided(self, decided: Mapping[GroupId, GroupDecision]) -> None:
        followed, rows = self._sync.followed, self._memory.rows
        self._figures = self._measured.figures(followed, rows, self._naming)
        if self._interchange.wants_groups:
            self._interchange.take_groups(_checkpoints(decided))


def _merged(
    source: ClusterAccess, target: ClusterAccess, admin: ClusterAdmin, opened: ExitStack
) -> MergedPlaces:
    """Return what tells places in merged topics, over connections of its own."""
    here, there = (
        opened.enter_context(closing(LentClusters(each, DialSettings(CLIENT_ID))))
        for each in (source, target)
    )
    sites = MergedSite(here, LOOK_BYTES), MergedSite(there, LOOK_BYTES)
    return MergedPlaces(*sites, admin.cluster_id())


def _checkpoints(decided: Mapping[GroupId, GroupDecision]) -> Iterator[GroupRow]:
    for found in decided.values():
        for row in found.partitions:
            if row.target is not None and row.source_offset is not None and row.wanted is not None:
                yield GroupRow(
                    found.target_group,
                    row.source,
                    row.source_offset,
                    row.target,
                    row.wanted,
                    row.metadata,
                )
