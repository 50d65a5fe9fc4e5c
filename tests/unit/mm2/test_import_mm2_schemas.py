"""Schemas: the toy example of SQR-050 as it is, registries' own topics, converters' registries."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from heliostat.config import LinkConfig, load_config
from heliostat.mm2.config import import_mm2
from heliostat.mm2.config_values import Fate, Imported
from heliostat.topics.select import selection_of

TWO = (
    "clusters = summit, usdf\nsummit.bootstrap.servers = s:1\nusdf.bootstrap.servers = u:1\n"
    "summit->usdf.enabled = true\nsync.topic.acls.enabled = false\n"
)
IDENTITY = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n"
TARGET_ALIAS = "target.cluster.alias: clusters and link"
VARIABLES = ("SOURCE", "DESTN", "SUMMIT", "USDF")
AVRO = "io.confluent.connect.avro.AvroConverter"

HEARTBEAT = """
{
  "name": "heartbeat",
  "connector.class": "org.apache.kafka.connect.mirror.MirrorHeartbeatConnector",
  "source.cluster.alias": "src",
  "target.cluster.alias": "destn",
  "source.cluster.bootstrap.servers": "broker-src:29093",
  "topics": "foo"
}
"""
CHECKPOINT = """
{
  "connector.class": "org.apache.kafka.connect.mirror.MirrorCheckpointConnector",
  "name": "checkpoint",
  "source.cluster.alias": "src",
  "source.cluster.bootstrap.servers": "broker-src:29093",
  "target.cluster.alias": "destn",
  "target.cluster.bootstrap.servers": "broker-destn:29092",
  "topics": "foo"
}
"""
SOURCE = """
{
  "checkpoints.topic.replication.factor": 1,
  "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
  "key.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
  "heartbeats.topic.replication.factor": 1,
  "name": "mirror-source",
  "offset-syncs.topic.replication.factor": 1,
  "refresh.topics.interval.seconds": 60,
  "replication.factor": 1,
  "source.cluster.alias": "src",
  "source.cluster.bootstrap.servers": "broker-src:29093",
  "sync.topic.acls.enabled": false,
  "sync.topic.configs.enabled": true,
  "sync.topic.configs.interval.seconds": 60,
  "target.cluster.alias": "destn",
  "target.cluster.bootstrap.servers": "broker-destn:29092",
  "tasks.max": "1",
  "topics": "foo",
  "value.converter": "org.apache.kafka.connect.converters.ByteArrayConverter"
}
"""
TOY = {"heartbeat.json": HEARTBEAT, "checkpoint.json": CHECKPOINT, "mirror-source.json": SOURCE}
WITH_SCHEMAS = {
    "source.cluster.alias": "",
    "replication.policy.separator": "",
    "topics": "foo,_schemas",
}

TOY_FILE = r"""
clusters:
  src:
    bootstrap: [broker-src:29093]
  destn:
    bootstrap: [broker-destn:29092]
links:
- name: src-to-destn
  source: src
  target: destn
  topics:
    include: [foo]
    exclude: ['.*\.replica', '\..*', '(.+\.)?destn\..+']
    naming: {prefix: src.}
    replication_factor: 1
    sync_configs: true
    refresh_interval_s: 60
  groups: {sync: false}
  heartbeats: {mirror: true, emit: false}
  checkpoints: {emit: true}
