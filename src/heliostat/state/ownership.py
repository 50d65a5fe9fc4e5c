"""Who drives a link: the claim, the wait for a predecessor, and being taken over.

I10 One owner. The owner's record says for how long its rounds may still send; a waiting instance
    counts that time on its own monotonic clock from when it first saw the record, so that no two
    machines' clocks are compared. A claim fences its predecessor first: whatever that one
    announces later is refused, and it gives out no round any more.

Every write follows `fence` and a look at the record, or a write of our own with nothing in between:
a record is replaced only by who has seen it. So of two that claim at once one wins.
"""

from __future__ import annotations

import os
import random
import socket
import threading
import uuid
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any, Protocol

from heliostat.clock import Clock
from heliostat.clusters.kafka_codes import UNKNOWN_TOPIC_OR_PARTITION
from heliostat.errors import BrokerError, ConnectionLost, LinkTakenOver, Verdict
from heliostat.names import LinkName
from heliostat.ops.events import Events

LOOK_EVERY_S = 0.2
"""A waiting instance looks for changes so often; a stop ends the wait as soon."""
TELL_EVERY_S = 60.0
CLAIM_LASTS_MS = 10_000
"""A claim before its first round: reading the state and planning take less."""
OLDER_VERSION_LASTS_MS = 60_000
"""A record without a duration: rounds of the versions that wrote such did not last longer."""
RIVALS_PAUSE_S = 1.0
"""Two that fenced each other look again after different pauses, up to this."""
ANNOUNCE_TRIES = 4
"""Each begins with the newest epoch; more than one fails only beside a rival or a sick broker."""


@dataclass(frozen=True, slots=True)
class Owner:
    """Who drives the link, and for how long its rounds may still send (I10)."""

    instance: str
    host: str
    pid: int
    claim: int
    """Counts the owners of the link."""
    renewal: int
    """Counts the records of this claim."""
    since_ms: int
    """Wall clock of its claim, for people."""
    lasts_ms: int
    """No round that this driver gave out sends later than this after the record was written."""
    resigned: bool

    @classmethod
    def here(cls, now_ms: int) -> Owner:
        """The process that calls, before it claims: an instance that no other is or was."""
        name = uuid.uuid4().hex
        return cls(name, socket.gethostname(), os.getpid(), 0, 0, now_ms, 0, resigned=False)

    def to_json(self) -> dict[str, Any]:
        """As the state topic holds it."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Owner:
        """Read back, also rows of earlier versions, which had neither claim nor duration."""
        return cls(
            instance=value["instance"],
            host=value["host"],
            pid=value["pid"],
            claim=value.get("claim", 0),
            renewal=value.get("renewal", value.get("deadline_ms", 0)),
            since_ms=value.get("since_ms", 0),
            lasts_ms=value.get("lasts_ms", OLDER_VERSION_LASTS_MS),
            resigned=value["resigned"],
        )


class OwnerStore(Protocol):
    """Where the owner's record is kept: `LinkState`, or a stand-in in tests."""

    def fence_owner(self) -> None:
        """After this no write of an earlier `fence_owner`'s caller is taken any more."""
        ...

    @property
    def may_put_owner(self) -> bool:
        """Whether nobody fenced us as far as we know, and no write of ours failed."""
        ...

    def put_owner(self, owner: Owner) -> None:
        """Write the record; fails when somebody else has fenced us."""
        ...

    def read_owner(self, *, is_first: bool = True) -> Owner | None:
        """The record as it is now; else with what has changed since, which may come late."""
        ...

    def last_claim(self) -> int:
        """The highest claim that lanes have heard of."""
        ...


