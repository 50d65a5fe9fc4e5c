"""Ownership of a link: the claim, the wait for a predecessor, and being taken over.

I10 One owner. The owner's record lasts as long as the leases given under it; a waiting instance
    counts that time on its own monotonic clock from when it first saw the record, so that no two
    machines' clocks are compared. A claim first fences its predecessor: the broker refuses what
    that one announces later, so it starts no more rounds.

Before every write the instance fences and reads the record, or its own previous write was the last
one: only an instance that has seen a record replaces it. So of two that claim at once one wins.
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
from heliostat.records.copier.late_sends import LATE_S

LOOK_EVERY_S = 0.2
"""How often a waiting instance looks for changes, and whether it must stop."""
TELL_EVERY_S = 60.0
CLAIM_LASTS_MS = 10_000
"""Duration of a claim before its first round: reading the state and planning take less."""
OLDER_VERSION_LASTS_MS = 60_000
"""For records without a duration: rounds of the versions that wrote them were not longer."""
RIVALS_PAUSE_S = 1.0
"""Two instances that fenced each other try again after random pauses, up to this."""
RATES_DIFFER = 1e-3
"""By how much two machines' clocks may differ in rate; quartz keeps to a tenth of that."""
ANNOUNCE_TRIES = 4
"""Each try takes a new epoch; more than one fails only with a rival or a broken broker."""


def owner_lasts_s(lease_s: float) -> float:
    """Return for how long (s) the owner's record keeps others from the link.

    A process that is late with a send is killed `LATE_S` after its lease.
    """
    return lease_s * (1.0 + RATES_DIFFER) + LATE_S


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
    """No lease given under the record is longer; for a claim: until the first lease."""
    resigned: bool

    @classmethod
    def here(cls, now_ms: int) -> Owner:
        """Return an owner for the calling process before its claim, with a unique instance name."""
        name = uuid.uuid4().hex
        return cls(name, socket.gethostname(), os.getpid(), 0, 0, now_ms, 0, resigned=False)

    def to_json(self) -> dict[str, Any]:
        """Return the record as JSON, for the state topic."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Owner:
        """Build from JSON, also of earlier versions, which had neither claim nor duration."""
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
    """Store of the owner's record: `LinkState`, or a fake in tests."""

    def fence_owner(self) -> None:
        """Fence earlier callers of `fence_owner`: their writes are refused from now on."""
        ...

    @property
    def may_put_owner(self) -> bool:
        """Whether `fence_owner` was called, and no write has failed since."""
        ...

    def put_owner(self, owner: Owner) -> None:
        """Write the record; fails if another instance has fenced this one."""
        ...

    def read_owner(self) -> Owner | None:
        """Return the record as of now."""
        ...

    def watch_owner(self, *, anew: bool) -> Owner | None:
        """Return the record as of now if `anew`, else as of the changes received since."""
        ...

    def last_claim(self) -> int:
        """Return the highest claim announced to lanes."""
        ...


