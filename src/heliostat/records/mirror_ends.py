"""Whether the source holds the very records that mirrors end with, and how old others are."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from aiokafka.errors import KafkaError as CodecError
from aiokafka.record.default_records import DefaultRecordBatch

from heliostat.names import Offset
from heliostat.records.batch import HEADER, MAGIC, MAGIC_AT, BatchHeader
from heliostat.records.network import MirrorEnd, SourceSays
from heliostat.records.single_batches import Batches

STEPS_MAX = 8
"""Batches looked at from the target's end on for one with records that the source still has: behind
a transaction stands its marker, and a cleaner takes what was written again."""
RECORDS_MAX = 8
"""Of a batch, from its last one back: the first, second, fourth and so on."""
Read = Callable[[Mapping[int, Offset]], Batches]
"""Reads batches that hold these offsets, as `read_batches`."""
NOTHING_TO_TELL = SourceSays(None, -1)


class _Record(NamedTuple):
    offset: int
    what: tuple[int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]
    """Time, key, value, headers: all that a reader sees but the offset."""


def compare_ends(
    ends: Mapping[int, MirrorEnd], read_target: Read, read_source: Read
) -> dict[int, SourceSays]:
    """Whether the source has what these mirrors end with; see `Network.compare_ends`."""
    found: dict[int, SourceSays] = {}
    at = {index: Offset(end.target.end - 1) for index, end in ends.items()}
    passed: set[int] = set()
    for _ in range(STEPS_MAX):
        over = {index for index in at if not _is_doubted(ends[index], at[index])}
        found |= dict.fromkeys(over, NOTHING_TO_TELL)
        at = {index: offset for index, offset in at.items() if index not in over}
        if not at:
            return found
        batches = read_target(at)
        records: dict[int, list[_Record]] = {}
        for index, batch in batches.items():
            records[index], following = _records_before(batch, at[index])
            at[index] = following
        told = _compared_each(ends, records, read_source, passed)
        passed |= {index for index, some in records.items() if some}
        found |= {index: says for index, says in told.items() if says is not None}
        at = {index: at[index] for index in told if index not in found}
    return found | dict.fromkeys(at, NOTHING_TO_TELL)


def _compared_each(
    ends: Mapping[int, MirrorEnd],
    records: Mapping[int, list[_Record]],
    read_source: Read,
    passed: Collection[int],
) -> dict[int, SourceSays | None]:
    """What the source says of some of these, the last ones first; those that it answers for.

    None where it still has none of them: a cleaner took what was written again. Where its log does
    not reach so far nothing more is asked: what stands before tells nothing of what it lost.
    The epoch of one before the last, as of those with some `passed`, is not that of what the mirror
    ends with.
    """
    found: dict[int, SourceSays | None] = dict.fromkeys(records)
    left = {index: some for index, some in records.items() if some}
    for power in range(RECORDS_MAX):
        back = 2**power
        left = {
            index: some
            for index, some in left.items()
            if back <= len(some) and _is_doubted(ends[index], some[-back].offset)
        }
        if not left:
            break
        wanted = {
            index: ends[index].known.source_of(some[-back].offset) for index, some in left.items()
        }
        batches = read_source(wanted)
        for index in left.keys() - batches.keys():
            found.pop(index, None)
        left = {index: some for index, some in left.items() if index in batches}
        for index, some in left.items():
            says = _compared(some[-back], batches[index], wanted[index])
            if says.has_them is not None or not batches[index]:
                is_last = power == 0 and index not in passed
                found[index] = says if is_last else says._replace(epoch=-1)
        left = {index: some for index, some in left.items() if found[index] is None}
    return found


def _is_doubted(end: MirrorEnd, offset: Offset) -> bool:
    """Whether a target offset is still there, and one that tells something."""
    return offset >= end.target.start and end.known.source_of(offset) >= end.doubted_from


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


def _records_before(batch: bytes | None, at: Offset) -> tuple[list[_Record], Offset]:
    """Records of a batch that are not behind `at`, and where to look before it."""
    if not batch or batch[MAGIC_AT] != MAGIC:
        return [], Offset(-1)
    header = BatchHeader._make(HEADER.unpack_from(batch))
    records = [] if header.is_control else _records(batch)
    return [each for each in records if each.offset <= at], Offset(header.base_offset - 1)


def _compared(record: _Record, batch: bytes | None, offset: Offset) -> SourceSays:
    if not batch or batch[MAGIC_AT] != MAGIC:
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
