"""Messages in the formats of Kafka before 0.11 (magic 0 and 1), which lie in old segments.

Brokers return them as they are stored; since 4.0 nothing converts them (KIP-724), and brokers take
nothing but record batches of today. They are read by kafka-python's codec.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kafka.record.legacy_records import LegacyRecordBatch

from heliostat.errors import BatchError
from heliostat.records.batch import MAGIC_AT, Codec, claimed_size
from heliostat.records.joining import SourceRecords
from heliostat.records.varints import varint

OLD_MAGICS = (0, 1)
RECORDS_AT_ONCE_MAX = 5_000
"""Of one new batch before it is split to size."""
BYTES_AT_ONCE_MAX = 512 * 1024
NO_TIMESTAMP = -1
"""What readers see of a message of magic 0."""
_ATTRIBUTES_AT = 17
_CODECS = {0: Codec.NONE, 1: Codec.GZIP, 2: Codec.SNAPPY, 3: Codec.LZ4}
_NULL = varint(-1)
_NO_HEADERS = varint(0)


@dataclass(frozen=True, slots=True)
class OldRun:
    """Messages encoded as records of today, in order of their offsets."""

    records: SourceRecords
    codec: Codec
    """How they were compressed."""
    base_offset: int
    """What their offset deltas count from."""
    deltas: int
    """One more than the last delta."""


@dataclass(frozen=True, slots=True)
class OldMessages:
    """What stands in an answer in an old format."""

    runs: Sequence[OldRun]
    next_offset: int
    """Source offset behind them."""
    end: int
    """Where in the data the first byte stands that is not theirs."""


class _Message(NamedTuple):
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


@dataclass(slots=True)
class _Run:
    codec: Codec
    base_offset: int
    base_timestamp: int
    body: bytearray
    count: int = 0
    last_offset: int = -1


def read_old(view: memoryview, at: int, end: int, position: int) -> OldMessages:
    """Read the messages of old formats that stand at `at` one behind the other.

    Parameters
    ----------
    view, at, end
        The answer's bytes; the last message may be cut.
    position
        First offset that is wanted; what lies before is left out.

    Raises
    ------
    BatchError
        A message is not sound.
    """
    runs: list[_Run] = []
    next_offset = position
    while end - at > _ATTRIBUTES_AT and view[at + MAGIC_AT] in OLD_MAGICS:
        size = claimed_size(view, at, end)
        if size is None or size <= _ATTRIBUTES_AT:
            raise BatchError("a message claims to be shorter than its header")
        if at + size > end:
            break
        codec = _CODECS.get(view[at + _ATTRIBUTES_AT] & 7)
        if codec is None:
            raise BatchError("a message's codec is not known")
        for message in _messages(view[at : at + size]):
            if message.offset >= next_offset:
                _add(runs, codec, message)
                next_offset = message.offset + 1
        at += size
    else:
        return _done(runs, next_offset, at)
    return _done(runs, next_offset, end)  # the rest is cut and comes with the next fetch


def _messages(data: memoryview) -> list[_Message]:
    """A message, or those packed in it."""
    try:
        batch = LegacyRecordBatch(bytes(data), data[MAGIC_AT])
        is_sound = batch.validate_crc()
        found = [
            _Message(
                record.offset,
                NO_TIMESTAMP if record.timestamp is None else record.timestamp,
                record.key,
                record.value,
            )
            for record in batch
        ]
    except Exception as error:  # whatever the codec makes of damaged bytes
        raise BatchError("a message of an old format can't be read", why=str(error)) from error
    if not is_sound:
        raise BatchError("a message's checksum does not fit its bytes")
    return found


def _add(runs: list[_Run], codec: Codec, message: _Message) -> None:
    offset, timestamp, key, value = message
    run = runs[-1] if runs else None
    if (
        run is None
        or run.codec is not codec
        or run.count >= RECORDS_AT_ONCE_MAX
        or len(run.body) >= BYTES_AT_ONCE_MAX
    ):
        run = _Run(codec, offset, timestamp, bytearray())
        runs.append(run)
    rest = varint(timestamp - run.base_timestamp) + varint(offset - run.base_offset)
    rest += _sized(key) + _sized(value) + _NO_HEADERS
    run.body += varint(1 + len(rest)) + b"\0" + rest
    run.count += 1
    run.last_offset = offset


def _sized(content: bytes | None) -> bytes:
    return _NULL if content is None else varint(len(content)) + content


def _done(runs: list[_Run], next_offset: int, end: int) -> OldMessages:
    found = [
        OldRun(
            SourceRecords(bytes(run.body), run.count, run.base_timestamp, None, is_sparse=True),
            run.codec,
            run.base_offset,
            run.last_offset - run.base_offset + 1,
        )
        for run in runs
    ]
    return OldMessages(found, next_offset, end)
