"""A limit in bytes a second, paid for after the fact: pure, its seconds are monotonic.

What an answer holds is known only when it has come. So its bytes are taken even if there are not so
many, and nothing more is asked for until the debt is paid. Over time that is exact; within ten
seconds it is so to one answer and to `BURST_S`.
"""

from __future__ import annotations

BURST_S = 0.25
"""What was left unused for so long may be used at once: more than a round trip over a long line,
so that waiting for answers costs nothing of the limit."""


class TokenBucket:
    """One limit.

    Parameters
    ----------
    bytes_per_s
        The limit.
    now_s
        The bucket begins full, now.
    """

    def __init__(self, bytes_per_s: int, now_s: float) -> None:
        self.bytes_per_s = bytes_per_s
        self.used = 0
        """Bytes that were taken."""
        self._level = bytes_per_s * BURST_S
        self._at_s = now_s
        self.throttled_s = 0.0
        """For how long it was in debt, so that fetches were held back, up to the last change."""

    def become(self, bytes_per_s: int, now_s: float) -> None:
        """Change the limit from now on; a debt is paid at the new pace."""
        self._fill(now_s)
        self.bytes_per_s = bytes_per_s
        self._level = min(self._level, bytes_per_s * BURST_S)

    def take(self, size: int, now_s: float) -> None:
        """Take bytes that were fetched."""
        self._fill(now_s)
        self._level -= size
        self.used += size

    def free_at_s(self, debt_s: float = 0.0) -> float:
        """Return from when on (s) the debt is at most what `debt_s` seconds pay."""
        return self._at_s - self._level / self.bytes_per_s - debt_s

    def _fill(self, now_s: float) -> None:
        passed_s = max(0.0, now_s - self._at_s)
        self.throttled_s += min(passed_s, max(0.0, -self._level / self.bytes_per_s))
        self._level = min(self._level + passed_s * self.bytes_per_s, self.bytes_per_s * BURST_S)
        self._at_s += passed_s
