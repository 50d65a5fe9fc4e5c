"""When a link that has halted begins again: by the policy, by an order, or not at all.

    wishes/restarts   how long it rests, and when it gives up; pure
    here              time, what the target remembers, and what is told of it

What the target can't hold at the moment is remembered here: it outlives a process only if the
target has taken it.
"""

from __future__ import annotations

import socket
from collections.abc import Callable

from heliostat.clock import Clock
from heliostat.errors import HeliostatError, code_of
from heliostat.link.restart_book import RestartStore
from heliostat.ops.events import Events, Subject
from heliostat.status.board import StatusBoard
from heliostat.wishes.restarts import Cure, Phase, RestartMemory, cure_of, pause_s, words_of

ORDERS_EVERY_S = 1.0


class RestartKeeper:
    """Decides when one link begins again. From one thread only, but `is_over` from any.

    Parameters
    ----------
    name
        Name of the link.
    limit
        After so many restarts it gives up; 0: it does not begin again by itself.
    store
        Holds what is remembered, and orders.
    board
        The link's status, which shows it.
    clock, events
        Time, and where it is told.
    """

    def __init__(
        self,
        name: str,
        limit: int,
        store: RestartStore,
        board: StatusBoard,
        *,
        clock: Clock,
        events: Events,
    ) -> None:
        self._name = name
        self._limit = limit
        self._store = store
        self._board = board
        self._clock = clock
        self._events = events
        self._memory = RestartMemory()
        self._is_known = False
        self._due_s: float | None = None
        """When it begins again (monotonic); None: not by itself."""
        self._orders_s = 0.0
        self._heeded: set[str] = set()
        """Orders for which it has begun again."""
        self._runs_since_s = 0.0

    @property
    def is_over(self) -> bool:
        """Whether it has halted, and does not begin again by itself."""
        return self._memory.phase in {Phase.GAVE_UP, Phase.REFUSED}

    # -- while it is halted --------------------------------------------------------------------

    def halted(self, error: BaseException) -> None:
        """Note why it halts now, and tell when it begins again."""
        is_taken = cure_of(error) is Cure.STANDBY
        if not is_taken:
            self._know()
        now_ms, now_s = self._clock.wall_ms(), self._clock.monotonic_s()
        before = self._memory
        memory = before.halted(error, now_ms, self._limit, socket.gethostname())
        if is_taken and self._limit:
            self._due_s, how = now_s, "this instance stands by from now on"
        else:
            self._memory, how = memory, memory.text(now_ms)
            wait_s = pause_s(before.count)
            self._due_s = now_s + wait_s if memory.phase is Phase.WAITS else None
            if not is_taken:  # the link's next owner has it now
                self._keep()
        self._orders_s = now_s + ORDERS_EVERY_S
        about = Subject(code=getattr(error, "code", ""))
        text = f"link {self._name} has halted: {words_of(error)}; {how}"
        self._events.warn(text, about)

    def is_due(self) -> bool:
        """Return whether it is to begin again now."""
        now_s = self._clock.monotonic_s()
        if self._due_s is not None and now_s >= self._due_s:
            how = ""
        elif now_s >= self._orders_s and self._is_ordered():
            self._memory, how = self._memory.quiet(), ", as it was ordered"
        else:
            return False
        if self._memory.is_halted:
            self._events.info(f"link {self._name} begins again{how}")
            self._memory = self._memory.tried()
            self._board.know_restarts(self._memory)
        return True

    def _is_ordered(self) -> bool:
        """Whether somebody has ordered a restart for which it has not begun again yet."""
        self._orders_s = self._clock.monotonic_s() + ORDERS_EVERY_S
        new: set[str] = set()

        def look() -> None:
            new.update(set(self._store.orders()) - self._heeded)

        self._tried(look)
        self._heeded |= new
        return bool(new)

    # -- while it runs -------------------------------------------------------------------------

    def runs(self, stored: RestartMemory | None) -> None:
        """Note that it runs; `stored` is what the target remembered as it began."""
        self._learn(stored)
        self._runs_since_s = self._clock.monotonic_s()
        if self._memory.is_halted:
            self._memory = self._memory.runs()
            self._keep()
        self._store.close()

    def look(self) -> None:
        """Count from zero again once it has run for as long as it would rest next."""
        count = self._memory.count
        if count and self._clock.monotonic_s() - self._runs_since_s >= pause_s(count):
            self._memory = self._memory.quiet()
            self._keep()
            self._store.close()

    def close(self) -> None:
        """Close the connections."""
        self._store.close()

    # -- what is remembered --------------------------------------------------------------------

    def _know(self) -> None:
        """Take what the target remembers, if another process has noted something since."""
        self._tried(lambda: self._learn(self._store.memory()))

    def _learn(self, stored: RestartMemory | None) -> None:
        if stored is not None and (not self._is_known or stored.total >= self._memory.total):
            self._memory = stored
        self._is_known = True

    def _keep(self) -> None:
        memory = self._memory
        self._board.know_restarts(memory)
        if (error := self._tried(lambda: self._store.remember(memory))) is not None:
            text = f"link {self._name}: only this process knows of its restarts: {error}"
            self._events.warn(text, Subject(code=code_of(error)))

    def _tried(self, act: Callable[[], None]) -> HeliostatError | None:
        """Do something at the target, which may be what has halted the link; return its error."""
        try:
            act()
        except HeliostatError as error:
            self._store.close()
            return error
        return None