class Ownership:
    """One instance's claim to a link; thread-safe once the link is claimed.

    Parameters
    ----------
    link
        Name of the link.
    store
        Store of the owner's record.
    clock, events
        The clock, and the sink of lines about waiting.
    must_stop
        Returns whether the instance was asked to end.
    """

    def __init__(
        self,
        link: LinkName,
        store: OwnerStore,
        *,
        clock: Clock,
        events: Events,
        must_stop: Callable[[], bool],
    ) -> None:
        self.link = link
        self._store = store
        self._clock = clock
        self._events = events
        self._must_stop = must_stop
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
    def place(self) -> dict[str, object]:
        """Where this instance runs, and since when it has the link (wall ms), for people."""
        return {"host": self._me.host, "pid": self._me.pid, "since_ms": self._me.since_ms}

    @property
    def claim_number(self) -> int:
        """Number of this claim, which counts the link's owners; 0 before the link is claimed."""
        return self._me.claim

    @property
    def is_ours(self) -> bool:
        """Whether this instance has claimed the link and is not known to be taken over."""
        return self._is_ours

    # -- becoming the owner --------------------------------------------------------------------

    def claim(self) -> bool:
        """Wait until no other instance owns the link, then own it.

        Returns
        -------
        Whether the link is ours; False if the instance was asked to end meanwhile.

        Raises
        ------
        ConnectionLost, BrokerError
            The target refuses, or does not answer the first read of the record.
        """
        previous: Owner | None = None
        seen_at_s = 0.0
        has_looked = False
        while not self._must_stop():
            try:
                owner = self._store.watch_owner(anew=previous is None)
                now_s = self._clock.monotonic_s()
                if owner != previous:
                    previous, seen_at_s = owner, now_s
                left_s = _left_s(owner, seen_at_s, now_s)
                has_looked = True
                if left_s <= 0 and self._take(owner):
                    return True
            except (ConnectionLost, BrokerError) as error:
                if not has_looked or error.verdict is Verdict.HALT:
                    raise
                # The owner may not have been able to renew either: its time starts again.
                previous, left_s = None, RIVALS_PAUSE_S
            else:
                if owner is not None and left_s > 0:
                    self._tell(owner)
            self._clock.sleep(min(max(left_s, 0.0), LOOK_EVERY_S))
        return False

    def _take(self, previous: Owner | None) -> bool:
        """Fence the previous owner, and claim the link if its record has not changed."""
        self._store.fence_owner()
        if self._must_stop() or self._store.read_owner() != previous:
            return False
        before = 0 if previous is None else previous.claim
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
            self._events.info(f"link {self.link}: this instance takes over")
        return True

    def _tell(self, owner: Owner) -> None:
        now_s = self._clock.monotonic_s()
        if self._notified_at_s is not None and now_s < self._notified_at_s + TELL_EVERY_S:
            return
        self._notified_at_s = now_s
        since = datetime.fromtimestamp(owner.since_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
        self._events.info(
            f"link {self.link}: waiting for its owner on {owner.host} (pid {owner.pid}, "
            f"instance {owner.instance[:8]}, since {since} UTC); this instance takes over when "
            f"that one ends, or is silent for {owner.lasts_ms / 1000:.0f} s"
        )

    # -- being the owner -----------------------------------------------------------------------

    def _is_announced(self) -> bool:
        return self._is_ours and self._clock.monotonic_s() < self._until_s

    def keep(self, lasts_s: float) -> None:
        """Renew the claim for `lasts_s`, or the announced time if longer.

        Raises
        ------
        LinkTakenOver
            Another instance owns the link: no lease may be given.
        ConnectionLost, BrokerError
            The record can't be written: no lease may be given either.
        """
        with self._lock:
            self._renew(max(lasts_s, self._until_s - self._clock.monotonic_s()))

    def hold(self, lasts_s: float) -> None:
        """Ensure that this instance is still the owner: renew if the last announcement has expired.

        Costs nothing otherwise; a process that was suspended for long learns here that it has a
        successor. If the record's topic was deleted, returns, so that the caller can recreate it.
        Raises as `keep`.
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
        """Let a successor begin at once, if the link is still ours. Raises as `keep`."""
        with self._lock:
            if self._is_ours:
                self._me = replace(self._me, resigned=True)
                self._until_s = 0.0  # earlier announcements are void, even if this fails
                self._renew(0.0)
                self._is_ours = False

    def _renew(self, lasts_s: float) -> None:
        """Write the next record, only as the unfenced writer and only over our own last record."""
        if not self._is_ours:
            raise LinkTakenOver("this instance does not own the link", link=self.link)
        for attempt in range(1, ANNOUNCE_TRIES + 1):
            try:
                if not self._store.may_put_owner:
                    self._store.fence_owner()
                    self._check(self._store.read_owner())
                me = replace(self._me, renewal=self._me.renewal + 1, lasts_ms=round(lasts_s * 1000))
                now_s = self._clock.monotonic_s()
                self._me = me  # even if the answer is lost: the number is used
                self._store.put_owner(me)
            except BrokerError as error:
                if attempt == ANNOUNCE_TRIES or not error.is_fenced:
                    raise
            else:
                self._until_s = now_s + lasts_s
                return

    def _check(self, owner: Owner | None) -> None:
        """Raise `LinkTakenOver` unless the record is ours, or gone with a deleted topic."""
        if owner is None or owner.instance == self._me.instance:
            return
        self._is_ours = False
        raise LinkTakenOver(
            f"link {self.link} was taken over by the instance on {owner.host} (pid {owner.pid}) "
            "while this one did not respond: it stops, what was copied is intact",
            link=self.link,
            instance=owner.instance[:8],
            claim=owner.claim,
        )


def _left_s(owner: Owner | None, seen_at_s: float, now_s: float) -> float:
    """Return for how many seconds a record still keeps others from claiming."""
    if owner is None or owner.resigned:
        return 0.0
    return seen_at_s + owner.lasts_ms / 1000 - now_s
