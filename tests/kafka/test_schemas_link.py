"""A link mirrors schemas before the records that need them (I8).

The registries are doubles with Confluent's rules behind real HTTP: Apicurio, the real one of these
tests, takes no ids, which preserve and isolate need (docs/adr/0021).
"""

from __future__ import annotations

import functools
import json
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import pytest
import yaml
from kafka import TopicPartition as KafkaPartition
from support.clusters import ClusterPair, create_topic, fresh_name, until
from support.command import heliostat, said
from support.consumers import open_consumer
from support.links import RunningLink, ends, write_config
from support.provoked import Provoked
from support.records import GZIP, NONE, Sample, encode, write_batches
from support.registry_contract import record
from support.registry_double import RegistryDouble
from support.registry_server import Asked, RegistryServer, Reply, answer

from heliostat.access import RegistryAccess
from heliostat.cli.exit_codes import HALTED
from heliostat.errors import RegistryError
from heliostat.names import TopicName
from heliostat.schemas import HttpRegistry
from heliostat.schemas.registry import Retries, calls
from heliostat.schemas.registry.values import Context, Schema, SchemaId, Subject

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.thorough]

AT_MS = int(time.time() * 1000)
UNREADABLE = "SCHEMA_UNREADABLE"
WAITS_S = 3.0
"""How long a record must stay away: lanes try again within this."""
DOWN = Reply(503, b'{"error_code": 50301, "message": "down for maintenance"}')


def framed(schema_id: int, number: int = 0) -> bytes:
    """A value as Confluent's serializers write it."""
    return b"\x00" + schema_id.to_bytes(4, "big") + b"payload %d" % number


@dataclass
class Registries:
    """A registry at each side."""

    source: RegistryServer
    target: RegistryServer

    def __enter__(self) -> Self:
        self._open = ExitStack()
        self._open.enter_context(self.source)
        self._open.enter_context(self.target)
        self._asks = [
            self._open.enter_context(
                HttpRegistry(RegistryAccess((each.url,)), retries=Retries(turns=1))
            )
            for each in (self.source, self.target)
        ]
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def register(self, subject: str, schema: Schema, *, at_target: bool = False) -> SchemaId:
        return self._asks[at_target].ask(calls.register(Subject(subject), schema))

    def fill_target(self, count: int) -> list[SchemaId]:
        """Register schemas of the target's own; return their ids."""
        return [
            self.register(f"own-{number}-value", record(), at_target=True)
            for number in range(count)
        ]

    def has(self, schema_id: SchemaId, schema: Schema, context: str = ".") -> bool:
        """Whether the target gives a schema for an id."""
        try:
            found = self._asks[1].ask(calls.schema_by_id(schema_id, Context(context)))
        except RegistryError:
            return False
        return found.text == schema.text


@pytest.fixture
def registries() -> Iterator[Registries]:
    with Registries(RegistryServer(RegistryDouble()), RegistryServer(RegistryDouble())) as both:
        for number in range(5):  # so that ids of both sides differ in meaning
            both.register(f"other-{number}-value", record())
        yield both


