"""Rules that only Confluent's registry has, as the double has them: modes, wanted ids, contexts.

Each was read in Confluent's source (8.4, classes `KafkaSchemaRegistry`, `AbstractSchemaRegistry`
and `InMemoryCache`); what a mirror may rely on, and what may surprise it.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.registry_contract import V1, V2, RegistrySide, fresh_subject, record, referring_to
from support.registry_double import RegistryDouble
from support.registry_server import RegistryServer

from heliostat.access import RegistryAccess
from heliostat.schemas.registry import HttpRegistry, calls, error_codes
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
    join_subject,
)

NOT_PERMITTED = error_codes.OPERATION_NOT_PERMITTED
EVERYWHERE = Subject(":.__GLOBAL:")
"""Stands for all contexts in modes and compatibilities."""
SUMMIT = Context(".summit")
V7 = SchemaVersion(7)
ID100, ID200 = SchemaId(100), SchemaId(200)


def served(server: RegistryServer) -> RegistrySide:
    return RegistrySide(HttpRegistry(RegistryAccess((server.url,))))


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    with RegistryServer() as server:
        yield server


@pytest.fixture
def side(server: RegistryServer) -> Iterator[RegistrySide]:
    side = served(server)
    yield side
    side.registry.close()


@pytest.fixture
def importing(side: RegistrySide) -> RegistrySide:
    """An empty registry in IMPORT mode, with all its contexts."""
    assert side.ask(calls.set_mode(Mode.IMPORT, EVERYWHERE)) is Mode.IMPORT
    return side


def test_an_id_is_named_in_import_mode_only(side: RegistrySide) -> None:
    subject = fresh_subject()
    assert side.code(calls.register(subject, record(), schema_id=ID100)) == NOT_PERMITTED
    side.ask(calls.set_mode(Mode.IMPORT))
    assert side.code(calls.register(subject, record())) == NOT_PERMITTED
    assert side.ask(calls.register(subject, record(), schema_id=ID100, number=V7)) == ID100
    assert side.ask(calls.versions(subject)) == (V7,)


def test_ids_continue_after_the_largest(importing: RegistrySide) -> None:
    importing.ask(calls.register(fresh_subject(), record(), schema_id=ID200))
    importing.ask(calls.set_mode(Mode.READWRITE, EVERYWHERE))
    assert importing.ask(calls.register(fresh_subject(), record())) == 201


def test_an_id_is_not_given_to_other_content(importing: RegistrySide) -> None:
    importing.ask(calls.register(fresh_subject(), record(), schema_id=ID100))
    other = calls.register(fresh_subject(), record(), schema_id=ID100)
    assert importing.code(other) == NOT_PERMITTED


def test_importing_twice_is_once(importing: RegistrySide) -> None:
    subject, schema = fresh_subject(), record()
    for _ in range(2):
        got = importing.ask(calls.register(subject, schema, schema_id=ID100, number=V7))
        assert got == ID100
    assert importing.ask(calls.versions(subject)) == (V7,)


def test_content_may_be_imported_under_two_ids(importing: RegistrySide) -> None:
    """Given content with an id / when it is imported with another / then both can be read."""
    schema = record()
    importing.ask(calls.register(fresh_subject(), schema, schema_id=ID100))
    importing.ask(calls.register(fresh_subject(), schema, schema_id=ID200))
    assert importing.ask(calls.schema_by_id(ID100)) == schema
    assert importing.ask(calls.schema_by_id(ID200)) == schema


def test_import_replaces_a_version_and_what_its_id_means(importing: RegistrySide) -> None:
    """Given a version / when other content is imported in its place / then its id reads as that.

    Nothing refuses it: so a mirror looks before it imports.
    """
    subject, old, new = fresh_subject(), record(), record()
    importing.ask(calls.register(subject, old, schema_id=ID100, number=V1))
    importing.ask(calls.register(subject, new, schema_id=ID200, number=V1))
    assert importing.ask(calls.version(subject, V1)).schema == new
    assert importing.ask(calls.schema_by_id(ID100)) == new


def test_import_skips_compatibility_and_takes_versions_in_any_order(
    importing: RegistrySide,
) -> None:
    subject = fresh_subject()
    old, new = record(x="int"), record(x="string")
    importing.ask(calls.register(subject, new, schema_id=ID200, number=V7))
    importing.ask(calls.register(subject, old, schema_id=ID100, number=V2))
    assert importing.ask(calls.versions(subject)) == (V2, V7)
    assert importing.ask(calls.version(subject)).schema == new


def test_a_registry_with_subjects_is_imported_into_by_force_only(side: RegistrySide) -> None:
    subject, schema = fresh_subject(), record()
    schema_id = side.ask(calls.register(subject, schema))
    assert side.code(calls.set_mode(Mode.IMPORT)) == NOT_PERMITTED
    assert side.ask(calls.set_mode(Mode.IMPORT, force=True)) is Mode.IMPORT
    assert side.ask(calls.schema_by_id(schema_id)) == schema


def test_entering_import_mode_deletes_for_good_what_was_soft_deleted(side: RegistrySide) -> None:
    """Given a soft-deleted subject / when IMPORT begins without force / then its id is gone."""
    subject = fresh_subject()
    schema_id = side.ask(calls.register(subject, record()))
    side.ask(calls.delete_subject(subject))
    side.ask(calls.set_mode(Mode.IMPORT))
    assert side.code(calls.schema_by_id(schema_id)) == error_codes.SCHEMA_NOT_FOUND


def test_one_subject_may_have_a_mode_of_its_own(side: RegistrySide) -> None:
    mirrored, local = fresh_subject(), fresh_subject()
    assert side.code(calls.mode(mirrored)) == error_codes.NO_MODE_OF_SUBJECT
    side.ask(calls.set_mode(Mode.IMPORT, mirrored))
    side.ask(calls.register(mirrored, record(), schema_id=ID100))
    side.ask(calls.register(local, record()))
    assert side.ask(calls.mode(mirrored)) is Mode.IMPORT
    assert side.ask(calls.mode(local, inherited=True)) is Mode.READWRITE
    side.ask(calls.clear_mode(mirrored))
    assert side.ask(calls.mode(mirrored, inherited=True)) is Mode.READWRITE


def test_what_is_read_only_is_not_written(side: RegistrySide) -> None:
    subject = fresh_subject()
    side.ask(calls.register(subject, record()))
    side.ask(calls.set_mode(Mode.READONLY))
    for call in (
        calls.register(subject, record()),
        calls.register(subject, record(), schema_id=ID100),
        calls.delete_subject(subject),
        calls.delete_version(subject, V1),
        calls.set_compatibility(Compatibility.NONE, subject),
    ):
        assert side.code(call) == NOT_PERMITTED
    assert side.ask(calls.versions(subject)) == (V1,)


def test_modes_may_be_fixed() -> None:
    with RegistryServer(RegistryDouble(modes_change=False)) as server:
        assert served(server).code(calls.set_mode(Mode.IMPORT)) == NOT_PERMITTED


def test_ids_count_by_context(importing: RegistrySide) -> None:
    """Given an id in two contexts / when it is read / then each has its own content."""
    here, there = fresh_subject(), join_subject(SUMMIT, fresh_subject())
    local, mirrored = record(), record()
    importing.ask(calls.register(here, local, schema_id=ID100))
    importing.ask(calls.register(there, mirrored, schema_id=ID100))
    assert importing.ask(calls.schema_by_id(ID100)) == local
    assert importing.ask(calls.schema_by_id(ID100, SUMMIT)) == mirrored
    assert importing.ask(calls.versions_of_id(ID100, SUMMIT)) == (SubjectVersion(there, V1),)
    assert importing.ask(calls.contexts()) == (".", SUMMIT)
    assert set(importing.ask(calls.subjects())) == {here, there}
    assert importing.ask(calls.subjects(prefix="")) == (here,)
    assert importing.ask(calls.subjects(prefix=":.summit:")) == (there,)


def test_the_mode_of_the_registry_is_that_of_its_default_context(side: RegistrySide) -> None:
    """Given IMPORT without a subject / when a context is written / then it is as before."""
    side.ask(calls.set_mode(Mode.IMPORT))
    there = join_subject(SUMMIT, fresh_subject())
    assert side.ask(calls.mode(there, inherited=True)) is Mode.READWRITE
    assert side.code(calls.register(there, record(), schema_id=ID100)) == NOT_PERMITTED
    side.ask(calls.register(there, record()))


def test_a_context_is_imported_into_beside_a_registry_in_use(side: RegistrySide) -> None:
    local = fresh_subject()
    side.ask(calls.register(local, record()))
    side.ask(calls.set_mode(Mode.IMPORT, Subject(":.summit:")))
    mirrored = join_subject(SUMMIT, fresh_subject())
    side.ask(calls.register(mirrored, record(), schema_id=ID100, number=V7))
    side.ask(calls.register(local, side.ask(calls.version(local)).schema))
    assert side.ask(calls.versions(mirrored)) == (V7,)


def test_a_context_may_be_a_part_of_the_address(server: RegistryServer) -> None:
    """Given a context in the address / when an id is read / then it is that context's.

    So a consumer that knows nothing of contexts reads a mirrored one.
    """
    side = served(server)
    subject, schema = fresh_subject(), record()
    side.ask(calls.set_mode(Mode.IMPORT, Subject(":.summit:")))
    side.ask(calls.register(join_subject(SUMMIT, subject), schema, schema_id=ID100))
    within = RegistryAccess((f"{server.url}/contexts/.summit",))
    with HttpRegistry(within) as registry:
        assert registry.ask(calls.schema_by_id(ID100)) == schema
        found = registry.ask(calls.version(subject))
        assert (found.subject, found.schema) == (join_subject(SUMMIT, subject), schema)
    assert side.code(calls.schema_by_id(ID100)) == error_codes.SCHEMA_NOT_FOUND


def test_a_plain_subject_is_looked_for_in_all_contexts(importing: RegistrySide) -> None:
    subject, schema = fresh_subject(), record()
    importing.ask(calls.register(join_subject(SUMMIT, subject), schema, schema_id=ID100))
    assert importing.ask(calls.version(subject, V1)).subject == join_subject(SUMMIT, subject)


def test_a_reference_means_the_context_of_who_refers(importing: RegistrySide) -> None:
    used, user, inner = fresh_subject(), fresh_subject(), record()
    outer = referring_to(inner, used)
    importing.ask(calls.register(used, inner, schema_id=ID100))
    there = calls.register(join_subject(SUMMIT, user), outer, schema_id=ID200)
    assert importing.code(there) == error_codes.INVALID_SCHEMA
    importing.ask(calls.register(join_subject(SUMMIT, used), inner, schema_id=ID100))
    assert importing.ask(there) == ID200


def test_the_same_text_with_another_reference_is_another_content(side: RegistrySide) -> None:
    one, two, inner = fresh_subject(), fresh_subject(), record()
    for subject in (one, two):
        side.ask(calls.register(subject, inner))
    schema = referring_to(inner, one)
    (reference,) = schema.references
    other = Schema(schema.text, references=(SchemaReference(reference.name, two, V1),))
    ids = [side.ask(calls.register(fresh_subject(), each)) for each in (schema, other)]
    assert ids[0] != ids[1]


def test_the_text_is_kept_in_canonical_form(side: RegistrySide) -> None:
    subject, schema = fresh_subject(), record()
    schema_id = side.ask(calls.register(subject, schema))
    spaced = Schema(schema.text.replace(":", " : "))
    assert side.ask(calls.register(subject, spaced)) == schema_id
    assert side.ask(calls.schema_by_id(schema_id)) == schema
    assert side.ask(calls.versions(subject)) == (V1,)


def test_versions_are_not_skipped_in_normal_use(side: RegistrySide) -> None:
    subject = fresh_subject()
    skipped = calls.register(subject, record(), number=V7)
    assert side.code(skipped) == error_codes.INVALID_SCHEMA
    side.ask(calls.register(subject, record(), number=V1))


def test_a_reference_that_is_not_deleted_for_good_can_still_be_used(side: RegistrySide) -> None:
    used, inner = fresh_subject(), record()
    side.ask(calls.register(used, inner))
    side.ask(calls.delete_subject(used))
    side.ask(calls.register(fresh_subject(), referring_to(inner, used)))
    refused = side.code(calls.delete_subject(used, permanently=True))
    assert refused == error_codes.REFERENCE_EXISTS


def test_what_was_deleted_twice_is_told(side: RegistrySide) -> None:
    subject = fresh_subject()
    side.ask(calls.register(subject, record()))
    not_yet = calls.delete_version(subject, V1, permanently=True)
    assert side.code(not_yet) == error_codes.VERSION_NOT_SOFT_DELETED
    side.ask(calls.delete_version(subject, V1))
    assert side.code(calls.delete_version(subject, V1)) == error_codes.VERSION_SOFT_DELETED
    assert side.code(calls.delete_subject(subject)) == error_codes.SUBJECT_SOFT_DELETED
    assert side.ask(calls.delete_version(subject, V1, permanently=True)) == V1
    assert side.code(calls.delete_subject(subject)) == error_codes.SUBJECT_NOT_FOUND


def test_registering_again_drops_the_soft_deleted_version_of_that_id(side: RegistrySide) -> None:
    """Apicurio keeps it."""
    subject, schema = fresh_subject(), record()
    side.ask(calls.register(subject, schema))
    side.ask(calls.delete_subject(subject))
    side.ask(calls.register(subject, schema))
    assert side.ask(calls.versions(subject, deleted=True)) == (V2,)


def test_compatibility_is_inherited_from_context_and_registry(side: RegistrySide) -> None:
    subject, mirrored = fresh_subject(), join_subject(SUMMIT, fresh_subject())
    assert side.ask(calls.compatibility()) is Compatibility.BACKWARD
    assert side.code(calls.compatibility(subject)) == error_codes.NO_COMPATIBILITY_OF_SUBJECT
    side.ask(calls.set_compatibility(Compatibility.FULL))
    side.ask(calls.set_compatibility(Compatibility.NONE, Subject(":.summit:")))
    assert side.ask(calls.compatibility(subject, inherited=True)) is Compatibility.FULL
    assert side.ask(calls.compatibility(mirrored, inherited=True)) is Compatibility.NONE


@pytest.mark.parametrize(
    ("level", "first", "second", "accepted"),
    [
        (Compatibility.BACKWARD, "none", "one", True),
        (Compatibility.FORWARD, "one", "none", True),
        (Compatibility.FULL, "none", "one", True),
        (Compatibility.BACKWARD, "int", "string", False),
        (Compatibility.FORWARD, "int", "string", False),
        (Compatibility.FULL, "int", "string", False),
        (Compatibility.NONE, "int", "string", True),
    ],
)
def test_compatibility_is_checked(
    side: RegistrySide, level: Compatibility, first: str, second: str, accepted: bool
) -> None:
    fields = {"none": {"x": "int"}, "one": {"x": "int", "y": "int"}}
    subject = fresh_subject()
    side.ask(calls.set_compatibility(level, subject))
    side.ask(calls.register(subject, record("R", **fields.get(first, {"x": first}))))
    changed = record("R", **fields.get(second, {"x": second}))
    assert side.ask(calls.is_compatible(subject, changed)) is accepted
    if accepted:
        side.ask(calls.register(subject, changed))
    else:
        refused = side.code(calls.register(subject, changed))
        assert refused == error_codes.INCOMPATIBLE_SCHEMA


@pytest.mark.parametrize("name", ["__GLOBAL", "__EMPTY", "a\nb"])
def test_some_names_are_refused(side: RegistrySide, name: str) -> None:
    refused = side.code(calls.register(Subject(name), record()))
    assert refused == error_codes.INVALID_SUBJECT


def test_an_undefined_name_in_a_schema_is_refused(side: RegistrySide) -> None:
    undefined = '{"type":"record","name":"a","fields":[{"name":"x","type":"nowhere.B"}]}'
    refused = side.code(calls.register(fresh_subject(), Schema(undefined)))
    assert refused == error_codes.INVALID_SCHEMA


def test_what_belongs_to_a_schema_is_part_of_its_content(side: RegistrySide) -> None:
    schema = record()
    tagged = Schema(schema.text, metadata='{"tags": {"x": ["PII"]}}')
    ids = [side.ask(calls.register(fresh_subject(), each)) for each in (schema, tagged)]
    assert ids[0] != ids[1]
    assert side.ask(calls.schema_by_id(ids[1])) == tagged
