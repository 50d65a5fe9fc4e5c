"""DescribeProducers packed by hand (KIP-664, DescribeProducersRequest.json, v0).

It returns the last sequence of each producer in each partition, as far as the leader remembers it:
this shows who wrote a log's last record without reading that record. A round sends it at its start
for all partitions of its lane, as `log_ends`, and it is packed by hand for the same reason.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from heliostat.clusters.wire.primitives import (
    NO_TAGS,
    Buffer,
    compact_topics,
    read_compact_string,
    read_topics,
    read_uvarint,
    skip_tagged_fields,
)
from heliostat.errors import ProtocolError
from heliostat.names import PartitionId, TopicName
from heliostat.names import TopicPartition as Partition

API_KEY = 61
VERSION_MAX = 0
_PARTITION = struct.Struct(">ih")
_PRODUCER = struct.Struct(">qiiqiq")
_INDEX = struct.Struct(">i")


class LastSequencesRequest:
    """Request for the producers that the leader of partitions remembers.

    Parameters
    ----------
    partitions
        Partitions, all of one leader.
    """

    API_KEY = API_KEY

    def __init__(self, partitions: Sequence[Partition]) -> None:
        self._partitions = partitions

    @staticmethod
    def flexible_version_q(version: int) -> bool:
        """Whether there are tagged fields."""
        return version >= 0

    def encode(self, version: int) -> bytes:
        """Body of the request."""
        del version  # there is only one
        return (
            compact_topics(self._partitions, lambda partition: _INDEX.pack(partition.partition))
            + NO_TAGS
        )


class LastSequencesAnswer:
    """Last sequences by partition and producer id; refused partitions are missing."""

    @staticmethod
    def decode(buffer: Buffer, version: int) -> dict[Partition, dict[int, int]]:
        """Read an answer that begins at the buffer's first byte.

        Raises
        ------
        ProtocolError
            The bytes do not follow the format.
        """
        del version  # there is only one
        try:
            return _read(buffer)
        except (IndexError, struct.error, ValueError) as error:
            raise ProtocolError("an answer with producers is malformed", why=str(error)) from error


def _read(buffer: Buffer) -> dict[Partition, dict[int, int]]:
    sequences: dict[Partition, dict[int, int]] = {}

    def read_partition(topic: TopicName, position: int) -> int:
        number, error = _PARTITION.unpack_from(buffer, position)
        _, position = read_compact_string(buffer, position + _PARTITION.size)
        producers, position = read_uvarint(buffer, position)
        last: dict[int, int] = {}
        for _ in range(producers - 1):
            producer_id, _, sequence, _, _, _ = _PRODUCER.unpack_from(buffer, position)
            position = skip_tagged_fields(buffer, position + _PRODUCER.size)
            last[producer_id] = sequence
        if not error:
            sequences[Partition(topic, PartitionId(number))] = last
        return skip_tagged_fields(buffer, position)

    read_topics(buffer, 4, read_partition)  # after the throttle time
    return sequences
