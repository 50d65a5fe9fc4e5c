"""A target that gives ids of its own: records get them, and Confluent's consumer decodes.

Apicurio is the real registry that takes no ids; here it is a target, not an empty one, and a
source. The other side is a double with Confluent's rules.
"""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import Producer
from support.avro_clients import AvroReader, AvroWriter, open_registry
from support.clusters import ClusterPair, create_topic, fresh_name, until
from support.command import heliostat, said
from support.links import RunningLink
from support.records import Sample, encode, write_batches
from support.registry_server import RegistryServer, Reply
from support.toy import (
    JANE,
    JOHN,
    WAITS_S,
    Toy,
    both_ways,
    foo,
    subjects,
    topics_of,
    wait_turns,
    with_own,
)

from heliostat.clusters.admin import ClusterAdmin
from heliostat.state_topics import offsets_topic
from heliostat_sandbox.registry import SandboxRegistry

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.thorough]

AT_MS = int(time.time() * 1000)
OWN_AT_TARGET = 3
"""Other schemas that the target's registry has under the source's ids."""


@pytest.fixture(scope="module")
def apicurio() -> Iterator[SandboxRegistry]:
    with SandboxRegistry.start() as registry:
        fill(registry.url, OWN_AT_TARGET)
        yield registry


def fill(url: str, count: int) -> None:
    """Register schemas of the registry's own."""
    for number in range(count):
        name = fresh_name("Own").replace("-", "_")
        text = json.dumps({"type": "record", "name": name, "fields": []})
        with AvroWriter("", url, text) as writer:
            writer.encode(f"own-{number}", {})


@pytest.fixture
def toy(cluster_pair: ClusterPair, apicurio: SandboxRegistry, tmp_path: Path) -> Iterator[Toy]:
    """The source's registry is Confluent's, the target's Apicurio."""
    with RegistryServer(with_own(5)) as source:
        there: Any = apicurio
        yield Toy(cluster_pair, source, there, tmp_path / "heliostat.yaml")


def ids_of(reader: AvroReader) -> set[int]:
    return {each.schema_id for each in reader.seen.values()}


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


@pytest.mark.parametrize("naming", ["same", {"prefix": "summit."}])
def test_records_get_the_ids_of_a_target_that_gives_its_own(toy: Toy, naming: Any) -> None:
    """Given other schemas under the source's ids at the target / when records of two schemas come,

    in batches of all codecs / then the consumer there decodes each at once, sees all else
    unchanged, and `verify` compares contents by the map of ids.
    """
    toy.configure(naming, strategy="rewrite")
    renamed = toy.foo if naming == "same" else f"summit.{toy.foo}"
    with (
        RunningLink(toy.config) as link,
        toy.origin() as origin,
        toy.reader(renamed) as reader,
        toy.writer() as writer,
        toy.writer("qux") as later,
    ):
        create_topic(toy.pair.source, toy.foo)
        writer.write(toy.foo, JOHN, JOHN, JOHN)
        reader.wait([JOHN] * 3)
        expected = [JOHN] * 3
        [first, second] = [
            *writer.encode(toy.foo, JANE),
            *later.encode(toy.foo, {**JANE, "qux": "x" * 200}),
        ]
        for codec in range(5):
            samples = [Sample(b"k", value, AT_MS) for value in (first, second, second)]
            write_batches(toy.pair.source.bootstrap, toy.foo, [encode(samples, codec)])
            expected += [JANE, *[{**JANE, "qux": "x" * 200}] * 2]
        reader.wait(expected)
        origin.wait(expected)
        assert link.stop() == 0, link.text()
    assert payloads(reader) == payloads(origin)
    ids = all_is_in_sync(toy.config)
    assert {ids[str(own)] for own in ids_of(origin)} == ids_of(reader)
    assert all(ids[str(own)] != own for own in ids_of(origin))
    with open_registry(toy.target.url) as registry:
        assert f"{renamed}-value" in registry.get_subjects()
    _differs_without_the_map(toy.config)


def _differs_without_the_map(config: Path) -> None:
    """If the ids were not mapped, each record would differ: `verify` looks at them."""
    settings = yaml.safe_load(config.read_text())
    settings["links"][0]["schemas"]["strategy"] = "off"
    other = config.with_name("off.yaml")
    other.write_text(yaml.safe_dump(settings))
    answer = heliostat(other, "verify", "--json")
    assert answer.returncode == 1, answer.said
    assert answer.json["different"] == 18, answer.said


