"""Compares the last records of mirrors with the source's, and reads records' timestamps."""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping
from itertools import islice
from typing import NamedTuple, Protocol

from aiokafka.errors import KafkaError as CodecError
from aiokafka.record.default_records import DefaultRecordBatch

from heliostat.errors import BatchError
from heliostat.framed_ids import headers_without_ids, without_id
from heliostat.names import Offset
from heliostat.records.batches.aborted import ABORT, marker_type
from heliostat.records.batches.batch import HEADER, HEADER_BYTES, MAGIC, MAGIC_AT, BatchHeader
from heliostat.records.copier.network import MirrorEnd, SourceSays
from heliostat.records.rows.row_names import CHANGEABLE
from heliostat.records.transport.single_batches import STRETCH_BYTES, Batches, each_batch

STEPS_MAX = 8
"""Batches with records searched from the target's end back for one that the source still has:
compaction removes what a later record replaced."""
STRETCHES_MAX = 64
"""Most stretches read where a mirror has no record, or to find the last record left of doubted
ones; enough for 200,000 markers."""
STRIDE_FACTOR = 16
RECORDS_MAX = 8
"""Records of a batch compared, counted from its end: the first, second, fourth and so on."""
NOTHING_TO_TELL = SourceSays(None, -1)
OFFSET = struct.Struct(">q")
"""The first field of a batch, and of a message of an older format."""


class Read(Protocol):
    """Reads batches that hold given offsets, as `read_batches` does."""

    def __call__(self, places: Mapping[int, Offset], room: int = ..., /) -> Batches:
        """Read one batch of each partition; `room`: bytes to read, following batches included."""
        ...


class _Record(NamedTuple):
    offset: int
    what: tuple[int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]
    """`CHANGEABLE`: all that a reader sees except the offset."""


def compare_ends(
    ends: Mapping[int, MirrorEnd], read_target: Read, read_source: Read
) -> dict[int, SourceSays]:
    """Return whether the source has the last records of these mirrors; see `Network.compare_ends`.

    A mirror without a record among the doubted offsets (as after a transaction's last record, whose
    marker is a hole in the mirror) passes if the source has no record there either.
    """
    found = _by_last_records(ends, read_target, read_source)
    is_open = {index for index, says in found.items() if says.has_them is None}
    asked = {index: ends[index] for index in is_open if ends[index].asks_map}
    answers = {index: says for index, says in found.items() if index not in asked}
    return answers | _by_what_is_left(asked, read_target, read_source)


def _by_last_records(
    ends: Mapping[int, MirrorEnd], read_target: Read, read_source: Read
) -> dict[int, SourceSays]:
    found: dict[int, SourceSays] = {}
    at = {index: Offset(end.target.end - 1) for index, end in ends.items()}
    passed: set[int] = set()
    held: set[int] = set()
    """Partitions whose mirrors have, or may have, a doubted record."""
    bare: dict[int, MirrorEnd] = {}
    marked: set[int] = set()
    """Partitions whose mirrors end in markers, where the source may have a later leader epoch."""
    for _ in range(STEPS_MAX):
        over = {index for index in at if not _is_doubted(ends[index], at[index])}
        found |= dict.fromkeys(over, NOTHING_TO_TELL)
        bare |= {index: ends[index] for index in over - held if _is_bare(ends[index], at[index])}
        at = {index: offset for index, offset in at.items() if index not in over}
        if not at:
            break
        batches = read_target(at)
        records: dict[int, list[_Record]] = {}
        for index, batch in batches.items():
            records[index], following = _records_before(batch, at[index])
            at[index] = following
        bare_at = {index: at[index] for index, batch in batches.items() if _has_none(batch)}
        held |= batches.keys() - bare_at.keys()
        at |= _after_markers(bare_at, ends, read_target)
        answers = _compared_each(ends, records, read_source, passed)
        passed |= {index for index, some in records.items() if some}
        found |= {
            index: says._replace(is_last=False) if says.has_them and index in marked else says
            for index, says in answers.items()
            if says is not None
        }
        marked |= bare_at.keys()
        at = {index: at[index] for index in answers if index not in found}
    found |= dict.fromkeys(at, NOTHING_TO_TELL)
    thinned = {index for index in bare if ends[index].kept is not None}
    found |= dict.fromkeys(thinned, SourceSays(True, -1))  # a pipeline may have left all of it out
    bare = {index: end for index, end in bare.items() if index not in thinned}
    by_records = {index: says for index, says in found.items() if index not in bare}
    return by_records | _compare_bare(bare, read_source)


