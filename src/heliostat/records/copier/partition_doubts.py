"""What is doubted of one partition until the source is asked, see `doubts`."""

from __future__ import annotations

from heliostat.names import Offset


class PartitionDoubts:
    """Whether what the target holds is still what the source has, and what its map says."""

    def __init__(self) -> None:
        self.doubted_from: Offset | None = None
        """From this source offset on the target may hold what the source has lost."""
        self.is_unnoted = False
        """The link has no note yet of what it copied of it."""
        self.repeated_to: Offset | None = None
        """Up to there an append was answered as one that the target had already, though it may be
        of a round that knew another map."""

    def nothing_noted(self, start: Offset) -> None:
        """No round before has begun to copy it: all from `start` on is to be compared."""
        self.doubted_from, self.is_unnoted = start, True

    def settled(self) -> None:
        """The source has what was copied, or it is known that it has not."""
        self.doubted_from, self.is_unnoted = None, False
