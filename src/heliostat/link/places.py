"""Places of lanes: where there are more lanes than Spark runs at once, they take turns.

A round lasts, and Spark has the jobs that find no place wait until another one ends: some lanes
would never begin. So a round is given out when there is a place for it, and where a lane waits,
another one's round ends after a while, and waits behind it.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from heliostat.config import Config, LinkConfig
from heliostat.errors import HeliostatError
from heliostat.link.lane_packing import PIPELINE_LANES
from heliostat.link.pipeline_rules import pipelines_of
from heliostat.link.shared_lanes import together
from heliostat.names import LaneId, LinkName
from heliostat.ops.places import places_of, task_cpus_of
from heliostat.ops.spark_session import local_cores
from heliostat.records.copier.lane import PartitionReport, RoundReport

if TYPE_CHECKING:
    from heliostat.link.lane_plans import LaneRound

TURN_S = 20.0
"""How long a round copies while another lane waits: what it takes to begin, several times."""
COPIES_WITHIN_S = 60.0
"""So long after its first report a round has copied something; or its source does not answer."""
LOOK_S = 0.5
COUNTED_S = 2.0
BEGINS_S = 10.0
"""About how long it takes from the end of one round to the first report of the next."""
STARTS_S = 20.0
"""At most so long a link takes, checks aside, until its lanes begin: topics, and a cold Spark."""
WHAT_TO_DO = (
    "put topics of the same two clusters into one link, and those with equal steps into one "
    "pipeline, lower spark.task_cpus (an idle lane takes 40 MB, one whose target is slow 430 MB, "
    "one of a pipeline as rows 300 MB), add memory or cores, or run some links elsewhere (--link)"
)
SHARED_TEXT = (
    "Spark runs {places} lanes at once, and one of each pipeline would make {lanes}: pipelines of "
    "a link that filter first and then change columns by SQL share a lane, and so do those on the "
    "bytes of batches, which leaves {shared}"
)


class _Taker(NamedTuple):
    """A lane; one without a pipeline gives up a place only if pipelines have none."""

    is_plain: bool
    link: LinkName
    lane: LaneId


class Places:
    """Places of a process, shared by its links. Thread-safe.

    Parameters
    ----------
    count
        How many lanes Spark can run at once now; None: as many as there are.
    monotonic_s
        The clock.
    least
        How many lanes links have at least, with one of each pipeline.
    """

    def __init__(
        self,
        count: Callable[[], int] | None = None,
        monotonic_s: Callable[[], float] = lambda: 0.0,
        least: Callable[[], int] = lambda: 0,
    ) -> None:
        self._ask = count
        self._least = least
        self._monotonic_s = monotonic_s
        self._lock = threading.Lock()
        self._taken: dict[_Taker, float] = {}
        """From when on their turn counts; infinite: they begin."""
        self._waiting: list[_Taker] = []
        self._over: set[_Taker] = set()
        """Whose turn was over: they wait behind all others."""
        self._count, self._counted_at_s = math.inf, -math.inf

    def is_short(self) -> bool:
        """Whether there are too few for a lane of each pipeline."""
        return self._least() > self._places()

    def take(self, taker: _Taker) -> bool:
        """Take a place; False: there is none, and the lane waits for its turn."""
        count = self._places()
        with self._lock:
            if taker in self._taken:
                return True
            if taker not in self._waiting:
                # A lane without a pipeline that begins anew for another reason goes on at once.
                goes_on = taker.is_plain and taker not in self._over
                self._waiting.insert(0 if goes_on else len(self._waiting), taker)
                self._over.discard(taker)
            if self._waiting.index(taker) >= count - len(self._taken):
                return False
            self._waiting.remove(taker)
            self._taken[taker] = math.inf
            return True

    def leave(self, taker: _Taker) -> None:
        """Give a place back, or wait for none any more."""
        with self._lock:
            self._taken.pop(taker, None)
            if taker in self._waiting:
                self._waiting.remove(taker)

    def counts(self, taker: _Taker, after_s: float) -> None:
        """Note that the turn of a lane's round counts after a while, if it does not earlier."""
        with self._lock:
            if taker in self._taken:
                at_s = self._monotonic_s() + after_s
                self._taken[taker] = min(self._taken[taker], at_s)

    def is_over(self, taker: _Taker) -> bool:
        """Whether a lane's turn is over: others wait, and it is among those that copy longest."""
        with self._lock:
            if not self._waiting or taker not in self._taken:
                return False
            piped = [each for each in self._taken if not each.is_plain]
            is_full_of_plain = len(self._taken) - len(piped) >= self._count
            some = self._taken if is_full_of_plain else piped
            wanted = len(self._waiting) - max(0, self._count - len(self._taken))
            first = sorted(some, key=lambda each: self._taken[each])[: int(max(0, wanted))]
            if taker not in first or self._monotonic_s() < self._taken[taker] + TURN_S:
                return False
            self._over.add(taker)
            return True

    def waits(self, taker: _Taker) -> str:
        """Return what a lane that does not copy does instead; empty: it waits for no turn."""
        with self._lock:
            if taker in self._waiting:
                return "waits for its turn"
            if taker in self._over:
                return "ends its turn"
            begins = self._taken.get(taker, 0.0) > self._monotonic_s()
            return "begins its turn" if begins and self._waiting else ""

    def text(self) -> str:
        """Return that lanes take turns, as a line; empty: they do not."""
        with self._lock:
            lanes, places = len(self._waiting) + len(self._taken), self._count
            return turns_text(lanes, int(places)) if self._waiting and lanes > places else ""

    def _places(self) -> float:
        """Return how many there are; as many as there are lanes, if Spark can't say.

        Rounds then fail, and tell why.
        """
        now_s = self._monotonic_s()
        if self._ask is not None and now_s >= self._counted_at_s + COUNTED_S:
            self._counted_at_s = now_s
            try:
                self._count = self._ask() or math.inf
            except HeliostatError:
                self._count = math.inf
        return self._count


