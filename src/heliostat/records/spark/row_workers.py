"""The two Python workers of a lane with a pipeline, as Spark calls them; see `frames`."""

from __future__ import annotations

import hashlib
import pickle
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

    from heliostat.records.copier.lane import LaneSpec, RoundReport

REPORT = "report binary"
"""What `CopyRows` gives back: one row with the pickled report, or with an error of ours. An error
that is raised comes to the driver as a text, which may hold a record, and has no class there."""


class LaneRows:
    """Gives the rows of a lane: the reader's worker.

    Parameters
    ----------
    name
        Of the round, unique on its machine.
    flush
        How many marks push rows through, see `frames.marks_needed`.
    reads
        Columns that the pipeline reads.
    is_careful
        Whether the round is: few records at a time, each of which is waited for.
    is_shared
        Whether several pipelines share the lane.
    """

    def __init__(
        self,
        name: str = "",
        flush: int = 0,
        reads: tuple[str, ...] = (),
        *,
        is_careful: bool = False,
        is_shared: bool = False,
    ) -> None:
        self._name = name
        self._flush = flush
        self._reads = reads
        self._is_careful = is_careful
        self._is_shared = is_shared

    def __call__(self, _rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield rows as long as the copier's worker sends batches.

        If that is gone, it says why itself.
        """
        from heliostat.records.transport.row_pipe import PUSH_EVERY_S, read_rows

        for _ in _rows:
            pass
        every_s = 0.0 if self._is_careful else PUSH_EVERY_S
        with suppress(OSError):
            path = socket_path(self._name)
            given = self._flush, self._reads, every_s
            yield from read_rows(path, *given, tells_member=self._is_shared)


class CopyRows:
    """Runs a lane's round with the rows that came through its pipeline: the copier's worker."""

    def __init__(self, lane: LaneSpec, name: str, changed: tuple[str, ...]) -> None:
        self._lane = lane
        self._name = name
        self._changed = changed

    def __call__(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the round; yield its report, or why it failed."""
        import pyarrow as pa

        from heliostat.errors import HeliostatError

        ended: RoundReport | HeliostatError
        try:
            ended = self._copied(rows)
        except HeliostatError as error:
            ended = error
        yield pa.RecordBatch.from_pydict({"report": pa.array([pickle.dumps(ended)], pa.binary())})

    def _copied(self, rows: Iterator[pa.RecordBatch]) -> RoundReport:
        from dataclasses import replace

        from heliostat.records.spark.copy_round import copy_round
        from heliostat.records.transport.row_exchange import RowExchange
        from heliostat.records.transport.row_pipe import RowPipe

        lane = self._lane
        assert lane.pipeline is not None
        members = {each.name: number for number, each in enumerate(lane.pipeline.members)}
        pipe = RowPipe(socket_path(self._name), rows, members)
        try:
            exchange = RowExchange(
                lane.partitions,
                pipe,
                changed=self._changed,
                careful=lane.careful,
                timeout_s=lane.pipeline.timeout_s,
            )
            return replace(copy_round(lane, exchange), partitions=[])
        finally:
            pipe.close()


def socket_path(name: str) -> Path:
    """Return where the two workers of a round meet: short, as names of sockets must be."""
    digest = hashlib.sha256(name.encode()).hexdigest()[:24]
    return Path(tempfile.gettempdir()) / f"heliostat-{digest}.rows"
