"""Changes of a plan as they are announced, and as a lane reads them."""

from __future__ import annotations

import json
from dataclasses import fields
from uuid import UUID

import pytest

from heliostat.link.lane_plans import CHANGED_MAX
from heliostat.names import LaneId, Offset, PartitionId, TopicName, TopicPartition
from heliostat.offsets.offset_map import Break
from heliostat.records.copier.lane import (
    Announcement,
    PartitionSpec,
    PlanChange,
    SchemaFrames,
    TakenPartition,
    WantedRound,
)
from heliostat.records.copier.lane_limits import ByteLimits, Priority
from heliostat.records.transport.plan_rows import encode_announcement, wanted_round

LANE = LaneId(3)
LIMITS = ByteLimits(5, ((TopicName("t"), 9), (TopicName("a"), 2)))
REQUEST_BYTES_MAX = 1_048_576
"""kafka-python's default `max_request_size`."""


def place(number: int, topic: str = "t") -> TopicPartition:
    return TopicPartition(TopicName(topic), PartitionId(number))


def full(number: int) -> PartitionSpec:
    """A specification of which no field has its default."""
    return PartitionSpec(
        source=place(number),
        target=place(number + 1, "u"),
        source_topic_id=UUID(int=number + 1),
        target_topic_id=UUID(int=number + 2),
        start=Offset(7),
        batch_bytes_max=1000,
        is_compacted=True,
        adopted_at=Offset(4),
        jump=Break(5, 9),
        truncated="why",
        map_lost="why too",
        fills=True,
        can_align=False,
        pipeline="hide",
        fails_at=3,
        fail_code="SCHEMA_UNREADABLE",
        attempt=2,
        why_fails="no number",
        frames=SchemaFrames.KEYS | SchemaFrames.VALUES,
        is_paused=True,
        priority=Priority.HIGH,
        merged_from=Offset(6),
    )


BARE = PartitionSpec(place(0), place(0), None, None, Offset(0), 1, is_compacted=False)


@pytest.mark.parametrize(
    "change",
    [
        PlanChange(8, (), ()),
        PlanChange(8, (place(1), place(2)), (), ("0/1/2",), 3.0),
        PlanChange(8, (), (TakenPartition(BARE, None),)),
        PlanChange(8, (place(4),), (TakenPartition(full(4), (10, 2, -1), 0.5),)),
    ],
)
def test_a_change_reads_back(change: PlanChange) -> None:
    wanted = WantedRound("3/8/0", (change,), LIMITS)
    other = WantedRound("4/8/0", (), ByteLimits(7, ((TopicName("a"), 3),)))
    plan = Announcement({LANE: wanted, LaneId(5): other}, (), {})
    row = json.loads(json.dumps(encode_announcement(1, plan)))
    assert wanted_round(row, LANE) == wanted
    assert wanted_round(row, LaneId(5)) == other
    assert wanted_round(row, LaneId(4)) is None


def test_no_field_of_a_specification_is_forgotten() -> None:
    """Given a field that is added later / then this test fails until it is announced, too."""
    plain = {item.name: getattr(BARE, item.name) for item in fields(PartitionSpec)}
    assert all(getattr(full(1), name) != value for name, value in plain.items())


def test_the_largest_change_fits_into_a_record() -> None:
    """Given the most partitions that a change may name, with the longest names / then it fits."""
    names = "n" * 249
    specs = [
        PartitionSpec(
            place(at, names),
            place(at, names),
            UUID(int=at),
            UUID(int=at),
            Offset(10**12),
            10**6,
            is_compacted=False,
        )
        for at in range(CHANGED_MAX)
    ]
    taken = tuple(TakenPartition(each, (10**12, 100, 10**12), 1.5) for each in specs)
    limits = ByteLimits(
        10**12, tuple((TopicName(f"{at:03}{names[3:]}"), 10**12) for at in range(100))
    )
    lanes = {LaneId(at): WantedRound(f"{at}/100/10", (), limits) for at in range(64)}
    plan = Announcement(
        {**lanes, LANE: WantedRound("r", (PlanChange(1, (), taken),), limits)}, (), {}
    )
    assert len(json.dumps(encode_announcement(1, plan))) < REQUEST_BYTES_MAX - 10_000