"""
TOY_REPORT = """
without effect heartbeat.json name: the MirrorSourceConnector's value counts
without effect heartbeat.json connector.class: the MirrorSourceConnector's value counts
used heartbeat.json source.cluster.alias: clusters and link
used heartbeat.json target.cluster.alias: clusters and link
without effect heartbeat.json source.cluster.bootstrap.servers: the MirrorSourceConnector's \
value counts
without effect heartbeat.json topics: the MirrorSourceConnector's value counts
without effect checkpoint.json connector.class: the MirrorSourceConnector's value counts
without effect checkpoint.json name: the MirrorSourceConnector's value counts
used checkpoint.json source.cluster.alias: clusters and link
without effect checkpoint.json source.cluster.bootstrap.servers: the MirrorSourceConnector's \
value counts
used checkpoint.json target.cluster.alias: clusters and link
without effect checkpoint.json target.cluster.bootstrap.servers: the MirrorSourceConnector's \
value counts
without effect checkpoint.json topics: the MirrorSourceConnector's value counts
without effect mirror-source.json checkpoints.topic.replication.factor: only a \
MirrorCheckpointConnector reads it
replaced mirror-source.json connector.class: the link itself
without effect mirror-source.json key.converter: batches cross with their bytes as they are; there \
is nothing to convert
without effect mirror-source.json heartbeats.topic.replication.factor: only a \
MirrorHeartbeatConnector reads it
replaced mirror-source.json name: the link's name
replaced mirror-source.json offset-syncs.topic.replication.factor: the offset map, at the target; \
offset_syncs.emit writes MirrorMaker 2's as well, in case it has to translate offsets again
used mirror-source.json refresh.topics.interval.seconds: topics.refresh_interval_s, the shortest \
one for all
used mirror-source.json replication.factor: topics.replication_factor
used mirror-source.json source.cluster.alias: clusters and link
used mirror-source.json source.cluster.bootstrap.servers: clusters.src.bootstrap
without effect mirror-source.json sync.topic.acls.enabled: ACLs follow only with access.sync_acls, \
which is off
used mirror-source.json sync.topic.configs.enabled: topics.sync_configs
used mirror-source.json sync.topic.configs.interval.seconds: topics.refresh_interval_s, the \
shortest one for all
used mirror-source.json target.cluster.alias: clusters and link
used mirror-source.json target.cluster.bootstrap.servers: clusters.destn.bootstrap
replaced mirror-source.json tasks.max: lanes.count, which is chosen automatically (auto)
used mirror-source.json topics: topics.include
without effect mirror-source.json value.converter: batches cross with their bytes as they are; \
there is nothing to convert
"""


def links(found: Imported, tmp_path: Path) -> list[LinkConfig]:
    """As our own reader sees them."""
    file = tmp_path / "heliostat.yaml"
    file.write_text(found.to_yaml(), encoding="utf-8")
    env = {f"{each}_SCHEMA_REGISTRY": f"https://{each.lower()}" for each in VARIABLES}
    return list(load_config(file, env=env).links)


def report(found: Imported) -> str:
    lines = (f"{e.fate.words} {e.origin.file} {e.origin.name}: {e.text}" for e in found.findings)
    return "\n" + "".join(f"{line}\n" for line in lines)


def dedicated(more: str) -> Imported:
    return import_mm2({"mm2.properties": TWO + more})


def not_synced(source: str) -> str:
    return (
        f"{source}->destn has no sync.group.offsets.enabled, which is off in Apache's MirrorMaker "
        "2 and on in Cloudera's: groups.sync is off; if yours is Cloudera's, set it"
    )


def wanted(key: str) -> str:
    return (
        f"write the address of {key}'s schema registry into clusters.{key}.schema_registry.urls, "
        f"or set the environment variable {key.upper()}_SCHEMA_REGISTRY: the link mirrors "
        "schemas, and no property names it"
    )


# -- the toy example ---------------------------------------------------------------------------


def test_the_toy_example_is_taken_as_it_is(tmp_path: Path) -> None:
    found = import_mm2(TOY)
    assert yaml.safe_load(found.to_yaml()) == yaml.safe_load(TOY_FILE)
    assert report(found) == TOY_REPORT
    assert (found.todo, found.differences) == ((not_synced("src"),), ())
    assert links(found, tmp_path)


def test_its_files_as_properties_give_the_same(tmp_path: Path) -> None:
    files = {
        name.replace("json", "properties"): "".join(
            f"{key}={json.dumps(value) if isinstance(value, bool) else value}\n"
            for key, value in json.loads(text).items()
        )
        for name, text in TOY.items()
    }
    found = import_mm2(files)
    assert yaml.safe_load(found.to_yaml()) == yaml.safe_load(TOY_FILE)
    assert report(found) == TOY_REPORT.replace(".json", ".properties")
    assert links(found, tmp_path)


def test_its_schemas_are_mirrored_by_the_link(tmp_path: Path) -> None:
    """`_schemas` beside `foo`, an empty alias and an empty separator: names stay."""
    found = import_mm2(
        {name: json.dumps(json.loads(text) | WITH_SCHEMAS) for name, text in TOY.items()}
    )
    expected: dict[str, Any] = yaml.safe_load(TOY_FILE)
    (link,) = expected["links"]
    expected["clusters"] = {
        "source": {
            "bootstrap": ["broker-src:29093"],
            "schema_registry": {"urls": ["${env:SOURCE_SCHEMA_REGISTRY}"]},
        },
        "destn": {
            "bootstrap": ["broker-destn:29092"],
            "schema_registry": {"urls": ["${env:DESTN_SCHEMA_REGISTRY}"]},
        },
    }
    link |= {"name": "source-to-destn", "source": "source", "schemas": {"strategy": "preserve"}}
    link["topics"] |= {
        "exclude": [r".*\.replica", r"\..*", "mm2.*internal", ".*checkpointsinternal"],
        "naming": "same",
    }
    assert yaml.safe_load(found.to_yaml()) == expected
    assert report(found) == with_schemas(TOY_REPORT)
    assert found.todo == (not_synced("source"), wanted("source"), wanted("destn"))
    names = "heartbeats and checkpoints topics"
    assert [names in text for text in found.differences] == [True, True]  # '' is no alias here
    assert links(found, tmp_path)[0].schemas.strategy == "preserve"


def with_schemas(text: str) -> str:
    """The toy's report, with what is new at its second step."""
    empty = ", where an empty alias is called source"
    text = text.replace("alias: clusters and link\n", f"alias: clusters and link{empty}\n")
    text = text.replace(f"target.cluster.alias: clusters and link{empty}", TARGET_ALIAS)
    text = text.replace("clusters.src.", "clusters.source.")
    text = text.replace(
        "topics: topics.include\n",
        "topics: topics.include; schemas.strategy, for _schemas: schemas are mirrored, not that "
        "topic\n",
    )
    separators = {
        "checkpoint.json": "heartbeat.json",
        "mirror-source.json": "checkpoint.json",
    }
    lines = text.splitlines(keepends=True)
    for following, file in separators.items():
        at = next(i for i, line in enumerate(lines) if f" {following} " in line)
        name = "replication.policy.separator"
        lines.insert(
            at, f"without effect {file} {name}: the MirrorSourceConnector's value counts\n"
        )
    return "".join(lines) + "used mirror-source.json replication.policy.separator: topics.naming\n"