class Mirror:
    """A topic of two partitions and a link of its own that mirrors its schemas."""

    def __init__(
        self, pair: ClusterPair, registries: Registries, folder: Path, **schemas: Any
    ) -> None:
        self.pair, self.registries = pair, registries
        self.topic = create_topic(pair.source, fresh_name("framed"), partitions=2)
        self.config = write_config(
            folder,
            pair.source.bootstrap,
            pair.target.bootstrap,
            name=fresh_name("link"),
            topics={"include": [self.topic], "refresh_interval_s": 0.5},
            schemas={"strategy": "preserve", "interval_s": 1, **schemas},
            registries=(registries.source.url, registries.target.url),
        )

    @property
    def subject(self) -> str:
        return f"{self.topic}-value"

    def write(self, partition: int, *values: bytes | None, codec: int = NONE) -> None:
        """Write one batch."""
        batch = encode([Sample(b"\x00key!", value, AT_MS) for value in values], codec)
        cluster = self.pair.source.bootstrap.split(",")
        write_batches(cluster, self.topic, [batch], partition=partition)

    def ends(self) -> list[int]:
        return [int(end) for end in ends(self.pair.target.bootstrap, {self.topic: 2})[self.topic]]

    def wait(self, *expected: int) -> None:
        until(lambda: self.ends() == [*expected], lambda: f"{expected}, there is {self.ends()}")

    def problems(self) -> dict[int, tuple[str, str, str]]:
        """State, code and reason of partitions with problems."""
        (status,) = said(self.config, "status")
        return {
            row["partition"]: (row["state"], row["code"], row["reason"])
            for row in status["problems"]
        }

    def unreadable(self, partition: int, offset: int) -> tuple[str, str]:
        """Wait until the schema of this source offset is what it waits for: state and reason.

        A status that was made before may still tell of an earlier record, which has arrived since.
        """
        found: list[tuple[str, str]] = []

        def is_told() -> bool:
            state, code, reason = self.problems().get(partition, ("", "", ""))
            found[:] = [(state, reason)]
            return code == UNREADABLE and reason.startswith(f"source offset {offset}:")

        until(is_told, lambda: f"the reason, there is {found}")
        return found[0]

    def values(self) -> list[bytes | None]:
        """What a consumer of the target reads."""
        consumer = open_consumer(self.pair.target.bootstrap)
        try:
            places = [KafkaPartition(self.topic, number) for number in range(2)]
            consumer.assign(places)
            consumer.seek_to_beginning(*places)
            left = sum(consumer.end_offsets(places).values())
            found: list[bytes | None] = []
            while len(found) < left:
                for rows in consumer.poll(timeout_ms=500).values():
                    found += [row.value for row in rows]
            return found
        finally:
            consumer.close()


@pytest.mark.provokes("SCHEMA_UNREADABLE")
def test_schemas_arrive_with_their_ids_and_before_their_records(
    cluster_pair: ClusterPair, registries: Registries, tmp_path: Path, provoked: Provoked
) -> None:
    """Given framed records, compressed ones and nulls / when some have an id that no registry has /

    then these wait, and say why, and the others arrive, bytes unchanged; once the schema is
    registered they go on by themselves.
    """
    mirror = Mirror(cluster_pair, registries, tmp_path)
    schema, later = record(), record()
    known = registries.register(mirror.subject, schema)
    unknown = SchemaId(known + 1)
    mirror.write(0, framed(known), None, b"", b"\x00abc", framed(known, 1))
    mirror.write(1, framed(known, 2), codec=GZIP)
    with RunningLink(mirror.config):
        mirror.wait(5, 1)
        assert registries.has(known, schema)
        mirror.write(0, framed(unknown), codec=GZIP)
        mirror.write(0, framed(known, 3))
        mirror.write(1, framed(known, 4))
        mirror.wait(5, 2)
        state, reason = mirror.unreadable(0, 5)
        assert state == "retrying"
        assert reason.startswith(f"source offset 5: schema id {unknown} can't be read")
        (status,) = said(mirror.config, "status")
        provoked(UNREADABLE, status["problems"][0])
        time.sleep(WAITS_S)
        assert mirror.ends() == [5, 2]
        assert registries.register(mirror.subject, later) == unknown
        mirror.wait(7, 2)
        assert registries.has(unknown, later)
        until(lambda: not mirror.problems(), "no problems")
    assert sorted(mirror.values(), key=str) == sorted(
        [
            *(framed(known, number) for number in range(5)),
            framed(unknown),
            None,
            b"",
            b"\x00abc",
        ],
        key=str,
    )
    assert heliostat(mirror.config, "schemas", "status").returncode == 0
    (verified,) = said(mirror.config, "schemas", "verify")
    assert (verified["differences"], verified["missing"]) == ([], [])
    assert verified["ids"] >= 2


def test_values_that_only_look_framed_pass(
    cluster_pair: ClusterPair, registries: Registries, tmp_path: Path
) -> None:
    """Given a topic without subjects / when values begin like frames, with ids of no registry /

    then they arrive; a value with an id that the source has waits until the target has it.
    """
    mirror = Mirror(cluster_pair, registries, tmp_path)
    schema = record()
    own = registries.register("lsst.sal.Record", schema)
    mirror.write(0, framed(9_999_999), framed(own))
    with RunningLink(mirror.config):
        mirror.wait(2, 0)
        assert registries.has(own, schema)


