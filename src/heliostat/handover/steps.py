"""The steps of a planned switch: each may be done again, by another process too; pure.

preflight, lag, comparison   nothing is changed
rest                         only where a rolling switch is finished: the link back copies no more
fence ... last_look          copying goes on; all is taken back by lifting the fence
promotion, opening, watch    there is no way back; `heliostat reverse` is another switch
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from heliostat.errors import ConnectionLost
from heliostat.handover.desk import (
    Answer,
    Compared,
    GroupsSeen,
    Stillness,
    SwitchDesk,
    SwitchOptions,
    Weight,
)
from heliostat.handover.run import Run, RunKind, RunState, Step, StepState
from heliostat.names import Offset, TopicName, TopicPartition

LOOK_S = 1.0
NAMES_MAX = 20
"""Most lines of a kind in a step's text and facts."""
TRIES, TRY_AGAIN_S = 5, 2.0
"""A step whose cluster does not answer is done again so often."""
OFFSETS_S = 60.0
"""How long last offsets may take once nobody reads at the source."""
Tell = Callable[[str], None]


class StepFailed(Exception):
    """A step can't be completed: the run ends, and takes back what it has changed."""

    def __init__(self, text: str, facts: Mapping[str, Any] | None = None) -> None:
        super().__init__(text)
        self.text = text
        self.facts = facts or {}


@dataclass(slots=True)
class Moment:
    """What a step has, and what steps of this process leave to later ones.

    Parameters
    ----------
    tell
        Called with what is waited for.
    ends
        Where the source's logs ended when they stood still.
    by_rules
        Whether rules keep producers out.
    starts
        Up to where contents were compared before the fence.
    compared_each_s
        Offsets that were compared in a second then.
    """

    desk: SwitchDesk
    options: SwitchOptions
    run: Run
    tell: Tell
    ends: dict[TopicPartition, Offset] = field(default_factory=dict)
    by_rules: bool = False
    starts: dict[TopicPartition, Offset] = field(default_factory=dict)
    compared_each_s: float = 0.0


def preflight(now: Moment) -> Answer:
    """Name all problems at once; those that are waited for later are no reason to stop."""
    problems = now.desk.problems()
    accepted = set(now.options.accepted)
    stopping = [
        problem
        for problem in problems
        if problem.weight is Weight.STOPS
        or (problem.weight is Weight.ASKS and problem.code not in accepted)
    ]
    facts = {"problems": [problem.to_json() for problem in problems]}
    if stopping:
        lines = [f"{problem.text} ({problem.hint})" for problem in stopping]
        raise StepFailed(first_of(lines), facts)
    texts = [problem.text for problem in problems]
    return Answer(first_of(texts) if texts else "nothing is in the way", facts)


def lag(now: Moment) -> Answer:
    """Wait until little is missing, to the logs' ends."""
    until_s = now.desk.monotonic_s() + now.options.lag_s
    while True:  # ends: little is missing, or the time is over
        copied = now.desk.copied()
        text = f"{copied.records:,} records are missing"
        if not copied.unknown and copied.records <= now.options.lag_threshold:
            return Answer(text, {"records": copied.records})
        if now.desk.monotonic_s() >= until_s:
            raise StepFailed(
                f"{text} after {now.options.lag_s:g} s, more than {now.options.lag_threshold:,}: "
                + first_of(copied.lines())
            )
        now.tell(f"{text}; waits for {now.options.lag_threshold:,}")
        now.desk.sleep(LOOK_S)


def comparison(now: Moment) -> Answer:
    """Compare what is there while producers go on, as far as asked: later only the rest is left."""
    desk = now.desk
    if now.options.verify is Compared.NONE:
        return Answer("not asked for")
    copied, began_s = desk.copied(), desk.monotonic_s()
    starts = {
        partition: Offset(end - copied.missing.get(partition, 0))
        for partition, end in copied.ends.items()
        if partition not in copied.unknown  # nothing of it counts as compared
    }
    count = desk.offsets({})
    now.tell(f"compares {count:,} offsets of {len(starts):,} partitions")
    answer = desk.compare(now.options, {}, is_complete=False)
    if answer.differences:
        raise StepFailed(f"{answer.text}: {first_of(answer.differences)}", answer.facts)
    took_s = max(desk.monotonic_s() - began_s, 0.001)
    now.starts, now.compared_each_s = starts, count / took_s
    rest = desk.offsets(starts)
    left = f"{rest:,} offsets have come since, some {rest / max(now.compared_each_s, 1.0):.0f} s"
    return Answer(f"{answer.text}; {left}", {"offsets": count, "left": rest, **answer.facts})