# -- registries' own topics --------------------------------------------------------------------


def test_a_registrys_topic_becomes_schemas_of_the_link(tmp_path: Path) -> None:
    found = dedicated("topics = lsst\\\\.sal\\\\..*, registry-schemas\n")
    assert yaml.safe_load(found.to_yaml()) == yaml.safe_load(r"""
clusters:
  summit:
    bootstrap: ['s:1']
    schema_registry: {urls: ['${env:SUMMIT_SCHEMA_REGISTRY}'], topic: registry-schemas}
  usdf:
    bootstrap: ['u:1']
    schema_registry: {urls: ['${env:USDF_SCHEMA_REGISTRY}']}
links:
- name: summit-to-usdf
  source: summit
  target: usdf
  topics:
    include: ['lsst\.sal\..*']
    exclude: ['.*\.replica', '\..*', '(.+\.)?usdf\..+']
    naming: {prefix: summit.}
  groups: {sync: false}
  schemas: {strategy: preserve}
  heartbeats: {mirror: true, emit: true}
  checkpoints: {emit: true}
""")
    assert (
        report(found)
        == """
used mm2.properties clusters: clusters
used mm2.properties summit.bootstrap.servers: clusters.summit.bootstrap
used mm2.properties usdf.bootstrap.servers: clusters.usdf.bootstrap
used mm2.properties summit->usdf.enabled: link from summit to usdf
without effect mm2.properties sync.topic.acls.enabled: ACLs follow only with access.sync_acls, \
which is off
used mm2.properties topics: topics.include; schemas.strategy, for registry-schemas: schemas are \
mirrored, not that topic
"""
    )
    assert found.todo == (wanted("summit"), wanted("usdf"))
    assert found.differences == (
        (
            "summit->usdf copied registry-schemas under another name, which a registry may read; a "
            "link writes into usdf's registry, with subjects renamed as topics"
        ),
    )
    assert links(found, tmp_path)


