"""Limits and priorities in a lane: which partitions are fetched apart, and when they may be.

A topic with a limit has connections of its own, so that what is not asked for yet holds up no other
one; with an empty bucket it is in no fetch, so it fills no memory. Topics of high and of low
priority have theirs, too. Where nothing is limited nothing is counted.
"""

from __future__ import annotations

from collections.abc import Sequence

from heliostat.names import TopicName
from heliostat.records.batches.batch import LENGTH_ENDS_AT, LENGTH_MIN
from heliostat.records.copier.fetch_plan import USUAL
from heliostat.records.copier.lane_limits import NO_LIMITS, ByteLimits, LimitUse, Priority
from heliostat.records.copier.partition_copy import PartitionCopy
from heliostat.records.copier.token_bucket import TokenBucket

HIGH, LOW = 1, 2
"""Sets of partitions with connections of their own; those of limited topics have higher numbers."""
ANSWER_S = 0.2
"""An answer holds what the limit allows in so many seconds, or one batch if that is larger."""
ANSWER_BYTES_MAX = 1024 * 1024
"""Larger answers let others of the lane wait; a far broker gets to send `FAR_ANSWER_BYTES_MAX`."""
FAR_ANSWER_BYTES_MAX = 8 * 1024 * 1024
ANSWER_BYTES_MIN = 1024
HIGH_DEBT_S = 1.0
"""By so much of a link's limit high priority may be in debt: it does not wait for others' debts."""
SMALL_ANSWER_BYTES = 256 * 1024
"""Of low priority, so that it takes what others leave, and of normal one beside high one, which
would wait for larger ones; four times as much over a long line."""
UNLIMITED = 0


class LaneBuckets:
    """The limits and priorities of one lane.

    Parameters
    ----------
    limits
        Those that the round begins with.
    now_s
        Monotonic seconds.
    """

    def __init__(self, limits: ByteLimits, now_s: float) -> None:
        self._limits = NO_LIMITS
        self._link: TokenBucket | None = None
        self._topics: dict[TopicName, TokenBucket] = {}
        self._number: dict[TopicName, int] = {}
        """Of each topic that was limited in this round: what is under way keeps its meaning."""
        self._by_set: dict[int, TokenBucket] = {}
        self.are_any = False
        """Whether anything is limited."""
        self.has_high = False
        """Whether partitions of high priority are in the lane."""
        self.is_usual = True
        """Whether no partition is limited or in a special set, since `sets` was asked last."""
        self.become(limits, now_s)

    def become(self, limits: ByteLimits, now_s: float) -> bool:
        """Change the limits; return whether they are others than before.

        A bucket whose share changes goes on: what it owes stays owed.
        """
        if limits == self._limits:
            return False
        self._limits = limits
        self._link = _changed(self._link, limits.link, now_s)
        shares = dict(limits.topics)
        self._topics = {
            topic: bucket
            for topic, share in shares.items()
            if (bucket := _changed(self._topics.get(topic), share, now_s)) is not None
        }
        for topic in self._topics:
            self._number.setdefault(topic, LOW + 1 + len(self._number))
        self._by_set = {self._number[topic]: bucket for topic, bucket in self._topics.items()}
        self.are_any = self._link is not None or bool(self._topics)
        return True

    def set_of(self, item: PartitionCopy) -> int:
        """Return the set of partitions that one is fetched with."""
        topic = item.spec.source.topic
        if topic in self._topics:
            return self._number[topic]
        return _SETS[item.spec.priority]

    def sets(self, items: Sequence[PartitionCopy]) -> dict[int, int]:
        """Return the sets of partitions that are in a special one, by index."""
        if not self._topics and all(item.spec.priority is Priority.NORMAL for item in items):
            self.has_high, self.is_usual = False, not self.are_any
            return {}
        numbers = {item.index: self.set_of(item) for item in items}
        self.has_high, self.is_usual = HIGH in numbers.values(), False
        return {index: number for index, number in numbers.items() if number}

    def free_at_s(self, number: int) -> float:
        """Return from when on (s) a set of partitions may be fetched."""
        at_s = float("-inf")
        if self._link is not None:
            at_s = self._link.free_at_s(HIGH_DEBT_S if number == HIGH else 0.0)
        if (bucket := self._by_set.get(number)) is not None:
            at_s = max(at_s, bucket.free_at_s())
        return at_s

    def answer_bytes(self, number: int, *, is_far: bool) -> int:
        """Return how much an answer to a set's fetch may hold; `UNLIMITED`: as usual."""
        rate = min(
            (each.bytes_per_s for each in (self._link, self._by_set.get(number)) if each),
            default=0,
        )
        if not rate:
            return self._unlimited_bytes(number, is_far=is_far)
        most = FAR_ANSWER_BYTES_MAX if is_far else ANSWER_BYTES_MAX
        most = min(most, self._unlimited_bytes(number, is_far=is_far) or most)
        size = max(ANSWER_BYTES_MIN, min(most, int(rate * ANSWER_S)))
        return 1 << (size.bit_length() - 1)  # seldom another one while shares change

    def _unlimited_bytes(self, number: int, *, is_far: bool) -> int:
        if number == LOW or (self.has_high and number != HIGH):
            return 4 * SMALL_ANSWER_BYTES if is_far else SMALL_ANSWER_BYTES
        return UNLIMITED

    def take(self, number: int, size: int, now_s: float) -> None:
        """Take bytes of batches that were fetched for a set."""
        if self._link is not None:
            self._link.take(size, now_s)
        if (bucket := self._by_set.get(number)) is not None:
            bucket.take(size, now_s)

    def uses(self) -> list[LimitUse]:
        """Return what was used of each limit since it is one."""
        link = [] if self._link is None else [(None, self._link)]
        return [
            LimitUse(topic, bucket.used, int(bucket.throttled_s * 1000))
            for topic, bucket in (*link, *self._topics.items())
        ]


_SETS = {Priority.HIGH: HIGH, Priority.NORMAL: USUAL, Priority.LOW: LOW}


def _changed(bucket: TokenBucket | None, share: int, now_s: float) -> TokenBucket | None:
    if share <= 0:
        return None
    if bucket is None:
        return TokenBucket(share, now_s)
    bucket.become(share, now_s)
    return bucket


def whole_bytes(buffer: bytearray | memoryview, start: int, end: int) -> int:
    """Return the size of the whole batches in `buffer[start:end]`; the last may be cut."""
    at = start
    while at + LENGTH_ENDS_AT <= end:
        length = int.from_bytes(buffer[at + 8 : at + LENGTH_ENDS_AT], "big", signed=True)
        if length < LENGTH_MIN or at + LENGTH_ENDS_AT + length > end:
            break
        at += LENGTH_ENDS_AT + length
    return at - start
