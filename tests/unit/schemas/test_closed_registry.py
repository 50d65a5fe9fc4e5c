"""A target registry that somebody has closed, wholly or in part: what is known stays known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from support.mirrored_schemas import CHANGING, USED, USER, fill, mirror, planned
from support.registry_contract import V1, V2, record, without_default
from support.registry_double import RegistryDouble
from support.registry_server import RegistryServer
from unit.schemas.test_mirroring import ISOLATE, PRESERVE, REWRITE, SUMMIT, Pair, open_pair

from heliostat.schemas import SchemaRules, apply_schemas, observe_registry
from heliostat.schemas.mirroring import NOT_YET, mirror_schemas, plan_with_settings
from heliostat.schemas.registry import calls
from heliostat.schemas.registry.values import (
    Compatibility,
    Mode,
    SubjectVersion,
    join_subject,
)
from heliostat.schemas.schema_plan import Register, SetCompatibility


@pytest.fixture
def pair() -> Iterator[Pair]:
    yield from open_pair()


@pytest.mark.parametrize("mode", [Mode.READONLY, Mode.IMPORT])
@pytest.mark.parametrize("carries", [False, True])
def test_in_a_closed_registry_known_ids_stay_known(
    pair: Pair, mode: Mode, *, carries: bool
) -> None:
    """Given a mirrored registry / when it is closed, and the source goes on / then only new ids

    wait; deletions and compatibilities that can't follow stop nothing.
    """
    rules = replace(REWRITE, carries_compatibility=carries)
    fill(pair.source)
    known = mirror_schemas(pair.source, pair.target, lambda _: rules).ids
    pair.target.ask(calls.set_mode(mode, force=True))
    pair.source.ask(calls.register(CHANGING, record()))
    pair.source.ask(calls.delete_version(CHANGING, V2))
    pair.source.ask(calls.set_compatibility(Compatibility.FULL, USED))
    done = mirror_schemas(pair.source, pair.target, lambda _: rules)
    assert done.ids == known
    (why,) = done.unresolved.values()
    assert why.startswith(f"mode: the mode of {CHANGING} at the target is {mode.value} (hint: ")
    pair.target.ask(calls.set_mode(Mode.READWRITE))
    assert mirror_schemas(pair.source, pair.target, lambda _: rules).unresolved == {}


@pytest.mark.parametrize("rules", [PRESERVE, ISOLATE])
def test_in_a_read_only_registry_what_was_imported_stays_known(
    pair: Pair, rules: SchemaRules
) -> None:
    fill(pair.source)
    known = mirror_schemas(pair.source, pair.target, lambda _: rules).ids
    scopes = [CHANGING] if rules is PRESERVE else [join_subject(SUMMIT, "")]
    for scope in scopes:
        pair.target.ask(calls.set_mode(Mode.READONLY, scope))
    pair.source.ask(calls.register(CHANGING, record()))
    pair.source.ask(calls.delete_version(CHANGING, V2))
    done = mirror_schemas(pair.source, pair.target, lambda _: rules)
    assert done.ids == known
    assert len(done.unresolved) == 1


def test_a_subject_that_is_open_in_a_read_only_registry_is_written(pair: Pair) -> None:
    pair.source.ask(calls.register(USED, record()))
    pair.target.ask(calls.set_mode(Mode.READONLY))
    pair.target.ask(calls.set_mode(Mode.READWRITE, USED))
    assert mirror_schemas(pair.source, pair.target, lambda _: REWRITE).unresolved == {}


def test_a_context_that_takes_ids_in_a_read_only_registry_gets_them(pair: Pair) -> None:
    pair.source.ask(calls.register(USED, record()))
    pair.target.ask(calls.set_mode(Mode.READONLY))
    pair.target.ask(calls.set_mode(Mode.IMPORT, join_subject(SUMMIT, "")))
    assert mirror_schemas(pair.source, pair.target, lambda _: ISOLATE).unresolved == {}


def test_a_local_subject_keeps_its_compatibility_and_what_it_refuses_waits(pair: Pair) -> None:
    """Given a team's subject with FULL / when rewrite registers there / then FULL stays.

    A version that it takes is registered; one that it refuses waits, told with what to do.
    """
    first = record()
    team = pair.target.ask(calls.register(USED, first))
    pair.target.ask(calls.set_compatibility(Compatibility.FULL, USED))
    pair.source.ask(calls.register(USED, first))
    pair.source.ask(calls.set_compatibility(Compatibility.NONE, USED))
    pair.source.ask(calls.register(USED, without_default(first, "y")))
    plan = plan_with_settings(observe_registry(pair.source), pair.target, REWRITE)
    (note,) = plan.notes
    assert f"{USED} exists at the target with compatibility FULL" in note
    done = mirror_schemas(pair.source, pair.target, lambda _: REWRITE)
    assert pair.target.ask(calls.compatibility(USED)) is Compatibility.FULL
    assert done.ids == {1: team}
    (why,) = done.unresolved.values()
    assert "INCOMPATIBLE_SCHEMA" in why
    assert "set the subject's compatibility to NONE" in why
    pair.target.ask(calls.set_compatibility(Compatibility.NONE, USED))
    assert mirror_schemas(pair.source, pair.target, lambda _: REWRITE).unresolved == {}


def test_a_subject_of_the_link_takes_any_version_at_once(pair: Pair) -> None:
    """Also if the turn was cut right after its first one."""
    pair.target.ask(calls.set_compatibility(Compatibility.FULL))
    first = record()
    pair.source.ask(calls.register(USED, first))
    pair.source.ask(calls.set_compatibility(Compatibility.NONE, USED))
    plan = planned(pair.source, pair.target, REWRITE)
    assert isinstance(plan.actions[0], SetCompatibility)
    assert isinstance(plan.actions[-1], Register)
    apply_schemas(plan, REWRITE, pair.target)
    pair.source.ask(calls.register(USED, without_default(first, "y")))
    assert mirror(pair.source, pair.target, REWRITE).ids.keys() == {1, 2}


def test_modes_that_may_not_change_are_told_and_known_ids_go_on() -> None:
    """Given a registry that was filled otherwise / when modes stay / then its ids are known."""
    with RegistryServer() as source, RegistryServer(RegistryDouble(modes_change=False)) as target:
        pair = Pair(source, target)
        shared = record()
        for side in (pair.source, pair.target):
            side.ask(calls.register(USED, shared))
        pair.source.ask(calls.register(USER, record()))
        done = mirror_schemas(pair.source, pair.target, lambda _: PRESERVE)
        assert done.ids == {1: 1}
        assert done.unresolved == {SubjectVersion(USER, V1): NOT_YET}
        (note,) = done.notes
        assert note.startswith(f"not done: mode IMPORT of {USER}")
        assert "Mode changes are not allowed" in note
