"""`heliostat schemas`: what of a source's registry is at the target's, and can be read there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from heliostat.clusters.admin import ClusterAdmin
from heliostat.config import Config, LinkConfig
from heliostat.link.pipeline_rules import changed_schemas_of
from heliostat.link.schema_rules import frames_in, frames_of, rules_of
from heliostat.link.topic_look import see
from heliostat.names import LinkName, TopicName
from heliostat.operate.derived_schemas import DerivedSchema, derived_schemas
from heliostat.operate.links import links_of
from heliostat.records.copier.lane import SchemaFrames
from heliostat.schemas import (
    HttpRegistry,
    SchemaPlan,
    SchemaRow,
    SchemaRules,
    observe_registry,
    plan_schemas,
    schema_rows,
    verify_ids,
)
from heliostat.schemas.content import RegistryContent, fingerprint_alone
from heliostat.schemas.mirroring import plan_with_settings
from heliostat.schemas.registry.values import Schema, SchemaId
from heliostat.schemas.status import IdDifference, SchemaState
from heliostat.verify.schema_ids import MirroredIds


@dataclass(frozen=True, slots=True)
class LinkSchemas:
    """The schemas of one link, as they are now."""

    link: LinkName
    strategy: str
    rows: tuple[SchemaRow, ...]
    plan: SchemaPlan
    derived: tuple[DerivedSchema, ...] = ()
    """What pipelines make of schemas."""

    @property
    def in_sync(self) -> bool:
        """Whether all that the link mirrors is at the target, and what its pipelines make of it."""
        settled = (SchemaState.MIRRORED, SchemaState.MAPPED, SchemaState.LEFT_OUT)
        is_settled = all(row.state in settled for row in self.rows)
        is_derived = all(schema.target_id is not None for schema in self.derived)
        return not self.plan.actions and is_settled and is_derived

    def to_json(self) -> dict[str, Any]:
        """Return it for `--json`."""
        return {
            "link": self.link,
            "strategy": self.strategy,
            "in_sync": self.in_sync,
            "versions": [row_json(row) for row in self.rows],
            "derived": [schema.to_json() for schema in self.derived],
            "notes": list(self.plan.notes),
        }


def row_json(row: SchemaRow) -> dict[str, Any]:
    """Return a version for `--json`."""
    return {
        "subject": row.of.subject,
        "version": row.of.version,
        "id": row.schema_id,
        "is_deleted": row.is_deleted,
        "state": row.state.value,
        "target_subjects": list(row.names),
        "target_id": row.target_id,
        "code": row.code,
        "reason": row.reason,
        "hint": row.hint,
    }


def link_schemas(config: Config, link_name: str | None) -> list[LinkSchemas]:
    """Return the schemas of all links that mirror any; changes nothing.

    Raises
    ------
    RegistryError, RegistryUnreachable, RegistryAnswerInvalid
        A registry does not answer, or refuses.
    ConnectionLost
        One of the clusters does not answer.
    """
    return [_link_schemas(config, link) for link in _with_schemas(config, link_name)]


def _link_schemas(config: Config, link: LinkConfig) -> LinkSchemas:
    with registries_of(config, link) as (source, target):
        snapshot = _look(config, link, source, target)
        derived = derived_schemas(link, snapshot.mirrors, snapshot.content, target)
    return LinkSchemas(
        LinkName(link.name), snapshot.rules.strategy.value, snapshot.rows, snapshot.plan, derived
    )


def _with_schemas(config: Config, link_name: str | None) -> Iterator[LinkConfig]:
    return (link for link in links_of(config, link_name) if link.schemas.strategy != "off")


@dataclass(frozen=True, slots=True)
class LinkVerified:
    """What a comparison by id has found."""

    link: LinkName
    ids: int
    differences: tuple[IdDifference, ...]
    missing: tuple[SchemaRow, ...]
    """Versions that are not at the target."""


def verify_schemas(config: Config, link_name: str | None) -> Iterator[LinkVerified]:
    """Compare what each mirrored id means at the source and at each address of the target.

    Raises
    ------
    RegistryError, RegistryUnreachable, RegistryAnswerInvalid
        A registry does not answer, or refuses.
    ConnectionLost
        One of the clusters does not answer.
    """
    for link in _with_schemas(config, link_name):
        with registries_of(config, link) as (source, target):
            snapshot = _look(config, link, source, target)
            differences = tuple(verify_ids(snapshot.plan.ids, source, target, snapshot.rules))
        gone = (SchemaState.MISSING, SchemaState.REFUSED)
        missing = tuple(row for row in snapshot.rows if row.state in gone)
        yield LinkVerified(LinkName(link.name), len(snapshot.plan.ids), differences, missing)


class SeenRegistries(NamedTuple):
    """What both registries have, and what is to be done at the target's."""

    source: RegistryContent
    target: RegistryContent
    mirrors: Mapping[TopicName, TopicName]
    rules: SchemaRules
    plan: SchemaPlan


