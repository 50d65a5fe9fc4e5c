"""Leads batches from a copier's worker to Spark as rows, and the rows that are left back.

    copier's worker                      reader's worker                Spark (JVM)
    batches of a partition  ──socket──►  rows of an Arrow batch  ────►  the pipeline
    rows that are left      ◄────────────────────────────────────────  what it makes of them

Both workers are of one task, so on one machine: the reader listens on a Unix socket whose name both
know.
"""

from __future__ import annotations

import os
import queue
import select
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa

from heliostat.errors import ConnectionLost, PipelineRefused
from heliostat.names import PartitionId, TopicName, TopicPartition
from heliostat.records.rows.layout import marks
from heliostat.records.rows.row_names import MEMBER
from heliostat.records.rows.to_rows import Chunk, rows_of

CONNECT_WITHIN_S = 60.0
"""The reader's worker starts when Spark first asks it for rows."""
LOOK_S = 0.02
IDLE_S = 0.001
"""How long the reader waits for more before it pushes rows through by marks."""
PUSH_EVERY_S = 0.02
"""Time between two pushes at least: each costs as much as some five hundred records."""
_HEAD = struct.Struct(">qqqiiHI")
"""Number, first offset, offset to stop before, partition, which pipeline, bytes of the topic's
name, of the batches."""
NO_MEMBERS: Mapping[str, int] = {}
_MEMBER = pa.field(MEMBER, pa.int32())