@pytest.mark.parametrize(
    "topics", ["_schemas, foo", "\\\\Q_schemas\\\\E, foo", "(_schemas|foo)", "foo, _schemas|x"]
)
def test_it_is_found_however_it_is_written(topics: str, tmp_path: Path) -> None:
    found = dedicated(f"topics = {topics}\n{IDENTITY}")
    (link,) = links(found, tmp_path)
    assert link.schemas.strategy == "preserve"
    assert selection_of(link).selects("foo")
    assert not selection_of(link).selects("_schemas")
    assert found.differences == ()


def test_under_the_same_name_it_is_not_copied_even_if_only_matched(tmp_path: Path) -> None:
    found = dedicated(IDENTITY)
    (link,) = links(found, tmp_path)
    assert not selection_of(link).selects("_schemas")
    assert not selection_of(link).selects("registry-schemas")
    assert link.schemas.strategy == "off"
    assert found.todo == (
        (
            "link summit->usdf leaves out _schemas and registry-schemas, which its topics match: a "
            "schema registry writes its topic itself. If summit and usdf have one each, add "
            "schema_registry to both and schemas: {strategy: preserve} to the link"
        ),
    )


def test_matched_under_another_name_it_is_a_topic_like_others(tmp_path: Path) -> None:
    (link,) = links(dedicated(""), tmp_path)
    assert selection_of(link).selects("_schemas")
    assert link.schemas.strategy == "off"


def test_an_excluded_one_is_left_alone(tmp_path: Path) -> None:
    found = dedicated("topics = foo, _schemas\ntopics.exclude = _.*\n")
    assert links(found, tmp_path)[0].schemas.strategy == "off"
    assert found.todo == ()


def test_without_other_topics_there_are_no_schemas_to_mirror() -> None:
    found = dedicated(f"topics = _schemas\n{IDENTITY}")
    assert found.differences == (
        (
            "summit->usdf copied all schemas and no other topic; a link mirrors the schemas of its "
            "topics: add them to topics.include"
        ),
    )


def test_both_directions_are_told_to_isolate() -> None:
    found = dedicated("usdf->summit.enabled = true\ntopics = foo, _schemas\n")
    assert any("take strategy isolate" in text for text in found.todo)


# -- converters --------------------------------------------------------------------------------


def with_converter(**more: str) -> Imported:
    settings = {"value.converter": AVRO, "value.converter.schema.registry.url": "https://r:8081"}
    config = json.loads(SOURCE) | settings | {k.replace("_", "."): v for k, v in more.items()}
    return import_mm2({"f": json.dumps(config)}, secrets="/run/secrets")


def registry(found: Imported) -> dict[str, Any]:
    section: dict[str, Any] = found.config["clusters"]["destn"]["schema_registry"]
    return section


def test_a_converter_that_writes_names_the_targets_registry(tmp_path: Path) -> None:
    found = with_converter()
    assert registry(found) == {"urls": ["https://r:8081"]}
    assert "schema_registry" not in found.config["clusters"]["src"]
    fates = {each.origin.name: each for each in found.findings}
    assert fates["value.converter"].fate is Fate.NOT_SUPPORTED
    url = fates["value.converter.schema.registry.url"]
    assert (url.fate, url.text) == (Fate.USED, "clusters.destn.schema_registry.urls")
    assert found.differences == (
        (
            "src->destn: value.converter AvroConverter converted records; a link copies them as "
            "they are, and with schemas.strategy their ids as well"
        ),
    )
    assert links(found, tmp_path)


