"""The registry contract on Apicurio, and where Apicurio differs from Confluent's rules.

The differences were seen at 2.5.11.Final (2026-11-25); each test fails when one goes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from support.mirrored_schemas import CHANGING, at_source, contents, fill, mirror
from support.provoked import Provoked
from support.registry_contract import (
    SCRIPTS,
    V1,
    V2,
    RegistrySide,
    fresh_subject,
    record,
    referring_to,
    without_default,
)
from support.registry_server import RegistryServer

from heliostat.access import RegistryAccess
from heliostat.errors import RegistryAnswerInvalid, RegistryError, RegistryUnreachable
from heliostat.names import TopicName
from heliostat.schemas import (
    SchemaRules,
    Strategy,
    SubjectNaming,
    apply_schemas,
    observe_registry,
    plan_schemas,
)
from heliostat.schemas.mirroring import mirror_schemas, plan_with_settings
from heliostat.schemas.observe import LISTED_MAX
from heliostat.schemas.registry import Call, HttpRegistry, Request, Retries, calls, error_codes
from heliostat.schemas.registry.values import (
    Compatibility,
    Context,
    Mode,
    Schema,
    SchemaId,
    SchemaVersion,
    Subject,
    SubjectVersion,
    join_subject,
)
from heliostat.schemas.schema_plan import SchemaRefusal
from heliostat_sandbox import SandboxRegistry
from heliostat_sandbox.registry import API

pytestmark = [pytest.mark.kafka, pytest.mark.thorough]

ONCE = Retries(turns=1)


@pytest.fixture(scope="module")
def apicurio() -> Iterator[SandboxRegistry]:
    with SandboxRegistry.start() as registry:
        yield registry


@pytest.fixture(scope="module")
def side(apicurio: SandboxRegistry) -> Iterator[RegistrySide]:
    with HttpRegistry(RegistryAccess((apicurio.url,)), retries=ONCE) as registry:
        yield RegistrySide(registry)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.__name__)
def test_apicurio_keeps_the_contract(
    side: RegistrySide, script: Callable[[RegistrySide], None]
) -> None:
    script(side)


def test_apicurio_ignores_a_wanted_id_and_version(side: RegistrySide) -> None:
    """Given a wanted id / when a schema is registered / then it silently gets another one."""
    subject, wanted = fresh_subject(), SchemaId(1_000_000)
    got = side.ask(calls.register(subject, record(), schema_id=wanted, number=SchemaVersion(7)))
    assert got != wanted
    assert side.ask(calls.versions(subject)) == (V1,)


def test_apicurio_has_no_modes(side: RegistrySide) -> None:
    subject = fresh_subject()
    side.ask(calls.register(subject, record()))
    for call in (calls.mode(), calls.mode(subject), calls.set_mode(Mode.IMPORT)):
        assert side.code(call) in error_codes.NO_SUCH_REQUEST


def test_a_context_is_only_a_part_of_the_name_at_apicurio(side: RegistrySide) -> None:
    """Given a subject in a context / when its content is elsewhere, too / then both have one id."""
    context = Context(".summit")
    schema = record()
    plain, isolated = fresh_subject(), join_subject(context, fresh_subject())
    schema_id = side.ask(calls.register(isolated, schema))
    assert side.ask(calls.register(plain, schema)) == schema_id
    assert context not in side.ask(calls.contexts())
    assert SubjectVersion(plain, V1) in side.ask(calls.versions_of_id(schema_id, context))


def test_apicurio_keeps_spaces_and_so_another_id(side: RegistrySide) -> None:
    subject, schema = fresh_subject(), record()
    spaced = Schema(schema.text.replace(":", ": "))
    first = side.ask(calls.register(subject, schema))
    second = side.ask(calls.register(subject, spaced))
    assert second != first
    assert side.ask(calls.schema_by_id(second)) == spaced
    assert side.ask(calls.versions(subject)) == (V1, V2)


def test_apicurio_refuses_json_that_does_not_say_what_it_is(side: RegistrySide) -> None:
    """Confluent's accepts any object."""
    plain = calls.register(fresh_subject(), Schema('{"type":"object"}', "JSON"))
    assert side.code(plain) == error_codes.INVALID_SCHEMA


