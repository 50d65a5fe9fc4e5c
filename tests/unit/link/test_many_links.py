"""Many links in one process share its threads; one that hangs takes only its own turns away."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any
from unittest.mock import Mock

import pytest

from heliostat.clock import SystemClock
from heliostat.config import LinkConfig
from heliostat.link.kept_link import KeptLink
from heliostat.link.link_context import WantedLink
from heliostat.link.loops import Loops
from heliostat.link.troubles import Troubles
from heliostat.names import LinkName
from heliostat.ops import scheduler as scheduler_module
from heliostat.ops.events import Events
from heliostat.ops.loop_spec import LoopSpec, Wake
from heliostat.ops.scheduler import Scheduler
from heliostat.status.board import StatusBoard

LINKS, LOOPS = 100, 6
THREADS_MAX = 40
"""For 600 loops: some per cent of them run at the same moment, on a busy machine."""
WITHIN_S = 20.0
EVERY_S = 0.5
OWNERSHIP = "ownership"


class Service:
    """A link's loops; the turns of one that hangs end when it is told so."""

    def __init__(self, name: str, scheduler: Scheduler, turns: Counter[str]) -> None:
        self.name = name
        self.failure: BaseException | None = None
        self.restarts = None
        self.switch = Mock(gives_way=threading.Event())
        self.hangs, self.goes_on = threading.Event(), threading.Event()
        self._turns = turns
        self.renew = Wake()
        troubles = Troubles({}, SystemClock(), Events(lambda: 0, None))
        self.loops = Loops(name, lambda _: None, SystemClock(), troubles, scheduler)

    def start(self) -> bool:
        turn = partial(self._turn, OWNERSHIP)
        self.loops.start(LoopSpec(OWNERSHIP, EVERY_S, turn, self.renew, is_urgent=True))
        for number in range(1, LOOPS):
            part = f"part {number}"
            self.loops.start(LoopSpec(part, EVERY_S, partial(self._turn, part)))
        return True

    def _turn(self, part: str) -> None:
        if self.hangs.is_set() and part != OWNERSHIP:
            self.goes_on.wait(WITHIN_S)
        self._turns[f"{self.name} {part}"] += 1

    def stop(self) -> None:
        self.goes_on.set()
        self.loops.stop()


class Process:
    """All links, kept on one scheduler."""

    def __init__(self) -> None:
        self.scheduler = Scheduler()
        self.turns: Counter[str] = Counter()
        self.services: dict[str, Service] = {}
        events = Events(lambda: 0, None)
        self.links = [self._link(f"l{number}", events) for number in range(LINKS)]

    def _link(self, name: str, events: Events) -> KeptLink:
        settings = {"name": name, "source": "a", "target": "b"}
        return KeptLink(
            WantedLink(LinkConfig.model_validate(settings)),
            partial(self._service, name),
            StatusBoard(LinkName(name)),
            restarts=Mock(),
            events=events.of(name),
            troubles=Troubles({}, SystemClock(), events.of(name)),
            scheduler=self.scheduler,
        )

    def _service(self, name: str) -> Any:
        self.services[name] = Service(name, self.scheduler, self.turns)
        return self.services[name]

    def turned(self, links: set[str], parts: int = LOOPS) -> Callable[[], bool]:
        """Return a function that says whether loops of these links have run again."""
        before = dict(self.turns)

        def holds() -> bool:
            more = [key for key, count in list(self.turns.items()) if count > before.get(key, 0)]
            names = Counter(key.split()[0] for key in more)
            return all(names[name] >= parts for name in links)

        return holds


def eventually(holds: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + WITHIN_S
    while not holds():
        assert time.monotonic() < deadline_s
        time.sleep(0.02)  # between two looks at a condition with a deadline


def test_a_hundred_links_share_threads_and_one_that_hangs_holds_up_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Given 100 links / then few threads do / when two hang / then others' turns and all
    renewals go on / when they are stopped / then no thread is left."""
    monkeypatch.setattr(scheduler_module, "IDLE_ENDS_S", 0.2)
    before, process = threading.active_count(), Process()
    every = {link.link.name for link in process.links}
    for link in process.links:
        link.start()
    eventually(process.turned(every))
    eventually(lambda: threading.active_count() - before <= THREADS_MAX)
    hanging = {"l0", "l1"}
    for name in hanging:
        process.services[name].hangs.set()
    time.sleep(2 * EVERY_S)  # until all that can hang does
    eventually(process.turned(every - hanging))
    eventually(process.turned(hanging, parts=1))  # their renewals
    eventually(
        lambda: threading.active_count() - before <= THREADS_MAX + len(hanging) * (LOOPS - 1)
    )
    for link in process.links:
        link.stop()
    eventually(lambda: threading.active_count() <= before)
