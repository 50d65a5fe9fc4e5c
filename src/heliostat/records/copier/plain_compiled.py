"""Plain partitions' answers, taken whole by compiled code: no object for a batch or a record.

I1  Each batch names the target offset it expects as its sequence; where it landed is compared.
I5  Records of one batch are not touched, those of several go through `join_plain`; schema ids may
    be replaced by the target's (`replaced_ids`).
I6  A batch is taken only if it begins at the offset that was asked for.
I8  A batch is taken only if all its schema ids can be read at the target.

What is not plain is left to the objects, in the same answer (docs/adr/0020). A property test
compares both ways to the byte. Rules for compiled loops: see `reencode`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import types

from heliostat.clusters.wire import scan
from heliostat.clusters.wire.scan import number_at, put_number
from heliostat.invariants import SEQUENCE_MODULUS
from heliostat.ops.compiled import compiled, inlined
from heliostat.ops.latency import BUCKETS, BUCKETS_PER_DOUBLING, LIVE_WITHIN_MS
from heliostat.records.batches.batch import (
    CODEC_BITS,
    CODECS,
    CONTROL_BIT,
    CRC_FROM,
    HEADER_BYTES,
    LENGTH_ENDS_AT,
    LENGTH_MIN,
    LOG_APPEND_TIME_BIT,
    MAGIC,
    MAGIC_AT,
    OFFSET_MAX,
    RECORD_BYTES_MIN,
    TRANSACTIONAL_BIT,
)
from heliostat.records.batches.compiled_bytes import BYTES, copy_bytes, crc32c_compiled
from heliostat.records.batches.joining import JOIN_RECORDS_MAX
from heliostat.records.batches.reencode import (
    AT,
    BASE_TIMESTAMP,
    BATCH_FIELDS,
    BATCHES,
    FILLED,
    MAX_TIMESTAMP,
    NEVER_JOINED_BITS,
    RECORDS,
    join_plain,
)
from heliostat.records.batches.replaced_ids import put_ids
from heliostat.records.batches.schema_frames import ALL_OFFSETS, to_look_at
from heliostat.records.batches.schema_places import KNOWN
from heliostat.records.batches.varints import INT64_MIN
from heliostat.records.copier import cells as cell
from heliostat.records.copier import plain_sends as sent
from heliostat.records.copier.lane import SchemaFrames
from heliostat.records.copier.network import (
    ASKED_ATTEMPT,
    ASKED_BYTES,
    ASKED_EPOCH,
    ASKED_INDEX,
    ASKED_OFFSET,
)

PLAIN_BYTES_MAX = 64 * 1024
"""Largest answer of a partition that compiled code copies; for larger ones the kernel is passed
their buffers, and objects cost little beside their bytes."""
(
    PRODUCER_ID,
    IN_FLIGHT_MAX,
    QUEUED_BYTES_MAX,
    OLD_BEFORE_MS,
    ASKED_MS,
    NOW_MS,
    JOIN_BELOW_BYTES,
    JOIN_BYTES_MAX,
    REQUEST,
) = range(9)
"""Numbers that are the same for all partitions; times are of the wall clock. Records with older
timestamps than `OLD_BEFORE_MS` are not plain; `JOIN_BELOW_BYTES` is 0 where nothing is joined."""
GIVEN_FIELDS = 9
_NOT_PLAIN_BITS = LOG_APPEND_TIME_BIT | CONTROL_BIT | TRANSACTIONAL_BIT
_NOT_JOINED_BITS = NEVER_JOINED_BITS | TRANSACTIONAL_BIT
_KINDS = len(CODECS)
_VALUES, _KEYS = SchemaFrames.VALUES.value, SchemaFrames.KEYS.value
_MAYBE_VALUES, _REPLACED = SchemaFrames.MAYBE_VALUES.value, SchemaFrames.REPLACED.value
_INT = types.int64
_OUT = types.uint8[::1]
_ROWS = types.int64[:, ::1]
_ROW = types.int64[::1]


@inlined(types.boolean(_OUT, _INT, _INT, _INT, _INT, KNOWN, KNOWN))
def _put_ids(  # noqa: PLR0917 - compiled without keywords
    out: Any, at: int, end: int, count: int, frames: int, known: Any, targets: Any
) -> Any:
    """Put the target's ids into `count` records; return whether they are valid, if looked at.

    Records of which a GUID has to change are left to objects.
    """
    if frames & _REPLACED == 0 or len(targets) == 0:
        return True
    keys, values, no_guids = frames & _KEYS != 0, frames & _VALUES != 0, out[:0]
    return put_ids(out, at, end, count, known, targets, no_guids, keys, values, True) >= 0


@inlined(_INT(BYTES, _INT, _INT, _ROW, _ROW, _OUT, _INT, _ROW, KNOWN, KNOWN))
def _take_one(  # noqa: PLR0917 - compiled without keywords
    data: Any,
    start: int,
    end: int,
    cells: Any,
    given: Any,
    out: Any,
    at: int,
    row: Any,
    readable: Any,
    targets: Any,
) -> Any:
    """Patch the one batch of an answer into `out`; return its size, 0 if it is not plain."""
    size = end - start
    length = size - LENGTH_ENDS_AT
    attributes = number_at(data, start + CRC_FROM, 2)
    last, count = number_at(data, start + 23, 4), number_at(data, start + 57, 4)
    base = number_at(data, start, 8)
    if (
        data[start + MAGIC_AT] != MAGIC
        or length > cells[cell.BATCH_BYTES_MAX] - LENGTH_ENDS_AT
        or base != cells[cell.FETCH_OFFSET]
        or count < 1
        or count != last + 1
        or base > OFFSET_MAX - 1 - last
        or attributes & CODEC_BITS >= _KINDS
        or attributes & _NOT_PLAIN_BITS
        or (attributes & CODEC_BITS == 0 and count * RECORD_BYTES_MIN > length - LENGTH_MIN)
        or at + size > len(out)
    ):
        return 0
    target = cells[cell.NEXT_TARGET]
    copy_bytes(out, at, data, start, size)
    # By the difference between both batches: a damaged payload keeps a CRC that does not match.
    before = crc32c_compiled(out, at + CRC_FROM, at + size)
    put_number(out, at, 8, 0)
    put_number(out, at + 12, 4, -1)
    put_number(out, at + CRC_FROM, 2, attributes & CODEC_BITS)
    put_number(out, at + 43, 8, given[PRODUCER_ID])
    put_number(out, at + 51, 2, 0)
    put_number(out, at + 53, 4, target % SEQUENCE_MODULUS)
    begin, frames = at + HEADER_BYTES, cells[cell.FRAMES]
    if not _put_ids(out, begin, at + size, count, frames, readable, targets):
        return 0
    after = crc32c_compiled(out, at + CRC_FROM, at + size)
    stored = np.uint32(number_at(data, start + 17, 4) & 0xFFFFFFFF)
    put_number(out, at + 17, 4, np.int64(stored ^ before ^ after))
    row[sent.COUNT] = count
    row[sent.MAX_TIMESTAMP] = number_at(data, start + 35, 8)
    return size


@inlined(_INT(BYTES, _INT, _INT, _INT))
def _has_epoch(data: Any, start: int, end: int, epoch: int) -> Any:
    """Return whether whole batches fill `data[start:end]`, all of this leader epoch."""
    at = start
    while at < end:
        if end - at < HEADER_BYTES or number_at(data, at + 12, 4) != epoch:
            return 0
        length = number_at(data, at + 8, 4)
        if length < LENGTH_MIN:
            return 0
        at += LENGTH_ENDS_AT + length
    return at == end


@compiled(
    _INT(BYTES, _INT, _INT, _ROW, _ROW, _OUT, _INT, _ROW, _ROW, KNOWN, KNOWN), makes_arrays=True
)
def _take_several(  # noqa: PLR0917 - compiled without keywords
    data: Any,
    start: int,
    end: int,
    cells: Any,
    given: Any,
    out: Any,
    at: int,
    row: Any,
    no_deltas: Any,
    readable: Any,
    targets: Any,
) -> Any:
    """Join all batches of an answer in `out`; return the new one's size, 0: they are not plain."""
    room = min(given[JOIN_BYTES_MAX], cells[cell.BATCH_BYTES_MAX], len(out) - at) - HEADER_BYTES
    if given[JOIN_BELOW_BYTES] <= 0 or room <= 0:
        return 0
    fields = np.zeros(BATCH_FIELDS, np.int64)
    fields[MAX_TIMESTAMP] = INT64_MIN
    fields[AT] = start
    body = at + HEADER_BYTES
    join_plain(
        data,
        end,
        cells[cell.FETCH_OFFSET],
        given[JOIN_BELOW_BYTES],
        JOIN_RECORDS_MAX,
        _NOT_JOINED_BITS,
        out[body : body + room],
        fields,
        no_deltas,
    )
    if fields[AT] != end or fields[BATCHES] < 2:
        return 0
    count, size = fields[RECORDS], HEADER_BYTES + fields[FILLED]
    if not _put_ids(out, body, at + size, count, cells[cell.FRAMES], readable, targets):
        return 0
    put_number(out, at, 8, 0)
    put_number(out, at + 8, 4, size - LENGTH_ENDS_AT)
    put_number(out, at + 12, 4, -1)
    out[at + MAGIC_AT] = MAGIC
    put_number(out, at + CRC_FROM, 2, 0)
    put_number(out, at + 23, 4, count - 1)
    put_number(out, at + 27, 8, fields[BASE_TIMESTAMP])
    put_number(out, at + 35, 8, fields[MAX_TIMESTAMP])
    put_number(out, at + 43, 8, given[PRODUCER_ID])
    put_number(out, at + 51, 2, 0)
    put_number(out, at + 53, 4, cells[cell.NEXT_TARGET] % SEQUENCE_MODULUS)
    put_number(out, at + 57, 4, count)
    put_number(out, at + 17, 4, np.int64(crc32c_compiled(out, at + CRC_FROM, at + size)))
    row[sent.COUNT] = count
    row[sent.MAX_TIMESTAMP] = fields[MAX_TIMESTAMP]
    return size


