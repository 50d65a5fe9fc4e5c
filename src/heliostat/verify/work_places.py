"""Where the work is done: in tasks of Spark, or in the driver what tasks can't do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Protocol

from pyspark import SparkContext

from heliostat.verify.ranges import Chunk
from heliostat.verify.work import (
    ChunkResult,
    ComparedClusters,
    Differing,
    ExplainedStretch,
    compare_chunks,
    explain_stretches,
)

JOBS_MAX = 256
"""Jobs at once, where each share is one; a thread waits for each."""
THREADS_MAX = 4  # Python runs one of them at a time; the others wait for a broker or for Spark


class Work(Protocol):
    """Compares and explains."""

    @property
    def sides(self) -> ComparedClusters:
        """Both clusters."""
        ...

    @property
    def tasks(self) -> int:
        """Into how many shares the chunks are to be packed at most."""
        ...

    def compare(self, shares: Sequence[Sequence[Chunk]]) -> Iterable[ChunkResult]:
        """Compare chunks, see `compare_chunks`."""
        ...

    def explain(self, stretches: Sequence[Differing]) -> Iterable[ExplainedStretch]:
        """Explain what differs, see `explain_stretches`."""
        ...


class OnSpark:
    """Tasks of Spark.

    Parameters
    ----------
    context
        Spark.
    sides
        Both clusters, without pipelines.
    tasks
        Greatest number of tasks.
    one_by_one
        Whether results are yielded when a share is done, not when all are: a job of its own each.
    """

    def __init__(
        self, context: SparkContext, sides: ComparedClusters, tasks: int, *, one_by_one: bool
    ) -> None:
        self._context = context
        self._one_by_one = one_by_one
        self.sides = sides
        self.tasks = tasks

    def compare(self, shares: Sequence[Sequence[Chunk]]) -> Iterator[ChunkResult]:
        """See `Work`."""
        chunks = sum(len(share) for share in shares)
        self._context.setJobDescription(f"verify: compare {chunks} pieces")
        if self._one_by_one:
            yield from self._as_they_end(shares)
        else:
            yield from self._collected(shares)
        self._context.setJobDescription("")

    def _collected(self, shares: Sequence[Sequence[Chunk]]) -> list[ChunkResult]:
        sides = self.sides
        compared = self._context.parallelize(shares, len(shares)).flatMap(
            lambda share: compare_chunks(sides, share)
        )
        return compared.collect()

    def _as_they_end(self, shares: Sequence[Sequence[Chunk]]) -> Iterator[ChunkResult]:
        at_once = min(len(shares), self._context.defaultParallelism + 1, JOBS_MAX)
        threads = ThreadPoolExecutor(at_once, "verify")
        try:
            jobs = [threads.submit(self._collected, [share]) for share in shares]
            for job in as_completed(jobs):
                yield from job.result()
        finally:
            threads.shutdown(cancel_futures=True)

    def explain(self, stretches: Sequence[Differing]) -> Iterator[ExplainedStretch]:
        """See `Work`."""
        if not stretches:
            return
        sides = self.sides
        self._context.setJobDescription(f"verify: explain {len(stretches)} partitions")
        explained = self._context.parallelize(
            stretches, min(self.tasks, len(stretches))
        ).mapPartitions(lambda some: explain_stretches(sides, some))
        yield from explained.collect()
        self._context.setJobDescription("")


class InDriver:
    """Threads of this process: a task of Spark can't run a pipeline, which is Spark's itself.

    Parameters
    ----------
    sides
        Both clusters, with pipelines.
    cores
        How many cores Spark has.
    """

    def __init__(self, sides: ComparedClusters, cores: int) -> None:
        self.sides = sides
        self.tasks = max(1, min(cores, THREADS_MAX))

    def compare(self, shares: Sequence[Sequence[Chunk]]) -> Iterator[ChunkResult]:
        """See `Work`."""
        with ThreadPoolExecutor(self.tasks, "verify") as threads:
            for found in threads.map(lambda some: list(compare_chunks(self.sides, some)), shares):
                yield from found

    def explain(self, stretches: Sequence[Differing]) -> Iterator[ExplainedStretch]:
        """See `Work`."""
        return explain_stretches(self.sides, stretches)
