"""A link mirrors schemas before the records that need them (I8).

The registries are doubles with Confluent's rules behind real HTTP: Apicurio, the real one of these
tests, takes no ids, which preserve and isolate need (docs/adr/0021). The links run in one process.
"""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import pytest
from kafka import TopicPartition as KafkaPartition
from support.clusters import ClusterPair, create_topic, until
from support.command import heliostat, said
from support.consumers import open_consumer
from support.links import ends
from support.provoked import Provoked
from support.records import GZIP, NONE, Sample, encode, write_batches
from support.registry_contract import record
from support.registry_double import RegistryDouble, RegistryRefusal
from support.registry_server import Asked, RegistryServer, Reply
from support.toy import Tour, Toy, with_own

from heliostat.cli.exit_codes import HALTED
from heliostat.schemas.registry.values import Schema

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.thorough]

AT_MS = int(time.time() * 1000)
UNREADABLE = "SCHEMA_UNREADABLE"
DOWN = Reply(503, b'{"error_code": 50301, "message": "down for maintenance"}')
TROUBLES = (
    DOWN,
    Reply(500, b'{"error_code": 50001, "message": "no"}'),
    Reply(429, b"{}", {"Retry-After": "1"}),
    Reply(200, b"<html>garbage</html>"),
    Reply(401, b'{"error_code": 401, "message": "expired"}'),
    Reply(None),
)


@pytest.fixture(scope="module")
def tour(cluster_pair: ClusterPair, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tour]:
    """Give a link that looks at its registries each second, and one that does once an hour."""
    with Tour(cluster_pair, tmp_path_factory.mktemp("tour")) as made:
        for name, interval_s in (("often", 1), ("rarely", 3600)):
            source, target = made.serve(with_own(5)), made.serve(RegistryDouble())
            made.add(name, source, target, interval_s=interval_s)
        yield made


def framed(schema_id: int, number: int = 0) -> bytes:
    """A value as Confluent's serializers write it."""
    return b"\x00" + schema_id.to_bytes(4, "big") + b"payload %d" % number


def register(server: RegistryServer, subject: str, schema: Schema) -> int:
    """Register a schema; return its id."""
    number: int = server.double.register(subject, {"schema": schema.text})["id"]
    return number


def next_id(server: RegistryServer) -> int:
    """The id that its next schema gets."""
    return server.double.contexts["."].id_max + 1


def has(server: RegistryServer, schema_id: int, schema: Schema) -> bool:
    """Whether a registry gives a schema for an id."""
    try:
        return bool(server.double.by_id(schema_id, None)["schema"] == schema.text)
    except RegistryRefusal:
        return False


class Mirror:
    """A topic of two partitions of a link's."""

    def __init__(self, toy: Toy) -> None:
        self.toy, self.config = toy, toy.config
        self.source, self.target = toy.source, toy.target
        self.topic = create_topic(toy.pair.source, toy.foo, partitions=2)

    @property
    def subject(self) -> str:
        return f"{self.topic}-value"

    def write(self, partition: int, *values: bytes | None, codec: int = NONE) -> None:
        """Write one batch."""
        batch = encode([Sample(b"\x00key!", value, AT_MS) for value in values], codec)
        cluster = self.toy.pair.source.bootstrap.split(",")
        write_batches(cluster, self.topic, [batch], partition=partition)

    def ends(self) -> list[int]:
        return [
            int(end) for end in ends(self.toy.pair.target.bootstrap, {self.topic: 2})[self.topic]
        ]

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
        consumer = open_consumer(self.toy.pair.target.bootstrap)
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
    tour: Tour, provoked: Provoked
) -> None:
    """Given framed records, compressed ones and nulls / when some have an id that no registry has /

    then these wait, and say why, and the others arrive, bytes unchanged; once the schema is
    registered they go on by themselves.
    """
    mirror = Mirror(tour.toy("often"))
    schema, later = record(), record()
    known = register(mirror.source, mirror.subject, schema)
    unknown = known + 1
    mirror.write(0, framed(known), None, b"", b"\x00abc", framed(known, 1))
    mirror.write(1, framed(known, 2), codec=GZIP)
    mirror.wait(5, 1)
    assert has(mirror.target, known, schema)
    mirror.write(0, framed(unknown), codec=GZIP)
    mirror.write(0, framed(known, 3))
    state, reason = mirror.unreadable(0, 5)
    assert state == "retrying"
    assert reason.startswith(f"source offset 5: schema id {unknown} can't be read")
    (status,) = said(mirror.config, "status")
    provoked(UNREADABLE, status["problems"][0])
    mirror.write(1, framed(known, 4))
    mirror.wait(5, 2)
    assert register(mirror.source, mirror.subject, later) == unknown
    mirror.wait(7, 2)
    assert has(mirror.target, unknown, later)
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