@inlined(types.boolean(_ROW, _ROW, _ROW, _ROW))
def _may_take(answer: Any, cells: Any, given: Any, brokers: Any) -> Any:
    """Return whether one more batch of the partition may be in flight."""
    size = answer[scan.END] - answer[scan.START]
    if (
        not HEADER_BYTES < size <= PLAIN_BYTES_MAX
        or cells[cell.IN_FLIGHT] >= given[IN_FLIGHT_MAX]
        or cells[cell.QUEUED_BYTES] + size >= given[QUEUED_BYTES_MAX]
        or cells[cell.IN_REQUEST] == given[REQUEST]
    ):
        return False
    is_free = False
    for broker in brokers:
        is_free |= broker == cells[cell.LEADER]
    return is_free


@inlined(types.boolean(BYTES, _ROW, _ROW, KNOWN, KNOWN))
def _may_pass(data: Any, answer: Any, cells: Any, readable: Any, passing: Any) -> Any:
    """Return whether all schema ids of a partition's records pass (I8).

    Compressed batches are left to objects: they have to be opened; and so are values that only seem
    to have ids, where ids are replaced.
    """
    frames = cells[cell.FRAMES]
    if frames == 0:
        return True
    are_unclear = frames & _MAYBE_VALUES != 0
    known = passing if are_unclear else readable
    if are_unclear and frames & _REPLACED:
        known = known[:0]
    start, end = answer[scan.START], answer[scan.END]
    values, keys = are_unclear or frames & _VALUES != 0, frames & _KEYS != 0
    _, left, _ = to_look_at(data, start, end, known, known, keys, values, True, ALL_OFFSETS)
    return left == 0