def test_a_record_is_unseen_until_its_schema_has_an_id_at_the_target(toy: Toy) -> None:
    """Given records whose schema the source's registry gets later / then the consumer sees nothing

    of them before, and decodes them then; another topic goes on meanwhile.
    """
    toy.configure(strategy="rewrite", framed=[toy.foo])
    create_topic(toy.pair.source, toy.foo)
    with (
        RunningLink(toy.config) as link,
        toy.reader() as reader,
        toy.writer() as writer,
        RegistryServer(copy.deepcopy(toy.source.double)) as ahead,
    ):
        with toy.writer(registry=ahead) as first:
            first.write(toy.foo, JOHN, JOHN)
        until(lambda: "SCHEMA_UNREADABLE" in json.dumps(said(toy.config, "status")), link.text)
        time.sleep(WAITS_S)
        assert (reader.seen, reader.failures) == ({}, [])
        writer.encode(toy.foo, JOHN)
        reader.wait([JOHN, JOHN])
        assert link.stop() == 0, link.text()
    assert heliostat(toy.config, "verify").returncode == 0


def test_known_ids_are_replaced_by_a_link_that_starts_while_a_registry_is_stopped(
    cluster_pair: ClusterPair, tmp_path: Path
) -> None:
    """Given what the driver before has announced and noted / then known schemas go on."""
    with RegistryServer(with_own(5)) as source, RegistryServer(with_own(9)) as target:
        toy = Toy(cluster_pair, source, target, tmp_path / "heliostat.yaml")
        toy.configure(strategy="rewrite")
        create_topic(toy.pair.source, toy.foo)
        with toy.reader() as reader, toy.writer() as writer:
            writer.write(toy.foo, JOHN)
            with RunningLink(toy.config) as link:
                reader.wait([JOHN])
                assert link.stop() == 0, link.text()
            source.troubles.append(lambda _: Reply(None))
            target.troubles.append(lambda _: Reply(None))
            with RunningLink(toy.config) as link:
                writer.write(toy.foo, JANE)
                reader.wait([JOHN, JANE])
                assert link.stop() == 0, link.text()
        assert ids_of(reader) == {10}


def test_a_lost_state_is_rebuilt_from_records_with_other_ids(toy: Toy) -> None:
    """Given the link's topics gone / then contents prove the mirror its own, whatever ids it has,

    and it goes on in it, each record once.
    """
    toy.configure(strategy="rewrite")
    create_topic(toy.pair.source, toy.foo)
    with toy.reader() as reader, toy.writer() as writer:
        writer.write(toy.foo, JOHN, JANE)
        with RunningLink(toy.config) as link:
            reader.wait([JOHN, JANE])
            assert link.stop() == 0, link.text()
        name = yaml.safe_load(toy.config.read_text())["links"][0]["name"]
        with ClusterAdmin([toy.pair.target.bootstrap]) as admin:
            lost = [each for each in admin.describe_topics() if f".{name}." in each]
            assert admin.delete_topics(lost) == dict.fromkeys(lost)
        answer = heliostat(toy.config, "state", "rebuild", "--yes")
        assert answer.returncode == 0, answer.said
        assert "2 records compared" in answer.stdout
        with RunningLink(toy.config) as link:
            writer.write(toy.foo, JOHN)
            reader.wait([JOHN, JANE, JOHN])
            assert link.stop() == 0, link.text()
    assert heliostat(toy.config, "verify", "--complete").returncode == 0


def test_a_lost_map_is_rebuilt_from_records_with_other_ids(toy: Toy) -> None:
    """Given transactions, of which some are aborted, so that offsets differ as well / then what is

    committed is decoded; the map of offsets is rebuilt from contents once it is lost.
    """
    toy.configure(strategy="rewrite")
    create_topic(toy.pair.source, toy.foo)
    with toy.reader() as reader, toy.writer() as writer:
        values = writer.encode(toy.foo, JOHN, JANE)
        with RunningLink(toy.config) as link:
            transactions(toy, values)
            reader.wait([JOHN, JANE] * 3)
            assert link.stop() == 0, link.text()
        assert heliostat(toy.config, "verify", "--complete").returncode == 0
        name = yaml.safe_load(toy.config.read_text())["links"][0]["name"]
        lost = offsets_topic(name)
        with ClusterAdmin([toy.pair.target.bootstrap]) as admin:
            assert admin.delete_topics([lost]) == {lost: None}
        with RunningLink(toy.config) as link:
            until(
                lambda: "OFFSET_MAP_LOST" in json.dumps(said(toy.config, "status")),
                "the stop for the lost map",
            )
            [found] = said(toy.config, "offsets", "rebuild")
            assert (found["why_not"], found["records"]) == ("", 6)
            transactions(toy, values)
            reader.wait([JOHN, JANE] * 6)
            assert link.stop() == 0, link.text()
    assert heliostat(toy.config, "verify", "--complete").returncode == 0


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