def test_values_that_only_look_framed_pass(tour: Tour) -> None:
    """Given a topic without subjects / when values begin like frames, with ids of no registry /

    then they arrive; a value with an id that the source has waits until the target has it.
    """
    mirror = Mirror(tour.toy("often"))
    schema = record()
    own = register(mirror.source, "lsst.sal.Record", schema)
    mirror.write(0, framed(9_999_999), framed(own))
    mirror.wait(2, 0)
    assert has(mirror.target, own, schema)


def test_foreign_content_under_an_id_stops_its_records_only(tour: Tour) -> None:
    """Given a target where an id means something else / then records with it wait, and `schemas`

    says why; records with other ids go on, and those that wait once the id is free.
    """
    mirror = Mirror(tour.toy("often"))
    taken, foreign = next_id(mirror.source), "foreign-value"
    mirror.target.double.set_mode(foreign, "IMPORT", force=True)
    body = {"schema": record().text, "id": taken, "version": 1}
    mirror.target.double.register(foreign, body)
    assert register(mirror.source, mirror.subject, record()) == taken
    free = register(mirror.source, f"{mirror.topic}-lsst.sal.Free", record())
    mirror.write(0, framed(taken))
    mirror.write(1, framed(free))
    mirror.wait(0, 1)
    mirror.unreadable(0, 0)
    answer = heliostat(mirror.config, "schemas", "status")
    assert answer.returncode == 1
    assert "id_taken" in answer.stdout
    assert mirror.ends() == [0, 1]
    for permanent in (False, True):
        mirror.target.double.delete_subject(foreign, permanent=permanent)
    mirror.wait(1, 1)


def test_subjects_are_open_to_the_targets_producers_until_they_are_closed(tour: Tour) -> None:
    """Given a mirrored subject / when it is opened / then producers register at the target, and a

    new version of the source waits, though the link runs; known ids go on. Closed, it arrives.
    """
    mirror = Mirror(tour.toy("often"))
    known = register(mirror.source, mirror.subject, record())
    mirror.write(0, framed(known))
    mirror.wait(1, 0)
    with pytest.raises(RegistryRefusal, match="not in read-write mode"):
        register(mirror.target, mirror.subject, record())
    wanted = {"scope": mirror.subject, "was": "IMPORT", "now": "READWRITE"}
    assert wanted in said(mirror.config, "schemas", "open", "--dry-run")["changed"]
    opened = heliostat(mirror.config, "schemas", "open", mirror.toy.link)
    assert opened.returncode == 0, opened.said
    later = register(mirror.source, mirror.subject, record())
    mirror.write(0, framed(later))
    mirror.write(1, framed(known, 1))
    mirror.unreadable(0, 1)
    mirror.wait(1, 1)
    assert "open: " in heliostat(mirror.config, "schemas", "status").stdout
    assert mirror.target.double.mode(mirror.subject, inherited=True) == "READWRITE"
    closed = heliostat(mirror.config, "schemas", "close", mirror.toy.link)
    assert closed.returncode == 0, closed.said
    mirror.wait(2, 1)


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
        consumer = open_consumer(self._mirror.toy.pair.target.bootstrap)
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


