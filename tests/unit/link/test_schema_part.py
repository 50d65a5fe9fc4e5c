"""The loop of a running link that mirrors schemas, between two registries over HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from copy import deepcopy
from typing import Any

import pytest
from support.registry_server import Asked, RegistryServer, Reply
from support.schema_turns import AT_MS, BAR, FOO, Running
from unit.link.test_wanted_ids import report

from heliostat.errors import ConnectionLost, LinkTakenOver, RegistryError, RegistryUnreachable
from heliostat.framed_ids import guid_number
from heliostat.link.schema_part import REPORTED_MAX, WAITING_EVERY_S
from heliostat.names import LaneId, TopicName
from heliostat.ops.request_times import SIDE_NUMBERS
from heliostat.records.copier.lane import SchemaFrames, SchemaIds
from heliostat.records.transport.schema_id_rows import schema_ids_of

MANY = 25
DENIED = Reply(401, b'{"error_code":401,"message":"expired"}')


@pytest.fixture
def servers() -> Iterator[tuple[RegistryServer, RegistryServer]]:
    with RegistryServer() as source, RegistryServer() as target:
        yield source, target


@pytest.fixture
def running(servers: tuple[RegistryServer, RegistryServer]) -> Iterator[Running]:
    made = Running(*servers)
    yield made
    made.part.close()


def ids(*readable: int, foreign: tuple[int, ...] = ()) -> SchemaIds:
    """What is announced of single ids, none of which follows another."""
    return SchemaIds(
        tuple((each, each) for each in readable), tuple((each, each) for each in foreign)
    )


def writes(server: RegistryServer) -> list[str]:
    return [each.target for each in server.asked if each.method != "GET"]


def test_before_the_first_reconciliation_a_turn_does_nothing(running: Running) -> None:
    """Given a source whose topics are not known / then no subject can be told from another topic's,

    so that nothing is asked or announced, and values that look framed are held.
    """
    running.topics = None
    running.register("foo-value")
    running.turn()
    assert running.told == []
    assert running.source.asked == running.target.asked == []
    told = running.part.report()
    assert {**told, "waits": []} == {
        "strategy": "preserve",
        "waiting": [],
        "waits": [],
        "copied": 0,
    }
    assert running.part.frames(FOO) == SchemaFrames.MAYBE_VALUES
    running.look_if_new()
    assert running.is_asked


def test_the_first_turn_after_it_announces_what_can_be_read(running: Running) -> None:
    """Given subjects of a mirrored topic and of another / then the former's ids are announced."""
    own = running.register("foo-value")
    running.register("bar-value")
    record_name = running.register("lsst.sal.Foo")
    running.turn()
    assert running.told == [ids(own, record_name)]
    assert running.part.report()["copied"] == 2
    assert set(running.target.double.subjects) == {"foo-value", "lsst.sal.Foo"}
    assert running.part.frames(FOO) == SchemaFrames.VALUES
    assert running.part.frames(BAR) == SchemaFrames.MAYBE_VALUES


def test_subjects_of_a_topic_that_has_just_appeared_are_left(running: Running) -> None:
    """Given a topic that came since the last look, maybe a mirror of the other way / then its

    subjects are not taken for records' names; the source is asked where none tells whose they are.
    """
    new, gone = TopicName("east.new"), TopicName("gone")
    running.appeared = frozenset({new})
    for subject in ("foo-value", "bar-value", "lsst.sal.Foo"):
        running.register(subject)
    running.turn()
    assert running.looks == []
    before = set(running.target.double.subjects)
    running.register("east.new-value")
    running.register("gone-value")
    running.turn()
    assert running.looks == [{new, gone}]
    assert set(running.target.double.subjects) - before == {"gone-value"}
    running.topics = frozenset({FOO, BAR, new})
    running.turn()
    assert running.looks[1:] == [{gone}]
    running.mirrors[new] = TopicName("s.new")
    running.turn()
    assert "s.new-value" in running.target.double.subjects


def test_each_turn_announces_again(running: Running) -> None:
    """Given an announcement that somebody may have deleted / then the next turn repeats it."""
    running.register("foo-value")
    for _ in range(2):
        running.turn()
    assert running.told == [ids(1), ids(1)]
    assert running.part.registries == running.registries


