"""A lane's answers on their way through its pipeline, seen from its copier.

Chunks come back in the order in which they went out. What is under way is limited in bytes; further
answers wait in the buffers they were received in, which the lane's memory counts.

A pipeline that fails takes the whole task with it, and nobody says at which record. So after a
failure the next round is *careful*: only a few records are under way at a time, and the lane
reports them before they go out. What was under way when it failed again, it fails at.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

from heliostat.errors import TransformFailed
from heliostat.records.batches.batch import OFFSET_MAX, read_header
from heliostat.records.batches.converted import Stop, StopReason
from heliostat.records.copier.lane import PartitionSpec, Suspect
from heliostat.records.copier.network import Fetched, Transformed
from heliostat.records.rows.from_rows import batches_of
from heliostat.records.rows.row_names import CHANGEABLE, NO_RECORD
from heliostat.records.rows.to_rows import Chunk, next_offset, whole_batches
from heliostat.records.transport.row_pipe import RowPipe

UNDER_WAY_BYTES_MAX = 16 * 1024 * 1024
"""Compressed bytes in the pipeline at a time; one answer is never split for it."""
CAREFUL_S = 20.0
"""How long a round is careful: its first answers hold the records that the last one failed at."""


class _Out(NamedTuple):
    """An answer that is, or is to be, in the pipeline."""

    fetched: Fetched
    chunk: Chunk
    stop: Stop | None
    size: int


class RowExchange:
    """The copier's side of a pipeline: a `Transform`.

    Parameters
    ----------
    partitions
        Partitions of the lane, in order of their indexes.
    pipe
        Leads to the pipeline and back; the caller closes it.
    changed
        Columns that come back, as the pipeline may have changed them.
    careful
        How many records may be under way at a time; 0: no limit.
    monotonic_s
        A clock.
    """

    def __init__(
        self,
        partitions: Iterable[PartitionSpec],
        pipe: RowPipe,
        *,
        changed: Sequence[str] = CHANGEABLE,
        careful: int = 0,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.partitions = list(partitions)
        """By index; the network adds what the lane takes."""
        self._changed = changed
        self._careful = careful
        self._monotonic_s = monotonic_s
        self._careful_until_s = monotonic_s() + CAREFUL_S
        self.suspect: Callable[[Suspect | None], None] = lambda _: None
        """Reports what goes out next, before it does; for careful rounds. None: any."""
        self._pipe = pipe
        self._waiting: deque[_Out] = deque()
        self._under_way: deque[_Out] = deque()
        self._pieces: deque[Chunk] = deque()
        """Of the only one under way: those that are to go out."""
        self._awaited: deque[int] = deque()
        """Numbers of what went out, in order."""
        self._bytes = 0
        self._back: list[pa.RecordBatch] = []
        self._done: list[Transformed] = []
        self._number = 0

    def fileno(self) -> int:
        """Return a file that is readable when rows have come back."""
        return self._pipe.fileno()

    # -- out -----------------------------------------------------------------------------------

    def put(self, fetched: Fetched) -> None:
        """See `Transform`."""
        spec = self.partitions[fetched.want.index]
        view = memoryview(fetched.buffer)
        end, error = whole_batches(view, fetched.start, fetched.end)
        stop = None
        before = spec.fails_at if spec.fails_at >= 0 else OFFSET_MAX
        if 0 <= spec.fails_at <= fetched.want.offset:
            end = fetched.start
            stop = Stop(StopReason.TRANSFORM_FAILED, spec.fails_at, spec.why_fails)
        elif error is not None:
            at = (
                fetched.want.offset
                if end == fetched.start
                else next_offset(view, fetched.start, end)
            )
            text = f"source offset {at} can't be read for the pipeline: {error.text}"
            stop = Stop(StopReason.CORRUPT, at, text)
        if end == fetched.start:
            # Nothing whole: as it is, the copier asks for more bytes or stops.
            cut = fetched if stop is None else fetched._replace(end=end)
            self._done.append(Transformed(cut, stop))
            self._pipe.wake_up()
            return
        data = view[fetched.start : end]
        chunk = Chunk(0, spec.source, data, fetched.want.offset, before)
        self._waiting.append(_Out(fetched, chunk, stop, len(data)))
        self._go_on()

    def _go_on(self) -> None:
        """Send what there is room for."""
        while self._waiting and (not self._under_way or self._has_room):
            out = self._waiting.popleft()
            self._under_way.append(out)
            self._bytes += out.size
            if self._careful and self._monotonic_s() > self._careful_until_s:
                self._careful = 0
                self.suspect(None)
            if self._careful:
                self._pieces.extend(_pieces(out.chunk, self._careful))
                self._send_piece()
            else:
                self._send(out.chunk)

    @property
    def _has_room(self) -> bool:
        """Whether something may join what is under way."""
        return not self._careful and self._bytes + self._waiting[0].size <= UNDER_WAY_BYTES_MAX

    def _send_piece(self) -> None:
        piece = self._pieces.popleft()
        self.suspect(Suspect(piece.source, piece.first, piece.before))
        self._send(piece)

    def _send(self, chunk: Chunk) -> None:
        self._number += 1
        self._awaited.append(self._number)
        self._pipe.send(chunk._replace(number=self._number))

    # -- back ----------------------------------------------------------------------------------

    def take(self) -> list[Transformed]:
        """Return the answers that have come back.

        Raises
        ------
        ConnectionLost
            Spark has ended the rows, or the reader's worker is gone: the round can't go on.
        """
        for rows in self._pipe.came():
            self._take(rows)
        found, self._done = self._done, []
        self._go_on()
        return found

    def _take(self, rows: pa.RecordBatch) -> None:
        """Take rows: those up to a mark are of the chunk that it ends."""
        marked = rows.column("partition").to_numpy(zero_copy_only=False) <= NO_RECORD
        begin = 0
        for place in marked.nonzero()[0].tolist():
            if place > begin:
                self._back.append(rows.slice(begin, place - begin))
            begin = place + 1
            if self._awaited and rows.column("offset")[place].as_py() == self._awaited[0]:
                self._awaited.popleft()
                self._complete()
        if begin < rows.num_rows:
            self._back.append(rows.slice(begin))

    def _complete(self) -> None:
        if self._pieces:
            self._send_piece()
            return
        out = self._under_way.popleft()
        self._bytes -= out.size
        back, self._back = self._back, []
        stop, fetched = out.stop, out.fetched
        try:
            data = batches_of(out.chunk, back, self._changed)
        except TransformFailed as error:
            data = bytearray()
            at = int(str(error.context.get("offset", fetched.want.offset)))
            text = f"source offset {at} can't be copied: {error.text}"
            stop = Stop(StopReason.TRANSFORM_FAILED, at, text)
        self._done.append(Transformed(fetched._replace(buffer=data, start=0, end=len(data)), stop))


def _pieces(chunk: Chunk, records: int) -> Iterator[Chunk]:
    """Yield a chunk in pieces of so many records."""
    view = memoryview(chunk.data)
    at, end = 0, len(view)
    is_any = False
    while (header := read_header(view, at, end)) is not None:
        first = max(header.base_offset, chunk.first)
        stop = min(header.next_offset, chunk.before)
        if not header.is_control and header.records_count:
            for begin in range(first, stop, records):
                is_any = True
                piece = view[at : at + header.size]
                yield Chunk(0, chunk.source, piece, begin, min(begin + records, stop))
        at += header.size
    if not is_any:
        yield chunk