def test_in_dedicated_mode_too(tmp_path: Path) -> None:
    lines = f"value.converter = {AVRO}\nvalue.converter.schema.registry.url = http://r:1,http://q:1"
    found = dedicated(lines + "\n")
    section = found.config["clusters"]["usdf"]["schema_registry"]
    assert section == {"urls": ["http://r:1", "http://q:1"]}
    assert links(found, tmp_path)


def test_where_it_is_not_clear_whose_registry_it_is_a_person_is_asked() -> None:
    found = with_converter(value_converter="x.ByteArrayConverter")
    assert "schema_registry" not in found.config["clusters"]["destn"]
    assert found.todo == (
        (
            "value.converter.schema.registry.url names a schema registry, but not whose it is: "
            "if src or destn uses it, set schema_registry there"
        ),
    )


def test_two_converters_with_two_registries_are_told() -> None:
    key = {"key_converter": AVRO, "key_converter_schema_registry_url": "https://other"}
    found = with_converter(**key)
    assert registry(found) == {"urls": ["https://r:8081"]}
    assert any("different addresses" in text for text in found.differences)


@pytest.mark.parametrize(
    "more",
    [
        {"value_converter_basic_auth_user_info": "me:s3cret:x"},
        {"value_converter_schema_registry_basic_auth_user_info": "me:s3cret:x"},
        {"value_converter_schema_registry_url": "https://me:s3cret%3Ax@r:8081"},
    ],
)
def test_its_password_becomes_a_file(more: dict[str, str], tmp_path: Path) -> None:
    found = with_converter(**more)
    password = {"file": "/run/secrets/destn-registry-password"}
    assert registry(found) == {"urls": ["https://r:8081"], "username": "me", "password": password}
    assert "s3cret" not in found.to_yaml() + json.dumps(found.to_json())
    assert any("/run/secrets/destn-registry-password" in text for text in found.todo)
    assert links(found, tmp_path)


@pytest.mark.parametrize(
    ("given", "user", "password"),
    [
        ("${env:U}:${env:P}", "${env:U}", {"env": "P"}),
        ("${file:/x:y}", "fill-in", {"file": "/run/secrets/destn-registry-password"}),
    ],
)
def test_references_of_credentials(given: str, user: str, password: dict[str, str]) -> None:
    found = with_converter(value_converter_basic_auth_user_info=given)
    assert registry(found)["username"] == user
    assert registry(found)["password"] == password


def test_tokens_and_certificates_of_registries(tmp_path: Path) -> None:
    given = {"value.converter.bearer.auth.token": "t0ken"}
    found = with_converter(
        value_converter_bearer_auth_credentials_source="STATIC_TOKEN",
        value_converter_schema_registry_ssl_truststore_location="/etc/tls/trust.jks",
        **given,
    )
    assert registry(found) == {
        "urls": ["https://r:8081"],
        "ca_file": "/run/secrets/destn-registry-ca.pem",
        "token": {"file": "/run/secrets/destn-registry-token"},
    }
    assert "t0ken" not in found.to_yaml() + json.dumps(found.to_json())
    assert links(found, tmp_path)


def test_credentials_are_not_sent_in_the_open(tmp_path: Path) -> None:
    found = with_converter(
        value_converter_schema_registry_url="http://r:8081",
        value_converter_basic_auth_user_info="me:s3cret",
        value_converter_schema_registry_ssl_truststore_location="/x.jks",
    )
    assert registry(found) == {"urls": ["http://r:8081"]}
    assert (
        "a link sends destn's schema registry no credentials by http; give it https"
        in found.differences
    )
    assert links(found, tmp_path)


def test_other_ways_to_authenticate_are_to_be_configured() -> None:
    found = with_converter(value_converter_bearer_auth_credentials_source="OAUTHBEARER")
    assert "configure the authentication to destn's schema registry" in found.todo
