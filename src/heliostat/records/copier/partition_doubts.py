"""What is doubted about one partition until the source is asked, see `doubts`."""

from __future__ import annotations

from heliostat.names import Offset


class PartitionDoubts:
    """Doubts whether the target still holds what the source has and what its map says."""

    def __init__(self) -> None:
        self.doubted_from: Offset | None = None
        """From this source offset on, the target may hold records that the source has lost."""
        self.is_unnoted = False
        """Whether the link has not noted yet how far it copied."""
        self.repeated_to: Offset | None = None
        """Target offset up to which an append was answered as a duplicate, though the first append
        may be from a round that knew another map."""

    def nothing_noted(self, start: Offset) -> None:
        """Doubt all from `start` on, as no earlier round is known to have copied it."""
        self.doubted_from, self.is_unnoted = start, True

    def settled(self) -> None:
        """End the doubt: it is known whether the source has what was copied."""
        self.doubted_from, self.is_unnoted = None, False
