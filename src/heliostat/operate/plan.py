"""`heliostat plan`: what a link would do to the target's topics, and what it does not copy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache

from heliostat.clock import SystemClock
from heliostat.clusters.admin import ClusterAdmin
from heliostat.config import Config, LinkConfig, check_distinct_clusters
from heliostat.gaps.gone_records import gone_lines
from heliostat.gaps.ledger import read_copied
from heliostat.link.exact import filling_notes, why_not_exact
from heliostat.link.pipeline_rules import named, pipeline_notes, pipelines_of, topics_of_pipelines
from heliostat.link.topic_look import see
from heliostat.names import LinkName, TopicName, id_text
from heliostat.offsets.store import read_maps
from heliostat.other_links.at_source import blind_note
from heliostat.other_links.same_file import NamesOf
from heliostat.topics.producer_age import old_backlog_note
from heliostat.topics.topic_plan import TopicPlan


@dataclass(frozen=True, slots=True)
class NotCopied:
    """Selected source topics that a link does not copy, with the reason."""

    refused: Mapping[TopicName, str] = field(default_factory=dict)
    """Topics that it refuses now that it has mirrored, or would have."""
    would_refuse: Mapping[TopicName, str] = field(default_factory=dict)
    """Topics that it would refuse if it ran, of a link without state: their mirrors are another's,
    or its own state is gone. A comparison may be meant to show whose they are."""
    left_out: Mapping[TopicName, str] = field(default_factory=dict)
    """Topics whose records come from the target."""


def plan_link(config: Config, link: LinkConfig, names_of: NamesOf | None = None) -> TopicPlan:
    """Return what `run` would do to the target's topics; changes nothing.

    Parameters
    ----------
    names_of
        Returns the topics of other links' sources; by default each is asked.

    Raises
    ------
    ConfigError
        Both aliases lead to the same cluster.
    ConnectionLost
        One of the clusters does not answer.
    """
    with _admins(config, link) as (source_admin, target_admin):
        seen = see(config, link, source_admin, target_admin, names_of)
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
            noted=lambda: read_copied(LinkName(link.name), config.clusters[link.target].access()),
        )
    piped = pipeline_notes(link, (mirror.source for mirror in plan.mirrors))
    notes = (*unfilled, *odd, *piped, *(() if note is None else (note,)))
    return replace(plan, notes=(*plan.notes, *notes), gone=gone)


def with_pipelines(config: Config, link: LinkConfig, plan: TopicPlan) -> TopicPlan:
    """Return a plan with why pipelines of its topics are refused.

    Starts Spark if records would be rows of it.

    Raises
    ------
    SparkUnavailable
        Spark can't be started.
    """
    topics = topics_of_pipelines(link, (mirror.source for mirror in plan.mirrors))
    used = [each for each in pipelines_of(link).values() if topics[each.name]]
    if not used:
        return plan
    # Only here: it loads Arrow and PySpark.
    from heliostat.records.spark.frames import refused, refused_in_place

    found = refused_in_place(used)
    if of_rows := [each for each in used if not each.is_in_place]:
        from heliostat.records.spark.trial import trial_session

        with trial_session(config.spark.conf) as session:
            found |= refused(session, of_rows)
    lines = (f"{why}; not copied: {named(sorted(topics[name]))}" for name, why in found.items())
    return replace(plan, pipelines=tuple(lines))


def not_copied(config: Config, link: LinkConfig) -> NotCopied:
    """Return which selected topics the link does not copy, and why; changes nothing.

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
    refused = {name: item.text() for name, item in seen.plan.refuse.items()}
    if seen.stored.at_beginning is None:
        return NotCopied(would_refuse=refused, left_out=left_out)
    return NotCopied(refused, left_out=left_out)


@contextmanager
def _admins(config: Config, link: LinkConfig) -> Iterator[tuple[ClusterAdmin, ClusterAdmin]]:
    """Open admin connections to source and target, which must be different clusters."""
    with (
        ClusterAdmin(config.clusters[link.source].access()) as source,
        ClusterAdmin(config.clusters[link.target].access()) as target,
    ):
        check_distinct_clusters(link, source.cluster_id(), target.cluster_id())
        yield source, target