def test_a_wholly_deleted_subject_is_read_by_id_only_at_apicurio(side: RegistrySide) -> None:
    subject, schema = fresh_subject(), record()
    schema_id = side.ask(calls.register(subject, schema))
    side.ask(calls.delete_subject(subject))
    assert side.ask(calls.versions(subject, deleted=True)) == (V1,)
    refused = side.code(calls.version(subject, V1, deleted=True))
    assert refused == error_codes.SUBJECT_NOT_FOUND
    assert side.ask(calls.schema_by_id(schema_id)) == schema


def test_apicurio_deletes_a_subject_that_is_referred_to(side: RegistrySide) -> None:
    """Given a reference / when its subject is deleted / then the id that uses it is unreadable."""
    used, user, inner = fresh_subject(), fresh_subject(), record()
    side.ask(calls.register(used, inner))
    schema_id = side.ask(calls.register(user, referring_to(inner, used)))
    side.ask(calls.delete_subject(used))
    side.ask(calls.delete_subject(used, permanently=True))
    assert side.code(calls.schema_by_id(schema_id)) == 400


def test_apicurio_accepts_all_changes_unless_told_otherwise_and_lists_all(
    side: RegistrySide,
) -> None:
    subject, other = fresh_subject("one"), fresh_subject("two")
    for each in (subject, other):
        side.ask(calls.register(each, record()))
    assert side.ask(calls.compatibility()) is Compatibility.NONE
    assert side.ask(calls.compatibility(subject)) is Compatibility.NONE
    assert other in side.ask(calls.subjects(prefix=subject))


@pytest.mark.provokes("REGISTRY")
def test_a_refusal_has_the_registrys_code(side: RegistrySide, provoked: Provoked) -> None:
    with pytest.raises(RegistryError) as refused:
        side.ask(calls.versions(fresh_subject()))
    assert refused.value.name == "SUBJECT_NOT_FOUND"
    provoked("REGISTRY", refused.value)


@pytest.mark.provokes("REGISTRY_ANSWER", how="the address is that of its page for people")
def test_a_page_is_no_answer(apicurio: SandboxRegistry, provoked: Provoked) -> None:
    root = RegistryAccess((apicurio.url.removesuffix(API),))
    page = Call(Request("GET", "/ui/"), calls.subjects().read)
    with HttpRegistry(root, retries=ONCE) as registry:
        with pytest.raises(RegistryAnswerInvalid) as refused:
            registry.ask(page)
        with pytest.raises(RegistryError, match="its address lacks a path") as lost:
            registry.ask(calls.subjects())
    assert lost.value.name == "NO_SUCH_REQUEST"
    assert "doctype html" in str(refused.value)
    provoked("REGISTRY_ANSWER", refused.value)


@pytest.mark.provokes("REGISTRY_UNREACHABLE", how="kill -9 of the registry")
def test_a_killed_registry_is_unreachable_and_another_address_answers(
    apicurio: SandboxRegistry, provoked: Provoked
) -> None:
    """Given two addresses / when one is killed / then the other answers; without it none does."""
    with SandboxRegistry.start() as doomed:
        both = RegistryAccess((doomed.url, apicurio.url))
        with (
            HttpRegistry(both) as registry,
            HttpRegistry(RegistryAccess((doomed.url,)), retries=ONCE) as alone,
        ):
            assert registry.ask(calls.subjects()) == ()
            doomed.kill()
            assert registry.ask(calls.subjects()) != ()
            with pytest.raises(RegistryUnreachable) as refused:
                alone.ask(calls.subjects())
            provoked("REGISTRY_UNREACHABLE", refused.value)
            doomed.resume()
            assert alone.ask(calls.subjects()) == ()


def test_schemas_of_a_confluent_registry_are_rewritten_into_apicurio(
    apicurio: SandboxRegistry,
) -> None:
    """Given ids that collide / when all is mirrored / then each id has its content there.

    References, incompatible versions, what is soft-deleted, other types.
    """
    topics = {TopicName(name): TopicName(f"summit.{name}") for name in ("used", "user", "chg")}
    rules = SchemaRules(Strategy.REWRITE, SubjectNaming(topics))
    with (
        RegistryServer() as server,
        HttpRegistry(RegistryAccess((server.url,))) as source,
        HttpRegistry(RegistryAccess((apicurio.url,))) as target,
    ):
        fill(source)
        target.ask(calls.register(fresh_subject(), record()))
        done = mirror(source, target, rules)
        assert set(done.ids) == set(range(1, 9))
        assert contents(target, done.ids) == at_source(source, done.ids)
        assert Subject("gone-value") in target.ask(calls.subjects())
        source.ask(calls.register(CHANGING, record()))
        assert mirror(source, target, rules).ids.keys() == set(range(1, 10))


