"""Schema ids and GUIDs in headers, as Confluent's serializers put them there."""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import header_schema_id_serializer
from confluent_kafka.serialization import SerializationContext
from support.avro_clients import AvroReader, AvroWriter
from support.clusters import ClusterPair, create_topic, until
from support.command import heliostat, said
from support.links import RunningLink
from support.registry_server import RegistryServer
from support.toy import JANE, JOHN, WAITS_S, Toy, foo, with_own

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.thorough]

HEADER = "__value_schema_id"
THIRD = {"bar": "Third", "baz": 3.0, "more": "m"}


def id_in_header(payload: bytes, context: SerializationContext, schema_id: Any) -> bytes:
    """Put the id into the header, as `SchemaId` allows as well."""
    assert isinstance(context.headers, list)
    context.headers.append((HEADER, schema_id.id_to_bytes()))
    return payload


@pytest.fixture
def toy(cluster_pair: ClusterPair, tmp_path: Path) -> Iterator[Toy]:
    with RegistryServer(with_own(3)) as source, RegistryServer() as target:
        yield Toy(cluster_pair, source, target, tmp_path / "heliostat.yaml")


def writer(toy: Toy, registry: RegistryServer, put_id: Any, *more: str) -> AvroWriter:
    return AvroWriter(toy.pair.source.bootstrap, registry.url, foo(*more), put_id)


def headers(reader: AvroReader) -> list[bytes]:
    return [dict(reader.seen[place].headers)[HEADER] for place in sorted(reader.seen)]


@pytest.mark.parametrize("strategy", ["preserve", "rewrite"])
def test_records_wait_for_the_schema_that_a_header_names(toy: Toy, strategy: str) -> None:
    """Given values without an id in front / when headers have an id and GUIDs / then a consumer at

    the target decodes all; one whose schema is not registered yet waits, and its GUID is named.
    """
    toy.configure(strategy=strategy)
    create_topic(toy.pair.source, toy.foo)
    if strategy == "rewrite":
        toy.target.double = with_own(7)
    with writer(toy, toy.source, header_schema_id_serializer) as first:
        theirs = [first.write_with_headers(toy.foo, JOHN)[HEADER]]
    with writer(toy, toy.source, id_in_header) as second:
        theirs.append(second.write_with_headers(toy.foo, JANE)[HEADER])
    later = copy.deepcopy(toy.source.double)
    with RegistryServer(later) as elsewhere:
        third = writer(toy, elsewhere, header_schema_id_serializer, "more")
        with third, RunningLink(toy.config) as link, toy.reader() as reader:
            reader.wait([JOHN, JANE])
            theirs.append(third.write_with_headers(toy.foo, THIRD)[HEADER])
            until(lambda: "schema id GUID " in json.dumps(said(toy.config, "status")), link.text)
            time.sleep(WAITS_S)
            assert reader.records() == [JOHN, JANE]
            subject = f"{toy.foo}-value"
            toy.source.double.register(subject, {"schema": foo("more")})
            reader.wait([JOHN, JANE, THIRD])
            ours = headers(reader)
    assert [len(each) for each in theirs] == [17, 5, 17]
    own, there = (side.double.subjects[subject][1].schema_id for side in (toy.source, toy.target))
    assert (own == there) is (strategy == "preserve")
    assert ours == [theirs[0], b"\0" + there.to_bytes(4, "big"), theirs[2]]
    assert heliostat(toy.config, "verify").returncode == 0
