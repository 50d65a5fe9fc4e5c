"""Observe, plan, apply between two registries over HTTP: all strategies, and what is in the way."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest
from support.mirrored_schemas import (
    CHANGING,
    USED,
    USER,
    CountingRegistry,
    at_source,
    contents,
    fill,
    mirror,
    planned,
)
from support.registry_contract import V1, V2, fresh_subject, record
from support.registry_server import Asked, RegistryServer, Reply, answer

from heliostat.access import RegistryAccess
from heliostat.errors import RegistryError
from heliostat.names import TopicName
from heliostat.schemas import (
    HttpRegistry,
    SchemaRules,
    Strategy,
    SubjectNaming,
    apply_schemas,
    observe_registry,
    plan_schemas,
    unresolved,
)
from heliostat.schemas.apply import independent
from heliostat.schemas.mirroring import mirror_schemas
from heliostat.schemas.registry import Retries, calls
from heliostat.schemas.registry.values import (
    Compatibility,
    Context,
    Mode,
    SchemaId,
    SchemaVersion,
    Subject,
    SubjectVersion,
    join_subject,
)
from heliostat.schemas.schema_plan import (
    Register,
    SchemaRefusal,
    SetMode,
    SoftDelete,
)

SUMMIT = Context(".summit")
PRESERVE, REWRITE = SchemaRules(Strategy.PRESERVE), SchemaRules(Strategy.REWRITE)
ISOLATE = SchemaRules(Strategy.ISOLATE, SubjectNaming(context=SUMMIT))


class Pair:
    """Two registries."""

    def __init__(self, source: RegistryServer, target: RegistryServer) -> None:
        once = Retries(turns=1)
        self.servers = source, target
        self.source = HttpRegistry(RegistryAccess((source.url,)), retries=once)
        self.target = HttpRegistry(RegistryAccess((target.url,)), retries=once)


def open_pair() -> Iterator[Pair]:
    """For a fixture."""
    with RegistryServer() as source, RegistryServer() as target:
        pair = Pair(source, target)
        yield pair
        pair.source.close()
        pair.target.close()


@pytest.fixture
def pair() -> Iterator[Pair]:
    yield from open_pair()


def occupy(registry: HttpRegistry) -> None:
    """Local schemas, whose ids are also the source's."""
    for number in range(3):
        registry.ask(calls.register(Subject(f"local{number}-value"), record()))


def test_preserve(pair: Pair) -> None:
    """Given an empty target / when schemas are preserved / then all is as at the source."""
    fill(pair.source)
    done = mirror(pair.source, pair.target, PRESERVE)
    assert set(done.ids.items()) == {(number, number) for number in range(1, 9)}
    assert contents(pair.target, done.ids) == at_source(pair.source, done.ids)
    assert observe_registry(pair.target).versions == observe_registry(pair.source).versions


def test_preserve_into_a_registry_in_use_refuses_what_is_taken(pair: Pair) -> None:
    fill(pair.source)
    occupy(pair.target)
    before = contents(pair.target, {SchemaId(n): SchemaId(n) for n in (1, 2, 3)})
    apply_schemas(planned(pair.source, pair.target, PRESERVE), PRESERVE, pair.target)
    plan = planned(pair.source, pair.target, PRESERVE)
    taken = {of: refusal.code for of, refusal in plan.refused.items()}
    assert taken == {
        SubjectVersion(USED, V1): SchemaRefusal.ID_TAKEN,
        SubjectVersion(USER, V1): SchemaRefusal.REFERENCE_REFUSED,
        SubjectVersion(CHANGING, V1): SchemaRefusal.ID_TAKEN,
    }
    done = apply_schemas(plan, PRESERVE, pair.target)
    assert done.failed == {}
    assert set(done.ids) == {4, 5, 6, 7, 8}
    assert contents(pair.target, done.ids) == at_source(pair.source, done.ids)
    assert contents(pair.target, {SchemaId(n): SchemaId(n) for n in (1, 2, 3)}) == before
    assert set(unresolved(plan, done)) == set(taken)


