"""Figures of groups for metrics: those that are named, and no others."""

from __future__ import annotations

from heliostat.clusters.admin import CommittedOffset
from heliostat.errors import BrokerError
from heliostat.groups.followed import Followed
from heliostat.groups.measured import GROUPS_MAX, GroupFigures, MeasuredGroups
from heliostat.groups.rereads import Reread
from heliostat.groups.values import Published, Sent
from heliostat.names import GroupId, Offset, PartitionId, TopicName, TopicPartition

P, Q, R = (TopicPartition(TopicName("t"), PartitionId(number)) for number in range(3))
ENDS = {P: Offset(100), Q: Offset(50)}


def followed(**offsets: int) -> Followed:
    places = {"p": P, "q": Q, "r": R}
    rows = {places[name]: CommittedOffset(Offset(at)) for name, at in offsets.items()}
    return Followed(
        0, 0.0, {**rows, **({R: BrokerError("?", kafka_code=3)} if "r" not in offsets else {})}
    )


def test_lag_is_that_of_mirrored_partitions_and_only_named_groups_are_measured() -> None:
    groups = {GroupId("a"): followed(p=90, q=60, r=5), GroupId("b"): followed(p=1)}
    published = {GroupId("a"): Published({P: Sent(Offset(1))}, 7_000)}
    measured = MeasuredGroups(("a", "c.*"), lambda: ENDS)
    assert measured.figures(groups, published) == [GroupFigures(GroupId("a"), 10, 7_000, None)]
    groups[GroupId("a")].reread = Reread(12)
    assert measured.figures(groups, published) == [GroupFigures(GroupId("a"), 10, 7_000, 12)]
    assert MeasuredGroups().figures(groups, published) == []


def test_what_is_not_known_is_none() -> None:
    groups = {GroupId("a"): followed(), GroupId("b"): Followed(0, 0.0)}
    figures = MeasuredGroups((".*",), lambda: ENDS).figures(groups, {})
    assert figures == [GroupFigures(GroupId(name), None, None) for name in "ab"]


def test_there_are_never_more_than_a_hundred() -> None:
    groups = {GroupId(f"g{number:04}"): Followed(0, 0.0) for number in range(2 * GROUPS_MAX)}
    assert len(MeasuredGroups((".*",), lambda: ENDS).figures(groups, {})) == GROUPS_MAX
