"""What of an answer goes into a pipeline; and pipelines that are done at once, in place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from heliostat.errors import PipelineRefused
from heliostat.records.batches.batch import OFFSET_MAX, each_header, next_offset
from heliostat.records.batches.converted import Stop, StopReason
from heliostat.records.copier.lane import PartitionSpec
from heliostat.records.copier.network import Fetched, Transformed
from heliostat.records.rows.in_place import AppliedSteps, FailedRecord
from heliostat.records.rows.to_rows import Chunk, whole_batches


def whole_of(spec: PartitionSpec, fetched: Fetched) -> tuple[Chunk | None, Stop | None]:
    """Return what goes into a partition's pipeline, and why nothing after it can be copied.

    No chunk: nothing does, see `unchanged`. What lies between the last batch that comes back and
    the offset of a stop is a hole.
    """
    view, first = memoryview(fetched.buffer), fetched.want.offset
    end, error = whole_batches(view, fetched.start, fetched.end)
    stop, before = None, OFFSET_MAX
    if error is not None:
        stop = _corrupt(fetched, next_offset(view, fetched.start, end), error.text)
    if spec.fails_at >= first and _has(view, fetched.start, end, spec.fails_at):
        before = spec.fails_at
        stop = Stop(StopReason[spec.fail_code], before, spec.why_fails)
    if end == fetched.start or before == first:
        return None, stop
    chunk = Chunk(0, spec.source, view[fetched.start : end], first, before, spec.pipeline)
    return chunk, stop


def _has(view: memoryview, start: int, end: int, offset: int) -> bool:
    """Return whether a batch has this offset; one that compaction has removed stops nothing."""
    headers = (header for _, header in each_header(view, start, end))
    return any(each.base_offset <= offset < each.next_offset for each in headers)


def unchanged(fetched: Fetched, stop: Stop | None) -> Transformed:
    """Return an answer of which nothing goes into a pipeline.

    Without a stop it is as it came, and the copier asks for more bytes or stops.
    """
    cut = fetched if stop is None else fetched._replace(end=fetched.start)
    return Transformed(cut, stop)


def _corrupt(fetched: Fetched, at: int | None, text: str) -> Stop:
    at = fetched.want.offset if at is None else at
    said = f"source offset {at} can't be read for the pipeline: {text}"
    return Stop(StopReason.CORRUPT, at, said)


class InPlaceExchange:
    """A pipeline that is done at once, a `Transform`.

    Parameters
    ----------
    partitions
        Partitions of the lane, in order of their indexes.
    steps
        What it does, and each other pipeline that shares the lane; by their names.
    """

    def __init__(
        self, partitions: Iterable[PartitionSpec], steps: Mapping[str, AppliedSteps]
    ) -> None:
        self.partitions = list(partitions)
        """By index; the network adds what the lane takes."""
        self._steps = steps
        self._done: list[Transformed] = []

    def fileno(self) -> None:
        """Nothing comes back later than at once."""

    def put(self, fetched: Fetched) -> None:
        """See `Transform`.

        Raises
        ------
        PipelineRefused
            The lane lacks the pipeline: a record must never get past it.
        """
        spec = self.partitions[fetched.want.index]
        steps = self._steps.get(spec.pipeline)
        if steps is None:
            raise PipelineRefused(f"a lane without pipeline {spec.pipeline} has {spec.source}")
        chunk, stop = whole_of(spec, fetched)
        if chunk is None:
            self._done.append(unchanged(fetched, stop))
            return
        data, error = steps.applied(chunk)
        if isinstance(error, FailedRecord):
            text = f"pipeline {spec.pipeline} fails at source offset {error.offset}: {error.why}"
            stop = Stop(StopReason.TRANSFORM_FAILED, error.offset, text)
        elif error is not None:
            stop = _corrupt(fetched, next_offset(data, 0, len(data)), error.text)
        whole = fetched._replace(buffer=data, start=0, end=len(data), opened=steps.opened)
        self._done.append(Transformed(whole, stop))

    def take(self) -> list[Transformed]:
        """Return the answers that have been put in since."""
        found, self._done = self._done, []
        return found