def test_a_renamed_topic_has_renamed_subjects_in_a_context_of_its_own(
    cluster_pair: ClusterPair, registries: Registries, tmp_path: Path
) -> None:
    """Given a target with other schemas under the same ids / when schemas are isolated under a

    prefix / then each id means the same in the source's context, and nothing else changes.
    """
    others = registries.fill_target(9)
    mirror = Mirror(cluster_pair, registries, tmp_path, strategy="isolate", context=".summit")
    config = yaml.safe_load(mirror.config.read_text())
    config["links"][0]["topics"]["naming"] = {"prefix": "summit."}
    mirror.config.write_text(yaml.safe_dump(config))
    schema = record()
    known = registries.register(mirror.subject, schema)
    assert known in others
    mirror.write(0, framed(known))
    mirror.topic = TopicName(f"summit.{mirror.topic}")
    with RunningLink(mirror.config):
        mirror.wait(1, 0)
    assert registries.has(known, schema, ".summit")
    assert not registries.has(known, schema)
    (told,) = said(mirror.config, "schemas", "status")
    names = {name for each in told["versions"] for name in each["target_subjects"]}
    assert f":.summit:{mirror.topic}-value" in names


def test_foreign_content_under_an_id_stops_its_records_only(
    cluster_pair: ClusterPair, registries: Registries, tmp_path: Path
) -> None:
    """Given a target where an id means something else / then records with it wait, and `schemas`

    says why; records with other ids go on.
    """
    mirror = Mirror(cluster_pair, registries, tmp_path)
    taken = registries.register(mirror.subject, record())
    foreign = registries.fill_target(taken)
    assert taken in foreign
    free = registries.register(f"{mirror.topic}-lsst.sal.Free", record())
    assert free not in foreign
    mirror.write(0, framed(taken))
    mirror.write(1, framed(free))
    with RunningLink(mirror.config):
        mirror.wait(0, 1)
        mirror.unreadable(0, 0)
        answer = heliostat(mirror.config, "schemas", "status")
        assert answer.returncode == 1
        assert "id_taken" in answer.stdout
        assert mirror.ends() == [0, 1]


class Reader:
    """Looks all the time whether all ids of visible records can be read at the target."""

    def __init__(self, mirror: Mirror, double: RegistryDouble) -> None:
        self._mirror, self._double = mirror, double
        self._ended = threading.Event()
        self.early: list[int] = []
        self.looks = 0
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        consumer = open_consumer(self._mirror.pair.target.bootstrap)
        places = [KafkaPartition(self._mirror.topic, number) for number in range(2)]
        consumer.assign(places)
        consumer.seek_to_beginning(*places)
        while not self._ended.is_set():
            for rows in consumer.poll(timeout_ms=50).values():
                for row in rows:
                    schema_id = int.from_bytes(row.value[1:5], "big")
                    self.looks += 1
                    try:
                        self._double.by_id(schema_id, None)
                    except Exception:  # noqa: BLE001  # the double's refusal: it is not there
                        self.early.append(schema_id)
        consumer.close()


def test_troubles_of_registries_delay_new_schemas_only(
    cluster_pair: ClusterPair, registries: Registries, tmp_path: Path
) -> None:
    """Given registries that are down, refuse, answer garbage or cut answers / when new schemas and

    records come / then records with known ids go on, those with new ones wait and go on by
    themselves, and none is ever visible before its schema.
    """
    mirror = Mirror(cluster_pair, registries, tmp_path)
    known = registries.register(mirror.subject, record())
    mirror.write(0, framed(known))
    count = [1, 0]
    troubles: tuple[Reply, ...] = (
        DOWN,
        Reply(500, b'{"error_code": 50001, "message": "no"}'),
        Reply(429, b"{}", {"Retry-After": "1"}),
        Reply(200, b"<html>garbage</html>"),
        Reply(401, b'{"error_code": 401, "message": "expired"}'),
        Reply(None),
    )
    with RunningLink(mirror.config) as running:
        mirror.wait(*count)
        with Reader(mirror, registries.target.double) as reader:
            for number, trouble in enumerate(troubles):
                side = registries.target if number % 2 else registries.source
                schema = record()
                new = registries.register(mirror.subject, schema)
                side.troubles.append(functools.partial(_always, trouble))
                mirror.write(1, framed(new, number))
                mirror.write(0, framed(known, number))
                count[0] += 1
                mirror.wait(*count)
                mirror.unreadable(1, count[1])
                until(lambda: "schemas: " in running.text(), "the log")
                side.troubles.clear()
                count[1] += 1
                mirror.wait(*count)
                assert registries.has(new, schema)
    assert reader.early == []
    assert reader.looks == sum(count)