def _after_markers(
    at: Mapping[int, Offset], ends: Mapping[int, MirrorEnd], read_target: Read
) -> dict[int, Offset]:
    """Return offsets, at `at` or before, after which these mirrors have only markers.

    Where a mirror can't be read now, its value is the last offset reached.
    """
    runs = {index: _Markers(ends[index].target.start, top) for index, top in at.items()}
    left = {index: run for index, run in runs.items() if not run.is_over}
    for _ in range(STRETCHES_MAX):
        if not left:
            break
        stretches = read_target({index: run.at for index, run in left.items()}, STRETCH_BYTES)
        for index, stretch in stretches.items():
            left[index].take(stretch)
        left = {index: left[index] for index in stretches if not left[index].is_over}
    return {index: run.top for index, run in runs.items()}


class _Markers:
    """A run of markers without records, read backwards in growing strides.

    A filled mirror has one for each record of an aborted transaction.

    Parameters
    ----------
    start
        Log start offset.
    top
        Offset after which the log has only markers.
    """

    def __init__(self, start: Offset, top: Offset) -> None:
        self.top = top
        self.at = top
        """Offset to read next."""
        self.is_over = False
        """Whether `top` is the offset of the last record, or before the log start."""
        self._start = start
        self._stride = 1
        self._last: Offset | None = None
        self._step_back()

    def take(self, stretch: bytes | None) -> None:
        """Process the batches read at `at`."""
        following = int(self.at)
        for batch in each_batch(stretch or b""):
            base, following = _span(batch)
            if base <= self.top and not _has_none(batch):
                self._last = Offset(min(self.top, following - 1))
        if self.at < following <= self.top:
            self.at = Offset(following)
        elif self._last is not None:
            self.top, self.is_over = self._last, True
        elif not stretch:
            self.is_over = True  # the log has changed since, as the next read will show
        else:
            self.top = Offset(self.top - self._stride)
            self._step_back()

    def _step_back(self) -> None:
        self.is_over = self.top < self._start
        self._stride *= STRIDE_FACTOR
        self.at = Offset(max(self._start, self.top - self._stride + 1))


def _compare_bare(ends: Mapping[int, MirrorEnd], read_source: Read) -> dict[int, SourceSays]:
    """Return whether the source has no records either at the doubted offsets of these mirrors."""
    found: dict[int, SourceSays] = {}
    left = {index: _Hole(end.source, end.doubted_from) for index, end in ends.items()}
    for _ in range(STRETCHES_MAX):
        if not left:
            break
        batches = read_source({index: hole.at for index, hole in left.items()}, STRETCH_BYTES)
        answers = {index: left[index].take(batch) for index, batch in batches.items()}
        found |= {index: says for index, says in answers.items() if says is not None}
        left = {index: left[index] for index, says in answers.items() if says is None}
    return found | dict.fromkeys(left, NOTHING_TO_TELL)


