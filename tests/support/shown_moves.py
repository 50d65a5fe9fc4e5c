"""Invented switch, failover, tail and way back of the shown link; of others clusters don't answer.

The source has nothing to fear: it is all in this process's memory.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from support.shown_answers import ANSWERED, TOPICS, for_one

from heliostat.changes import Change, Fate, Outcome
from heliostat.errors import Refused
from heliostat.handover import opening
from heliostat.handover.desk import Problem, Weight
from heliostat.handover.drill import DrillLook, DrillWish, MissingRight, Part, new_note
from heliostat.handover.drill_report import (
    Check,
    DrillReport,
    DrillState,
    DrillStep,
    ScaledStep,
    Size,
)
from heliostat.handover.drill_steps import step_names
from heliostat.handover.failover import FailoverReport, MirrorPartition
from heliostat.handover.fence_forecast import FenceForecast
from heliostat.handover.held_back import HeldBack
from heliostat.handover.moved_groups import MovedGroup
from heliostat.handover.opening import Opened
from heliostat.handover.promotion import FencedBy, PartitionPromotion, SourceSeen
from heliostat.handover.run import Run, RunState, StepState
from heliostat.handover.steps import new_steps
from heliostat.handover.still_open import StillOpen
from heliostat.names import (
    GroupId,
    LinkName,
    Offset,
    PartitionId,
    ProducerId,
    TopicName,
    TopicPartition,
)
from heliostat.operate import exposure, tail, tail_moves
from heliostat.operate.apply import ApplyAnswer, HowToApply
from heliostat.operate.crossing import Crossed, Crossing, Stage, Tell
from heliostat.operate.drill import DrillPlan
from heliostat.operate.reversing.values import ReturnState, Reversal, Tail, TopicReturn
from heliostat.operate.source_writers import SourceWriter, SourceWriters, Writing
from heliostat.operate.switch import SwitchPlan, SwitchWish
from heliostat.operate.turning import Turned
from heliostat.serve import (
    access_routes,
    apply_routes,
    drill_routes,
    failover_routes,
    reverse_routes,
    rolling_routes,
    switch_routes,
)

STEP_S = 0.15
LINK = LinkName(ANSWERED)
WAY_BACK = Part.WAY_BACK
AT = tuple(TopicPartition(topic, PartitionId(0)) for topic in TOPICS)


def install(groups: Callable[..., Any]) -> None:
    """Put them in place of the verbs, for one link; `groups` are the invented ones."""
    made = _Moves()
    for module, name, invented in (
        (exposure, "all_groups", lambda: groups()[0]),
        (switch_routes, "plan_switch", made.plan),
        (switch_routes, "switch", made.switch),
        (switch_routes, "last_run", lambda: made.run),
        (drill_routes, "plan_drill", made.plan_drill),
        (drill_routes, "drill", made.drill),
        (failover_routes, "failover", made.failover),
        (failover_routes, "last_failover", lambda: made.report),
        (reverse_routes, "reverse", made.reverse),
        (rolling_routes, "turn_in_place", made.turn),
        (rolling_routes, "wait_until_crossed", made.wait),
        (rolling_routes, "writers_of", made.writers),
        (tail, "show_tail", made.tail),
        (tail, "drop_tail", made.drop),
        (tail_moves, "append_tail", made.append),
        (tail_moves, "export_tail", made.append),
        (apply_routes, "apply_link", made.apply),
        (access_routes, "link_access", made.access),
    ):
        setattr(module, name, for_one(getattr(module, name), invented))


class _Moves:
    def __init__(self) -> None:
        self.run: Run | None = None
        self.report: FailoverReport | None = None
        self.left = 41
        self.is_confirmed = False

    def plan(self, wish: SwitchWish) -> SwitchPlan:
        names = tuple(TopicName(each) for each in wish.topics) or tuple(TOPICS)
        problems: tuple[Problem, ...] = (
            Problem(
                "one_way",
                "a pipeline has rewritten X.y: heliostat reverse can't turn it back",
                "leave it out, or accept it",
                Weight.ASKS,
            ),
            Problem("groups_read", "2 groups read at summit: archiver, telegraf", "", Weight.TOLD),
        )
        if wish.finishes:
            problems = problems[1:]  # nothing is left to be accepted
        return SwitchPlan(LINK, names, wish.options, problems, wish.kind)

    def switch(self, wish: SwitchWish, told: Callable[[Run], None], _compare: object) -> Run:
        now_ms = round(time.time() * 1000)
        run = self.run
        if run is None or run.state.is_over:
            if wish.goes_back:
                raise Refused("no switch is under way", hint="there is nothing to go back from")
            steps = tuple(new_steps(wish.kind))
            options = wish.options.to_json()
            run = Run("5f3c", wish.kind, tuple(TOPICS), options, wish.by, now_ms, steps)
        for step in run.steps:
            begun = replace(step, state=StepState.RUNNING, began_ms=round(time.time() * 1000))
            self.run = run = run.with_step(begun)
            told(run)
            time.sleep(STEP_S)
            text = f"{step.name} of {len(run.topics)} topics"
            ended = round(time.time() * 1000)
            run = run.with_step(replace(begun, state=StepState.DONE, ended_ms=ended, text=text))
        self.run = replace(run, state=RunState.DONE, ended_ms=round(time.time() * 1000))
        return self.run

    def turn(self, topics: list[str], _by: str, *, dry_run: bool) -> Turned:
        time.sleep(2 * STEP_S)
        names = [topic for topic in TOPICS if not topics or topic in topics]
        refused = {name: f"{name} is compacted at summit" for name in names if name == TOPICS[2]}
        new = tuple(name for name in names if name not in refused)
        cuts = {
            TopicPartition(name, PartitionId(number)): Offset(9_000 + number)
            for name in new
            for number in range(4)
        }
        return Turned(LINK, cuts, new, refused, dry_run)

    def wait(self, topics: list[str], _within_s: float, tell: Tell) -> Crossed:
        asked_ms = round(time.time() * 1000)
        rows = [Crossing(TopicPartition(TopicName(topics[0]), PartitionId(0)), Offset(9_400))]
        for left in (400, 0):
            text = f"{left} offsets are to cross"
            stage = Stage.WAITS if left else Stage.PASSED
            now_ms = round(time.time() * 1000)
            rows = [replace(rows[0], stage=stage, passed_ms=now_ms, text=text)]
            tell(rows)
            time.sleep(4 * STEP_S)
        return Crossed(LINK, asked_ms, tuple(rows), 4 * STEP_S)

    def writers(self, _topics: list[str]) -> SourceWriters:
        now_ms = round(time.time() * 1000)
        open_in = {AT[0]: Writing(now_ms - 4_000, Offset(9_100)), AT[1]: Writing(now_ms - 9_000)}
        quiet = {AT[1]: Writing(now_ms - 3_600_000)}
        writers = (
            SourceWriter(ProducerId(4_711), "camera-writer", open_in),
            SourceWriter(ProducerId(4_712), "", quiet),
        )
        return SourceWriters(writers, ("broker 2 does not list transactional ids: no Describe",))

    def plan_drill(self, wish: DrillWish) -> DrillPlan:
        missing = MissingRight("summit", "Write on transactional ids heliostat.drill-*", WAY_BACK)
        look = DrillLook(Size(60, 40, 2), (missing,), ("schemas are not rehearsed",))
        return DrillPlan(LINK, wish, look, new_note(LINK, wish, "0a1b2c3d", 1), ("0a0a0a0a",))

    def drill(self, wish: DrillWish, told: Callable[[DrillStep], None]) -> DrillReport:
        look = self.plan_drill(wish).look
        steps: list[DrillStep] = []
        for name in step_names(wish):
            time.sleep(2 * STEP_S)
            is_back = name in {"reverse", "return"}
            why = look.why_not(WAY_BACK) if is_back else f"{name} of {wish.partitions} partitions"
            checks = (Check("records that are missing", 0, 0), Check("records twice", 0, 0))
            state = DrillState.LEFT_OUT if is_back else DrillState.DONE
            steps.append(DrillStep(name, state, 0.3, why, checks if name == "switch" else ()))
            told(steps[-1])
        times = (ScaledStep("fence", 0.2, 0.2, 0.5, "grows with topics"),)
        return DrillReport(
            "0a1b2c3d",
            LINK,
            wish.by,
            1_700_000_000_000,
            wish.to_json(),
            look.size,
            look.missing,
            look.notes,
            tuple(steps),
            times,
            cleaned=("0a0a0a0a",),
        )

    def failover(self, topics: list[str], **words: Any) -> FailoverReport:
        is_tried = words["dry_run"]
        if not is_tried:
            words["tell"]("the link's owner has not answered yet; its leases are waited out")
            time.sleep(2 * STEP_S)
        end, seen = Offset(90_000), SourceSeen(Offset(90_400), round(time.time() * 1000) - 8_000)
        partitions = tuple(
            MirrorPartition(each, each, PartitionPromotion(end, end, None, at))
            for each, at in zip(AT, (seen, None, seen), strict=True)
            if not topics or each.topic in topics
        )
        report = FailoverReport(
            LINK,
            words["by"],
            words["why"],
            round(time.time() * 1000),
            is_tried,
            FenceForecast(FencedBy.OWNER, 5.0),
            None if is_tried else FencedBy.LEASE,
            None,
            partitions,
            StillOpen((HeldBack(TOPICS[0], 0, 90_100, 9, 7, "writer", 3.0),)),
            (MovedGroup(GroupId("archiver"), round(time.time() * 1000), 40, 400, 3),),
            True,
            {} if is_tried else {"fence": 0.6},
            opening=(Opened(opening.Part.RIGHTS, "2 rules granted"),),
            is_target_open=not is_tried,
        )
        if not is_tried:
            self.report = report
        return report

    def reverse(
        self, back: Any, topics: list[str], *, tail: Tail, dry_run: bool, by: str
    ) -> Reversal:
        del topics, by
        time.sleep(STEP_S)
        has_tail = tail is Tail.REFUSE
        rows = (
            TopicReturn(TOPICS[0], TOPICS[0], ReturnState.READY, "both logs are equal"),
            TopicReturn(
                TOPICS[1],
                TOPICS[1],
                ReturnState.REFUSED if has_tail else ReturnState.READY,
                "up to 41 records at the old source never crossed",
            ),
        )
        return Reversal(LINK, LinkName(back.name), rows, is_written=not dry_run)

    def tail(self, *_: Any, **__: Any) -> Any:
        value = base64.b64encode(b'{"elevation": 71.2}').decode()
        sample: dict[str, Any] = {
            "offset": 90_001,
            "timestamp_ms": 1,
            "key": None,
            "value": value,
            "headers": [],
        }
        row = {
            "topic": TOPICS[0],
            "partition": 0,
            "target": TOPICS[0],
            "records": self.left,
            "bytes": 41_000,
            "first": 90_001,
            "last": 90_041,
            "first_ms": 1_700_000_000_000,
            "last_ms": 1_700_000_009_000,
            "deleted": 0,
            "lost_at_source": 0,
            "appended": 41 - self.left,
            "refused": 0,
            "dropped": 0,
            "is_open": False,
            "sample": [sample],
        }
        answer = {"link": LINK, "partitions": 3, "records": self.left, "rows": [row]}
        more: dict[str, Any] = {"why_not": {}, "open_transactions": []}
        return SimpleNamespace(to_json=lambda: {**answer, **more})

    def append(self, *_: Any, dry_run: bool, **__: Any) -> Any:
        some = self.left if dry_run else min(self.left, 20)
        if not dry_run:
            self.left -= some
        answer = {"link": LINK, "appended": some, "exported": 0, "refused": {}, "rows": []}
        answer |= {"destination": None, "is_tried": dry_run, "is_done": dry_run or not self.left}
        return SimpleNamespace(to_json=lambda: answer)

    def drop(self, *_: Any, dry_run: bool, **__: Any) -> Any:
        answer = {"link": LINK, "dropped": self.left, "is_tried": dry_run, "rows": []}
        if not dry_run:
            self.left = 0
        return SimpleNamespace(to_json=lambda: answer)

    def apply(self, how: HowToApply) -> ApplyAnswer:
        create = Change("create_topic", TOPICS[0], f"create {TOPICS[0]}, 4 partitions", "missing")
        unset = Change("unset_config", "X.y: a", "unset a of X.y", "the source unset it", True)
        fate = Fate.PLANNED if how.dry_run else Fate.DONE
        held = fate if how.allow_delete else Fate.HELD_BACK
        rows = (Outcome(create, fate), Outcome(unset, held))
        return ApplyAnswer(LINK, by_owner=True, outcomes=rows, is_tried=how.dry_run)

    def access(self, *, allow_delete_by: str = "", shown: str = "") -> list[Any]:
        assert shown in {"", "c0ffee"}
        self.is_confirmed = self.is_confirmed or bool(allow_delete_by)
        rule = "Allow User:app Read on group g"
        answer = {"link": LINK, "is_on": True, "make": [f"{rule}9"], "set": {}, "keep_ready": []}
        answer |= {"kept_ready": 12, "remove": [f"{rule}{n}" for n in range(5)], "is_over": False}
        answer |= {"asks": "5 of 45 would go at once", "confirmation": "c0ffee", "notes": []}
        answer |= {"is_confirmed": self.is_confirmed, "somebody_elses": [f"{rule}8"]}
        answer |= {"refused": {"Allow User:x Read on prefix y": "no pattern selects its names"}}
        return [SimpleNamespace(to_json=lambda: answer)]
