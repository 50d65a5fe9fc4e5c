"""One fetch of one partition as a rare request: for topics of our own, not for lanes."""

from __future__ import annotations

from dataclasses import dataclass

from heliostat.clusters.wire import fetch
from heliostat.clusters.wire.primitives import Buffer
from heliostat.errors import ProtocolError

BY_NAME = 12
"""Version that names topics: a reader of one topic need not know its id."""


@dataclass(frozen=True, slots=True)
class FetchOnce:
    """Request for records of one partition from an offset on.

    Parameters
    ----------
    partition
        What is read.
    wait_ms
        How long the broker waits for a first record.
    committed
        Whether only records of committed transactions count: others are named in the answer.
    """

    API_KEY = fetch.API_KEY

    partition: fetch.FetchPartition
    wait_ms: int
    committed: bool

    @staticmethod
    def flexible_version_q(version: int) -> bool:
        """Whether there are tagged fields: in all versions that this class supports."""
        return version >= BY_NAME

    def encode(self, version: int) -> bytes:
        """Body of the request.

        Raises
        ------
        ProtocolError
            The version is too old.
        """
        if version != BY_NAME:
            raise ProtocolError(
                "broker and Heliostat share no version of a request",
                hint="brokers from 2.8 on are supported",
                api_key=fetch.API_KEY,
            )
        return bytes(
            fetch.encode_fetch(
                version,
                [self.partition],
                max_wait_ms=self.wait_ms,
                min_bytes=1,
                max_bytes=self.partition.bytes_max,
                read_committed=self.committed,
            )
        )


@dataclass(frozen=True, slots=True)
class FetchedOnce:
    """Answer: the batches as they came, and what is needed to read them.

    `log_start` and `stable` are -1 if the broker returned an error; `aborted` has producer id and
    first offset of each aborted transaction.
    """

    error: int
    log_start: int
    stable: int
    aborted: tuple[tuple[int, int], ...]
    batches: bytes

    @staticmethod
    def decode(buffer: Buffer, version: int) -> FetchedOnce:
        """Read an answer that begins at the buffer's first byte.

        Raises
        ------
        ProtocolError
            The bytes do not follow the format.
        """
        answer = fetch.decode_body(version, buffer, 0)
        if answer.error:
            return FetchedOnce(answer.error, -1, -1, (), b"")
        for got in answer.partitions:
            return FetchedOnce(
                got.error,
                got.log_start,
                got.last_stable_offset,
                got.aborted,
                bytes(buffer[got.start : got.end]),
            )
        raise ProtocolError("a fetch answer lacks its partition")
