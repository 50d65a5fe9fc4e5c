"""Reads a registry's whole content.

Confluent's registries give it in pages of 1,000 versions (`GET /schemas`). Others, as Apicurio,
lack that request, and are asked for each subject and version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, TypeVar

from heliostat.errors import RegistryError
from heliostat.ops.asked import asked_at_once
from heliostat.schemas.content import EVERYWHERE, RegistryContent, VersionContent
from heliostat.schemas.registry import calls, error_codes
from heliostat.schemas.registry.messages import Call
from heliostat.schemas.registry.values import (
    DEFAULT_CONTEXT,
    Compatibility,
    Mode,
    RegisteredSchema,
    SchemaVersion,
    Subject,
    SubjectVersion,
    join_subject,
    split_subject,
)

T = TypeVar("T")

NO_SUBJECT = Subject("")
"""Stands for the default context's settings."""
LISTED_MAX = 1_000
"""Apicurio 2.5 lists no more subjects, says nothing of it, and ignores an offset (2026-11-25)."""
PAGES_MAX = 10_000
"""Ten million versions; a registry that ignores the offset is found after two pages."""


class Registry(Protocol):
    """Who sends a call; see `HttpRegistry`."""

    @property
    def at_once(self) -> int:
        """How many calls to have under way."""
        ...

    def ask(self, call: Call[T]) -> T:
        """Send a request and give its answer."""
        ...


def observe_registry(
    registry: Registry,
    wanted: Iterable[Subject] = (),
    levels_of: Iterable[Subject] = (),
    modes_of: Iterable[Subject] = (),
) -> RegistryContent:
    """Read all versions of all subjects, soft-deleted ones among them, and settings.

    Parameters
    ----------
    registry
        Who is asked.
    wanted
        Subjects to read even if they are not listed, and with their mode, which no registry lists:
        a few requests each. A plan made without them says which matter (`SchemaPlan.touched`).
    levels_of
        Subjects whose compatibility is wanted, which no registry lists either: a request each
        (`SchemaPlan.levelled`).
    modes_of
        More subjects and contexts whose mode is wanted (`SchemaPlan.doubtful`).

    Raises
    ------
    RegistryError, RegistryUnreachable, RegistryAnswerInvalid
        As the registry's adapter raises them.
    """
    names, levelled = set(wanted), set(levels_of)
    asks: dict[str, Callable[[], Any]] = {
        "versions": partial(_all_versions, registry, names),
        "mode": partial(_mode, registry),
        "own": partial(_own_levels, registry, levelled),
        "level": partial(registry.ask, calls.compatibility(inherited=True)),
    }
    (versions, is_cut), mode, own, level = asked_at_once(asks).values()
    modes = dict[Subject, Mode]()
    if mode is not None:
        contexts = {join_subject(split_subject(place.subject)[0], "") for place in versions}
        scopes = {*names, *modes_of, *contexts, EVERYWHERE}
        modes = {NO_SUBJECT: mode, **own_modes(registry, scopes)}
    rest = levelled - own.keys()
    in_contexts = {subject for subject in rest if split_subject(subject)[0] != DEFAULT_CONTEXT}
    levels = dict.fromkeys(rest - in_contexts, level) | _levels(registry, in_contexts) | own
    has_modes, set_there = mode is not None, frozenset(own)
    return RegistryContent(versions, has_modes, modes, levels, level, is_cut, set_there)


def own_modes(registry: Registry, scopes: Iterable[Subject]) -> dict[Subject, Mode]:
    """Read the modes that subjects and contexts have of their own: a request each.

    Raises
    ------
    RegistryError, RegistryUnreachable, RegistryAnswerInvalid
        As the registry's adapter raises them.
    """
    asked = set(scopes) - {NO_SUBJECT}
    modes = _each(registry, asked, lambda scope: _setting(registry, calls.mode(scope)))
    return {scope: mode for scope, mode in modes.items() if mode}


def _mode(registry: Registry) -> Mode | None:
    """The default context's mode; None from a registry that has no modes."""
    try:
        return registry.ask(calls.mode())
    except RegistryError as error:
        if error.registry_code not in error_codes.NO_SUCH_REQUEST:
            raise
        return None


def _each(
    registry: Registry, subjects: Iterable[Subject], ask: Callable[[Subject], T]
) -> dict[Subject, T]:
    """Ask about each subject, as many at once as the registry takes."""
    asked = sorted(subjects)
    if not asked:
        return {}
    with ThreadPoolExecutor(min(registry.at_once, len(asked))) as threads:
        return dict(zip(asked, threads.map(ask, asked), strict=True))