@inlined(_INT(_ROW, _INT, _INT))
def _seen_ms(cells: Any, written_ms: int, now_ms: int) -> Any:
    """Return since when a record is missing: a time to come counts from now on."""
    return min(written_ms, now_ms) if written_ms >= 0 else cells[cell.MISSING]


@inlined(_INT(BYTES, _ROW, _ROW, _ROW, _ROW, _OUT, _INT, _ROW, _ROW, KNOWN, KNOWN))
def _take_records(  # noqa: PLR0917 - compiled without keywords
    data: Any,
    answer: Any,
    asked: Any,
    cells: Any,
    given: Any,
    out: Any,
    at: int,
    row: Any,
    no_deltas: Any,
    readable: Any,
    targets: Any,
) -> Any:
    """Put what a partition's answer holds into `out` as one batch; return its size, or 0."""
    start, end = answer[scan.START], answer[scan.END]
    if not _has_epoch(data, start, end, cells[cell.EPOCH]):
        return 0
    if number_at(data, start + 8, 4) + LENGTH_ENDS_AT == end - start:
        size = _take_one(data, start, end, cells, given, out, at, row, readable, targets)
    else:
        size = _take_several(
            data, start, end, cells, given, out, at, row, no_deltas, readable, targets
        )
    if size == 0 or row[sent.MAX_TIMESTAMP] < given[OLD_BEFORE_MS]:
        return 0
    stable = answer[scan.LAST_STABLE_OFFSET]
    stable = answer[scan.HIGH_WATERMARK] if stable < 0 else stable
    source = cells[cell.FETCH_OFFSET]
    after = source + row[sent.COUNT]
    if stable > after and 2 * (end - start) >= asked[ASKED_BYTES]:
        return 0  # it falls behind
    row[sent.INDEX], row[sent.SENT_ATTEMPT] = asked[ASKED_INDEX], asked[ASKED_ATTEMPT]
    row[sent.BASE_OFFSET], row[sent.SOURCE_OFFSET] = cells[cell.NEXT_TARGET], source
    row[sent.SIZE], row[sent.AT], row[sent.SENT_TO] = size, at, cells[cell.LEADER]
    row[sent.LANDED_AT] = row[sent.BUCKET] = -1
    if cells[cell.POSITION] >= cells[cell.HIGH_WATERMARK]:
        cells[cell.CAUGHT_UP] = max(cells[cell.CAUGHT_UP], given[ASKED_MS])
    cells[cell.HIGH_WATERMARK], cells[cell.LAST_STABLE] = answer[scan.HIGH_WATERMARK], stable
    cells[cell.FETCH_OFFSET] = cells[cell.RAN_TO] = after
    cells[cell.NEXT_TARGET] += row[sent.COUNT]
    if cells[cell.IN_FLIGHT] == 0:
        cells[cell.MISSING] = _seen_ms(cells, number_at(data, start + 27, 8), given[NOW_MS])
    cells[cell.IN_FLIGHT] += 1
    cells[cell.QUEUED_BYTES] += size
    cells[cell.IN_REQUEST] = given[REQUEST]
    return size