def test_an_id_that_the_source_lacks_is_foreign_until_it_is_registered(running: Running) -> None:
    """Given a value that looks framed / when no schema has its id / then it may pass where values

    may be anything; once there is one, it counts as any other.
    """
    running.register("foo-value")
    running.part.wants(report(0, 7))
    assert running.is_asked
    running.turn()
    assert running.told[-1] == ids(1)  # lanes do not know yet that foo's values are framed
    assert running.reframed == [running.part.framing()]
    running.part.wants(report(0, 7))
    running.turn()
    assert running.told[-1] == ids(1)
    running.look_if_new()
    running.lanes_told[LaneId(0)] = 3
    running.part.wants(report(0, 7, plan=2))
    running.turn()
    assert running.told[-1] == ids(1)
    running.loop.wake.clear()
    running.part.wants(report(0, 7, plan=3))
    assert running.is_asked
    running.turn()
    assert running.told[-1] == ids(1, foreign=(7,))
    running.turn()
    assert running.told[-1] == ids(1, foreign=(7,))
    running.source.double.contexts["."].id_max = 6
    assert running.register("foo-lsst.sal.Foo") == 7
    running.turn()
    assert running.told[-1] == ids(1, 7)


def test_guids_are_announced_once_lanes_wait_for_them(running: Running) -> None:
    """Given a header with a GUID / when its schema is at the target / then it is told by what it is

    known by; one that the source lacks is foreign, and where the source's registry gives no GUIDs
    none is waited for.
    """
    running.register("foo-value")
    content = running.source.double.subjects["foo-value"][1].content
    own, unknown = guid_number(content.guid().bytes), guid_number(b"\7" * 16)
    header = [("__value_schema_id", b"\1" + content.guid().bytes)]
    other = [("__value_schema_id", b"\1" + b"\7" * 16)]
    running.turn()
    assert running.told[-1] == ids(1)
    running.look_if_new()
    running.part.wants(report(0, own, unknown, plan=3))
    assert running.is_asked
    running.turn()
    assert running.told[-1] == schema_ids_of([(1, 1)], (unknown,), [(content.guid().bytes,) * 2])
    assert running.part.is_readable(own)
    assert running.part.missing_id(FOO, None, b"\0\0\0\0\7", header) is None
    assert running.part.missing_id(FOO, None, None, other) == unknown
    assert running.part.missing_id(BAR, None, None, other) is None
    assert running.part.report()["waiting"][0].startswith("GUID ")
    running.source.double.gives_guids = False
    running.turn()
    assert running.told[-1] == schema_ids_of([(1, 1), (own, own), (unknown, unknown)], ())


def test_an_id_that_the_source_has_and_the_target_refuses_is_not_foreign(running: Running) -> None:
    """Given ids that mean something else at the target, or are not mirrored / then records with

    them wait: nobody could read them.
    """
    refused = running.register("foo-value")
    assert running.register("local-value", at_target=True) == refused
    left = running.register("bar-value")
    for _ in range(3):  # in the last one lanes miss them that know how values are framed
        running.part.wants(report(0, refused, left))
        running.turn()
        running.look_if_new()
    assert not any(each.foreign for each in running.told)
    assert running.part.report()["waiting"] == [refused, left]


def test_what_is_wanted_while_the_source_is_read_is_left_to_the_next_turn(running: Running) -> None:
    """Given an id that lanes ask for while a turn runs / then it is not called foreign by what was

    read before its schema may have been registered; a turn is asked for.
    """

    def ask(_: Asked) -> None:
        running.part.wants(report(0, 7))

    running.look_if_new()
    running.source.troubles.append(ask)
    running.turn()
    assert running.told == [SchemaIds()]
    assert running.is_asked
    running.turn()
    assert running.told[-1] == ids(foreign=(7,))


@pytest.mark.parametrize("side", [0, 1])
def test_a_registry_that_refuses_takes_nothing_back(running: Running, side: int) -> None:
    """Given announced ids / when a registry refuses / then the turn raises and announces nothing;

    the report still has what was announced last, and the next turn makes up for it.
    """
    running.register("foo-value")
    running.turn()
    known = running.part.report()
    running.register("foo-lsst.sal.Foo")
    server = (running.source, running.target)[side]
    server.troubles.append(lambda _: DENIED)
    with pytest.raises(RegistryError, match="expired"):
        running.turn()
    assert running.told == [ids(1)]
    assert running.part.report() == known
    assert running.part.frames(FOO) == SchemaFrames.VALUES
    server.troubles.clear()
    running.turn()
    assert running.told[-1] == SchemaIds(((1, 2),))


