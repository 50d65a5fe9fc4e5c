"""`heliostat plan`: what a link would do to the target's topics, and what it does not copy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cache, partial

from heliostat.changes import Change
from heliostat.clock import SystemClock
from heliostat.config import Config, LinkConfig
from heliostat.errors import (
    BrokerError,
    RegistryAnswerInvalid,
    RegistryError,
    RegistryUnreachable,
)
from heliostat.gaps.gone_records import gone_lines
from heliostat.gaps.ledger import read_copied
from heliostat.groups.facing import facing_note
from heliostat.link.exact import filling_notes, why_not_exact
from heliostat.link.pipeline_rules import named, pipeline_notes, pipelines_of, topics_of_pipelines
from heliostat.link.places import begins_note, places_note
from heliostat.link.source_starts import OFFSETS_DIFFER, kept_note
from heliostat.link.topic_look import Seen, see
from heliostat.names import LinkName, PartitionId, TopicName, id_text
from heliostat.offsets.offset_map import MapReader
from heliostat.offsets.store import MapsLook
from heliostat.operate.access import planned_rights
from heliostat.operate.apply_parts import GroupsPart
from heliostat.operate.protection import protection_notes
from heliostat.ops.asked import PendingAnswer, asked_at_once
from heliostat.other_links.at_source import blind_note
from heliostat.other_links.same_file import NamesOf
from heliostat.records.copier.pipeline_steps import Pipeline
from heliostat.state.connections import Admins, LinkConnections, connected
from heliostat.state.link_state import Stored
from heliostat.topics.drift import fewer_copies
from heliostat.topics.producer_age import old_backlog_note
from heliostat.topics.topic_plan import Mirror, TopicPlan


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
    groups = PendingAnswer(partial(_publishing, config, link), f"groups of {link.name}")
    with (
        connected(config, link) as both,
        closing(both.state()) as state,
        both.admins({"stored": state.read}) as admins,
    ):
        snapshot = see(
            *(config, link, admins.source, admins.target, names_of),
            connections=both,
            stored=admins.answers["stored"],
        )
        asks: dict[str, Callable[[], tuple[str, ...]]] = {
            "unfilled": lambda: filling_notes(link, {}, why_not_exact(link, admins.target)),
            "blind": partial(blind_note, link, admins.source),
            "backlog": partial(_backlog, both, admins, snapshot.plan.mirrors),
            "gone": partial(_gone, both, admins, snapshot),
            "kept": partial(_kept, both, admins, snapshot.plan),
            "rights": partial(
                planned_rights,
                *(config, link, (admins.source, admins.target), both.target),
                admins.answers["stored"],
            ),
            "protection": partial(
                protection_notes,
                *(config, both, admins.target),
                {mirror.target for mirror in snapshot.plan.mirrors},
            ),
        }
        answers = asked_at_once(asks)
    plan, gone = snapshot.plan, answers.pop("gone")
    plan = replace(plan, rights=answers.pop("rights"))
    piped = pipeline_notes(link, (mirror.source for mirror in plan.mirrors))
    piped += places_note(config, link)
    notes = (
        *answers["unfilled"],
        *answers["blind"],
        *snapshot.odd,
        *piped,
        *answers["backlog"],
        *answers["kept"],
    )
    notes += answers["protection"]
    notes += facing_note(link, snapshot.source, admins.target.cluster_id())
    notes += fewer_copies(_copies(snapshot))
    publish, unread = groups.answer()
    notes += unread
    return replace(plan, notes=(*plan.notes, *notes), gone=gone, publish=publish)


def _publishing(config: Config, link: LinkConfig) -> tuple[tuple[Change, ...], tuple[str, ...]]:
    """Return what would be published for groups, and a note if that is not known."""
    try:
        return GroupsPart(config, link).look().changes, ()
    except BrokerError as error:
        return (), (f"groups can't be looked at: {error}",)


def _copies(snapshot: Seen) -> dict[TopicName, tuple[int, int]]:
    """Return the replicas of mirrors, there or to be created, and those of their sources."""
    there = {name: topic.replication_factor for name, topic in snapshot.target.topics.items()}
    there |= {new_topic.target: new_topic.replication_factor for new_topic in snapshot.plan.create}
    return {
        mirror.target: (
            there[mirror.target],
            snapshot.source.topics[mirror.source].replication_factor,
        )
        for mirror in snapshot.plan.mirrors
        if mirror.target in there
    }


def _backlog(
    both: LinkConnections, admins: Admins[Stored], mirrors: Sequence[Mirror]
) -> tuple[str, ...]:
    """Return a note on records older than brokers remember, if there are some to be copied."""
    maps = cache(lambda: _maps(both, admins))
    note = old_backlog_note(
        mirrors,
        admins.source,
        admins.target,
        SystemClock().wall_ms(),
        lambda mirror, number, end: maps().position_at(
            mirror.mirror_of(number), id_text(mirror.target_id), end
        ),
    )
    return () if note is None else (note,)


def _maps(both: LinkConnections, admins: Admins[Stored]) -> MapReader:
    with closing(MapsLook(both.target, LinkName(both.link.name), admins.target)) as look:
        look.prepare()
        return look.read()


def _gone(both: LinkConnections, admins: Admins[Stored], snapshot: Seen) -> tuple[str, ...]:
    """Return what is gone at the source; its maps are read after its ends, so they are its own."""
    name = LinkName(both.link.name)
    return gone_lines(
        snapshot.plan.mirrors,
        snapshot.stored.starts,
        admins.source,
        admins.target,
        cache(lambda: _maps(both, admins)),
        noted=lambda: read_copied(name, both.target),
    )


def _kept(both: LinkConnections, admins: Admins[Stored], plan: TopicPlan) -> tuple[str, ...]:
    """Return notes on mirrors that would follow deletions if they had the source's offsets."""
    names = {name for name, rule in plan.follow.items() if rule.needs_exact}
    by_default = [mirror for mirror in plan.mirrors if mirror.source in names]
    if not by_default:
        return ()
    maps = _maps(both, admins).maps.items()
    mapped = {name for name, offsets in maps if not (offsets.is_identity or offsets.is_filled)}
    return tuple(
        kept_note(mirror.target, OFFSETS_DIFFER)
        for mirror in by_default
        if any(
            (mirror.mirror_of(PartitionId(number)), id_text(mirror.target_id)) in mapped
            for number in range(mirror.partitions)
        )
    )


