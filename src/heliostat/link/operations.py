"""The verbs of an operator; command line, API and user interface call these and add no logic."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cache

from heliostat.clock import SystemClock
from heliostat.clusters.admin import ClusterAdmin
from heliostat.clusters.recent_records import RecentRecords
from heliostat.config import Config, LinkConfig, check_distinct_clusters
from heliostat.errors import ConfigError, HeliostatError
from heliostat.link.exact import filling_notes, why_not_exact
from heliostat.link.gone_records import gone_lines
from heliostat.link.neighbours import Neighbours
from heliostat.link.offset_maps import position_at, read_maps
from heliostat.link.rivals import Rivals, claims_on, plan_beside
from heliostat.link.state import LinkState, progress_topic
from heliostat.link.status import unreachable
from heliostat.link.status_reader import StatusReader
from heliostat.link.status_values import LinkStatus
from heliostat.link.upstream import blind_note, feeds_at
from heliostat.names import Alias, LinkName, TopicName
from heliostat.slots import WHOLE_TOPIC, Slot
from heliostat.topics.naming import naming_of
from heliostat.topics.observe import observe
from heliostat.topics.producer_age import old_backlog_note
from heliostat.topics.select import selection_of
from heliostat.topics.topic_plan import TopicPlan


@dataclass(frozen=True, slots=True)
class TopicPreview:
    """One source topic as a link sees it; `target` is None where it is not selected."""

    link: LinkName
    topic: TopicName
    selected: bool
    why: str
    target: TopicName | None
    slot: Slot = WHOLE_TOPIC
    """Which partitions of the target topic are the mirror's."""


def links_of(config: Config, link_name: str | None) -> tuple[LinkConfig, ...]:
    """The named link, or all.

    Raises
    ------
    ConfigError
        There is no such link.
    """
    if link_name is None:
        return config.links
    try:
        return (config.link(link_name),)
    except KeyError:
        known = ", ".join(link.name for link in config.links)
        raise ConfigError(f"no link is named {link_name}", hint=f"there are {known}") from None


def preview_topics(config: Config, link_name: str | None = None) -> list[TopicPreview]:
    """Every topic of the links' sources: selected or not, why, and its name at the target.

    Touches nothing and asks only the sources.
    """
    return [row for link in links_of(config, link_name) for row in _previews(config, link)]


def _previews(config: Config, link: LinkConfig) -> Iterator[TopicPreview]:
    selection, naming = selection_of(link), naming_of(link)
    for name in _topic_names(config, link.source):
        decision = selection.explain(name)
        target = naming.target_name(name) if decision.selected else None
        slot = naming.slot_of(name)
        yield TopicPreview(link.name, name, decision.selected, decision.why, target, slot)


def _topic_names(config: Config, alias: Alias) -> list[TopicName]:
    with ClusterAdmin(config.clusters[alias].access()) as admin:
        return sorted(admin.describe_topics())


def plan_link(config: Config, link: LinkConfig) -> TopicPlan:
    """What `run` would do to the target's topics; changes nothing.

    Raises
    ------
    ConfigError
        Both aliases lead to the same cluster.
    ConnectionLost
        One of the clusters does not answer.
    """
    with (
        ClusterAdmin(config.clusters[link.source].access()) as source_admin,
        ClusterAdmin(config.clusters[link.target].access()) as target_admin,
    ):
        check_distinct_clusters(link, source_admin.cluster_id(), target_admin.cluster_id())
        with closing(LinkState(link, config.clusters[link.target])) as state:
            stored = state.read()
        source, target = observe(source_admin, target_admin, link, stored.mirrors)
        feeds, odd = feeds_at(config.clusters[link.source], source)
        source = replace(source, at_beginning=stored.at_beginning, feeds=feeds)
        plan = plan_beside(
            link,
            source,
            target,
            stored,
            claimed=claims_on(link, source, stored.mirrors, Neighbours(config, link).claims),
            rivals=Rivals(link, config.clusters[link.target], target_admin).claims,
        )
        maps = cache(lambda: read_maps(config.clusters[link.target].access(), LinkName(link.name)))
        note = old_backlog_note(
            plan.mirrors,
            source_admin,
            target_admin,
            SystemClock().wall_ms(),
            lambda mirror, number, end: position_at(maps(), mirror, number, end),
        )
        unfilled = filling_notes(link, {}, why_not_exact(link, target_admin))
        blind = blind_note(link, source_admin)
        gone = gone_lines(
            plan.mirrors,
            stored.starts,
            source_admin,
            target_admin,
            maps,
        )
    notes = (*unfilled, *blind, *odd) if note is None else (*unfilled, *blind, *odd, note)
    return replace(plan, notes=(*plan.notes, *notes), gone=gone)


def link_statuses(config: Config, link_name: str | None = None) -> list[LinkStatus]:
    """How links fare, read from the targets' state topics; from any machine.

    Raises
    ------
    ConnectionLost
        A target does not answer.
    """
    return [_status(config, link) for link in links_of(config, link_name)]


def statuses_apart(
    config: Config, link_name: str | None = None
) -> list[tuple[LinkStatus, HeliostatError | None]]:
    """As `link_statuses`, each link by itself: beside it why its target does not tell."""
    found: list[tuple[LinkStatus, HeliostatError | None]] = []
    for link in links_of(config, link_name):
        try:
            found.append((_status(config, link), None))
        except HeliostatError as error:
            now_ms = SystemClock().wall_ms()
            found.append((unreachable(LinkName(link.name), now_ms, error), error))
    return found


def _status(config: Config, link: LinkConfig) -> LinkStatus:
    name = LinkName(link.name)
    progress = RecentRecords(config.clusters[link.target].access(), progress_topic(name))
    with closing(progress):
        reader = StatusReader(name, progress)
        if progress.exists():
            reader.begin()
        return reader.board.status(SystemClock().wall_ms())