class Ownership:
    """One instance's claim to a link; safe to share between threads once it is claimed.

    Parameters
    ----------
    link
        Which link.
    store
        Where the record is kept.
    clock, events
        Time, and where waiting is told.
    must_stop
        Whether the instance was asked to end.
    on_wait
        Called once when it has to wait for another instance.
    """

    def __init__(
        self,
        link: LinkName,
        store: OwnerStore,
        *,
        clock: Clock,
        events: Events,
        must_stop: Callable[[], bool],
        on_wait: Callable[[], None] = lambda: None,
    ) -> None:
        self._link = link
        self._store = store
        self._clock = clock
        self._events = events
        self._must_stop = must_stop
        self._on_wait = on_wait
        self._lock = threading.RLock()
        self._me = Owner.here(clock.wall_ms())
        self._until_s = 0.0
        self._is_ours = False
        self._notified_at_s: float | None = None

    @property
    def instance(self) -> str:
        """Name of this instance."""
        return self._me.instance

    @property
    def claim_number(self) -> int:
        """How many owners the link has had with this one; 0 before it is claimed."""
        return self._me.claim

    @property
    def is_ours(self) -> bool:
        """Whether the link is claimed and nobody is known to have taken it over."""
        return self._is_ours

    # -- becoming the owner --------------------------------------------------------------------

    def claim(self) -> bool:
        """Wait until no other instance owns the link, then own it.

        Returns
        -------
        Whether the link is ours; not when the instance was asked to end meanwhile.

        Raises
        ------
        ConnectionLost, BrokerError
            The target refuses, or does not answer before a first look at the record.
        """
        seen: Owner | None = None
        seen_at_s = 0.0
        has_looked = False
        while not self._must_stop():
            try:
                owner = self._store.read_owner(is_first=seen is None)
                now_s = self._clock.monotonic_s()
                if owner != seen:
                    seen, seen_at_s = owner, now_s
                left_s = _left_s(owner, seen_at_s, now_s)
                has_looked = True
                if left_s <= 0 and self._take(owner):
                    return True
            except (ConnectionLost, BrokerError) as error:
                if not has_looked or error.verdict is Verdict.HALT:
                    raise
                # An owner could not renew either: its time counts anew.
                seen, left_s = None, RIVALS_PAUSE_S
            else:
                if owner is not None and left_s > 0:
                    self._tell(owner)
            self._clock.sleep(min(max(left_s, 0.0), LOOK_EVERY_S))
        return False

    def _take(self, seen: Owner | None) -> bool:
        """Fence whoever was before, and claim what has not changed meanwhile."""
        self._store.fence_owner()
        if self._must_stop() or self._store.read_owner() != seen:
            return False
        before = 0 if seen is None else seen.claim
        me = replace(
            self._me,
            claim=max(before, self._store.last_claim()) + 1,
            since_ms=self._clock.wall_ms(),
            lasts_ms=CLAIM_LASTS_MS,
        )
        now_s = self._clock.monotonic_s()
        try:
            self._store.put_owner(me)
        except BrokerError as error:
            if not error.is_fenced:
                raise
            self._clock.sleep(random.uniform(0.1, RIVALS_PAUSE_S))  # noqa: S311  # no secret
            return False
        self._me, self._is_ours = me, True
        self._until_s = now_s + CLAIM_LASTS_MS / 1000
        if self._notified_at_s is not None:
            self._events.info(f"link {self._link}: this instance takes over")
        return True

    def _tell(self, owner: Owner) -> None:
        now_s = self._clock.monotonic_s()
        if self._notified_at_s is None:
            self._on_wait()
        elif now_s < self._notified_at_s + TELL_EVERY_S:
            return
        self._notified_at_s = now_s
        since = datetime.fromtimestamp(owner.since_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
        self._events.info(
            f"link {self._link}: waiting, it is driven from {owner.host} (pid {owner.pid}, "
            f"instance {owner.instance[:8]}, since {since} UTC); this instance takes over when "
            f"that one ends, or is silent for {owner.lasts_ms / 1000:.0f} s"
        )

    # -- being the owner -----------------------------------------------------------------------

    def announce(self, deadline_ms: int) -> None:
        """Make durable that rounds may send until `deadline_ms` by this machine's wall clock.

        Raises
        ------
        LinkTakenOver
            Another instance owns the link: no round may be given out.
        ConnectionLost, BrokerError
            The target does not take the record: no round may be given out either.
        """
        if self._covers(deadline_ms):  # another thread's write may take long
            return
        with self._lock:
            if not self._covers(deadline_ms):
                self._renew((deadline_ms - self._clock.wall_ms()) / 1000)

    def _covers(self, deadline_ms: int) -> bool:
        """Whether a record says so already, which nobody can have taken over before that time."""
        left_s = (deadline_ms - self._clock.wall_ms()) / 1000
        return self._is_ours and self._clock.monotonic_s() + left_s <= self._until_s

    def _is_announced(self) -> bool:
        return self._is_ours and self._clock.monotonic_s() < self._until_s

    def keep(self, lasts_s: float) -> None:
        """Renew the claim, for `lasts_s` or what was announced already; raises as `announce`."""
        with self._lock:
            self._renew(max(lasts_s, self._until_s - self._clock.monotonic_s()))

    def hold(self, lasts_s: float) -> None:
        """Go on only as the owner: renews first where the last announcement is over.

        Costs nothing otherwise; a process that was stopped for long learns here that it has a
        successor. Where the record's topic was deleted, whoever asks goes on and makes it anew.
        Raises as `announce`.
        """
        if self._is_announced():  # another thread's write may take long
            return
        with self._lock:
            if self._is_announced():
                return
            try:
                self._renew(lasts_s)
            except BrokerError as error:
                if error.kafka_code != UNKNOWN_TOPIC_OR_PARTITION:
                    raise

    def resign(self) -> None:
        """Let a successor begin at once; only if the link is still ours. Raises as `announce`."""
        with self._lock:
            if self._is_ours:
                self._me = replace(self._me, resigned=True)
                self._until_s = 0.0  # of what was announced nothing holds, also if this fails
                self._renew(0.0)
                self._is_ours = False

    def _renew(self, lasts_s: float) -> None:
        """Write the next record, as the newest writer and over our own last one only."""
        if not self._is_ours:
            raise LinkTakenOver("this instance does not own the link", link=self._link)
        for attempt in range(1, ANNOUNCE_TRIES + 1):
            try:
                if not self._store.may_put_owner:
                    self._store.fence_owner()
                    self._check(self._store.read_owner())
                me = replace(self._me, renewal=self._me.renewal + 1, lasts_ms=round(lasts_s * 1000))
                now_s = self._clock.monotonic_s()
                self._me = me  # also where the answer is lost: the number is used up
                self._store.put_owner(me)
            except BrokerError as error:
                if attempt == ANNOUNCE_TRIES or not error.is_fenced:
                    raise
            else:
                self._until_s = now_s + lasts_s
                return

    def _check(self, owner: Owner | None) -> None:
        """Our own record, or none because somebody deleted the topic; else we are taken over."""
        if owner is None or owner.instance == self._me.instance:
            return
        self._is_ours = False
        raise LinkTakenOver(
            f"link {self._link} was taken over by the instance on {owner.host} (pid {owner.pid}) "
            "while this one did not answer: it stops, what was copied is whole",
            link=self._link,
            instance=owner.instance[:8],
            claim=owner.claim,
        )


def _left_s(owner: Owner | None, seen_at_s: float, now_s: float) -> float:
    """For how long a record still keeps others from claiming."""
    if owner is None or owner.resigned:
        return 0.0
    return seen_at_s + owner.lasts_ms / 1000 - now_s
