"""How far the link has copied, as reported, checked at the source, and written down.

Lanes' reports and rounds' results go into an `EpochBook`; the source's leaders are asked whether
they still hold what was copied (`source_truncation`); it is stored in the link's ledger.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from heliostat.clock import Clock
from heliostat.clusters.admin import ClusterAdmin
from heliostat.gaps.ledger import CopiedTopic, CopyNote, GapLedger
from heliostat.gaps.rows import Memory, lost_row
from heliostat.gaps.source_truncation import (
    WRITE_EVERY_S,
    Divergence,
    EpochBook,
    LostRange,
    truncations,
)
from heliostat.names import Offset, TopicId, TopicName, TopicPartition, is_still
from heliostat.ops.events import Events
from heliostat.records.copier.lane import PartitionReport, PartitionSpec, RoundReport
from heliostat.topics.values import MirrorRecord

NOTHING_NOTED = CopyNote(Offset(-1), -1)


class CopyProgress:
    """How far each partition was copied, and where the source lost some of that.

    Used by the driver's reconciliation only, except methods marked as callable from any thread.

    Parameters
    ----------
    source
        The cluster that is copied from.
    ledger
        Stores progress, and rows of what the target lost.
    clock, events
        Time, and where losses are logged.
    """

    def __init__(
        self, source: ClusterAdmin, ledger: GapLedger, *, clock: Clock, events: Events
    ) -> None:
        self._source = source
        self._ledger = ledger
        self._clock = clock
        self._events = events
        self._book = EpochBook({})
        self._mirrors: Mapping[TopicName, MirrorRecord] = {}
        self._is_first = True
        self._written_at_s = clock.monotonic_s()
        self.diverged: dict[TopicPartition, Divergence] = {}
        """Source partitions that lost copied records, as of the last reconciliation."""

    def begin(self) -> None:
        """Continue from what the ledger holds."""
        self._book = EpochBook(self._ledger.copied)

    def finish(self) -> None:
        """Write the progress of rounds that ended since the last update; no round runs any more.

        Raises
        ------
        ConnectionLost, BrokerError
            The ledger can't be written.
        """
        self._take(())
        self._book.settle_noted(is_over=True)  # no report is newer than the rounds' results
        self._ledger.put_copied(self._book.due(all_moved=True))

    def update(self, reports: Iterable[PartitionReport], memory: Memory) -> None:
        """Take new reports, ask the source whether it still holds what was copied, write it down.

        Raises
        ------
        ConnectionLost, BrokerError
            The source does not answer, or the ledger can't be written.
        """
        self._mirrors = memory.mirrors
        self._take(reports)
        self._book.settle_noted(is_over=False)
        self._look_at_epochs(
            [n for n, r in memory.mirrors.items() if _is_same(memory, r)],
            {name for name, topic in memory.topics.items() if topic.is_compacted},
        )
        is_time = self._clock.monotonic_s() >= self._written_at_s + WRITE_EVERY_S
        if is_time:
            self._written_at_s = self._clock.monotonic_s()
        self._ledger.put_copied(self._book.due(all_moved=is_time))

    def copied(self, specs: Sequence[PartitionSpec]) -> tuple[tuple[int, int, int, int], ...]:
        """Return the `LaneSpec.copied` of a lane that begins a round; from any thread."""
        found: list[tuple[int, int, int, int]] = []
        for index, spec in enumerate(specs):
            row = self._book.row_of(spec)
            if row is not None or self._book.has_begun(spec):
                found.append((index, *(row or NOTHING_NOTED)))
        return tuple(found)

    def copied_to(self, source: TopicPartition) -> CopyNote | None:
        """Return how far a source partition was copied, as far as that is noted."""
        topic = self.of_topic(source.topic)
        return None if topic is None else topic.partitions.get(source.partition)

    def of_topic(self, name: TopicName) -> CopiedTopic | None:
        """Return how far a source topic's partitions were copied; None: nothing is noted."""
        return self._book.topics().get(name)

    def round_ended(
        self, specs: Mapping[TopicPartition, PartitionSpec], report: RoundReport
    ) -> None:
        """Note how far a round has copied of its partitions; from any thread."""
        for source, *row in report.copied:
            if source in specs:
                self._book.note(specs[source], CopyNote(*row))

    def note_lost(self, loss: LostRange, source_id: TopicId | None) -> None:
        """Note what a lane reports that the target has lost; from any thread."""
        self._book.note_lost(loss, source_id)

    def forget(self, source: TopicPartition) -> None:
        """Forget how far it was copied: that says nothing of the next mirror."""
        self._book.forget(source)

    def pass_gap(self, source: TopicPartition, still: CopyNote | None = None) -> None:
        """Forget how far it was copied and where it diverged: a gap there is recorded.

        Parameters
        ----------
        source
            The partition.
        still
            Up to where the source still has what was copied. That stays noted: else nobody would
            find that another election takes some of it. None: not known.
        """
        self._book.forget(source)
        self.diverged.pop(source, None)
        if still is not None:
            self._book.begin_with(source, still)

    def _take(self, reports: Iterable[PartitionReport]) -> None:
        """Note progress, and record what the target lost of it: that is copied again."""
        source_ids = {name: record.source_id for name, record in self._mirrors.items()}
        now_ms = self._clock.wall_ms()
        rows = [
            lost_row(item, self._mirrors[item.partition.topic], now_ms)
            for item in self._book.take(reports, source_ids)
        ]
        for row in rows:
            self._events.warn(f"{row.target}: {row.text}")
        if rows:
            self._ledger.record(rows)

    def _look_at_epochs(self, names: Sequence[TopicName], compacted: Collection[TopicName]) -> None:
        """Ask about partitions whose leader has changed; the first time about all of them."""
        leaders = None if self._is_first else self._leader_epochs(names)
        answers = truncations(self._source, self._book.to_ask(leaders, names), compacted)
        self.diverged = {p: at for p, at in answers.items() if at is not None}
        self._book.confirm(p for p, at in answers.items() if at is None)
        self._is_first = False

    def _leader_epochs(self, names: Iterable[TopicName]) -> dict[TopicPartition, int]:
        infos = self._source.describe_topics()
        return {
            TopicPartition(name, partition.partition): partition.leader_epoch
            for name in names
            if name in infos
            for partition in infos[name].partitions
        }


def _is_same(memory: Memory, record: MirrorRecord) -> bool:
    """Return whether the source's topic is still the one that was copied."""
    topic = memory.topics.get(record.source)
    return topic is not None and is_still(record.source_id, topic.topic_id)