def rest(now: Moment) -> Answer:
    """Let the link back rest: what it writes at the source would look like a producer's."""
    now.tell("waits for the link back to rest")
    return now.desk.rest()


def fence(now: Moment) -> Answer:
    """Keep the source's producers out."""
    answer = now.desk.put_up_fence()
    now.by_rules = answer.by_rules
    if not answer.is_whole:
        raise StepFailed(answer.text, answer.facts)
    return Answer(answer.text, {"by_rules": answer.by_rules, **answer.facts})


def still(now: Moment) -> Answer:
    """Wait until no transaction is open and the ends stand still; name who goes on writing."""
    desk, options = now.desk, now.options
    # What rules keep out is out at once; an operator needs a while to stop producers.
    patience_s = 0.0 if now.by_rules else options.producers_s
    until_s = desk.monotonic_s() + patience_s
    while True:  # ends: they stood still, or the time is over
        _await_transactions(now)
        text = "" if now.by_rules else "stop the source's producers of these topics now; "
        now.tell(f"{text}the source's ends must stand still for {options.still_s:g} s")
        stillness = desk.watch(options.still_s, until_first=True)
        if stillness.is_still and not desk.open_transactions().awaited(options.accepted):
            now.ends = dict(stillness.ends)
            return Answer(
                f"{len(stillness.ends):,} logs stood still for {options.still_s:g} s",
                {"partitions": len(stillness.ends)},
            )
        if not stillness.is_still and desk.monotonic_s() >= until_s:
            raise StepFailed(
                f"the source is still written: {first_of(stillness.lines())}", _moved(stillness)
            )


def _await_transactions(now: Moment) -> None:
    """Wait until none is open: the commit of one passes every fence, and ends move then."""
    until_s = now.desk.monotonic_s() + now.options.transactions_s
    while lines := now.desk.open_transactions().awaited(now.options.accepted):
        if now.desk.monotonic_s() >= until_s:
            raise StepFailed(
                f"transactions are open after {now.options.transactions_s:g} s: {first_of(lines)}",
                {"open": lines[:NAMES_MAX]},
            )
        now.tell(f"waits for open transactions: {first_of(lines)}")
        now.desk.sleep(LOOK_S)


def _moved(stillness: Stillness) -> dict[str, Any]:
    return {"moved": stillness.lines()[:NAMES_MAX]}


def records(now: Moment) -> Answer:
    """Wait until the last records are at the target, by the owner's reports and by its logs."""
    until_s = now.desk.monotonic_s() + now.options.records_s
    while True:  # ends: all is there, or the time is over
        copied = now.desk.copied()
        if not copied.unknown and not copied.missing:
            return Answer(f"all of {len(copied.ends):,} logs is at the target")
        if now.desk.monotonic_s() >= until_s:
            raise StepFailed(
                f"not all is at the target after {now.options.records_s:g} s: "
                + first_of(copied.lines()),
                {"behind": copied.lines()[:NAMES_MAX]},
            )
        now.tell(f"waits for the last records: {first_of(copied.lines())}")
        now.desk.sleep(LOOK_S)


def groups(now: Moment) -> Answer:
    """Wait until nobody reads at the source, and last offsets are published."""
    began_s = now.desk.monotonic_s()
    nobody_s: float | None = None
    while True:  # ends: all is published, or the time is over
        snapshot = now.desk.groups()
        now_s = now.desk.monotonic_s()
        if reading := snapshot.awaited(now.options.accepted):
            nobody_s = None
            if now_s - began_s >= now.options.groups_s:
                raise StepFailed(
                    f"groups still read at the source after {now.options.groups_s:g} s: "
                    + first_of(reading),
                    _groups_facts(snapshot),
                )
            now.tell(f"waits for groups that read at the source: {first_of(reading)}")
        elif not snapshot.is_synced:
            text = "nobody reads at the source; offsets are not moved: groups.sync is off"
            if snapshot.apart:
                text = f"offsets are not moved: groups.sync is off; {_apart(snapshot)}"
            return Answer(text, {"is_synced": False, **_groups_facts(snapshot)})
        elif not snapshot.behind:
            how = "exactly" if now.run.kind is not RunKind.FINISH else "at what they have not read"
            text = f"{snapshot.level:,} groups continue {how}"
            if again := snapshot.reread_lines():
                text += f" and read records again: {first_of(again)}"
            text += f"; {_apart(snapshot)}" if snapshot.apart else ""
            return Answer(text, _groups_facts(snapshot))
        else:
            nobody_s = now_s if nobody_s is None else nobody_s
            if now_s - nobody_s >= OFFSETS_S:
                raise StepFailed(
                    f"last offsets are not published after {OFFSETS_S:g} s: "
                    + first_of(snapshot.behind),
                    _groups_facts(snapshot),
                )
            now.tell(f"waits for last offsets: {first_of(snapshot.behind)}")
        now.desk.sleep(LOOK_S)


