"""The toy example of the technote SQR-050, played through with the clients that its users have.

A topic appears while a link runs, gets three equal records, then a second partition; it keeps its
name or is renamed. At the target Confluent's consumer decodes each record the moment it sees it,
with nothing but the address of the registry there. The links run in one process.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from support.avro_clients import open_registry
from support.clusters import ClusterPair, create_topic, until
from support.command import said
from support.registry_double import RegistryDouble
from support.registry_server import RegistryServer, Reply
from support.toy import JANE, JOHN, LATER, Tour, subjects, topics_of, with_own

from heliostat.clusters.admin import ClusterAdmin
from heliostat.names import TopicName
from heliostat_sandbox import Cluster

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.thorough]


@pytest.fixture(scope="module")
def tour(cluster_pair: ClusterPair, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tour]:
    """Give links that are named after what they do; the sources' registries have other schemas."""
    with Tour(cluster_pair, tmp_path_factory.mktemp("tour")) as made:

        def add(name: str, target: RegistryDouble, **settings: object) -> None:
            made.add(name, made.serve(with_own(5)), made.serve(target), **settings)

        add("same", RegistryDouble(), framed=["same.*"])
        add("renamed", RegistryDouble(), prefix="src.")
        isolated = {"strategy": "isolate", "context": ".summit"}
        add("isolated", with_own(9), prefix="summit.", **isolated)
        add("rewritten", with_own(9), strategy="rewrite", framed=["rewritten.*"])
        add("off", RegistryDouble(), strategy="off")
        yield made


def grow(cluster: Cluster, topic: TopicName) -> None:
    """Alter a topic to two partitions."""
    with ClusterAdmin(cluster.bootstrap.split(",")) as admin:
        assert admin.grow_partitions({topic: 2}) == {topic: None}


def down(_: object) -> Reply:
    """A registry that is stopped: its connections end without an answer."""
    return Reply(None)


@pytest.mark.parametrize("link", ["same", "renamed"])
def test_a_topic_that_appears_and_grows_is_decoded(tour: Tour, link: str) -> None:
    """Given a link that runs / when its topic appears, gets three equal records, and grows / then

    the consumer at the target sees what one at the source sees, under the same or another name:
    nothing is left out as equal, partitions are the same, and so are ids.
    """
    toy = tour.toy(link)
    with toy.origin() as origin, toy.reader() as reader, toy.writer() as writer:
        create_topic(toy.pair.source, toy.foo)
        writer.write(toy.foo, JOHN, JOHN, JOHN)
        reader.wait([JOHN] * 3)
        grow(toy.pair.source, toy.foo)
        until(lambda: topics_of(toy.pair.target, toy.foo) == {toy.mirror: 2}, "the partition")
        writer.write(toy.foo, JANE, JOHN, partition=1)
        reader.wait([JOHN] * 3, [JANE, JOHN])
        origin.wait([JOHN] * 3, [JANE, JOHN])
    assert reader.seen == origin.seen
    own = f"{toy.foo}-value"
    assert subjects(toy.target, toy.foo) == {own, f"{toy.mirror}-value"}
    with open_registry(toy.target.url) as registry:
        latest = registry.get_latest_version(f"{toy.mirror}-value")
    assert reader.ids == {latest.schema_id}


def test_without_its_schema_the_consumer_fails_at_a_record(tour: Tour) -> None:
    """Given a link without schemas / then the consumer tells what it can't decode.

    So the other tests would fail if a record came before its schema.
    """
    toy = tour.toy("off")
    create_topic(toy.pair.source, toy.foo)
    with toy.reader() as reader, toy.writer() as writer:
        writer.write(toy.foo, JOHN)
        until(lambda: reader.failures, "what can't be decoded")
    assert "40403" in reader.failures[0]
    assert reader.seen == {}


def test_ids_that_are_taken_at_the_target_are_decoded_in_a_context(tour: Tour) -> None:
    """Given a target whose registry has schemas of its own under the same ids / when the source's

    are isolated / then the consumer whose address names the context decodes, and what the ids
    mean for all others stays.
    """
    toy = tour.toy("isolated")
    before = copy.deepcopy(toy.target.double.subjects)
    with (
        toy.reader(context=".summit") as reader,
        toy.writer() as writer,
        toy.writer("qux") as later,
    ):
        create_topic(toy.pair.source, toy.foo)
        writer.write(toy.foo, JOHN, JOHN, JOHN)
        reader.wait([JOHN] * 3)
        later.write(toy.foo, LATER)
        reader.wait([JOHN, JOHN, JOHN, LATER])
    assert len(reader.ids) == 2
    with open_registry(toy.target.url) as registry:
        taken = [json.loads(registry.get_schema(each).schema_str or "") for each in reader.ids]
    assert all(each["name"].startswith("own") for each in taken), taken
    after = toy.target.double.subjects
    assert {name: after[name] for name in before} == before
    assert subjects(toy.target, toy.mirror) == {f":.summit:{toy.mirror}-value"}


