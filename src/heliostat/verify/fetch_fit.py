"""How much of a partition is asked for at once, so that a long line does not stand idle.

A fetch asks for what one answer may hold, and the next one follows only when its records were
compared: each costs a round trip. So from a broker far away more and more is asked for, until the
round trip is a small part of what an answer takes. Nearby nothing changes.
"""

from __future__ import annotations

from math import inf

PARTITION_BYTES = 4 * 1024 * 1024
"""A partition's share at first, when it is read alone."""
PARTITION_BYTES_MAX = 32 * 1024 * 1024
"""As much as one answer may hold; a task has one of each side in memory."""
FAR_S = 0.02
"""Round trip from which on a broker is far (docs/adr/0034)."""
ROUND_TRIP_SHARE = 0.25
"""Part of an answer's time that the round trip may take."""


class FetchFit:
    """Follows the answers of one cluster."""

    def __init__(self) -> None:
        self.partition_bytes = PARTITION_BYTES
        """What to ask of a partition that is read alone."""
        self._round_trip_s = inf

    @property
    def is_far(self) -> bool:
        """Whether each answer so far has taken as long as one over a long line."""
        return FAR_S <= self._round_trip_s < inf

    def answered(self, took_s: float) -> None:
        """Take how long any answer took: the fastest is little more than the round trip."""
        self._round_trip_s = min(self._round_trip_s, took_s)

    def fetched(self, received_bytes: int, took_s: float) -> None:
        """Take the answer to a fetch of one partition alone."""
        is_full = 2 * received_bytes > self.partition_bytes  # it ends with a whole batch
        if is_full and self.is_far and self._round_trip_s > ROUND_TRIP_SHARE * took_s:
            self.partition_bytes = min(PARTITION_BYTES_MAX, 2 * self.partition_bytes)
