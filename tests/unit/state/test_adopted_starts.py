"""What is remembered of mirrors that were taken over, and what a lane gets of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from heliostat.config import ClusterConfig, LinkConfig
from heliostat.link.flow import _specs
from heliostat.names import LinkName, Offset, PartitionId, TopicId, TopicName
from heliostat.records.copier.lane import NO_FRAMES
from heliostat.state.link_state import LinkState, Starts
from heliostat.topics.topic_plan import Mirror

TARGET_ID = TopicId(int=7)
ZERO, ONE = PartitionId(0), PartitionId(1)
ORDERS = TopicName("orders")


class Memory:
    """Stands for a state topic."""

    topic = TopicName("heliostat.l.state")

    def __init__(self) -> None:
        self.rows: dict[str, Any] = {}

    def write_many(self, rows: Mapping[str, Any]) -> None:
        self.rows |= rows

    def read_all(self) -> dict[str, Any]:
        return self.rows


@pytest.fixture
def state() -> LinkState:
    link = LinkConfig(name=LinkName("l"), source="a", target="b")
    found = LinkState(link, ClusterConfig(bootstrap=("127.0.0.1:1",)))
    found._state = Memory()
    return found


def test_where_a_takeover_happened_is_remembered(state: LinkState) -> None:
    adopted = Starts(TARGET_ID, {ZERO: Offset(0)}, {ZERO: Offset(41)})
    plain = Starts(None, {ZERO: Offset(9)})
    state.put_starts({ORDERS: adopted, TopicName("other"): plain})
    assert state.read().starts == {ORDERS: adopted, "other": plain}
    assert "adopted" not in state._state.rows["start/other"]  # as versions before wrote it


def test_a_lane_gets_the_offsets_of_the_takeover() -> None:
    mirror = Mirror(
        source=ORDERS,
        target=TopicName("a.orders"),
        source_id=None,
        target_id=TARGET_ID,
        partitions=2,
        initial_partitions=2,
        start="earliest",
        target_max_message_bytes=1,
        is_compacted=False,
        is_log_append_time=False,
    )
    row = Starts(TARGET_ID, {ZERO: Offset(0), ONE: Offset(3)}, {ZERO: Offset(41)})
    specs = _specs((mirror,), {ORDERS: row}, lambda _: NO_FRAMES)
    assert {p.partition: (s.start, s.adopted_at) for p, s in specs.items()} == {
        0: (0, 41),
        1: (3, None),
    }
    assert _specs((mirror,), {}, lambda _: NO_FRAMES) == {}
    cut = {ORDERS: replace(row, merged={ZERO: Offset(50)})}  # a turn died before its last row
    found = [_specs((mirror,), cut, lambda _: NO_FRAMES, merges=merges) for merges in (False, True)]
    (one, *_), (two, *_) = (list(each.values()) for each in found)
    assert (one.merged_from, two.merged_from) == (None, 50)


def test_handing_mirrors_back_drops_the_producer_id(state: LinkState) -> None:
    state.forget_mirrors([ORDERS])
    assert state._state.rows == {
        "handed-back/orders": {"to": "MirrorMaker 2"},
        "mirror/orders": None,
        "producer": None,
        "producers": None,
    }
    state._state.rows = {"handed-back/orders": {"to": "MirrorMaker 2"}}
    assert state.read().handed_back == {ORDERS}
