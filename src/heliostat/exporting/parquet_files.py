"""Records as Parquet files: a folder for each topic and partition, files of some size.

    DIR/<topic>/partition=<number>/<first offset, 20 digits>.parquet

Columns are those of Spark's Kafka source. A file has its name once it is whole and on the disk: who
is killed leaves whole files, and one whose name begins with a dot. The same records in files of the
same size have the same names, so that a second run writes each file again.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from heliostat.errors import Refused
from heliostat.exporting.exported import ExportedRecord
from heliostat.names import Offset, TopicPartition

FILE_BYTES = 128 << 20
"""Of records, before they are compressed."""
GROUP_BYTES, GROUP_RECORDS = 8 << 20, 50_000
"""So much is held in memory at a time."""
SCHEMA = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.timestamp("ms", tz="UTC"), nullable=False),
        pa.field("timestampType", pa.int32(), nullable=False),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field(
            "headers",
            pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])),
            nullable=False,
        ),
    ]
)


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file that is whole, and what it holds."""

    path: Path
    partition: TopicPartition
    first: Offset
    last: Offset
    records: int


class ParquetFiles:
    """Writes records of partitions into files below a folder.

    Parameters
    ----------
    folder
        Where; it is made if it is missing.
    file_bytes
        After so many bytes of records another file begins.
    """

    def __init__(self, folder: Path, file_bytes: int = FILE_BYTES) -> None:
        self._folder = folder
        self._file_bytes = file_bytes

    def write(self, records: Iterable[ExportedRecord]) -> Iterator[WrittenFile]:
        """Write the records of one partition, in order; yield each file once it is whole.

        Raises
        ------
        Refused
            The folder can't be written.
        """
        remaining = iter(records)
        first = next(remaining, None)
        while first is not None:
            try:
                written, first = self._write_one(first, remaining)
            except OSError as error:
                why = f"{self._folder} can't be written: {error.strerror or error}"
                raise Refused(why, hint="files that have their names are whole") from error
            yield written

    def _write_one(
        self, first: ExportedRecord, remaining: Iterator[ExportedRecord]
    ) -> tuple[WrittenFile, ExportedRecord | None]:
        """Write one file; return it, and the record that begins the next one."""
        folder = self._folder / first.partition.topic / f"partition={first.partition.partition}"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{first.offset:020}.parquet"
        unfinished = folder / f".{path.name}.unfinished"
        group = [first]
        group_bytes = file_bytes = first.size
        records, last, following = 0, first.offset, None
        with pq.ParquetWriter(unfinished, SCHEMA, compression="zstd") as writer:
            for record in remaining:
                if file_bytes >= self._file_bytes:
                    following = record
                    break
                if group_bytes >= GROUP_BYTES or len(group) >= GROUP_RECORDS:
                    writer.write_batch(_rows(group))
                    records += len(group)
                    group, group_bytes = [], 0
                group.append(record)
                group_bytes += record.size
                file_bytes += record.size
                last = record.offset
            writer.write_batch(_rows(group))
            records += len(group)
        _onto_disk(unfinished)
        unfinished.replace(path)
        _onto_disk(folder)
        return WrittenFile(path, first.partition, first.offset, last, records), following


def _rows(records: list[ExportedRecord]) -> pa.RecordBatch:
    columns = [
        pa.array([record.partition.topic for record in records], pa.string()),
        pa.array([record.partition.partition for record in records], pa.int32()),
        pa.array([record.offset for record in records], pa.int64()),
        pa.array([record.timestamp_ms for record in records], pa.int64()).cast(SCHEMA.types[3]),
        pa.array([record.timestamp_type for record in records], pa.int32()),
        pa.array([record.key for record in records], pa.binary()),
        pa.array([record.value for record in records], pa.binary()),
        pa.array(
            [
                [{"key": name, "value": content} for name, content in record.headers]
                for record in records
            ],
            SCHEMA.types[7],
        ),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def _onto_disk(path: Path) -> None:
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