@inlined(types.boolean(_ROW, _ROW, _INT))
def _take_end(answer: Any, cells: Any, now_ms: int) -> Any:
    """Take an answer without records: only the source's end has moved."""
    stable = answer[scan.LAST_STABLE_OFFSET]
    stable = answer[scan.HIGH_WATERMARK] if stable < 0 else stable
    if stable > cells[cell.FETCH_OFFSET]:
        return False  # it had no room for its records
    cells[cell.HIGH_WATERMARK], cells[cell.LAST_STABLE] = answer[scan.HIGH_WATERMARK], stable
    if cells[cell.POSITION] >= stable:
        cells[cell.CAUGHT_UP], cells[cell.MISSING] = now_ms, -1
    return True


@inlined(types.boolean(BYTES, _ROW, _ROW, _ROWS))
def _is_asked_for(data: Any, answer: Any, want: Any, table: Any) -> Any:
    """Return whether a plain partition is answered as it asks now, without anything special."""
    index = want[ASKED_INDEX]
    return (
        index < len(table)
        and table[index, cell.IS_PLAIN] != 0
        and want[ASKED_ATTEMPT] == table[index, cell.ATTEMPT]
        and want[ASKED_OFFSET] == table[index, cell.FETCH_OFFSET]
        and want[ASKED_BYTES] > 0
        and answer[scan.ERROR] == 0
        and answer[scan.ABORTED_AT] < 0
        and data[answer[scan.END]] == scan.NO_TAGS
    )


