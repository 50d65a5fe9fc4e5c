"""The toy example of the technote SQR-050, played through with the clients that its users have.

A topic appears while a link runs, gets three equal records, then a second partition; it keeps its
name or is renamed. At the target Confluent's consumer decodes each record the moment it sees it,
with nothing but the address of the registry there.
"""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.avro_clients import AvroReader, AvroWriter, Record, open_registry
from support.clusters import ClusterPair, create_topic, until
from support.command import said
from support.links import RunningLink, wait_for
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
from heliostat.names import TopicName
from heliostat_sandbox import Cluster

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.thorough]


@pytest.fixture
def toy(cluster_pair: ClusterPair, tmp_path: Path) -> Iterator[Toy]:
    """The source's registry has other schemas, the target's is empty."""
    with RegistryServer(with_own(5)) as source, RegistryServer() as target:
        yield Toy(cluster_pair, source, target, tmp_path / "heliostat.yaml")


def grow(cluster: Cluster, topic: TopicName) -> None:
    """Alter a topic to two partitions."""
    with ClusterAdmin(cluster.bootstrap.split(",")) as admin:
        assert admin.grow_partitions({topic: 2}) == {topic: None}


def down(_: object) -> Reply:
    """A registry that is stopped: its connections end without an answer."""
    return Reply(None)


def test_a_topic_that_appears_and_grows_is_decoded_under_its_own_name(toy: Toy) -> None:
    """Given a link that runs / when its topic appears, gets three equal records, and grows / then

    the consumer at the target sees what one at the source sees: nothing is left out as equal, and
    partitions are the same.
    """
    toy.configure()
    with (
        RunningLink(toy.config) as link,
        toy.origin() as origin,
        toy.reader() as reader,
        toy.writer() as writer,
    ):
        wait_for("the first look", lambda: said(toy.config, "status")[0]["driver"].get("turns"))
        create_topic(toy.pair.source, toy.foo)
        writer.write(toy.foo, JOHN, JOHN, JOHN)
        reader.wait([JOHN] * 3)
        grow(toy.pair.source, toy.foo)
        until(lambda: topics_of(toy.pair.target, toy.foo) == {toy.foo: 2}, "the second partition")
        writer.write(toy.foo, JANE, JOHN, partition=1)
        reader.wait([JOHN] * 3, [JANE, JOHN])
        origin.wait([JOHN] * 3, [JANE, JOHN])
        assert reader.seen == origin.seen
        assert link.stop() == 0, link.text()
    assert subjects(toy.target, toy.foo) == {f"{toy.foo}-value"}


def test_without_its_schema_the_consumer_fails_at_a_record(toy: Toy) -> None:
    """Given a link without schemas / then the consumer tells what it can't decode.

    So the other tests would fail if a record came before its schema.
    """
    toy.configure(strategy="off")
    create_topic(toy.pair.source, toy.foo)
    with RunningLink(toy.config), toy.reader() as reader, toy.writer() as writer:
        writer.write(toy.foo, JOHN)
        until(lambda: reader.failures, "what can't be decoded")
    assert "40403" in reader.failures[0]
    assert reader.seen == {}


@pytest.mark.parametrize("naming", [{"prefix": "src."}, {"format": "src.${topic}"}])
def test_a_renamed_topic_is_decoded_as_well(toy: Toy, naming: dict[str, str]) -> None:
    """Given names with a prefix / when the same consumer reads the renamed topic / then it decodes:

    its subject is there, with the id that is in the records.
    """
    toy.configure(naming)
    renamed = f"src.{toy.foo}"
    with (
        RunningLink(toy.config) as link,
        toy.origin() as origin,
        toy.reader(renamed) as reader,
        toy.writer() as writer,
    ):
        create_topic(toy.pair.source, toy.foo)
        writer.write(toy.foo, JOHN, JOHN, JOHN)
        reader.wait([JOHN] * 3)
        origin.wait([JOHN] * 3)
        assert reader.seen == origin.seen
        assert link.stop() == 0, link.text()
    assert topics_of(toy.pair.target, toy.foo) == {renamed: 1}
    with open_registry(toy.target.url) as registry:
        latest = registry.get_latest_version(f"{renamed}-value")
    assert {each.schema_id for each in reader.seen.values()} == {latest.schema_id}


