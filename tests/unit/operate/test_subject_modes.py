"""What a link has closed with mode IMPORT is opened for a failover, and closed for a failback."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from support.registry_contract import record, referring_to
from support.registry_double import RegistryRefusal
from support.registry_server import RegistryServer, Reply
from support.registry_sites import FOO, RegistrySite, registry_site

from heliostat.access import RegistryAccess
from heliostat.cli.schemas import mode_lines
from heliostat.names import LinkName, TopicName
from heliostat.operate import subject_modes
from heliostat.operate.subject_modes import LinkModes, planned_modes
from heliostat.schemas import HttpRegistry
from heliostat.schemas.opening import ModeChange, OpeningPlan, only_named_after
from heliostat.schemas.registry.values import Mode, Subject

LOCAL = TopicName("local")
FOO_VALUE, RECORD = "foo-value", "lsst.A"


@pytest.fixture
def site() -> Iterator[RegistrySite]:
    with registry_site() as site:
        yield site


def scopes(plan: OpeningPlan) -> list[str]:
    return [each.scope for each in plan.changes]


def test_producers_of_the_target_register_after_opening_and_the_link_closes_nothing(
    site: RegistrySite,
) -> None:
    """Given a mirrored subject / when it is opened / then it takes versions of the target.

    The link lets it be, also with new versions of the source, which wait; known ids go on. Closed
    again, it gets what fits.
    """
    first = site.register(FOO_VALUE)
    site.mirror()
    with pytest.raises(RegistryRefusal, match="not in read-write mode"):
        site.register(FOO_VALUE, there=True)
    assert scopes(site.plan(opens=True)) == [FOO_VALUE]
    assert scopes(site.change(opens=True)) == [FOO_VALUE]
    assert site.change(opens=True) == OpeningPlan()
    waiting = site.register(FOO_VALUE)
    for _ in range(2):
        done = site.mirror()
        assert done.ids == {first: first}
        (why,) = done.unresolved.values()
        assert why.startswith("open: foo-value is open to producers of the target")
        assert "heliostat schemas close" in why
    assert site.there.mode(FOO_VALUE, inherited=True) == "READWRITE"
    assert scopes(site.change(opens=False)) == [FOO_VALUE]
    assert set(site.mirror().ids) == {first, waiting}
    with pytest.raises(RegistryRefusal, match="not in read-write mode"):
        site.register(FOO_VALUE, there=True)


def test_closing_tells_what_the_source_does_not_have(site: RegistrySite) -> None:
    site.register(FOO_VALUE)
    site.mirror()
    site.change(opens=True)
    site.register(FOO_VALUE, there=True)
    plan = site.change(opens=False)
    assert scopes(plan) == [FOO_VALUE]
    (note,) = plan.notes
    assert note.startswith("foo-value has version 2, which the source does not have")
    site.register(FOO_VALUE)
    (why,) = site.mirror().unresolved.values()
    assert "version_taken" in why


def test_there_and_back_again(site: RegistrySite) -> None:
    """Given a failover / when a link back has brought its schemas / then the first one goes on."""
    site.register(FOO_VALUE)
    site.mirror()
    site.change(opens=True)
    second = site.register(FOO_VALUE, there=True)
    back = RegistrySite(site.target, site.source, site.there, site.here)
    assert set(back.mirror().ids) == {1, second}
    assert scopes(back.change(opens=True)) == [FOO_VALUE]
    plan = site.change(opens=False)
    assert (scopes(plan), plan.notes) == ([FOO_VALUE], ())
    third = site.register(FOO_VALUE)
    assert set(site.mirror().ids) == {1, second, third}


def test_only_what_the_link_has_closed_is_opened_without_asking_the_source(
    site: RegistrySite,
) -> None:
    """Given subjects of the link, what they refer to, and others / then those of the link open."""
    inner = record()
    site.register("inner.B", inner)
    site.register(FOO_VALUE, referring_to(inner, Subject("inner.B")))
    site.register(RECORD)
    site.schemas["exclude"] = ["inner.*"]
    site.mirror()
    site.there.set_mode("local-value", "IMPORT", force=True)
    site.there.register("local-value", {"schema": record().text, "id": 50, "version": 1})
    site.register("own.C", there=True)
    site.source.close()
    assert scopes(site.change(opens=True)) == [FOO_VALUE, "inner.B", RECORD]
    assert site.there.mode("local-value", inherited=True) == "IMPORT"


def test_subjects_of_renamed_topics_are_opened_under_both_names(site: RegistrySite) -> None:
    site.mirrors = {FOO: TopicName("summit.foo")}
    site.register(FOO_VALUE)
    site.mirror()
    assert scopes(site.change(opens=True)) == [FOO_VALUE, "summit.foo-value"]
    assert scopes(site.change(opens=False)) == [FOO_VALUE, "summit.foo-value"]


def test_a_context_is_opened_as_a_whole(site: RegistrySite) -> None:
    site.schemas["strategy"] = "isolate"
    first = site.register(FOO_VALUE)
    site.mirror()
    assert scopes(site.change(opens=True)) == [":.summit:"]
    assert site.there.mode(":.summit:foo-value", inherited=True) == "READWRITE"
    site.register("new.B")
    assert site.mirror().ids == {first: first}
    assert scopes(site.change(opens=False)) == [":.summit:"]
    assert len(site.mirror().ids) == 2


def test_what_nobody_has_mirrored_is_not_closed(site: RegistrySite) -> None:
    site.register(FOO_VALUE)
    site.mirror()
    site.register("own.C", there=True)
    site.there.set_mode("own.C", "READWRITE", force=True)
    assert site.plan(opens=False) == OpeningPlan()


@pytest.mark.parametrize(("scope", "shown"), [(None, "the registry"), (FOO_VALUE, FOO_VALUE)])
def test_a_mode_that_somebody_has_set_stays_and_is_told(
    site: RegistrySite, scope: str | None, shown: str
) -> None:
    site.there.set_mode(None, "IMPORT", force=True)
    site.register(FOO_VALUE)
    site.mirror()
    site.there.set_mode(scope, "READONLY", force=True)
    found = LinkModes(LinkName("l"), True, False, site.change(opens=True))
    assert not found.is_done
    first, kept = mode_lines(found)
    assert first == "link l: 0 subjects opened"
    assert kept.startswith(f"  ! {shown} stays READONLY: no link has set that")
    assert found.to_json()["kept"][0]["mode"] == "READONLY"


def test_modes_that_the_registry_refuses_to_change_are_told(site: RegistrySite) -> None:
    site.register(FOO_VALUE)
    site.mirror()
    site.there._modes_change = False
    found = LinkModes(LinkName("l"), True, False, site.change(opens=True))
    (_, line) = mode_lines(found)
    assert line.startswith("  ! foo-value stays IMPORT: ")
    assert "mode.mutability" in line


def test_a_dry_run_is_done_only_if_nothing_would_change(site: RegistrySite) -> None:
    site.register(FOO_VALUE)
    site.mirror()
    found = LinkModes(LinkName("l"), True, True, site.plan(opens=True))
    assert list(mode_lines(found)) == [
        "link l: 1 subject would be opened",
        "  foo-value: IMPORT → READWRITE",
    ]
    assert not found.is_done
    assert LinkModes(LinkName("l"), True, True, OpeningPlan()).is_done


def test_a_registry_without_modes_has_nothing_closed(site: RegistrySite) -> None:
    with RegistryServer() as plain, HttpRegistry(RegistryAccess((plain.url,))) as registry:
        plain.troubles.append(
            lambda asked: Reply(404, b"{}") if asked.target.startswith("/mode") else None
        )
        (note,) = planned_modes(site.link, site.mirrors, (), registry, None).notes
    assert "has no modes" in note


def test_of_a_partial_switch_only_subjects_of_its_topics_are_opened(site: RegistrySite) -> None:
    """Given subjects of a topic, of a renamed one, and of a record / when a part is switched / then

    subjects of no topic stay closed, and so does a context.
    """
    site.mirrors = {FOO: FOO, TopicName("bar"): TopicName("summit.bar")}
    for subject in (FOO_VALUE, "bar-value", RECORD):
        site.register(subject)
    site.mirror()
    plan = site.plan(opens=True)
    own, others = only_named_after(plan, {FOO})
    assert scopes(own) == [FOO_VALUE]
    assert {*scopes(own), *scopes(others)} == set(scopes(plan))
    assert RECORD in scopes(others)
    renamed, _ = only_named_after(plan, {TopicName("bar"), TopicName("summit.bar")})
    assert "summit.bar-value" in scopes(renamed)
    site.schemas = {"strategy": "isolate"}
    site.mirror()
    own, others = only_named_after(site.plan(opens=True), {FOO})
    assert (scopes(own), len(others.changes)) == ([], 1)


def test_what_was_failed_over_already_is_opened_but_not_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Given a mirror and a former one / when both are asked for / then only opening is of both."""
    former = {LOCAL: SimpleNamespace(record=SimpleNamespace(target=LOCAL))}
    stored = SimpleNamespace(mirrors={FOO: SimpleNamespace(target=FOO)}, promoted=former)
    state = SimpleNamespace(read=lambda: stored, close=lambda: None)
    admin = SimpleNamespace(describe_topics=lambda: [FOO, LOCAL])
    monkeypatch.setattr(subject_modes, "LinkState", lambda *_: state)
    monkeypatch.setattr(subject_modes, "ClusterAdmin", lambda _: nullcontext(admin))
    opened: dict[bool, set[TopicName]] = {}
    link = SimpleNamespace(name="l", target="t", schemas=SimpleNamespace(strategy="preserve"))
    monkeypatch.setattr(subject_modes, "link_of", lambda *_: link)

    def planned(_: object, mirrors: Mapping[TopicName, TopicName], *given: Any) -> OpeningPlan:
        opened[given[-1] is None] = set(mirrors)
        return OpeningPlan()

    monkeypatch.setattr(subject_modes, "planned_modes", planned)
    monkeypatch.setattr(subject_modes, "registries_of", lambda *_: nullcontext((object(), None)))
    config: Any = SimpleNamespace(clusters={"t": SimpleNamespace(access=lambda: None)})
    subject_modes.open_subjects(config, "l", dry_run=True)
    subject_modes.close_subjects(config, "l", dry_run=True)
    assert opened == {True: {FOO, LOCAL}, False: {FOO}}


def test_of_merged_topics_what_was_closed_before_is_opened_and_nothing_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Given rewrite, by which a link closes nothing / when it merges its topics / then they may

    have been mirrors with preserve before.
    """
    link = SimpleNamespace(
        name="l",
        topics=SimpleNamespace(merges=False),
        schemas=SimpleNamespace(strategy="rewrite"),
    )
    change = ModeChange(Subject(FOO_VALUE), Mode.IMPORT, Mode.READWRITE)
    monkeypatch.setattr(subject_modes, "link_of", lambda *_: link)
    monkeypatch.setattr(subject_modes, "_at_target", lambda *_, **__: ({}, ()))
    monkeypatch.setattr(subject_modes, "registries_of", lambda *_: nullcontext((None, None)))
    monkeypatch.setattr(subject_modes, "planned_modes", lambda *_: OpeningPlan((change,)))
    none: Any = None
    verbs = subject_modes.open_subjects, subject_modes.close_subjects
    for link.topics.merges, changes in ((False, (0, 0)), (True, (1, 0))):
        plans = [verb(none, "l", dry_run=True).plan for verb in verbs]
        assert tuple(len(each.changes) for each in plans) == changes