def test_a_target_that_is_read_only_slow_or_restored_gets_its_schemas_in_the_end(
    cluster_pair: ClusterPair, registries: Registries, tmp_path: Path
) -> None:
    """Given a target registry that is read-only / then new schemas wait until it is not; one that

    was deleted at the source arrives as well; with slow answers all takes longer, and what an older
    backup lacks is brought again.
    """
    mirror = Mirror(cluster_pair, registries, tmp_path)
    first = registries.register(mirror.subject, record())
    mirror.write(0, framed(first))
    target = registries.target
    with RunningLink(mirror.config):
        mirror.wait(1, 0)
        target.double.set_mode(None, "READONLY", force=True)
        fresh = f"{mirror.topic}-lsst.sal.Fresh"
        deleted = registries.register(fresh, record())
        registries.source.double.delete_version(fresh, "1", permanent=False)
        mirror.write(0, framed(deleted))
        mirror.unreadable(0, 1)
        assert heliostat(mirror.config, "schemas", "status").returncode == 1
        target.double.set_mode(None, "READWRITE", force=True)
        mirror.wait(2, 0)
        target.troubles.append(functools.partial(_slowly, target))
        schema = record()
        slow = registries.register(mirror.subject, schema)
        mirror.write(0, framed(slow))
        mirror.wait(3, 0)
        target.troubles.clear()
        target.double = RegistryDouble()
        until(lambda: registries.has(slow, schema), "what the backup lacks")


def _slowly(server: RegistryServer, asked: Asked) -> Reply:
    return replace(answer(server.double, asked), silence_s=0.3)


def test_schemas_are_not_asked_for_record_by_record(
    cluster_pair: ClusterPair, registries: Registries, tmp_path: Path
) -> None:
    """Given a link whose ids are known / when records come / then no registry is asked for them."""
    mirror = Mirror(cluster_pair, registries, tmp_path, interval_s=3600)
    known = registries.register(mirror.subject, record())
    mirror.write(0, framed(known))
    with RunningLink(mirror.config):
        mirror.wait(1, 0)
        before = _asked(registries.source), _asked(registries.target)
        for number in range(20):
            mirror.write(0, framed(known, number))
        mirror.wait(21, 0)
        assert (_asked(registries.source), _asked(registries.target)) == before


def _always(reply: Reply, _: Asked) -> Reply:
    return reply


def _asked(server: RegistryServer) -> list[Asked]:
    return list(server.asked)


def test_plan_and_status_tell_of_schemas(
    cluster_pair: ClusterPair, registries: Registries, tmp_path: Path
) -> None:
    mirror = Mirror(cluster_pair, registries, tmp_path)
    known = registries.register(mirror.subject, record())
    mirror.write(0, framed(known))
    before = heliostat(mirror.config, "plan")
    assert before.returncode == 1
    assert f"+ {mirror.subject} version 1 id {known}" in before.stdout
    with RunningLink(mirror.config):
        mirror.wait(1, 0)
        until(lambda: _driver(mirror).get("ids", 0) >= 1, lambda: json.dumps(_driver(mirror)))
    assert _driver(mirror)["unresolved"] == {}
    (plan,) = said(mirror.config, "plan")
    assert plan["schemas"]["in_sync"]
    assert heliostat(mirror.config, "plan").returncode == 0
    registries.target.troubles.append(functools.partial(_always, DOWN))
    assert heliostat(mirror.config, "plan").returncode == HALTED
    registries.target.troubles.clear()
    (mapped,) = said(mirror.config, "schemas", "map")
    assert mapped["ids"][str(known)] == known


def _driver(mirror: Mirror) -> dict[str, Any]:
    (status,) = said(mirror.config, "status")
    found: dict[str, Any] = status["driver"]["schemas"]
    return found
