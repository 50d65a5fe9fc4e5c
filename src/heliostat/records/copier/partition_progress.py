"""How far the copy of one partition has come."""

from __future__ import annotations

from heliostat.records.copier.lane import PartitionState
from heliostat.records.copier.partition_standing import Standing


class Progress:
    """Offsets at both ends of one partition, and what was copied in this round."""

    def __init__(self) -> None:
        self.position = -1
        """Source offset: all below it is at the target, acknowledged or read from its end, or is
        a hole."""
        self.copied_to = -1
        """Source offset below which the link knows that all is at the target (-1: not known)."""
        self.copied_end = -1
        """Where the target's log ended then (-1: not known)."""
        self._found_end = -1
        """Where the target's log ended when it was looked at last (-1: not in this round)."""
        self.lost: tuple[int, int] | None = None
        """Source offsets that the target has lost in this round, see `RoundReport.lost`."""
        self.high_watermark = -1
        self.last_stable_offset = -1
        """Behind it transactions are open: nothing of it is copied before they end."""
        self.missing_ms = -1
        """Timestamp of the source's record at the position, where it was looked up."""
        self.records = self.bytes = 0
        self.last_timestamp_ms = -1
        self.caught_up_ms = -1
        """Wall clock when the target last held all that the source had."""
        self._reported: tuple[int, int, int, int, PartitionState, str] | None = None

    @property
    def target_end(self) -> int:
        """Where the target's log ends, as far as this round knows (-1: it has not looked yet)."""
        return -1 if self._found_end < 0 else max(self._found_end, self.copied_end)

    def found_end(self, end: int, *, copies: bool) -> None:
        """The target's log ends there; note what it has lost of what it had acknowledged (I2).

        A report a second would not show it: what was lost is copied again within milliseconds.
        """
        self._found_end = end
        if copies and end < self.copied_end:
            before = self.lost or (self.position, self.copied_to)
            self.lost = min(before[0], self.position), max(before[1], self.copied_to)
            self.copied_to, self.copied_end = self.position, end

    def has_news(self, standing: Standing) -> bool:
        """Whether it stands elsewhere than at the last call."""
        at = (self.position, self.high_watermark, self.last_stable_offset, self.missing_ms)
        now = (*at, standing.state, standing.code)
        before, self._reported = self._reported, now
        return now != before

    def note_level(self, now_ms: int) -> None:
        """Remember when all that can be copied was."""
        if self.position >= self.last_stable_offset:
            self.caught_up_ms = now_ms