def _apart(snapshot: GroupsSeen) -> str:
    return f"as accepted, others read on at the source: {first_of(snapshot.apart)}"


def _groups_facts(snapshot: GroupsSeen) -> dict[str, Any]:
    return {
        "level": snapshot.level,
        "reading": list(snapshot.reading)[:NAMES_MAX],
        "apart": list(snapshot.apart)[:NAMES_MAX],
        "behind": list(snapshot.behind)[:NAMES_MAX],
        "rereads": dict(snapshot.rereads),
    }


def contents(now: Moment) -> Answer:
    """Compare what was not compared before the fence, as far as asked."""
    if now.options.verify is Compared.NONE:
        return Answer("not asked for")
    count = now.desk.offsets(now.starts)
    time = f", some {count / max(now.compared_each_s, 1.0):.0f} s" if now.starts else ""
    now.tell(f"compares the other {count:,} offsets{time}")
    answer = now.desk.compare(now.options, now.starts, is_complete=True)
    if answer.differences:
        raise StepFailed(f"{answer.text}: {first_of(answer.differences)}", answer.facts)
    return answer


def last_look(now: Moment) -> Answer:
    """Look once more: the steps between may have taken minutes."""
    until_s = now.desk.monotonic_s() + now.options.records_s
    while True:  # ends: it is known, or the time is over
        copied = now.desk.copied()
        grown = [
            f"{partition}: {copied.ends[partition] - end} records came"
            for partition, end in sorted(now.ends.items())
            if copied.ends.get(partition, end) != end
        ]
        lines = [*grown, *copied.lines()]
        facts = {"moved": lines[:NAMES_MAX]}
        if grown or copied.missing:
            raise StepFailed(f"the source is written again: {first_of(lines)}", facts)
        if not copied.unknown:
            break
        if now.desk.monotonic_s() >= until_s:
            raise StepFailed(f"whether all is there is not known: {first_of(lines)}", facts)
        now.tell(f"waits for reports: {first_of(lines)}")  # a lane that has begun has none yet
        now.desk.sleep(LOOK_S)
    if lines := now.desk.open_transactions().awaited(now.options.accepted):
        raise StepFailed(f"transactions are open: {first_of(lines)}", {"open": lines[:NAMES_MAX]})
    return Answer("nothing has changed since", {"ends": by_topic(copied.ends)})


def promotion(now: Moment) -> Answer:
    """Give the mirrors away: from here on there is no way back."""
    now.tell("the link gives the mirrors away")
    return now.desk.promote()


def opening(now: Moment) -> Answer:
    """Open rights and registry of the target for producers."""
    return now.desk.open_target()


def watch(now: Moment) -> Answer:
    """Watch the source on, and name what is written there."""
    ends = now.run.step("last_look").facts.get("ends", {})
    now.tell(f"watches the source for {now.options.watch_s:g} s")
    lines = list(now.desk.written_after(ends, now.options.watch_s))
    if lines:
        text = f"the source was written after the switch: {first_of(lines)}; `heliostat tail` "
        return Answer(f"{text}finds these records", {"written": lines[:NAMES_MAX]})
    return Answer("nothing was written at the source")


STEPS: Mapping[str, Callable[[Moment], Answer]] = {
    step.__name__: step
    for step in (
        *(preflight, lag, comparison, rest, fence, still, records, groups),
        *(contents, last_look, promotion, opening, watch),
    )
}
ONLY_IN: Mapping[str, RunKind] = {"rest": RunKind.FINISH}
"""Steps that runs of another kind do not have."""
CHANGES_NOTHING = frozenset({"preflight", "lag", "comparison"})
NO_WAY_BACK = frozenset({"promotion", "opening", "watch"})


def first_of(lines: Iterable[str]) -> str:
    """Return the first lines as one text, and how many more there are."""
    every = list(lines)
    more = f" and {len(every) - NAMES_MAX} more" if len(every) > NAMES_MAX else ""
    return "; ".join(every[:NAMES_MAX]) + more


