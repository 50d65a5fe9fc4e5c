"""Plans of all three strategies, as values: what is done, in which order, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from heliostat.names import TopicName
from heliostat.schemas.content import RegistryContent, VersionContent
from heliostat.schemas.naming import SubjectNaming
from heliostat.schemas.plan import plan_schemas
from heliostat.schemas.registry.values import (
    Compatibility,
    Context,
    Mode,
    Schema,
    SchemaId,
    SchemaReference,
    SchemaVersion,
    Subject,
    SubjectVersion,
)
from heliostat.schemas.schema_plan import (
    Import,
    Register,
    SchemaPlan,
    SchemaRefusal,
    SchemaRules,
    SetCompatibility,
    SetMode,
    SoftDelete,
    Strategy,
)

A, B, C = Subject("a-value"), Subject("b-value"), Subject("c-value")
NONE, FULL = Compatibility.NONE, Compatibility.FULL
PREFIXED = SubjectNaming({TopicName(each): TopicName(f"summit.{each}") for each in "abc"})
SUMMIT = Context(".summit")
PRESERVE, REWRITE = SchemaRules(Strategy.PRESERVE), SchemaRules(Strategy.REWRITE)
ISOLATE = SchemaRules(Strategy.ISOLATE, SubjectNaming(context=SUMMIT))
IMPORTING = {Subject(""): Mode.IMPORT}
OPEN = {Subject(":.summit:"): Mode.IMPORT}

Rows = Mapping[tuple[str, int], tuple[int, Schema] | tuple[int, Schema, bool]]


def at(subject: str, version: int) -> SubjectVersion:
    return SubjectVersion(Subject(subject), SchemaVersion(version))


def text(content: str, *references: tuple[str, int]) -> Schema:
    found = tuple(
        SchemaReference(f"n.{subject}", Subject(subject), SchemaVersion(version))
        for subject, version in references
    )
    return Schema(f'{{"name":"{content}"}}', references=found)


def holding(rows: Rows, **more: object) -> RegistryContent:
    versions = {
        at(*place): VersionContent(SchemaId(row[0]), row[1], row[2] if len(row) > 2 else False)
        for place, row in rows.items()
    }
    return RegistryContent(versions, **more)  # type: ignore[arg-type]  # what it takes


def codes(plan: SchemaPlan) -> dict[SubjectVersion, SchemaRefusal]:
    return {of: refusal.code for of, refusal in plan.refused.items()}


def order(plan: SchemaPlan) -> list[SubjectVersion]:
    return [each.of for each in plan.actions if isinstance(each, Import | Register)]


X, Y = text("x"), text("y")
TWO = {("a-value", 1): (11, X), ("a-value", 2): (12, Y)}


# Preserve


def test_preserve_imports_each_version_with_its_id() -> None:
    plan = plan_schemas(holding(TWO), holding({}, modes={A: Mode.IMPORT}), PRESERVE)
    assert plan.actions == (
        Import(at(A, 1), at(A, 1), SchemaId(11), X),
        Import(at(A, 2), at(A, 2), SchemaId(12), Y),
    )
    assert plan.ids == {}


def test_import_mode_is_set_by_one_plan_and_used_by_the_next() -> None:
    """Given a subject that others may write / then it is closed to them, and looked at again."""
    plan = plan_schemas(holding(TWO), holding({}), PRESERVE)
    assert plan.actions == (SetMode(A, Mode.IMPORT),)
    assert plan.refused == {}


def test_what_refers_to_what_waits_waits_as_well() -> None:
    modes = {A: Mode.IMPORT, C: Mode.IMPORT}
    plan = plan_schemas(holding(USES_B), holding({}, modes=modes), PRESERVE)
    assert plan.actions == (
        SetMode(B, Mode.IMPORT),
        Import(at(C, 1), at(C, 1), SchemaId(4), USES_B["c-value", 1][1]),
    )


def test_a_registry_in_import_mode_needs_no_other() -> None:
    plan = plan_schemas(holding(TWO), holding({}, modes=IMPORTING), PRESERVE)
    assert [type(each) for each in plan.actions] == [Import, Import]


def test_what_is_read_only_is_not_opened_to_undo_a_deletion() -> None:
    there = holding({("a-value", 1): (11, X, True)}, modes={Subject(""): Mode.READONLY})
    plan = plan_schemas(holding({("a-value", 1): (11, X)}), there, PRESERVE)
    assert (plan.actions, codes(plan)) == ((), {at(A, 1): SchemaRefusal.MODE})


@pytest.mark.parametrize("rules", [PRESERVE, REWRITE])
def test_a_plan_of_what_is_level_is_empty(rules: SchemaRules) -> None:
    plan = plan_schemas(holding(TWO), holding(TWO), rules)
    assert plan.actions == ()
    assert plan.refused == {}
    assert plan.ids == {11: 11, 12: 12}


def test_a_version_that_is_another_at_the_target_is_never_replaced() -> None:
    """Given a foreign version / when it is wanted / then it is refused, and the others go on."""
    there = holding({("a-value", 1): (11, Y)}, modes=IMPORTING)
    plan = plan_schemas(holding({**TWO, ("b-value", 1): (13, text("z"))}), there, PRESERVE)
    assert codes(plan) == {at(A, 1): SchemaRefusal.VERSION_TAKEN}
    assert order(plan) == [at(A, 2), at(B, 1)]


def test_the_same_content_with_another_id_is_another_version() -> None:
    there = holding({("a-value", 1): (99, X)}, modes=IMPORTING)
    plan = plan_schemas(holding(TWO), there, PRESERVE)
    assert codes(plan) == {at(A, 1): SchemaRefusal.VERSION_TAKEN}


def test_an_id_that_means_something_else_is_refused() -> None:
    there = holding({("local-value", 1): (12, X)}, modes=IMPORTING)
    plan = plan_schemas(holding(TWO), there, PRESERVE)
    assert codes(plan) == {at(A, 2): SchemaRefusal.ID_TAKEN}
    assert order(plan) == [at(A, 1)]


def test_an_id_that_means_the_same_elsewhere_is_shared() -> None:
    there = holding({("local-value", 1): (12, Y)}, modes=IMPORTING)
    plan = plan_schemas(holding(TWO), there, PRESERVE)
    assert plan.refused == {}


def test_a_registry_without_modes_takes_no_ids() -> None:
    plan = plan_schemas(holding(TWO), holding({}, has_modes=False), PRESERVE)
    assert set(codes(plan).values()) == {SchemaRefusal.NO_IMPORT}
    assert plan.actions == ()


def test_a_registry_that_is_read_only_is_not_changed() -> None:
    there = holding({("a-value", 1): (11, X)}, modes={Subject(""): Mode.READONLY})
    plan = plan_schemas(holding(TWO), there, PRESERVE)
    assert codes(plan) == {at(A, 2): SchemaRefusal.MODE}
    assert plan.actions == ()
    assert plan.ids == {11: 11}


def test_what_is_soft_deleted_is_imported_and_then_deleted() -> None:
    """Records may still need it."""
    source = holding({("a-value", 1): (11, X, True), ("a-value", 2): (12, Y)})
    plan = plan_schemas(source, holding({}, modes=IMPORTING), PRESERVE)
    assert order(plan) == [at(A, 1), at(A, 2)]
    assert plan.actions[-1] == SoftDelete(at(A, 1), A, SchemaVersion(1))


def test_what_was_deleted_at_the_target_alone_comes_back() -> None:
    there = holding({("a-value", 1): (11, X, True), ("a-value", 2): (12, Y)}, modes=IMPORTING)
    plan = plan_schemas(holding(TWO), there, PRESERVE)
    assert plan.actions == (Import(at(A, 1), at(A, 1), SchemaId(11), X),)
    gone = holding({("a-value", 1): (11, X, True), ("a-value", 2): (12, Y)})
    assert plan_schemas(gone, there, PRESERVE).actions == ()


def test_under_a_prefix_preserve_keeps_the_own_name_with_the_same_id() -> None:
    rules = replace(PRESERVE, naming=PREFIXED)
    plan = plan_schemas(holding({("a-value", 1): (11, X)}), holding({}, modes=IMPORTING), rules)
    places = [each.place for each in plan.actions if isinstance(each, Import)]
    assert places == [at(A, 1), at("summit.a-value", 1)]


# Isolate


def test_isolate_imports_into_a_context_whatever_the_default_one_holds() -> None:
    rows = {("a-value", 1): (11, Y), ("l-value", 1): (12, X)}
    plan = plan_schemas(holding(TWO), holding(rows), ISOLATE)
    assert plan.actions == (SetMode(Subject(":.summit:"), Mode.IMPORT),)
    plan = plan_schemas(holding(TWO), holding(rows, modes=OPEN), ISOLATE)
    assert plan.refused == {}
    assert plan.actions == (
        Import(at(A, 1), at(":.summit:a-value", 1), SchemaId(11), X),
        Import(at(A, 2), at(":.summit:a-value", 2), SchemaId(12), Y),
    )


def test_isolate_refuses_what_is_foreign_in_its_context() -> None:
    there = holding({(":.summit:l-value", 1): (12, X)}, modes=OPEN)
    plan = plan_schemas(holding(TWO), there, ISOLATE)
    assert codes(plan) == {at(A, 2): SchemaRefusal.ID_TAKEN}


def test_isolate_gives_renamed_topics_their_subjects_beside_the_own() -> None:
    rules = replace(ISOLATE, naming=replace(PREFIXED, context=SUMMIT))
    plan = plan_schemas(holding({("a-value", 1): (11, X)}), holding({}, modes=OPEN), rules)
    places = [each.place.subject for each in plan.actions if isinstance(each, Import)]
    assert places == [":.summit:a-value", ":.summit:summit.a-value"]


# Rewrite


def test_rewrite_registers_under_the_mirrored_name_and_lets_any_change_through() -> None:
    rules = replace(REWRITE, naming=PREFIXED)
    plan = plan_schemas(holding(TWO), holding({}), rules)
    name = Subject("summit.a-value")
    assert plan.actions == (
        SetCompatibility(name, NONE),
        Register(at(A, 1), SchemaId(11), name, X),
        Register(at(A, 2), SchemaId(12), name, Y),
    )


def test_rewrite_finds_content_whatever_its_id_and_version() -> None:
    there = holding({("a-value", 7): (70, Y), ("a-value", 3): (30, text("local"))})
    plan = plan_schemas(holding(TWO), there, REWRITE)
    assert order(plan) == [at(A, 1)]
    assert plan.ids == {12: 70}
    assert plan.placed == {(at(A, 2), A): 7}


def test_rewrite_does_not_take_another_subject_for_its_own() -> None:
    there = holding({("b-value", 1): (70, X)})
    plan = plan_schemas(holding({("a-value", 1): (11, X)}), there, REWRITE)
    assert order(plan) == [at(A, 1)]
    assert plan.ids == {}


@pytest.mark.parametrize("mode", [Mode.READONLY, Mode.IMPORT])
def test_rewrite_needs_a_registry_that_gives_ids(mode: Mode) -> None:
    plan = plan_schemas(holding(TWO), holding({}, modes={Subject(""): mode}), REWRITE)
    assert set(codes(plan).values()) == {SchemaRefusal.MODE}


@pytest.mark.parametrize("mode", [Mode.READONLY, Mode.IMPORT, Mode.FORWARD])
def test_in_a_closed_registry_only_what_is_not_there_is_refused(mode: Mode) -> None:
    there = holding({("a-value", 7): (70, X)}, modes={Subject(""): mode})
    plan = plan_schemas(holding(TWO), there, REWRITE)
    assert (codes(plan), plan.ids) == ({at(A, 2): SchemaRefusal.MODE}, {11: 70})
    assert (plan.actions, plan.doubtful) == ((), {A})
    assert "known go on meanwhile" in plan.refused[at(A, 2)].hint


def test_what_is_there_is_known_though_what_it_refers_to_is_refused() -> None:
    """Given a second name that is missing in a closed registry / then the ids are known."""
    rules = replace(REWRITE, naming=replace(PREFIXED, keeps_original=True))
    source = holding({("a-value", 1): (1, text("o", ("b-value", 1))), ("b-value", 1): (2, X)})
    refers = SchemaReference("n.b-value", Subject("summit.b-value"), SchemaVersion(5))
    at_target = replace(text("o"), references=(refers,))
    rows = {
        ("summit.b-value", 5): (50, X),
        ("summit.a-value", 3): (30, at_target),
        ("a-value", 1): (30, at_target),
    }
    plan = plan_schemas(source, holding(rows, modes={Subject(""): Mode.READONLY}), rules)
    assert (codes(plan), plan.ids) == ({at(B, 1): SchemaRefusal.MODE}, {1: 30, 2: 50})


def test_rewrite_works_where_there_are_no_modes() -> None:
    plan = plan_schemas(holding(TWO), holding({}, has_modes=False), REWRITE)
    assert order(plan) == [at(A, 1), at(A, 2)]


def test_rewrite_registers_what_is_soft_deleted_and_deletes_it() -> None:
    source = holding({("a-value", 1): (11, X, True), ("a-value", 2): (12, Y)})
    plan = plan_schemas(source, holding({}), REWRITE)
    assert order(plan) == [at(A, 1), at(A, 2)]
    assert plan.actions[-1] == SoftDelete(at(A, 1), A, None)
    there = holding({("a-value", 1): (5, X, True), ("a-value", 2): (6, Y)})
    level = plan_schemas(source, there, REWRITE)
    assert (level.actions, level.ids) == ((), {11: 5, 12: 6})


def test_without_modes_a_subject_is_never_wholly_deleted() -> None:
    """Apicurio would not show its versions any more, and each plan would register them again."""
    source = holding({("a-value", 1): (11, X, True), ("b-value", 1): (12, Y, True)})
    kept = {**TWO, ("a-value", 1): (11, X, True)}
    apicurio = holding({("b-value", 1): (5, Y)}, has_modes=False)
    plan = plan_schemas(source, apicurio, REWRITE)
    assert [type(each) for each in plan.actions] == [Register, SetCompatibility]
    assert plan.ids == {12: 5}
    (*_, last) = plan_schemas(holding(kept), apicurio, REWRITE).actions
    assert last == SoftDelete(at(A, 1), A, None)


def test_content_that_came_back_under_a_later_version_is_alive() -> None:
    """Apicurio keeps the deleted version, with the same id."""
    source = holding({("a-value", 1): (11, X, True), ("a-value", 2): (11, X)})
    plan = plan_schemas(source, holding({("a-value", 1): (5, X)}), REWRITE)
    assert (plan.actions, plan.ids) == ((), {11: 5})


def test_rewrite_under_two_names() -> None:
    rules = replace(REWRITE, naming=replace(PREFIXED, keeps_original=True))
    plan = plan_schemas(holding({("a-value", 1): (11, X)}), holding({}), rules)
    names = [each.subject for each in plan.actions if isinstance(each, Register)]
    assert names == ["summit.a-value", "a-value"]


# References


ALL = [(PRESERVE, IMPORTING), (ISOLATE, OPEN), (REWRITE, {})]
USES_B = {
    ("a-value", 1): (1, text("outer", ("b-value", 2))),
    ("b-value", 1): (2, text("old")),
    ("b-value", 2): (3, text("inner", ("c-value", 1))),
    ("c-value", 1): (4, text("innermost")),
}


@pytest.mark.parametrize(("rules", "modes"), ALL)
def test_references_come_first_and_versions_in_their_order(
    rules: SchemaRules, modes: Mapping[Subject, Mode]
) -> None:
    plan = plan_schemas(holding(USES_B), holding({}, modes=modes), rules)
    assert order(plan) == [at(B, 1), at(C, 1), at(B, 2), at(A, 1)]


@pytest.mark.parametrize(("rules", "modes"), ALL)
def test_what_is_referred_to_is_mirrored_though_nobody_selected_it(
    rules: SchemaRules, modes: Mapping[Subject, Mode]
) -> None:
    there = holding({}, modes=modes)
    plan = plan_schemas(holding(USES_B), there, replace(rules, selected=frozenset({A})))
    assert order(plan) == [at(B, 1), at(C, 1), at(B, 2), at(A, 1)]
    other = plan_schemas(holding(USES_B), there, replace(rules, selected=frozenset({C})))
    assert order(other) == [at(C, 1)]


def test_deletions_come_last_in_reverse() -> None:
    """A registry refuses to delete what is referred to."""
    source = holding(
        {("a-value", 1): (1, text("outer", ("b-value", 1)), True), ("b-value", 1): (2, X, True)}
    )
    plan = plan_schemas(source, holding({}, modes=IMPORTING), PRESERVE)
    assert [each.of for each in plan.actions if isinstance(each, SoftDelete)] == [
        at(A, 1),
        at(B, 1),
    ]


def test_a_missing_reference_is_refused_and_what_needs_it() -> None:
    rows = {key: row for key, row in USES_B.items() if key != ("c-value", 1)}
    plan = plan_schemas(holding(rows), holding({}), REWRITE)
    assert codes(plan) == {
        at(B, 2): SchemaRefusal.REFERENCE_MISSING,
        at(A, 1): SchemaRefusal.REFERENCE_REFUSED,
    }
    assert "c-value version 1" in plan.refused[at(A, 1)].reason
    assert order(plan) == [at(B, 1)]


def test_a_reference_into_another_context_is_refused() -> None:
    source = holding(
        {("a-value", 1): (1, text("outer", (":.c:b", 1))), (":.c:b", 1): (1, text("inner"))}
    )
    plan = plan_schemas(source, holding({}), REWRITE)
    assert codes(plan) == {at(A, 1): SchemaRefusal.REFERENCE_ELSEWHERE}


def test_rewrite_compares_references_by_their_place_at_the_target() -> None:
    """Given a target with another version of what is referred to / then that one is looked for."""
    source = holding({("a-value", 1): (1, text("o", ("b-value", 1))), ("b-value", 1): (2, X)})
    there = {("b-value", 5): (50, X), ("a-value", 3): (30, text("o", ("b-value", 5)))}
    assert plan_schemas(source, holding(there), REWRITE).actions == ()
    stale = {**there, ("a-value", 3): (30, text("o", ("b-value", 1)))}
    assert order(plan_schemas(source, holding(stale), REWRITE)) == [at(A, 1)]


def test_references_that_form_a_ring_end() -> None:
    """No registry accepts one, but IMPORT may leave one."""
    ring = {
        ("a-value", 1): (1, text("a", ("b-value", 1))),
        ("b-value", 1): (2, text("b", ("a-value", 1))),
    }
    assert len(order(plan_schemas(holding(ring), holding({}), REWRITE))) == 2


def test_a_long_chain_of_references() -> None:
    rows = {(f"s{n:04}", 1): (n, text(f"t{n}", (f"s{n + 1:04}", 1))) for n in range(1, 3_000)}
    rows["s3000", 1] = (3_000, X)
    plan = plan_schemas(holding(rows), holding({}), REWRITE)
    assert [of.subject for of in order(plan)] == [f"s{n:04}" for n in range(3_000, 0, -1)]


# Selection, compatibility


def test_mirrored_subjects_are_never_mirrored_back() -> None:
    """Given two clusters that mirror each other / then only what is local crosses."""
    here = {("a-value", 1): (1, X), ("base.b-value", 1): (2, Y)}
    rules = replace(REWRITE, mirrored={Subject("base.b-value"): "link base-to-summit"})
    plan = plan_schemas(holding(here), holding({}), rules)
    assert order(plan) == [at(A, 1)]
    assert plan.left_out == {"base.b-value": "link base-to-summit"}


def test_one_context_of_the_source_is_mirrored() -> None:
    source = holding({("a-value", 1): (1, X), (":.c:b-value", 1): (1, Y)})
    assert order(plan_schemas(source, holding({}), REWRITE)) == [at(A, 1)]
    rules = replace(REWRITE, source_context=Context(".c"))
    (_, action) = plan_schemas(source, holding({}), rules).actions
    assert isinstance(action, Register)
    assert action.subject == B


def test_compatibility_is_carried_if_wanted_after_what_was_registered() -> None:
    source = holding(TWO, compatibilities={A: FULL})
    rules = replace(REWRITE, carries_compatibility=True)
    there = holding({("a-value", 1): (5, X)}, compatibilities={A: FULL})
    assert plan_schemas(source, there, rules).actions == (
        SetCompatibility(A, NONE),
        Register(at(A, 2), SchemaId(12), A, Y),
        SetCompatibility(A, FULL),
    )


@pytest.mark.parametrize("rules", [PRESERVE, REWRITE])
def test_a_changed_compatibility_is_carried_by_itself(rules: SchemaRules) -> None:
    source = holding(TWO, compatibilities={A: FULL})
    rules = replace(rules, carries_compatibility=True)
    plan = plan_schemas(source, holding(TWO, compatibilities={A: NONE}), rules)
    assert plan.actions == (SetCompatibility(A, FULL),)
    assert plan_schemas(source, holding(TWO, compatibilities={A: FULL}), rules).actions == ()


def test_what_the_target_does_by_default_needs_no_setting() -> None:
    plan = plan_schemas(holding(TWO), holding({}, default_compatibility=NONE), REWRITE)
    assert [type(each) for each in plan.actions] == [Register, Register]
    used = holding({("a-value", 1): (5, text("other"))}, default_compatibility=NONE)
    assert plan_schemas(holding(TWO), used, REWRITE).actions[0] == SetCompatibility(A, NONE)


def test_only_a_registry_with_modes_is_asked_for_several_things_at_once() -> None:
    assert plan_schemas(holding(TWO), holding({}), REWRITE).at_once > 1
    assert plan_schemas(holding(TWO), holding({}, has_modes=False), REWRITE).at_once == 1


def test_touched_are_the_subjects_that_get_something_and_levelled_those_that_must_take_it() -> None:
    source = holding({("a-value", 1): (1, X, True), ("b-value", 1): (2, Y)})
    rewrite = plan_schemas(source, holding({}), REWRITE)
    assert (rewrite.touched, rewrite.levelled) == ({A, B}, {A, B})
    preserve = plan_schemas(source, holding({}), PRESERVE)
    assert (preserve.touched, preserve.levelled) == ({A, B}, frozenset())
    carried = replace(PRESERVE, carries_compatibility=True)
    known = replace(source, compatibilities={A: NONE, B: NONE})
    there = plan_schemas(known, source, carried)
    assert (there.touched, there.levelled) == (frozenset(), {A, B})


def test_ten_thousand_schemas_are_planned_in_no_time() -> None:
    rows = {(f"s{n:05}-value", 1): (n, text(f"t{n}")) for n in range(1, 10_001)}
    plan = plan_schemas(holding(rows), holding({}), REWRITE)
    assert len(order(plan)) == 10_000