def with_levels_of(
    content: RegistryContent, registry: Registry, subjects: Iterable[Subject]
) -> RegistryContent:
    """Add the compatibility in effect for subjects: a request each.

    Raises
    ------
    RegistryError, RegistryUnreachable, RegistryAnswerInvalid
        As the registry's adapter raises them.
    """
    return replace(content, compatibilities=_levels(registry, subjects))


def _own_levels(registry: Registry, subjects: Iterable[Subject]) -> dict[Subject, Compatibility]:
    levels = _each(
        registry, subjects, lambda subject: _setting(registry, calls.compatibility(subject))
    )
    return {subject: level for subject, level in levels.items() if level}


def _levels(registry: Registry, subjects: Iterable[Subject]) -> dict[Subject, Compatibility]:
    def ask(subject: Subject) -> Compatibility | None:
        return _setting(registry, calls.compatibility(subject, inherited=True))

    levels = _each(registry, subjects, ask)
    return {subject: level for subject, level in levels.items() if level}


def _all_versions(
    registry: Registry, wanted: set[Subject]
) -> tuple[dict[SubjectVersion, VersionContent], bool]:
    """All versions, and whether there may be more subjects.

    Pages may miss a version, as others are deleted between two of them. So deleted is only what its
    subject says is, and `wanted` subjects are compared with what they have.
    """
    try:
        schemas, alive = asked_at_once(
            {deleted: partial(_pages, registry, deleted=deleted) for deleted in (True, False)}
        ).values()
    except RegistryError as error:
        if error.registry_code not in error_codes.NO_SUCH_REQUEST:
            raise
        listed = registry.ask(calls.subjects(deleted=True))
        return _of_subjects(registry, {*listed, *wanted}, {}), len(listed) == LISTED_MAX
    schemas |= alive
    doubtful = {place.subject for place in schemas if place not in alive} | wanted
    sure = {
        place: VersionContent(schema.schema_id, schema.schema, guid=schema.guid)
        for place, schema in schemas.items()
        if place.subject not in doubtful
    }
    versions = sure | _of_subjects(registry, doubtful, schemas)
    return dict(sorted(versions.items(), key=lambda item: item[0])), False


def _pages(registry: Registry, *, deleted: bool) -> dict[SubjectVersion, RegisteredSchema]:
    schemas: dict[SubjectVersion, RegisteredSchema] = {}
    for _ in range(PAGES_MAX):
        page = registry.ask(calls.schemas(deleted=deleted, offset=len(schemas)))
        before = len(schemas)
        schemas |= {SubjectVersion(schema.subject, schema.version): schema for schema in page}
        if len(schemas) == before:
            break
    return schemas


def _of_subjects(
    registry: Registry, subjects: set[Subject], schemas: Mapping[SubjectVersion, RegisteredSchema]
) -> dict[SubjectVersion, VersionContent]:
    parts = _each(registry, subjects, lambda subject: _of_subject(registry, subject, schemas))
    return {place: content for part in parts.values() for place, content in part.items()}


def _of_subject(
    registry: Registry, subject: Subject, schemas: Mapping[SubjectVersion, RegisteredSchema]
) -> dict[SubjectVersion, VersionContent]:
    """All versions of a subject that can be read; those in `schemas` are not asked for.

    Apicurio lists the versions of a wholly deleted subject, and refuses to show them.
    """
    numbers = _or_none(registry, calls.versions(subject, deleted=True))
    alive = set(_or_none(registry, calls.versions(subject))) if numbers else set()
    contents = {}
    for number in numbers:
        place = SubjectVersion(subject, number)
        try:
            schema = schemas.get(place) or registry.ask(
                calls.version(subject, number, deleted=True)
            )
        except RegistryError as error:
            if error.registry_code not in error_codes.NOT_FOUND:
                raise
            continue
        is_deleted = number not in alive
        contents[place] = VersionContent(schema.schema_id, schema.schema, is_deleted, schema.guid)
    return contents


def _or_none(
    registry: Registry, call: Call[tuple[SchemaVersion, ...]]
) -> tuple[SchemaVersion, ...]:
    try:
        return registry.ask(call)
    except RegistryError as error:
        if error.registry_code not in error_codes.NOT_FOUND:
            raise
        return ()  # deleted meanwhile, or wholly


def _setting(registry: Registry, call: Call[T]) -> T | None:
    try:
        return registry.ask(call)
    except RegistryError as error:
        if error.registry_code not in error_codes.NOT_FOUND | error_codes.NOT_CONFIGURED:
            raise
        return None