def test_what_is_registered_in_the_last_moment_is_not_replaced(pair: Pair) -> None:
    """Given a local schema that comes after the look / when schemas are preserved / then it stays.

    IMPORT would replace it without a word.
    """
    pair.source.ask(calls.register(USED, record()))
    plan = planned(pair.source, pair.target, PRESERVE)
    local = record()
    for _ in range(8):  # so that the source's id is free
        pair.target.ask(calls.register(fresh_subject(), record()))
    pair.servers[1].double.subjects.clear()
    pair.servers[1].double.contexts["."].by_id.clear()
    schema_id = pair.target.ask(calls.register(USED, local))
    for _ in range(3):
        apply_schemas(plan, PRESERVE, pair.target)
        plan = planned(pair.source, pair.target, PRESERVE)
    assert pair.target.ask(calls.version(USED)).schema == local
    assert pair.target.ask(calls.schema_by_id(schema_id)) == local
    assert [each.code for each in plan.refused.values()] == [SchemaRefusal.VERSION_TAKEN]


def test_isolate_beside_a_registry_in_use(pair: Pair) -> None:
    """Given colliding ids / when schemas are isolated / then each context has its own."""
    fill(pair.source)
    occupy(pair.target)
    done = mirror(pair.source, pair.target, ISOLATE)
    assert set(done.ids) == set(range(1, 9))
    at_context = RegistryAccess((f"{pair.servers[1].url}/contexts/{SUMMIT}",))
    with HttpRegistry(at_context) as consumer:
        assert contents(consumer, done.ids) == at_source(pair.source, done.ids)
    assert pair.target.ask(calls.schema_by_id(SchemaId(1))) != pair.source.ask(
        calls.schema_by_id(SchemaId(1))
    )
    local = pair.target.ask(calls.register(fresh_subject(), record()))
    assert local == 4


def test_rewrite_into_a_registry_in_use(pair: Pair) -> None:
    """Given colliding ids and a prefix / when schemas are rewritten / then each id has its map."""
    fill(pair.source)
    occupy(pair.target)
    topics = {TopicName(name): TopicName(f"summit.{name}") for name in ("used", "user", "chg")}
    rules = replace(REWRITE, naming=SubjectNaming(topics))
    done = mirror(pair.source, pair.target, rules)
    assert set(done.ids) == set(range(1, 9))
    assert all(theirs > 3 for theirs in done.ids.values())
    assert contents(pair.target, done.ids) == at_source(pair.source, done.ids)
    user = pair.source.ask(calls.version(USER)).schema_id
    (reference,) = pair.target.ask(calls.schema_by_id(done.ids[user])).references
    assert reference.subject == "summit.used-value"
    names = pair.target.ask(calls.subjects())
    assert {"summit.used-value", "summit.user-value", "summit.chg-value", "j-value"} <= set(names)
    assert "gone-value" not in names
    chg = Subject("summit.chg-value")
    assert pair.target.ask(calls.versions(chg)) == (V2, SchemaVersion(3))
    assert pair.target.ask(calls.compatibility(chg)) is Compatibility.NONE


def test_references_are_to_the_versions_of_the_target(pair: Pair) -> None:
    """Given a local version under the same name / when it is referred to / then it is the other."""
    fill(pair.source)
    pair.target.ask(calls.register(USED, record()))
    mirror(pair.source, pair.target, REWRITE)
    wanted = pair.source.ask(calls.version(USED)).schema
    (reference,) = pair.target.ask(calls.version(USER)).schema.references
    assert reference.version == V2
    assert pair.target.ask(calls.version(USED, reference.version)).schema == wanted


def test_a_lost_map_is_found_again(pair: Pair) -> None:
    """Given a mirrored registry / when nothing is remembered / then the same ids are found."""
    fill(pair.source)
    occupy(pair.target)
    done = mirror(pair.source, pair.target, REWRITE)
    assert dict(planned(pair.source, pair.target, REWRITE).ids) == done.ids


