"""Schema ids and GUIDs in headers, as Confluent's serializers put them there."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.schema_registry import header_schema_id_serializer
from confluent_kafka.serialization import SerializationContext
from support.avro_clients import AvroReader
from support.clusters import ClusterPair, create_topic
from support.command import heliostat, said
from support.registry_double import RegistryDouble
from support.registry_server import RegistryServer
from support.toy import JANE, JOHN, Tour, foo, with_own

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.thorough]

HEADER = "__value_schema_id"
THIRD = {"bar": "Third", "baz": 3.0, "more": "m"}


def id_in_header(payload: bytes, context: SerializationContext, schema_id: Any) -> bytes:
    """Put the id into the header, as `SchemaId` allows as well."""
    assert isinstance(context.headers, list)
    context.headers.append((HEADER, schema_id.id_to_bytes()))
    return payload


@pytest.fixture(scope="module")
def tour(cluster_pair: ClusterPair, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tour]:
    """Give a link of each strategy, in one process."""
    with Tour(cluster_pair, tmp_path_factory.mktemp("tour")) as made:
        for strategy, target in (("preserve", RegistryDouble()), ("rewrite", with_own(7))):
            made.add(strategy, made.serve(with_own(3)), made.serve(target), strategy=strategy)
        yield made


def headers(reader: AvroReader) -> list[bytes]:
    return [dict(reader.seen[place].headers)[HEADER] for place in sorted(reader.seen)]


@pytest.mark.parametrize("strategy", ["preserve", "rewrite"])
def test_records_wait_for_the_schema_that_a_header_names(tour: Tour, strategy: str) -> None:
    """Given values without an id in front / when headers have an id and GUIDs / then a consumer at

    the target decodes all; one whose schema is not registered yet waits, and its GUID is named.
    """
    toy = tour.toy(strategy)
    create_topic(toy.pair.source, toy.foo)
    with toy.writer(put_id=header_schema_id_serializer) as first:
        theirs = [first.write_with_headers(toy.foo, JOHN)[HEADER]]
    with toy.writer(put_id=id_in_header) as second:
        theirs.append(second.write_with_headers(toy.foo, JANE)[HEADER])
    with RegistryServer(copy.deepcopy(toy.source.double)) as elsewhere:
        third = toy.writer("more", registry=elsewhere, put_id=header_schema_id_serializer)
        with third, toy.reader() as reader:
            reader.wait([JOHN, JANE])
            theirs.append(third.write_with_headers(toy.foo, THIRD)[HEADER])
            toy.wait_held(reader, 2)
            assert "schema id GUID " in json.dumps(said(toy.config, "status"))
            subject = f"{toy.foo}-value"
            toy.source.double.register(subject, {"schema": foo(toy.foo, "more")})
            reader.wait([JOHN, JANE, THIRD])
            ours = headers(reader)
    assert [len(each) for each in theirs] == [17, 5, 17]
    own, there = (side.double.subjects[subject][1].schema_id for side in (toy.source, toy.target))
    assert (own == there) is (strategy == "preserve")
    assert ours == [theirs[0], b"\0" + there.to_bytes(4, "big"), theirs[2]]
    assert heliostat(toy.config, "verify").returncode == 0
