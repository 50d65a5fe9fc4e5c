"""Changes of JSON objects, record by record where the batches are: no row goes through Spark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

from heliostat.errors import BatchError, TransformFailed
from heliostat.records.batches.batch import Codec, each_header
from heliostat.records.rows.from_rows import batches_of
from heliostat.records.rows.header_steps import Origin
from heliostat.records.rows.in_place import AppliedSteps, FailedRecord
from heliostat.records.rows.json_changes import ObjectChanges
from heliostat.records.rows.json_objects import Changed, JsonObjects
from heliostat.records.rows.layout import HEADERS
from heliostat.records.rows.thinned_batch import codec_within
from heliostat.records.rows.to_rows import US_PER_MS, Chunk, rows_of

_PLACE = {
    Origin.TOPIC: "topic",
    Origin.PARTITION: "partition",
    Origin.OFFSET: "offset",
    Origin.TIMESTAMP: "timestamp",
}


class InTurn:
    """Steps one after the other.

    Parameters
    ----------
    parts
        What is done, in order.
    """

    def __init__(self, parts: Sequence[AppliedSteps]) -> None:
        self._parts = parts
        self.opened = Codec.NONE

    def applied(self, chunk: Chunk) -> tuple[memoryview, BatchError | FailedRecord | None]:
        """See `AppliedSteps`. The first record at which any part fails ends them all."""
        self.opened = Codec.NONE
        error: BatchError | FailedRecord | None = None
        for part in self._parts:
            data, own = part.applied(chunk)
            if own is not None:
                error = own  # of a record before that of the parts before, as it was given no more
                if isinstance(own, FailedRecord):
                    chunk = chunk._replace(before=own.offset)
            self.opened = part.opened if self.opened is Codec.NONE else self.opened
            chunk = chunk._replace(data=data)
        return memoryview(chunk.data), error


class ObjectsInPlace:
    """Does changes to the objects in batches' records.

    Parameters
    ----------
    changes
        What is changed.
    """

    def __init__(self, changes: ObjectChanges) -> None:
        self._columns = ColumnsOfObjects(changes)
        self._reads = frozenset({*changes.reads, *changes.writes})
        self.opened = Codec.NONE

    def applied(self, chunk: Chunk) -> tuple[memoryview, BatchError | FailedRecord | None]:
        """See `AppliedSteps`."""
        view = memoryview(chunk.data)
        self.opened = codec_within(view, 0, len(view))
        try:
            return self._applied(chunk)
        except BatchError as error:
            good = chunk._replace(data=_readable(chunk))
            data, failed = self._applied(good) if len(good.data) else (memoryview(b""), None)
            return data, failed or error

    def _applied(self, chunk: Chunk) -> tuple[memoryview, FailedRecord | None]:
        rows = rows_of(chunk, self._reads)
        made = self._columns.of(rows)
        failed = None
        if made.why:
            offset = rows.column("offset")[made.done].as_py()
            failed = FailedRecord(offset, made.why)
            chunk = chunk._replace(before=offset)
            rows = rows.slice(0, made.done)
            if not made.done and offset <= _first_offset(chunk):
                return memoryview(b""), failed
        if not made.columns and failed is None and _goes_whole(chunk):
            return memoryview(chunk.data), None
        names = ["partition", "offset", *made.columns]
        places = [rows.column(name) for name in names[:2]]
        back = pa.RecordBatch.from_arrays([*places, *made.columns.values()], names=names)
        return memoryview(batches_of(chunk, [back], tuple(made.columns))), failed


def _goes_whole(chunk: Chunk) -> bool:
    """Whether all records in a chunk's batches go through the pipeline."""
    view = memoryview(chunk.data)
    headers = [header for _, header in each_header(view, 0, len(view))]
    return not headers or (
        chunk.first <= headers[0].base_offset and headers[-1].next_offset <= chunk.before
    )


def _first_offset(chunk: Chunk) -> int:
    view = memoryview(chunk.data)
    _, header = next(each_header(view, 0, len(view)))
    return max(chunk.first, header.base_offset)


def _readable(chunk: Chunk) -> memoryview:
    """Return the batches before the first that is damaged."""
    view = memoryview(chunk.data)
    for position, header in each_header(view, 0, len(view)):
        try:
            rows_of(chunk._replace(data=view[position : position + header.size]))
        except BatchError:
            return view[:position]
    return view


class Done(NamedTuple):
    """What has become of rows."""

    columns: dict[str, pa.Array]
    """Those that have changed, of the first `done` rows."""
    done: int
    why: str = ""
    """Why the row after these fails; empty: none does."""


class ColumnsOfObjects:
    """The columns that changes of objects make of rows.

    Parameters
    ----------
    changes
        What is changed.
    """

    def __init__(self, changes: ObjectChanges) -> None:
        self._changes = changes
        self._objects = JsonObjects(changes)

    def of(self, rows: pa.RecordBatch) -> Done:
        """Return the changed columns."""
        wanted = [what for _, what in self._changes.places]
        places = {what: _places_of(rows, _PLACE[what]) for what in wanted}
        contents = rows.column(self._changes.column).to_pylist()
        made: list[Changed] = []
        why = ""
        for number, content in enumerate(contents):
            place = {what: column[number] for what, column in places.items()}
            try:
                made.append(self._objects.changed(content, place))
            except TransformFailed as error:
                why = error.text
                break
        return Done(dict(self._columns(rows.slice(0, len(made)), made)), len(made), why)

    def _columns(self, rows: pa.RecordBatch, made: list[Changed]) -> list[tuple[str, pa.Array]]:
        column = self._changes.column
        columns: list[tuple[str, pa.Array]] = []
        contents = [record.content for record in made]
        if column in self._changes.writes and contents != rows.column(column).to_pylist():
            columns.append((column, pa.array(contents, pa.binary())))
        if any(record.key is not None for record in made):
            keys = zip(made, rows.column("key").to_pylist(), strict=True)
            new = [old if record.key is None else record.key for record, old in keys]
            columns.append(("key", pa.array(new, pa.binary())))
        if any(record.headers for record in made):
            lists = rows.column("headers").to_pylist()
            for record, headers in zip(made, lists, strict=True):
                headers += [{"key": name, "value": content} for name, content in record.headers]
            columns.append(("headers", pa.array(lists, HEADERS)))
        return columns


def _places_of(rows: pa.RecordBatch, name: str) -> list[int | str]:
    column = rows.column(name)
    if name != "timestamp":
        places: list[int | str] = column.to_pylist()
        return places
    times = column.cast(pa.int64()).to_pylist()
    return [0 if time_us is None else time_us // US_PER_MS for time_us in times]
