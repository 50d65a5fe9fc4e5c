"""Who appended the last records of target partitions, asked before anything is appended there.

A broker that has forgotten our producer takes any first sequence (KIP-98; it forgets by record
timestamp), so a foreign record at the end would become part of the mirror unseen. Where the leader
remembers us its own word is enough; else the log's last batch is read.
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
"""Of records in a format that has no producers."""
LastBatches = dict[int, LastBatch | None]


def read_last_batches(
    cluster: WireCluster,
    broker: BrokerId,
    specs: Mapping[int, PartitionSpec],
    ranges: Mapping[int, LogRange],
    producer_id: int,
) -> LastBatches:
    """Tell who wrote the last record of logs.

    Parameters
    ----------
    cluster, broker
        The target, and the leader of all these partitions.
    specs, ranges
        Partitions by any key, and what is in the logs of those to look at.
    producer_id
        Ours.

    Returns
    -------
    dict
        None where no record is left to tell it by and the broker does not remember us. Missing are
        those that can't be told now, as one that is not committed yet.
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
        # That the record is gone does not hide that it was none of ours.
        found[index] = known.get(index)
    for index, batch in read.items():
        if batch:  # one whose log has changed since can't be told
            _take(batch, index, ranges[index].end, found)
    return found


def _places(
    specs: Mapping[int, PartitionSpec], ranges: Mapping[int, LogRange], indexes: Iterable[int]
) -> dict[int, BatchAt]:
    """The last records of those logs that have any."""
    return {
        index: BatchAt(
            specs[index].target, specs[index].target_topic_id, Offset(ranges[index].end - 1)
        )
        for index in indexes
        if ranges[index].start < ranges[index].end
    }


def _take(batch: bytes, index: int, end: Offset, found: LastBatches) -> None:
    """Whose the record before `end` is; one whose log has moved on can't be told."""
    if batch[MAGIC_AT] != MAGIC:
        found[index] = NOBODY
        return
    header = BatchHeader._make(HEADER.unpack_from(batch))
    if header.next_offset == end:
        sequence = (header.base_sequence + header.last_offset_delta) % SEQUENCE_MODULUS
        found[index] = LastBatch(header.producer_id, sequence)
