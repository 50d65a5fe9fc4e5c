"""ListGroups answers from v3 and OffsetFetch answers v8 and v9, decoded by hand.

There may be tens of thousands of groups, each with a row in the first and many in the second.
kafka-python makes an object of every field: 40 µs a row, measured with 10,000 groups (4.3.0).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import NamedTuple

from heliostat.clusters.admin.group_values import NO_COMMIT, CommittedOffset
from heliostat.clusters.wire.primitives import read_compact_string, read_uvarint, skip_tagged_fields
from heliostat.names import Offset, PartitionId, TopicName, TopicPartition

LISTED_FROM = 3  # the first version with compact strings: 2.4
FETCHED_FROM, FETCHED_UP_TO = 8, 9  # many groups, topics by name
_STATES_FROM, _TYPES_FROM = 4, 5
_BEHIND_THROTTLE = 4
_INT16 = struct.Struct(">h")
_PARTITION = struct.Struct(">iqi")  # index, offset, leader epoch


class ListedRow(NamedTuple):
    """One group of a ListGroups answer."""

    group: str
    protocol: str
    state: str
    kind: str


class FetchedRow(NamedTuple):
    """One group of an OffsetFetch answer; a failed partition has its error code for an offset."""

    group: str
    error_code: int
    offsets: Mapping[TopicPartition, CommittedOffset | int]


def decode_listed(body: bytes, version: int) -> tuple[int, list[ListedRow]]:
    """The error code and the groups of a ListGroups answer (`ListGroupsResponse.json`).

    Raises
    ------
    IndexError, struct.error, ValueError
        The bytes do not follow the format.
    """
    (error_code,) = _INT16.unpack_from(body, _BEHIND_THROTTLE)
    count, position = read_uvarint(body, _BEHIND_THROTTLE + _INT16.size)
    rows: list[ListedRow] = []
    for _ in range(count - 1):
        group, position = read_compact_string(body, position)
        protocol, position = read_compact_string(body, position)
        state: str | None = ""
        kind: str | None = ""
        if version >= _STATES_FROM:
            state, position = read_compact_string(body, position)
        if version >= _TYPES_FROM:
            kind, position = read_compact_string(body, position)
        position = skip_tagged_fields(body, position)
        rows.append(ListedRow(group or "", protocol or "", state or "", kind or ""))
    _ends_here(body, position)
    return error_code, rows


def decode_fetched(body: bytes) -> list[FetchedRow]:
    """The groups of an OffsetFetch answer (`OffsetFetchResponse.json`).

    Raises
    ------
    IndexError, struct.error, ValueError
        The bytes do not follow the format.
    """
    partitions: dict[tuple[str, int], TopicPartition] = {}
    count, position = read_uvarint(body, _BEHIND_THROTTLE)
    rows: list[FetchedRow] = []
    for _ in range(count - 1):
        group, position = read_compact_string(body, position)
        offsets: dict[TopicPartition, CommittedOffset | int] = {}
        topics, position = read_uvarint(body, position)
        for _ in range(topics - 1):
            position = _topic(body, position, partitions, offsets)
        (error_code,) = _INT16.unpack_from(body, position)
        position = skip_tagged_fields(body, position + _INT16.size)
        rows.append(FetchedRow(group or "", error_code, offsets))
    _ends_here(body, position)
    return rows


def _topic(
    body: bytes,
    position: int,
    partitions: dict[tuple[str, int], TopicPartition],
    offsets: dict[TopicPartition, CommittedOffset | int],
) -> int:
    """Read one topic of one group; `partitions` are shared by the whole answer."""
    raw_name, position = read_compact_string(body, position)
    name = raw_name or ""
    count, position = read_uvarint(body, position)
    for _ in range(count - 1):
        index, offset, _epoch = _PARTITION.unpack_from(body, position)
        metadata, position = read_compact_string(body, position + _PARTITION.size)
        (error_code,) = _INT16.unpack_from(body, position)
        position = skip_tagged_fields(body, position + _INT16.size)
        partition = partitions.get((name, index))
        if partition is None:
            partition = TopicPartition(TopicName(name), PartitionId(index))
            partitions[name, index] = partition
        if error_code:
            offsets[partition] = error_code
        elif offset != NO_COMMIT:
            offsets[partition] = CommittedOffset(Offset(offset), metadata or "")
    return skip_tagged_fields(body, position)


def _ends_here(body: bytes, position: int) -> None:
    if skip_tagged_fields(body, position) > len(body):
        raise ValueError("the answer is shorter than it says")
