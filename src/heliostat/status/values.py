"""The status of a link at one moment, as a value: its figures, and whether it is in sync."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from heliostat.handover.fence_forecast import FENCE_NOT_KNOWN, FenceForecast
from heliostat.handover.held_back import HeldBack
from heliostat.handover.unfenced import Unfenced
from heliostat.ops.events import shortened
from heliostat.records.copier.lane import LineUse, PartitionState
from heliostat.status.loss import LOSS_NOT_KNOWN, Loss, Rereads, loss_line

MAX_LAG_S = 10.0
"""Default limit: a link that lags by no more is in sync."""
WHY_MAX = 20
"""Most topics named one by one among the reasons."""


@dataclass(slots=True)
class TopicStatus:
    """One topic; rates per second, lag in records and seconds (None: not known)."""

    source: str
    """Name at the source."""
    target: str
    """Name of its mirror."""
    partitions: int = 0
    """Partitions that are copied, or should be."""
    records_per_s: float = 0.0
    """Records appended a second, over some seconds."""
    bytes_per_s: float = 0.0
    """Bytes appended a second."""
    lag_records: int | None = 0
    """Records missing at the target; at least so many if `unknown` is not 0 (None: not known)."""
    lag_s: float | None = None
    """Age of the oldest of them, by its timestamp; at least so old if `unknown` is not 0 (None: not
    known)."""
    states: dict[str, int] = field(default_factory=dict)
    """Partitions by state."""
    open_records: int = 0
    """Records after open transactions at the source; not part of the lag."""
    mapped: int = 0
    """Partitions whose offsets differ from the source's."""
    unknown: int = 0
    """Partitions that may lack more: their lag was not reported, or not lately."""
    would_be_lost: Loss = LOSS_NOT_KNOWN
    """What would be lost if the source were gone now: `records`, `age_s`, and how true that is."""


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """One partition of a link."""

    source: str
    """Name of its topic at the source."""
    partition: int
    """Its number there."""
    state: str
    """Its state."""
    records_per_s: float
    """Records appended a second, over half a minute."""
    lag_records: int | None
    """Records missing at the target (None: not known); at least so many if `is_bound`."""
    lag_s: float | None
    """Age of the oldest of them (None: not known)."""
    is_bound: bool
    """Whether it may lack more than that."""
    position: int
    """Next source offset to copy (-1: not known)."""
    source_end: int
    """High watermark of the source when it was last seen (-1: not known)."""
    target_end: int
    """Log end offset of the target (-1: not known)."""
    is_mapped: bool
    """Whether its offsets differ from the source's."""
    lane: int
    """Its lane (-1: none)."""
    code: str
    """Why it is in that state, as a code; empty: it is copied."""
    reason: str
    """The same in words."""
    since_ms: int
    """Since when, in ms since the epoch."""
    would_be_lost: Loss = LOSS_NOT_KNOWN
    """What would be lost of it if the source were gone now."""


@dataclass(slots=True)
class PartitionProblem:
    """A partition that is not copied as it should be."""

    source: str
    """Name of its topic at the source."""
    partition: int
    """Its number there."""
    state: str
    """Its state."""
    code: str
    """Why it is in that state, as a code."""
    reason: str
    """The same in words."""
    since_ms: int
    """Since when, in ms since the epoch."""
    position: int
    """Next source offset to copy (-1: not known)."""
    is_stopped: bool
    """Whether nothing more is copied until a person decides; false: it is retried."""


def state_words(state: str) -> str:
    """Return a state as what a partition is."""
    return "at a gap" if state == PartitionState.GAP.value else state


