"""A target that gives ids of its own: records get them, and Confluent's consumer decodes.

Apicurio is the real registry that takes no ids; here it is a target, not an empty one, and a
source. The other side is a double with Confluent's rules. The links run in one process.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import Producer
from support.avro_clients import AvroReader, open_registry
from support.clusters import ClusterPair, create_topic, fresh_name, until
from support.command import heliostat, said
from support.links import ends
from support.records import Sample, encode, write_batches
from support.toy import JANE, JOHN, Tour, Toy, register_own, subjects, with_own

from heliostat.clusters.admin import ClusterAdmin
from heliostat.names import LinkName, TopicName
from heliostat.state_topics import offsets_topic, state_topic
from heliostat_sandbox.registry import SandboxRegistry

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.thorough]

AT_MS = int(time.time() * 1000)
LATER = {**JANE, "qux": "x" * 200}
"""A record of the schema's second version, long enough to be compressed."""
PLAIN = "-plain"
"""How topics end whose values have no ids."""
OWN_AT_APICURIO, OWN_AT_TARGET = 3, 40
"""Other schemas that a registry has under the other side's ids."""


@pytest.fixture(scope="module")
def tour(cluster_pair: ClusterPair, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tour]:
    """Give links that are named after what they do."""
    with (
        SandboxRegistry.start() as apicurio,
        Tour(cluster_pair, tmp_path_factory.mktemp("tour")) as made,
    ):
        register_own(apicurio.url, OWN_AT_APICURIO)
        rewrite: dict[str, Any] = {"strategy": "rewrite"}
        source, target = made.serve(with_own(5)), made.serve(with_own(OWN_AT_TARGET))
        made.add("to-apicurio", source, apicurio, prefix="summit.", plain=[f".*{PLAIN}"], **rewrite)
        # Links that register the same at one time make Apicurio fail.
        rewrite["exclude"] = ["own.*", r"summit\..*"]
        made.add("from-apicurio", apicurio, target, prefix="usdf.", **rewrite)
        made.add("loses-its-state", source, apicurio, **rewrite)
        made.add("loses-its-map", source, apicurio, **rewrite)
        yield made


def payloads(reader: AvroReader) -> dict[Any, Any]:
    """All that a consumer sees but for ids."""
    return {
        place: (each.record, each.key, each.value[5:], each.timestamp, each.headers)
        for place, each in reader.seen.items()
    }


def all_is_in_sync(config: Path) -> dict[str, int]:
    """The map, when all verbs find that nothing differs."""
    for words in (
        ("schemas", "status"),
        ("schemas", "verify"),
        ("plan",),
        ("verify", "--complete"),
    ):
        answer = heliostat(config, *words)
        assert answer.returncode == 0, (words, answer.said)
    [found] = said(config, "schemas", "map")
    ids: dict[str, int] = found["ids"]
    return ids


def test_records_get_the_ids_of_a_target_that_gives_its_own(tour: Tour) -> None:
    """Given other schemas under the source's ids at the target / when records of two schemas come,

    in batches of all codecs / then the consumer there decodes each at once, sees all else
    unchanged, and `verify` compares contents by the map of ids.
    """
    toy = tour.toy("to-apicurio")
    with (
        toy.origin() as origin,
        toy.reader() as reader,
        toy.writer() as writer,
        toy.writer("qux") as later,
    ):
        create_topic(toy.pair.source, toy.foo)
        writer.write(toy.foo, JOHN, JOHN, JOHN)
        reader.wait([JOHN] * 3)
        expected = [JOHN] * 3
        [first, second] = [*writer.encode(toy.foo, JANE), *later.encode(toy.foo, LATER)]
        for codec in range(5):
            samples = [Sample(b"k", value, AT_MS) for value in (first, second, second)]
            write_batches(toy.pair.source.bootstrap, toy.foo, [encode(samples, codec)])
            expected += [JANE, LATER, LATER]
        reader.wait(expected)
        origin.wait(expected)
    assert payloads(reader) == payloads(origin)
    ids = all_is_in_sync(toy.config)
    assert {ids[str(own)] for own in origin.ids} == reader.ids
    assert all(ids[str(own)] != own for own in origin.ids)
    with open_registry(toy.target.url) as registry:
        assert f"{toy.mirror}-value" in registry.get_subjects()
    _differs_without_the_map(toy)


def _differs_without_the_map(toy: Toy) -> None:
    """If the ids were not mapped, each record would differ: `verify` looks at them."""
    settings = yaml.safe_load(toy.config.read_text())
    [link] = settings["links"]
    link["schemas"]["strategy"] = "off"
    link["topics"]["include"] = [toy.foo]
    other = toy.config.with_name("off.yaml")
    other.write_text(yaml.safe_dump(settings))
    answer = heliostat(other, "verify", "--json")
    assert answer.returncode == 1, answer.said
    assert answer.json["different"] == 18, answer.said


def test_schemas_of_apicurio_get_the_ids_of_a_registry_that_has_others(tour: Tour) -> None:
    """Given Apicurio as the source, and a target with schemas under its ids / then it decodes."""
    toy = tour.toy("from-apicurio")
    create_topic(toy.pair.source, toy.foo)
    with toy.origin() as origin, toy.reader() as reader, toy.writer() as writer:
        writer.write(toy.foo, JOHN, JANE)
        reader.wait([JOHN, JANE])
        origin.wait([JOHN, JANE])
    assert payloads(reader) == payloads(origin)
    assert min(reader.ids) > OWN_AT_TARGET
    assert reader.ids != origin.ids
    assert all_is_in_sync(toy.config)
    assert len(subjects(toy.target, "own")) == OWN_AT_TARGET


