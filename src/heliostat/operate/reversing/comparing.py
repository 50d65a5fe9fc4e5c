"""Reads both logs of partitions that were promoted, several at once, and compares them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial

from heliostat.clusters.admin.caller import UNSUPPORTED_VERSION
from heliostat.errors import BrokerError
from heliostat.gaps.source_truncation import Divergence, truncations
from heliostat.handover.promotion import MirrorEnds, PartitionPromotion
from heliostat.mm2.adopt_clusters import LinkClusters
from heliostat.names import LinkName, Offset, TopicName, TopicPartition
from heliostat.offsets.offset_map import MapReader
from heliostat.offsets.store import read_maps
from heliostat.operate.reversing.logs import BothEnds, Comparison, LogSide
from heliostat.rebuild.several_readers import SeveralReaders
from heliostat.rescue.look import LogHabits, copy_notes, habits_of
from heliostat.rescue.source_rest import OpenProducer, open_producers
from heliostat.verify.both_logs import rows_of
from heliostat.verify.both_readers import BothReaders
from heliostat.verify.read_requests import Isolation
from heliostat.verify.reader import Bounds
from heliostat.verify.schema_ids import Views


@dataclass(frozen=True, slots=True)
class PromotedPartition:
    """A partition that was promoted: where it is at both sides, and where it ended."""

    at_old: TopicPartition
    at_new: TopicPartition
    promotion: PartitionPromotion
    old_end: Offset
    mirror_id: str
    """Id of the topic at the new primary."""


@dataclass(frozen=True, slots=True)
class _Known:
    """What is asked of both clusters about all topics at once, before any is read."""

    maps: MapReader
    old: Mapping[TopicName, LogHabits]
    new: Mapping[TopicName, LogHabits]
    epochs: Mapping[TopicPartition, Divergence | None]


@dataclass(frozen=True, slots=True)
class Comparing:
    """Compares both logs of what was promoted.

    Parameters
    ----------
    clusters
        Those of the link that leads back.
    link
        The link whose mirrors were promoted.
    views
        How records are compared.
    """

    clusters: LinkClusters
    link: LinkName
    views: Views

    def open_transactions(
        self, partitions: Sequence[TopicPartition]
    ) -> dict[TopicName, list[OpenProducer]]:
        """Return the transactions that are open at the old source; brokers before 2.8 name none.

        Raises
        ------
        ConnectionLost, BrokerError
            The old source does not answer, or refuses.
        """
        topics: dict[TopicName, list[OpenProducer]] = {}
        try:
            producers = open_producers(self.clusters.target, partitions)
        except BrokerError as error:
            if error.kafka_code != UNSUPPORTED_VERSION:
                raise
            producers = []  # `BothEnds` sees them all the same
        for producer in producers:
            topics.setdefault(producer.partition.topic, []).append(producer)
        return topics

    def compare(
        self, topics: Mapping[TopicName, MirrorEnds], partitions: Sequence[PromotedPartition]
    ) -> dict[TopicPartition, Comparison]:
        """Return what both logs of partitions show, by the partition at the old source.

        Parameters
        ----------
        topics
            What was promoted, by its name at the old source.

        Raises
        ------
        ConnectionLost, BrokerError, BatchError
            A cluster does not answer, or refuses, or a batch is damaged.
        """
        if not partitions:
            return {}
        clusters = self.clusters
        old = habits_of(clusters.target, list(topics))
        compacted = [name for name, habits in old.items() if habits.compacts]
        context = _Known(
            read_maps(clusters.source_access, self.link),
            old,
            habits_of(clusters.source, [ends.target for ends in topics.values()]),
            truncations(clusters.target, copy_notes(topics), compacted),
        )
        accesses = clusters.target_access, clusters.source_access
        with closing(SeveralReaders(*accesses, Isolation.READ_COMMITTED)) as readers:
            work = partial(self._compared, context)
            rows = list(readers.each(partitions, work))
        return {partition.at_old: row for partition, row in zip(partitions, rows, strict=True)}

    def _compared(
        self, context: _Known, readers: BothReaders, some: Sequence[PromotedPartition]
    ) -> list[Comparison]:
        old = readers.source.bounds([partition.at_old for partition in some])
        new = readers.target.bounds([partition.at_new for partition in some])
        return [
            self._comparison(
                context, readers, partition, (old[partition.at_old], new[partition.at_new])
            )
            for partition in some
        ]

    def _comparison(
        self,
        context: _Known,
        readers: BothReaders,
        partition: PromotedPartition,
        bounds: tuple[Bounds, Bounds],
    ) -> Comparison:
        at_old, at_new, mirror_id = partition.at_old, partition.at_new, partition.mirror_id
        if context.maps.is_lost(at_new, mirror_id):
            why = "its offset map is lost: see `heliostat offsets rebuild`"
            return Comparison(why, must_stay=True)
        views, (old, new) = self.views, bounds
        return BothEnds(
            LogSide(
                *(at_old, Offset(old.start), Offset(old.end), context.old[at_old.topic]),
                partial(rows_of, readers.source, at_old, view=views.of_source),
            ),
            LogSide(
                *(at_new, Offset(new.start), Offset(new.end), context.new[at_new.topic]),
                partial(rows_of, readers.target, at_new, view=views.of_target),
            ),
            partition.promotion,
            partition.old_end,
            context.maps.of(at_new, mirror_id),
            at_old in context.epochs,
            context.epochs.get(at_old),
        ).compare()
