"""A lane's answers on their way through its pipeline, seen from its copier.

Chunks come back in the order in which they went out. What is under way is limited in bytes; further
answers wait in the buffers they were received in, which the lane's memory counts.

A pipeline that fails takes the whole task with it, and nobody says at which record. So after a
failure the next round is *careful*: only a few records are under way at a time, and the lane
reports them before they go out. What was under way when it failed again, it fails at.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from heliostat.errors import TransformFailed
from heliostat.records.batches.batch import Codec, each_header, next_offset
from heliostat.records.batches.converted import Stop, StopReason
from heliostat.records.copier.lane import PartitionSpec, Suspect
from heliostat.records.copier.network import Fetched, Transformed
from heliostat.records.rows.from_rows import batches_of
from heliostat.records.rows.row_names import CHANGEABLE, NO_RECORD
from heliostat.records.rows.thinned_batch import codec_within
from heliostat.records.rows.to_rows import Chunk
from heliostat.records.rows.wrong_rows import (
    NO_MARK,
    NO_PLACE,
    OTHER_PARTITION,
    OUT_OF_ORDER,
    UNKNOWN_OFFSET,
)
from heliostat.records.transport.piped_answers import unchanged, whole_of
from heliostat.records.transport.row_pipe import RowPipe

UNDER_WAY_BYTES_MAX = 16 * 1024 * 1024
"""Compressed bytes in the pipeline at a time; one answer is never split for it."""
CAREFUL_S = 20.0
"""How long a round is careful: its first answers hold the records that the last one failed at."""


GIVE_BACK_S = 0.5
"""How long a careful round keeps pieces: one that is killed more often would copy nothing, as an
answer may have thousands of records, each reported first."""
PART_BYTES = 2 * 1024 * 1024
"""An answer goes out in parts of about so many bytes: as rows it is in memory several times over.
Smaller parts are slower, 111,000 records/s with 128 KiB, 153,000 with this (2026-11-25)."""


@dataclass(slots=True)
class _Out:
    """An answer that is, or is to be, in the pipeline."""

    fetched: Fetched
    parts: deque[Chunk]
    """What has not come back."""
    stop: Stop | None
    size: int
    opened: Codec
    """See `ConvertSettings.opened`."""
    data: bytearray = field(default_factory=bytearray)
    """Batches that have come back."""
    has_failed: bool = False
    give_back_s: float = 0.0
    """When the pieces of it that have come back are an answer of their own."""


@dataclass(slots=True)
class _Pieces:
    """The only answer under way in a careful round."""

    left: deque[Chunk] = field(default_factory=deque)
    """Those that are to go out."""
    away: Chunk | None = None
    """None: whole answers are."""


class _Silence:
    """How long nothing has come back of what is away."""

    def __init__(self, timeout_s: float, now_s: Callable[[], float]) -> None:
        self.now_s = now_s
        self._timeout_s = timeout_s
        self._since_s = 0.0

    def begin(self) -> None:
        """Rows have come back, or the first ones have gone out."""
        self._since_s = self.now_s()

    def check(self) -> None:
        """Raise `TransformFailed` if it is too long."""
        if self.now_s() - self._since_s > self._timeout_s:
            raise TransformFailed(f"nothing has come back for {self._timeout_s:g} s: it hangs")


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
    timeout_s
        How long the pipeline may keep rows without any coming back.
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
        timeout_s: float = 60.0,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.partitions = list(partitions)
        """By index; the network adds what the lane takes."""
        self._changed = changed
        self._careful = careful
        self._silence = _Silence(timeout_s, monotonic_s)
        self._careful_until_s = monotonic_s() + CAREFUL_S
        self.suspect: Callable[[Suspect | None], None] = lambda _: None
        """Reports what goes out next, before it does; for careful rounds. None: any."""
        self._pipe = pipe
        self._waiting: deque[_Out] = deque()
        self._under_way: deque[_Out] = deque()
        self._pieces = _Pieces()
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
        chunk, stop = whole_of(self.partitions[fetched.want.index], fetched)
        if chunk is None:
            self._done.append(unchanged(fetched, stop))
            self._pipe.wake_up()
            return
        view = memoryview(chunk.data)
        opened = codec_within(view, 0, len(view))
        self._waiting.append(_Out(fetched, deque([chunk]), stop, len(view), opened))
        self._go_on()

    def _go_on(self) -> None:
        """Send what there is room for."""
        while self._waiting and (not self._under_way or self._has_room):
            out = self._waiting.popleft()
            self._under_way.append(out)
            self._bytes += out.size
            if self._careful and self._silence.now_s() > self._careful_until_s:
                self._careful = 0
                self.suspect(None)
            if self._careful:
                out.give_back_s = self._silence.now_s() + GIVE_BACK_S
                self._pieces.left.extend(_pieces(out.parts[0], self._careful))
                self._send_piece()
                continue
            self._pieces.away = None
            out.parts = deque(_parts(out.parts[0]))
            for part in out.parts:
                self._send(part)

    @property
    def _has_room(self) -> bool:
        """Whether something may join what is under way."""
        return not self._careful and self._bytes + self._waiting[0].size <= UNDER_WAY_BYTES_MAX

    def _send_piece(self) -> None:
        piece = self._pieces.left.popleft()
        self._pieces.away = piece
        self.suspect(Suspect(piece.source, piece.first, piece.before))
        self._send(piece)

    def _send(self, chunk: Chunk) -> None:
        self._number += 1
        if not self._awaited:
            self._silence.begin()
        self._awaited.append(self._number)
        self._pipe.send(chunk._replace(number=self._number))

    # -- back ----------------------------------------------------------------------------------

    def take(self) -> list[Transformed]:
        """Return the answers that have come back.

        Raises
        ------
        ConnectionLost
            Spark has ended the rows, or the reader's worker is gone: the round can't go on.
        TransformFailed
            The pipeline hangs.
        """
        for rows in self._pipe.came():
            self._silence.begin()
            self._take(rows)
        if self._awaited:
            self._silence.check()
        found, self._done = self._done, []
        self._go_on()
        return found

    def _take(self, rows: pa.RecordBatch) -> None:
        """Take rows: those up to a mark are of the part that it ends; marks of a part are a run."""
        if rows.column("partition").null_count or rows.column("offset").null_count:
            raise self._broken(NO_PLACE)
        partitions = rows.column("partition").to_numpy(zero_copy_only=False)
        marked = np.flatnonzero(partitions <= NO_RECORD)
        numbers = rows.column("offset").to_numpy(zero_copy_only=False)[marked]
        firsts = np.flatnonzero(np.diff(numbers, prepend=-1))
        lasts = [*(firsts[1:] - 1), len(marked) - 1]
        begin = 0
        for first, last in zip(firsts, lasts, strict=len(marked) > 0):
            self._keep(rows, begin, int(marked[first]))
            begin = int(marked[last]) + 1
            if numbers[first] > (self._awaited[0] if self._awaited else self._number):
                raise self._broken(NO_MARK)
            if self._awaited and numbers[first] == self._awaited[0]:
                self._awaited.popleft()
                self._complete()
        self._keep(rows, begin, rows.num_rows)

    def _keep(self, rows: pa.RecordBatch, begin: int, end: int) -> None:
        if begin >= end:
            return
        some = rows.slice(begin, end - begin)
        if not self._awaited:
            raise self._broken(OUT_OF_ORDER)
        source, piece = self._under_way[0].parts[0].source, self._pieces.away
        if pc.any(pc.not_equal(some.column("partition"), source.partition)).as_py():
            raise self._broken(OTHER_PARTITION)
        if piece is not None:
            bounds = pc.min_max(some.column("offset")).as_py()
            if bounds["min"] < piece.first or bounds["max"] >= piece.before:
                raise self._broken(UNKNOWN_OFFSET)
        self._back.append(some)

    def _broken(self, why: str) -> TransformFailed:
        """Return an error after which the round can't go on; of a record, if one is alone."""
        piece = self._pieces.away
        if piece is None or piece.before - piece.first > 1:
            return TransformFailed(why)
        place: dict[str, Any] = {
            "topic": piece.source.topic,
            "partition": piece.source.partition,
        }
        return TransformFailed(why, **place, offset=piece.first)

    def _fail(
        self, out: _Out, error: TransformFailed, part: Chunk, back: list[pa.RecordBatch]
    ) -> None:
        """Keep the batches up to the record at which a part fails, if they are sound."""
        at = next_offset(out.data, 0, len(out.data)) or out.fetched.want.offset
        failing = error.context.get("offset", at)
        if isinstance(failing, int) and at < failing < (
            next_offset(part.data, 0, len(part.data)) or 0
        ):
            rows = [each.filter(pc.less(each.column("offset"), failing)) for each in back]
            with contextlib.suppress(TransformFailed):
                out.data += batches_of(part._replace(before=failing), rows, self._changed)
                at = failing  # what lies between is a hole
        text = f"source offset {failing} can't be copied: {error.text}"
        out.has_failed, out.stop = True, Stop(StopReason.TRANSFORM_FAILED, at, text)

    def _complete(self) -> None:
        """Take the end of a part; the answer is complete with its last one."""
        out = self._under_way[0]
        if self._pieces.left and self._silence.now_s() < out.give_back_s:
            self._send_piece()
            return
        part, back, self._back = out.parts.popleft(), self._back, []
        if self._pieces.left:
            part = part._replace(before=self._pieces.left[0].first)
            self._pieces.left.clear()
            out.stop = None  # the rest is asked for again
        if not out.has_failed:
            try:
                found = batches_of(part, back, self._changed)
                out.data = out.data + found if out.data else found
            except TransformFailed as error:
                if "offset" not in error.context:
                    raise  # any record may be the one: the next round takes fewer
                self._fail(out, error, part, back)
        if out.parts:
            return
        self._under_way.popleft()
        self._bytes -= out.size
        whole = out.fetched._replace(buffer=out.data, start=0, end=len(out.data), opened=out.opened)
        self._done.append(Transformed(whole, out.stop))


def _parts(chunk: Chunk) -> Iterator[Chunk]:
    """Yield a chunk in parts of whole batches."""
    view = memoryview(chunk.data)
    start = 0
    for at, header in each_header(view, 0, len(view)):
        end = at + header.size
        if end - start >= PART_BYTES or end == len(view):
            yield chunk._replace(data=view[start:end])
            start = end


def _pieces(chunk: Chunk, records: int) -> Iterator[Chunk]:
    """Yield a chunk in pieces of so many records."""
    view = memoryview(chunk.data)
    is_any = False
    for at, header in each_header(view, 0, len(view)):
        first = max(header.base_offset, chunk.first)
        stop = min(header.next_offset, chunk.before)
        if not header.is_control and header.records_count:
            for begin in range(first, stop, records):
                is_any = True
                piece = view[at : at + header.size]
                yield Chunk(0, chunk.source, piece, begin, min(begin + records, stop))
    if not is_any:
        yield chunk
