"""Connectors become links: which belong together, under which name, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from unit.connect.technote import (
    CHECKPOINT,
    FILE,
    HEARTBEAT,
    KEPT_NAMES,
    MIRROR,
    REPLICATOR,
    SOURCE,
    UPLOADS,
    stored,
)

from heliostat.config import LinkConfig
from heliostat.connect.connector import StoredConnector
from heliostat.connect.link_maps import NOT_OURS, DerivedLinks, links_of
from heliostat.names import Offset
from heliostat.wishes.wish import WishedState

NAME = "src-to-destn"


def link(derived: DerivedLinks, name: str = NAME) -> LinkConfig:
    """Return a link as the configuration's own reader sees it."""
    ((key, content),) = ((key, each) for key, each in derived.links.items() if key == name)
    return LinkConfig.model_validate({**content, "name": key})


def problems(config: dict[str, Any]) -> dict[str, str]:
    """Return what is wrong with one connector, by property."""
    derived = links_of(stored(config), FILE)
    assert not derived.links or not derived.problems
    return dict(derived.problems.get(config["name"], ()))


def test_the_three_uploads_become_one_link_with_the_third() -> None:
    for count in (1, 2):
        derived = links_of(stored(*UPLOADS[:count]), FILE)
        assert (derived.links, derived.problems) == ({}, {})
    derived = links_of(stored(*UPLOADS), FILE)
    assert derived.of_connector == dict.fromkeys(
        ("heartbeat", "checkpoint", SOURCE["name"]), (NAME,)
    )
    made = link(derived)
    assert (made.source, made.target, made.topics.include) == ("src", "destn", ("foo",))
    assert made.topics.name_format() == "src.${topic}"
    assert (made.heartbeats.emit, made.checkpoints.emit, made.groups.sync) == (True, True, False)
    assert made.heartbeats.at_target
    assert (made.offset_syncs.emit, made.offset_syncs.location) == (True, "source")
    assert made.topics.replication_factor == made.offset_syncs.replication_factor == 1


def test_with_an_empty_alias_topics_keep_their_names_and_schemas_are_mirrored() -> None:
    changed = [{**each, **KEPT_NAMES, "topics": "foo,_schemas"} for each in UPLOADS]
    made = link(links_of(stored(*changed), FILE))
    assert (made.topics.naming, made.topics.include) == ("same", ("foo",))
    assert (made.schemas.strategy, made.heartbeats.emit) == ("preserve", True)
    made = link(links_of(stored(*changed), replace(FILE, strategy="rewrite")))
    assert made.schemas.strategy == "rewrite", "as the file's defaults say"


def test_a_replicator_is_a_link_too() -> None:
    made = link(links_of(stored(REPLICATOR), FILE))
    assert (made.topics.include, made.topics.name_format()) == (("foo",), "summit.${topic}")
    assert made.schemas.strategy == "preserve"


def test_a_source_alone_writes_neither_heartbeats_nor_checkpoints() -> None:
    made = link(links_of(stored(SOURCE), FILE))
    on = (made.heartbeats.emit, made.checkpoints.emit, made.groups.sync)
    assert on == (False, False, False)


@pytest.mark.parametrize("state", [WishedState.PAUSED, WishedState.STOPPED])
def test_a_paused_partner_switches_its_part_off_and_a_paused_source_does_not(
    state: WishedState,
) -> None:
    """What is wished of a source lies with the link's wishes, where every verb finds it."""
    made = link(links_of([replace(each, state=state) for each in stored(*UPLOADS)], FILE))
    assert (made.heartbeats.emit, made.checkpoints.emit) == (False, False)


def test_a_checkpoint_of_another_policy_belongs_to_no_link() -> None:
    other = CHECKPOINT | {"replication.policy.separator": "-"}
    derived = links_of(stored(other, SOURCE), FILE)
    assert derived.of_connector["checkpoint"] == ()
    assert not link(derived).checkpoints.emit


def test_groups_are_those_of_the_checkpoint() -> None:
    groups = {"groups": "a.*", "groups.exclude": "ab", "sync.group.offsets.enabled": True}
    made = link(links_of(stored(CHECKPOINT | groups, SOURCE), FILE))
    assert (made.groups.sync, made.groups.include, made.groups.exclude) == (True, ("a.*",), ("ab",))


def test_several_sources_of_one_pair_are_several_links_with_the_same_partners() -> None:
    more = SOURCE | {"name": "b/c->d", "topics": "bar"}
    derived = links_of(stored(*UPLOADS, more), FILE)
    assert list(derived.links) == [NAME, "b-c--d"]
    assert derived.of_connector["heartbeat"] == (NAME, "b-c--d")


def test_a_links_name_stays_when_another_connector_goes() -> None:
    first, second = stored(SOURCE, SOURCE | {"name": "later"})
    chosen = replace(second, link="later")
    assert list(links_of([chosen], FILE).links) == ["later"]
    assert list(links_of([chosen, replace(first, generation=Offset(9))], FILE).links) == [
        "later",
        NAME,
    ]
    newer = [replace(first, generation=Offset(9)), replace(second, link=NAME)]
    assert list(links_of(newer, FILE).links) == [NAME, "mirror-source"]


def test_a_link_of_the_file_keeps_its_name() -> None:
    file = replace(FILE, links=frozenset({"SRC-to-destn", "mirror-source"}))
    assert list(links_of(stored(SOURCE), file).links) == ["mirror-source-2"]


