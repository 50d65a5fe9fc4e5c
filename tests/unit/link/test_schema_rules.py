"""Which subjects a link mirrors, under which names, and where records begin with an id."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from heliostat.access import RegistryAccess, SecretRef
from heliostat.config import LinkConfig, SchemasConfig
from heliostat.link.schema_rules import (
    context_of,
    frames_in,
    frames_of,
    registries_of,
    rules_of,
)
from heliostat.names import TopicName
from heliostat.records.copier.lane import NO_FRAMES, SchemaFrames
from heliostat.schemas import RegistryContent, SchemaRules, Strategy, plan_schemas
from heliostat.schemas.content import VersionContent
from heliostat.schemas.registry.values import (
    DEFAULT_CONTEXT,
    Schema,
    SchemaId,
    SchemaVersion,
    Subject,
    SubjectVersion,
)
from heliostat.schemas.schema_plan import SetMode

FOO, BAR = TopicName("foo"), TopicName("bar")
MIRRORS = {FOO: FOO}
TOPICS = frozenset({FOO, BAR})
KEYS, VALUES, MAYBE = SchemaFrames.KEYS, SchemaFrames.VALUES, SchemaFrames.MAYBE_VALUES


def link(strategy: str = "preserve", **schemas: Any) -> LinkConfig:
    settings = SchemasConfig(strategy=strategy, **schemas)
    return LinkConfig(name="l", source="summit", target="usdf", schemas=settings)


def holding(*subjects: str, is_deleted: bool = False) -> RegistryContent:
    """A registry with one version of each subject."""
    return RegistryContent(
        {
            SubjectVersion(Subject(name), SchemaVersion(1)): VersionContent(
                SchemaId(number), Schema(f'{{"type":"fixed","size":{number}}}'), is_deleted
            )
            for number, name in enumerate(subjects, 1)
        }
    )


def rules(
    source: RegistryContent,
    mirrors: Mapping[TopicName, TopicName] = MIRRORS,
    strategy: str = "preserve",
    **schemas: Any,
) -> SchemaRules:
    return rules_of(link(strategy, **schemas), mirrors, TOPICS)(source)


def is_selected(subject: str, **schemas: Any) -> bool:
    selected = rules(holding(subject), **schemas).selected
    assert selected is not None
    return subject in selected


@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        ("foo-value", True),
        ("foo-key", True),
        ("foo-lsst.sal.Foo", True),
        ("bar-value", False),
        ("bar-key", False),
        ("bar-lsst.sal.Bar", False),
        ("lsst.sal.Foo", True),
        ("lsst.sal.Foo-value", True),
        ("foo-bar-value", True),
        ("foo", True),
        ("bar", True),
        ("bar-2", True),
    ],
)
def test_subjects_of_mirrored_topics_and_of_none_are_selected(
    subject: str, *, expected: bool
) -> None:
    """Given `foo`, which is mirrored, and `bar`, which is not / then `bar`'s subjects are left.

    They may be mirrors themselves, and must not go back to where they came from.
    """
    assert is_selected(subject) is expected


@pytest.mark.parametrize(
    ("subject", "settings", "expected"),
    [
        ("lsst.sal.Foo", {"include": [r"lsst\..*"]}, True),
        ("org.Foo", {"include": [r"lsst\..*"]}, False),
        ("lsst_sal_Foo", {"include": ["lsst.sal.Foo"]}, False),
        ("foo-value", {"include": ["none"]}, True),
        ("bar-value", {"include": ["bar-value"]}, False),
        ("foo-key", {"exclude": ["foo-key"]}, False),
        ("foo-value", {"exclude": ["foo-key"]}, True),
        ("foo-value", {"exclude": ["foo"]}, True),
        ("lsst.sal.Foo", {"exclude": [r"lsst\..*"]}, False),
        ("lsst.sal.Foo", {"include": ["lsst.sal.Foo"], "exclude": [r"lsst\..*"]}, False),
        (":.other:foo-value", {"exclude": ["foo-value"]}, False),
    ],
)
def test_lists_concern_record_names_and_exclude_wins(
    subject: str, settings: dict[str, Any], *, expected: bool
) -> None:
    """Given `include` / then subjects of mirrored topics don't need it; `exclude` is for all."""
    assert is_selected(subject, **settings) is expected


