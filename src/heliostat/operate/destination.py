"""Where records are exported to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from heliostat.exporting.exported import ExportedRecord
from heliostat.names import TopicName


@dataclass(frozen=True, slots=True)
class Destination:
    """Where records go that are exported; one of both.

    Parameters
    ----------
    folder
        Of Parquet files on this machine.
    topic
        Of the target cluster, which is no mirror.
    file_bytes
        After so many bytes of records another file begins; None: 128 MiB.
    """

    folder: Path | None = None
    topic: TopicName | None = None
    file_bytes: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {"parquet": None if self.folder is None else str(self.folder), "topic": self.topic}


class Exporter(Protocol):
    """Writes the records of one partition at a time; they are durable when it returns."""

    def write(self, records: Iterable[ExportedRecord]) -> int:
        """Write them; return how many were written, without those that were there."""
        ...


@dataclass(slots=True)
class FileExporter:
    """Writes Parquet files."""

    folder: Path
    file_bytes: int | None
    files: list[Path] = field(default_factory=list)

    def write(self, records: Iterable[ExportedRecord]) -> int:
        """Write records; a file that was there is written again."""
        from heliostat.exporting.parquet_files import FILE_BYTES, ParquetFiles  # loads Arrow

        written = 0
        for file in ParquetFiles(self.folder, self.file_bytes or FILE_BYTES).write(records):
            self.files.append(file.path)
            written += file.records
        return written