@pytest.mark.parametrize("link", ["same", "rewritten"])
def test_a_record_is_unseen_until_its_schema_is_registered(tour: Tour, link: str) -> None:
    """Given a node of the source's registry that is ahead / when records come whose id the others

    don't know yet / then the consumer sees nothing of them until they do, and then decodes; another
    partition goes on meanwhile.
    """
    toy = tour.toy(link)  # no subject says at first that its values are framed, but the link does
    create_topic(toy.pair.source, toy.foo, partitions=2)
    with (
        toy.reader() as reader,
        toy.writer() as writer,
        RegistryServer(copy.deepcopy(toy.source.double)) as ahead,
    ):
        with toy.writer(registry=ahead) as first:
            first.write(toy.foo, JOHN, JOHN)
        toy.wait_held(reader, 0)
        writer.encode(toy.foo, JOHN)
        reader.wait([JOHN, JOHN])
        ahead.double = copy.deepcopy(toy.source.double)
        with toy.writer("qux", registry=ahead) as second:
            second.write(toy.foo, LATER)
            writer.write(toy.foo, JOHN)
            toy.wait_held(reader, 2)
            writer.write(toy.foo, JANE, partition=1)
            reader.wait([JOHN, JOHN], [JANE])
            toy.source.double = ahead.double
        reader.wait([JOHN, JOHN, LATER, JOHN], [JANE])


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_registry_that_is_stopped_before_the_record_comes_is_waited_for(
    tour: Tour, side: str
) -> None:
    """Given a schema that was registered after the link's last look / when a registry is stopped,

    and then records come / then the consumer sees nothing of them until it is back, and decodes.
    """
    toys = [tour.toy("same"), tour.toy("rewritten")]
    with ExitStack() as stack:
        readers = []
        for toy in toys:
            create_topic(toy.pair.source, toy.foo)
            readers.append(stack.enter_context(toy.reader()))
            stack.enter_context(toy.writer()).write(toy.foo, JOHN)
        for toy, reader in zip(toys, readers, strict=True):
            reader.wait([JOHN])
            stopped: RegistryServer = getattr(toy, side)
            stopped.troubles.append(down)
            stack.callback(stopped.troubles.clear)
            # Another node of the source's registry, which the link does not ask.
            node = stack.enter_context(RegistryServer(toy.source.double))
            stack.enter_context(toy.writer("qux", registry=node)).write(toy.foo, LATER)
        for toy, reader in zip(toys, readers, strict=True):
            toy.wait_held(reader, 1)
            getattr(toy, side).troubles.clear()
        for reader in readers:
            reader.wait([JOHN, LATER])


def test_a_link_that_starts_while_a_registry_is_stopped_goes_on_with_known_schemas(
    tour: Tour,
) -> None:
    """Given what the driver before has announced and noted / when links start while registries are

    stopped / then a consumer that stays decodes records of known schemas at once, and those of new
    ones when the registries are back.
    """
    toys = [tour.toy("renamed"), tour.toy("rewritten")]
    with ExitStack() as stack:
        readers = [stack.enter_context(toy.reader()) for toy in toys]
        writers = [stack.enter_context(toy.writer()) for toy in toys]
        for toy, writer in zip(toys, writers, strict=True):
            create_topic(toy.pair.source, toy.foo, partitions=2)
            writer.write(toy.foo, JOHN)
        for reader in readers:
            reader.wait([JOHN])
        tour.stop()
        for toy in toys:
            stack.enter_context(toy.writer("qux")).write(toy.foo, LATER)
            for registry in (toy.source, toy.target):
                registry.troubles.append(down)
                stack.callback(registry.troubles.clear)
        tour.start()
        for toy, writer, reader in zip(toys, writers, readers, strict=True):
            writer.write(toy.foo, JANE, partition=1)  # by an id that all know
            reader.wait([JOHN], [JANE])
            toy.wait_held(reader, 1)
            toy.source.troubles.clear()
            toy.target.troubles.clear()
        for toy, reader in zip(toys, readers, strict=True):
            reader.wait([JOHN, LATER], [JANE])
            with toy.origin() as origin:
                origin.wait([JOHN, LATER], [JANE])
            [found] = said(toy.config, "schemas", "map")
            assert {found["ids"][str(own)] for own in origin.ids} == reader.ids
            assert (reader.seen == origin.seen) is (toy.strategy == "preserve")