class _Hole:
    """Source offsets at which a mirror has no record, read batch by batch.

    Parameters
    ----------
    end
        First source offset after the hole.
    at
        Source offset to read next.
    """

    def __init__(self, end: Offset, at: Offset) -> None:
        self.at = at
        self._end = end
        self._epoch = -1
        self._open: dict[int, int] = {}
        """Leader epochs by producer of an open transaction: if aborted, its records don't count."""

    def take(self, stretch: bytes | None) -> SourceSays | None:
        """Process the batches read at `at`; return the result, or None to read on."""
        if not stretch:
            return NOTHING_TO_TELL
        says = (self._take(batch) for batch in each_batch(stretch))
        return next((each for each in says if each is not None), None)

    def _take(self, batch: bytes) -> SourceSays | None:
        if batch[MAGIC_AT] != MAGIC:
            return NOTHING_TO_TELL
        header = BatchHeader._make(HEADER.unpack_from(batch))
        is_within = header.base_offset < self._end
        if is_within:
            self._epoch = header.leader_epoch
        if header.is_control and header.producer_id in self._open:
            epoch = self._open.pop(header.producer_id)
            try:
                if marker_type(batch, HEADER_BYTES, len(batch)) != ABORT:
                    return SourceSays(False, epoch)
            except BatchError:
                return NOTHING_TO_TELL
        elif is_within and not _has_none(batch) and _may_have(batch, self.at, self._end):
            if not header.is_transactional:
                return SourceSays(False, header.leader_epoch)
            self._open[header.producer_id] = header.leader_epoch
        self.at = Offset(header.next_offset)
        is_over = self.at >= self._end and not self._open
        return SourceSays(True, self._epoch) if is_over else None


def _is_bare(end: MirrorEnd, offset: Offset) -> bool:
    """Whether all doubted offsets could be read, and the doubt is about the source."""
    is_whole = end.known.source_of(end.target.start) <= end.doubted_from
    return (is_whole or offset >= end.target.start) and not end.asks_map


def _has_none(batch: bytes | None) -> bool:
    """Whether a batch is valid and holds no record that a reader sees."""
    if not batch or batch[MAGIC_AT] != MAGIC:
        return False
    header = BatchHeader._make(HEADER.unpack_from(batch))
    return header.is_control or header.records_count == 0


def _may_have(batch: bytes, first: int, end: int) -> bool:
    """Whether a batch has a record in `[first, end)`; True also if its records can't be read."""
    records = _records(batch)
    return not records or any(first <= each.offset < end for each in records)


def _by_what_is_left(
    ends: Mapping[int, MirrorEnd], read_target: Read, read_source: Read
) -> dict[int, SourceSays]:
    """Compare the last record that the source still has of the doubted ones: the others are gone.

    If the source has none left, none can be missing. What it has where the map has a hole was
    aborted: compaction brings no record back.
    """
    at = {index: Offset(end.doubted_from) for index, end in ends.items()}
    last: dict[int, _Record] = {}
    for _ in range(STRETCHES_MAX):
        wanted = {index: place for index, place in at.items() if place < ends[index].source}
        if not wanted:
            break
        batches = read_source(wanted)
        for index in wanted.keys() - batches.keys():
            del at[index]
            last.pop(index, None)
        for index, stretch in batches.items():
            for batch in each_batch(stretch) if stretch else (None,):
                there, at[index] = _records_from(batch, at[index], ends[index].source)
                held = [each for each in there if ends[index].known.holds(each.offset)]
                last |= {index: held[-1]} if held else {}
    found = {index: NOTHING_TO_TELL for index in at if index not in last}
    places = {index: ends[index].known.target_of(each.offset) for index, each in last.items()}
    for index, batch in read_target(places).items() if places else ():
        ours = last[index]._replace(offset=places[index])
        says = _compared(ours, batch, places[index], ends[index])
        found[index] = says._replace(epoch=-1)
    return found


