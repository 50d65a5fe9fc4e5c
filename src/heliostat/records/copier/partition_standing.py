"""What a partition's copy is about, and what kind of trouble it is in (I7)."""

from __future__ import annotations

from collections import deque
from enum import Enum

from heliostat.names import Offset
from heliostat.records.batches.converted import ConvertedBatch
from heliostat.records.copier.lane import PartitionCode, PartitionState
from heliostat.records.copier.network import Problem

LATE_PREDECESSOR = ("OUT_OF_ORDER_SEQUENCE_NUMBER", "DUPLICATE_SEQUENCE_NUMBER")
LATE_PREDECESSOR_S = 0.01
"""What the round before sent last may land just after the end was read: look again at once."""
RETRY_FIRST_S = 0.1
RETRY_MAX_S = 5.0
"""A pause doubles up to this; the outage of a broker is then noticed to be over within 5 s."""
LANDS_WITHIN_S = 3.0
"""What a broker has received of a connection that was lost it still appends, once it gets to it: it
reads on what was sent before the end (`Selector` serves what is received of closing channels). Of
old records nothing else is ahead on the connection, so that it does not wait for replicas first.
Seen after 1 s, on two cores with six brokers (2026-11-24)."""
FIND_END_MAX_S = 0.5
"""What a lane can't begin without is asked for again so soon. Who is silent is not asked, so it
costs little; and one broker that hangs may lead the maps of partitions on all the others."""
BATCH_BYTES = 640
"""In memory, of what stands for one batch: 560 measured, and what is sent of it."""

TAIL_UNREAD = (
    "the last record at the target can't be read yet, so that it is not known whose it is: the "
    "broker does not answer, or the record is not on all of its replicas"
)


class Phase(Enum):
    """What the copier must do next for a partition."""

    FIND_END = "find end"
    ALIGN_START = "align start"
    COPY = "copy"
    STOPPED = "stopped"


class Trouble(Enum):
    """Which side a passing fault is on: only success there ends it."""

    NONE = "none"
    FETCH = "fetch"
    APPEND = "append"


def counted(seen: tuple[int, int], offset: int) -> tuple[int, int]:
    """Count how often in a row something happened at one offset: (offset, times)."""
    return (offset, seen[1] + 1) if seen[0] == offset else (offset, 1)


def truncated_text(diverged_at: int | None) -> str:
    """What a status says of a source that lost what was copied, from `diverged_at` on if known."""
    where = "" if diverged_at is None else f" from offset {diverged_at} on"
    return (
        f"its leader epochs say that the source lost or replaced{where} records that the target "
        "has (unclean election)"
    )


def retry_pause_s(failures: int, code: str) -> float:
    """How long to wait after so many failures in a row before this one, of `code`."""
    if failures == 0 and code in LATE_PREDECESSOR:
        return LATE_PREDECESSOR_S
    return min(RETRY_MAX_S, RETRY_FIRST_S * 2.0 ** min(failures, 10))