@dataclass(slots=True)
class LinkStatus:
    """A link at one moment."""

    link: str
    """Name of the link."""
    at_ms: int
    """The moment, in ms since the epoch."""
    state: str
    """`running`, `paused` or `stopped` as an operator wishes (`wish`), `silent` (the driver has not
    reported for 5 s), `halted` (it must not go on, see `restarts`), `no_owner` (its driver has
    ended), `unknown` (it was never started, or not
    within an hour), or `unreachable` if the target does not answer."""
    topics: list[TopicStatus]
    """Its topics, the busiest first."""
    partitions: int
    """Partitions that are copied, or should be."""
    records_per_s: float
    """Records appended a second, over some seconds."""
    bytes_per_s: float
    """Bytes appended a second."""
    lag_records: int | None
    """Records missing at the target; at least so many if `unknown` is not 0 (None: not known)."""
    lag_s: float | None
    """Age of the oldest of them, by its timestamp; at least so old if `unknown` is not 0 (None: not
    known)."""
    latency_p50_ms: float | None
    """Median of the latency of the last seconds, without backlog; None: nothing was copied."""
    latency_p99_ms: float | None
    """The same, of all but the slowest percent."""
    states: dict[str, int]
    """Partitions by state."""
    problems: list[PartitionProblem]
    """Partitions that are not copied as they should be."""
    refused: dict[str, str]
    """Topics that are not mirrored because of a problem, and why."""
    notes: list[str]
    """Remarks of the last reconciliation, such as mirrors whose source topic is gone."""
    lanes: list[dict[str, Any]]
    """Its lanes, as they last reported."""
    driver: dict[str, Any]
    """The driver's last report, as it is: its loops, groups, gaps, schemas and rounds."""
    source_line: LineUse | None = None
    """The line between the lanes and the source; null: not known. See below."""
    target_line: LineUse | None = None
    """The line between the lanes and the target."""
    owner: dict[str, Any] = field(default_factory=dict)
    """Where its driver runs, or ran last: `host`, `pid`, `since_ms`."""
    heartbeat_age_s: float | None = None
    """Age of the newest heartbeat at the target; None if heartbeats are off, or none arrived."""
    open_records: int = 0
    """Records after open transactions at the source; not part of the lag."""
    mapped: int = 0
    """Partitions whose offsets differ from the source's."""
    unknown: int = 0
    """Partitions that may lack more: their lag was not reported, or not lately."""
    held_back: list[HeldBack] = field(default_factory=list)
    """Open transactions at the source, the oldest first."""
    wish: dict[str, Any] | None = None
    """What is wished of a link that is not to run: `state`, `by`, `at_ms`, `why`; None: nothing."""
    paused: list[dict[str, Any]] = field(default_factory=list)
    """Topics and partitions that are paused on their own: `place` and the same; 20 at most."""
    paused_count: int = 0
    """How many there are."""
    wish_waits: str = ""
    """Why what is wished now is not carried out, where no driver runs the link; empty: it is, or
    nothing else is wished than its last driver carried out."""
    restarts: dict[str, Any] | None = None
    """None: it never halted. Else `phase` (`runs`, `waits`, `refused`, `gave_up`), `count`
    since the last quiet time and its `limit`, `total`, `code` and `reason` of the last halt,
    `halted_ms`, `next_ms`, `host`, and `text`: how it goes on while it is halted."""
    limits: list[dict[str, Any]] = field(default_factory=list)
    """Limits: `topic` (null: of the link), `bytes_per_second`, `by`, `at_ms`, `why`, and as the
    driver says `used_bytes_per_second`, and `throttled_s`: for how long it held lanes back; 20 at
    most."""
    preferences: list[dict[str, Any]] = field(default_factory=list)
    """Priorities: `topics` (a name, or a pattern), `priority`, `by`, `at_ms`, `why`; the newest is
    last, and counts before others; 20 at most."""
    drift: dict[str, Any] | None = None
    """None: not known. Else where mirrors differ from what is wanted and stay so: `count`,
    `mirrors`, `kinds` (numbers by `config`, `partitions`, `replication_factor`,
    `min_insync_replicas`), and `items`, 20 at most: `source`, `target`, `kind`, `setting`, `wants`,
    `has`, `why`, `hint`, `is_mended` (it failed lately, and is tried again)."""
    would_be_lost: Loss = LOSS_NOT_KNOWN
    """What would be lost if the source were gone now: `records`, `age_s` of the oldest, and
    `truth`: `exact`, `bound` (at least so much) or `not_known`. It counts to the logs' ends, open
    transactions too."""
    without_mirror: int = 0
    """Selected topics that have no mirror, as they are refused or wait: lost as a whole."""
    rereads: Rereads | None = None
    """What consumer groups would read again at the target; null: the driver does not tell."""
    unfenced: Unfenced | None = None
    """Topics that were failed over: `count`, `topics` (20 at most), `by`, `at_ms`; null: none were.
    Until their source is fenced it may still be written, and that is not copied."""
    failover_fence: FenceForecast = FENCE_NOT_KNOWN
    """What would keep the link out of its mirrors if it was failed over now: `by` `owner` (its
    driver gives them up), `deny_rule` (brokers deny it) or `lease` (its leases are waited out), and
    `within_s`."""
    troubles: list[str] = field(default_factory=list)
    """What affects the whole link: a cluster that does not answer, a loop that fails, a lane that
    does not report, no topic to copy, a record in its state that is not its own."""

    def why_not_in_sync(self, max_lag_s: float = MAX_LAG_S) -> list[str]:
        """Return reasons why the target may lack more than the last `max_lag_s`; empty: in sync."""
        if self.state != "running":
            return [self.state_in_words(), *_missing(self)]
        if not self.driver.get("turns", 1):
            return ["the driver has not looked at the topics yet"]
        why = list(self.troubles)
        if self.problems:
            why.append(self._problems_in_words())
        if self.refused:
            why.append(f"{len(self.refused)} topics are refused")
        if self.unknown:
            why.append(f"the lag of {self.unknown} partitions is unknown")
        if refused := self.driver.get("groups", {}).get("refused"):
            why.append(f"the target refuses {refused} offsets of groups (heliostat groups)")
        rights = self.driver.get("access", {})
        if rights.get("asks"):
            why.append(f"rights wait for a person: {rights['asks']} (heliostat access)")
        if rights.get("error"):
            why.append(f"rights do not follow: {rights['error']}")
        if rights.get("failed_count"):
            why.append(f"the target refuses {rights['failed_count']} rights (heliostat access)")
        why += _lagging(self.topics, max_lag_s)
        why += [item.text() for item in self.held_back if item.age_s > max_lag_s][:WHY_MAX]
        return why

    @property
    def stopped(self) -> int:
        """Number of partitions that wait for a person's decision; other problems pass."""
        return sum(problem.is_stopped for problem in self.problems)

    def loss_in_words(self) -> str:
        """Return what would be lost if the source were gone now, and read again."""
        return loss_line(self.would_be_lost, self.without_mirror, self.rereads)

    def state_in_words(self) -> str:
        """Return that the link runs, or does not, and who wishes so."""
        if self.state == "no_owner":
            return "the link has no owner: no driver runs it"
        if self.state == "halted":
            assert self.restarts is not None
            return f"the link has halted: {self.restarts['reason']}; {self.restarts['text']}"
        if self.wish and self.state == self.wish["state"]:
            why = f", {self.wish['why']}" if self.wish["why"] else ""
            return f"the link is {self.state}, as {self.wish['by']} wishes{why}"
        return f"the link is {self.state}"

    def _problems_in_words(self) -> str:
        text = f"{len(self.problems)} partitions are not copied as they should be"
        passing = len(self.problems) - self.stopped
        parts = [f"{self.stopped} wait for a decision"] if self.stopped else []
        parts += [f"{passing} are retried"] if passing else []
        return f"{text}: {', '.join(parts)}"

    def is_in_sync(self, max_lag_s: float = MAX_LAG_S) -> bool:
        """Return whether the target has all but the last `max_lag_s`, by the driver's reports."""
        return not self.why_not_in_sync(max_lag_s)

    def to_json(self, max_lag_s: float = MAX_LAG_S) -> dict[str, Any]:
        """Return the status as plain JSON."""
        why = self.why_not_in_sync(max_lag_s)
        return {**asdict(self), "in_sync": not why, "why_not_in_sync": why}


def _missing(status: LinkStatus) -> list[str]:
    """Return how much is missing of a link that does not run, as far as known."""
    if not status.lag_records:
        return []
    least = "at least " if status.unknown else ""
    age = "" if status.lag_s is None else f", the oldest {status.lag_s:.0f} s old"
    return [f"{least}{status.lag_records} records are missing{age}"]


def _lagging(topics: list[TopicStatus], max_lag_s: float) -> list[str]:
    behind = [
        topic
        for topic in topics
        if topic.lag_records and (topic.lag_s is None or topic.lag_s > max_lag_s)
    ]
    words = [
        f"{topic.source} lags by {topic.lag_records:,} records"
        + ("" if topic.lag_s is None else f", {topic.lag_s:,.1f} s")
        for topic in behind
    ]
    return shortened(words, WHY_MAX, "topics lag")
