"""The verbs of an operator; command line, API and user interface call these and add no logic."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial

from heliostat.clock import SystemClock
from heliostat.clusters.admin import ClusterAdmin
from heliostat.clusters.recent_records import RecentRecords
from heliostat.clusters.wire.cluster import WireCluster
from heliostat.clusters.wire.connection import DialSettings
from heliostat.config import Config, LinkConfig, check_distinct_clusters
from heliostat.errors import BrokerError, ConfigError, ConnectionLost, HeliostatError
from heliostat.gaps.gone_records import gone_lines
from heliostat.link.exact import filling_notes, why_not_exact
from heliostat.link.topic_look import see
from heliostat.names import Alias, LinkName, TopicName, id_text
from heliostat.offsets.store import read_maps
from heliostat.ops.asked import NoAnswerYet, PendingAnswer
from heliostat.other_links.at_source import blind_note
from heliostat.slots import WHOLE_TOPIC, Slot
from heliostat.state.link_state import LinkState, progress_topic
from heliostat.status.board import unreachable
from heliostat.status.reader import StatusReader
from heliostat.status.values import LinkStatus
from heliostat.topics.naming import naming_of
from heliostat.topics.producer_age import old_backlog_note
from heliostat.topics.select import selection_of
from heliostat.topics.topic_plan import TopicPlan

STATUS_WITHIN_S = 10.0
"""Time enough for many thousand mirrors; who leads the state topics may hang."""
PROBE_S = 1.5


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


@dataclass(frozen=True, slots=True)
class NotCopied:
    """Selected source topics that a link does not copy, and why."""

    refused: Mapping[TopicName, str] = field(default_factory=dict)
    left_out: Mapping[TopicName, str] = field(default_factory=dict)
    """Their records come from the target."""


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


def link_of(config: Config, link_name: str | None) -> LinkConfig:
    """The named link, or the only one there is.

    Raises
    ------
    ConfigError
        There is no such link, or there are several and none was named.
    """
    links = links_of(config, link_name)
    if len(links) > 1:
        names = ", ".join(link.name for link in links)
        raise ConfigError("there are several links", hint=f"name one with --link: {names}")
    return links[0]


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
    with _admins(config, link) as (source_admin, target_admin):
        seen = see(config, link, source_admin, target_admin)
        stored, plan = seen.stored, seen.plan
        maps = cache(lambda: read_maps(config.clusters[link.target].access(), LinkName(link.name)))
        note = old_backlog_note(
            plan.mirrors,
            source_admin,
            target_admin,
            SystemClock().wall_ms(),
            lambda mirror, number, end: maps().position_at(
                mirror.mirror_of(number), id_text(mirror.target_id), end
            ),
        )
        unfilled = filling_notes(link, {}, why_not_exact(link, target_admin))
        odd = (*blind_note(link, source_admin), *seen.odd)
        gone = gone_lines(
            plan.mirrors,
            stored.starts,
            source_admin,
            target_admin,
            maps,
        )
    notes = (*unfilled, *odd) if note is None else (*unfilled, *odd, note)
    return replace(plan, notes=(*plan.notes, *notes), gone=gone)


def not_copied(config: Config, link: LinkConfig) -> NotCopied:
    """Which selected topics the link does not copy, and why; changes nothing.

    A link that has never run, or whose state is gone, refuses nothing: whose a mirror is may be
    just what is asked then.

    Raises
    ------
    ConfigError
        Both aliases lead to the same cluster.
    ConnectionLost
        One of the clusters does not answer.
    """
    with _admins(config, link) as (source_admin, target_admin):
        seen = see(config, link, source_admin, target_admin)
    left_out = seen.plan.left_out
    if seen.stored.at_beginning is None:
        return NotCopied(left_out=left_out)
    return NotCopied({name: item.text() for name, item in seen.plan.refuse.items()}, left_out)


@contextmanager
def _admins(config: Config, link: LinkConfig) -> Iterator[tuple[ClusterAdmin, ClusterAdmin]]:
    """Clients of the link's source and target, which must be two."""
    with (
        ClusterAdmin(config.clusters[link.source].access()) as source,
        ClusterAdmin(config.clusters[link.target].access()) as target,
    ):
        check_distinct_clusters(link, source.cluster_id(), target.cluster_id())
        yield source, target


def link_statuses(config: Config, link_name: str | None = None) -> list[LinkStatus]:
    """How links fare, read from the targets' state topics; from any machine.

    Raises
    ------
    ConnectionLost
        A target does not answer.
    """
    found = statuses_apart(config, link_name)
    for _, error in found:
        if error is not None:
            raise error
    return [status for status, _ in found]


def statuses_apart(
    config: Config, link_name: str | None = None
) -> list[tuple[LinkStatus, HeliostatError | None]]:
    """As `link_statuses`, each link by itself: beside it why its target does not tell.

    Links are looked at side by side, and none for longer than `STATUS_WITHIN_S` and a probe.
    """
    looks = [StatusLook(config, link) for link in links_of(config, link_name)]
    until_s = time.monotonic() + STATUS_WITHIN_S
    return [look.status(max(0.0, until_s - time.monotonic())) for look in looks]


class StatusLook:
    """A look at one link's state topics, on a thread of its own: their leader may hang."""

    def __init__(self, config: Config, link: LinkConfig) -> None:
        self._config = config
        self._link = link
        self._asked = PendingAnswer(partial(_status, config, link), f"{link.name} look")

    def status(self, within_s: float) -> tuple[LinkStatus, HeliostatError | None]:
        """What it has found within that time, or why there is nothing, naming who hangs."""
        error: HeliostatError | None = None
        try:
            return self._asked.answer(within_s), None
        except NoAnswerYet:
            pass
        except HeliostatError as found:
            error = found
        if error is None or isinstance(error, (ConnectionLost, BrokerError)):
            error = self._hung() or error or ConnectionLost("the target's answers take too long")
        now_ms = SystemClock().wall_ms()
        return unreachable(LinkName(self._link.name), now_ms, error), error

    def _hung(self) -> ConnectionLost | None:
        access = self._config.clusters[self._link.target].access()
        settings = DialSettings("heliostat-status", request_timeout_s=PROBE_S)
        with closing(WireCluster(access, settings)) as target:
            with suppress(ConnectionLost):
                target.metadata([])
            hung = ", ".join(str(each) for each in target.silent(PROBE_S))
        if not hung:
            return None
        return ConnectionLost(
            f"how link {self._link.name} fares can't be read: {hung} of {access.described} takes "
            "connections and does not answer",
            hint="the broker hangs: see its machine and disk; other brokers lead its topics once "
            "the cluster's controllers have missed it",
        )


def _status(config: Config, link: LinkConfig) -> LinkStatus:
    name = LinkName(link.name)
    progress = RecentRecords(config.clusters[link.target].access(), progress_topic(name))
    with closing(progress):
        reader = StatusReader(name, progress)
        if progress.exists():
            reader.begin()
            with closing(LinkState(link, config.clusters[link.target])) as state:
                reader.board.know_stops(state.read_stops())
        return reader.board.status(SystemClock().wall_ms())
