"""What a partition's copy is about, and what kind of trouble it is in (I7)."""

from __future__ import annotations

from enum import Enum

from heliostat.records.copier.lane import PartitionCode, PartitionState
from heliostat.records.copier.network import Problem

LATE_PREDECESSOR = ("OUT_OF_ORDER_SEQUENCE_NUMBER", "DUPLICATE_SEQUENCE_NUMBER")
LATE_PREDECESSOR_S = 0.01
"""What the round before sent last may land just after the end was read: look again at once."""
RETRY_FIRST_S = 0.1
RETRY_MAX_S = 5.0
"""A pause doubles up to this; the outage of a broker is then noticed to be over within 5 s."""
FIND_END_MAX_S = 0.5
"""What a lane can't begin without is asked for again so soon. Who is silent is not asked, so it
costs little; and one broker that hangs may lead the maps of partitions on all the others."""

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


class Standing:
    """How one partition's copy goes, as people see it, and when it is tried again.

    Parameters
    ----------
    now_ms
        Wall clock.
    """

    def __init__(self, now_ms: int) -> None:
        self.state = PartitionState.STARTING
        self.code = ""
        self.reason = ""
        self.since_ms = now_ms
        self.not_before_s = 0.0
        """Nothing is tried before this monotonic second."""
        self.is_unanswered = False
        """The broker that leads it on one side was silent when last heard of."""
        self.trouble = Trouble.NONE
        self._failures = {Trouble.FETCH: 0, Trouble.APPEND: 0}

    def stop(self, state: PartitionState, code: str, reason: str, now_ms: int) -> None:
        """Nothing is tried any more; a person decides (I7)."""
        self.code, self.reason = str(code), reason
        self.become(state, now_ms, keep_reason=True)

    def no_leader(self, problem: Problem, now_s: float, now_ms: int) -> None:
        """A side has no leader for it at the moment, or can't be asked."""
        self.retry(Trouble.FETCH, problem.code, str(problem), now_s, now_ms)

    def unanswered(
        self, problem: Problem, now_s: float, now_ms: int, *, is_target: bool, goes_on: bool
    ) -> None:
        """A broker is silent; what is under way may be answered yet, and ends the trouble.

        `goes_on`: it is not stopped.
        """
        self.is_unanswered = True
        if self.trouble is Trouble.NONE and goes_on:
            trouble = Trouble.APPEND if is_target else Trouble.FETCH
            self.retry(trouble, problem.code, str(problem), now_s, now_ms)

    def find_end_failed(self, problem: Problem, now_s: float, now_ms: int) -> None:
        """The target's end could not be read, or the offset maps: those of all of a lane's."""
        self.retry(Trouble.APPEND, problem.code, str(problem), now_s, now_ms)
        self.not_before_s = min(self.not_before_s, now_s + FIND_END_MAX_S)

    def last_batch_unread(self, now_s: float, now_ms: int) -> None:
        """Who appended the target's last record can't be told now: nothing is appended behind."""
        self.retry(Trouble.APPEND, PartitionCode.TAIL_UNREAD, TAIL_UNREAD, now_s, now_ms)

    def retry(self, trouble: Trouble, code: str, reason: str, now_s: float, now_ms: int) -> None:
        """Look again after a pause that doubles with each failure in a row."""
        failures = self._failures[trouble]
        self._failures[trouble] = failures + 1
        self.not_before_s = now_s + retry_pause_s(failures, code)
        self.trouble = trouble
        self.code, self.reason = str(code), reason
        self.become(PartitionState.RETRYING, now_ms, keep_reason=True)

    def recovered(self, now_ms: int, *, aligns: bool) -> None:
        """Something succeeded: trouble is over; `aligns`: the target is being filled."""
        self.is_unanswered = False
        if self.trouble is Trouble.NONE:
            return
        self.trouble = Trouble.NONE
        self._failures = {Trouble.FETCH: 0, Trouble.APPEND: 0}
        self.become(PartitionState.ALIGNING if aligns else PartitionState.COPYING, now_ms)

    def become(self, state: PartitionState, now_ms: int, *, keep_reason: bool = False) -> None:
        """Come into a state, if it is not in it yet."""
        if not keep_reason:
            self.code = self.reason = ""
        if self.state is not state:
            self.state = state
            self.since_ms = now_ms
