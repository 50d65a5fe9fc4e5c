"""Which topics a member of a group reads, or asks for."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from heliostat.clusters.admin.group_values import CONSUMER_KIND, STREAMS_KIND
from heliostat.names import TopicName

_SHORT, _INT = struct.Struct(">h"), struct.Struct(">i")


def topics_of_member(member: Any, kind: str) -> frozenset[TopicName]:
    """Return the topics; of a member of Streams (KIP-1071) only its group's topology has them."""
    if kind == STREAMS_KIND:
        return frozenset()
    if kind == CONSUMER_KIND:
        shown = (row.topic_name for row in member.assignment.topic_partitions)
        return frozenset(map(TopicName, [*member.subscribed_topic_names, *shown]))
    asked = _names(member.member_metadata or b"", has_partitions=False)
    assigned = _names(member.member_assignment or b"", has_partitions=True)
    return frozenset([*asked, *assigned])


def _names(data: bytes, *, has_partitions: bool) -> list[TopicName]:
    """Read the topics of a `ConsumerProtocolSubscription` or `-Assignment`.

    Other protocols (`connect`, `sr`) have something else there: no topics.
    """
    try:
        return list(_read(data, has_partitions=has_partitions))
    except (struct.error, UnicodeDecodeError):
        return []


def _read(data: bytes, *, has_partitions: bool) -> Iterator[TopicName]:
    place = _SHORT.size  # behind the version
    (count,) = _INT.unpack_from(data, place)
    place += _INT.size
    for _ in range(count):
        (length,) = _SHORT.unpack_from(data, place)
        place += _SHORT.size
        yield TopicName(data[place : place + length].decode())
        place += length
        if has_partitions:
            (partitions,) = _INT.unpack_from(data, place)
            place += _INT.size * (1 + partitions)
