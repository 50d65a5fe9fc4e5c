"""Serves the few partitions of a lane that need more than copying."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from heliostat.clock import Clock
from heliostat.records.copier.append_schedule import AppendSchedule
from heliostat.records.copier.beginnings import Beginnings
from heliostat.records.copier.fetch_plan import FetchPlan
from heliostat.records.copier.fetch_schedule import FetchSchedule
from heliostat.records.copier.idle_checks import IdleChecks
from heliostat.records.copier.lane_copies import (
    ask_high_watermarks,
    delete_throw_away,
    look_after_markers,
)
from heliostat.records.copier.lane_leaders import LaneLeaders
from heliostat.records.copier.network import Network
from heliostat.records.copier.partition_copy import PartitionCopy
from heliostat.records.copier.partition_leave import try_again
from heliostat.records.copier.partition_standing import Phase, Trouble

LOOK_EVERY_S = 0.005
LOOK_S_PER_PARTITION = 20e-6
"""Shortest pause between two looks at partitions in need, and what each adds to it: on every turn
it would cost too much."""
SEEK_S_PER_PARTITION = 100e-6
"""Pause per partition between searches for those in need: a search costs 1.5 us for each."""
TRY_AGAIN_S = 30.0
"""How often stopped partitions are looked at again: somebody may have mended them, at either side,
without a decision that would reach the lane."""
HIGH_WATERMARKS_EVERY_S = 5.0  # of those that copy nothing: their lag must be visible


class Attention:
    """Serves the partitions in need of one lane.

    Parameters
    ----------
    partitions
        Partitions of the lane, by index.
    network, clock, leaders, fetches, appends
        Network, clock, leaders and schedules of the lane.
    report
        Reports if that is due; called between questions, each of which may take seconds.
    looks_first
        Whether busy partitions are served first.
    kept
        Columns that a pipeline of the lane changes in no record, by its name.
    """

    def __init__(
        self,
        partitions: Sequence[PartitionCopy],
        network: Network,
        clock: Clock,
        *,
        leaders: LaneLeaders,
        fetches: FetchSchedule,
        appends: AppendSchedule,
        report: Callable[[], None],
        looks_first: bool,
        kept: Mapping[str, tuple[str, ...]],
    ) -> None:
        self._partitions = partitions
        self._network = network
        self._clock = clock
        self._leaders = leaders
        self._fetches = fetches
        self._appends = appends
        self._looks_first = looks_first
        self._beginnings = Beginnings(partitions, network, leaders, appends, report, kept)
        self._idle = IdleChecks(partitions, network, clock)
        self._look_at_s = self._seek_at_s = self._high_watermarks_at_s = 0.0
        self._try_again_at_s = clock.monotonic_s() + TRY_AGAIN_S
        self._in_need: list[PartitionCopy] = []
        self._to_check: list[int] = []

    def at_once(self) -> None:
        """Search all partitions in the next turn, because something failed."""
        self._look_at_s = 0.0

    def check_end(self, item: PartitionCopy) -> None:
        """Read where the target ends after markers: the partition waits for it."""
        self._to_check.append(item.index)

    def give(self, now_s: float) -> None:
        """Do what is due for partitions in need."""
        if now_s >= self._look_at_s:
            self._seek(now_s)
            pause_s = max(LOOK_EVERY_S, LOOK_S_PER_PARTITION * len(self._in_need))
            self._look_at_s = now_s + pause_s
            self._find_positions(self._in_need, now_s)
        if self._to_check:
            self._look_after_markers(now_s)
        if self._idle.look(now_s, self._leaders.target):
            self.at_once()

    def _seek(self, now_s: float) -> None:
        """Search all partitions for those in need: at times, and at once after a failure."""
        if not self._look_at_s or now_s >= self._seek_at_s:
            self._seek_at_s = now_s + SEEK_S_PER_PARTITION * len(self._partitions)
            if now_s >= self._try_again_at_s:
                self._try_again_at_s = now_s + TRY_AGAIN_S
                now_ms = self._clock.wall_ms()
                for item in self._partitions:
                    try_again(item, now_ms)
            self._in_need = [item for item in self._partitions if _is_in_need(item)]

    def _find_positions(self, in_need: list[PartitionCopy], now_s: float) -> None:
        now_ms = self._clock.wall_ms()
        seekers = [
            item.index
            for item in in_need
            if item.must_find_end
            and now_s >= item.standing.not_before_s
            and item.index in self._leaders.target
        ]
        if self._looks_first:
            self._looks_first, self._look_at_s = False, 0.0
            seekers = busy_first(seekers, self._fetches.plan_of)
        if seekers:
            self._fetches.forget_wants()
            self._beginnings.begin(seekers, now_s, now_ms)
            self._idle.later()
        for item in delete_throw_away(in_need, self._network, now_s, now_ms):
            self._appends.mark(item)
        self._find_high_watermarks(in_need, now_s, now_ms)

    def _look_after_markers(self, now_s: float) -> None:
        asked, self._to_check = self._to_check, []
        now_ms = self._clock.wall_ms()
        for item in look_after_markers(self._partitions, asked, self._network, now_s, now_ms):
            self._appends.mark(item)

    def _find_high_watermarks(
        self, in_need: list[PartitionCopy], now_s: float, now_ms: int
    ) -> None:
        """Ask for the source's log ranges: for a refused offset at once, for others at times."""
        ranged = [item for item in in_need if item.fetches.needs_source_range]
        if now_s >= self._high_watermarks_at_s + HIGH_WATERMARKS_EVERY_S:
            self._high_watermarks_at_s = now_s
            ranged = in_need
        if ask_high_watermarks(self._network, ranged, now_s, now_ms):
            self._leaders.may_be_others()


def _is_in_need(item: PartitionCopy) -> bool:
    if item.phase is Phase.COPY:
        is_troubled = item.standing.trouble is not Trouble.NONE
        return item.fetches.needs_source_range or is_troubled or item.progress.has_no_age
    return item.phase is not Phase.GIVEN_UP


def busy_first(seekers: list[int], plans: Mapping[int, FetchPlan]) -> list[int]:
    """Return whose ends a round reads first: the busy ones, if any; the others follow."""
    return [i for i in seekers if i in plans and plans[i].is_busy(i)] or seekers