def test_ids_that_are_taken_at_the_target_are_decoded_in_a_context(toy: Toy) -> None:
    """Given a target whose registry has schemas of its own under the same ids / when the source's

    are isolated / then the consumer whose address names the context decodes, and what the ids
    mean for all others stays.
    """
    toy.target.double = with_own(9)
    toy.configure({"prefix": "summit."}, strategy="isolate", context=".summit")
    renamed = f"summit.{toy.foo}"
    before = copy.deepcopy(toy.target.double.subjects)
    with (
        RunningLink(toy.config) as link,
        toy.reader(renamed, context=".summit") as reader,
        toy.writer() as writer,
        toy.writer("qux") as later,
    ):
        create_topic(toy.pair.source, toy.foo)
        writer.write(toy.foo, JOHN, JOHN, JOHN)
        reader.wait([JOHN] * 3)
        later.write(toy.foo, {**JANE, "qux": "x"})
        reader.wait([JOHN, JOHN, JOHN, {**JANE, "qux": "x"}])
        assert link.stop() == 0, link.text()
    ids = {each.schema_id for each in reader.seen.values()}
    assert len(ids) == 2
    with open_registry(toy.target.url) as registry:
        taken = [json.loads(registry.get_schema(each).schema_str or "") for each in ids]
    assert all(each["name"].startswith("own") for each in taken), taken
    after = toy.target.double.subjects
    assert {name: after[name] for name in before} == before
    assert subjects(toy.target, renamed) == {f":.summit:{renamed}-value"}


def test_a_record_is_unseen_until_its_schema_is_registered(toy: Toy) -> None:
    """Given a node of the source's registry that is ahead / when records come whose id the others

    don't know yet / then the consumer sees nothing of them until they do, and then decodes.
    """
    toy.configure(framed=[toy.foo])  # no subject says so at first
    create_topic(toy.pair.source, toy.foo)
    with (
        RunningLink(toy.config) as link,
        toy.reader() as reader,
        toy.writer() as writer,
        RegistryServer(copy.deepcopy(toy.source.double)) as ahead,
    ):
        with toy.writer(registry=ahead) as first:
            first.write(toy.foo, JOHN, JOHN)
        time.sleep(WAITS_S)
        assert (reader.seen, reader.failures) == ({}, [])
        writer.encode(toy.foo, JOHN)
        reader.wait([JOHN, JOHN])
        ahead.double = copy.deepcopy(toy.source.double)
        with toy.writer("qux", registry=ahead) as second:
            second.write(toy.foo, {**JANE, "qux": "x"})
            writer.write(toy.foo, JOHN)
            time.sleep(WAITS_S)
            reader.wait([JOHN, JOHN])
            toy.source.double = ahead.double
        reader.wait([JOHN, JOHN, {**JANE, "qux": "x"}, JOHN])
        assert link.stop() == 0, link.text()


@pytest.mark.parametrize("strategy", ["preserve", "rewrite"])
@pytest.mark.parametrize("side", ["source", "target"])
def test_a_registry_that_is_stopped_before_the_record_comes_is_waited_for(
    toy: Toy, side: str, strategy: str
) -> None:
    """Given a schema that was registered after the link's last look / when a registry is stopped,

    and then records come / then the consumer sees nothing of them until it is back, and decodes.
    """
    toy.configure(interval_s=3600, strategy=strategy)
    create_topic(toy.pair.source, toy.foo)
    stopped: RegistryServer = getattr(toy, side)
    with (
        RunningLink(toy.config) as link,
        toy.reader() as reader,
        toy.writer() as writer,
        toy.writer("qux") as later,
    ):
        writer.write(toy.foo, JOHN)
        reader.wait([JOHN])
        values = later.encode(toy.foo, {**JANE, "qux": "x"})
        stopped.troubles.append(down)
        later.send(toy.foo, values)
        until(lambda: "schemas: " in link.text(), "a look that fails")
        time.sleep(WAITS_S)
        reader.wait([JOHN])
        stopped.troubles.clear()
        reader.wait([JOHN, {**JANE, "qux": "x"}])
        assert link.stop() == 0, link.text()


