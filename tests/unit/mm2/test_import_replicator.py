"""Configurations of Confluent Replicator, and the import of each property."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from heliostat.config import LinkConfig, StartAtGroup, load_config
from heliostat.errors import ConfigError
from heliostat.mm2.config import import_mm2
from heliostat.mm2.config_replicator import ExecutableFiles
from heliostat.mm2.config_values import Fate, Imported
from heliostat.topics.naming import naming_of
from heliostat.topics.select import selection_of

APPENDIX = """
{
  "connector.class": "io.confluent.connect.replicator.ReplicatorSourceConnector",
  "dest.kafka.bootstrap.servers": "'${DEST_BROKER}'",
  "header.converter": "io.confluent.connect.replicator.util.ByteArrayConverter",
  "key.converter": "io.confluent.connect.replicator.util.ByteArrayConverter",
  "src.kafka.bootstrap.servers": "'${SRC_BROKER}'",
  "schema.subject.translator.class": \
"io.confluent.connect.replicator.schemas.DefaultSubjectTranslator",
  "schema.registry.topic": "_schemas",
  "schema.registry.url": "'${DEST_SCHEMA_REGISTRY}'",
  "src.consumer.group.id": "replicator",
  "tasks.max": "1",
  "topic.whitelist": "_schemas,foo",
  "topic.rename.format": "summit.${topic}",
  "value.converter": "io.confluent.connect.replicator.util.ByteArrayConverter"
}
"""
APPENDIX_FILE = """
clusters:
  source:
    bootstrap: ['${env:SRC_BROKER}']
    schema_registry: {urls: ['${env:SOURCE_SCHEMA_REGISTRY}']}
  target:
    bootstrap: ['${env:DEST_BROKER}']
    schema_registry: {urls: ['${env:DEST_SCHEMA_REGISTRY}']}
links:
- name: source-to-target
  source: source
  target: target
  topics:
    include: [foo]
    exclude: []
    naming: {prefix: summit.}
  schemas: {strategy: preserve}