class PartitionStanding:
    """Where one partition stands, what it has queued, and when it is tried again.

    Parameters
    ----------
    now_ms
        Wall clock.
    producer_expiration_s
        `producer.id.expiration.ms` of the target.
    holds_old
        Rounds before this one may still append.
    """

    def __init__(
        self, now_ms: int, producer_expiration_s: float, *, holds_old: bool = False
    ) -> None:
        self._old_after_ms = producer_expiration_s * 500
        self.holds_old = holds_old
        """Records for which the broker's duplicate check may not hold must wait (I10)."""
        self.looked_early = False
        """The target's end was read while what was sent before could still land, by rounds before
        or by this one. The check tells, or else the end is read again first."""
        self.may_land_until_s = -1e9
        """Until this monotonic second what was sent and not answered may still be appended."""
        self.has_lost_old = False
        """Old records of this round were sent and not answered."""
        self.phase = Phase.FIND_END
        self.state = PartitionState.STARTING
        self.code = ""
        self.reason = ""
        self.since_ms = now_ms
        self.not_before_s = 0.0
        """Nothing is tried before this monotonic second."""
        self._trouble = Trouble.NONE
        self.position = -1
        """Source offset: all below it is at the target, acknowledged or read from its end, or is
        a hole."""
        self.copied_to = -1
        """Source offset below which the link knows that all is at the target (-1: not known)."""
        self.copied_end = -1
        """Where the target's log ended then (-1: not known)."""
        self.found_end = -1
        """Where the target's log ended when it was looked at last (-1: not in this round)."""
        self.high_watermark = -1
        self.repeated_to: Offset | None = None
        """Up to there an append was answered as one that the target had already, though it may be
        of a round that knew another map (`doubts`)."""
        self.is_unnoted = False
        """The link has no note yet of what it copied of it."""
        self.last_stable_offset = -1
        """Behind it transactions are open: nothing of it is copied before they end."""
        self.missing_ms = -1
        """Timestamp of the source's record at the position, where it was looked up."""
        self.queue: deque[ConvertedBatch] = deque()
        self.queued_bytes = 0
        """Of batches in the queue and in flight."""
        self._own_bytes = 0
        """What these keep in memory, see `ConvertedBatch`."""
        self.in_flight = 0
        self.has_row_under_way = False
        """A row of its offset map is not known to be durable, or not to be (`MapWriter`)."""
        self.is_unanswered = False
        """The broker that leads it on one side was silent when last heard of."""
        self.records = self.bytes = 0
        self.last_timestamp_ms = -1
        self.caught_up_ms = -1
        """Wall clock when the target last held all that the source had."""
        self._failures = {Trouble.FETCH: 0, Trouble.APPEND: 0}
        self._reported: tuple[int, int, int, int, PartitionState, str] | None = None

    @property
    def target_end(self) -> int:
        """Where the target's log ends, as far as this round knows (-1: it has not looked yet)."""
        return -1 if self.found_end < 0 else max(self.found_end, self.copied_end)

    def has_news(self) -> bool:
        """Whether it stands elsewhere than at the last call."""
        at = (self.position, self.high_watermark, self.last_stable_offset, self.missing_ms)
        now = (*at, self.state, self.code)
        before, self._reported = self._reported, now
        return now != before

    def is_old(self, batch: ConvertedBatch, now_ms: int) -> bool:
        """Whether the target's brokers may have forgotten the producer of such records (I4)."""
        return batch.max_timestamp < now_ms - self._old_after_ms

    def is_next_old(self, now_ms: int) -> bool:
        """Whether what is to be appended next must not wait for others on its connection.

        A broker serves a connection's requests one after the other, and each waits for replicas:
        where that connection is lost, what is behind others lands so much later (I4).
        """
        return bool(self.queue) and self.is_old(self.queue[0], now_ms)

    def is_awaited(self, now_s: float) -> bool:
        """Whether a round should wait at its end: what was sent may be answered yet, or land."""
        may_land = self.has_lost_old and now_s < self.may_land_until_s
        return not self.is_unanswered and bool(self.in_flight or may_land)

    @property
    def kept_bytes(self) -> int:
        """What is in memory of batches in the queue and in flight, beside the answers."""
        return self._own_bytes + BATCH_BYTES * (len(self.queue) + self.in_flight)

    def copy_out(self, batch: ConvertedBatch) -> None:
        """Let go of the answer that a batch in the queue came in."""
        self._own_bytes += batch.copy_out()

    def _put(self, batch: ConvertedBatch) -> None:
        self.queue.append(batch)
        self.queued_bytes += batch.size
        self._own_bytes += batch.own_bytes

    def _take_off(self, batch: ConvertedBatch) -> None:
        self.queued_bytes -= batch.size
        self._own_bytes -= batch.own_bytes

    def _drop_queue(self) -> None:
        for batch in self.queue:
            self._take_off(batch)
        self.queue.clear()

    def stop(self, state: PartitionState, code: str, reason: str, now_ms: int) -> None:
        """Copy no more of this partition; a person decides (I7)."""
        self.phase = Phase.STOPPED
        self._drop_queue()
        self.code, self.reason = str(code), reason
        self._become(state, now_ms, keep_reason=True)

    def no_leader(self, problem: Problem, now_s: float, now_ms: int) -> None:
        """A side has no leader for it at the moment, or can't be asked."""
        self._retry(Trouble.FETCH, problem.code, str(problem), now_s, now_ms)

    def unanswered(self, problem: Problem, now_s: float, now_ms: int, *, is_target: bool) -> None:
        """A broker is silent; what is under way may be answered yet, and ends the trouble."""
        self.is_unanswered = True
        self._may_land(now_s if is_target else -1e9)
        if self._trouble is Trouble.NONE and self.phase is not Phase.STOPPED:
            trouble = Trouble.APPEND if is_target else Trouble.FETCH
            self._retry(trouble, problem.code, str(problem), now_s, now_ms)

    def find_end_failed(self, problem: Problem, now_s: float, now_ms: int) -> None:
        """The target's end could not be read, or the offset maps: those of all of a lane's."""
        self._may_land(now_s)
        self._retry(Trouble.APPEND, problem.code, str(problem), now_s, now_ms)
        self.not_before_s = min(self.not_before_s, now_s + FIND_END_MAX_S)

    def last_batch_unread(self, now_s: float, now_ms: int) -> None:
        """Who appended the target's last record can't be told now: nothing is appended behind."""
        self._retry(Trouble.APPEND, PartitionCode.TAIL_UNREAD, TAIL_UNREAD, now_s, now_ms)

    def _may_land(self, now_s: float) -> None:
        """The target's broker may have requests of ours that it has not got to yet."""
        self.may_land_until_s = max(self.may_land_until_s, now_s + LANDS_WITHIN_S)

    def _retry(self, trouble: Trouble, code: str, reason: str, now_s: float, now_ms: int) -> None:
        """Look again after a pause that doubles with each failure in a row."""
        failures = self._failures[trouble]
        self._failures[trouble] = failures + 1
        self.not_before_s = now_s + retry_pause_s(failures, code)
        self._trouble = trouble
        self.code, self.reason = str(code), reason
        self._become(PartitionState.RETRYING, now_ms, keep_reason=True)

    def _note_level(self, now_ms: int) -> None:
        """Remember when all that can be copied was."""
        if self.position >= self.last_stable_offset:
            self.caught_up_ms = now_ms

    def _recovered(self, now_ms: int) -> None:
        self.is_unanswered = False
        if self._trouble is Trouble.NONE:
            return
        self._trouble = Trouble.NONE
        self._failures = {Trouble.FETCH: 0, Trouble.APPEND: 0}
        aligning = self.phase is Phase.ALIGN_START
        self._become(PartitionState.ALIGNING if aligning else PartitionState.COPYING, now_ms)

    def _diverge(self, code: str, reason: str, now_ms: int) -> None:
        """The target holds what we did not put where it is (I1)."""
        self.stop(PartitionState.DIVERGED, code, reason, now_ms)

    def _become(self, state: PartitionState, now_ms: int, *, keep_reason: bool = False) -> None:
        if not keep_reason:
            self.code = self.reason = ""
        if self.state is not state:
            self.state = state
            self.since_ms = now_ms
