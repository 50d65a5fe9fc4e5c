"""Finds who appended the last records of target partitions, before anything is appended there.

A broker that has forgotten our producer accepts any first sequence (KIP-98; it forgets by record
timestamp), so a foreign record at the end would become part of the mirror unnoticed. Where the
leader remembers our producer, its answer is enough; else the log's last batch is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from heliostat.clusters.wire.cluster import WireCluster
from heliostat.errors import ConnectionLost, ProtocolError
from heliostat.invariants import SEQUENCE_MODULUS, sequence_of
from heliostat.names import BrokerId, Offset
from heliostat.records.batches.batch import HEADER, MAGIC, MAGIC_AT, BatchHeader
from heliostat.records.copier.lane import PartitionSpec
from heliostat.records.copier.network import LastBatch, LogRange
from heliostat.records.transport.single_batches import BatchAt, read_batches

NOBODY = LastBatch(-1, -1)
"""For records in a format without producer ids."""
LastBatches = dict[int, LastBatch | None]


def read_last_batches(
    cluster: WireCluster,
    broker: BrokerId,
    specs: Mapping[int, PartitionSpec],
    ranges: Mapping[int, LogRange],
    producer_id: int,
) -> LastBatches:
    """Return who wrote the last record of these logs.

    Parameters
    ----------
    cluster, broker
        Target cluster, and the leader of all these partitions.
    specs, ranges
        Partitions by any key, and the log ranges of those to check.
    producer_id
        The link's producer id.

    Returns
    -------
    dict
        None where no record is left that shows it and the broker does not remember our producer.
        Partitions that can't be checked now are missing, e.g. if the record is not below the high
        watermark yet.
    """
    try:
        partitions = {index: specs[index].target for index in ranges}
        sequences = cluster.last_sequences(broker, list(partitions.values()))
        known = {
            index: LastBatch(producer_id, sequences[partition][producer_id])
            for index, partition in partitions.items()
            if producer_id in sequences.get(partition, ())
        }
        found: LastBatches = {
            index: last_batch
            for index, last_batch in known.items()
            if last_batch.sequence == sequence_of(ranges[index].end - 1)
        }
        asked = [index for index in ranges if index not in found]
        read = read_batches(cluster, broker, _places(specs, ranges, asked))
    except (ConnectionLost, ProtocolError):
        return {}
    gone = [index for index in asked if ranges[index].start >= ranges[index].end]
    for index in (*gone, *(index for index, batch in read.items() if batch is None)):
        # Even if the record is gone, the broker's memory shows whether it was ours.
        found[index] = known.get(index)
    for index, batch in read.items():
        if batch:  # empty: the log has changed since, so it can't be checked now
            _take(batch, index, ranges[index].end, found)
    return found


def _places(
    specs: Mapping[int, PartitionSpec], ranges: Mapping[int, LogRange], indexes: Iterable[int]
) -> dict[int, BatchAt]:
    """Return where the last records are, of those logs that have any."""
    return {
        index: BatchAt(
            specs[index].target, specs[index].target_topic_id, Offset(ranges[index].end - 1)
        )
        for index in indexes
        if ranges[index].start < ranges[index].end
    }


def _take(batch: bytes, index: int, end: Offset, found: LastBatches) -> None:
    """Note who wrote the record before `end`, unless the log has grown since."""
    if batch[MAGIC_AT] != MAGIC:
        found[index] = NOBODY
        return
    header = BatchHeader._make(HEADER.unpack_from(batch))
    if header.next_offset == end:
        sequence = (header.base_sequence + header.last_offset_delta) % SEQUENCE_MODULUS
        found[index] = LastBatch(header.producer_id, sequence)
