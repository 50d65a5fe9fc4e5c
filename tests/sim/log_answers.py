"""What a leader answers about its log, by the model: offsets, leader epochs, deletion, fetches.

`tests/kafka/test_log_contract.py` checks each against a real broker.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sim.log_batches import fields_of, records_of
from sim.partition_log import NONE, OUT_OF_RANGE, PartitionLog

from heliostat.clusters.admin import EARLIEST, LATEST, NO_OFFSET, EpochEnd, ListedOffset
from heliostat.names import LeaderEpoch, Offset
from heliostat.records.transport.mirror_ends import Read
from heliostat.records.transport.single_batches import NO_SUCH_OFFSET, Batches

__all__ = ["Answer", "FetchOf", "batches_of", "delete_records", "epoch_end", "fetch", "list_offset"]

UNSUPPORTED_VERSION = 35
STRETCH_BYTES = 400
"""A few markers; a broker gives more."""
NO_EPOCH = LeaderEpoch(-1)
NOTHING = ListedOffset(NO_OFFSET, -1, NO_EPOCH)


def list_offset(log: PartitionLog, spec: int) -> ListedOffset | int:
    """ListOffsets, or an error code; of its special times only those that the product asks for."""
    if spec == EARLIEST:
        return ListedOffset(Offset(log.start), -1, LeaderEpoch(log.epochs[0][0]))
    if spec == LATEST:
        return ListedOffset(Offset(log.end), -1, LeaderEpoch(log.epochs[-1][0]))
    if spec < EARLIEST:
        return UNSUPPORTED_VERSION
    for batch in log.batches:
        if batch.next_offset <= log.start or fields_of(batch.data).max_timestamp < spec:
            continue
        for record in records_of(batch.data):
            offset = batch.base_offset + record.delta
            if record.timestamp >= spec and offset >= log.start:
                return ListedOffset(
                    Offset(offset), record.timestamp, LeaderEpoch(batch.leader_epoch)
                )
    return NOTHING


def delete_records(log: PartitionLog, before: int) -> tuple[int, Offset]:
    """DeleteRecords: an error code and the log's new start."""
    code = log.delete_before(log.end if before == -1 else before)
    return code, Offset(log.start if code == NONE else -1)


def epoch_end(log: PartitionLog, epoch: int) -> EpochEnd:
    """OffsetForLeaderEpoch (`LeaderEpochFileCache.endOffsetFor`)."""
    latest = log.epochs[-1][0]
    if epoch == latest:
        return EpochEnd(LeaderEpoch(epoch), Offset(log.end))
    if epoch > latest or epoch == NO_EPOCH:
        return EpochEnd(NO_EPOCH, Offset(-1))
    higher = next(start for known, start in log.epochs if known > epoch)
    floor = max((known for known, _ in log.epochs if known < epoch + 1), default=epoch)
    return EpochEnd(LeaderEpoch(floor), Offset(higher))


@dataclass(frozen=True, slots=True)
class FetchOf:
    """What a fetch wants of one log."""

    log: PartitionLog
    offset: int
    bytes_max: int
    last_epoch: int = -1


@dataclass(frozen=True, slots=True)
class Answer:
    """What it gets; ends are -1 beside an error."""

    error: int
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start: int = -1
    data: bytes = b""
    aborted: Sequence[tuple[int, int]] = ()
    diverging_epoch: tuple[int, int] | None = None


def fetch(wants: Sequence[FetchOf], bytes_max: int, *, committed: bool) -> list[Answer]:
    """One fetch of several partitions, in its order (`ReplicaManager.readFromLog`).

    The first batch of the first partition that has any comes whatever its size (KIP-74). Behind
    it both limits hold: bytes are cut at them, and an answer that would begin with a cut batch is
    empty.
    """
    answers: list[Answer] = []
    room, is_first = bytes_max, True
    for want in wants:
        answer = _fetched(want, room, is_first=is_first, committed=committed)
        answers.append(answer)
        room = max(0, room - len(answer.data))
        is_first = is_first and not answer.data
    return answers


def _fetched(want: FetchOf, room: int, *, is_first: bool, committed: bool) -> Answer:
    log = want.log
    diverging_epoch: tuple[int, int] | None = None
    if want.last_epoch >= 0:
        known = epoch_end(log, want.last_epoch)
        if known.end < 0:
            return Answer(OUT_OF_RANGE)
        if known.epoch < want.last_epoch or known.end < want.offset:
            diverging_epoch = (known.epoch, known.end)
    ends = (log.end, log.last_stable_offset, log.start)
    if diverging_epoch is not None:
        return Answer(NONE, *ends, diverging_epoch=diverging_epoch)
    if not log.start <= want.offset <= log.end:
        return Answer(OUT_OF_RANGE)
    limit = min(want.bytes_max, room)
    data = log.read(want.offset, limit, committed=committed, is_cut=True)
    first = size_of_first(data)
    data = data[: max(limit, first)] if is_first or limit >= first else b""
    aborted = log.aborted_from(want.offset, log.last_stable_offset) if committed else ()
    return Answer(NONE, *ends, data, aborted)


def size_of_first(data: bytes | bytearray) -> int:
    """Bytes of the batch that stands first; 0 where not even its length does."""
    return 12 + int(struct.unpack_from(">i", data, 8)[0]) if len(data) >= 12 else 0


def batches_of(logs: Mapping[int, PartitionLog]) -> Read:
    """What holds an offset, or else comes next, of each log."""

    def read(offsets: Mapping[int, Offset], room: int = STRETCH_BYTES) -> Batches:
        stretch_bytes = min(room, STRETCH_BYTES)
        found: Batches = {}
        for index, offset in offsets.items():
            log = logs.get(index)
            if log is None:
                continue  # it can't be read now
            is_there = log.start <= offset < log.end
            found[index] = (log.read(offset, stretch_bytes) or None) if is_there else NO_SUCH_OFFSET
        return found

    return read
