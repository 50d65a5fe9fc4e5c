"""The schemas that Avro pipelines need: which ids, read as what, registered where."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from support.registry_server import RegistryServer
from unit.link.test_wanted_ids import report

from heliostat.access import RegistryAccess
from heliostat.config import LinkConfig, SchemasConfig
from heliostat.config.pipelines import AvroStep, PipelineConfig, StepConfig
from heliostat.link.avro_part import AGAIN_EVERY, AvroPart
from heliostat.link.pipeline_rules import pipelines_of
from heliostat.names import PartitionId, TopicName, TopicPartition
from heliostat.ops.events import Events
from heliostat.records.copier.avro_step import AvroSchema
from heliostat.records.copier.lane import PartitionReport, PartitionState
from heliostat.records.copier.pipeline_steps import Pipeline
from heliostat.schemas import HttpRegistry, observe_registry

FOO, BAR = TopicName("foo"), TopicName("bar")
MIRRORS = {FOO: TopicName("east.foo"), BAR: TopicName("east.bar")}


def order(*names: str, of: str = "long") -> str:
    fields = [{"name": name, "type": of, "default": 0} for name in names]
    return json.dumps({"type": "record", "name": "Order", "fields": fields})


class Part:
    """The part of a link with a pipeline for topic foo, and what it has told."""

    def __init__(self, source: RegistryServer, target: RegistryServer, **step: Any) -> None:
        self.source, self.target = source.double, target
        self._asks = [HttpRegistry(RegistryAccess((each.url,))) for each in (source, target)]
        steps = (StepConfig(avro_fields=AvroStep(**step)),)
        self.link = LinkConfig(
            name="l",
            source="summit",
            target="usdf",
            schemas=SchemasConfig(strategy="isolate"),
            pipelines=(PipelineConfig(name="p", topics=("foo",), steps=steps),),
        )
        self.told: list[Pipeline] = []
        self.refused: dict[str, str] = {}
        self.events = Events(lambda: 0, None)
        self.part = AvroPart(
            self.link, pipelines_of(self.link), lambda _: self.refused, self._learnt, self.events
        )

    def _learnt(self, pipelines: Mapping[str, Pipeline], refused: Mapping[str, str]) -> None:
        assert refused == self.refused
        self.told.append(pipelines["p"])

    def register(self, subject: str, text: str, **more: Any) -> int:
        found: int = self.source.register(subject, {"schema": text, **more})["id"]
        return found

    def turn(self) -> list[str]:
        content = observe_registry(self._asks[0])
        return self.part.turn(content, MIRRORS, self._asks[1], (), lambda: None)

    @property
    def schemas(self) -> dict[int, AvroSchema]:
        return {each.schema_id: each for each in self.told[-1].avro_steps[0].schemas}

    def close(self) -> None:
        for each in self._asks:
            each.close()


@pytest.fixture
def servers() -> Iterator[tuple[RegistryServer, RegistryServer]]:
    with RegistryServer() as source, RegistryServer() as target:
        yield source, target


def test_a_pipeline_learns_the_schemas_of_its_topics(
    servers: tuple[RegistryServer, RegistryServer],
) -> None:
    """Given subjects of two topics, of keys and of no topic / then the pipeline has those of its

    topic's values, read as the newest version; nothing is told twice, or registered.
    """
    part = Part(*servers, where="fields.a > 1")
    old = part.register("foo-value", order("a"))
    new = part.register("foo-value", order("a", "b"))
    part.register("foo-key", order("k"))
    part.register("bar-value", order("x"))
    of_record = part.register("lsst.Record", order("r"))
    assert part.turn() == []
    assert set(part.schemas) == {old, new}
    newest = part.schemas[new].text
    assert {each.reader for each in part.schemas.values()} == {newest}
    assert json.loads(newest)["fields"] == json.loads(order("a", "b"))["fields"]
    part.turn()
    assert len(part.told) == 1
    waiting = report(0, of_record)
    waiting.partitions.append(partition(BAR))
    part.part.wants(waiting)
    part.turn()
    assert len(part.told) == 1  # it is not this pipeline's topic that waits
    waiting.partitions[0] = partition(FOO)
    part.part.wants(waiting)
    part.turn()
    assert set(part.schemas) == {old, new, of_record}
    assert json.loads(part.schemas[of_record].reader)["fields"][0]["name"] == "r"
    assert [each.method for each in part.target.asked] == []
    part.close()


def partition(topic: TopicName) -> PartitionReport:
    """A partition that waits for a schema."""
    at = TopicPartition(topic, PartitionId(0))
    numbers = dict.fromkeys(
        (
            "position",
            "high_watermark",
            "records",
            "bytes",
            "last_timestamp_ms",
            "caught_up_ms",
            "since_ms",
        ),
        0,
    )
    return PartitionReport(
        at, at, state=PartitionState.RETRYING, code="SCHEMA_UNREADABLE", **numbers
    )


def test_changed_schemas_are_registered_before_they_are_told(
    servers: tuple[RegistryServer, RegistryServer],
) -> None:
    """Given a target with ids of its own / then each version is registered under the mirror's

    subject, in the default context, and known by the target's id; one that is refused there is
    left out, with the reason, until it is not; what was lost there is registered again.
    """
    part = Part(*servers, drop=["a"])
    part.target.double.register("own-value", {"schema": order("own")})
    ids = [part.register("foo-value", order(*names)) for names in (("a", "b"), ("a", "b", "c"))]
    assert part.turn() == []
    made = part.target.double.versions("east.foo-value", deleted=False)
    double = part.target.double
    found = [double.version("east.foo-value", str(each), deleted=False) for each in made]
    assert [part.schemas[each].target_id for each in ids] == [each["id"] for each in found]
    assert ids != [each["id"] for each in found]
    names = [[field["name"] for field in json.loads(each["schema"])["fields"]] for each in found]
    assert names == [["b"], ["b", "c"]]
    part.target.double.set_mode("east.foo-value", "READONLY", force=True)
    third = part.register("foo-value", order("a", "b", "d"))
    (note,) = part.turn()
    assert f"schema id {third} as changed" in note
    assert set(part.schemas) == set(ids)
    for _ in range(AGAIN_EVERY):  # in one of them all are registered again
        (note,) = part.turn()
        assert f"schema id {third} as changed" in note
    assert set(part.schemas) == set(ids)
    part.target.double.set_mode("east.foo-value", "READWRITE", force=True)
    assert part.turn() == []
    assert set(part.schemas) == {*ids, third}
    part.target.double.delete_subject("east.foo-value", permanent=False)
    for _ in range(AGAIN_EVERY):
        part.turn()
    assert len(part.target.double.versions("east.foo-value", deleted=False)) == 3
    part.close()


def test_schemas_that_are_no_good_are_told_with_the_reason(
    servers: tuple[RegistryServer, RegistryServer],
) -> None:
    """Given schemas that are no Avro, no record, or not fit for the step / then their records fail

    with a reason; types of other subjects are found.
    """
    part = Part(*servers, mask={"a": "x"})
    part.source.set_level("foo-value", "NONE")
    of_json = part.register("foo-value", '{"type":"object"}', schemaType="JSON")
    number = part.register("foo-value", '"int"')
    no_text = part.register("foo-value", order("a"))
    part.register("shared", '{"type":"record","name":"a.P","fields":[]}')
    fields = '[{"name":"p","type":"a.P"},{"name":"a","type":"string"}]'
    fine = part.register(
        "foo-value",
        f'{{"type":"record","name":"R","fields":{fields}}}',
        references=[{"name": "a.P", "subject": "shared", "version": 1}],
    )
    part.turn()
    problems = {schema_id: each.problem for schema_id, each in part.schemas.items()}
    assert problems == {
        of_json: "it is no Avro schema, but JSON",
        number: "it is no record, but int",
        no_text: "field a can't be masked by 'x': it is long",
        fine: "",
    }
    assert json.loads(part.schemas[fine].text)["fields"][0]["type"]["name"] == "a.P"
    part.close()


def test_a_pipeline_that_spark_refuses_is_told_so(
    servers: tuple[RegistryServer, RegistryServer],
) -> None:
    part = Part(*servers, where="fields.no > 1")
    part.register("foo-value", order("a"))
    part.refused = {"p": "no such field"}
    part.turn()
    assert len(part.told) == 1
    assert any("no such field" in each for each in part.events.recent(10))
    part.close()
