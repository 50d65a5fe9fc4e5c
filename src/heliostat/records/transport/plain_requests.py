"""Produce requests with batches of compiled code, encoded and answered by compiled code.

Formats: `heliostat.clusters.wire.produce`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import types

from heliostat.clusters.wire import produce
from heliostat.clusters.wire.primitives import compact_string, number_whole, whole_head
from heliostat.clusters.wire.scan import after_tags, number_at, put_number, uvarint_at
from heliostat.errors import ProtocolError
from heliostat.ops.compiled import compiled, inlined
from heliostat.records.batches.compiled_bytes import BYTES, copy_bytes
from heliostat.records.copier import plain_sends as sent
from heliostat.records.copier.lane import PartitionSpec
from heliostat.records.copier.network import PlainSends
from heliostat.records.copier.plain_sends import INDEX, LANDED_AT

TOPIC, NUMBER = range(2)
"""Columns of a partition's target: which of the topics, and its number there."""
ID_BYTES = 16
NO_ERRORS, NO_MESSAGE = 1, 0
_FIXED_BYTES = 30
"""A partition's answer before its errors: number, error, base offset, append time, log start."""
_INT = types.int64
_OUT = types.uint8[::1]
_ROWS = types.int64[:, ::1]


@inlined(_INT(_OUT, _INT, _INT))
def _put_uvarint(out: Any, at: int, value: int) -> Any:
    while value > 127:
        out[at] = np.uint8(value & 127 | 128)
        value >>= 7
        at += 1
    out[at] = np.uint8(value)
    return at + 1


@compiled(_INT(_OUT, _INT, _ROWS, BYTES, BYTES, _ROWS, _ROWS), makes_arrays=True)
def _encode(  # noqa: PLR0917 - compiled without keywords
    out: Any, at: int, sends: Any, data: Any, keys: Any, key_ends: Any, targets: Any
) -> Any:
    """Write the list of topics of a request at `at`; return where it ends.

    `keys[key_ends[topic, 0]:key_ends[topic, 1]]` is the name or id of a topic as in requests; a
    name itself begins at `key_ends[topic, 2]`, after its length.
    """
    first = np.zeros(len(sends), np.uint8)
    topics = 0
    for number in range(len(sends)):
        is_first = True
        for before in range(number):
            if targets[sends[before, INDEX], TOPIC] == targets[sends[number, INDEX], TOPIC]:
                is_first = False
                break
        first[number] = is_first
        topics += is_first
    at = _put_uvarint(out, at, topics + 1)
    for number in range(len(sends)):
        if not first[number]:
            continue
        topic = targets[sends[number, INDEX], TOPIC]
        begin, end = key_ends[topic, 0], key_ends[topic, 1]
        copy_bytes(out, at, keys, begin, end - begin)
        at += end - begin
        count = 0
        for other in range(number, len(sends)):
            count += targets[sends[other, INDEX], TOPIC] == topic
        at = _put_uvarint(out, at, count + 1)
        for other in range(number, len(sends)):
            if targets[sends[other, INDEX], TOPIC] != topic:
                continue
            size = sends[other, sent.SIZE]
            put_number(out, at, 4, targets[sends[other, INDEX], NUMBER])
            at = _put_uvarint(out, at + 4, size + 1)
            copy_bytes(out, at, data, sends[other, sent.AT], size)
            out[at + size] = 0  # no tagged fields
            at += size + 1
        out[at] = 0
        at += 1
    out[at] = 0
    return at + 1


@inlined(_INT(_ROWS, _ROWS, BYTES, _INT, BYTES, _ROWS, _INT, _INT, _INT))
def _row_for(  # noqa: PLR0917 - compiled without keywords
    sends: Any,
    targets: Any,
    data: Any,
    topic_at: int,
    keys: Any,
    key_ends: Any,
    key_bytes: int,
    partition: int,
    guess: int,
) -> Any:
    """Return which of the sends a partition's answer belongs to, -1: none; `guess` comes first."""
    for step in range(len(sends)):
        number = (guess + step) % len(sends)
        index = sends[number, INDEX]
        if targets[index, NUMBER] != partition or sends[number, LANDED_AT] >= 0:
            continue
        end, name_at = key_ends[targets[index, TOPIC], 1], key_ends[targets[index, TOPIC], 2]
        if end - name_at != key_bytes:
            continue
        is_same = True
        for offset in range(key_bytes):
            if keys[name_at + offset] != data[topic_at + offset]:
                is_same = False
                break
        if is_same:
            return number
    return -1


