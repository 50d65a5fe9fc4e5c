"""Writes a run's rows, as the only one: whoever takes it over fences all others.

Each row is a transaction of one name for a link. A process that was frozen while another took its
run over can't write any more, and does nothing that it has not written first.
"""

from __future__ import annotations

import secrets
import threading
from contextlib import suppress
from dataclasses import replace

from heliostat.access import Reachable
from heliostat.clock import Clock
from heliostat.clusters.fenced_writer import FencedWriter
from heliostat.config import STATE_TOPIC_PREFIX
from heliostat.errors import BrokerError, ConnectionLost, HeliostatError, Refused
from heliostat.handover.run import Run, RunKind
from heliostat.names import LinkName, TopicName
from heliostat.state_topics import wishes_topic
from heliostat.wishes.wish_book import WishBook

CLIENT_ID = "heliostat-run"
BEAT_S = 2.0
QUIET_S = 8.0
"""A run whose process says nothing for so long is left behind; that is proven by fencing it."""
AGAIN_S, WITHIN_S = 1.0, 60.0
"""A target whose broker restarts is back within this."""


def run_writer_id(link: LinkName) -> str:
    """Transactional id by which whoever carries out a link's runs fences others."""
    return f"{STATE_TOPIC_PREFIX}{link}.run"


class RunBook:
    """The runs of one link, written by this process while no other takes over.

    Every method raises `ConnectionLost` when the target does not answer and `BrokerError` when it
    refuses.

    Parameters
    ----------
    link
        Name of the link.
    target
        Where they are.
    book
        The same topic, for reading.
    clock
        For waits.
    """

    def __init__(self, link: LinkName, target: Reachable, book: WishBook, clock: Clock) -> None:
        self._book = book
        self._clock = clock
        topic = TopicName(wishes_topic(link))
        self._writer = FencedWriter(target, topic, run_writer_id(link), CLIENT_ID)
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._beats = 0
        self.holder = secrets.token_hex(8)

    def close(self) -> None:
        """Stop to say that the run is carried out, and close the connections."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        self._writer.close()

    def last(self, kind: RunKind | None = None) -> Run | None:
        """Return the run that was written last; None: there was none."""
        self._book.read()
        return self._book.runs.last(kind)

    def is_carried_out(self, run: Run) -> bool:
        """Return whether another process carries it out: it says so within some seconds."""
        snapshot = self._look(run)
        until_s = self._clock.monotonic_s() + QUIET_S
        while self._clock.monotonic_s() < until_s:
            self._book.consume(0.5)
            if self._look(run) != snapshot:
                return True
        return False

    def _look(self, run: Run) -> tuple[Run | None, int]:
        return self._book.runs.last(run.kind), self._book.runs.beats_of(run)

    def take(self, run: Run, replication_factor: int | None) -> Run:
        """Carry out a run from now on: no other process can write it any more."""
        self._book.ensure(replication_factor)
        self._writer.fence()
        taken = replace(run, holder=self.holder)
        self._beats = self._book.runs.beats_of(run)
        self._writer.write(taken.key, taken.to_json())
        self._thread = threading.Thread(
            target=self._beat, args=(taken,), name=f"run {run.id}", daemon=True
        )
        self._thread.start()
        return taken

    def save(self, run: Run) -> None:
        """Write a run's row.

        Raises
        ------
        Refused
            Another process carries it out.
        """
        until_s = self._clock.monotonic_s() + WITHIN_S
        while not self._is_written(run, until_s):
            self._clock.sleep(AGAIN_S)

    def _is_written(self, run: Run, until_s: float) -> bool:
        """Write a row; return whether that was possible, as long as there is time left."""
        try:
            with self._lock:
                self._write_again(run)
        except (ConnectionLost, BrokerError) as error:
            if isinstance(error, BrokerError) and error.is_fenced:
                raise _taken(run) from error
            if self._clock.monotonic_s() >= until_s:
                raise
            return False
        return True

    def _write_again(self, run: Run) -> None:
        if not self._writer.is_ready:
            self._writer.fence()
            self._book.read()
            last = self._book.runs.last(run.kind)
            if last is not None and last.holder != self.holder:
                raise _taken(last)
        self._writer.write(run.key, run.to_json())

    def _beat(self, run: Run) -> None:
        """Say that it is carried out; where that fails, the next row's writer finds out why."""
        while not self._stop.wait(BEAT_S):
            self._beats += 1
            with self._lock, suppress(HeliostatError):
                if self._writer.is_ready:
                    self._writer.write(run.beats_key, {"beats": self._beats})


def _taken(run: Run) -> Refused:
    return Refused(
        f"another process carries out run {run.id} now",
        hint="let it, or take it over with --resume",
    )
