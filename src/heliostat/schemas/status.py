"""What is mirrored of a source's registry, and whether the ids can be read, for people.

`schema_rows` tells it from what was observed and planned. `verify_ids` asks each address of the
target for each id, and compares the content with the source's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Protocol, TypeVar

from heliostat.errors import HeliostatError
from heliostat.schemas.content import RegistryContent, fingerprint_alone
from heliostat.schemas.observe import Registry
from heliostat.schemas.registry import calls
from heliostat.schemas.registry.messages import Call
from heliostat.schemas.registry.values import (
    SchemaId,
    Subject,
    SubjectVersion,
    split_subject,
)
from heliostat.schemas.schema_plan import Import, Register, SchemaPlan, SchemaRules

T = TypeVar("T")


class SchemaState(Enum):
    """How far a version of the source is at the target."""

    MIRRORED = "mirrored"
    """There, with the same id."""
    MAPPED = "mapped"
    """There, with an id of the target's own."""
    MISSING = "missing"
    """Not there yet; the next turn brings it."""
    REFUSED = "refused"
    """Not there, and something has to be changed first."""
    LEFT_OUT = "left_out"
    """A mirror itself: it comes from elsewhere."""


@dataclass(frozen=True, slots=True)
class SchemaRow:
    """One version of the source.

    Parameters
    ----------
    of, schema_id, is_deleted
        The version, its id, and whether it is soft-deleted there.
    state
        See `SchemaState`.
    names
        Its subjects at the target, as far as they are there.
    target_id
        Its id at the target; None if it is not there.
    code, reason, hint
        Why it is refused or left out, and what to do; empty otherwise.
    """

    of: SubjectVersion
    schema_id: SchemaId
    is_deleted: bool
    state: SchemaState
    names: tuple[Subject, ...] = ()
    target_id: SchemaId | None = None
    code: str = ""
    reason: str = ""
    hint: str = ""


def schema_rows(
    source: RegistryContent, plan: SchemaPlan, rules: SchemaRules
) -> tuple[SchemaRow, ...]:
    """All versions that the rules select or that these refer to, in their order."""
    to_do = {action.of for action in plan.actions if isinstance(action, Import | Register)}
    names: dict[SubjectVersion, list[Subject]] = {}
    for of, name in plan.placed:
        names.setdefault(of, []).append(name)
    rows = []
    for of, content in sorted(source.versions.items(), key=lambda item: item[0]):
        row = SchemaRow(of, content.schema_id, content.is_deleted, SchemaState.MISSING)
        refusal = plan.refused.get(of)
        if split_subject(of.subject)[0] != rules.source_context:
            continue
        if of.subject in plan.left_out:
            row = replace(row, state=SchemaState.LEFT_OUT, reason=plan.left_out[of.subject])
        elif refusal is not None:
            state, code = SchemaState.REFUSED, refusal.code.value
            row = replace(row, state=state, code=code, reason=refusal.reason, hint=refusal.hint)
        elif of in names and of not in to_do:
            there = plan.ids.get(content.schema_id)
            state = SchemaState.MIRRORED if there == content.schema_id else SchemaState.MAPPED
            row = replace(row, state=state, names=tuple(names[of]), target_id=there)
        elif of not in to_do and not rules.selects(of.subject):
            continue
        rows.append(row)
    return tuple(rows)


class EachAddress(Protocol):
    """Who asks all addresses of a registry; see `HttpRegistry`."""

    def ask_each(self, call: Call[T]) -> Mapping[str, T | HeliostatError]:
        """Ask each address once, and give its answer or what is wrong, by address."""
        ...


@dataclass(frozen=True, slots=True)
class IdDifference:
    """An id that an address of the target does not give as it should."""

    schema_id: SchemaId
    target_id: SchemaId
    address: str
    what: str


def verify_ids(
    ids: Mapping[SchemaId, SchemaId],
    source: Registry,
    target: EachAddress,
    rules: SchemaRules,
) -> Iterator[IdDifference]:
    """Compare what each id means at the source and at each address of the target.

    References are left aside, as rewriting changes their subjects and versions; ids of a context
    are those that the rules name.

    Raises
    ------
    RegistryError, RegistryUnreachable, RegistryAnswerInvalid
        The source does not tell what an id means.
    """
    for schema_id, target_id in sorted(ids.items()):
        schema = source.ask(calls.schema_by_id(schema_id, rules.source_context))
        wanted = fingerprint_alone(schema)
        call = calls.schema_by_id(target_id, rules.naming.context)
        for address, answer in target.ask_each(call).items():
            if isinstance(answer, HeliostatError):
                yield IdDifference(schema_id, target_id, address, str(answer))
            elif fingerprint_alone(answer) != wanted:
                yield IdDifference(schema_id, target_id, address, "it means another schema there")