def test_values_that_only_seem_to_have_ids_wait_until_it_is_said(tour: Tour) -> None:
    """Given topics that no subject is named after, with a value that looks framed / then it waits

    with the reason, and passes as it is in a topic that is said to be plain; once a subject is
    named after the other topic, its value gets the target's id.
    """
    toy, plain = tour.toy("to-apicurio"), tour.toy("to-apicurio", PLAIN)
    value = b"\x00" + (1).to_bytes(4, "big") + b"a counter, say"
    for each in (toy, plain):
        create_topic(toy.pair.source, each.foo)
        write_batches(toy.pair.source.bootstrap, each.foo, [encode([Sample(b"k", value, AT_MS)])])
    until(
        lambda: "schemas.plain" in json.dumps(said(toy.config, "status")),
        lambda: f"the reason, there is {said(toy.config, 'status')}",
    )
    there = {toy.mirror: 1, plain.mirror: 1}
    until(
        lambda: ends(toy.pair.target.bootstrap, there) == {toy.mirror: [0], plain.mirror: [1]},
        "the plain value alone",
    )
    own = toy.source.double.by_id(1, None)
    toy.source.double.register(f"{toy.foo}-value", {"schema": own["schema"]})
    until(lambda: heliostat(toy.config, "verify", "--complete").returncode == 0, "the record")


def test_what_was_lost_is_rebuilt_from_records_with_other_ids(tour: Tour) -> None:
    """Given a link's state gone, and of another link the map of a topic with aborted transactions

    / then contents prove whose mirrors these are and rebuild the map, whatever ids they have, and
    both go on, each record once.
    """
    plain, mapped = tour.toy("loses-its-state"), tour.toy("loses-its-map")
    with ExitStack() as stack:
        for toy in (plain, mapped):
            create_topic(toy.pair.source, toy.foo)
        readers = [stack.enter_context(toy.reader()) for toy in (plain, mapped)]
        writer, other = (stack.enter_context(toy.writer()) for toy in (plain, mapped))
        values = other.encode(mapped.foo, JOHN, JANE)
        writer.write(plain.foo, JOHN, JANE)
        transactions(mapped, values)
        readers[0].wait([JOHN, JANE])
        readers[1].wait([JOHN, JANE] * 3)
        tour.stop()
        names = LinkName(plain.link), LinkName(mapped.link)
        lose(plain, [state_topic(names[0]), offsets_topic(names[1])])
        answer = heliostat(plain.config, "state", "rebuild", "--yes")
        assert answer.returncode == 0, answer.said
        assert "2 records compared" in answer.stdout
        tour.start()
        writer.write(plain.foo, JOHN)
        readers[0].wait([JOHN, JANE, JOHN])
        until(
            lambda: "OFFSET_MAP_LOST" in json.dumps(said(mapped.config, "status")),
            "the stop for the lost map",
        )
        [found] = said(mapped.config, "offsets", "rebuild")
        assert (found["why_not"], found["records"]) == ("", 6)
        transactions(mapped, values)
        readers[1].wait([JOHN, JANE] * 6)
    for toy in (plain, mapped):
        assert heliostat(toy.config, "verify", "--complete").returncode == 0


def lose(toy: Toy, topics: list[TopicName]) -> None:
    """Delete topics of links."""
    with ClusterAdmin([toy.pair.target.bootstrap]) as admin:
        assert admin.delete_topics(topics) == dict.fromkeys(topics)


def transactions(toy: Toy, values: list[bytes]) -> None:
    """Write values three times, each time committed once and aborted once."""
    settings = {"bootstrap.servers": toy.pair.source.bootstrap, "compression.type": "lz4"}
    producer = Producer({**settings, "transactional.id": fresh_name("transactions")})
    producer.init_transactions(30)
    for number in range(6):
        producer.begin_transaction()
        for value in values:
            producer.produce(toy.foo, value, b"%d %d" % (number, time.monotonic_ns()), 0)
        producer.flush(30)
        if number % 2:
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)


def test_a_closed_registry_stops_only_new_schemas_and_a_teams_subject_stays_as_it_is(
    cluster_pair: ClusterPair, tmp_path: Path
) -> None:
    """Given a target registry that is read-only when the link starts / then known ids go on.

    Given a team's subject with FULL / then `plan` tells that it keeps FULL, and it does.
    """
    with Tour(cluster_pair, tmp_path) as tour:
        source, target = tour.serve(with_own(3)), tour.serve(with_own(7))
        toy = tour.add("closed", source, target, strategy="rewrite", exclude=["own.*"])
        create_topic(toy.pair.source, toy.foo)
        subject = f"{toy.foo}-value"
        with (
            toy.writer() as writer,
            toy.writer("qux") as later,
            toy.writer(registry=target) as team,
            toy.reader() as reader,
        ):
            team.encode(toy.foo, JOHN)
            target.double.set_level(subject, "FULL")
            writer.write(toy.foo, JOHN)
            later.encode(toy.foo, LATER)
            [plan] = said(toy.config, "plan")
            assert [
                f"{subject} exists at the target with compatibility FULL" in each
                for each in plan["schemas"]["notes"]
            ] == [True]
            target.double.set_mode(None, "READONLY", force=True)
            tour.start()
            reader.wait([JOHN])
            later.write(toy.foo, LATER)
            toy.wait_held(reader, 1)
            [row] = [
                each
                for each in said(toy.config, "schemas", "status")[0]["versions"]
                if each["state"] == "refused"
            ]
            assert (row["code"], row["version"]) == ("mode", 2)
            target.double.set_mode(None, "READWRITE", force=True)
            reader.wait([JOHN, LATER])
        assert target.double.level(subject, inherited=True) == "FULL"
