"""Plans where the target has subjects that others use, or that were opened: what stays as it is."""

from __future__ import annotations

from dataclasses import replace

import pytest
from unit.schemas.test_schema_plan import (
    FULL,
    ISOLATE,
    NONE,
    PRESERVE,
    REWRITE,
    TWO,
    A,
    X,
    Y,
    at,
    codes,
    holding,
    order,
    text,
)

from heliostat.schemas.plan import plan_schemas
from heliostat.schemas.registry.values import (
    Compatibility,
    Mode,
    SchemaId,
    SchemaVersion,
    Subject,
)
from heliostat.schemas.schema_plan import (
    Register,
    SchemaRefusal,
    SchemaRules,
    SetCompatibility,
    SetMode,
    SoftDelete,
)

LOCAL = text("local")


@pytest.mark.parametrize("level", [FULL, Compatibility.BACKWARD])
def test_a_subject_that_was_there_keeps_its_compatibility(level: Compatibility) -> None:
    """Given a subject of others / when something is registered there / then it keeps its level."""
    there = holding({("a-value", 1): (5, LOCAL)}, compatibilities={A: level})
    plan = plan_schemas(holding(TWO), there, REWRITE)
    assert [type(each) for each in plan.actions] == [Register, Register]
    (beside, kept) = plan.notes
    assert beside.startswith("a-value has version 1 at the target, which the source does not have")
    assert f"with compatibility {level.value}, which others" in kept


def test_a_new_subject_whose_compatibility_was_set_keeps_it() -> None:
    there = holding({}, compatibilities={A: FULL}, own_levels=frozenset({A}))
    plan = plan_schemas(holding(TWO), there, REWRITE)
    assert [type(each) for each in plan.actions] == [Register, Register]
    assert len(plan.notes) == 1


def test_a_subject_that_takes_any_version_needs_no_setting_and_no_note() -> None:
    there = holding({("a-value", 1): (5, X)}, compatibilities={A: NONE})
    plan = plan_schemas(holding(TWO), there, REWRITE)
    assert (plan.actions, plan.notes) == ((Register(at(A, 2), SchemaId(12), A, Y),), ())


def test_nothing_is_deleted_beside_versions_of_others() -> None:
    source = holding({("a-value", 1): (11, X, True), ("a-value", 2): (12, Y)})
    rows = {("a-value", 1): (5, X), ("a-value", 2): (6, Y)}
    alone = plan_schemas(source, holding(rows), REWRITE)
    assert alone.actions == (SoftDelete(at(A, 1), A, SchemaVersion(1)),)
    beside = plan_schemas(source, holding({**rows, ("a-value", 3): (7, LOCAL)}), REWRITE)
    assert (beside.actions, beside.ids) == ((), {11: 5, 12: 6})


def test_a_subject_of_others_is_not_closed() -> None:
    """Given a local version / when a free number is to be imported / then its mode stays."""
    rows = {("a-value", 1): (5, LOCAL)}
    plan = plan_schemas(holding(TWO), holding(rows), PRESERVE)
    assert codes(plan) == {
        at(A, 1): SchemaRefusal.VERSION_TAKEN,
        at(A, 2): SchemaRefusal.SUBJECT_TAKEN,
    }
    assert plan.actions == ()
    agreed = plan_schemas(holding(TWO), holding(rows, modes={A: Mode.IMPORT}), PRESERVE)
    assert order(agreed) == [at(A, 2)]


def test_a_context_of_others_is_not_closed() -> None:
    rows = {(":.summit:local", 1): (5, LOCAL)}
    plan = plan_schemas(holding(TWO), holding(rows), ISOLATE)
    assert set(codes(plan).values()) == {SchemaRefusal.SUBJECT_TAKEN}
    assert ":.summit:local has version 1" in plan.refused[at(A, 1)].reason


def test_closing_a_subject_that_exists_is_told() -> None:
    plan = plan_schemas(holding(TWO), holding({("a-value", 1): (11, X)}), PRESERVE)
    assert plan.actions == (SetMode(A, Mode.IMPORT),)
    assert "42205" in plan.notes[0]
    assert plan_schemas(holding(TWO), holding({}), PRESERVE).notes == ()


@pytest.mark.parametrize(
    ("rules", "scope"), [(PRESERVE, A), (ISOLATE, Subject(":.summit:"))], ids=["subject", "context"]
)
def test_what_was_opened_is_not_closed_again(rules: SchemaRules, scope: Subject) -> None:
    name = Subject(f":.summit:{A}") if rules is ISOLATE else A
    there = holding(
        {(name, 1): (11, X)}, modes={scope: Mode.READWRITE}, compatibilities={name: FULL}
    )
    source = holding(TWO, compatibilities={A: NONE})
    plan = plan_schemas(source, there, replace(rules, carries_compatibility=True))
    assert (codes(plan), plan.ids) == ({at(A, 2): SchemaRefusal.OPEN}, {11: 11})
    assert plan.actions == ()


def test_a_carried_compatibility_is_told_and_never_put_on_versions_of_others() -> None:
    source = holding(TWO, compatibilities={A: NONE})
    rules = replace(REWRITE, carries_compatibility=True)
    ours = plan_schemas(source, holding(TWO, compatibilities={A: FULL}), rules)
    assert ours.actions == (SetCompatibility(A, NONE),)
    assert ours.notes == ("a-value gets compatibility NONE, as at the source; it has FULL",)
    rows = {**TWO, ("a-value", 3): (13, LOCAL)}
    theirs = plan_schemas(source, holding(rows, compatibilities={A: FULL}), rules)
    assert theirs.actions == ()
    assert len(theirs.notes) == 1
