"""From which offset on an application's group at the target has not read its repartition topic."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest

from heliostat.clusters.admin import CommittedOffset, GroupListing, ListedGroup
from heliostat.config import LinkConfig
from heliostat.errors import BrokerError
from heliostat.link.unread_records import UnreadRecords
from heliostat.names import BrokerId, GroupId, Offset, PartitionId, TopicName, TopicPartition
from heliostat.records.copier.lane import PartitionSpec

SOURCE = TopicPartition(TopicName("app-eu-x-repartition"), PartitionId(0))
MIRROR = TopicPartition(TopicName("east.app-eu-x-repartition"), PartitionId(0))
OTHER = TopicPartition(TopicName("orders"), PartitionId(0))


def spec(source: TopicPartition, target: TopicPartition) -> PartitionSpec:
    return PartitionSpec(source, target, None, None, Offset(0), 1, is_compacted=False)


SPECS = {SOURCE: spec(SOURCE, MIRROR), OTHER: spec(OTHER, OTHER)}


def link(**groups: Any) -> LinkConfig:
    names = {"name": "l", "source": "east", "target": "west"}
    return LinkConfig.model_validate({**names, "groups": groups})


def listing(*groups: str) -> GroupListing:
    return GroupListing(
        {
            GroupId(g): ListedGroup(GroupId(g), BrokerId(1), "Stable", "classic", "consumer")
            for g in groups
        }
    )


@pytest.mark.parametrize(
    ("groups", "asked"),
    [
        (["app-eu"], "app-eu"),
        (["app", "app-eu", "app-e"], "app-eu"),  # the longest: others are other applications
        (["app-eu-x-repartition", "other"], None),
        ([], None),
    ],
)
def test_the_group_is_the_application_by_whose_name_the_topic_begins(
    groups: list[str], asked: str | None
) -> None:
    source, target = Mock(), Mock()
    source.list_groups.return_value = listing(*groups)
    target.committed_offsets.side_effect = lambda names: {
        name: {MIRROR: CommittedOffset(Offset(7))} for name in names
    }
    unread = UnreadRecords(link(sync=True), source, target).of(SPECS)
    if asked is None:
        assert unread == {}
        target.committed_offsets.assert_not_called()
    else:
        assert unread == {SOURCE: 7}
        target.committed_offsets.assert_called_once_with({asked})


@pytest.mark.parametrize(
    "answer", [{}, {"app-eu": {}}, {"app-eu": BrokerError("no", kafka_code=29)}]
)
def test_a_group_of_which_nothing_is_known_at_the_target_has_read_nothing(
    answer: dict[str, object],
) -> None:
    source, target = Mock(), Mock()
    source.list_groups.return_value = listing("app-eu")
    target.committed_offsets.return_value = answer
    assert UnreadRecords(link(sync=True), source, target).of(SPECS) == {SOURCE: 0}


def test_a_group_is_asked_for_under_its_name_at_the_target() -> None:
    source, target = Mock(), Mock()
    source.list_groups.return_value = listing("app-eu")
    target.committed_offsets.side_effect = lambda names: {
        name: {MIRROR: CommittedOffset(Offset(7))} for name in names
    }
    renamed = link(sync=True, naming={"prefix": "east."})
    assert UnreadRecords(renamed, source, target).of(SPECS) == {SOURCE: 7}
    target.committed_offsets.assert_called_once_with({"east.app-eu"})


def test_without_synced_groups_nobody_is_asked() -> None:
    source, target = Mock(), Mock()
    source.list_groups.return_value = listing("app-eu")
    assert UnreadRecords(link(sync=False), source, target).of(SPECS) == {}
    left_out = link(sync=True, exclude=["app-eu"])
    assert UnreadRecords(left_out, source, target).of(SPECS) == {}
    target.committed_offsets.assert_not_called()
