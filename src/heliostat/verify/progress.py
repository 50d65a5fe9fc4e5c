"""How far a comparison has come, while it runs. Pure: neither clock nor network."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from heliostat.verify.ranges import Chunk, Stretch
    from heliostat.verify.work import ChunkResult


class Phase(StrEnum):
    """What is being done."""

    PREPARING = "preparing"
    COMPARING = "comparing"
    EXPLAINING = "explaining"
    """What differs is read again, to tell what is lost, altered or only compacted."""


class Verdict(StrEnum):
    """What is known of equality."""

    OPEN = "open"
    EQUAL = "equal"
    DIFFERENT = "different"


@dataclass(frozen=True, slots=True)
class VerifyProgress:
    """How far it is."""

    phase: Phase = Phase.PREPARING
    topics: int = 0
    topics_done: int = 0
    partitions: int = 0
    partitions_done: int = 0
    offsets: int = 0
    """Source offsets to be compared; some may have no record."""
    offsets_done: int = 0
    records: int = 0
    """Records compared so far."""
    partitions_different: int = 0
    """So far; what differs may turn out to be compacted, and no difference."""
    partitions_unread: int = 0
    """Partitions that could not be read."""

    @property
    def verdict(self) -> Verdict:
        """What is known by now."""
        if self.partitions_different or self.partitions_unread:
            return Verdict.DIFFERENT
        return Verdict.EQUAL if self.records else Verdict.OPEN

    def to_json(self) -> dict[str, Any]:
        """Return it for programs."""
        return {**asdict(self), "verdict": self.verdict}


class CountedWork:
    """Counts what has been compared, and tells it.

    Parameters
    ----------
    tell
        Takes each change; None: nobody asks.
    """

    def __init__(self, tell: Callable[[VerifyProgress], None] | None = None) -> None:
        self._tell = tell
        self.progress = VerifyProgress()
        self._partitions_left: Counter[str] = Counter()
        """By topic of the source."""
        self._stretches: Sequence[Stretch] = ()
        self._chunks: dict[tuple[int, int], Chunk] = {}
        self._chunks_left: Counter[int] = Counter()
        self._different: set[int] = set()
        self._unread: set[int] = set()

    @property
    def is_told(self) -> bool:
        """Whether somebody takes it."""
        return self._tell is not None

    def plan(self, stretches: Sequence[Stretch]) -> None:
        """Take what is to be compared."""
        self._partitions_left = Counter(
            one.source.topic for one in stretches if one.end > one.start
        )
        topics = {one.source.topic for one in stretches}
        self._change(
            phase=Phase.COMPARING,
            topics=len(topics),
            topics_done=len(topics) - len(self._partitions_left),
            partitions=len(stretches),
            partitions_done=len(stretches) - self._partitions_left.total(),
            offsets=sum(one.end - one.start for one in stretches),
        )

    def share_out(self, stretches: Sequence[Stretch], shares: Iterable[Sequence[Chunk]]) -> None:
        """Take how some of them were cut; chunks name them by their place in `stretches`."""
        chunks = [chunk for share in shares for chunk in share]
        self._stretches = stretches
        self._chunks = {(chunk.stretch, chunk.start): chunk for chunk in chunks}
        self._chunks_left = Counter(chunk.stretch for chunk in chunks)
        self._different, self._unread = set(), set()

    def compared(self, found: ChunkResult) -> None:
        """Count a chunk, once however often it is told."""
        chunk = self._chunks.pop((found.stretch, found.start), None)
        if chunk is None:
            return
        now = self.progress
        self._chunks_left[found.stretch] -= 1
        is_done = not self._chunks_left[found.stretch]
        topic = self._stretches[found.stretch].source.topic
        if is_done:
            self._partitions_left[topic] -= 1
        self._change(
            topics_done=now.topics_done + (is_done and not self._partitions_left[topic]),
            partitions_done=now.partitions_done + is_done,
            offsets_done=now.offsets_done + chunk.end - chunk.start,
            records=now.records + found.records,
            partitions_different=now.partitions_different
            + _is_first(self._different, found.stretch, found.differs_at is not None),
            partitions_unread=now.partitions_unread
            + _is_first(self._unread, found.stretch, found.error is not None),
        )

    def explain(self) -> None:
        """Note that what differs is being explained."""
        self._change(phase=Phase.EXPLAINING)

    def _change(self, **fields: Any) -> None:
        self.progress = replace(self.progress, **fields)
        if self._tell is not None:
            self._tell(self.progress)


def _is_first(counted: set[int], number: int, is_so: bool) -> bool:
    if not is_so or number in counted:
        return False
    counted.add(number)
    return True
