"""Records as Parquet files: whole, named by their first record, the same when written again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from heliostat.errors import BatchError, Refused
from heliostat.exporting.exported import CREATE_TIME, LOG_APPEND_TIME, ExportedRecord
from heliostat.exporting.parquet_files import ParquetFiles
from heliostat.names import Offset, PartitionId, TopicName, TopicPartition

PLACE = TopicPartition(TopicName("lsst.sal.ESS"), PartitionId(3))


def records(*offsets: int) -> Iterator[ExportedRecord]:
    return (
        ExportedRecord(
            *(PLACE, Offset(n), 1_700_000_000_000 + n, CREATE_TIME),
            *(b"k%d" % n, bytes(100), (("a", b"1"), ("a", None))),
        )
        for n in offsets
    )


def contents(folder: Path) -> dict[str, list[int]]:
    return {
        str(path.relative_to(folder)): pq.read_table(path)["offset"].to_pylist()
        for path in sorted(folder.rglob("*.parquet"))
    }


def test_files_hold_all_that_a_consumer_sees(tmp_path: Path) -> None:
    """Given odd records / when they are written / then all of it is there."""
    odd = ExportedRecord(PLACE, Offset(9), -1, LOG_APPEND_TIME, None, None, ())
    (file,) = ParquetFiles(tmp_path).write([*records(7), odd])
    assert (file.first, file.last, file.records) == (7, 9, 2)
    first, last = pq.read_table(file.path).to_pylist()
    assert first.pop("timestamp").timestamp() == 1_700_000_000.007
    assert first.pop("headers") == [{"key": "a", "value": b"1"}, {"key": "a", "value": None}]
    assert first == {
        "topic": "lsst.sal.ESS",
        "partition": 3,
        "offset": 7,
        "timestampType": 0,
        "key": b"k7",
        "value": bytes(100),
    }
    assert (last["key"], last["value"], last["headers"], last["timestampType"]) == (
        None,
        None,
        [],
        1,
    )


def test_a_second_run_writes_the_same_files(tmp_path: Path) -> None:
    """Given files of a size / when the same is written again / then nothing else is there."""
    for _ in range(2):
        tuple(ParquetFiles(tmp_path, file_bytes=250).write(records(*range(0, 12, 2))))
    assert contents(tmp_path) == {
        "lsst.sal.ESS/partition=3/00000000000000000000.parquet": [0, 2, 4],
        "lsst.sal.ESS/partition=3/00000000000000000006.parquet": [6, 8, 10],
    }
    assert not list(tmp_path.rglob(".*"))


def test_who_is_cut_short_leaves_whole_files_only(tmp_path: Path) -> None:
    """Given a source that fails / when files are written / then those with a name are whole."""

    def failing() -> Iterator[ExportedRecord]:
        yield from records(0, 1, 2, 3)
        raise BatchError("damaged")

    with pytest.raises(BatchError):
        tuple(ParquetFiles(tmp_path, file_bytes=250).write(failing()))
    assert list(contents(tmp_path).values()) == [[0, 1, 2]]


def test_nothing_makes_no_file_and_a_bad_folder_is_refused(tmp_path: Path) -> None:
    """Given no records, or a folder that is a file / when written / then no file, or a refusal."""
    assert not tuple(ParquetFiles(tmp_path).write([]))
    (tmp_path / "file").write_text("")
    with pytest.raises(Refused, match="can't be written"):
        tuple(ParquetFiles(tmp_path / "file").write(records(1)))
