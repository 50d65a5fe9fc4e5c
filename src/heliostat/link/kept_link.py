"""One of the links that a process drives: it starts, is retried, halts, and begins again (I7)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

from heliostat.config import LinkConfig
from heliostat.errors import HeliostatError, Verdict
from heliostat.link.link_context import WantedLink
from heliostat.link.restart_keeper import RestartKeeper
from heliostat.link.service import LinkService
from heliostat.link.troubles import START, Troubles
from heliostat.names import TopicName
from heliostat.ops.events import Events
from heliostat.ops.scheduler import ScheduledTask, Scheduler
from heliostat.status.board import StatusBoard

LOOK_S = 0.25
AGAIN_FIRST_S, AGAIN_MAX_S = 0.5, 10.0
GIVES_WAY_S = 5.0
"""After it has resigned for a verb: that one claims the link within a second."""
STOP_WITHIN_S = 125.0
"""Requests to a sick cluster time out, rounds end or are cancelled, loops end."""


class KeptLink:
    """A link, kept going until it is stopped or halts.

    If its target can't be reached, it is retried; if continuing could do harm, it alone halts and
    the other links continue. It begins again when `restarts` says so.

    Parameters
    ----------
    wanted
        What it should be; its services take it from here.
    make
        A service for the next try.
    board
        The link's status, updated by all tries.
    restarts
        When it begins again.
    events, troubles
        Where changes and failures are told.
    scheduler
        Runs it: it takes a thread only while it begins, ends or asks something.
    """

    def __init__(
        self,
        wanted: WantedLink,
        make: Callable[[], LinkService],
        board: StatusBoard,
        *,
        restarts: RestartKeeper,
        events: Events,
        troubles: Troubles,
        scheduler: Scheduler | None = None,
    ) -> None:
        self.wanted = wanted
        self.board = board
        self.failure: BaseException | None = None
        """Why it has halted; None: it has not, or it has begun again."""
        self._restarts = restarts
        self._make = make
        self._events = events
        self._troubles = troubles
        self._stopping = threading.Event()
        self._service: LinkService | None = None
        self._failures = 0
        self._scheduler = scheduler or Scheduler()
        self._pauses = self._run()
        self._task: ScheduledTask | None = None

    @property
    def link(self) -> LinkConfig:
        """The configuration that it should have."""
        return self.wanted.link

    @property
    def over(self) -> BaseException | None:
        """Why it has halted, if it does not begin again by itself."""
        return self.failure if self._restarts.is_over else None

    def start(self) -> None:
        """Start the link."""
        name = f"{self.link.name} kept"
        self._task = self._scheduler.start(name, lambda: next(self._pauses, None))

    def change_to(self, link: LinkConfig) -> None:
        """Have it go by another configuration, of which its lanes don't depend, at once."""
        self.wanted.link = link
        service = self._service
        if service is not None:
            service.switch.refresh()

    @property
    def source_topics(self) -> frozenset[TopicName] | None:
        """All topics of its source, as seen last; None: not yet."""
        return None if self._service is None else self._service.switch.known.source_topics

    def stop(self) -> None:
        """End it gracefully; returns when its rounds and loops have ended."""
        self._stopping.set()
        service = self._service
        if service is not None:
            service.stop()
        if self._task is not None:
            self._task.wake()
            self._task.join(STOP_WITHIN_S)

    def _run(self) -> Iterator[float]:
        """Keep it going; yield the pauses after which it is asked to go on."""
        try:
            while not self._stopping.is_set():
                try:
                    yield from self._drive()
                except HeliostatError as error:
                    if error.verdict is Verdict.HALT:
                        yield from self._rest(error)
                    else:
                        self._failed(error)
                except Exception as error:  # noqa: BLE001  # a bug ends this link only, and is told
                    yield from self._rest(error)
                if not self._stopping.is_set():
                    yield self._pause_s()
        finally:
            self._restarts.close()

    def _drive(self) -> Iterator[float]:
        """Run the link until it is stopped; raises its failure if it ends otherwise."""
        service = self._service = self._make()
        if self._stopping.is_set():
            return
        try:
            if service.start():
                link = self.link
                self._events.info(f"link {link.name}: {link.source} → {link.target} runs")
                self._failures = 0
                self._troubles.works(START)
                self._restarts.runs(service.restarts)
            while self._goes_on(service):
                self._restarts.look()
                yield LOOK_S
        finally:
            service.stop()
        if service.failure is not None:
            raise service.failure
        if service.switch.gives_way.is_set():
            self._stopping.wait(GIVES_WAY_S)

    def _goes_on(self, service: LinkService) -> bool:
        gives_way = service.switch.gives_way.is_set()
        return service.failure is None and not gives_way and not self._stopping.is_set()

    def _rest(self, error: BaseException) -> Iterator[float]:
        """Halt, until it is to begin again."""
        self._restarts.halted(error)
        self.failure = error
        while not self._restarts.is_due():
            yield LOOK_S
            if self._stopping.is_set():
                return
        self.failure = None

    def _failed(self, error: HeliostatError) -> None:
        self._failures += 1
        self._troubles.failed(START, error)

    def _pause_s(self) -> float:
        return min(AGAIN_MAX_S, AGAIN_FIRST_S * 2.0 ** min(self._failures, 10))
