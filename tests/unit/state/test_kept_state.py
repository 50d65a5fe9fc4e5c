"""Deleted state topics are recreated from what the running driver knows."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest
from support.simulated_admin import SimulatedAdmin
from support.simulated_cluster import SimulatedCluster

from heliostat.config import ClusterConfig, LinkConfig
from heliostat.errors import ProtocolError
from heliostat.link.flow import Reconciler
from heliostat.link.known import Known
from heliostat.names import Offset, PartitionId, ProducerId, TopicName
from heliostat.records.copier.lane import SchemaFrames
from heliostat.state.link_state import LinkState, Starts

NAMES = [f"heliostat.l.{name}" for name in ("state", "control", "progress", "offsets", "history")]


GONE = 3


class Memory:
    """Stands for a state topic."""

    def __init__(self, topic: str) -> None:
        self.topic = TopicName(topic)
        self.written: dict[str, Any] = {}

    def exists_now(self) -> None:
        pass

    def write(self, key: str, value: Any) -> None:
        self.written[key] = value

    def write_many(self, values: dict[str, Any]) -> None:
        self.written.update(values)

    def close(self) -> None:
        pass


@pytest.fixture
def topics() -> list[Memory]:
    return [Memory(name) for name in NAMES]


@pytest.fixture
def state(topics: list[Memory]) -> LinkState:
    link = LinkConfig(name="l", source="a", target="b")
    made = LinkState(link, ClusterConfig(bootstrap=("127.0.0.1:1",)))
    made._state, made._control, made._progress, *_ = topics  # type: ignore[assignment]  # fakes
    return made


def turn_with(state: LinkState, errors: dict[str, int]) -> tuple[Reconciler, Mock, Mock]:
    target = SimulatedCluster()
    for name in NAMES:
        code = errors.get(name)
        if code != GONE:
            target.create(name, configs={"cleanup.policy": "compact"})
        if code not in (GONE, None):
            target.fail("describe_topics", code, TopicName(name))
    events = Mock()
    lanes = Mock()
    turn = Reconciler(
        link=Mock(),
        target=SimulatedAdmin(target),
        state=state,
        lanes=lanes,
        steering=Mock(),
        lane_count=Mock(),
        events=events,
        planner=Mock(),
        mirrors=Mock(),
        starts=Mock(),
        notes=Mock(),
        gaps=Mock(),
        maps=Mock(),
        compacted_later=Mock(),
        deletions=Mock(),
    )
    return turn, events, lanes


KNOWN = Known(
    {},
    {TopicName("t"): Starts(None, {PartitionId(0): Offset(5)})},
    producer_id=ProducerId(9),
    former_producers=frozenset({ProducerId(4)}),
    at_beginning=frozenset({TopicName("t")}),
)


def test_nothing_is_written_while_all_topics_exist(state: LinkState, topics: list[Memory]) -> None:
    turn, events, lanes = turn_with(state, {})
    turn._keep_state(KNOWN)
    assert not any(topic.written for topic in topics)
    events.warn.assert_not_called()
    lanes.announce.assert_not_called()


def test_a_topic_without_describe_right_is_not_taken_for_deleted(
    state: LinkState, topics: list[Memory]
) -> None:
    turn, _, lanes = turn_with(state, dict.fromkeys(NAMES, 29))
    turn._keep_state(KNOWN)
    assert turn.target.cluster.asked("create_topics") == []
    lanes.announce.assert_not_called()


@pytest.mark.parametrize("gone", NAMES)
def test_a_deleted_topic_is_recreated_rewritten_and_reported(
    state: LinkState, topics: list[Memory], gone: str
) -> None:
    turn, events, lanes = turn_with(state, {gone: GONE})
    turn._keep_state(KNOWN)
    assert set(turn.target.cluster.topics) == set(NAMES)
    assert topics[0].written == {
        "producer": {"producer_id": 9},
        "producers": {"ids": [4, 9]},
        "start/t": {"target_id": None, "starts": {"0": 5}},
        "beginning/0": {"topics": ["t"]},
    }
    lanes.announce.assert_called_once_with()  # which lanes are wanted
    assert gone in events.warn.call_args.args[0]


@pytest.mark.parametrize("count", [0, 3, 11_000])
def test_topics_of_the_links_beginning_are_remembered(
    state: LinkState, topics: list[Memory], count: int
) -> None:
    topics[0].read_all = lambda: topics[0].written  # type: ignore[attr-defined]  # as above
    assert state.read().at_beginning is None
    names = frozenset(TopicName(f"topic-{number}") for number in range(count))
    state.put_beginning(names)
    assert state.read().at_beginning == names
    assert all(len(row["topics"]) <= 5_000 for row in topics[0].written.values())


@pytest.mark.parametrize("count", [0, 3, 50])
def test_framed_topics_are_remembered_and_fewer_later(
    state: LinkState, topics: list[Memory], count: int
) -> None:
    """Given topics whose ids are replaced / when there are fewer of them / then only these."""
    topics[0].read_all = lambda: topics[0].written  # type: ignore[attr-defined]  # as above
    assert state.read().frames == {}
    both = (SchemaFrames.VALUES, SchemaFrames.VALUES | SchemaFrames.KEYS)
    frames = {TopicName(f"topic-{number}"): both[number % 2] for number in range(count)}
    state.put_frames(frames)
    assert state.read().frames == frames
    fewer = dict(list(frames.items())[: count // 2])
    topics[0].read_all = lambda: {  # type: ignore[attr-defined]  # as above
        key: row for key, row in topics[0].written.items() if row is not None
    }
    state.put_frames(fewer)
    assert state.read().frames == fewer


@pytest.mark.parametrize(
    "key", ["mirror/t", "start/t", "producer", "owner", "beginning/0", "framed/t"]
)
@pytest.mark.parametrize("value", [{}, {"producer_id": "x"}, {"target_id": 5, "starts": 3}])
def test_an_invalid_record_is_reported_with_its_key(
    state: LinkState, key: str, value: dict[str, Any]
) -> None:
    """Given JSON that others wrote into the state topic / when read / then an error of ours."""
    memory = state._state
    memory.read_all = lambda: {key: value}  # type: ignore[method-assign]  # a stand-in
    with pytest.raises(ProtocolError, match=key):
        state.read()