def with_pipelines(config: Config, link: LinkConfig, plan: TopicPlan) -> TopicPlan:
    """Return a plan with why pipelines of its topics are refused.

    Starts Spark if records would be rows of it.

    Raises
    ------
    SparkUnavailable
        Spark can't be started.
    """
    topics = topics_of_pipelines(link, (mirror.source for mirror in plan.mirrors))
    used = [pipeline for pipeline in pipelines_of(link).values() if topics[pipeline.name]]
    if not used:
        return plan
    if any(pipeline.avro_steps for pipeline in used):
        used = _with_schemas(config, link, used, topics)
    # Only here: it loads Arrow and PySpark.
    from heliostat.records.spark.frames import refused, refused_in_place

    refusals = refused_in_place(used)
    if of_rows := [pipeline for pipeline in used if not pipeline.is_in_place]:
        from heliostat.records.spark.trial import trial_session

        with trial_session(config.spark.conf) as session:
            begun_s = SystemClock().monotonic_s()
            refusals |= refused(session, of_rows)
        checks_s = SystemClock().monotonic_s() - begun_s
        plan = replace(plan, notes=(*plan.notes, begins_note(config, len(of_rows), checks_s)))
    lines = (f"{why}; not copied: {named(sorted(topics[name]))}" for name, why in refusals.items())
    return replace(plan, pipelines=tuple(lines))


def _with_schemas(
    config: Config,
    link: LinkConfig,
    pipelines: Sequence[Pipeline],
    topics: Mapping[str, frozenset[TopicName]],
) -> list[Pipeline]:
    """Return pipelines with the source's schemas of their topics; without, if it does not answer.

    What `schemas` plans says so then.
    """
    # Only here: it loads Avro and an HTTP client.
    from heliostat.operate.trial import source_schemas, with_source_ids

    try:
        source = source_schemas(config, link, {topic for some in topics.values() for topic in some})
    except (RegistryError, RegistryUnreachable, RegistryAnswerInvalid):
        return list(pipelines)
    return [with_source_ids(source, pipeline, topics[pipeline.name]) for pipeline in pipelines]


def not_copied(config: Config, link: LinkConfig) -> NotCopied:
    """Return which selected topics the link does not copy, and why; changes nothing.

    Raises
    ------
    ConfigError
        Both aliases lead to the same cluster.
    ConnectionLost
        One of the clusters does not answer.
    """
    with (
        connected(config, link) as both,
        closing(both.state()) as state,
        both.admins({"stored": state.read}) as admins,
    ):
        stored = admins.answers["stored"]
        snapshot = see(config, link, admins.source, admins.target, connections=both, stored=stored)
    left_out = snapshot.plan.left_out
    refused = {name: item.text() for name, item in snapshot.plan.refuse.items()}
    if snapshot.stored.at_beginning is None:
        return NotCopied(would_refuse=refused, left_out=left_out)
    return NotCopied(refused, left_out=left_out)