def test_a_registry_that_does_not_answer_is_told_as_such() -> None:
    with RegistryServer() as source, RegistryServer() as target:
        running = Running(source, target)
    with pytest.raises(RegistryUnreachable):
        running.turn()
    assert running.told == []
    told = running.part.report()
    assert {**told, "waits": []} == {
        "strategy": "preserve",
        "waiting": [],
        "waits": [],
        "copied": 0,
    }


def test_lanes_that_can_not_be_told_are_told_by_the_next_turn(running: Running) -> None:
    """Given a control topic that takes nothing / then the turn counts as one that was not made."""
    running.register("foo-value")
    running.can_tell = False
    with pytest.raises(ConnectionLost):
        running.turn()
    assert "ids" not in running.part.report()
    running.look_if_new()
    assert running.is_asked
    running.can_tell = True
    running.turn()
    assert running.told == [ids(1)]


def test_who_lost_the_link_neither_mirrors_nor_announces(running: Running) -> None:
    running.register("foo-value")
    running.is_ours = False
    with pytest.raises(LinkTakenOver):
        running.turn()
    assert running.told == []
    assert writes(running.target) == []


def test_an_id_is_announced_once_each_address_of_the_target_gives_it(
    servers: tuple[RegistryServer, RegistryServer],
) -> None:
    """Given a target of two addresses / when one lags / then its ids wait, and it is told why."""
    source, target = servers
    with ExitStack() as stack:
        lagging = stack.enter_context(RegistryServer())
        running = Running(source, target, target.url, lagging.url)
        stack.callback(running.part.close)
        running.register("foo-value")
        running.turn()
        assert running.told == [SchemaIds()]
        assert list(running.part.report()["unresolved"]) == ["foo-value version 1"]
        assert writes(lagging) == []
        lagging.double = deepcopy(target.double)
        running.turn()
        assert running.told[-1] == ids(1)
        assert running.part.report()["unresolved_count"] == 0


def test_renamed_and_isolated_subjects_have_their_own_place(
    servers: tuple[RegistryServer, RegistryServer],
) -> None:
    running = Running(*servers, strategy="isolate", context=".x")
    running.mirrors = {FOO: TopicName("summit.foo")}
    running.register("local-value", at_target=True)
    running.register("foo-key")
    running.turn()
    running.part.close()
    assert running.told == [ids(1)]
    assert ":.x:summit.foo-key" in running.target.double.subjects
    assert running.part.frames(FOO) == SchemaFrames.KEYS | SchemaFrames.MAYBE_VALUES


def test_a_report_names_some_schemas_and_counts_all(running: Running) -> None:
    """Given many schemas that the target refuses, and many ids that lanes wait for / then the

    report names some, counts all schemas, and is JSON.
    """
    for number in range(MANY):
        running.register(f"local{number}-value", at_target=True)
        running.register(f"lsst.R{number:02}")
    readable = running.register("foo-value")
    running.look_if_new()
    running.turn()
    running.look_if_new()
    running.part.wants(report(0, *range(100, 100 + MANY)))
    running.turn()
    told = running.part.report()
    unresolved = told.pop("unresolved")
    assert told == {
        "strategy": "preserve",
        "waiting": list(range(100, 100 + REPORTED_MAX)),
        "waits": [0] * SIDE_NUMBERS,
        "copied": 1,
        "at_ms": AT_MS,
        "versions": MANY + 1,
        "ids": 1,
        "unresolved_count": MANY,
        "notes": [],
    }
    assert running.told[-1] == SchemaIds(((readable, readable),), ((100, 99 + MANY),))
    assert list(unresolved) == [f"lsst.R{number:02} version 1" for number in range(REPORTED_MAX)]
    assert unresolved["lsst.R00 version 1"] == "id_taken: id 1 means another schema at the target"
    assert json.loads(json.dumps(told)) == told