"""
APPENDIX_REPORT = """
replaced connector.class: the link itself
used dest.kafka.bootstrap.servers: clusters.target.bootstrap
without effect header.converter: batches cross with their bytes as they are; there is nothing to \
convert
without effect key.converter: batches cross with their bytes as they are; there is nothing to \
convert
used src.kafka.bootstrap.servers: clusters.source.bootstrap
used schema.subject.translator.class: schemas.strategy: subjects are renamed with their topics
used schema.registry.topic: clusters.source.schema_registry.topic
used schema.registry.url: clusters.target.schema_registry.urls
replaced src.consumer.group.id: the position is where the target's log ends
replaced tasks.max: lanes.count, which is chosen automatically (auto)
used topic.whitelist: topics.include; schemas.strategy, for _schemas: schemas are mirrored, not \
that topic
used topic.rename.format: topics.naming
without effect value.converter: batches cross with their bytes as they are; there is nothing to \
convert
"""
ENV = {
    "SRC_BROKER": "s:1",
    "DEST_BROKER": "t:1",
    "DEST_SCHEMA_REGISTRY": "http://t:8081",
    "SOURCE_SCHEMA_REGISTRY": "http://s:8081",
    "TARGET_SCHEMA_REGISTRY": "http://t:8082",
}
AVRO = "io.confluent.connect.avro.AvroConverter"


def replicator(**more: object) -> dict[str, Any]:
    return {
        "connector.class": "io.confluent.connect.replicator.ReplicatorSourceConnector",
        "src.kafka.bootstrap.servers": "s:1",
        "dest.kafka.bootstrap.servers": "t:1",
        **more,
    }


def imported(**more: object) -> Imported:
    return import_mm2({"f": json.dumps(replicator(**more))})


def links(found: Imported, tmp_path: Path) -> list[LinkConfig]:
    """As our own reader sees them."""
    file = tmp_path / "heliostat.yaml"
    file.write_text(found.to_yaml(), encoding="utf-8")
    return list(load_config(file, env=ENV).links)


def finding(found: Imported, name: str) -> tuple[Fate, str]:
    return next((e.fate, e.text) for e in found.findings if e.origin.name == name)


def test_the_appendix_of_the_technote_is_taken_as_it_is(tmp_path: Path) -> None:
    found = import_mm2({"replicator.json": APPENDIX})
    assert yaml.safe_load(found.to_yaml()) == yaml.safe_load(APPENDIX_FILE)
    told = (f"{e.fate.words} {e.origin.name}: {e.text}\n" for e in found.findings)
    assert "\n" + "".join(told) == APPENDIX_REPORT
    assert found.todo == (
        "set the environment variable SRC_BROKER, or write its value into the file",
        "set the environment variable DEST_BROKER, or write its value into the file",
        (
            "set groups.sync of link source->target if consumers had Replicator's "
            "ConsumerTimestampsInterceptor: a link translates the offsets of all groups that "
            "groups.include selects, and needs no interceptor"
        ),
        "set the environment variable DEST_SCHEMA_REGISTRY, or write its value into the file",
        (
            "write the address of source's schema registry into "
            "clusters.source.schema_registry.urls, or set the environment variable "
            "SOURCE_SCHEMA_REGISTRY: the link mirrors schemas, and no property names it"
        ),
    )
    assert found.differences == ()
    (link,) = links(found, tmp_path)
    assert naming_of(link).target_name("foo") == "summit.foo"


# -- topics ------------------------------------------------------------------------------------


def test_lists_are_names_and_the_expression_is_one(tmp_path: Path) -> None:
    found = imported(
        **{
            "topic.whitelist": "topic1, a.b",
            "topic.regex": "topic[2,3,4]",
            "topic.blacklist": "topic4",
        }
    )
    selects = selection_of(links(found, tmp_path)[0]).selects
    assert [t for t in ("topic1", "topic2", "topic3", "topic4", "topic5") if selects(t)] == [
        *("topic1", "topic2", "topic3"),
    ]
    assert selects("a.b")
    assert not selects("axb")
    assert {finding(found, f"topic.{n}")[0] for n in ("whitelist", "regex", "blacklist")} == {
        Fate.USED
    }


def test_without_lists_nothing_is_selected(tmp_path: Path) -> None:
    assert links(imported(), tmp_path)[0].topics.include == ()


@pytest.mark.parametrize(
    ("given", "mirror"),
    [
        ("${topic}", "a"),
        ("summit.${topic}", "summit.a"),
        ("${topic}.replica", "a.replica"),
        ("x-${topic}-y", "x-a-y"),
    ],
)
def test_mirrors_are_called_as_before(given: str, mirror: str, tmp_path: Path) -> None:
    (link,) = links(imported(**{"topic.rename.format": given}), tmp_path)
    assert naming_of(link).target_name("a") == mirror


def test_one_name_for_all_topics_needs_a_format(tmp_path: Path) -> None:
    config = {"f": json.dumps(replicator(**{"topic.rename.format": "all"}))}
    with pytest.raises(ConfigError, match="gives all topics one name"):
        import_mm2(config)
    (link,) = links(import_mm2(config, naming="copy.${topic}"), tmp_path)
    assert naming_of(link).target_name("a") == "copy.a"


@pytest.mark.parametrize(
    ("name", "value", "place", "ours"),
    [
        ("topic.config.sync", False, "topics.sync_configs", False),
        ("topic.poll.interval.ms", 30_000, "topics.refresh_interval_s", 30),
        ("topic.config.sync.interval.ms", "500", "topics.refresh_interval_s", 0.5),
        ("dest.topic.replication.factor", 3, "topics.replication_factor", 3),
        ("dest.topic.replication.factor", 0, "topics.replication_factor", None),
        ("src.consumer.auto.offset.reset", "latest", "topics.start", "latest"),
        ("src.consumer.fetch.max.bytes", 1_000_000, "records.fetch_bytes_max", 1_000_000),
        ("producer.override.compression.type", "zstd", "records.compression", "zstd"),
        ("offset.translator.tasks.max", 1, "groups.sync", True),
    ],
)
def test_a_property_becomes_its_key(
    name: str, value: object, place: str, ours: object, tmp_path: Path
) -> None:
    found = imported(**{name: value})
    section, key = place.split(".")
    assert getattr(getattr(links(found, tmp_path)[0], section), key) == ours
    assert finding(found, name)[0] is Fate.USED
    assert found.differences == ()


@pytest.mark.parametrize(
    ("name", "value", "fate", "words"),
    [
        ("topic.auto.create", True, Fate.REPLACED, "mirrors are created"),
        ("topic.preserve.partitions", "true", Fate.REPLACED, "keeps its partition"),
        ("topic.create.backoff.ms", 1, Fate.WITHOUT_EFFECT, "refresh_interval_s"),
        ("topic.timestamp.type", "CreateTime", Fate.REPLACED, "CreateTime"),
        ("offset.start", "connect", Fate.REPLACED, "log ends"),
        ("offset.topic.commit", True, Fate.REPLACED, "status"),
        ("offset.translator.batch.size", 1, Fate.REPLACED, "offset map"),
        ("offset.timestamps.commit", True, Fate.REPLACED, "offset map"),
        ("src.kafka.timestamps.topic.num.partitions", 50, Fate.REPLACED, "offset map"),
        ("provenance.header.enable", True, Fate.REPLACED, "never copied back"),
        ("provenance.header.filter.overrides", "", Fate.WITHOUT_EFFECT, "empty"),
        ("src.kafka.client.id", "x", Fate.WITHOUT_EFFECT, "Java's client"),
        ("dest.zookeeper.connect", "z:1", Fate.WITHOUT_EFFECT, "ZooKeeper"),
        ("src.key.converter", "x.ByteArrayConverter", Fate.WITHOUT_EFFECT, "bytes"),
        ("src.consumer.max.poll.records", 1, Fate.WITHOUT_EFFECT, "Java's consumer"),
        ("confluent.topic.replication.factor", 1, Fate.WITHOUT_EFFECT, "licence"),
        ("confluent.license", "secret", Fate.WITHOUT_EFFECT, "licence"),
        ("consumer.override.auto.offset.reset", "x", Fate.WITHOUT_EFFECT, "no consumer"),
        ("schema.registry.max.schemas.per.subject", 9, Fate.WITHOUT_EFFECT, "all versions"),
        ("schema.registry.topic", "_schemas", Fate.WITHOUT_EFFECT, "don't include it"),
        ("errors.tolerance", "none", Fate.WITHOUT_EFFECT, "silently"),
        ("what.ever", "x", Fate.WITHOUT_EFFECT, "reads no such property"),
    ],
)
def test_a_property_without_a_key_is_explained(
    name: str, value: object, fate: Fate, words: str, tmp_path: Path
) -> None:
    found = imported(**{name: value})
    got, text = finding(found, name)
    assert got is fate
    assert words in text
    assert found.differences == ()
    assert links(found, tmp_path)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("topic.auto.create", False, "not created"),
        ("topic.preserve.partitions", False, "spread over"),
        ("topic.timestamp.type", "LogAppendTime", "mirrors had LogAppendTime"),
        ("offset.start", "consumer", "set topics.start: {group: NAME}"),  # without a name
        ("provenance.header.filter.overrides", "c,t,0-1", "return to where"),
        ("transforms", "route", "transform route is not carried over"),
        ("errors.tolerance", "all", "left out records"),
        ("schema.subject.translator.class", "com.example.Ours", "Ours named subjects"),
        ("value.converter", AVRO, "AvroConverter converted records"),
    ],
)
def test_what_a_link_cannot_do_is_not_supported(
    name: str, value: object, words: str, tmp_path: Path
) -> None:
    found = imported(**{name: value})
    assert finding(found, name)[0] is Fate.NOT_SUPPORTED
    (difference,) = found.differences
    assert words in difference
    assert links(found, tmp_path)


def test_listed_internal_topics_are_reported() -> None:
    found = imported(**{"topic.whitelist": "__consumer_offsets,__audit,a"})
    assert found.differences == ("source->target copied __audit; a link never mirrors such topics",)


# -- clusters ----------------------------------------------------------------------------------


def test_security_is_read_as_mirror_makers(tmp_path: Path) -> None:
    jaas = 'x.PlainLoginModule required username="u" password="p4ss";'
    found = imported(
        **{
            "src.kafka.security.protocol": "SASL_SSL",
            "src.kafka.sasl.mechanism": "PLAIN",
            "src.kafka.sasl.jaas.config": jaas,
            "src.kafka.ssl.truststore.location": "/x.jks",
            "dest.kafka.security.protocol": "SSL",
        }
    )
    assert found.config["clusters"]["source"]["security"] == {
        "protocol": "SASL_SSL",
        "ca_file": "/etc/heliostat/secrets/source-ca.pem",
        "mechanism": "PLAIN",
        "username": "u",
        "password": {"file": "/etc/heliostat/secrets/source-password"},
    }
    assert found.config["clusters"]["target"]["security"] == {"protocol": "SSL"}
    assert "p4ss" not in found.to_yaml() + json.dumps(found.to_json())
    assert links(found, tmp_path)


def test_the_target_may_be_in_overrides_of_the_producer() -> None:
    config = replicator(**{"producer.override.bootstrap.servers": "o:1"})
    del config["dest.kafka.bootstrap.servers"]
    found = import_mm2({"f": json.dumps(config)})
    assert found.config["clusters"]["target"]["bootstrap"] == ["o:1"]
    del config["producer.override.bootstrap.servers"]
    with pytest.raises(ConfigError, match=r"without dest\.kafka\.bootstrap\.servers"):
        import_mm2({"f": json.dumps(config)})


def test_connectors_share_clusters_by_their_addresses(tmp_path: Path) -> None:
    back = replicator(
        **{"src.kafka.bootstrap.servers": "t:1", "dest.kafka.bootstrap.servers": "s:1"}
    )
    third = replicator(**{"src.kafka.bootstrap.servers": "x:1", "topic.whitelist": "a"})
    found = import_mm2({"f": json.dumps([replicator(), back, third])})
    assert [link.name for link in links(found, tmp_path)] == [
        *("source-to-target", "target-to-source", "source-2-to-target"),
    ]
    assert any("a mirror has one writer" in text for text in found.differences)


def test_a_properties_file_is_read_too(tmp_path: Path) -> None:
    text = "".join(f"{key}={value}\n" for key, value in replicator().items())
    found = import_mm2({"f": text + "topic.whitelist=a\ntopic.whitelist=b\n"})
    assert links(found, tmp_path)[0].topics.include == ("b",)


# -- schemas -----------------------------------------------------------------------------------

SCHEMAS = {
    "topic.whitelist": "registry-schemas,foo",
    "schema.registry.topic": "registry-schemas",
    "schema.registry.url": "https://t:8081",
    "schema.registry.client.basic.auth.credentials.source": "USER_INFO",
    "schema.registry.client.basic.auth.user.info": "key:s3cret",
}


def test_without_a_translator_subjects_keep_their_names_too(tmp_path: Path) -> None:
    (link,) = links(imported(**SCHEMAS, **{"topic.rename.format": "a.${topic}"}), tmp_path)
    assert link.schemas.keep_names
    (link,) = links(imported(**SCHEMAS), tmp_path)
    assert not link.schemas.keep_names


def test_registries_of_both_sides(tmp_path: Path) -> None:
    found = imported(**SCHEMAS)
    clusters = found.config["clusters"]
    assert clusters["source"]["schema_registry"] == {
        "urls": ["${env:SOURCE_SCHEMA_REGISTRY}"],
        "topic": "registry-schemas",
    }
    assert clusters["target"]["schema_registry"] == {
        "urls": ["https://t:8081"],
        "username": "key",
        "password": {"file": "/etc/heliostat/secrets/target-registry-password"},
        "topic": "registry-schemas",
    }
    assert "s3cret" not in found.to_yaml() + json.dumps(found.to_json())
    assert links(found, tmp_path)


def test_the_registrys_topic_is_known_though_only_matched(tmp_path: Path) -> None:
    found = imported(**SCHEMAS | {"topic.whitelist": "", "topic.regex": ".*"})
    (link,) = links(found, tmp_path)
    assert link.schemas.strategy == "preserve"
    assert not selection_of(link).selects("registry-schemas")
    assert selection_of(link).selects("foo")


def test_a_raw_copy_becomes_schemas_as_well(tmp_path: Path) -> None:
    found = imported(**{"topic.whitelist": "_schemas,foo", "topic.rename.format": "a.${topic}"})
    (link,) = links(found, tmp_path)
    assert link.schemas.strategy == "preserve"
    assert any("copied _schemas under another name" in text for text in found.differences)


def test_converters_on_both_sides_name_both_registries(tmp_path: Path) -> None:
    found = imported(
        **{
            "topic.whitelist": "foo",
            "src.value.converter": AVRO,
            "src.value.converter.schema.registry.url": "http://s:8081",
            "value.converter": AVRO,
            "value.converter.schema.registry.url": "http://t:8081",
        }
    )
    (link,) = links(found, tmp_path)
    assert link.schemas.strategy == "preserve"
    clusters = found.config["clusters"]
    assert clusters["source"]["schema_registry"] == {"urls": ["http://s:8081"]}
    assert clusters["target"]["schema_registry"] == {"urls": ["http://t:8081"]}
    assert len(found.differences) == 2


def test_two_connectors_say_together_what_is_known_of_a_registry() -> None:
    schemas = replicator(**SCHEMAS)
    data = replicator(**{"topic.whitelist": "bar", "schema.registry.url": "https://other"})
    found = import_mm2({"f": json.dumps([schemas, data])})
    assert found.config["clusters"]["target"]["schema_registry"]["urls"] == ["https://t:8081"]
    assert any("different addresses" in text for text in found.differences)


CONSUMER = """
bootstrap.servers=one:9092,two:9092
zookeeper.connect=localhost:2171
security.protocol=SASL_SSL
sasl.mechanism=PLAIN
sasl.jaas.config=x.PlainLoginModule required username="mirror" password="hunter2";
auto.offset.reset=latest
fetch.min.bytes=1
"""
PRODUCER = "bootstrap.servers=three:9092\nlinger.ms=5\n"
REPLICATION = "topic.whitelist=orders,a.b\ntopic.rename.format=east.${topic}\nname=replicator\n"
FILES = ExecutableFiles("consumer.properties", "producer.properties", "replication.properties")


def executable(replication: str = REPLICATION, producer: str = PRODUCER) -> Imported:
    texts = dict(
        zip(
            (FILES.consumer, FILES.producer, FILES.replication),
            (CONSUMER, producer, replication),
            strict=True,
        )
    )
    return import_mm2(texts, executable=FILES)


def test_files_of_the_executable_become_a_link(tmp_path: Path) -> None:
    found = executable()
    assert found.config["clusters"]["source"] == {
        "bootstrap": ["one:9092", "two:9092"],
        "security": {
            "protocol": "SASL_SSL",
            "mechanism": "PLAIN",
            "username": "mirror",
            "password": {"file": "/etc/heliostat/secrets/source-password"},
        },
    }
    assert found.config["clusters"]["target"] == {"bootstrap": ["three:9092"]}
    [link] = found.config["links"]
    assert link["topics"]["include"] == ["orders", "a.b"]
    assert link["topics"]["naming"] == {"prefix": "east."}
    assert link["topics"]["start"] == "latest"
    assert found.differences == ()
    assert "hunter2" not in found.to_yaml() + json.dumps(found.to_json())
    named = {(each.origin.file, each.origin.name) for each in found.findings}
    assert ("consumer.properties", "zookeeper.connect") in named
    assert ("producer.properties", "linger.ms") in named
    assert len(named) == 7 + 2 + 3  # each property of each file, and nothing else
    file = tmp_path / "heliostat.yaml"
    file.write_text(found.to_yaml())
    assert load_config(file).links


def test_what_the_executables_files_lack_is_said() -> None:
    with pytest.raises(ConfigError, match=r"replication\.properties names no topics"):
        executable("name=replicator\n")
    with pytest.raises(ConfigError, match=r"producer\.properties has no bootstrap\.servers"):
        executable(producer="acks=all\n")
    with pytest.raises(ConfigError, match="no MirrorMaker 2 configuration") as caught:
        import_mm2({"consumer.properties": CONSUMER})
    assert "--consumer.config" in caught.value.hint


@pytest.mark.parametrize(
    ("more", "group"),
    [
        ({"src.consumer.group.id": "replicator", "name": "copy"}, "replicator"),
        ({"name": "copy"}, "copy"),
    ],
)
def test_it_begins_where_its_consumer_group_stands(
    more: dict[str, str], group: str, tmp_path: Path
) -> None:
    found = imported(**{"offset.start": "consumer", **more})
    assert links(found, tmp_path)[0].topics.start == StartAtGroup(group=group)
    assert finding(found, "offset.start") == (Fate.USED, "topics.start")
    assert found.differences == ()


def test_a_group_start_and_an_end_without_a_group_differ() -> None:
    latest = {"src.consumer.auto.offset.reset": "latest"}
    found = imported(**{"offset.start": "consumer", "name": "copy", **latest})
    (difference,) = found.differences
    assert "has committed nothing it began at the log's end" in difference