def test_schemas_of_apicurio_get_the_ids_of_a_registry_that_has_others(
    cluster_pair: ClusterPair, apicurio: SandboxRegistry, tmp_path: Path
) -> None:
    """Given Apicurio as the source, and a target with schemas under its ids / then it decodes."""
    there: Any = apicurio
    with RegistryServer(with_own(40)) as target:
        toy = Toy(cluster_pair, there, target, tmp_path / "heliostat.yaml")
        toy.configure({"prefix": "summit."}, strategy="rewrite", exclude=["own.*"])
        create_topic(toy.pair.source, toy.foo)
        with (
            RunningLink(toy.config) as link,
            toy.origin() as origin,
            toy.reader(f"summit.{toy.foo}") as reader,
            toy.writer() as writer,
        ):
            writer.write(toy.foo, JOHN, JANE)
            reader.wait([JOHN, JANE])
            origin.wait([JOHN, JANE])
            assert link.stop() == 0, link.text()
        assert payloads(reader) == payloads(origin)
        assert min(ids_of(reader)) > 40
        assert ids_of(reader) != ids_of(origin)
        assert all_is_in_sync(toy.config)
        assert len(subjects(target, "own")) == 40


def test_values_that_only_seem_to_have_ids_wait_until_it_is_said(toy: Toy) -> None:
    """Given a topic that no subject is named after, with a value that looks framed / then it waits

    with the reason; said to be plain it passes as it is.
    """
    value = b"\x00" + (1).to_bytes(4, "big") + b"a counter, say"
    toy.configure(strategy="rewrite")
    create_topic(toy.pair.source, toy.foo)
    write_batches(toy.pair.source.bootstrap, toy.foo, [encode([Sample(b"k", value, AT_MS)])])
    with RunningLink(toy.config) as link:
        until(
            lambda: "schemas.plain" in json.dumps(said(toy.config, "status")),
            lambda: f"the reason, there is {said(toy.config, 'status')}",
        )
        assert link.stop() == 0, link.text()
    settings = yaml.safe_load(toy.config.read_text())
    settings["links"][0]["schemas"]["plain"] = [toy.foo]
    toy.config.write_text(yaml.safe_dump(settings))
    with RunningLink(toy.config) as link:
        until(lambda: heliostat(toy.config, "verify", "--complete").returncode == 0, "the record")
        assert link.stop() == 0, link.text()


def test_ids_are_rewritten_both_ways_and_nothing_comes_back(
    cluster_pair: ClusterPair, tmp_path: Path
) -> None:
    """Given the same id at both sides for different schemas / when links mirror both ways / then

    each side decodes the other's records, and no subject of a mirror is mirrored.
    """
    with RegistryServer(with_own(5)) as source, RegistryServer(with_own(5)) as target:
        toy = Toy(cluster_pair, source, target, tmp_path / "heliostat.yaml")
        name = toy.foo
        both_ways(toy, name, "rewrite")
        east, west = toy.pair.source, toy.pair.target
        for each in (east, west):
            create_topic(each, name)
        with (
            RunningLink(toy.config) as links,
            AvroReader(west.bootstrap, target.url, f"east.{name}") as in_west,
            AvroReader(east.bootstrap, source.url, f"west.{name}") as in_east,
            AvroWriter(east.bootstrap, source.url, foo()) as of_east,
            AvroWriter(west.bootstrap, target.url, foo("qux")) as of_west,
        ):
            [value] = of_west.encode(name, {**JANE, "qux": "x"})
            [other] = of_east.encode(name, JOHN)
            assert value[:5] == other[:5]
            of_east.send(name, [other] * 3)
            of_west.send(name, [value])
            in_west.wait([JOHN] * 3)
            in_east.wait([{**JANE, "qux": "x"}])
            wait_turns(toy.config)
            in_west.wait([JOHN] * 3)
            in_east.wait([{**JANE, "qux": "x"}])
            assert links.stop() == 0, links.text()
        assert topics_of(east, name) == {name: 1, f"west.{name}": 1}
        assert topics_of(west, name) == {name: 1, f"east.{name}": 1}
        assert subjects(source, name) == {f"{name}-value", f"west.{name}-value"}
        assert subjects(target, name) == {f"{name}-value", f"east.{name}-value"}