class Turns:
    """The places of a link's lanes. Thread-safe.

    Parameters
    ----------
    link
        Its name.
    places
        Those of the process.
    """

    def __init__(self, link: LinkName, places: Places) -> None:
        self._link = link
        self._places = places

    def _taker(self, lane: LaneId) -> _Taker:
        return _Taker(lane < PIPELINE_LANES, self._link, lane)

    def wait_s(self, lane: LaneId, due_s: float | None) -> float | None:
        """Return how long a lane waits (None: for a change), whose next round is due in `due_s`."""
        if due_s is None or due_s > 0:
            self.leave(lane)
            return due_s
        return 0.0 if self._places.take(self._taker(lane)) else LOOK_S

    def leave(self, lane: LaneId) -> None:
        """Note that a lane's round has ended, or that it needs none."""
        self._places.leave(self._taker(lane))

    def over(
        self, rounds: Iterable[LaneRound], heard_s: Callable[[str], float | None]
    ) -> list[LaneId]:
        """Return the lanes of these rounds that are to let others begin.

        Parameters
        ----------
        rounds
            Those that run.
        heard_s
            Returns when a round was last heard, by its id; None: never.
        """
        found: list[LaneId] = []
        for item in rounds:
            taker = self._taker(item.spec.lane)
            if heard_s(item.spec.round_id) is not None:
                self._places.counts(taker, COPIES_WITHIN_S)
            if self._places.is_over(taker):
                found.append(item.spec.lane)
        return found

    def reported(self, report: RoundReport) -> None:
        """Note a report: the turn of a round counts once it has copied something, or need not."""
        has_copied = report.moved[1] > 0
        if has_copied or (report.partitions and all(map(_is_done, report.partitions))):
            self._places.counts(self._taker(report.lane), 0.0)

    def report(self, lanes: Iterable[LaneId]) -> dict[str, object]:
        """Return what the driver reports of these lanes' turns."""
        found = {str(lane): self._places.waits(self._taker(lane)) for lane in lanes}
        return {
            "places": self._places.text(),
            "waiting": {lane: what for lane, what in found.items() if what},
        }


def _is_done(item: PartitionReport) -> bool:
    is_level = item.is_known and item.position >= item.high_watermark
    return is_level or item.state.is_stopped


def least_lanes(links: Iterable[LinkConfig], *, are_shared: bool = False) -> int:
    """Return how many lanes links have at least: one, and one of each pipeline.

    Parameters
    ----------
    links
        The links.
    are_shared
        Whether pipelines share lanes where they can.
    """
    links = list(links)
    lanes = sum(1 + len(link.pipelines) for link in links)
    if not are_shared:
        return lanes
    groups = [group for link in links for group in together(pipelines_of(link).values())]
    return lanes - sum(len(group) - 1 for group in groups if group)


def lanes_in_use(links: Iterable[LinkConfig], places: int) -> int:
    """Return how many lanes links have at least, where there are so many places."""
    links = list(links)
    return least_lanes(links, are_shared=least_lanes(links) > places)


def places_note(config: Config, link: LinkConfig) -> tuple[str, ...]:
    """Return what `plan` says of a link whose lanes will wait for places on this machine."""
    cores = local_cores(config.spark.master)
    if cores is None:
        return ()
    places = places_of(cores, task_cpus_of(config.spark.task_cpus, config.spark.master))
    waits = bool(link.pipelines) or len(config.links) >= places  # see `Places.is_over`
    text = few_places_text(config.links, places)
    return (text,) if waits and text else ()


def begins_note(config: Config, count: int, checks_s: float) -> str:
    """Return within what time each pipeline as rows has begun, as `plan` says it.

    Parameters
    ----------
    config
        The configuration.
    count
        How many pipelines as rows the link has.
    checks_s
        What Spark took to check them.
    """
    cores = local_cores(config.spark.master)
    turns = 1
    if cores is not None:
        places = places_of(cores, task_cpus_of(config.spark.task_cpus, config.spark.master))
        turns = math.ceil(lanes_in_use(config.links, places) / max(1, places))
    within_s = STARTS_S + checks_s + BEGINS_S + (turns - 1) * (TURN_S + BEGINS_S)
    return (
        f"Spark checks {count} pipeline{'' if count == 1 else 's'} as rows before the link's first "
        f"record, {checks_s:.1f} s here; all of them copy within about {math.ceil(within_s)} s"
    )


def few_places_text(links: Iterable[LinkConfig], places: int) -> str:
    """Return what too few places for a lane of each pipeline mean; empty: they suffice."""
    links = list(links)
    lanes, shared = least_lanes(links), least_lanes(links, are_shared=True)
    if lanes <= places:
        return ""
    if shared == lanes:
        return turns_text(lanes, places)
    text = SHARED_TEXT.format(places=places, lanes=lanes, shared=shared)
    return text if shared <= places else f"{text}; {turns_text(shared, places)}"


def turns_text(lanes: int, places: int) -> str:
    """Return what more lanes than places mean for their records, and what to do."""
    places = max(1, places)
    pause_s = (math.ceil(lanes / places) - 1) * (TURN_S + BEGINS_S)
    return (
        f"Spark runs {places} lanes at once, and there are {lanes}, one or more of each pipeline: "
        f"each copies for {TURN_S:.0f} s and pauses for about {pause_s:.0f} s; {WHAT_TO_DO}"
    )
