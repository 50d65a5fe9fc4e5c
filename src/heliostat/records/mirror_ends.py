"""Whether the source holds the very records that mirrors end with, and how old others are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from aiokafka.errors import KafkaError as CodecError
from aiokafka.record.default_records import DefaultRecordBatch

from heliostat.names import Offset
from heliostat.records.batch import HEADER, MAGIC, MAGIC_AT, BatchHeader
from heliostat.records.network import LogRange, MirrorEnd, SourceSays
from heliostat.records.single_batches import Batches

STEPS_MAX = 8
"""Batches looked at from the target's end on for one with records: behind a transaction stands its
marker, and behind several open ones as many."""
Read = Callable[[Mapping[int, Offset]], Batches]
"""Reads batches that hold these offsets, as `read_batches`."""
NOTHING_TO_TELL = SourceSays(None, -1)


class _Record(NamedTuple):
    offset: int
    what: tuple[int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]
    """Time, key, value, headers: all that a reader sees but the offset."""


@dataclass(slots=True)
class _Looked:
    """How far the look for the target's last record has come."""

    at: Offset
    record: _Record | None = None


def compare_ends(
    ends: Mapping[int, MirrorEnd], read_target: Read, read_source: Read
) -> dict[int, SourceSays]:
    """Whether the source has what these mirrors end with; see `Network.compare_ends`."""
    found: dict[int, SourceSays] = {}
    looked = {index: _Looked(Offset(end.target.end - 1)) for index, end in ends.items()}
    left = set(looked)
    for _ in range(STEPS_MAX):
        left = {index for index in left if _goes_on(looked[index], ends[index].target)}
        if not left:
            break
        batches = read_target({index: looked[index].at for index in sorted(left)})
        for index in left - batches.keys():
            del looked[index]
        left &= batches.keys()
        for index in left:
            looked[index] = _last_record(batches[index], looked[index].at)
    wanted = {
        index: ends[index].known.source_of(each.record.offset)
        for index, each in looked.items()
        if each.record is not None
    }
    found |= {index: NOTHING_TO_TELL for index, each in looked.items() if each.record is None}
    for index, batch in read_source(wanted).items() if wanted else ():
        found[index] = _compared(looked[index].record, batch, wanted[index])
    return found


def times_at(places: Mapping[int, Offset], read_source: Read) -> dict[int, int]:
    """Times in ms of the records at these source offsets, or of the next ones behind them."""
    found: dict[int, int] = {}
    for index, batch in read_source(places).items() if places else ():
        if batch and batch[MAGIC_AT] == MAGIC:
            there = (each for each in _records(batch) if each.offset >= places[index])
            first = next(there, None)
            if first is not None:
                found[index] = first.what[0]
    return found


def _goes_on(looked: _Looked, target: LogRange) -> bool:
    return looked.record is None and looked.at >= target.start


def _last_record(batch: bytes | None, at: Offset) -> _Looked:
    """The last record of a batch that is not behind `at`; else where to look before it."""
    nothing = _Looked(Offset(-1))
    if not batch or batch[MAGIC_AT] != MAGIC:
        return nothing
    header = BatchHeader._make(HEADER.unpack_from(batch))
    if header.is_control:
        return _Looked(Offset(header.base_offset - 1))
    records = [record for record in _records(batch) if record.offset <= at]
    return _Looked(at, records[-1]) if records else nothing


def _compared(record: _Record | None, batch: bytes | None, offset: Offset) -> SourceSays:
    if record is None or not batch or batch[MAGIC_AT] != MAGIC:
        return NOTHING_TO_TELL
    header = BatchHeader._make(HEADER.unpack_from(batch))
    there = [] if header.is_control else _records(batch)
    same = [each for each in there if each.offset == offset]
    if not same:
        return NOTHING_TO_TELL  # compacted or deleted since, or a marker now
    return SourceSays(same[0].what == record.what, header.leader_epoch)


def _records(batch: bytes) -> list[_Record]:
    try:
        return [
            _Record(each.offset, (each.timestamp, each.key, each.value, tuple(each.headers)))
            for each in DefaultRecordBatch(batch)
        ]
    except (CodecError, ValueError, IndexError, RuntimeError, MemoryError):
        return []  # damaged: it tells nothing