def test_a_link_that_is_restarted_between_all_steps_shows_the_same(toy: Toy) -> None:
    """Given a consumer that stays / when each step happens while the link is stopped / then what it

    sees is decoded at once, also when the link starts while a registry is stopped.
    """
    toy.configure({"prefix": "src."})
    renamed = f"src.{toy.foo}"

    def run(*partitions: list[Record]) -> None:
        with RunningLink(toy.config) as link:
            reader.wait(*partitions)
            assert link.stop() == 0, link.text()

    with (
        toy.origin() as origin,
        toy.reader(renamed) as reader,
        toy.writer() as writer,
        toy.writer("qux") as later,
    ):
        with RunningLink(toy.config):
            create_topic(toy.pair.source, toy.foo)
            until(lambda: topics_of(toy.pair.target, toy.foo) == {renamed: 1}, "the topic")
        writer.write(toy.foo, JOHN, JOHN, JOHN)
        run([JOHN] * 3)
        grow(toy.pair.source, toy.foo)
        writer.write(toy.foo, JANE, partition=1)
        run([JOHN] * 3, [JANE])
        later.write(toy.foo, {**JANE, "qux": "x"}, partition=1)
        toy.target.troubles.append(down)
        with RunningLink(toy.config) as link:
            until(lambda: "schemas: " in link.text(), "a look that fails")
            time.sleep(WAITS_S)
            reader.wait([JOHN] * 3, [JANE])
        toy.target.troubles.clear()
        run([JOHN] * 3, [JANE, {**JANE, "qux": "x"}])
        origin.wait([JOHN] * 3, [JANE, {**JANE, "qux": "x"}])
        assert reader.seen == origin.seen


def test_topics_of_one_name_at_both_sides_are_mirrored_both_ways(toy: Toy) -> None:
    """Given the same topic and the same id at both sides, for different schemas / when links of

    one file mirror both ways / then each side decodes the other's records, and nothing comes back.
    """
    name = toy.foo
    toy.target.double = with_own(5)
    both_ways(toy, name, "isolate")
    east, west = toy.pair.source, toy.pair.target
    for each in (east, west):
        create_topic(each, name)
    with (
        RunningLink(toy.config) as links,
        AvroReader(west.bootstrap, f"{toy.target.url}/contexts/.east", f"east.{name}") as in_west,
        AvroReader(east.bootstrap, f"{toy.source.url}/contexts/.west", f"west.{name}") as in_east,
        AvroWriter(east.bootstrap, toy.source.url, foo()) as of_east,
        AvroWriter(west.bootstrap, toy.target.url, foo("qux")) as of_west,
    ):
        of_east.write(name, JOHN, JOHN, JOHN)
        of_west.write(name, {**JANE, "qux": "x"})
        in_west.wait([JOHN] * 3)
        in_east.wait([{**JANE, "qux": "x"}])
        wait_turns(toy.config)
        in_west.wait([JOHN] * 3)
        in_east.wait([{**JANE, "qux": "x"}])
        assert links.stop() == 0, links.text()
    assert in_west.seen[0, 0].schema_id == in_east.seen[0, 0].schema_id == 6
    assert topics_of(east, name) == {name: 1, f"west.{name}": 1}
    assert topics_of(west, name) == {name: 1, f"east.{name}": 1}
    own = f"{name}-value"
    assert subjects(toy.source, name) == {own, f":.west:{own}", f":.west:west.{own}"}
    assert subjects(toy.target, name) == {own, f":.east:{own}", f":.east:east.{own}"}


def test_schemas_that_are_preserved_both_ways_do_not_come_back(toy: Toy) -> None:
    """Given ids that don't collide, and one link that looks at topics rarely / when topics appear

    / then each side decodes the other's records, and no subject of a mirror is mirrored.
    """
    name = toy.foo
    mine, theirs = f"{name}.mine", f"{name}.theirs"
    toy.target.double.set_mode("own-value", "IMPORT", force=True)
    toy.target.double.register("own-value", {"schema": '"int"', "id": 1000, "version": 1})
    both_ways(toy, name, "preserve", back_every_s=5.0)
    east, west = toy.pair.source, toy.pair.target
    create_topic(west, theirs)
    with (
        RunningLink(toy.config) as links,
        AvroReader(west.bootstrap, toy.target.url, f"east.{mine}") as in_west,
        AvroReader(east.bootstrap, toy.source.url, f"west.{theirs}") as in_east,
        AvroWriter(east.bootstrap, toy.source.url, foo()) as of_east,
        AvroWriter(west.bootstrap, toy.target.url, foo("qux")) as of_west,
    ):
        of_west.write(theirs, {**JANE, "qux": "x"})
        in_east.wait([{**JANE, "qux": "x"}])
        create_topic(east, mine)
        of_east.write(mine, JOHN, JOHN, JOHN)
        in_west.wait([JOHN] * 3)
        wait_turns(toy.config)
        assert links.stop() == 0, links.text()
    assert topics_of(east, name) == {mine: 1, f"west.{theirs}": 1}
    assert topics_of(west, name) == {theirs: 1, f"east.{mine}": 1}
    values = {f"{mine}-value", f"{theirs}-value"}
    assert subjects(toy.source, name) == {*values, f"west.{theirs}-value"}
    assert subjects(toy.target, name) == {*values, f"east.{mine}-value"}
