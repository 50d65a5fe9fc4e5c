"""Opens what a link has closed with mode IMPORT to producers of the target, and closes it again.

A mode that a subject has of its own is the record of both: IMPORT was set by the link, READWRITE by
who opened it. So the wish lasts as long as the registry, and the link reads it there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from heliostat.names import TopicName
from heliostat.schemas.content import RegistryContent
from heliostat.schemas.naming import named_after
from heliostat.schemas.observe import NO_SUBJECT
from heliostat.schemas.others import OtherVersions, numbers_text
from heliostat.schemas.planning import used_by
from heliostat.schemas.registry.values import Mode, Subject

_BY_HAND = "if producers are to register there, set it to READWRITE yourself"


@dataclass(frozen=True, slots=True)
class ModeChange:
    """A subject or context of the target whose mode is changed."""

    scope: Subject
    was: Mode
    now: Mode


@dataclass(frozen=True, slots=True)
class NotChanged:
    """A subject or context that keeps a mode that is in the way, and why."""

    scope: Subject
    mode: Mode
    reason: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class OpeningPlan:
    """What is to be opened or closed, and what can't be; notes are for people."""

    changes: tuple[ModeChange, ...] = ()
    kept: tuple[NotChanged, ...] = ()
    notes: tuple[str, ...] = ()


def only_named_after(
    plan: OpeningPlan, topics: Collection[TopicName]
) -> tuple[OpeningPlan, OpeningPlan]:
    """Return a plan of the subjects named after these topics, and one of all others: contexts, too.

    Parameters
    ----------
    topics
        Names at either side: a subject may have both.
    """
    own = [change for change in plan.changes if named_after(change.scope) in topics]
    others = [change for change in plan.changes if change not in own]
    return replace(plan, changes=tuple(own)), OpeningPlan(tuple(others))


def with_references(target: RegistryContent, subjects: Collection[Subject]) -> set[Subject]:
    """Subjects of the target, and those that their schemas refer to."""
    versions: dict[Subject, list[Subject]] = {}
    for of, content in target.versions.items():
        used = (used_by(of, reference).subject for reference in content.schema.references)
        versions.setdefault(of.subject, []).extend(used)
    all_of_them, following = set(subjects), list(subjects)
    while following:
        new = set(versions.get(following.pop(), ())) - all_of_them
        all_of_them |= new
        following += new
    return all_of_them


def plan_opening(target: RegistryContent, scopes: Collection[Subject]) -> OpeningPlan:
    """Open all that has mode IMPORT of its own.

    Parameters
    ----------
    target
        The registry, with the modes of the scopes.
    scopes
        Subjects or contexts that the link writes.
    """
    changes, kept = list[ModeChange](), list[NotChanged]()
    inherited: dict[Mode, list[Subject]] = {}
    for scope in sorted(scopes):
        own, mode = target.modes.get(scope), target.mode(scope)
        if own is Mode.IMPORT:
            changes.append(ModeChange(scope, own, Mode.READWRITE))
        elif own is not None and own is not Mode.READWRITE:
            kept.append(NotChanged(scope, mode, "no link has set that", _BY_HAND))
        elif mode is not Mode.READWRITE:
            inherited.setdefault(mode, []).append(scope)
    for mode, below in inherited.items():
        reason = f"no link has set that; it counts for {below[0]} and {len(below) - 1} more"
        kept.append(NotChanged(NO_SUBJECT, mode, reason, _BY_HAND))
    return OpeningPlan(tuple(changes), tuple(kept))


def plan_closing(
    target: RegistryContent, scopes: Collection[Subject], others: OtherVersions
) -> OpeningPlan:
    """Close what is open, and has versions of the source.

    Parameters
    ----------
    target, scopes
        See `plan_opening`.
    others
        Knows the versions that are not the source's.
    """
    changes, notes = list[ModeChange](), list[str]()
    for scope in sorted(scopes):
        subjects = others.subjects_of(scope)
        is_of_source = any(others.has_own(subject) for subject in subjects)
        if target.modes.get(scope) is Mode.READWRITE and is_of_source:
            changes.append(ModeChange(scope, Mode.READWRITE, Mode.IMPORT))
            notes += _unreturned(subjects, others)
    return OpeningPlan(tuple(changes), (), tuple(notes))


def _unreturned(subjects: Collection[Subject], others: OtherVersions) -> Iterator[str]:
    for subject in subjects:
        if versions := others.by_place(subject):
            yield (
                f"{subject} has {numbers_text(versions)}, which the source does not have: what the "
                "source registers under the same number is refused (version_taken); bring them to "
                "the source first, with a link in the other direction"
            )