def test_active_active_both_ways_ends(pair: Pair) -> None:
    """Given two registries that mirror each other / when each has new ones / then no loop."""
    pair.source.ask(calls.register(Subject("a-value"), record()))
    pair.target.ask(calls.register(Subject("a-value"), record()))
    topic = TopicName("a")
    there = replace(REWRITE, naming=SubjectNaming({topic: TopicName("summit.a")}))
    back = replace(REWRITE, naming=SubjectNaming({topic: TopicName("base.a")}))
    # Known from the links' states before their first look, as each claims its mirrors there.
    there = replace(there, mirrored={Subject("base.a-value"): "base"})
    back = replace(back, mirrored={Subject("summit.a-value"): "summit"})
    for _ in range(3):
        apply_schemas(planned(pair.source, pair.target, there), there, pair.target)
        apply_schemas(planned(pair.target, pair.source, back), back, pair.source)
    assert set(pair.target.ask(calls.subjects())) == {"a-value", "summit.a-value"}
    assert set(pair.source.ask(calls.subjects())) == {"a-value", "base.a-value"}
    assert planned(pair.source, pair.target, there).actions == ()
    assert planned(pair.target, pair.source, back).actions == ()


@pytest.mark.parametrize("rules", [PRESERVE, ISOLATE, REWRITE])
def test_new_versions_and_deletions_follow(pair: Pair, rules: SchemaRules) -> None:
    fill(pair.source)
    mirror(pair.source, pair.target, rules)
    pair.source.ask(calls.register(CHANGING, record()))
    pair.source.ask(calls.delete_version(CHANGING, V2))
    done = mirror(pair.source, pair.target, rules)
    context = rules.naming.context
    assert contents(pair.target, done.ids, context).keys() == set(range(1, 10))
    name = join_subject(context, CHANGING)
    assert pair.target.ask(calls.versions(name)) == pair.source.ask(calls.versions(CHANGING))


@pytest.mark.parametrize("rules", [PRESERVE, REWRITE])
def test_a_turn_that_was_cut_is_finished_by_the_next(pair: Pair, rules: SchemaRules) -> None:
    """Given a registry that goes away in between / when it is back / then nothing is doubled."""
    fill(pair.source)
    left = [5]

    def go_away(asked: Asked) -> Reply | None:
        if asked.method == "GET":
            return None
        left[0] -= 1
        return None if left[0] >= 0 else Reply(503)

    pair.servers[1].troubles.append(go_away)
    with pytest.raises(RegistryError):
        apply_schemas(planned(pair.source, pair.target, rules), rules, pair.target)
    pair.servers[1].troubles.clear()
    done = mirror(pair.source, pair.target, rules)
    assert contents(pair.target, done.ids).keys() == set(range(1, 9))


def test_a_schema_that_the_target_refuses_does_not_stop_the_others(pair: Pair) -> None:
    """Given a schema that is too large there / when all are mirrored / then only it is missing."""
    fill(pair.source)

    def too_large(asked: Asked) -> Reply | None:
        if asked.method == "POST" and asked.target.startswith(f"/subjects/{USED}"):
            return Reply(422, b'{"error_code":42209,"message":"too large"}')
        return None

    pair.servers[1].troubles.append(too_large)
    plan = planned(pair.source, pair.target, REWRITE)
    done = apply_schemas(plan, REWRITE, pair.target)
    assert set(done.failed) == {SubjectVersion(USED, V1), SubjectVersion(USER, V1)}
    assert "SCHEMA_TOO_LARGE" in done.failed[SubjectVersion(USED, V1)]
    assert len(done.ids) == 6


def test_a_registry_that_gives_another_id_is_not_believed(pair: Pair) -> None:
    """Apicurio takes the wish for an id and gives its own."""
    pair.source.ask(calls.register(USED, record()))
    pair.target.ask(calls.set_mode(Mode.IMPORT))
    pair.servers[1].troubles.append(
        lambda asked: Reply(200, b'{"id":77}') if asked.method == "POST" else None
    )
    done = apply_schemas(planned(pair.source, pair.target, PRESERVE), PRESERVE, pair.target)
    assert done.ids == {}
    assert "id 77 where 1 was wanted" in done.failed[SubjectVersion(USED, V1)]


