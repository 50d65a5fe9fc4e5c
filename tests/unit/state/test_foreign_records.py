"""What others write into a link's own topics: each topic, each kind of garbage.

| topic | a record that is no row |
|---|---|
| `state`, `gaps` | halts the link if it has the key of a row that matters, which it replaced |
| the same, any other key | is ignored and told |
| `control`, `groups`, `progress` | is ignored and told |
| `offsets` | is ignored and told; a map whose row it replaced is lost (`test_map_rows`) |

`progress` is in `link/test_running.py`, `offsets` in `offsets/test_store.py`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from heliostat.clusters.foreign_records import ForeignRecords
from heliostat.clusters.log_reader import LogRecord
from heliostat.clusters.one_partition import OnePartitionTopic
from heliostat.config import ClusterConfig, LinkConfig
from heliostat.errors import ProtocolError
from heliostat.gaps.ledger import GapLedger, gaps_topic
from heliostat.groups.published import PublishedOffsets, groups_topic
from heliostat.groups.values import Published
from heliostat.names import LinkName
from heliostat.state.link_state import LinkState
from heliostat.state_topics import control_topic, state_topic

LINK = LinkName("l")
NOWHERE = ClusterConfig(bootstrap=("127.0.0.1:1",))
OWNER = {"instance": "i", "host": "h", "pid": 1, "resigned": False}
KEYS = (None, b"\xff", b"what", b"OWN")
VALUES = (b"", b"\xff\x00", b"7", b"[]", b'"text"', b"NaN", b"[" * 5000)
GARBAGE = [(key, value) for key in KEYS for value in VALUES]


class Log:
    """Records of topics, as a `LogReader` gives them."""

    def __init__(self) -> None:
        self.topics: dict[str, list[tuple[bytes | None, bytes | None]]] = {}

    def reader(self, topic: OnePartitionTopic) -> Any:
        rows = self.topics.setdefault(topic.topic, [])

        def poll(_: float) -> list[LogRecord]:
            first, reader.position = reader.position, len(rows)
            return [
                LogRecord(key, value, 1, first + number, 0)
                for number, (key, value) in enumerate(rows[first:])
            ]

        reader = SimpleNamespace(position=0, from_start=lambda: (len(rows), []), poll=poll)
        return reader


class World:
    """A link's topics, and what is told of them."""

    def __init__(self) -> None:
        self.log = Log()
        self.told: list[str] = []
        foreign = ForeignRecords(self.told.append)
        link = LinkConfig(name="l", source="a", target="b")
        self.state = LinkState(link, NOWHERE, foreign)
        self.gaps = GapLedger(LINK, NOWHERE.access(), foreign)
        self.groups = PublishedOffsets("127.0.0.1:1", LINK, foreign)

    def put(self, topic: str, key: bytes | None, value: bytes | None) -> None:
        self.log.topics.setdefault(topic, []).append((key, value))


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World()

    def reader(topic: OnePartitionTopic) -> Any:
        topic._log = topic._log or made.log.reader(topic)
        return topic._log

    monkeypatch.setattr(OnePartitionTopic, "_reader", reader)
    return made


def read_state(world: World) -> object:
    return world.state.read().producer_id


def read_groups(world: World) -> object:
    world.groups.read()
    return len([group for group in world.groups.rows if group == "sound"])


def read_gaps(world: World) -> object:
    world.gaps.read()
    return len(world.gaps.copied)


def follow_gaps(world: World) -> object:
    world.gaps.consume()
    return len(world.gaps.copied)


def watch(world: World) -> object:
    owner = world.state.owner.watch_owner(anew=False)
    return None if owner is None else owner.instance


Read = Callable[[World], object]
Sound = tuple[bytes, dict[str, Any], object]
COPIED: Sound = (b"copied/t", {"source_id": "s", "partitions": {}}, 1)
CASES: list[tuple[str, Read, Sound, list[bytes]]] = [
    (
        state_topic(LINK),
        read_state,
        (b"producer", {"producer_id": 9}, 9),
        [b"producer", b"owner", b"mirror/t", b"start/t", b"beginning/0", b"framed/t"],
    ),
    (
        state_topic(LINK),
        lambda world: world.state.marks.read().topic is not None,
        (b"maps", {"topic_id": "x", "start": 0, "end": 3}, True),
        [b"maps", b"mapped/t", b"map-lost/t/0"],
    ),
    (state_topic(LINK), watch, (b"owner", OWNER, "i"), [b"owner"]),
    (
        control_topic(LINK),
        lambda world: world.state.owner.last_claim(),
        (b"lanes", {"claim": 4}, 4),
        [],
    ),
    (groups_topic(LINK), read_groups, (b"sound", Published({}).to_json(), 1), []),
    (gaps_topic(LINK), read_gaps, COPIED, [b"gap/t/0/5", b"decision/t/0/C", b"copied/t"]),
    (gaps_topic(LINK), follow_gaps, COPIED, [b"gap/t/0/5", b"decision/t/0/C", b"copied/t"]),
]
NAMES = ["state", "marks", "watched owner", "control", "groups", "gaps", "followed gaps"]


@pytest.mark.parametrize(("topic", "read", "sound", "vital"), CASES, ids=NAMES)
def test_a_record_that_is_no_row_hides_none_and_is_told(
    world: World, topic: str, read: Read, sound: Sound, vital: list[bytes]
) -> None:
    """Given garbage around a row / when read / then the row; where it replaced one, a halt."""
    key, row, wanted = sound
    own = {b"OWN": b"stop/t/0" if vital else key}  # of a stop, or of what is written anew
    for strange, value in GARBAGE:
        world.put(topic, own.get(strange or b"", strange), value)
    world.put(topic, key, json.dumps(row).encode())
    world.put(topic, None, b"7")
    assert read(world) == wanted
    if topic != state_topic(LINK) or read is read_state:
        assert any(f"topic {topic} has a record that is not ours" in line for line in world.told)
        assert len(world.told) == 5, world.told  # of 29 the 1st, 2nd, 4th, 8th, 16th
    for name in vital:
        for value in (*VALUES, b"{}"):
            if (name, value) == (b"framed/t", b"{}"):
                continue
            world.state.close()
            world.gaps.close()
            world.log.topics[topic] = [(name, value)]
            with pytest.raises(ProtocolError, match=r"of ours|not ours") as caught:
                read(world)
            assert name.decode() in str(caught.value)
