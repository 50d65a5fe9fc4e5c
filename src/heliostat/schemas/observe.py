"""Reads a registry's whole content.

Confluent's registries give it in pages of 1,000 versions (`GET /schemas`). Others, as Apicurio,
lack that request, and are asked for each subject and version.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

from heliostat.errors import RegistryError
from heliostat.schemas.content import EVERYWHERE, RegistryContent, VersionContent
from heliostat.schemas.registry import calls, error_codes
from heliostat.schemas.registry.messages import Call
from heliostat.schemas.registry.values import (
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
ASKED_AT_ONCE = 8
"""Requests in flight to a registry that is asked for each version."""
LISTED_MAX = 1_000
"""Apicurio 2.5 lists no more subjects, says nothing of it, and ignores an offset (2026-11-25)."""
PAGES_MAX = 10_000
"""Ten million versions; a registry that ignores the offset is found after two pages."""


class Registry(Protocol):
    """Who sends a call; see `HttpRegistry`."""

    def ask(self, call: Call[T]) -> T:
        """Send a request and give its answer."""
        ...


def observe_registry(registry: Registry, wanted: Iterable[Subject] = ()) -> RegistryContent:
    """Read all versions of all subjects, soft-deleted ones among them, and settings.

    Parameters
    ----------
    registry
        Who is asked.
    wanted
        Subjects to read even if they are not listed, and with their mode and compatibility, which
        no registry lists: a few requests each. A plan made without them says which matter
        (`SchemaPlan.touched`).

    Raises
    ------
    RegistryError, RegistryUnreachable, RegistryAnswerInvalid
        As the registry's adapter raises them.
    """
    names = set(wanted)
    versions, is_cut = _all_versions(registry, names)
    contexts = {join_subject(split_subject(each.subject)[0], "") for each in versions}
    subjects = sorted(names)
    modes: dict[Subject, Mode] | None
    with ThreadPoolExecutor(ASKED_AT_ONCE) as threads:
        try:
            modes = {NO_SUBJECT: registry.ask(calls.mode())}
        except RegistryError as error:
            if error.registry_code not in error_codes.NO_SUCH_REQUEST:
                raise
            modes = None
        else:
            scopes = sorted({*names, *contexts, EVERYWHERE} - {NO_SUBJECT})
            found = threads.map(lambda scope: _setting(registry, calls.mode(scope)), scopes)
            modes |= {scope: mode for scope, mode in zip(scopes, found, strict=True) if mode}
        levels = threads.map(
            lambda subject: _setting(registry, calls.compatibility(subject, inherited=True)),
            subjects,
        )
        return RegistryContent(
            versions,
            modes is not None,
            modes or {},
            {subject: level for subject, level in zip(subjects, levels, strict=True) if level},
            registry.ask(calls.compatibility()),
            is_cut,
        )


def _all_versions(
    registry: Registry, wanted: set[Subject]
) -> tuple[dict[SubjectVersion, VersionContent], bool]:
    try:
        alive = _pages(registry, deleted=False)
        found = {**_pages(registry, deleted=True), **alive}
    except RegistryError as error:
        if error.registry_code not in error_codes.NO_SUCH_REQUEST:
            raise
        return _one_by_one(registry, wanted)
    versions = {
        place: VersionContent(each.schema_id, each.schema, place not in alive)
        for place, each in sorted(found.items(), key=lambda item: item[0])
    }
    return versions, False


def _pages(registry: Registry, *, deleted: bool) -> dict[SubjectVersion, RegisteredSchema]:
    found: dict[SubjectVersion, RegisteredSchema] = {}
    for _ in range(PAGES_MAX):
        page = registry.ask(calls.schemas(deleted=deleted, offset=len(found)))
        before = len(found)
        found |= {SubjectVersion(each.subject, each.version): each for each in page}
        if len(found) == before:
            break
    return found


def _one_by_one(
    registry: Registry, wanted: set[Subject]
) -> tuple[dict[SubjectVersion, VersionContent], bool]:
    """Ask for each subject that is listed or wanted; and whether the list may be cut."""
    found = registry.ask(calls.subjects(deleted=True))
    subjects = sorted({*found, *wanted})
    with ThreadPoolExecutor(ASKED_AT_ONCE) as threads:
        parts = threads.map(lambda subject: _of_subject(registry, subject), subjects)
        versions = {place: content for part in parts for place, content in part.items()}
    return versions, len(found) == LISTED_MAX


def _of_subject(registry: Registry, subject: Subject) -> dict[SubjectVersion, VersionContent]:
    """All versions of a subject that can be read.

    Apicurio lists the versions of a wholly deleted subject, and refuses to show them.
    """
    alive = set(_or_none(registry, calls.versions(subject)))
    found = {}
    for number in _or_none(registry, calls.versions(subject, deleted=True)):
        try:
            each = registry.ask(calls.version(subject, number, deleted=True))
        except RegistryError as error:
            if error.registry_code not in error_codes.NOT_FOUND:
                raise
            continue
        content = VersionContent(each.schema_id, each.schema, number not in alive)
        found[SubjectVersion(subject, number)] = content
    return found


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