@pytest.mark.parametrize("side", ["source", "target"])
def test_troubles_of_registries_delay_new_schemas_only(tour: Tour, side: str) -> None:
    """Given a registry that is down, refuses, answers garbage or cuts answers / when new schemas

    and records come / then records with known ids go on, those with new ones wait and go on by
    themselves, and none is ever visible before its schema.
    """
    mirror = Mirror(tour.toy("often"))
    known = register(mirror.source, mirror.subject, record())
    mirror.write(0, framed(known))
    mirror.wait(1, 0)
    schema, troubles = record(), itertools.cycle(TROUBLES)
    troubled: RegistryServer = getattr(mirror, side)
    with Reader(mirror, mirror.target.double) as reader:
        troubled.troubles.append(lambda _: next(troubles))
        try:
            new = register(mirror.source, mirror.subject, schema)
            mirror.write(1, framed(new))
            mirror.unreadable(1, 0)
            mirror.write(0, framed(known, 1))
            mirror.wait(2, 0)
            until(lambda: "schemas: " in tour.text(), "the log")
        finally:
            troubled.troubles.clear()
        mirror.wait(2, 1)
        assert has(mirror.target, new, schema)
        until(lambda: reader.looks == 3, lambda: f"three records, seen {reader.looks}")
    assert reader.early == []


def test_a_target_that_is_read_only_or_restored_gets_its_schemas_in_the_end(tour: Tour) -> None:
    """Given a target registry that is read-only / then new schemas wait until it is not; one that

    was deleted at the source arrives as well, and what an older backup lacks is brought again.
    """
    mirror = Mirror(tour.toy("often"))
    schema, target = record(), mirror.target
    first = register(mirror.source, mirror.subject, schema)
    mirror.write(0, framed(first))
    mirror.wait(1, 0)
    target.double.set_mode(None, "READONLY", force=True)
    fresh = f"{mirror.topic}-lsst.sal.Fresh"
    deleted = register(mirror.source, fresh, record())
    mirror.source.double.delete_version(fresh, "1", permanent=False)
    mirror.write(0, framed(deleted))
    mirror.unreadable(0, 1)
    assert heliostat(mirror.config, "schemas", "status").returncode == 1
    target.double.set_mode(None, "READWRITE", force=True)
    mirror.wait(2, 0)
    target.double = RegistryDouble()
    until(lambda: has(target, first, schema), "what the backup lacks")


def test_schemas_are_not_asked_for_record_by_record(tour: Tour) -> None:
    """Given a link whose ids are known / when records come / then no registry is asked for them."""
    mirror = Mirror(tour.toy("rarely"))
    known = register(mirror.source, mirror.subject, record())
    mirror.write(0, framed(known))
    mirror.wait(1, 0)
    before = _asked(mirror, known)
    for number in range(1, 6):
        mirror.write(0, framed(known, number))
        mirror.wait(1 + number, 0)
    assert _asked(mirror, known) == before


def _asked(mirror: Mirror, known: int) -> list[list[Asked]]:
    """Return the requests about this id and subject; all of them are listed now and then."""
    about = f"/ids/{known}", f"/{mirror.subject}/"
    servers = mirror.source, mirror.target
    return [
        [asked for asked in server.asked if any(part in asked.target for part in about)]
        for server in servers
    ]


def test_plan_and_status_tell_of_schemas(tour: Tour, tmp_path: Path) -> None:
    """Given a link that has never run, and one that runs / then each says what is missing."""
    mirror = Mirror(tour.toy("often"))
    unstarted = Toy(mirror.toy.pair, mirror.source, mirror.target, tmp_path / "heliostat.yaml")
    unstarted.configure()
    create_topic(unstarted.pair.source, unstarted.foo)
    missing = f"{unstarted.foo}-value"
    lacks = register(mirror.source, missing, record())
    before = heliostat(unstarted.config, "plan")
    assert before.returncode == 1
    assert f"+ {missing} version 1 id {lacks}" in before.stdout
    known = register(mirror.source, mirror.subject, record())
    mirror.write(0, framed(known))
    mirror.wait(1, 0)
    until(lambda: _driver(mirror).get("ids", 0) >= 1, lambda: json.dumps(_driver(mirror)))
    assert _driver(mirror)["unresolved"] == {}
    (plan,) = said(mirror.config, "plan")
    assert plan["schemas"]["in_sync"]
    assert heliostat(mirror.config, "plan").returncode == 0
    mirror.target.troubles.append(lambda _: DOWN)
    try:
        assert heliostat(mirror.config, "plan").returncode == HALTED
    finally:
        mirror.target.troubles.clear()
    (mapped,) = said(mirror.config, "schemas", "map")
    assert mapped["ids"][str(known)] == known


def _driver(mirror: Mirror) -> dict[str, Any]:
    (status,) = said(mirror.config, "status")
    found: dict[str, Any] = status["driver"]["schemas"]
    return found
