"""The owner's record in a link's state topic, and the claims that its announcements name (I10)."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from heliostat.clusters.fenced_writer import FencedWriter
from heliostat.clusters.keyed_topic import KeyedTopic, read_as_row
from heliostat.errors import BrokerError, ConnectionLost
from heliostat.ops.asked import PendingAnswer
from heliostat.records.transport.announcements import CONTROL_KEY
from heliostat.state.ownership import Owner
from heliostat.state.row_format import FORMAT_KEY, check_format

OWNER_KEY = "owner"
OWNER_WITHIN_S = 16.0
"""Time limit for reading the owner's record; then it is read again with a new client."""
CHANGES_WITHIN_S = 0.1
"""How long a waiting instance polls for changes."""


class OwnerRecord:
    """The record as `Ownership` stores it.

    Parameters
    ----------
    state
        The link's state topic, in which it is.
    writer
        Writes into that topic in transactions that fence other writers.
    control
        The topic of what is announced to lanes.
    """

    def __init__(self, state: KeyedTopic, writer: FencedWriter, control: KeyedTopic) -> None:
        self._state = state
        self._writer = writer
        self._control = control
        self._watch = state.reader()
        self._watched: Owner | None = None
        self._preparing: PendingAnswer[None] | None = None
        self._announced: PendingAnswer[int] | None = None

    def prepare(self) -> None:
        """Look up what the first write needs, beside what is asked meanwhile."""
        self._preparing = PendingAnswer(self._writer.prepare, "finding the coordinator")

    def close(self) -> None:
        """Close the connections."""
        self._watch.close()
        self._writer.close()

    def fence_owner(self) -> None:
        """Fence all other writers of the owner's record (I10)."""
        # No owner announces under another claim than its record's, which is read once it is fenced.
        self._announced = PendingAnswer(self._read_last_claim, "reading the last claim")
        preparing, self._preparing = self._preparing, None
        if preparing is not None:
            with contextlib.suppress(ConnectionLost, BrokerError):  # `fence` will report it
                preparing.answer()
        self._writer.fence()

    @property
    def may_put_owner(self) -> bool:
        """Whether `fence_owner` was called, and no write has failed since."""
        return self._writer.is_ready

    def put_owner(self, owner: Owner) -> None:
        """Write the owner, and for how long its rounds may send (I10); durable."""
        self._writer.write(OWNER_KEY, owner.to_json())

    def read_owner(self) -> Owner | None:
        """Return the owner as of now."""
        return self._owner_in(self._state.read_all(OWNER_WITHIN_S))

    def watch_owner(self, *, anew: bool) -> Owner | None:
        """Return the owner as of now if `anew`, else as of the changes since. For one thread."""
        if anew:
            self._watch.close()
            self._watched = self._owner_in(self._watch.read_all(OWNER_WITHIN_S))
            return self._watched
        for change in self._watch.poll(CHANGES_WITHIN_S):
            rows = {} if change.value is None else {change.key: change.value}
            if change.key == OWNER_KEY:
                self._watched = self._owner_in(rows)
            elif change.key == FORMAT_KEY:
                self._check_format(rows)
        return self._watched

    def _owner_in(self, rows: Mapping[str, Mapping[str, Any]]) -> Owner | None:
        """Return the owner, by rows that this version can read."""
        self._check_format(rows)
        with read_as_row(self._state.topic, OWNER_KEY):
            value = rows.get(OWNER_KEY)
            return None if value is None else Owner.from_json(value)

    def _check_format(self, rows: Mapping[str, Mapping[str, Any]]) -> None:
        with read_as_row(self._state.topic, FORMAT_KEY):
            check_format(self._state.topic, rows)

    def end_watch(self) -> None:
        """Close the connection of `watch_owner`, once the link is claimed."""
        self._watch.close()

    def last_claim(self) -> int:
        """Return the highest claim announced to lanes; 0 before any."""
        announced, self._announced = self._announced, None
        return self._read_last_claim() if announced is None else announced.answer()

    def _read_last_claim(self) -> int:
        claim = self._control.read_all().get(CONTROL_KEY, {}).get("claim")
        return claim if isinstance(claim, int) else 0