@compiled(
    types.UniTuple(_INT, 3)(
        *(BYTES, _ROWS, _ROWS, _INT, _ROWS, _ROWS, _ROW, _ROW),
        *(_OUT, _INT, _ROWS, _INT, _ROW, _ROW, KNOWN, KNOWN, KNOWN),
    )
)
def take_answer(  # noqa: PLR0917 - compiled without keywords
    data: Any,
    rows: Any,
    watched: Any,
    news: int,
    asked: Any,
    table: Any,
    given: Any,
    brokers: Any,
    out: Any,
    filled: int,
    sends: Any,
    count: int,
    left: Any,
    no_deltas: Any,
    readable: Any,
    passing: Any,
    targets: Any,
) -> Any:
    """Take what is plain of a group's answer: put its batches into `out`, a row each into `sends`.

    Parameters
    ----------
    data, rows, watched, news
        The answer (uint8), and what `scan_news` found in it.
    asked
        What was asked for, a row for each partition of the group; moved on for those taken.
    table
        The partitions' cells, a row for each index.
    given, brokers
        See `GIVEN_FIELDS`; brokers of the target that take one more request now.
    out, filled, sends, count, left
        Buffer and rows for batches, how much of both is in use, and room for the places of
        partitions that are left to their objects.
    no_deltas, readable, passing, targets
        An empty array (int64), and the schema ids that pass, see `SchemaGate`.

    Returns
    -------
    tuple[int, int, int]
        How much of `out`, of `sends` and of `left` is in use now.
    """
    missed = np.int64(0)
    for number in range(news):
        place = watched[number, scan.NEWS]
        answer, want = rows[place], asked[place]
        is_taken = False
        if _is_asked_for(data, answer, want, table):
            cells = table[want[ASKED_INDEX]]
            if answer[scan.END] == answer[scan.START]:
                is_taken = _take_end(answer, cells, given[NOW_MS])
            elif (
                count < len(sends)
                and _may_take(answer, cells, given, brokers)
                and _may_pass(data, answer, cells, readable, passing)
            ):
                size = _take_records(
                    *(data, answer, want, cells, given, out, filled, sends[count]),
                    *(no_deltas, readable, targets),
                )
                if size:
                    is_taken = True
                    filled += size
                    count += 1
                    want[ASKED_OFFSET] = cells[cell.FETCH_OFFSET]
                    want[ASKED_EPOCH] = cells[cell.EPOCH]
        if not is_taken:
            left[missed] = place
            missed += 1
    return filled, count, missed


@inlined(_INT(_INT))
def bucket_of(latency_ms: int) -> Any:
    """Return the bucket in which `LatencyHistogram` counts a latency."""
    found = np.int64(BUCKETS_PER_DOUBLING * math.log2(1 + max(0, latency_ms)))
    return min(found, BUCKETS - 1)


@compiled(_INT(_ROWS, _ROWS, _ROW, _ROW))
def take_landed(table: Any, sends: Any, given: Any, left: Any) -> Any:
    """Move the positions of partitions whose appends landed where they were to (I1).

    The numbers of the rows that are left to objects go into `left`; returns how many.
    """
    missed = np.int64(0)
    now_ms = given[NOW_MS]
    for number in range(len(sends)):
        row = sends[number]
        cells = table[row[sent.INDEX]]
        if (
            not cells[cell.IS_PLAIN]
            or cells[cell.ATTEMPT] != row[sent.SENT_ATTEMPT]
            or row[sent.LANDED_AT] != row[sent.BASE_OFFSET]
        ):
            left[missed] = number
            missed += 1
            continue
        if 0 <= cells[cell.CAUGHT_UP] <= row[sent.MAX_TIMESTAMP] + LIVE_WITHIN_MS:
            row[sent.BUCKET] = bucket_of(now_ms - row[sent.MAX_TIMESTAMP])
        count, latest = row[sent.COUNT], row[sent.MAX_TIMESTAMP]
        cells[cell.IN_FLIGHT] -= 1
        cells[cell.QUEUED_BYTES] -= row[sent.SIZE]
        cells[cell.POSITION] = cells[cell.COPIED_TO] = row[sent.SOURCE_OFFSET] + count
        cells[cell.COPIED_END] = row[sent.BASE_OFFSET] + count
        cells[cell.RECORDS] += count
        cells[cell.BYTES] += row[sent.SIZE]
        cells[cell.LAST_TIMESTAMP] = max(cells[cell.LAST_TIMESTAMP], latest)
        if cells[cell.IN_FLIGHT] == 0:
            cells[cell.POSITION] = cells[cell.FETCH_OFFSET]  # after its last record is a hole
        cells[cell.MISSING] = _seen_ms(cells, latest, now_ms)  # the next record is hardly older
        if cells[cell.POSITION] >= cells[cell.LAST_STABLE]:
            cells[cell.CAUGHT_UP], cells[cell.MISSING] = now_ms, -1
    return missed