def test_remarks_are_reported(running: Running) -> None:
    """Given a deletion that the target refuses / then the report says so, and no id is missing."""
    running.register("foo-value")
    running.source.double.delete_version("foo-value", "1", permanent=False)
    running.target.troubles.append(
        lambda asked: (
            Reply(422, b'{"error_code":42206,"message":"is used"}')
            if asked.method == "DELETE"
            else None
        )
    )
    running.turn()
    (note,) = running.part.report()["notes"]
    assert "is used" in note
    assert running.told == [ids(1)]


def test_a_trouble_is_logged_when_it_comes(running: Running) -> None:
    """Given a schema that is refused / then it is logged once, and again if it was gone between."""
    running.register("lsst.A")
    running.register("local-value", at_target=True)
    for _ in range(2):
        running.turn()
    (line,) = running.lines("schema not mirrored")
    assert "WARN schema not mirrored: lsst.A version 1: id_taken" in line
    running.source.double.delete_subject("lsst.A", permanent=False)
    running.source.double.delete_subject("lsst.A", permanent=True)
    running.turn()
    running.source.double.contexts["."].id_max = 0
    running.register("lsst.A")
    running.turn()
    assert len(running.lines("schema not mirrored")) == 2


def test_many_troubles_at_once_are_some_lines(running: Running) -> None:
    for number in range(MANY):
        running.register(f"local{number}-value", at_target=True)
        running.register(f"lsst.R{number:02}")
    running.turn()
    assert len(running.lines("schema not mirrored")) == REPORTED_MAX


def test_what_was_done_is_logged_and_what_was_not_needed_is_not(running: Running) -> None:
    running.register("foo-value")
    for _ in range(2):
        running.turn()
    (line,) = running.lines("actions at the target's registry")
    assert "INFO schemas: " in line


def test_other_mirrors_ask_for_a_turn(running: Running) -> None:
    """Given the mirrors of the last turn / when one comes, goes or is renamed / then a turn is

    asked for, and none while they stay.
    """
    running.turn()
    for mirrors in ({FOO: FOO, BAR: BAR}, {BAR: BAR}, {BAR: TopicName("b")}, {}):
        running.look_if_new()
        assert not running.is_asked
        running.mirrors = mirrors
        running.look_if_new()
        assert running.is_asked
        running.turn()


def test_reports_of_lanes_ask_for_a_turn_and_say_what_they_wait_for(running: Running) -> None:
    """Given two lanes that wait / then new ids ask for a turn, all are told, and those of a round

    that ended are not.
    """
    running.part.wants(report(0, 9, 3))
    running.part.wants(report(1, 5, 3))
    assert running.is_asked
    assert running.part.report()["waiting"] == [3, 5, 9]
    running.turn()
    running.part.wants(report(1, 5))
    assert not running.is_asked
    running.part.wants(report(0, ended_by="plan"))
    assert running.part.report()["waiting"] == [5]


def test_a_turn_is_made_when_it_is_due_asked_for_or_waited_for(running: Running) -> None:
    """Given the loop's short pause / then registries are compared once an interval, and each time

    while somebody has asked or a partition waits.
    """
    made = []
    for now_s, before in (
        (0.0, lambda: None),
        (29.0, lambda: None),
        (30.0, lambda: None),
        (31.0, lambda: running.mirrors.pop(FOO) and running.look_if_new()),
        (32.0, running.look_if_new),
        (33.0, lambda: running.part.wants(report(0, 99))),
        (34.0, lambda: None),
        (35.0, lambda: running.part.wants(report(0))),
    ):
        running.clock.now_s = now_s
        before()
        told = len(running.told)
        running.loop.turn()
        made += [now_s] * (len(running.told) > told)
    assert made == [0.0, 30.0, 31.0, 33.0, 34.0]


@pytest.mark.parametrize(("interval_s", "pause_s"), [(2, 2), (7, WAITING_EVERY_S)])
def test_the_loop_is_guarded_and_pauses_no_longer_than_the_links_interval(
    servers: tuple[RegistryServer, RegistryServer], interval_s: float, pause_s: float
) -> None:
    running = Running(*servers, interval_s=interval_s)
    guarded = []

    def guard(turn: Any) -> Any:
        guarded.append(turn)
        return turn

    loop = running.part.loop(guard)
    assert (loop.name, loop.interval_s) == ("schemas", pause_s)
    assert guarded == [running.part.turn_if_due]
    running.part.close()
