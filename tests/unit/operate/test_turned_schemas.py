"""A mirror with another strategy becomes a merged topic: its ids mean the same before and after."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pytest
from support.registry_contract import record, referring_to
from support.registry_sites import FOO, RegistrySite, registry_site

from heliostat.link.schema_rules import copied_names, rules_of
from heliostat.names import ClusterId, TopicName
from heliostat.operate.schemas import SeenRegistries
from heliostat.operate.turned_schemas import not_there, why_other_ids
from heliostat.records.copier.lane import NO_IDS, SchemaIds
from heliostat.schemas import observe_registry, plan_schemas
from heliostat.schemas.registry.values import Subject
from heliostat.topics.values import MirrorRecord

BAR = TopicName("bar")


@pytest.fixture
def site() -> Iterator[RegistrySite]:
    with registry_site() as site:
        yield site


def turn(site: RegistrySite) -> None:
    """What an operator changes in the configuration before a mirror is merged."""
    site.merges, site.schemas["strategy"] = True, "rewrite"


def seen(site: RegistrySite) -> SeenRegistries:
    there, content = observe_registry(site.source), observe_registry(site.target)
    rules = rules_of(site.link, site.mirrors, site.mirrors)(there)
    return SeenRegistries(there, content, site.mirrors, rules, plan_schemas(there, content, rules))


def test_after_preserve_ids_stay_what_they_were_and_both_sides_register(
    site: RegistrySite,
) -> None:
    """Given a preserve mirror's versions, one deleted, one that refers to another, one of two

    topics / when it goes on with rewrite / then each id is its own at the target, and nothing is
    to be done. Once the subjects are open both sides give one id to different schemas, and either
    side's gets to the other under an id of its own.
    """
    site.mirrors[BAR] = BAR
    site.here.set_level("foo-value", "NONE")
    inner, common = record(), record()
    site.register("inner.B", inner)
    site.register("foo-key", common)
    site.register("bar-value", common)
    old, first, second = record(), record(), referring_to(inner, Subject("inner.B"))
    for schema in (old, first, second):
        site.register("foo-value", schema)
    site.here.delete_version("foo-value", "1", permanent=False)
    before = site.mirror().ids
    assert before == {each: each for each in before}
    turn(site)
    found = seen(site)
    assert (found.plan.ids, found.plan.actions) == (before, ())
    assert not_there(found, [FOO, BAR]) == {}
    site.change(opens=True)
    here, there = record(), record()
    assert site.register("foo-value", here) == site.register("foo-value", there, there=True)
    site.there.set_level("foo-value", "NONE")
    done = site.mirror()
    assert not done.unresolved
    assert {own: at for own, at in done.ids.items() if own in before} == before
    [(own, at)] = done.ids.items() - before.items()
    assert at == own + 1
    back = RegistrySite(site.target, site.source, site.there, site.here, merges=True)
    turn(back)
    assert {at: own for own, at in done.ids.items()}.items() < back.mirror().ids.items()


@pytest.mark.parametrize("strategy", ["isolate", "off"])
def test_what_is_not_in_the_targets_own_subjects_stops_a_turn(
    site: RegistrySite, strategy: str
) -> None:
    """Given records with ids that the target's subjects don't have / then their topic is named;

    a version that lacks beside others is on its way, and what others than these topics have is
    not asked.
    """
    site.register("foo-value")
    if strategy == "isolate":
        site.schemas["strategy"] = strategy
        site.mirror()
    turn(site)
    assert FOO in not_there(seen(site), [FOO])
    assert not_there(seen(site), [BAR]) == {}
    site.mirror()
    site.register("foo-value")
    assert not_there(seen(site), [FOO]) == {}


def test_without_a_strategy_what_was_copied_with_one_is_refused(site: RegistrySite) -> None:
    off: Any = site.link.model_copy(
        update={"schemas": site.link.schemas.model_copy(update={"strategy": "off"})}
    )
    none = cast("Any", None)
    assert why_other_ids(none, off, [FOO], NO_IDS) == {}
    assert FOO in why_other_ids(none, off, [FOO], SchemaIds(((1, 7),)))
    assert why_other_ids(none, site.link, [], SchemaIds()) == {}


def test_schemas_of_a_mirror_rest_until_it_is_merged(site: RegistrySite) -> None:
    """So its turn sees what the strategy before has left at the target."""
    mirror = MirrorRecord(FOO, FOO, None, None, ClusterId("A"), "earliest", 1)
    merged = MirrorRecord(BAR, BAR, None, None, ClusterId("A"), "earliest", 1, is_merged=True)
    rows = {FOO: mirror, BAR: merged}
    assert copied_names(site.link, rows) == {FOO: FOO}
    turn(site)
    assert copied_names(site.link, rows) == {BAR: BAR}
