"""Fetch requests and answers, packed by hand (FetchRequest.json / FetchResponse.json, v12 and v13).

v12 names topics, v13 addresses them by id (KIP-516): a recreated topic gives UNKNOWN_TOPIC_ID
instead of another topic's records. Both are flexible versions (KIP-482). Requests have no session
(session id 0, epoch -1, KIP-227) and no rack, and go to the leader.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from heliostat.clusters.wire.primitives import (
    Buffer,
    compact_string,
    read_topic,
    read_uvarint,
    skip_tagged_fields,
    uvarint,
)
from heliostat.errors import ProtocolError
from heliostat.names import TopicId

API_KEY = 1
VERSIONS = (12, 13)
BY_ID_FROM = 13

_HEAD = struct.Struct(">iiiibii")  # replica, max wait, min bytes, max bytes, isolation, session
_BYTES_MAX_AT = 12
_PARTITION = struct.Struct(">iiqiqi")
_OFFSET, _INT32 = struct.Struct(">q"), struct.Struct(">i")
_OFFSET_IN_PARTITION = 8
_EPOCH_BEHIND_OFFSET, _BYTES_BEHIND_OFFSET = 8, 20
_NO_TROUBLE = 4 + 1 + 4 + 2
_PARTED = struct.Struct(">iq")
_PARTED_TAG = 0
_ABORTED = struct.Struct(">qq")
_ANSWER = struct.Struct(">ihqqq")  # partition, error, high watermark, LSO, log start


@dataclass(frozen=True, slots=True)
class FetchPartition:
    """What to read of one partition: from `offset`, at most about `bytes_max`."""

    topic: str
    topic_id: TopicId | None
    partition: int
    offset: int
    bytes_max: int
    last_epoch: int = -1
    """Leader epoch of the batch before `offset`, so that a truncation is found; -1: unknown."""
    leader_epoch: int = -1
    """The newest leader epoch known: a leader of an older one refuses (KIP-320); -1: unknown."""


@dataclass(frozen=True, slots=True)
class FetchedPartition:
    """One partition of an answer; its batches are `buffer[start:end]` of the frame.

    `high_watermark` and `log_start` are -1 if the broker returned an error.
    """

    topic: str | TopicId
    partition: int
    error: int
    high_watermark: int
    last_stable_offset: int
    log_start: int
    start: int
    end: int
    aborted: tuple[tuple[int, int], ...] = ()
    """Aborted transactions: producer id, first offset."""
    diverging_epoch: tuple[int, int] | None = None
    """An epoch and its end offset, if the log lacks some of what was read before."""


def encode_fetch(
    version: int,
    partitions: Sequence[FetchPartition],
    *,
    max_wait_ms: int,
    min_bytes: int,
    max_bytes: int,
    read_committed: bool,
    offsets_at: list[int] | None = None,
) -> bytearray:
    """Body of a fetch request; partitions of one topic must be adjacent.

    The position of each partition's offset field is appended to `offsets_at`, for `aim`.
    """
    out = bytearray(_HEAD.pack(-1, max_wait_ms, min_bytes, max_bytes, read_committed, 0, -1))
    groups = _by_topic(partitions)
    out += uvarint(len(groups) + 1)
    for group in groups:
        first = group[0]
        if version >= BY_ID_FROM:
            if first.topic_id is None:
                raise ProtocolError("fetch v13 needs a topic id", topic=first.topic)
            out += first.topic_id.bytes
        else:
            out += compact_string(first.topic)
        out += uvarint(len(group) + 1)
        for item in group:
            if offsets_at is not None:
                offsets_at.append(len(out) + _OFFSET_IN_PARTITION)
            place = item.partition, item.leader_epoch, item.offset, item.last_epoch
            out += _PARTITION.pack(*place, -1, item.bytes_max)
            out += b"\x00"
        out += b"\x00"
    out += b"\x01"  # no forgotten topics
    out += b"\x01"  # rack: the empty string
    out += b"\x00"
    return out


def limit_answer(body: bytearray, begins_at: int, bytes_max: int) -> None:
    """Change the limit of the whole answer in a request whose body begins there."""
    _INT32.pack_into(body, begins_at + _BYTES_MAX_AT, bytes_max)


def aim(body: bytearray, offset_at: int, offset: int, bytes_max: int, last_epoch: int) -> None:
    """Change offset, limit and epoch of one partition in a request that is sent repeatedly."""
    _OFFSET.pack_into(body, offset_at, offset)
    _INT32.pack_into(body, offset_at + _EPOCH_BEHIND_OFFSET, last_epoch)
    _INT32.pack_into(body, offset_at + _BYTES_BEHIND_OFFSET, bytes_max)


def _by_topic(partitions: Sequence[FetchPartition]) -> list[list[FetchPartition]]:
    groups: list[list[FetchPartition]] = []
    for item in partitions:
        if groups and groups[-1][0].topic == item.topic:
            groups[-1].append(item)
        else:
            groups.append([item])
    return groups


@dataclass(frozen=True, slots=True)
class FetchAnswer:
    """A decoded answer; iterate `partitions` once, they are read lazily from the frame."""

    throttle_ms: int
    error: int
    partitions: Iterator[FetchedPartition]


def is_undisturbed(buffer: Buffer) -> bool:
    """Whether an answer, correlation id first, has no tagged field, throttle time or error."""
    return bytes(buffer[4:_NO_TROUBLE]) == bytes(_NO_TROUBLE - 4)


def decode_fetch(version: int, buffer: Buffer, position: int) -> FetchAnswer:
    """Read the answer in `buffer` from `position`, the one after the correlation id.

    Raises
    ------
    ProtocolError
        While iterating, if the bytes do not follow the format.
    """
    return decode_body(version, buffer, skip_tagged_fields(buffer, position))


def decode_body(version: int, buffer: Buffer, position: int) -> FetchAnswer:
    """As `decode_fetch`, from behind the header's tagged fields."""
    throttle_ms, error, _session = struct.unpack_from(">ihi", buffer, position)
    return FetchAnswer(throttle_ms, error, _partitions(version, buffer, position + 10))


