"""A drill's moves: the verbs of the real thing, with producers and groups that move along."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from heliostat.access import ClusterAccess
from heliostat.config import Config, LinkConfig
from heliostat.errors import ConnectionLost, Refused
from heliostat.handover.desk import GROUPS_APART, TRANSACTIONS_UNKNOWN, SwitchOptions
from heliostat.handover.drill import Came, DrillNote, DrillWish, Way
from heliostat.handover.drill_report import Check, Measured
from heliostat.handover.drill_steps import WATCH_S
from heliostat.handover.run import Run, RunState, StepState
from heliostat.names import Alias, GroupId, TopicName
from heliostat.operate.drilling.driver import Driver
from heliostat.operate.drilling.load import Load, commits_at, ends_at, numbers_at
from heliostat.operate.failover import failover
from heliostat.operate.reverse import reverse
from heliostat.operate.reversing.values import Tail
from heliostat.operate.switch import SwitchWish, switch

COPIES_WITHIN_S = 180.0
"""Spark starts, and the link makes its mirrors."""
LOAD_WITHIN_S = 60.0
LOOK_S = 0.5
LOST_S = 1.0
"""How long is written at a source that nothing copies any more, before a failover."""


class _FarEnough(Exception):
    """A switch is left behind here, as by a process that has died."""


class Moves:
    """The drill's links and its load. For one thread.

    Parameters
    ----------
    config, file
        The drill's links, and the file that has the same.
    has_groups
        Whether groups read.
    """

    def __init__(
        self, config: Config, file: Path, note: DrillNote, wish: DrillWish, *, has_groups: bool
    ) -> None:
        self._config = config
        self._file = file
        self._note = note
        self._wish = wish
        self._has_groups = has_groups
        self.load = Load(note, wish.records_a_second)
        if has_groups:
            self.load.use_groups(note.groups)
        self._driver: Driver | None = None

    def start(self, way: Way) -> Came:
        """Start the link, producers and readers where it begins, and wait until it copies."""
        self._start_driver(way)
        self._begin_load(way)
        began_s = time.monotonic()
        self._await_level(way)
        took_s = time.monotonic() - began_s
        return Came(f"copies after {took_s:.1f} s; {self.load.written.count:,} records written")

    def stop(self) -> None:
        """End producers, readers and the driver."""
        self.load.stop()
        if self._driver is not None:
            self._driver.stop()

    def _start_driver(self, way: Way) -> None:
        if self._driver is not None:
            self._driver.stop()
        self._driver = Driver(self._file, self._note.links[way])

    def _begin_load(self, way: Way) -> None:
        where = self._access(self._link(way).source)
        self.load.write_at(where)
        self.load.read_at(where)
        self._rest_under_load()

    def _rest_under_load(self) -> None:
        """Let it run for a while, until every group has read something."""
        time.sleep(self._wish.load_s)
        load = self.load
        await_(
            lambda: all(load.read_counts()) and load.accepted_s is not None,
            LOAD_WITHIN_S,
            "nothing could be written and read",
        )

    def go_back(self) -> Came:
        """Begin a switch of the first topic, leave it behind once fenced, and take it back."""
        note, load = self._note, self.load
        link, topics = self._link(Way.THERE), (next(iter(note.topics)),)
        last: list[Run] = []

        def told(run: Run) -> None:
            last[:] = [run]
            if _is_running(run, "still") and not run.step("fence").facts.get("by_rules"):
                load.stop_writing()
            if run.step("last_look" if not self._has_groups else "groups").began_ms is not None:
                raise _FarEnough

        wish = self._switch_wish(topics)
        try:
            ended = switch(self._config, link, wish, told)
            raise Refused(_why_ended(ended))
        except _FarEnough:
            pass
        back = SwitchWish(topics, by=self._wish.by, goes_back=True, takes_over=True)
        run = switch(self._config, link, back)
        if run.state is not RunState.WENT_BACK:
            raise Refused(_why_ended(run))
        load.stop_writing()
        before = load.written.count
        load.write_at(self._access(link.source))
        await_(
            lambda: load.written.count >= before + note.partitions,
            LOAD_WITHIN_S,
            "the source can't be written after going back",
        )
        self._await_level(Way.THERE)
        measured = Measured(note.topics[topics[0]], len(note.groups), _took(last[0]))
        by_rules = bool(last[0].step("fence").facts.get("by_rules"))
        fence = "by rules" if by_rules else "producers were stopped"
        text = f"fenced ({fence}), left behind, taken back; written and copied again"
        return Came(text, (), measured, {"by_rules": by_rules})

    def switch(self, way: Way) -> Came:
        """Switch, move producers and readers, and count."""
        link, load, note = self._link(way), self.load, self._note
        source, target = self._access(link.source), self._access(link.target)

        def told(run: Run) -> None:
            if _is_running(run, "still") and not run.step("fence").facts.get("by_rules"):
                load.stop_writing()
            if _is_running(run, "groups") and not finishing:
                finishing.append(True)
                load.finish_reading(source)

        finishing: list[bool] = []
        run = switch(self._config, link, self._switch_wish(tuple(note.topics)), told)
        load.stop_writing()
        if run.state is not RunState.DONE:
            raise Refused(_why_ended(run))
        load.wait_read()
        last_s = load.last_accepted_s
        load.write_at(target)
        load.read_at(target)
        self._rest_under_load()
        first_s = load.accepted_s
        load.stop_writing()
        load.finish_reading(target)
        load.wait_read()
        pause_s = None if last_s is None or first_s is None else first_s - last_s
        by_rules = bool(run.step("fence").facts.get("by_rules"))
        checks = (
            *load.record_checks(target, link.target),
            *load.group_checks(),
            Check(f"records that {link.source} took after the fence", 0, _written_after(run)),
        )
        fence = f"rules ({load.refused:,} records refused)" if by_rules else "producers stopped"
        paused = "" if pause_s is None else f"; producers paused {pause_s:.1f} s"
        text = f"{load.written.count:,} records, fenced by {fence}{paused}"
        measured = Measured(note.partitions, len(note.groups), _took(run), pause_s)
        return Came(text, checks, measured, {"by_rules": by_rules, "run": run.to_json()})

    def reverse(self, way: Way) -> Came:
        """Have the link of that way go on where the other gave its mirrors away."""
        link = self._link(way)
        other = self._link(Way.BACK if way is Way.THERE else Way.THERE)
        if self._driver is not None:
            self._driver.stop()
        reversal = reverse(self._config, other, link, tail=Tail.KEEP)
        for refused_topic in reversal.refused:
            raise Refused(f"{refused_topic.topic}: {refused_topic.why}")
        commits = commits_at(self._access(link.target), self._note)
        self._start_driver(way)
        self._begin_load(way)
        if tail := sum(topic.tail for topic in reversal.topics):
            text = f"{len(reversal.ready):,} topics are copied to {link.target} behind a tail"
            return Came(f"{text} of {tail:,} records", self._await_all_at(link))
        self._await_level(way)
        if self._has_groups:
            self._await_published(link, commits)
        return Came(f"{len(reversal.ready):,} topics are copied to {link.target}")

    def _await_published(self, link: LinkConfig, before: Mapping[GroupId, int]) -> None:
        """Wait until the link has published all groups: a real one had days for it."""
        target = self._access(link.target)
        await_(
            lambda: all(
                commit > before.get(group, 0)
                for group, commit in commits_at(target, self._note).items()
            ),
            COPIES_WITHIN_S,
            f"{link.name} does not publish offsets of groups",
        )

    def _await_all_at(self, link: LinkConfig) -> tuple[Check, ...]:
        """Wait until all that was accepted is at the target, where offsets differ."""
        load, target = self.load, self._access(link.target)
        load.stop_writing()
        load.abandon_readers()
        await_(
            lambda: not load.missing_of(numbers_at(target, self._note)),
            COPIES_WITHIN_S,
            f"{link.name} does not copy",
        )
        return load.record_checks(target, link.target)[:2]

    def fail_over(self) -> Came:
        """Cut the link off from its source by ending its driver, write on there, and fail over."""
        link, load, note = self._link(Way.THERE), self.load, self._note
        target = self._access(link.target)
        if self._driver is not None:
            self._driver.kill()
        time.sleep(LOST_S)
        load.stop_writing()
        load.abandon_readers()
        began_s = time.monotonic()
        report = failover(self._config, link, by=self._wish.by, why=f"drill {note.id}")
        took_s = time.monotonic() - began_s
        kept = {place: set(numbers) for place, numbers in numbers_at(target, note).items()}
        lost = load.forget(kept)
        before = load.reads_again()
        load.write_at(target)
        load.read_at(target)
        self._rest_under_load()
        load.stop_writing()
        load.finish_reading(target)
        load.wait_read()
        again = {group: count - before.get(group, 0) for group, count in load.reads_again().items()}
        most = {moved_group.group: moved_group.at_most for moved_group in report.groups}
        skipped = load.group_checks()[1:]
        checks = (
            Check(
                "records that failover knew to be missing, of those that were",
                lost,
                report.missing,
                is_bound=True,
            ),
            *load.record_checks(target, link.target),
            *skipped,
            *(
                Check(f"records that {group} read again", most.get(group, 0), count, is_bound=True)
                for group, count in sorted(again.items())
            ),
        )
        by = "" if report.fenced_by is None else report.fenced_by.value
        text = f"given away in {took_s:.1f} s, fenced by {by}; {lost:,} records were lost"
        facts = {"took_s": dict(report.took_s), "lost": lost, "fenced_by": by}
        return Came(text, checks, None, facts)

    def _link(self, way: Way) -> LinkConfig:
        return self._config.link(self._note.links[way])

    def _access(self, alias: Alias) -> ClusterAccess:
        return self._config.clusters[alias].access()

    def _switch_wish(self, topics: tuple[TopicName, ...]) -> SwitchWish:
        accepted = TRANSACTIONS_UNKNOWN, GROUPS_APART
        options = SwitchOptions(still_s=self._wish.still_s, watch_s=WATCH_S, accepted=accepted)
        return SwitchWish(topics, options, self._wish.by)

    def _await_level(self, way: Way) -> None:
        """Wait until what the source has now is at the target."""
        link = self._link(way)
        source, target = self._access(link.source), self._access(link.target)
        wanted = ends_at(source, self._note)

        def is_level() -> bool:
            if self._driver is not None and self._driver.has_ended:
                raise Refused(f"the drill's link has ended: {self._driver.last_words()}")
            copied = ends_at(target, self._note)
            return all(copied.get(place, 0) >= end for place, end in wanted.items())

        await_(is_level, COPIES_WITHIN_S, f"{link.name} does not copy")


def await_(is_so: Callable[[], bool], within_s: float, otherwise: str) -> None:
    """Wait until something is so.

    Raises
    ------
    ConnectionLost
        It was not in time.
    """
    until_s = time.monotonic() + within_s
    while not is_so():
        if time.monotonic() > until_s:
            raise ConnectionLost(f"{otherwise} after {within_s:g} s")
        time.sleep(LOOK_S)


def _is_running(run: Run, step: str) -> bool:
    return run.step(step).state is StepState.RUNNING


def _took(run: Run) -> dict[str, float]:
    return {step.name: step.took_s for step in run.steps if step.took_s is not None}


def _why_ended(run: Run) -> str:
    failed = [step for step in run.steps if step.state is StepState.FAILED]
    return "; ".join(f"{step.name}: {step.text}" for step in failed) or f"it ended as {run.state}"


def _written_after(run: Run) -> int:
    return len(run.step("watch").facts.get("written", []))
