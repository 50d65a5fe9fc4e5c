"""Carries out a plan at the target's registry, and tells which ids the target has given.

A schema that the registry refuses is set aside, and those that refer to it; the others go on. What
says nothing about a schema (no answer, no right) ends it: the next plan begins where it stopped.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import assert_never

from heliostat.errors import RegistryError, Verdict
from heliostat.schemas.observe import Registry
from heliostat.schemas.planning import used_by
from heliostat.schemas.registry import calls, error_codes
from heliostat.schemas.registry.values import (
    Schema,
    SchemaId,
    SchemaReference,
    SchemaVersion,
    Subject,
    SubjectVersion,
    split_subject,
)
from heliostat.schemas.schema_plan import (
    Action,
    Import,
    Register,
    SchemaPlan,
    SchemaRules,
    SetCompatibility,
    SetMode,
    SoftDelete,
    setting_text,
    version_of,
)

_HARMLESS = frozenset(
    {
        *error_codes.NOT_FOUND,  # Apicurio has no settings for a subject that is wholly deleted
        error_codes.VERSION_SOFT_DELETED,
        error_codes.SUBJECT_SOFT_DELETED,
        error_codes.REFERENCE_EXISTS,  # Apicurio may have deleted at the source what is referred to
        error_codes.OPERATION_NOT_PERMITTED,  # read-only by now, or modes are not to be changed
    }
)
"""Refusals of settings and deletions that leave all ids readable."""


@dataclass(slots=True)
class AppliedSchemas:
    """What came of a plan.

    Parameters
    ----------
    ids
        Ids of the source, and what they are at the target: those of the plan and new ones.
    placed
        Where versions of the source are at the target, by name there; of those just registered
        only what the plan itself needs.
    failed
        Versions of the source that the target refused, with its words.
    notes
        Settings and deletions that were refused: no record needs them.
    """

    ids: dict[SchemaId, SchemaId] = field(default_factory=dict)
    placed: dict[tuple[SubjectVersion, Subject], SchemaVersion] = field(default_factory=dict)
    failed: dict[SubjectVersion, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def apply_schemas(plan: SchemaPlan, rules: SchemaRules, target: Registry) -> AppliedSchemas:
    """Do what the plan says, in its order; subjects without references between them at once.

    Raises
    ------
    RegistryError
        The registry refuses for now: read-only, no right, trouble of its own.
    RegistryUnreachable, RegistryAnswerInvalid
        It does not answer.
    """
    done = AppliedSchemas(dict(plan.ids), dict(plan.placed))
    needed = _needed(plan)
    ended = threading.Event()

    def follow(actions: Sequence[Action]) -> None:
        for action in actions:
            if ended.is_set():
                return
            try:
                _try(action, rules, target, done, needed)
            except BaseException:
                ended.set()
                raise

    # A context's actions count for all its subjects.
    follow([action for action in plan.actions if _is_of_context(action)])
    at_once = 1 if plan.at_once == 1 else max(plan.at_once, target.at_once)
    with ThreadPoolExecutor(at_once) as threads:
        for part in [threads.submit(follow, actions) for actions in independent(plan.actions)]:
            part.result()
    return done


def independent(actions: Sequence[Action]) -> list[list[Action]]:
    """Parts of a plan that may be done at once, each in its order; without modes of contexts.

    What refers to each other, or is about the same subject, is in one part.
    """
    parents: dict[Subject, Subject] = {}

    def root(subject: Subject) -> Subject:
        while parents.setdefault(subject, subject) != subject:
            parents[subject] = parents[parents[subject]]
            subject = parents[subject]
        return subject

    own: list[tuple[Action, Subject]] = []
    for action in actions:
        match action:
            case SetMode(subject, _) | SetCompatibility(subject, _):
                if not _is_of_context(action):
                    own.append((action, subject))
            case SoftDelete(of, subject, _):
                parents[root(of.subject)] = root(subject)
                own.append((action, subject))
            case Import() | Register():
                subject = action.subject if isinstance(action, Register) else action.place.subject
                parents[root(action.of.subject)] = root(subject)
                for reference in action.schema.references:
                    parents[root(used_by(action.of, reference).subject)] = root(subject)
                own.append((action, subject))
            case _:
                assert_never(action)
    parts: dict[Subject, list[Action]] = {}
    for action, subject in own:
        parts.setdefault(root(subject), []).append(action)
    return list(parts.values())


def _is_of_context(action: Action) -> bool:
    return isinstance(action, SetMode) and not split_subject(action.scope)[1]


def _try(
    action: Action,
    rules: SchemaRules,
    target: Registry,
    done: AppliedSchemas,
    needed: set[SubjectVersion],
) -> None:
    """Do one action; what says that a schema can't be there is noted."""
    of = version_of(action)
    if of in done.failed:
        return
    try:
        _do(action, rules, target, done, needed)
    except RegistryError as error:
        if not isinstance(action, Import | Register) and error.registry_code in _HARMLESS:
            done.notes.append(f"not done: {setting_text(action)}: {error.text}")
        elif of is None or error.verdict is not Verdict.SET_ASIDE:
            raise
        else:
            done.failed[of] = str(error)
    except _NotHere as missing:
        assert of is not None
        done.failed[of] = str(missing)


