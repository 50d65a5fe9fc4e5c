"""The most that the target broker can append: ready-made batches of one shape, sent raw.

Started as a process of its own by the `append_limit` parts and measured like every other part.
The batch is taken from the source topic itself, so its records and codec are the scenario's. Two
shapes: `as_source` sends the batch as the source holds it, `joined` its records joined to about
1 MB, which is what a copier may send at best. No producer id, no checks, nothing fetched
meanwhile: no replicator can be faster than the better of the two on the same machine.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import struct
import sys
import time
from collections import deque

from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from awscrt import checksums
from wire import Connection, WireError

IN_FLIGHT = 5
"""Requests in flight on each connection, as many as an idempotent producer may have."""
JOINED_BYTES = 900_000
"""Below the default `max.message.bytes` (1,048,588) whatever the framing adds."""
SAMPLE_BYTES = 4_000_000
"""Enough source bytes to make a joined batch of, also with lz4."""
BATCH_HEADER_BYTES = 61
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
"""By the lowest three bits of a batch's attributes."""
WAIT_FOR_TOPIC_S = 60.0


def sample_batches(bootstrap: str, topic: str) -> list[bytes]:
    """Whole batches from the start of the topic's first partition, without their producer ids."""
    with Connection(bootstrap) as source:
        data = source.fetch(topic, 0, 0, SAMPLE_BYTES)
        position = 0
        batches: list[bytes] = []
        held = 0
        while held < SAMPLE_BYTES:
            at = 0
            before = position
            while at + BATCH_HEADER_BYTES <= len(data):
                size = 12 + int(struct.unpack_from(">i", data, at + 8)[0])
                if at + size > len(data):
                    break
                batch = data[at : at + size]
                base, last_delta = struct.unpack_from(">q15xi", batch, 0)
                position = base + last_delta + 1
                batches.append(anonymous(batch))
                held += size
                at += size
            if position == before:
                break
            data = source.fetch(topic, 0, position, SAMPLE_BYTES)
    if not batches:
        raise WireError(f"no whole batch in {topic}-0")
    return batches


def anonymous(batch: bytes) -> bytes:
    """The batch with base offset 0 and neither producer id, epoch nor sequence."""
    data = bytearray(batch)
    struct.pack_into(">q", data, 0, 0)
    struct.pack_into(">qhi", data, 43, -1, -1, -1)
    struct.pack_into(">I", data, 17, checksums.crc32c(bytes(data[21:])))
    return bytes(data)


def record_count(batch: bytes) -> int:
    """Return the number of records by the batch's header."""
    return int(struct.unpack_from(">i", batch, 57)[0])


def joined(batches: list[bytes]) -> bytes:
    """Records of the batches in one batch of about `JOINED_BYTES` before compression."""
    codec = struct.unpack_from(">h", batches[0], 21)[0] & 7
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=codec,
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=2 * JOINED_BYTES,
    )
    count = 0
    for raw in batches:
        records = MemoryRecords(raw)
        while (batch := records.next_batch()) is not None:
            for record in batch:
                builder.append(
                    count, record.timestamp, record.key, record.value, list(record.headers)
                )
                count += 1
                if builder.size() > JOINED_BYTES:
                    return bytes(builder.build())
    return bytes(builder.build())


def plan(batch: bytes, partitions: int, records: int) -> tuple[int, int]:
    """Batches to each partition and the records they make up in all: at least `records`."""
    each = math.ceil(records / partitions / record_count(batch))
    return each, each * partitions * record_count(batch)


def send(bootstrap: str, topic: str, batch: bytes, partitions: list[int], each: int) -> None:
    """Append `batch` `each` times to every one of the partitions."""
    with Connection(bootstrap) as target:
        deadline_s = time.monotonic() + WAIT_FOR_TOPIC_S
        while not target.ends({topic: 1}):
            if time.monotonic() > deadline_s:
                raise WireError(f"no topic {topic}")
            time.sleep(0.1)
        waiting: deque[int] = deque()
        for number in range(each):
            if len(waiting) >= IN_FLIGHT:
                target.receive_produce()
                waiting.popleft()
            target.send_produce(topic, [(partition, batch) for partition in partitions])
            waiting.append(number)
        for _ in waiting:
            target.receive_produce()


def command(
    *,
    source: str,
    source_topic: str,
    target: str,
    target_topic: str,
    partitions: int,
    records: int,
    senders: int,
    shape: str,
) -> list[str]:
    """The command line that runs this module."""
    given = {
        "--source": source,
        "--source-topic": source_topic,
        "--target": target,
        "--target-topic": target_topic,
        "--partitions": str(partitions),
        "--records": str(records),
        "--senders": str(senders),
        "--shape": shape,
    }
    return [sys.executable, __file__, *(word for pair in given.items() for word in pair)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("--source", "--source-topic", "--target", "--target-topic"):
        parser.add_argument(name, required=True)
    for name in ("--partitions", "--records", "--senders"):
        parser.add_argument(name, type=int, required=True)
    parser.add_argument("--shape", choices=("as_source", "joined"), required=True)
    given = parser.parse_args()
    batch = shaped(given.source, given.source_topic, given.shape)
    each, _ = plan(batch, given.partitions, given.records)
    shares = [list(range(given.partitions))[i :: given.senders] for i in range(given.senders)]
    senders = [
        multiprocessing.Process(
            target=send, args=(given.target, given.target_topic, batch, share, each)
        )
        for share in shares
        if share
    ]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    if any(sender.exitcode for sender in senders):
        raise SystemExit(1)


def shaped(bootstrap: str, topic: str, shape: str) -> bytes:
    """Return the one batch that is sent again and again."""
    batches = sample_batches(bootstrap, topic)
    return joined(batches) if shape == "joined" else batches[0]


if __name__ == "__main__":
    main()
