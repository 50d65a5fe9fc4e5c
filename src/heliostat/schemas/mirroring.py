"""One comparison of two registries: observe, plan, apply, until the target has what it can have.

Some plans only prepare the next one: settings of a subject matter once it is known that something
is done to it, and *preserve* closes a subject before what it holds is looked at again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from heliostat.ops.asked import asked_at_once
from heliostat.schemas.apply import AppliedSchemas, apply_schemas, unresolved
from heliostat.schemas.content import RegistryContent, fingerprint_alone
from heliostat.schemas.observe import Registry, observe_registry, with_levels_of
from heliostat.schemas.plan import plan_schemas
from heliostat.schemas.registry.values import SchemaId, Subject, SubjectVersion
from heliostat.schemas.schema_plan import Import, Register, SchemaPlan, SchemaRules, version_of

PASSES_MAX = 5
"""Settings known, modes set, versions imported or registered, and looked at; one to spare."""
NOT_YET = "it is not there yet"
NOT_AT_EACH = "an address of the target does not give it, or with other content"
RulesOf = Callable[[RegistryContent], SchemaRules]
"""Makes the rules once the source's subjects are known."""


@dataclass(frozen=True, slots=True)
class MirroredSchemas:
    """What came of a comparison.

    Parameters
    ----------
    source
        The source's registry, as it was observed.
    rules
        What was to be mirrored.
    plan
        What is still to be done, and refused.
    unresolved
        Versions of the source whose ids can't be read at the target, with the reason.
    ids
        Ids of the source and what they are at the target: read there, with the same content, at
        each of its addresses.
    actions
        How many actions were tried.
    notes
        What was done to subjects that others may use, and settings and deletions that were refused:
        no record needs them.
    guids
        As `ids`, for GUIDs.
    brought
        How many versions were imported or registered.
    """

    source: RegistryContent
    rules: SchemaRules
    plan: SchemaPlan
    unresolved: Mapping[SubjectVersion, str]
    ids: Mapping[SchemaId, SchemaId]
    actions: int = 0
    notes: tuple[str, ...] = ()
    guids: Mapping[bytes, bytes] = field(default_factory=dict)
    brought: int = 0


def plan_with_settings(source: RegistryContent, target: Registry, rules: SchemaRules) -> SchemaPlan:
    """Plan with the settings of the subjects that something is done to; changes nothing."""
    plan = plan_schemas(source, observe_registry(target), rules)
    asked: tuple[frozenset[Subject], ...] = (frozenset(),) * 3
    while True:
        wanted = plan.touched, plan.levelled, plan.doubtful - plan.touched - asked[0]
        asks = tuple(old | new for old, new in zip(asked, wanted, strict=True))
        if asks == asked:
            return plan
        asked = asks
        plan = plan_schemas(source, observe_registry(target, *asked), rules)


def mirror_schemas(
    source: Registry,
    target: Registry,
    rules_of: RulesOf,
    *,
    nodes: Sequence[Registry] = (),
    guard: Callable[[], None] = lambda: None,
) -> MirroredSchemas:
    """Bring the target's registry up to the source's.

    Parameters
    ----------
    source, target
        Both registries.
    rules_of
        See `RulesOf`.
    nodes
        The target's addresses one by one, if it has several: ids must be readable at each.
    guard
        Called before the target is changed; raises if that is not ours to do any more.

    Raises
    ------
    RegistryError, RegistryUnreachable, RegistryAnswerInvalid
        A registry does not answer, or refuses for now; the next call begins where this one ended.
    """
    there = observe_registry(source)
    rules = rules_of(there)
    if rules.carries_compatibility:
        there = with_levels_of(there, source, {of.subject for of in _wanted(there, rules)})
    failed: dict[SubjectVersion, str] = {}
    notes: dict[str, None] = {}
    actions = brought = 0
    plan = plan_with_settings(there, target, rules)
    notes |= dict.fromkeys(plan.notes)
    for _ in range(PASSES_MAX):
        to_do = tuple(action for action in plan.actions if version_of(action) not in failed)
        if not to_do:
            break
        guard()
        done = apply_schemas(replace(plan, actions=to_do), rules, target)
        actions += len(to_do)
        failed |= done.failed
        versions = (action for action in to_do if isinstance(action, Import | Register))
        brought += sum(action.of not in done.failed for action in versions)
        notes |= dict.fromkeys(done.notes)
        plan = plan_with_settings(there, target, rules)
        notes |= dict.fromkeys(plan.notes)
        if all(version_of(action) is None for action in to_do) and plan.actions == to_do:
            break  # settings that the registry takes and does not show
    missing = {of: why for of, why in failed.items() if not _is_there(of, plan)}
    reasons = unresolved(plan, AppliedSchemas(failed=missing))
    ids, guids = _at_each(there, plan, rules, nodes)
    waiting = {
        of: NOT_AT_EACH if own in plan.ids else NOT_YET for of, own in _left(there, rules, ids)
    }
    missing_now = {**waiting, **reasons}
    return MirroredSchemas(
        there, rules, plan, missing_now, ids, actions, tuple(notes), guids, brought
    )


def _wanted(source: RegistryContent, rules: SchemaRules) -> list[SubjectVersion]:
    """Return the versions that the rules select, without what these refer to."""
    return [of for of in source.versions if rules.selects(of.subject)]


def _left(
    source: RegistryContent, rules: SchemaRules, ids: Mapping[SchemaId, SchemaId]
) -> Iterator[tuple[SubjectVersion, SchemaId]]:
    """Yield selected versions, and their ids, that are not among the ids that can be read."""
    for of in _wanted(source, rules):
        own = source.versions[of].schema_id
        if own not in ids:
            yield of, own


def _at_each(
    source: RegistryContent, plan: SchemaPlan, rules: SchemaRules, nodes: Sequence[Registry]
) -> tuple[dict[SchemaId, SchemaId], dict[bytes, bytes]]:
    """Return the plan's ids and GUIDs that each node gives, with the source's content."""
    ids, guids = dict(plan.ids), dict(plan.guids)
    wanted = source.ids(rules.source_context)
    observed = asked_at_once(
        {index: partial(observe_registry, node) for index, node in enumerate(nodes)}
    )
    for there in observed.values():
        schemas = there.ids(rules.naming.context)
        ids = {
            own: theirs
            for own, theirs in ids.items()
            if theirs in schemas
            and fingerprint_alone(wanted[own]) == fingerprint_alone(schemas[theirs])
        }
        given = {*there.guids(rules.naming.context).values()}
        guids = {own: theirs for own, theirs in guids.items() if theirs in given}
    return ids, guids


def _is_there(of: SubjectVersion, plan: SchemaPlan) -> bool:
    return any(placed == of for placed, _ in plan.placed) and not any(
        version_of(action) == of for action in plan.actions
    )