def test_a_read_only_target_is_waited_for(pair: Pair) -> None:
    fill(pair.source)
    plan = planned(pair.source, pair.target, REWRITE)
    pair.target.ask(calls.set_mode(Mode.READONLY))
    with pytest.raises(RegistryError, match="OPERATION_NOT_PERMITTED"):
        apply_schemas(plan, REWRITE, pair.target)
    refused = planned(pair.source, pair.target, REWRITE).refused
    known = {SchemaRefusal.MODE, SchemaRefusal.REFERENCE_REFUSED}
    assert {each.code for each in refused.values()} == known
    pair.target.ask(calls.set_mode(Mode.READWRITE))
    mirror(pair.source, pair.target, REWRITE)


def test_a_registry_that_lacks_pages_is_read_one_by_one(pair: Pair) -> None:
    fill(pair.source)
    at_once = observe_registry(pair.source)
    pair.servers[0].troubles.append(
        lambda asked: Reply(404, b"{}") if asked.target.startswith("/schemas?") else None
    )
    assert observe_registry(pair.source) == at_once


def test_pages_are_read_to_the_end_and_cost_few_requests(pair: Pair) -> None:
    pair.servers[0].double.page_versions = 10
    for number in range(25):
        pair.source.ask(calls.register(Subject(f"s{number}"), record()))
    counting = CountingRegistry(pair.source)
    assert len(observe_registry(counting).versions) == 25
    assert counting.asked == 11  # four pages of each kind, the last ones empty, and settings


@pytest.mark.parametrize(
    ("rules", "source_each", "target_each"),
    [
        (PRESERVE, 0, 6),  # what it has and its mode, that set, both again, and the import
        (replace(PRESERVE, carries_compatibility=True), 1, 10),  # its level three times, and set
        (REWRITE, 0, 5),  # what it has, mode and level, the registration, and level NONE
    ],
)
def test_a_new_subject_costs_few_requests(
    pair: Pair, rules: SchemaRules, source_each: int, target_each: int
) -> None:
    """Given forty more subjects / then so many more requests: between continents each takes long.

    What is there already is compared with pages, and its compatibility where that is carried.
    """
    pair.target.ask(calls.set_compatibility(Compatibility.FULL))
    asked = list[tuple[int, int]]()
    for number in range(80):
        pair.source.ask(calls.register(Subject(f"s{number}"), record(f"R{number}")))
        if number in {39, 79}:
            sides = CountingRegistry(pair.source), CountingRegistry(pair.target)
            mirror_schemas(*sides, lambda _: rules)
            asked.append((sides[0].asked, sides[1].asked))
    again = CountingRegistry(pair.target)
    mirror_schemas(pair.source, again, lambda _: rules)
    (few_there, few_here), (there, here) = asked
    pages = 10
    assert here - few_here <= pages + (3 * 40 if rules.carries_compatibility else 0)
    assert few_here <= 40 * target_each + 40
    assert there - few_there == 40 * source_each
    assert again.asked <= 20 + (80 if rules.carries_compatibility else 0)


@pytest.mark.parametrize("deleted", [True, False])
def test_a_version_that_a_page_misses_is_not_deleted_and_is_read_if_it_matters(
    pair: Pair, deleted: bool
) -> None:
    """Given a page from which others were deleted in between / then nothing false is concluded."""
    fill(pair.source)
    whole = observe_registry(pair.source)
    missed = SubjectVersion(USER, V1)

    def miss(asked: Asked) -> Reply | None:
        if not asked.target.startswith("/schemas?") or "offset=0" not in asked.target:
            return None
        if ("deleted=true" in asked.target) is not deleted and not deleted:
            return None
        page = json.loads(answer(pair.servers[0].double, asked).body)
        return Reply(200, json.dumps([each for each in page if each["subject"] != USER]).encode())

    pair.servers[0].troubles.append(miss)
    found = observe_registry(pair.source)
    assert {**found.versions, missed: whole.versions[missed]} == whole.versions
    assert observe_registry(pair.source, {USER}).versions == whole.versions


