"""Copies partitions in plain order by compiled code, without an object for a batch or a record.

A partition is plain while nothing about it is special (`is_plain`); whatever happens to it by way
of its objects ends that (`Cells.leave_plain`), and after their next acknowledged append it may be
plain again. Both ways change the same numbers (`cells`), so handing over costs nothing. An answer
may be of both kinds: what compiled code leaves goes to the objects (docs/adr/0020).

I1  Compiled code compares where each append landed; anything else than that is left to objects.
I4  An append whose answer is lost or is an error becomes an object, and is treated as any other.
I10 The caller checks the deadline before each request.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from heliostat.clusters.wire.scan import NEWS
from heliostat.names import BrokerId
from heliostat.ops.latency import LiveLatency
from heliostat.records.copier import plain_compiled as compiled
from heliostat.records.copier import plain_sends as sent
from heliostat.records.copier.cells import (
    ATTEMPT,
    BATCH_BYTES_MAX,
    CELLS,
    EPOCH,
    FRAMES,
    IS_PLAIN,
    LEADER,
)
from heliostat.records.copier.lane import LaneSpec
from heliostat.records.copier.network import Appended, GroupAnswer, PlainAppended, PlainSends
from heliostat.records.copier.partition_copy import PartitionCopy
from heliostat.records.copier.partition_standing import Phase, Trouble
from heliostat.records.copier.schema_gate import SchemaGate

OUT_BYTES = 1024 * 1024
"""Room for the batches of one turn; what finds none goes the other way."""
SENDS_MAX = 1024
ROWS_MIN = 64
_NO_DELTAS = np.empty(0, np.int64)


class _Taken:
    """What compiled code has taken and is not sent yet: bytes, and a row for each batch."""

    def __init__(self) -> None:
        self.out = np.empty(OUT_BYTES, np.uint8)
        self.sends = np.zeros((SENDS_MAX, sent.SENT_FIELDS), np.int64)
        self.left = np.zeros(SENDS_MAX, np.int64)
        self.filled = self.count = 0


class PlainWay:
    """The plain partitions of one lane.

    Parameters
    ----------
    lane
        Specification of the round.
    partitions
        Partitions of the lane, by index.
    gate
        Knows which schema ids pass.
    latency
        Counts how old records are when they have landed.
    """

    def __init__(
        self,
        lane: LaneSpec,
        partitions: Sequence[PartitionCopy],
        gate: SchemaGate,
        latency: LiveLatency,
    ) -> None:
        settings = lane.settings
        self._partitions = partitions
        self._gate = gate
        self._latency = latency
        self._old_after_ms = int(settings.producer_expiration_s * 500)
        self._table = np.zeros((0, CELLS), np.int64)
        self._rows: dict[int, memoryview] = {}
        given = self._given = np.zeros(compiled.GIVEN_FIELDS, np.int64)
        given[compiled.PRODUCER_ID] = lane.producer_id
        given[compiled.IN_FLIGHT_MAX] = settings.requests_in_flight_max
        given[compiled.QUEUED_BYTES_MAX] = settings.queued_bytes_max
        given[compiled.JOIN_BYTES_MAX] = settings.join_bytes_max
        below_bytes = 0 if settings.compression else settings.join_below_bytes
        given[compiled.JOIN_BELOW_BYTES] = below_bytes
        given[compiled.REQUEST] = 1  # a partition that was in none has 0
        self._taken = _Taken()
        self._brokers: dict[tuple[BrokerId, ...], Any] = {}
        self.leaders: set[BrokerId] = set()
        """Brokers of the target that lead, or led, plain partitions."""
        self.taken: Sequence[int] = ()
        """Indexes of partitions whose records the last answer held."""
        self.was_single = False
        """Whether it held one record at most."""
        self._has_ended = False

    @property
    def has_any(self) -> bool:
        """Whether batches wait to be sent."""
        return self._taken.count > 0

    def end(self) -> None:
        """Take nothing more: the round ends, and nothing is sent any more."""
        self._has_ended = True

    # -- which partitions ----------------------------------------------------------------------

    def judge(self, item: PartitionCopy, leader: BrokerId) -> None:
        """Take a partition over if it is plain now; called after an append of it has landed.

        `leader` is the broker that its live appends go to.
        """
        at = item.progress.cells.at
        if at[IS_PLAIN] or not is_plain(item):
            return
        if item.index >= len(self._table):
            self._grow(item.index)
        row = self._rows.get(item.index)
        if row is None:
            row = self._rows[item.index] = _row_of(self._table, item.index)
        if at is not row:
            item.progress.cells.move_to(row)
        row[ATTEMPT] = item.attempt
        row[EPOCH] = item.fetches.epochs.named
        row[BATCH_BYTES_MAX] = item.spec.batch_bytes_max
        row[LEADER] = leader
        row[FRAMES] = item.spec.frames.value
        self.leaders.add(leader)
        row[IS_PLAIN] = 1

    def _grow(self, index: int) -> None:
        """Make room for a partition's row; the others' rows move with their numbers."""
        table = np.zeros((max(ROWS_MIN, 2 * index), CELLS), np.int64)
        table[: len(self._table)] = self._table
        self._table = table
        for known in self._rows:
            row = self._rows[known] = _row_of(table, known)
            self._partitions[known].progress.cells.at = row

    # -- fetching ------------------------------------------------------------------------------

    def take(
        self, answer: GroupAnswer, brokers: tuple[BrokerId, ...], asked_ms: int, now_ms: int
    ) -> list[int]:
        """Take what is plain of a group's answer; return the places of the others in it.

        Parameters
        ----------
        answer
            The answer; its `asked` moves on.
        brokers
            Brokers of the target to which a request may be sent now.
        asked_ms
            Wall clock when it was asked for, -1: not known.
        now_ms
            Wall clock.
        """
        self.taken, self.was_single = (), not answer.news
        if not answer.news or self._has_ended:
            left: list[int] = answer.watched[: answer.news, NEWS].tolist()
            return left
        given, taken = self._given, self._taken
        given[compiled.NOW_MS] = now_ms
        given[compiled.ASKED_MS] = asked_ms
        given[compiled.OLD_BEFORE_MS] = now_ms - self._old_after_ms
        if len(taken.left) < answer.news:
            taken.left = np.zeros(answer.news, np.int64)
        before = taken.count
        taken.filled, taken.count, missed = compiled.take_answer(
            *(answer.data, answer.rows, answer.watched, answer.news, answer.asked),
            *(self._table, given, self._array_of(brokers)),
            *(taken.out, taken.filled, taken.sends, before, taken.left, _NO_DELTAS),
            *(self._gate.readable, self._gate.passing, self._gate.targets),
        )
        if taken.count > before:
            new = taken.sends[before : taken.count]
            self.taken = new[:, sent.INDEX].tolist()
            self.was_single = missed == 0 and len(new) == 1 and new[0, sent.COUNT] == 1
        return taken.left[:missed].tolist() if missed else []

    def _array_of(self, brokers: tuple[BrokerId, ...]) -> Any:
        known = self._brokers.get(brokers)
        if known is None:
            known = self._brokers[brokers] = np.array(brokers, np.int64)
        return known

    # -- appending -----------------------------------------------------------------------------

    def to_send(self) -> Iterator[tuple[BrokerId, PlainSends]]:
        """Return requests with all that was taken; each is sent before the next is asked for."""
        rows, filled = self._taken.sends[: self._taken.count].copy(), self._taken.filled
        self._taken.filled = self._taken.count = 0
        self._given[compiled.REQUEST] += 1
        if len(self.leaders) == 1:
            yield next(iter(self.leaders)), PlainSends(rows, self._taken.out, filled)
            return
        for broker in set(rows[:, sent.SENT_TO].tolist()):
            some = rows[rows[:, sent.SENT_TO] == broker]
            yield BrokerId(broker), PlainSends(some, self._taken.out, filled)

    def landed(self, answer: PlainAppended, now_ms: int) -> list[Appended]:
        """Move positions; return the answers that are left to objects."""
        rows, left = answer.sends.rows, self._taken.left
        self._given[compiled.NOW_MS] = now_ms
        missed = compiled.take_landed(self._table, rows, self._given, left)
        for row in rows.tolist():
            if row[sent.BUCKET] >= 0:
                self._latency.count(row[sent.INDEX], row[sent.BUCKET], row[sent.COUNT])
        if not missed:
            return []
        objects, landed_at = answer.sends.objects(), rows[:, sent.LANDED_AT].tolist()
        return [Appended(objects[at], 0, landed_at[at], "") for at in left[:missed].tolist()]


def is_plain(item: PartitionCopy) -> bool:
    """Return whether compiled code may copy what comes next of a partition.

    Nothing waits to be appended, nothing was refused, and no earlier answer is open.
    """
    return (
        item.phase is Phase.COPY
        and item.standing.trouble is Trouble.NONE
        and not item.standing.is_unanswered
        and not item.appends.queue
        and item.appends.is_established
        and item.fetches.is_settled
        and item.map.goes_on_at(item.fetches.offset)
        and not item.has_row_under_way
        and item.fetches.epochs.named >= 0
        and not item.spec.pipeline
    )


def _row_of(table: Any, index: int) -> memoryview:
    return memoryview(table[index]).cast("B").cast("q")
