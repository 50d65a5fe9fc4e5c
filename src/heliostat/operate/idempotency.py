"""Keys under which the same is asked: it is done once, and something else is refused."""

from __future__ import annotations

from heliostat.errors import Refused


class KeyUsed(Refused):
    """Something else was asked under that idempotency key."""

    hint = "take a new key for each request"