def test_settings_are_read_where_they_are_wanted(pair: Pair) -> None:
    fill(pair.target)
    pair.target.ask(calls.set_mode(Mode.IMPORT, USED, force=True))
    wanted = {USED, CHANGING, fresh_subject()}
    found = observe_registry(pair.target, wanted, wanted)
    assert found.mode(USED) is Mode.IMPORT
    assert found.mode(CHANGING) is Mode.READWRITE
    assert found.compatibilities[CHANGING] is Compatibility.NONE
    assert found.compatibilities[USED] is Compatibility.BACKWARD


def test_what_refers_to_each_other_is_one_part_and_all_else_is_not(pair: Pair) -> None:
    fill(pair.source)
    plan = planned(pair.source, pair.target, REWRITE)
    parts = [
        {each.of.subject for each in part if isinstance(each, Register | SoftDelete)}
        for part in independent(plan.actions)
    ]
    assert sorted(map(sorted, parts)) == [
        ["chg-value"],
        ["gone-value"],
        ["j-value"],
        ["p-value"],
        ["used-value", "user-value"],
    ]
    assert sum(map(len, independent(plan.actions))) == len(plan.actions)


def test_modes_of_subjects_are_set_side_by_side_and_those_of_contexts_first(pair: Pair) -> None:
    fill(pair.source)
    modes = planned(pair.source, pair.target, PRESERVE).actions
    assert len(modes) > 1
    assert all(isinstance(each, SetMode) for each in modes)
    assert sorted(map(len, independent(modes))) == [1] * len(modes)
    assert independent([SetMode(join_subject(SUMMIT, ""), Mode.IMPORT)]) == []


def test_one_failure_ends_all_parts(pair: Pair) -> None:
    """Given a registry that goes away / then no further subject is tried against it."""
    for number in range(200):
        pair.servers[0].double.register(f"s{number}-value", {"schema": record().text})
    plan = planned(pair.source, pair.target, REWRITE)
    pair.servers[1].troubles.append(lambda _: Reply(503))
    before = len(pair.servers[1].asked)
    with pytest.raises(RegistryError):
        apply_schemas(plan, REWRITE, pair.target)
    assert len(pair.servers[1].asked) - before <= 16


@pytest.mark.thorough
def test_a_thousand_schemas_cross_with_few_requests(pair: Pair) -> None:
    for number in range(1_000):
        pair.servers[0].double.register(f"s{number}-value", {"schema": record().text})
    counting = CountingRegistry(pair.target)
    plan = plan_schemas(observe_registry(pair.source), observe_registry(pair.target), REWRITE)
    done = apply_schemas(plan, REWRITE, counting)
    assert len(done.ids) == 1_000
    assert counting.asked == 2_000  # each subject's compatibility, too


def test_a_list_that_may_be_cut_is_told_and_what_is_wanted_is_read_all_the_same(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Apicurio lists 1,000 subjects and no more."""
    monkeypatch.setattr("heliostat.schemas.observe.LISTED_MAX", 2)
    for name in ("a", "b", "c"):
        pair.target.ask(calls.register(Subject(name), record()))

    def like_apicurio(asked: Asked) -> Reply | None:
        if asked.target.startswith("/schemas?"):
            return Reply(404, b"{}")
        return Reply(200, b'["a","b"]') if asked.target.startswith("/subjects?") else None

    pair.servers[1].troubles.append(like_apicurio)
    found = observe_registry(pair.target)
    assert {each.subject for each in found.versions} == {"a", "b"}
    assert found.is_cut
    whole = observe_registry(pair.target, {Subject("c"), Subject("none")})
    assert {each.subject for each in whole.versions} == {"a", "b", "c"}
