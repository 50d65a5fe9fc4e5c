"""Chains of transformations as pipelines; what each step does is judged in tests/peer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.transform_chains import chain, replicator

from heliostat.config import load_config
from heliostat.link.pipeline_rules import pipelines_of
from heliostat.mm2.config import import_mm2
from heliostat.mm2.config_values import Imported

MIRROR = {
    "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
    "source.cluster.alias": "A",
    "target.cluster.alias": "B",
    "source.cluster.bootstrap.servers": "a:9092",
    "target.cluster.bootstrap.servers": "b:9092",
    "sync.topic.acls.enabled": "false",
}


def mirrored(properties: dict[str, str], **more: str) -> Imported:
    own = MIRROR | properties | {name.replace("__", "."): text for name, text in more.items()}
    return import_mm2({"m.properties": "".join(f"{n} = {text}\n" for n, text in own.items())})


def link_of(found: Imported) -> dict[str, Any]:
    (link,) = found.config["links"]
    return dict(link)


def test_steps_and_their_topics() -> None:
    """Given conditions on names of mirrors / then pipelines have those of the source's topics."""
    found = mirrored(
        chain(
            "InsertHeader header=h;value.literal=x;predicate=p",
            "DropHeaders headers=trace",
            "Filter predicate=q",
            p=r"TopicNameMatches pattern=A\.orders.*",
            q="HasHeaderKey name=test",
        )
    )
    assert found.differences == ()
    rest = [{"drop_headers": ["trace"]}, {"drop_with_header": {"name": "test"}}]
    assert link_of(found)["pipelines"] == [
        {
            "name": "transforms-1",
            "topics": ["(?!.*heartbeats$)(?=(?:orders.*)$).*"],
            "steps": [{"insert_headers": {"h": "x"}}, *rest],
        },
        {
            "name": "transforms-2",
            "topics": ["(?!.*heartbeats$)(?!(?:orders.*)$).*"],
            "steps": rest,
        },
    ]


@pytest.mark.parametrize(
    ("regex", "replacement", "naming"),
    [
        (r"A\.(.*)", "$1", "same"),
        (r"A.(.*)", "$1", "same"),
        ("(.*)", "$1-copy", {"format": "A.${topic}-copy"}),
        ("^A(.*)$", "west$1", {"format": "west.${topic}"}),
        (r"A\.(.+)", "x.$1", {"format": "x.${topic}"}),
    ],
)
def test_a_router_that_keeps_names_apart_is_a_naming(
    regex: str, replacement: str, naming: object
) -> None:
    properties = chain(f"RegexRouter regex={regex};replacement={replacement}")
    # A properties file reads backslashes.
    found = mirrored({name: text.replace("\\", "\\\\") for name, text in properties.items()})
    assert link_of(found)["topics"]["naming"] == naming
    assert found.differences == ()


@pytest.mark.parametrize(
    ("transform", "predicate", "line"),
    [
        ("RegexRouter regex=A.(x|y)-(.*);replacement=$2", "", "without groups"),
        ("RegexRouter regex=(.*)-eu;replacement=$1", "", "without groups"),
        ("RegexRouter regex=(.*);replacement=all", "", "without groups"),
        ("TimestampRouter topic.format=x", "", "a link for each period"),
        ("DropHeaders headers=a;predicate=p", "RecordIsTombstone", "decides for each record"),
        ("MaskField$Value fields=a;predicate=p", "HasHeaderKey name=h", "decides for each record"),
        ("Filter", "", "without a predicate"),
        ("InsertField$Value offset.field=o", "", "is for sinks"),
        ("InsertField$Value topic.field=t", "", "got the mirror's name"),
        ("TimestampConverter$Value field=a;target.type=Timestamp", "", "no type that JSON has"),
        (
            "TimestampConverter$Value field=a;target.type=string;format=yy",
            "",
            "letters that have one meaning",
        ),
        ("DropHeaders headers=a;predicate=p", "TopicNameMatches pattern=[AB].*x", "keep apart"),
        ("DropHeaders headers=a;predicate=p", r"TopicNameMatches pattern=a|b", "keep apart"),
    ],
)
def test_what_is_not_carried_over_is_one_line(transform: str, predicate: str, line: str) -> None:
    found = mirrored(chain(transform, **({"p": predicate} if predicate else {})))
    assert len(found.differences) == 1
    assert "t0 is not carried over" in found.differences[0]
    assert line in found.differences[0]
    assert "pipelines" not in link_of(found)


def test_a_class_of_ones_own_is_told_and_the_rest_stays() -> None:
    properties = chain("DropHeaders headers=a", "DropHeaders headers=b")
    found = mirrored(properties | {"transforms.t0.type": "com.example.Own"})
    (line,) = found.differences
    assert "com.example.Own is none of Kafka's own" in line
    (pipeline,) = link_of(found)["pipelines"]
    assert pipeline["steps"] == [{"drop_headers": ["b"]}]