def _compared_each(
    ends: Mapping[int, MirrorEnd],
    records: Mapping[int, list[_Record]],
    read_source: Read,
    passed: Collection[int],
) -> dict[int, SourceSays | None]:
    """Compare some of these records with the source's, the last ones first.

    None where the source has none of them: compaction removed them. Where its log does not reach a
    record, no earlier ones are compared, as they don't show what it lost; but they do show whether
    a map is right. Partitions that can't be read now are missing.
    Of an equal record the epoch is given only if it is the mirror's very last one, so never for
    those in `passed`; of another record always: what it replaced was of an earlier one.
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
            says = _compared(some[-back], batches[index], wanted[index], ends[index])
            is_out = not batches[index] and not ends[index].asks_map
            if says.has_them is not None or is_out:
                is_last = power == 0 and index not in passed
                keeps_epoch = is_last or says.has_them is False
                found[index] = says if keeps_epoch else says._replace(epoch=-1)
        left = {index: some for index, some in left.items() if found[index] is None}
    return found


def _is_doubted(end: MirrorEnd, offset: Offset) -> bool:
    """Whether a target offset is still in the log, and among the doubted ones."""
    return offset >= end.target.start and end.known.source_of(offset) >= end.doubted_from


def times_at(places: Mapping[int, Offset], read_source: Read) -> dict[int, int]:
    """Return timestamps (ms) of the records at these source offsets, or of the next ones."""
    found: dict[int, int] = {}
    for index, batch in read_source(places).items() if places else ():
        if batch and batch[MAGIC_AT] == MAGIC:
            there = (each for each in _records(batch) if each.offset >= places[index])
            first = next(there, None)
            if first is not None:
                found[index] = first.what[0]
    return found


def _span(batch: bytes) -> tuple[int, int]:
    """Return a batch's first offset and its next offset; for older formats the message's own."""
    if batch[MAGIC_AT] != MAGIC:
        (offset,) = OFFSET.unpack_from(batch)
        return offset, offset + 1
    header = BatchHeader._make(HEADER.unpack_from(batch))
    return header.base_offset, header.next_offset


def _records_before(batch: bytes | None, at: Offset) -> tuple[list[_Record], Offset]:
    """Return a batch's records up to `at`, and the last offset before the batch."""
    if (opened := _opened(batch)) is None:
        return [], Offset(-1)
    header, records = opened
    return [each for each in records if each.offset <= at], Offset(header.base_offset - 1)


def _records_from(batch: bytes | None, start: Offset, end: Offset) -> tuple[list[_Record], Offset]:
    """Return a batch's records in `[start, end)`, and the next offset after the batch."""
    if (opened := _opened(batch)) is None:
        return [], end
    header, records = opened
    there = [each for each in records if start <= each.offset < end]
    return there, Offset(header.next_offset)


def _compared(record: _Record, batch: bytes | None, offset: Offset, end: MirrorEnd) -> SourceSays:
    if (opened := _opened(batch)) is None:
        return NOTHING_TO_TELL
    header, there = opened
    same = [each for each in there if each.offset == offset]
    if not same:
        return NOTHING_TO_TELL  # compacted or deleted since, or a marker now
    one, other = (_shown(each, end) for each in (same[0], record))
    return SourceSays(one == other, header.leader_epoch)


def _shown(record: _Record, end: MirrorEnd) -> list[object]:
    """Return what is compared of a record: what the mirror has as the source."""
    time, key, value, headers = record.what
    shown = (time, key, value, headers)
    if end.hides_ids:
        shown = time, without_id(key), without_id(value), headers_without_ids(headers)
    kept = CHANGEABLE if end.kept is None else end.kept
    return [each for each, column in zip(shown, CHANGEABLE, strict=True) if column in kept]


def _opened(batch: bytes | None) -> tuple[BatchHeader, list[_Record]] | None:
    """Return a batch's header and the records that readers see; None if not of format v2."""
    if not batch or batch[MAGIC_AT] != MAGIC:
        return None
    header = BatchHeader._make(HEADER.unpack_from(batch))
    return header, [] if header.is_control else _records(batch)


def _records(stretch: bytes) -> list[_Record]:
    """Return the records of the first batch."""
    try:
        return [
            _Record(each.offset, (each.timestamp, each.key, each.value, tuple(each.headers)))
            for batch in islice(each_batch(stretch), 1)
            for each in DefaultRecordBatch(batch)
        ]
    except (CodecError, ValueError, IndexError, RuntimeError, MemoryError):
        return []  # damaged: it proves nothing
