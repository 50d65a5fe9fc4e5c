"""One comparison of two registries over HTTP: it brings over what it can, tells the rest, ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import replace

import pytest
from support.mirrored_schemas import CHANGING, USED, USER, at_source, contents, fill
from support.registry_contract import V1, record
from support.registry_double import RegistryDouble
from support.registry_server import Asked, RegistryServer, Reply
from unit.schemas.test_mirroring import (
    ISOLATE,
    PRESERVE,
    REWRITE,
    SUMMIT,
    Pair,
    occupy,
    open_pair,
)

from heliostat.access import RegistryAccess
from heliostat.errors import LinkTakenOver, RegistryError
from heliostat.names import TopicName
from heliostat.schemas import HttpRegistry, SchemaRules, SubjectNaming, observe_registry
from heliostat.schemas.mirroring import MirroredSchemas, mirror_schemas
from heliostat.schemas.registry import calls
from heliostat.schemas.registry.values import (
    Compatibility,
    SchemaId,
    Subject,
    SubjectVersion,
    join_subject,
)

STRATEGIES = [PRESERVE, ISOLATE, REWRITE]
ALL = set(range(1, 9))
"""Ids of what `fill` registers."""
A, B, C = (Subject(f"{name}-value") for name in "abc")
TOO_LARGE = Reply(422, b'{"error_code":42209,"message":"too large"}')


@pytest.fixture
def pair() -> Iterator[Pair]:
    yield from open_pair()


@pytest.fixture
def node() -> Iterator[Callable[[RegistryDouble], HttpRegistry]]:
    """Makes one more address of a registry."""
    with ExitStack() as stack:

        def open_node(double: RegistryDouble) -> HttpRegistry:
            server = stack.enter_context(RegistryServer(double))
            return stack.enter_context(HttpRegistry(RegistryAccess((server.url,))))

        yield open_node


def compare(pair: Pair, rules: SchemaRules, **more: object) -> MirroredSchemas:
    return mirror_schemas(pair.source, pair.target, lambda _: rules, **more)


def writes(server: RegistryServer) -> list[str]:
    """What was asked to change, by method and path."""
    return [f"{each.method} {each.target}" for each in server.asked if each.method != "GET"]


def refuse(server: RegistryServer, method: str, reply: Reply, word: str = "") -> None:
    """Refuse, for ever, requests of a method whose path has a word."""

    def trouble(asked: Asked) -> Reply | None:
        return reply if asked.method == method and word in asked.target else None

    server.troubles.append(trouble)


def test_an_empty_target_is_level_after_one_call(pair: Pair) -> None:
    """Given references, incompatible versions, what is soft-deleted / then all is as there."""
    fill(pair.source)
    done = compare(pair, PRESERVE)
    assert done.plan.actions == ()
    assert done.ids == {number: number for number in ALL}
    assert (done.unresolved, done.notes) == ({}, ())
    assert contents(pair.target, done.ids) == at_source(pair.source, done.ids)
    assert observe_registry(pair.target).versions == observe_registry(pair.source).versions
    assert done.source == observe_registry(pair.source)
    assert done.rules is PRESERVE


def test_a_target_in_use_gets_a_context_in_one_call(pair: Pair) -> None:
    """Given local schemas with the same ids / when isolated / then both can be read."""
    fill(pair.source)
    occupy(pair.target)
    before = pair.target.ask(calls.schema_by_id(SchemaId(1)))
    done = compare(pair, ISOLATE)
    assert done.plan.actions == ()
    assert done.ids == {number: number for number in ALL}
    assert done.unresolved == {}
    with HttpRegistry(RegistryAccess((f"{pair.servers[1].url}/contexts/{SUMMIT}",))) as consumer:
        assert contents(consumer, done.ids) == at_source(pair.source, done.ids)
    assert pair.target.ask(calls.schema_by_id(SchemaId(1))) == before


@pytest.mark.parametrize("rules", STRATEGIES)
def test_a_level_target_is_not_written_to(pair: Pair, rules: SchemaRules) -> None:
    """Given two level registries / when compared again / then nothing is changed or tried."""
    fill(pair.source)
    first = compare(pair, rules)
    assert first.actions > 0
    before = len(writes(pair.servers[1]))
    again = compare(pair, rules)
    assert len(writes(pair.servers[1])) == before
    assert (again.actions, again.ids, again.unresolved) == (0, first.ids, {})
    assert len(writes(pair.servers[0])) == len(_filling())


def _filling() -> list[str]:
    """What `fill` itself asks of the source."""
    with RegistryServer() as server, HttpRegistry(RegistryAccess((server.url,))) as registry:
        fill(registry)
        return writes(server)


def test_what_is_not_selected_costs_no_write(pair: Pair) -> None:
    fill(pair.source)
    done = compare(pair, replace(PRESERVE, selected=frozenset()))
    assert (done.ids, done.unresolved, done.actions) == ({}, {}, 0)
    assert writes(pair.servers[1]) == []


@pytest.mark.parametrize("rules", STRATEGIES)
def test_a_refused_schema_is_told_and_the_others_are_mirrored(
    pair: Pair, rules: SchemaRules
) -> None:
    """Given a schema that is too large for the target / then it and what refers to it are told,

    each is tried once, and once it is accepted the next call brings both.
    """
    fill(pair.source)
    refuse(pair.servers[1], "POST", TOO_LARGE, "used-value/versions")
    done = compare(pair, rules)
    assert set(done.unresolved) == {SubjectVersion(USED, V1), SubjectVersion(USER, V1)}
    assert "SCHEMA_TOO_LARGE" in done.unresolved[SubjectVersion(USED, V1)]
    assert set(done.ids) == ALL - {1, 2}
    tried = [each for each in writes(pair.servers[1]) if "used-value/versions" in each]
    assert len(tried) == 1
    pair.servers[1].troubles.clear()
    done = compare(pair, rules)
    assert (done.unresolved, set(done.ids)) == ({}, ALL)


@pytest.mark.parametrize("rules", STRATEGIES)
def test_a_target_that_refuses_all_for_ever_ends_the_call(pair: Pair, rules: SchemaRules) -> None:
    """Given a target that takes no schema / then each version is tried once and told."""
    fill(pair.source)
    refuse(pair.servers[1], "POST", TOO_LARGE)
    done = compare(pair, rules)
    assert done.ids == {}
    assert set(done.unresolved) == set(done.source.versions)
    tried = [each for each in writes(pair.servers[1]) if each.startswith("POST")]
    assert len(tried) == len(set(done.source.versions)) - (rules is REWRITE)


def test_a_setting_that_is_taken_and_not_shown_ends_the_call(pair: Pair) -> None:
    """Given a target that says yes to IMPORT and stays as it is / then it is asked once a subject,

    and all versions are told as not being there.
    """
    fill(pair.source)
    refuse(pair.servers[1], "PUT", Reply(200, b'{"mode":"IMPORT"}'), "/mode/")
    done = compare(pair, PRESERVE)
    assert done.ids == {}
    assert set(done.unresolved) == set(done.source.versions)
    asked = writes(pair.servers[1])
    assert sorted(asked) == sorted(set(asked))


def test_a_deletion_that_is_refused_keeps_no_id_away(pair: Pair) -> None:
    """Given a target that refuses to delete / then it is a remark, made once."""
    fill(pair.source)
    refuse(pair.servers[1], "DELETE", Reply(422, b'{"error_code":42206,"message":"is used"}'))
    done = compare(pair, PRESERVE)
    assert set(done.ids) == ALL
    assert done.unresolved == {}
    assert len(done.notes) == 2
    assert all("is used" in each for each in done.notes)


@pytest.mark.parametrize("rules", STRATEGIES)
@pytest.mark.parametrize("side", [0, 1])
def test_a_registry_that_goes_away_ends_the_call_and_the_next_one_finishes(
    pair: Pair, rules: SchemaRules, side: int
) -> None:
    fill(pair.source)
    left = [6]

    def go_away(_: Asked) -> Reply | None:
        left[0] -= 1
        return None if left[0] >= 0 else Reply(503)

    pair.servers[side].troubles.append(go_away)
    with pytest.raises(RegistryError):
        compare(pair, rules)
    pair.servers[side].troubles.clear()
    done = compare(pair, rules)
    assert (done.unresolved, set(done.ids)) == ({}, ALL)


def test_the_sources_compatibility_is_carried_if_wanted(pair: Pair) -> None:
    """Given `compatibility: carry` / when it is set or changed at the source / then it follows."""
    pair.source.ask(calls.register(A, record()))
    pair.source.ask(calls.set_compatibility(Compatibility.FULL, A))
    rules = replace(PRESERVE, carries_compatibility=True)
    for level in (Compatibility.FULL, Compatibility.FORWARD):
        pair.source.ask(calls.set_compatibility(level, A))
        done = compare(pair, rules)
        assert done.plan.actions == ()
        assert pair.target.ask(calls.compatibility(A)) is level
    assert compare(pair, rules).actions == 0


def three(pair: Pair) -> list[SchemaId]:
    return [pair.source.ask(calls.register(name, record())) for name in (A, B, C)]


def test_an_id_counts_only_if_each_address_gives_it_with_its_content(
    pair: Pair, node: Callable[[RegistryDouble], HttpRegistry]
) -> None:
    """Given two more addresses, of which one lacks an id and one has another content / then only

    what both give as it is counts, and the others are told.
    """
    good, lacked, other = three(pair)
    compare(pair, PRESERVE)
    doubles = [deepcopy(pair.servers[1].double) for _ in range(2)]
    del doubles[0].subjects[B]
    entry = doubles[1].subjects[C][V1]
    entry.content = replace(entry.content, text=record().text)
    nodes = [node(double) for double in doubles]
    done = compare(pair, PRESERVE, nodes=(pair.target, *nodes))
    assert done.ids == {good: good}
    assert set(done.unresolved) == {SubjectVersion(B, V1), SubjectVersion(C, V1)}
    assert done.actions == 0
    assert compare(pair, PRESERVE, nodes=nodes[:1]).ids == {good: good, other: other}
    assert compare(pair, PRESERVE, nodes=nodes[1:]).ids == {good: good, lacked: lacked}
    assert set(compare(pair, PRESERVE, nodes=(pair.target,)).ids) == {good, lacked, other}


def test_each_address_is_looked_at_in_the_links_context(
    pair: Pair, node: Callable[[RegistryDouble], HttpRegistry]
) -> None:
    """Given an address where ids mean others outside of the context / then these don't count."""
    fill(pair.source)
    compare(pair, ISOLATE)
    double = deepcopy(pair.servers[1].double)
    del double.subjects[join_subject(SUMMIT, CHANGING)]
    for number in range(8):
        double.register(f"local{number}-value", {"schema": record().text})
    of_changing = {
        each.schema_id
        for place, each in observe_registry(pair.source).versions.items()
        if place.subject == CHANGING
    }
    assert set(compare(pair, ISOLATE, nodes=[node(double)]).ids) == ALL - of_changing