def test_a_teams_subject_at_apicurio_keeps_its_compatibility(apicurio: SandboxRegistry) -> None:
    """Given a subject with FULL there / when a version comes that breaks it / then that one waits.

    A subject that the link makes takes any version.
    """
    ours, theirs, schema = fresh_subject("ours"), fresh_subject("theirs"), record()
    with (
        RegistryServer() as server,
        HttpRegistry(RegistryAccess((server.url,))) as source,
        HttpRegistry(RegistryAccess((apicurio.url,))) as target,
    ):
        team = target.ask(calls.register(theirs, schema))
        target.ask(calls.set_compatibility(Compatibility.FULL, theirs))
        for subject in (ours, theirs):
            source.ask(calls.set_compatibility(Compatibility.NONE, subject))
            for each in (schema, without_default(schema, "y")):
                source.ask(calls.register(subject, each))
        rules = SchemaRules(Strategy.REWRITE)
        plan = plan_with_settings(observe_registry(source), target, rules)
        assert [theirs in note for note in plan.notes] == [True]
        done = mirror_schemas(source, target, lambda _: rules)
        assert (set(done.ids), done.ids[SchemaId(1)]) == ({1, 2}, team)
        assert [of.subject for of in done.unresolved] == [theirs]
        assert target.ask(calls.compatibility(theirs)) is Compatibility.FULL
        assert target.ask(calls.versions(theirs)) == (V1,)
        assert target.ask(calls.versions(ours)) == (V1, V2)


def test_schemas_of_apicurio_are_preserved_in_a_confluent_registry() -> None:
    """Given texts with spaces / when they are imported / then ids are kept, texts are canonical."""
    rules = SchemaRules(Strategy.PRESERVE)
    with (
        SandboxRegistry.start() as apicurio,
        RegistryServer() as server,
        HttpRegistry(RegistryAccess((apicurio.url,))) as source,
        HttpRegistry(RegistryAccess((server.url,))) as target,
    ):
        fill(source)
        spaced = Schema(record().text.replace(":", ": "))
        source.ask(calls.register(Subject("spaced-value"), spaced))
        done = mirror(source, target, rules)
        assert contents(target, done.ids) == at_source(source, done.ids)
        assert len(done.ids) == 8  # what is wholly deleted can't be listed at Apicurio


def test_preserve_is_refused_at_apicurio(apicurio: SandboxRegistry) -> None:
    with (
        RegistryServer() as server,
        HttpRegistry(RegistryAccess((server.url,))) as source,
        HttpRegistry(RegistryAccess((apicurio.url,))) as target,
    ):
        source.ask(calls.register(fresh_subject(), record()))
        plan = plan_schemas(
            observe_registry(source), observe_registry(target), SchemaRules(Strategy.PRESERVE)
        )
        assert plan.actions == ()
        assert {each.code for each in plan.refused.values()} == {SchemaRefusal.NO_IMPORT}


@pytest.mark.long
def test_more_subjects_than_apicurio_lists_are_mirrored_and_found_again(
    apicurio: SandboxRegistry,
) -> None:
    """Given more subjects than are listed / when they are mirrored / then a plan of what is level

    is empty. Each look asks Apicurio for each subject, so there are as few as can be.
    """
    rules = SchemaRules(Strategy.REWRITE)
    with (
        RegistryServer() as server,
        HttpRegistry(RegistryAccess((server.url,))) as source,
        HttpRegistry(RegistryAccess((apicurio.url,))) as target,
    ):
        for number in range(LISTED_MAX + 10):
            server.double.register(f"s{number:04}-value", {"schema": record().text})
        there = observe_registry(source)
        done = apply_schemas(plan_schemas(there, observe_registry(target), rules), rules, target)
        assert len(done.ids) == LISTED_MAX + 10
        assert len(target.ask(calls.subjects(deleted=True))) == LISTED_MAX
        cut = observe_registry(target)
        assert cut.is_cut
        first = plan_schemas(there, cut, rules)
        whole = observe_registry(target, first.touched, first.levelled)
        level = plan_schemas(there, whole, rules)
        assert level.actions == ()
        assert level.ids == done.ids