@compiled(_INT(BYTES, _INT, types.boolean, _ROWS, BYTES, _ROWS, _ROWS))
def _decode(  # noqa: PLR0911, PLR0917 - compiled without keywords
    data: Any, at: int, by_id: bool, sends: Any, keys: Any, key_ends: Any, targets: Any
) -> Any:
    """Read an answer from `at` into the sends; return the throttle time (ms), -1: not all is plain.

    Plain is an answer for each send, without error, message, append time or tagged field.
    """
    at = after_tags(data, at)
    if at < 0:
        return -1
    topics, at = uvarint_at(data, at)
    found = 0
    for _ in range(topics - 1):
        key_bytes, topic_at = np.int64(ID_BYTES), at
        if at < 0:
            return -1
        if not by_id:
            key_bytes, topic_at = uvarint_at(data, at)
            key_bytes -= 1
        if topic_at < 0 or key_bytes < 0 or topic_at + key_bytes > len(data):
            return -1
        count, at = uvarint_at(data, topic_at + key_bytes)
        for _ in range(count - 1):
            if at < 0 or at + _FIXED_BYTES + 3 > len(data):
                return -1
            number = _row_for(
                *(sends, targets, data, topic_at, keys, key_ends, key_bytes),
                *(number_at(data, at, 4), found),
            )
            landed_at = number_at(data, at + 6, 8)
            if (
                number < 0
                or number_at(data, at + 4, 2) != 0
                or landed_at < 0
                or number_at(data, at + 14, 8) != -1
                or data[at + _FIXED_BYTES] != NO_ERRORS
                or data[at + _FIXED_BYTES + 1] != NO_MESSAGE
                or data[at + _FIXED_BYTES + 2] != 0
            ):
                return -1
            sends[number, LANDED_AT] = landed_at
            found += 1
            at += _FIXED_BYTES + 3
        at = after_tags(data, at)
        if at < 0:
            return -1
    if found != len(sends) or at < 0 or at + 4 > len(data):
        return -1
    return max(0, number_at(data, at, 4))


class PlainRequests:
    """Encodes requests for one connection, and reads their answers.

    Parameters
    ----------
    version, client_id
        Version of Produce, and who sends it.
    partitions
        Partitions of the lane, by index; there may be more later.
    timeout_ms
        How long the broker may wait for replicas.
    """

    def __init__(
        self, version: int, client_id: str, partitions: Sequence[PartitionSpec], timeout_ms: int
    ) -> None:
        self._by_id = version >= produce.BY_ID_FROM
        self._partitions = partitions
        self._head = whole_head(produce.API_KEY, version, client_id) + b"\x00"
        self._head += produce.ACKS_AND_TIMEOUT.pack(produce.ACKS_ALL, timeout_ms)
        self._keys = np.empty(0, np.uint8)
        self._key_ends = np.zeros((0, 3), np.int64)
        self._targets = np.zeros((0, 2), np.int64)
        self._room = np.empty(0, np.uint8)

    def encode(self, correlation_id: int, sends: PlainSends) -> memoryview:
        """Return a whole request, which stays unchanged until the next one is encoded."""
        if len(self._targets) < len(self._partitions):
            self._learn()
        rows, begin = sends.rows, len(self._head)
        size = sends.filled + begin + len(self._keys)
        size += (len(rows) + 1) * produce.PARTITION_BYTES_MAX
        if len(self._room) < size:
            self._room = np.empty(2 * size, np.uint8)
            self._room.data[:begin] = self._head
        end = _encode(
            *(self._room, begin, rows, sends.data, self._keys, self._key_ends, self._targets)
        )
        request = self._room.data[:end]
        number_whole(request, correlation_id)
        return request

    def leave_room(self) -> None:
        """Use another buffer for the next request: the last one is not sent yet."""
        self._room = np.empty(0, np.uint8)

    def decode(self, answer: memoryview, rows: Any) -> int:
        """Note where each append landed; return the throttle time (ms), -1: it is not plain."""
        data = np.frombuffer(answer, np.uint8)
        found: int = _decode(
            *(data, 4, self._by_id, rows, self._keys, self._key_ends, self._targets)
        )
        return found

    def _learn(self) -> None:
        keys, ends, targets = bytearray(), [], []
        topics: dict[bytes, int] = {}
        """By what names them in a request: a recreated topic has the old name and another id."""
        for spec in self._partitions:
            key = self._key_of(spec)
            if key not in topics:
                topics[key] = len(topics)
                begin = len(keys)
                keys += key
                name_bytes = ID_BYTES if self._by_id else len(spec.target.topic.encode())
                ends.append((begin, len(keys), len(keys) - name_bytes))
            targets.append((topics[key], spec.target.partition))
        self._keys = np.frombuffer(bytes(keys), np.uint8)
        self._key_ends = np.array(ends, np.int64)
        self._targets = np.array(targets, np.int64)

    def _key_of(self, spec: PartitionSpec) -> bytes:
        if not self._by_id:
            return compact_string(spec.target.topic)
        if spec.target_topic_id is None:
            raise ProtocolError("produce v13 needs a topic id", topic=spec.target.topic)
        return spec.target_topic_id.bytes