def test_a_mirrored_topic_counts_though_the_source_no_longer_lists_it() -> None:
    """Given a topic that was deleted at the source / then its subjects are still mirrored."""
    found = rules_of(link(), MIRRORS, frozenset({BAR}))(holding("foo-value", "bar-value"))
    assert found.selected == {"foo-value"}


def test_subjects_of_other_contexts_are_left() -> None:
    """Given equal names in another context of the source / then only the default one's are

    mirrored: ids of the other context may mean something else.
    """
    source = holding("foo-value", ":.other:foo-value", ":.other:lsst.sal.Foo")
    plan = plan_schemas(source, RegistryContent(), rules(source))
    assert plan.actions == (SetMode(Subject("foo-value"), plan.actions[0].mode),)
    assert rules(source).source_context == DEFAULT_CONTEXT


RENAMED = {FOO: TopicName("summit.foo")}


@pytest.mark.parametrize(
    ("settings", "subject", "expected"),
    [
        ({}, "foo-value", ("summit.foo-value",)),
        ({}, "foo-lsst.sal.Foo", ("summit.foo-lsst.sal.Foo",)),
        ({}, "lsst.sal.Foo", ("lsst.sal.Foo",)),
        ({"keep_names": True}, "foo-value", ("summit.foo-value", "foo-value")),
        ({"strategy": "isolate"}, "foo-value", (":.summit:summit.foo-value",)),
        ({"strategy": "isolate"}, "lsst.sal.Foo", (":.summit:lsst.sal.Foo",)),
        ({"strategy": "isolate", "context": ".x"}, "lsst.sal.Foo", (":.x:lsst.sal.Foo",)),
    ],
)
def test_subjects_are_renamed_with_their_topics(
    settings: dict[str, Any], subject: str, expected: tuple[str, ...]
) -> None:
    found = rules(holding(subject), RENAMED, **settings)
    assert found.selected == {subject}
    assert found.naming.names(Subject(subject)) == expected


def test_mirrors_that_come_later_do_not_change_rules_that_were_made() -> None:
    """Given rules for the mirrors of a moment / when one more comes / then they stay."""
    mirrors = dict(MIRRORS)
    made = rules_of(link(), mirrors, TOPICS)
    mirrors[BAR] = BAR
    assert made(holding("bar-value")).selected == set()


@pytest.mark.parametrize(
    ("strategy", "expected"), [("preserve", Strategy.PRESERVE), ("isolate", Strategy.ISOLATE)]
)
def test_strategy_and_compatibility_are_those_of_the_link(
    strategy: str, expected: Strategy
) -> None:
    assert rules(holding(), strategy=strategy).strategy is expected
    assert not rules(holding(), strategy=strategy).carries_compatibility
    assert rules(holding(), strategy=strategy, compatibility="carry").carries_compatibility


def test_a_context_is_given_or_named_after_the_source() -> None:
    assert context_of(link()) == DEFAULT_CONTEXT
    assert context_of(link("off")) == DEFAULT_CONTEXT
    assert context_of(link("isolate")) == ".summit"
    assert context_of(link("isolate", context=".given")) == ".given"


def access(*urls: str, **more: Any) -> RegistryAccess:
    return RegistryAccess(urls, **more)


ONE, TWO = access("http://one:8081"), access("http://two:8081")


def test_announced_ids_hold_for_these_registries_and_this_way() -> None:
    """Given other registries, another strategy or context / then announced ids don't hold any more;

    they do after a restart with the same, whatever else is changed.
    """
    ways = [
        registries_of(link(), ONE, TWO),
        registries_of(link(), TWO, ONE),
        registries_of(link(), ONE, ONE),
        registries_of(link(), ONE, access("http://two:8081", "http://three:8081")),
        registries_of(link("isolate"), ONE, TWO),
        registries_of(link("isolate", context=".given"), ONE, TWO),
    ]
    assert len(set(ways)) == len(ways)
    secured = access(
        "http://two:8081", username="u", password=SecretRef(env="PASSWORD"), alias="usdf"
    )
    same = registries_of(link(exclude=["x"], interval_s=7), ONE, secured)
    assert same == ways[0] == registries_of(link(), ONE, TWO)