def test_renamed_references_are_the_same_content_at_an_address(pair: Pair) -> None:
    """Given a renamed subject that is referred to / then its user counts as the same schema."""
    fill(pair.source)
    topics = {TopicName(name): TopicName(f"summit.{name}") for name in ("used", "user")}
    rules = replace(REWRITE, naming=SubjectNaming(topics))
    assert set(compare(pair, rules, nodes=[pair.target]).ids) == ALL


def test_an_address_that_does_not_answer_ends_the_call(
    pair: Pair, node: Callable[[RegistryDouble], HttpRegistry]
) -> None:
    """Given an address of which nothing is known / then no ids are told at all."""
    three(pair)
    with RegistryServer() as down:
        down.troubles.append(lambda _: Reply(401, b'{"error_code":401,"message":"no"}'))
        with (
            HttpRegistry(RegistryAccess((down.url,))) as registry,
            pytest.raises(RegistryError, match="no"),
        ):
            compare(pair, PRESERVE, nodes=(pair.target, registry))


class Owner:
    """Owns a link for some checks."""

    def __init__(self, checks: int) -> None:
        self.left = checks
        self.checks = 0

    def check(self) -> None:
        self.checks += 1
        if self.checks > self.left:
            raise LinkTakenOver("another instance owns the link")


@pytest.mark.parametrize("rules", STRATEGIES)
def test_who_lost_the_link_writes_nothing(pair: Pair, rules: SchemaRules) -> None:
    """Given a link that another instance owns by now / then the target is not changed (I10)."""
    fill(pair.source)
    with pytest.raises(LinkTakenOver):
        compare(pair, rules, guard=Owner(0).check)
    assert writes(pair.servers[1]) == []


def test_ownership_is_checked_before_each_pass_that_writes(pair: Pair) -> None:
    """Given a link that is lost after the modes are set / then nothing is imported any more."""
    fill(pair.source)
    with pytest.raises(LinkTakenOver):
        compare(pair, PRESERVE, guard=Owner(1).check)
    assert {each.split()[0] for each in writes(pair.servers[1])} == {"PUT"}
    compare(pair, PRESERVE)
    idle = Owner(0)
    assert set(compare(pair, PRESERVE, guard=idle.check).ids) == ALL
    assert idle.checks == 0