class RowPipe:
    """The copier's side.

    Parameters
    ----------
    path
        Of the socket on which the reader's worker listens.
    rows
        What comes back from Spark, with the columns partition, offset, and those changed.
    members
        Numbers of the pipelines that share the lane, by name; none: it has one.

    Raises
    ------
    ConnectionLost
        The reader's worker does not start.
    """

    def __init__(
        self, path: Path, rows: Iterator[pa.RecordBatch], members: Mapping[str, int] = NO_MEMBERS
    ) -> None:
        self._members = members
        self._socket = _connected(path)
        self._to_send: queue.SimpleQueue[Chunk | None] = queue.SimpleQueue()
        self._came: deque[pa.RecordBatch | BaseException | None] = deque()
        self._heard, self._wake = os.pipe()
        os.set_blocking(self._heard, False)
        self._threads = [
            threading.Thread(target=self._send_all, name="rows-out", daemon=True),
            threading.Thread(target=self._receive_all, args=(rows,), name="rows-back", daemon=True),
        ]
        for each in self._threads:
            each.start()

    def fileno(self) -> int:
        """Return a file that is readable when rows have come back."""
        return self._heard

    def close(self) -> None:
        """Send no more; returns when Spark has ended the rows."""
        self._to_send.put(None)
        for each in self._threads:
            each.join(CONNECT_WITHIN_S)
        self._socket.close()
        os.close(self._heard)
        os.close(self._wake)

    def send(self, chunk: Chunk) -> None:
        """Send a chunk after those before it; returns at once.

        Raises
        ------
        PipelineRefused
            Its pipeline is none of the lane's: a record must never get past it.
        """
        if self._members and chunk.pipeline not in self._members:
            raise PipelineRefused(f"a lane without pipeline {chunk.pipeline} has {chunk.source}")
        self._to_send.put(chunk)

    def wake_up(self) -> None:
        """Make `fileno` readable."""
        os.write(self._wake, b"\0")

    def came(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows that have come back since.

        Raises
        ------
        ConnectionLost
            Spark has ended the rows, or the reader's worker is gone: the round can't go on.
        """
        try:
            os.read(self._heard, 4096)
        except BlockingIOError:
            return
        while self._came:
            found = self._came.popleft()
            if not isinstance(found, pa.RecordBatch):
                raise ConnectionLost(f"the pipeline has ended: {found or 'there are no more rows'}")
            yield found

    def _send_all(self) -> None:
        try:
            while (chunk := self._to_send.get()) is not None:
                name = str(chunk.source.topic).encode()
                where = chunk.source.partition, self._members.get(chunk.pipeline, 0)
                numbers = (chunk.number, chunk.first, chunk.before, *where)
                self._socket.sendall(_HEAD.pack(*numbers, len(name), len(chunk.data)) + name)
                self._socket.sendall(chunk.data)
            self._socket.shutdown(socket.SHUT_WR)
        except OSError as error:
            self._came.append(error)
            self.wake_up()

    def _receive_all(self, rows: Iterator[pa.RecordBatch]) -> None:
        try:
            for batch in rows:
                self._came.append(batch)
                self.wake_up()
            self._came.append(None)
        except BaseException as error:  # noqa: BLE001  # whatever ends Spark's rows ends the round
            self._came.append(error)
        self.wake_up()


def _connected(path: Path) -> socket.socket:
    until_s = time.monotonic() + CONNECT_WITHIN_S
    while True:
        conn = socket.socket(socket.AF_UNIX)
        try:
            conn.connect(str(path))
        except OSError as error:
            conn.close()
            if time.monotonic() > until_s:
                raise ConnectionLost(f"the pipeline's reader does not start: {error}") from None
            time.sleep(LOOK_S)
        else:
            return conn


class Pushes:
    """When rows are pushed through a pipeline by marks.

    At once where nothing follows; where records come one after the other all the time, some go
    together. Rows that so many others follow need no push.

    Parameters
    ----------
    rows
        How many rows push all before them through.
    every_s
        Time between two pushes at least.
    """

    def __init__(self, rows: int, every_s: float) -> None:
        self._rows = rows
        self._every_s = max(every_s, IDLE_S)
        self._pushed_s = float("-inf")
        self._due_s: float | None = None
        self._behind = 0
        """Rows that came after what is due."""

    def sent(self, rows: int, now_s: float) -> None:
        """Take it that so many rows have gone into the pipeline."""
        self._behind += rows
        if self._due_s is None:
            self._due_s = max(now_s + IDLE_S, self._pushed_s + self._every_s)
            self._behind = 0

    def wait_s(self, now_s: float) -> float | None:
        """Return the time until a push is due; 0: it is, None: there is nothing to push."""
        if self._due_s is None:
            return None
        if self._behind >= self._rows:
            self._due_s, self._behind = now_s + self._every_s, 0
        return max(self._due_s - now_s, 0.0)

    def pushed(self, now_s: float) -> None:
        """Take it that marks have gone into the pipeline."""
        self._pushed_s, self._due_s = now_s, None


def read_rows(
    path: Path, flush: int, reads: Collection[str], push_every_s: float, *, tells_member: bool
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the chunks that a copier sends; ends when it sends no more.

    Parameters
    ----------
    path
        Where to listen.
    flush
        How many marks make every step of the pipeline pass on what it has: they wait for whole
        batches of rows. They are sent when nothing follows at once.
    reads
        Columns that the pipeline reads; others are left null.
    push_every_s
        See `Pushes`.
    tells_member
        Whether rows have the column `MEMBER`.
    """

    def given(rows: pa.RecordBatch, member: int = 0) -> pa.RecordBatch:
        if not tells_member:
            return rows
        numbers = pa.py_buffer(np.full(rows.num_rows, member, np.int32))
        column = pa.Array.from_buffers(pa.int32(), rows.num_rows, [None, numbers])
        return rows.append_column(_MEMBER, column)

    with socket.socket(socket.AF_UNIX) as listener:
        before = os.umask(0o177)
        try:
            listener.bind(str(path))
        finally:
            os.umask(before)
        listener.listen(1)
        yield given(marks(0, flush))  # so that Spark starts the copier's worker
        conn, _ = listener.accept()
        path.unlink(missing_ok=True)
    pushes = Pushes(flush, push_every_s)
    number = 0
    with conn:
        while True:
            wait_s = pushes.wait_s(time.monotonic())
            if wait_s is not None and not (wait_s and _has_more(conn, wait_s)):
                yield given(marks(number, flush))
                pushes.pushed(time.monotonic())
                continue
            head = _received(conn, _HEAD.size)
            if head is None:
                return
            number, first, stop, partition, member, name_bytes, size = _HEAD.unpack(head)
            topic = bytes(_received(conn, name_bytes) or b"").decode()
            data = _received(conn, size) or bytearray()
            source = TopicPartition(TopicName(topic), PartitionId(partition))
            rows = rows_of(Chunk(number, source, memoryview(data), first, stop), reads)
            yield given(pa.concat_batches([rows, marks(number, 1)]), member)
            pushes.sent(rows.num_rows + 1, time.monotonic())


def _has_more(conn: socket.socket, within_s: float) -> bool:
    return bool(select.select([conn], [], [], within_s)[0])


def _received(conn: socket.socket, size: int) -> bytearray | None:
    """Return exactly `size` bytes; None if the other side has ended."""
    data = bytearray(size)
    view, at = memoryview(data), 0
    while at < size:
        count = conn.recv_into(view[at:])
        if not count:
            return None
        at += count
    return data
