"""The phase of a partition's copy, its state as people see it, and its failures (I7)."""

from __future__ import annotations

from collections import Counter
from enum import Enum

from heliostat.records.copier.cells import Cells
from heliostat.records.copier.lane import PartitionCode, PartitionState
from heliostat.records.copier.network import BrokerProblem

LATE_PREDECESSOR = ("OUT_OF_ORDER_SEQUENCE_NUMBER", "DUPLICATE_SEQUENCE_NUMBER")
LATE_PREDECESSOR_S = 0.01
"""The previous round's last append may land just after the end was read: read it again soon."""
RETRY_FIRST_S = 0.1
RETRY_MAX_S = 5.0
"""A pause doubles up to this, so that the end of a broker's outage is noticed within 5 s."""
FIND_END_MAX_S = 0.5
"""Longest pause before the target's end and the maps are read again: without them a partition can't
begin. It costs little, as silent brokers are not asked; and one hung broker may lead the maps of
partitions on all the others."""

TAIL_UNREAD = (
    "the last record at the target can't be read yet, so its producer is not known: the broker "
    "does not answer, or not all replicas have the record yet"
)


class Phase(Enum):
    """What the copier must do next for a partition."""

    FIND_END = "find end"
    ALIGN_START = "align start"
    COPY = "copy"
    STOPPED = "stopped"
    GIVEN_UP = "given up"
    """It is no longer of this lane; only answers to what was sent are awaited."""


class Trouble(Enum):
    """The side of a transient failure: only a success on that side ends it."""

    NONE = "none"
    FETCH = "fetch"
    APPEND = "append"
    LEADER = "leader"
    """Nobody leads the mirror's partition: ended by a leader, not by what the source answers."""


def truncated_text(diverged_at: int | None) -> str:
    """Return the reason for a stop at a source that lost what was copied."""
    where = "" if diverged_at is None else f" from offset {diverged_at} on"
    return (
        f"its leader epochs say that the source lost or replaced{where} records that the target "
        "has (unclean election)"
    )


def retry_pause_s(failures: int, code: str) -> float:
    """Return the pause (s) after a failure of `code` that follows `failures` others in a row."""
    if failures == 0 and code in LATE_PREDECESSOR:
        return LATE_PREDECESSOR_S
    return min(RETRY_MAX_S, RETRY_FIRST_S * 2.0 ** min(failures, 10))


class Standing:
    """State of one partition's copy, as people see it, and when it is tried again.

    Parameters
    ----------
    now_ms
        Wall clock time.
    cells
        The partition's numbers: one in trouble is not plain.
    """

    def __init__(self, now_ms: int, cells: Cells | None = None) -> None:
        self._cells = cells or Cells()
        self.state = PartitionState.STARTING
        self.code = ""
        self.reason = ""
        self.since_ms = now_ms
        self.not_before_s = 0.0
        """Nothing is tried before this monotonic second."""
        self.is_unanswered = False
        """Whether a leader was silent, and nothing has succeeded since."""
        self.trouble = Trouble.NONE
        self._failures = Counter[Trouble]()

    def stop(self, state: PartitionState, code: str, reason: str, now_ms: int) -> None:
        """Stop trying; a person decides (I7)."""
        self._cells.leave_plain()
        self.code, self.reason = str(code), reason
        self.become(state, now_ms, keep_reason=True)

    def no_leader(
        self, problem: BrokerProblem, now_s: float, now_ms: int, *, is_target: bool
    ) -> None:
        """Retry: a side has no leader for the partition now, or can't be asked."""
        trouble = Trouble.LEADER if is_target else Trouble.FETCH
        self.retry(trouble, problem.code, str(problem), now_s, now_ms)

    def unanswered(
        self, problem: BrokerProblem, now_s: float, now_ms: int, *, is_target: bool, goes_on: bool
    ) -> None:
        """Note a silent broker; an answer to a request in flight would end the trouble.

        `goes_on`: the partition is not stopped.
        """
        self.is_unanswered = True
        self._cells.leave_plain()
        if self.trouble is Trouble.NONE and goes_on:
            trouble = Trouble.APPEND if is_target else Trouble.FETCH
            self.retry(trouble, problem.code, str(problem), now_s, now_ms)

    @property
    def has_no_leader(self) -> bool:
        """Whether nobody leads the mirror's partition."""
        return self.trouble is Trouble.LEADER

    def is_over_with_answer(self, *, is_level: bool) -> bool:
        """Return whether an answer of the source ends the trouble; `is_level`: nothing is missing.

        Then nothing is appended that could end it.
        """
        return self.trouble is Trouble.FETCH or (is_level and not self.has_no_leader)

    def find_end_failed(self, problem: BrokerProblem, now_s: float, now_ms: int) -> None:
        """Retry: the target's end, or the offset maps of the whole lane, could not be read."""
        self.retry(Trouble.APPEND, problem.code, str(problem), now_s, now_ms)
        self.not_before_s = min(self.not_before_s, now_s + FIND_END_MAX_S)

    def last_batch_unread(self, now_s: float, now_ms: int) -> None:
        """Retry: the target's last record can't be read now, so nothing is appended after it."""
        self.retry(Trouble.APPEND, PartitionCode.TAIL_UNREAD, TAIL_UNREAD, now_s, now_ms)

    def retry(self, trouble: Trouble, code: str, reason: str, now_s: float, now_ms: int) -> None:
        """Try again after a pause that doubles with each failure in a row."""
        self._cells.leave_plain()
        failures = self._failures[trouble]
        self._failures[trouble] = failures + 1
        self.not_before_s = now_s + retry_pause_s(failures, code)
        if self.has_no_leader and trouble is Trouble.FETCH:
            return  # the mirror's side is the worse one
        self.trouble = trouble
        self.code, self.reason = str(code), reason
        self.become(PartitionState.RETRYING, now_ms, keep_reason=True)

    def recovered(self, now_ms: int, *, aligns: bool) -> None:
        """End the trouble after a success; `aligns`: the target's start is being aligned."""
        self.is_unanswered = False
        if self.trouble is Trouble.NONE:
            return
        self.trouble = Trouble.NONE
        self._failures.clear()
        self.become(PartitionState.ALIGNING if aligns else PartitionState.COPYING, now_ms)

    def become(self, state: PartitionState, now_ms: int, *, keep_reason: bool = False) -> None:
        """Enter a state, if it is not the current one."""
        if not keep_reason:
            self.code = self.reason = ""
        if self.state is not state:
            self.state = state
            self.since_ms = now_ms