def seen_registries(
    config: Config, link: LinkConfig, former: Mapping[TopicName, TopicName] | None = None
) -> SeenRegistries:
    """Read both registries of a link whole, and plan; changes nothing.

    Parameters
    ----------
    former
        Mirrors that were given away and are to be seen all the same: target topics by source topic.

    Raises
    ------
    RegistryError, RegistryUnreachable, RegistryAnswerInvalid
        A registry does not answer, or refuses.
    ConnectionLost
        One of the clusters does not answer.
    """
    with registries_of(config, link) as (source, target):
        there = observe_registry(source)
        mirrors, topics = _topics(config, link)
        mirrors |= former or {}
        rules = rules_of(link, mirrors, topics)(there)
        content = observe_registry(target)
    return SeenRegistries(there, content, mirrors, rules, plan_schemas(there, content, rules))


def mirrored_ids(config: Config, link: LinkConfig) -> MirroredIds:
    """Return which schema ids a link's mirrors have instead of the source's, as of now.

    Not of keys or values that a pipeline changes: what it makes has the target's id already.

    Raises
    ------
    RegistryError, RegistryUnreachable, RegistryAnswerInvalid
        A registry does not answer, or refuses.
    ConnectionLost
        One of the clusters does not answer.
    """
    there, content, mirrors, rules, plan = seen_registries(config, link)
    subject_frames = frames_in(there, mirrors)
    frames = {
        topic: frames_of(link.schemas, topic, subject_frames) & ~changed_schemas_of(link, topic)
        for topic in mirrors
    }
    return MirroredIds.of(
        {int(own): int(at_target) for own, at_target in plan.ids.items()},
        _alike(content.ids(rules.naming.context), plan.ids.values()),
        keys=(topic for topic, topic_frames in frames.items() if SchemaFrames.KEYS in topic_frames),
        values=(
            topic for topic, topic_frames in frames.items() if SchemaFrames.VALUES in topic_frames
        ),
        headers=(topic for topic, topic_frames in frames.items() if topic_frames),
        guids=plan.guids,
    )


def _alike(content: Mapping[SchemaId, Schema], used: Iterable[SchemaId]) -> dict[int, int]:
    """Return ids that mean the same as another one, and that: one that is used, if any is."""
    standing = {fingerprint_alone(content[used_id]): used_id for used_id in used}
    same_ids: dict[int, int] = {}
    for schema_id, schema in sorted(content.items(), key=lambda item: item[0]):
        other = standing.setdefault(fingerprint_alone(schema), schema_id)
        if other != schema_id:
            same_ids[schema_id] = other
    return same_ids


class _Seen(NamedTuple):
    """The source's registry, and what is to be done at the target's."""

    content: RegistryContent
    mirrors: Mapping[TopicName, TopicName]
    rules: SchemaRules
    plan: SchemaPlan
    rows: tuple[SchemaRow, ...]


def _look(config: Config, link: LinkConfig, source: HttpRegistry, target: HttpRegistry) -> _Seen:
    there = observe_registry(source)
    mirrors, topics = _topics(config, link)
    rules = rules_of(link, mirrors, topics)(there)
    plan = plan_with_settings(there, target, rules)
    return _Seen(there, mirrors, rules, plan, schema_rows(there, plan, rules))


def _topics(
    config: Config, link: LinkConfig
) -> tuple[dict[TopicName, TopicName], tuple[TopicName, ...]]:
    """Return the link's mirrors, those that it would make included, and the source's topics."""
    with (
        ClusterAdmin(config.clusters[link.source].access()) as source,
        ClusterAdmin(config.clusters[link.target].access()) as target,
    ):
        snapshot = see(config, link, source, target)
    mirrors = {name: record.target for name, record in snapshot.stored.mirrors.items()}
    mirrors |= {mirror.source: mirror.target for mirror in snapshot.plan.mirrors}
    return mirrors, snapshot.source.names


@contextmanager
def registries_of(config: Config, link: LinkConfig) -> Iterator[tuple[HttpRegistry, HttpRegistry]]:
    """Yield the registries of a link's source and target."""
    source = config.clusters[link.source].registry_access()
    target = config.clusters[link.target].registry_access()
    assert source is not None, "the configuration's checks"
    assert target is not None, "the configuration's checks"
    with HttpRegistry(source) as source_registry, HttpRegistry(target) as other:
        yield source_registry, other