@pytest.mark.parametrize(
    ("subjects", "expected"),
    [
        (("foo-key",), KEYS),
        (("foo-value",), VALUES),
        (("foo-lsst.sal.Foo",), VALUES),
        (("foo-value", "foo-key"), KEYS | VALUES),
        (("foo-key", "foo-lsst.sal.Foo", "foo-lsst.sal.Other"), KEYS | VALUES),
        ((":.other:foo-key", "foo-value"), VALUES),
        ((":.other:foo-value", "foo-value"), VALUES),
    ],
)
def test_subjects_say_what_of_a_topics_records_is_framed(
    subjects: tuple[str, ...], expected: SchemaFrames
) -> None:
    assert frames_in(holding(*subjects), [FOO, BAR]) == {FOO: expected}
    assert frames_in(holding(*subjects, is_deleted=True), [FOO, BAR]) == {FOO: expected}


@pytest.mark.parametrize(
    "subject", ["bar-value", "lsst.sal.Foo", "foo", "foo-bar-value", "value", ":.other:foo-value"]
)
def test_other_subjects_say_nothing_of_a_topics_records(subject: str) -> None:
    assert frames_in(holding(subject), [FOO]) == {}


@pytest.mark.parametrize(
    ("settings", "found", "expected"),
    [
        ({}, NO_FRAMES, MAYBE),
        ({}, VALUES, VALUES),
        ({}, KEYS, KEYS | MAYBE),
        ({}, KEYS | VALUES, KEYS | VALUES),
        ({"framed": ["foo"]}, NO_FRAMES, VALUES),
        ({"framed": ["foo"]}, KEYS, KEYS | VALUES),
        ({"framed": ["f.*"]}, NO_FRAMES, VALUES),
        ({"framed": ["fo"]}, NO_FRAMES, MAYBE),
        ({"framed": ["bar"]}, NO_FRAMES, MAYBE),
        ({"strategy": "off"}, KEYS | VALUES, NO_FRAMES),
        ({"strategy": "off", "framed": ["foo"]}, NO_FRAMES, NO_FRAMES),
    ],
)
def test_values_may_be_framed_unless_it_is_known_or_schemas_are_off(
    settings: dict[str, Any], found: SchemaFrames, expected: SchemaFrames
) -> None:
    schemas = SchemasConfig(**{"strategy": "preserve", **settings})
    assert frames_of(schemas, FOO, {FOO: found, BAR: KEYS}) == expected


def test_a_topic_of_which_nothing_was_found_may_have_framed_values() -> None:
    """Given no comparison yet / then values that look framed are held all the same."""
    assert frames_of(SchemasConfig(strategy="preserve"), FOO, {}) == MAYBE


UNCLEAR = MAYBE | SchemaFrames.REPLACED
FRAMES = [
    ("rewrite", {}, NO_FRAMES, UNCLEAR),
    ("rewrite", {}, VALUES, VALUES | SchemaFrames.REPLACED),
    ("rewrite", {}, KEYS, KEYS | UNCLEAR),
    ("rewrite", {"framed": ("foo",)}, NO_FRAMES, VALUES | SchemaFrames.REPLACED),
    ("rewrite", {"plain": ("fo+",)}, NO_FRAMES, NO_FRAMES),
    ("rewrite", {"plain": ("foo",)}, KEYS | VALUES, KEYS | SchemaFrames.REPLACED),
    (
        "rewrite",
        {"plain": ("foo",), "framed": (".*",)},
        KEYS,
        KEYS | VALUES | SchemaFrames.REPLACED,
    ),
    ("rewrite", {"plain": ("bar",)}, NO_FRAMES, UNCLEAR),
    ("preserve", {"plain": ("foo",)}, KEYS | VALUES, KEYS),
    ("preserve", {"plain": ("foo",)}, NO_FRAMES, NO_FRAMES),
]


@pytest.mark.parametrize(("strategy", "settings", "found", "expected"), FRAMES)
def test_ids_are_replaced_only_where_it_is_sure_that_they_are_ids(
    strategy: str, settings: dict[str, Any], found: SchemaFrames, expected: SchemaFrames
) -> None:
    schemas = SchemasConfig(strategy=strategy, **settings)
    assert frames_of(schemas, FOO, {FOO: found}) == expected