def test_clusters_are_found_by_address_first_then_by_alias() -> None:
    swapped = {"source.cluster.alias": "destn", "target.cluster.alias": "elsewhere"}
    made = link(links_of(stored(SOURCE | swapped), FILE))
    assert (made.source, made.target, made.topics.name_format()) == (
        "src",
        "destn",
        "destn.${topic}",
    )
    by_alias = SOURCE | {"source.cluster.bootstrap.servers": "a:1,b:2"}
    assert link(links_of(stored(by_alias), FILE)).source == "src"


def test_a_default_target_is_for_who_names_none() -> None:
    nameless = {k: v for k, v in SOURCE.items() if not k.startswith("target.")}
    assert list(problems(nameless)) == ["target.cluster.alias"]
    file = replace(FILE, target=next(alias for alias in FILE.addresses if alias == "destn"))
    assert link(links_of(stored(nameless), file)).target == "destn"


JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password='
REFUSED = [
    ({"source.cluster.alias": "x", "source.cluster.bootstrap.servers": "x:1"},
     "source.cluster.bootstrap.servers", "no cluster of the configuration file has such addresses"),
    ({"target.cluster.bootstrap.servers": "broker-src:29093"},
     "target.cluster.bootstrap.servers", "copy cluster src to itself"),
    ({"topics": "foo,b["}, "topics", "unterminated"),
    ({"topics.exclude": r"\p{Lu}x"}, "topics.exclude", "only Java"),
    ({"refresh.topics.interval.seconds": "abc"}, "refresh.topics.interval.seconds", "not a number"),
    ({"replication.policy.class": "no.such.Class"}, "replication.policy.class",
     "Class no.such.Class could not be found."),
    ({"topic.filter.class": "my.Filter"}, "topic.filter.class", "could not be found"),
    ({"config.providers": "file"}, "config.providers", "no provider is loaded"),
    ({"producer.override.interceptor.classes": "a.B"},
     "producer.override.interceptor.classes", "no interceptor"),
    ({"metric.reporters": "a.B"}, "metric.reporters", "no reporter"),
    ({"source.cluster.sasl.jaas.config": JAAS + '"s3cret";'},
     "source.cluster.sasl.jaas.config", "a secret stands"),
    ({"target.cluster.ssl.keystore.password": "s3cret"},
     "target.cluster.ssl.keystore.password", "a secret stands"),
    ({"transforms": "t", "transforms.t.type": "a.B"}, "transforms.t.type", "a link can't do that"),
    ({"source.cluster.alias": "a b"}, "source.cluster.alias", "only the characters"),
    ({"connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector"},
     "connector.class", NOT_OURS),
]  # fmt: skip


def test_schemas_need_a_registry_on_both_sides() -> None:
    file = replace(FILE, registries=frozenset())
    for config, field in (
        (SOURCE | {"topics": "foo,_schemas"}, "topics"),
        (REPLICATOR, "topic.whitelist"),
    ):
        derived = links_of(stored({**config, "name": "a"}), file)
        ((named, text),) = derived.problems["a"]
        assert (named, "schema_registry of destn and src" in text) == (field, True)


@pytest.mark.parametrize(("change", "field", "text"), REFUSED, ids=lambda value: str(value)[:40])
def test_what_is_wrong_is_told_of_its_property(
    change: dict[str, Any], field: str, text: str
) -> None:
    (told,) = problems(SOURCE | change).items()
    assert told[0] == field
    assert text in told[1]
    assert "s3cret" not in told[1]


def test_one_that_is_wrong_harms_no_other() -> None:
    wrong = [{**SOURCE, "name": str(n), **change} for n, (change, _, _) in enumerate(REFUSED)]
    derived = links_of(stored(*wrong, *UPLOADS), FILE)
    assert list(derived.links) == [NAME]
    assert len(derived.problems) == len(REFUSED)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("source.cluster.sasl.jaas.config", JAAS + '"${file:/a/b:c}";'),
        ("source.cluster.ssl.keystore.password", "${strimzidir:/opt/kafka:user.password}"),
        ("source.cluster.ssl.keystore.password", ""),
        ("sasl.oauthbearer.token.endpoint.url", "https://login"),
        ("source.cluster.ssl.truststore.location", "/etc/x.jks"),
        ("metric.reporters", "org.apache.kafka.common.metrics.JmxReporter"),
        ("header.converter", "io.confluent.connect.replicator.util.ByteArrayConverter"),
        ("nobody.knows", "it"),
    ],
)
def test_what_needs_no_counterpart_is_accepted_and_noted(name: str, value: str) -> None:
    derived = links_of(stored(SOURCE | {name: value}), FILE)
    assert not derived.problems
    assert any(note.startswith(f"{name}: ") for note in derived.notes[str(SOURCE["name"])])


@pytest.mark.parametrize("config", [SOURCE, CHECKPOINT, HEARTBEAT, REPLICATOR])
def test_what_must_be_given_is_told_by_name(config: dict[str, Any]) -> None:
    needed = (
        "source.cluster.alias"
        if "source.cluster.alias" in config
        else "src.kafka.bootstrap.servers"
    )
    short = {k: v for k, v in config.items() if k != needed}
    assert problems(short)[needed].startswith(f'Missing required configuration "{needed}"')


def test_a_row_is_read_as_it_was_written() -> None:
    (one,) = stored(SOURCE, state=WishedState.STOPPED, link=NAME, by="ann", at_ms=5)
    row, wished = (
        replace(each, generation=Offset(0)) for each in (one.to_definition(), one.to_state())
    )
    assert StoredConnector.of_definition(row, wished) == one
    assert one.plugin is not None
    assert one.plugin.name == f"{MIRROR}SourceConnector"
