"""Source offsets at which partitions begin: looked up once, durable before records, then fixed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from heliostat.clusters.admin import EARLIEST, LATEST, ClusterAdmin
from heliostat.gaps.keeper import GapKeeper
from heliostat.link.beginnings import Beginnings
from heliostat.link.known import Known
from heliostat.link.merging import ends_at_begin
from heliostat.names import Offset, PartitionId, TopicName, TopicPartition
from heliostat.records.copier.lane import PartitionReport
from heliostat.state.link_state import LinkState, Starts
from heliostat.topics.topic_plan import Mirror


@dataclass(frozen=True, slots=True)
class StartOffsets:
    """Keeps the start offsets of partitions, in memory and in the link's state.

    Parameters
    ----------
    state
        The link's state on the target.
    beginnings
        Looks up start offsets.
    gaps
        Records what was lost with mirrors that somebody deleted.
    merged_at
        The target, if the link's topics are merged: where they end there is noted as well.
    """

    state: LinkState
    beginnings: Beginnings
    gaps: GapKeeper
    merged_at: ClusterAdmin | None = None

    def look_up(self, known: Known, mirrors: tuple[Mirror, ...]) -> Mapping[TopicName, Starts]:
        """Return where partitions begin: looked up once, made durable, then fixed."""
        rows = {mirror.source: _start_row(known, mirror) for mirror in mirrors}
        asked = {
            TopicPartition(mirror.source, PartitionId(number)): _when(mirror, number)
            for mirror in mirrors
            for number in range(mirror.partitions)
            if number not in rows[mirror.source].offsets
        }
        if asked:
            given = {
                TopicPartition(mirror.source, number): offset
                for mirror in mirrors
                for number, offset in mirror.given.items()
            }
            begins = self.beginnings.look_up(asked, given)
            if self.merged_at is not None:
                begins = self._merged(begins, rows, self.merged_at)
            for partition, offset in begins.items():
                rows[partition.topic].offsets[partition.partition] = offset
            self._record_deleted_mirrors(known, rows)
            self.state.put_starts({partition.topic: rows[partition.topic] for partition in asked})
            known.starts.update(rows)
        return rows

    def _merged(
        self,
        begins: Mapping[TopicPartition, Offset],
        rows: Mapping[TopicName, Starts],
        target: ClusterAdmin,
    ) -> dict[TopicPartition, Offset]:
        """Note where the target's logs end; return the partitions of which that is known."""
        found: dict[TopicPartition, Offset] = {}
        ends = ends_at_begin(target, begins)  # a merged topic has one name at both sides
        for partition, offset in begins.items():
            if partition in ends:
                rows[partition.topic].merged[partition.partition] = ends[partition]
                found[partition] = offset
        return found

    def begin_later(
        self, known: Known, reports: Sequence[PartitionReport]
    ) -> Collection[TopicPartition]:
        """Move start offsets that retention overtook before the first record was copied.

        Returns
        -------
        Source partitions that begin later from now on.
        """
        found = self.beginnings.overtaken(reports)
        later = {each: offset for each, offset in found.items() if each.topic in known.starts}
        for partition, offset in later.items():
            known.starts[partition.topic].offsets[partition.partition] = offset
        if found:
            self.state.put_starts({each.topic: known.starts[each.topic] for each in later})
        return found.keys()

    def _record_deleted_mirrors(self, known: Known, rows: Mapping[TopicName, Starts]) -> None:
        """Record as gaps what deleted mirrors had and the source no longer has (I6)."""
        for name, row in rows.items():
            was, record = known.starts.get(name), known.mirrors.get(name)
            if was is not None and record is not None and was.target_id != row.target_id:
                self.gaps.record_deleted_mirror(record, was, row.offsets)


def _start_row(known: Known, mirror: Mirror) -> Starts:
    """Return the stored row of this target topic; an empty one if the topic was recreated."""
    row = known.starts.get(mirror.source)
    return (
        row if row is not None and row.target_id == mirror.target_id else Starts(mirror.target_id)
    )


def _when(mirror: Mirror, number: int) -> int:
    """Return the timestamp for ListOffsets; later partitions are copied from their beginning."""
    if number >= mirror.initial_partitions or number in mirror.given:
        return EARLIEST
    return {"earliest": EARLIEST, "latest": LATEST}.get(mirror.start) or int(mirror.start)