def by_topic(ends: Mapping[TopicPartition, Offset]) -> dict[TopicName, list[int]]:
    """Return ends by topic, in the order of partitions, in which a row keeps them."""
    rows: dict[TopicName, list[int]] = {}
    for partition in sorted(ends):
        rows.setdefault(partition.topic, []).append(int(ends[partition]))
    return rows


class Conductor:
    """Carries out a run, or takes it back. For one thread.

    Every method raises what the desk does; the run stays as it was saved, and may be carried on.

    Parameters
    ----------
    desk
        What asks and does.
    run
        The run, new or begun by another process.
    is_resumed
        Whether another process has begun it: what that one changed may stand, by no row.
    save
        Makes it durable; raises if another process has taken the run over.
    on_change
        Called with the run after each change.
    """

    def __init__(
        self,
        desk: SwitchDesk,
        run: Run,
        options: SwitchOptions,
        *,
        save: Callable[[Run], None],
        on_change: Callable[[Run], None] = lambda _: None,
        is_resumed: bool = False,
    ) -> None:
        self._desk = desk
        self.run = run
        self._options = options
        self._save = save
        self._on_change = on_change
        self._is_resumed = is_resumed

    @property
    def may_go_back(self) -> bool:
        """Whether nothing was given away yet."""
        return self.run.may_go_back

    def go(self) -> Run:
        """Carry out what is left; return the run as it ended."""
        if self.run.state is RunState.GOING_BACK:
            return self.go_back()
        if self.may_go_back:  # what was seen by another process may have changed since
            self._put(replace(self.run, steps=tuple(new_steps(self.run.kind))))
        moment = Moment(self._desk, self._options, self.run, self._progress)
        begun = {step.name for step in self.run.steps}  # an older version's has fewer
        for name in STEPS:
            if name not in begun or self.run.step(name).state is StepState.DONE:
                continue
            moment.run = self.run
            try:
                self._do(name, moment)
            except StepFailed as failure:
                return self._end_failed(name, failure)
        return self._end(RunState.DONE)

    def go_back(self) -> Run:
        """Take back what was changed; copying has never stopped.

        Raises
        ------
        ValueError
            Mirrors were given away: there is no way back.
        """
        if not self.may_go_back:
            raise ValueError(f"run {self.run.id} is past its promotion")
        self._put(replace(self.run, state=RunState.GOING_BACK))
        text = self._desk.lift_fence()
        steps = tuple(
            replace(step, state=StepState.WENT_BACK, text=text if step.name == "fence" else "")
            if step.state in (StepState.DONE, StepState.RUNNING)
            and step.name not in CHANGES_NOTHING
            else step
            for step in self.run.steps
        )
        self._put(replace(self.run, steps=steps))
        return self._end(RunState.WENT_BACK)

    def _do(self, name: str, moment: Moment) -> None:
        self._put_step(name, state=StepState.RUNNING, began_ms=self._desk.wall_ms())
        answer = self._tried(name, moment)
        self._put_step(
            name,
            state=StepState.DONE,
            ended_ms=self._desk.wall_ms(),
            text=answer.text,
            facts=answer.facts,
        )

    def _tried(self, name: str, moment: Moment) -> Answer:
        for left in reversed(range(TRIES)):
            try:
                return STEPS[name](moment)
            except ConnectionLost as error:
                if not left:
                    raise
                self._progress(f"tries again: {error.text}")
                self._desk.sleep(TRY_AGAIN_S)
        raise AssertionError("no try is left")

    def _progress(self, text: str) -> None:
        """Tell what is waited for; a new text is made durable as well."""
        step = next(step for step in self.run.steps if step.state is StepState.RUNNING)
        if step.text != text:
            self._put_step(step.name, text=text)

    def _end_failed(self, name: str, failure: StepFailed) -> Run:
        self._put_step(
            name,
            state=StepState.FAILED,
            ended_ms=self._desk.wall_ms(),
            text=failure.text,
            facts=failure.facts,
        )
        has_changed = self._is_resumed or name not in CHANGES_NOTHING
        return self.go_back() if has_changed else self._end(RunState.FAILED)

    def _end(self, state: RunState) -> Run:
        self._put(replace(self.run, state=state, ended_ms=self._desk.wall_ms()))
        return self.run

    def _put_step(self, name: str, **changes: Any) -> None:
        self._put(self.run.with_step(replace(self.run.step(name), **changes)))

    def _put(self, run: Run) -> None:
        self._save(run)
        self.run = run
        self._on_change(run)


def new_steps(kind: RunKind = RunKind.SWITCH) -> Sequence[Step]:
    """Return the steps of a new run."""
    return tuple(Step(name) for name in STEPS if ONLY_IN.get(name, kind) is kind)
