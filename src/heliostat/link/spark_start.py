"""Starts Spark on a thread, while the program loads the rest of its code.

Most of that time Spark's JVM loads its classes. Two threads may import at once only what has no
cycles between them: here PySpark, which nothing else in a driver imports.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from heliostat.config import Config, LinkConfig
from heliostat.link.pipeline_rules import pipelines_of
from heliostat.ops.compiled_ahead import LoopsAhead
from heliostat.ops.jvm_output import Tell, to_stderr
from heliostat.ops.places import task_cpus_of
from heliostat.records.spark.pipeline import SparkRounds

STARTED_WITHIN_S = 20.0
"""How long a stop waits for a start that is under way; the process then ends beside it."""


def ignore(line: str) -> None:
    """Tell nobody."""


class SparkStart:
    """A Spark session for links that is being started.

    Parameters
    ----------
    config
        The configuration.
    links
        Which of its links will run in it.
    tell
        Receives what Spark's JVM prints.
    say
        Receives lines about what takes long at the first start.
    """

    def __init__(
        self,
        config: Config,
        links: Sequence[LinkConfig],
        tell: Tell = to_stderr,
        say: Callable[[str], None] = ignore,
    ) -> None:
        self._tell = tell
        self._loops = LoopsAhead(config.spark.master, say)
        self._config = config
        self._links = links
        self._rounds: SparkRounds | None = None
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="Spark's start", daemon=True)
        self._thread.start()

    def is_over(self, within_s: float) -> bool:
        """Wait at most so long; return whether it has started, or can't be."""
        self._thread.join(within_s)
        return not self._thread.is_alive()

    def ended(self) -> SparkRounds | None:
        """Return the session to stop, once its start is over; None if there is none."""
        self._loops.end()
        self._thread.join(STARTED_WITHIN_S)
        return self._rounds

    def rounds(self) -> SparkRounds:
        """Wait until Spark has started; whoever calls this stops it.

        Raises
        ------
        SparkUnavailable
            Spark can't be started.
        """
        self._thread.join()
        if self._failure is not None:
            raise self._failure
        assert self._rounds is not None
        return self._rounds

    def _run(self) -> None:
        settings = self._config.spark
        try:
            self._rounds = SparkRounds(
                "heliostat " + ",".join(link.name for link in self._links),
                settings.master,
                settings.conf,
                task_cpus=task_cpus_of(settings.task_cpus, settings.master),
                has_pipelines=any(map(pipelines_of, self._links)),
                has_rows=any(
                    not each.is_in_place
                    for link in self._links
                    for each in pipelines_of(link).values()
                ),
                tell=self._tell,
            )
            self._loops.wait()
        except BaseException as error:  # noqa: BLE001  # raised where it is awaited
            self._failure = error
            self._loops.end()