def _partitions(version: int, buffer: Buffer, position: int) -> Iterator[FetchedPartition]:
    try:
        topics, position = read_uvarint(buffer, position)
        for _ in range(topics - 1):
            topic, position = read_topic(buffer, position, by_id=version >= BY_ID_FROM)
            count, position = read_uvarint(buffer, position)
            for _ in range(count - 1):
                fetched, position = _partition(topic, buffer, position)
                yield fetched
            position = skip_tagged_fields(buffer, position)
    except (IndexError, struct.error, ValueError) as error:
        raise ProtocolError(
            "a fetch answer is malformed", why=str(error), position=position
        ) from error


def _partition(topic: str | TopicId, buffer: Buffer, position: int) -> tuple[FetchedPartition, int]:
    partition, error, high, stable, log_start = _ANSWER.unpack_from(buffer, position)
    position += _ANSWER.size
    aborted, position = read_aborted(buffer, position)
    position += 4  # preferred read replica: we name no rack
    size, position = read_uvarint(buffer, position)
    start = position
    end = position + max(0, size - 1)
    if end > len(buffer):
        raise ValueError("records reach past the frame")
    position = skip_tagged_fields(buffer, end)
    diverging_epoch = read_diverging_epoch(buffer, end)
    return (
        FetchedPartition(
            topic, partition, error, high, stable, log_start, start, end, aborted, diverging_epoch
        ),
        position,
    )


def read_diverging_epoch(buffer: Buffer, position: int) -> tuple[int, int] | None:
    """`DivergingEpoch` among the tagged fields at `position`: an epoch and its end offset.

    A leader returns it, and no records, if the epoch before the requested offset is not the one
    that was named: its log was truncated, or the epoch ended earlier (KIP-595).
    """
    count, position = read_uvarint(buffer, position)
    for _ in range(count):
        tag, position = read_uvarint(buffer, position)
        size, position = read_uvarint(buffer, position)
        if tag == _PARTED_TAG and size >= _PARTED.size:
            epoch, end = _PARTED.unpack_from(buffer, position)
            return epoch, end
        position += size
    return None


def read_aborted(buffer: Buffer, position: int) -> tuple[tuple[tuple[int, int], ...], int]:
    """Producer id and first offset of each aborted transaction, and the position after them."""
    count, position = read_uvarint(buffer, position)
    transactions: list[tuple[int, int]] = []
    for _ in range(count - 1):
        transactions.append(_ABORTED.unpack_from(buffer, position))
        position = skip_tagged_fields(buffer, position + _ABORTED.size)
    return tuple(transactions), position
