"""The parts of a link that `plan` and `apply` know: each says what it would change, and does it.

A part is asked what it would change before and after: what is left has failed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Protocol

from heliostat.changes import Change
from heliostat.clock import SystemClock
from heliostat.config import Config, LinkConfig
from heliostat.link.compacted_later import CompactedLater
from heliostat.link.identity import known_of, own_identity
from heliostat.link.mirror_memory import MirrorMemory
from heliostat.link.planning import Planner
from heliostat.link.topic_look import see
from heliostat.link.topics_once import TopicsOnce
from heliostat.names import LinkName, TopicName
from heliostat.operate.groups import LinkGroups, group_views, publish_once
from heliostat.other_links.at_source import Upstream
from heliostat.other_links.at_target import OtherLinks
from heliostat.other_links.same_file import NamesOf, Neighbours
from heliostat.state.connections import Admins, LinkConnections, connected
from heliostat.state.link_state import LinkState
from heliostat.topics.changes import topic_changes
from heliostat.topics.drift import drift_lines

PUBLISH = "publish_offsets"
NAMED_MAX = 3
"""Topics and reasons named in a line."""


@dataclass(frozen=True, slots=True)
class PartLook:
    """What one part of a link would change, and what it can't."""

    changes: tuple[Change, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)
    """Items that are left as they are, and why."""
    drift: tuple[str, ...] = ()
    """What differs and is not changed, a line each."""


class Part(Protocol):
    """One kind of what a link changes at its target."""

    def look(self) -> PartLook:
        """Return what would be changed; changes nothing.

        Raises
        ------
        ConnectionLost, BrokerError
            A cluster does not answer or refuses.
        """
        ...

    def carry_out(
        self, state: LinkState, guard: Callable[[], None], *, allow_delete: bool
    ) -> Mapping[str, str]:
        """Change it, for the link's owner; return items that failed, and why.

        Raises
        ------
        LinkTakenOver
            Another instance owns the link.
        ConnectionLost, BrokerError
            A cluster does not answer or refuses.
        """
        ...

    def reasons(self, refused: Mapping[str, str]) -> Mapping[str, str]:
        """Return items that a running link could not change, by what it reports as refused."""
        ...


class TopicsPart:
    """Mirrors: topics, partitions, settings, and whose they are.

    Parameters
    ----------
    config, link
        The configuration, and the link.
    names_of
        Returns the topics of other links' sources; by default each is asked.
    """

    def __init__(self, config: Config, link: LinkConfig, names_of: NamesOf | None = None) -> None:
        self._config = config
        self._link = link
        self._names_of = names_of
        self._targets: dict[TopicName, TopicName] = {}

    def look(self) -> PartLook:
        """See `Part`; what waits until a source's older records are copied is no change now."""
        with (
            connected(self._config, self._link) as both,
            closing(both.state()) as state,
            both.admins({"stored": state.read}) as admins,
        ):
            seen = see(
                *(self._config, self._link, admins.source, admins.target, self._names_of),
                connections=both,
                stored=admins.answers["stored"],
            )
            plan, _ = CompactedLater(admins.source).hold(seen.plan, ())
        self._targets = {each.source: each.target for each in plan.mirrors}
        refused = {str(name): why.text() for name, why in plan.refuse.items()}
        left = (each for each in plan.drift if not each.difference.is_mended)
        return PartLook(topic_changes(plan), refused, tuple(drift_lines(left)))

    def carry_out(
        self, state: LinkState, guard: Callable[[], None], *, allow_delete: bool
    ) -> Mapping[str, str]:
        """See `Part`."""
        config, link, clock = self._config, self._link, SystemClock()
        none: Mapping[str, Callable[[], None]] = {}
        with connected(config, link) as both, both.admins(none) as admins:
            stored, producer_id = own_identity(state, LinkName(link.name), admins.target, clock)
            known = known_of(stored, producer_id)
            once = self._once(both, admins, state, guard)
            applied = once.run(known, allow_delete=allow_delete)
        return self.reasons({str(name): str(why) for name, why in applied.failed.items()})

    def _once(
        self,
        both: LinkConnections,
        admins: Admins[Any],
        state: LinkState,
        guard: Callable[[], None],
    ) -> TopicsOnce:
        config, link, source, target = self._config, self._link, admins.source, admins.target
        other_links = OtherLinks(link, both.target, target).claims
        cluster = config.clusters[link.source]
        upstream = Upstream(link, cluster, source, target.cluster_id(), SystemClock())
        planner = Planner(
            link,
            source,
            target,
            state,
            claimed=Neighbours(config, link, self._names_of).claims,
            other_links=other_links,
            upstream=upstream,
        )
        mirrors = MirrorMemory(state, other_links, upstream)
        return TopicsOnce(target, planner, mirrors, CompactedLater(source), guard)

    def reasons(self, refused: Mapping[str, str]) -> Mapping[str, str]:
        """See `Part`; they are told by source topic."""
        found = ((self._targets.get(TopicName(name)), why) for name, why in refused.items())
        return {str(target): why for target, why in found if target is not None}


class GroupsPart:
    """Offsets of consumer groups, where `groups.sync` is on.

    Parameters
    ----------
    config, link
        The configuration, and the link.
    """

    def __init__(self, config: Config, link: LinkConfig) -> None:
        self._config = config
        self._link = link

    def look(self) -> PartLook:
        """See `Part`."""
        if not self._link.groups.sync:
            return PartLook()
        [found] = group_views(self._config, self._link.name)
        return PartLook(tuple(_group_changes(found)))

    def carry_out(
        self, _: LinkState, guard: Callable[[], None], *, allow_delete: bool
    ) -> Mapping[str, str]:
        """See `Part`; nothing is ever deleted."""
        del allow_delete
        if not self._link.groups.sync:
            return {}
        failed = publish_once(self._config, self._link, guard)
        return {str(group): why for group, why in failed.items()}

    def reasons(self, _: Mapping[str, str]) -> Mapping[str, str]:
        """See `Part`; a running link tells of groups elsewhere."""
        return {}


def _group_changes(found: LinkGroups) -> Iterator[Change]:
    for view in found.groups:
        rows = [row for row in view.rows if row.publish is not None]
        if not rows:
            continue
        name = view.target_group or view.group
        offsets = "offset" if len(rows) == 1 else f"{len(rows)} offsets"
        topics = sorted({row.target.topic for row in rows if row.target is not None})
        more = f" and {len(topics) - NAMED_MAX} more topics" if topics[NAMED_MAX:] else ""
        what = f"publish {offsets} of group {name} in {', '.join(topics[:NAMED_MAX])}{more}"
        why = "; ".join(sorted({row.why for row in rows})[:NAMED_MAX])
        published = "" if view.published is None else str(view.published.at_ms)
        yield Change(PUBLISH, str(name), what, why, version=published)


def parts_of(config: Config, link: LinkConfig, names_of: NamesOf | None = None) -> Sequence[Part]:
    """Return the parts of a link, in the order in which they are brought up to date."""
    return (TopicsPart(config, link, names_of), GroupsPart(config, link))