def _needed(plan: SchemaPlan) -> set[SubjectVersion]:
    """Versions of the source whose place at the target must be known."""
    versions = set[SubjectVersion]()
    for action in plan.actions:
        if isinstance(action, Register):
            versions |= {used_by(action.of, reference) for reference in action.schema.references}
        elif isinstance(action, SoftDelete) and action.number is None:
            versions.add(action.of)
    return versions


def _do(
    action: Action,
    rules: SchemaRules,
    target: Registry,
    done: AppliedSchemas,
    needed: set[SubjectVersion],
) -> None:
    match action:
        case SetMode(scope, mode):
            target.ask(calls.set_mode(mode, scope or None, force=True))
        case SetCompatibility(subject, level):
            target.ask(calls.set_compatibility(level, subject))
        case Import(of, place, schema_id, schema):
            call = calls.register(place.subject, schema, schema_id=schema_id, number=place.version)
            got = target.ask(call)
            if got != schema_id:
                raise _NotHere(f"the registry gave id {got} where {schema_id} was wanted")
            done.placed[of, place.subject] = place.version
            done.ids[schema_id] = schema_id
        case Register():
            schema = _with_references(action, rules, done)
            done.ids[action.source_id] = target.ask(calls.register(action.subject, schema))
            if action.of in needed:
                there = target.ask(calls.look_up(action.subject, schema))
                done.placed[action.of, action.subject] = there.version
        case SoftDelete(of, subject, number):
            version = done.placed.get((of, subject)) if number is None else number
            if version is not None:
                target.ask(calls.delete_version(subject, version))
        case _:
            assert_never(action)


def _with_references(action: Register, rules: SchemaRules, done: AppliedSchemas) -> Schema:
    """The schema with its references as they are at the target."""
    references = []
    for reference in action.schema.references:
        used = used_by(action.of, reference)
        own = rules.naming.names(used.subject)[0]
        if (used, own) not in done.placed:
            raise _NotHere(
                f"it refers to {used.subject} version {used.version}, which is not there"
            )
        references.append(SchemaReference(reference.name, own, done.placed[used, own]))
    return replace(action.schema, references=tuple(references))


class _NotHere(Exception):
    """A schema is not mirrored, though no registry has refused it."""


def unresolved(plan: SchemaPlan, done: AppliedSchemas) -> Mapping[SubjectVersion, str]:
    """Versions of the source whose ids can't be read at the target, with the reason."""
    refused = {
        of: f"{refusal.code.value}: {refusal.text()}" for of, refusal in plan.refused.items()
    }
    return {**refused, **done.failed}