def test_fields_of_what_mirror_maker_gives_as_bytes_are_told() -> None:
    found = mirrored(chain("MaskField$Value fields=name"))
    (line,) = found.differences
    assert "got bytes, at which Kafka's fails" in line
    (pipeline,) = link_of(found)["pipelines"]
    assert pipeline["steps"] == [{"json_fields": {"mask": {"name": None}}}]


@pytest.mark.parametrize(
    ("more", "line"),
    [
        ({"src__value__converter": "io.confluent.connect.protobuf.ProtobufConverter"}, "JSON and"),
        ({"src__value__converter__schemas__enable": "true"}, "its schema beside it"),
    ],
)
def test_other_formats_are_told(more: dict[str, str], line: str) -> None:
    found = import_mm2(replicator(chain("MaskField$Value fields=name"), **more))
    assert any(line in told for told in found.differences)
    assert "pipelines" not in link_of(found)


def test_a_transform_that_changes_no_bytes_is_no_step() -> None:
    found = mirrored(chain("SetSchemaMetadata$Value schema.name=x"))
    assert found.differences == ()
    assert "pipelines" not in link_of(found)


AVRO = "io.confluent.connect.avro.AvroConverter"


def avro(*transforms: str, **more: str) -> Imported:
    converters = {
        "src__value__converter": AVRO,
        "src__key__converter": AVRO,
        "src__value__converter__schema__registry__url": "http://s:8081",
        "value__converter": AVRO,
        "value__converter__schema__registry__url": "http://t:8081",
    }
    return import_mm2(replicator(chain(*transforms), **converters, **more))


def test_chains_of_what_an_avro_converter_reads_are_steps_for_avro(tmp_path: Path) -> None:
    """Given a Replicator that reads Avro / then each transform is a step of avro_fields, schemas

    get ids of the target's registry, and our reader takes the file.
    """
    found = avro(
        "ReplaceField$Value exclude=address;renames=id:number",
        "MaskField$Value fields=name;replacement=***",
        "Cast$Value spec=price:float64",
        "InsertField$Value static.field=site;static.value=o'clock",
        "HeaderFrom$Value fields=kind;headers=k;operation=move",
        "Flatten$Value delimiter=_",
        "HoistField$Value field=line",
        "HoistField$Key field=id",
        "DropHeaders headers=a",
    )
    (pipeline,) = link_of(found)["pipelines"]
    assert pipeline["steps"] == [
        {
            "avro_fields": {
                "drop": ["address", "kind"],
                "rename": {"id": "number"},
                "mask": {"name": "***"},
                "cast": {"price": "double", "site": "string"},
                "set": {"site": "'o\\'clock'"},
                "to_headers": {"kind": "k"},
                "flatten": "_",
                "hoist": "line",
            }
        },
        {"avro_fields": {"column": "key", "hoist": "id"}},
        {"drop_headers": ["a"]},
    ]
    assert link_of(found)["schemas"]["strategy"] == "rewrite"
    file = tmp_path / "heliostat.yaml"
    file.write_text(found.to_yaml(), encoding="utf-8")
    (link,) = load_config(file, env={}).links
    assert pipelines_of(link)["transforms"].avro_steps


@pytest.mark.parametrize(
    ("transform", "line"),
    [
        ("ReplaceField$Value include=a", "no list of those that stay"),
        ("ValueToKey fields=a", "keys would be JSON"),
        ("Cast$Value spec=a:int8", "has no tinyint"),
        ("Cast$Value spec=string", "not the whole content"),
        ("ExtractField$Value field=a.b;field.syntax.version=V2", "takes one name"),
        ("InsertField$Value partition.field=p", "insert_origin puts it into headers"),
    ],
)
def test_what_no_step_does_to_avro_is_one_line(transform: str, line: str) -> None:
    found = avro(transform)
    assert sum("t0 is not carried over" in told and line in told for told in found.differences) == 1
    assert "pipelines" not in link_of(found)


@pytest.mark.parametrize(
    ("second", "line"),
    [
        ("ReplaceField$Value exclude=b", "b was changed before"),
        ("Flatten$Value", ""),
        ("MaskField$Value fields=c;predicate=p", "another predicate"),
    ],
)
def test_steps_for_avro_join_where_their_order_does_not_matter(second: str, line: str) -> None:
    made = chain("ReplaceField$Value renames=a:b", second, p="TopicNameMatches pattern=x.*")
    converters = {"src__value__converter": AVRO, "value__converter": AVRO}
    found = import_mm2(replicator(made, **converters))
    told = [text for text in found.differences if "t1 is not carried over" in text]
    assert [line in text for text in told] == ([True] if line else [])
