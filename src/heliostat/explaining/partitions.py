"""Why a partition, or a topic that is mirrored, is as it is; pure."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from heliostat.explaining.codes import CodeKnown, known_code
from heliostat.explaining.lateness import (
    held_texts,
    limit_texts,
    line_texts,
    missing_text,
    not_running,
    pace_texts,
)
from heliostat.explaining.values import ChoiceShown, Evidence, Explanation, Kind, Step
from heliostat.gaps.choices import CAUSE_OF_CODE, OF_RECORDS, Facts, GapChoice, effect_of, why_not
from heliostat.names import PartitionId, TopicName, TopicPartition
from heliostat.ops.events import shortened
from heliostat.records.copier.lane import PartitionState
from heliostat.status.progress_watch import reported
from heliostat.status.sums import SILENT, STOPPED
from heliostat.status.values import PartitionStatus

NAMED_MAX = 5
"""Most partitions of a topic that are named one by one."""
_STATES = frozenset(state.value for state in PartitionState)


def explain_partition(evidence: Evidence, row: PartitionStatus, base: Explanation) -> Explanation:
    """Explain one partition of a mirrored topic.

    Parameters
    ----------
    base
        What all explanations of this question share.
    """
    if _is_stopped(row):
        return _stopped(evidence, row, base)
    name = _name(row)
    away = not_running(evidence)
    if away is not None or row.state in {SILENT, STOPPED}:
        return _not_told(evidence, row, base)
    missing = missing_text(row.lag_records, row.lag_s, is_bound=row.is_bound)
    held = tuple(held_texts(evidence.status, row.source, row.partition))
    if row.state == PartitionState.PAUSED.value:
        return _paused(evidence, row, base, missing)
    if row.state in {PartitionState.RETRYING.value, PartitionState.STARTING.value} or row.code:
        return _waiting(evidence, row, base, (missing, *held))
    if row.state == PartitionState.ALIGNING.value:
        text = (
            f"{name} begins: the empty mirror is brought to the offset at which the source begins"
        )
        return _with(base, Kind.WAITING, text, (missing,), steps=(_watch(evidence),))
    return _copied(evidence, row, base, (missing, *held))


def _paused(
    evidence: Evidence, row: PartitionStatus, base: Explanation, missing: str
) -> Explanation:
    """Explain a partition that an operator lets rest, or its topic."""
    places = (_name(row), row.source)
    wishes = {wish["place"]: wish for wish in evidence.status.paused}
    wish = next((wishes[place] for place in places if place in wishes), None)
    words = ["--topic", row.source if wish is None else wish["place"]]
    command = shlex.join(["heliostat", "resume", evidence.link.name, *words])
    who = "an operator wishes so" if wish is None else f"{wish['by']} wishes so"
    why = f", {wish['why']}" if wish is not None and wish["why"] else ""
    text = f"{_name(row)} is paused: {who}{why}"
    answer = _with(base, Kind.PAUSED, text, (missing,), steps=(Step("Let it go on.", command),))
    return replace(answer, since_ms=row.since_ms if row.since_ms > 0 else None)


def _copied(
    evidence: Evidence, row: PartitionStatus, base: Explanation, reasons: tuple[str, ...]
) -> Explanation:
    """Explain a partition that is copied: whether it lags, and why."""
    missing, *held = reasons
    position_text = (
        f"copied up to source offset {row.position:,}" if row.position >= 0 else "being copied"
    )
    text = f"{_name(row)} is {position_text}; {missing}"
    more = (*held, *pace_texts(evidence, row.lag_records, row.records_per_s))
    steps = (_end_transaction(evidence),) if held else (_watch(evidence),)
    stuck = [
        standstill
        for standstill in reported(evidence.status.driver)
        if standstill.source == _place(row)
    ]
    if stuck:
        return _with(
            base, Kind.LATE, text, (stuck[0].text(), *more), steps=_steps_of_stuck(row, evidence)
        )
    if row.lag_records is None or row.is_bound:
        return _with(base, Kind.UNKNOWN, text, more, steps=steps)
    if row.lag_records:
        limits = limit_texts(evidence.status, row.source)
        return _with(base, Kind.LATE, text, (*more, *limits, *line_texts(evidence)), steps=steps)
    what = "that can be copied" if held else "that the source had when it was last seen"
    text = f"{_name(row)} has everything {what}, {position_text}"
    kind = Kind.LATE if held else Kind.COPIED
    return _with(base, kind, text, more, steps=steps if held else ())


def explain_topic(
    evidence: Evidence, topic: TopicName, rows: Sequence[PartitionStatus], base: Explanation
) -> Explanation:
    """Explain a mirrored topic by its partitions: the worst decides."""
    if len(rows) == 1:
        [row] = rows
        return explain_partition(evidence, row, base)
    answers = [(row, explain_partition(evidence, row, base)) for row in rows]
    order = (Kind.STOPPED, Kind.PAUSED, Kind.UNKNOWN, Kind.WAITING, Kind.LATE, Kind.COPIED)
    worst = min((answer.kind for _, answer in answers), key=order.index)
    chosen = [(row, answer) for row, answer in answers if answer.kind is worst]
    if worst is Kind.COPIED:
        text = f"{topic} has everything that the source had, in all {len(rows)} partitions"
        return _with(
            base,
            worst,
            text,
            tuple(pace_texts(evidence, 0, sum(row.records_per_s for row in rows))),
        )
    if len(chosen) == len(rows) and (away := not_running(evidence)) is not None:
        kind, text, steps = away
        return _with(base, kind, text, (f"{topic} is not copied meanwhile",), steps=steps)
    named = shortened([answer.answer for _, answer in chosen], NAMED_MAX, "partitions")
    first = chosen[0][1]
    codes = Counter(row.code for row, _ in chosen)
    code = codes.most_common(1)[0][0]
    number = f"{len(chosen)} of {len(rows)} partitions"
    words = {
        Kind.STOPPED: "are stopped",
        Kind.PAUSED: "are paused",
        Kind.UNKNOWN: "can't be told of",
        Kind.WAITING: "wait and go on by themselves",
        Kind.LATE: "are late",
    }[worst]
    description = known_code(code) if code else None
    is_stopped = worst is Kind.STOPPED
    return replace(
        base,
        kind=worst,
        answer=f"{topic}: {number} {words}",
        reasons=(*named, *(line_texts(evidence) if worst is Kind.LATE else ())),
        code=code,
        since_ms=min((row.since_ms for row, _ in chosen if row.since_ms > 0), default=None),
        hint="" if description is None else description.hint,
        next_steps=_steps_of_stop(evidence, topic, None, description)
        if is_stopped
        else first.next_steps,
    )


def choices_of(
    evidence: Evidence, code: str, topic: str, partition: int | None, facts: Facts | None
) -> tuple[ChoiceShown, ...]:
    """Return what can be decided, with its effect as far as both clusters show it."""
    choices: list[ChoiceShown] = []
    never = GapChoice.RESTART if CAUSE_OF_CODE[code] in OF_RECORDS else GapChoice.DEAD_LETTER
    for choice in GapChoice:
        if facts is None and choice is never:
            continue
        command = f"{resolve_command(evidence, topic, partition)} --choose {choice.value}"
        effect = None if facts is None else effect_of(facts, choice)
        does = (
            ""
            if effect is None
            else f"records lost: {effect.records}; consumers see: {effect.consumers}"
        )
        obstacle = "" if facts is None else why_not(facts, choice)
        choices.append(ChoiceShown(choice.value, does, obstacle, "" if obstacle else command))
    return tuple(choices)


def resolve_command(evidence: Evidence, topic: str, partition: int | None) -> str:
    """Return the command that shows what each choice does, and decides with `--choose`."""
    where = shlex.quote(topic) + ("" if partition is None else f" {partition}")
    return f"heliostat resolve {where} --link {shlex.quote(evidence.link.name)}"


def _stopped(evidence: Evidence, row: PartitionStatus, base: Explanation) -> Explanation:
    description = known_code(row.code)
    name = _name(row)
    facts = next((stop for stop in evidence.stops if stop.source == _place(row)), None)
    why = row.reason or description.meaning
    reasons = [f"its next source offset is {row.position:,}"] if row.position >= 0 else []
    if facts is not None:
        reasons.append(
            f"the source has offsets {facts.source_start:,} to {facts.source_end - 1:,}, "
            f"the target {facts.target_start:,} to {facts.target_end - 1:,}"
        )
    return replace(
        base,
        kind=Kind.STOPPED,
        answer=f"{name} is stopped ({row.state}): {why}",
        reasons=tuple(reasons),
        code=row.code,
        since_ms=row.since_ms if row.since_ms > 0 else None,
        hint=description.hint,
        next_steps=_steps_of_stop(evidence, row.source, row.partition, description),
        choices=choices_of(evidence, row.code, row.source, row.partition, facts)
        if description.is_decided
        else (),
    )


def _steps_of_stop(
    evidence: Evidence, topic: str, partition: int | None, description: CodeKnown | None
) -> tuple[Step, ...]:
    if description is None or description.is_decided:
        command = resolve_command(evidence, topic, partition)
        return (Step("See what each choice would do in numbers; it changes nothing.", command),)
    return (Step(f"What to do: {description.hint}."), _watch(evidence))


def _waiting(
    evidence: Evidence, row: PartitionStatus, base: Explanation, reasons: tuple[str, ...]
) -> Explanation:
    name = _name(row)
    description = known_code(row.code) if row.code else None
    why = row.reason or ("" if description is None else description.meaning)
    if not why:
        why = (
            "a lane finds out where its mirror ends"
            if row.state == "starting"
            else "a passing fault"
        )
    words = f"waits ({row.state})" if row.state in _STATES else "waits"
    hint = "" if description is None else description.hint
    hint_steps = (Step(f"It goes on by itself. If it lasts: {hint}."),) if hint else ()
    return replace(
        base,
        kind=Kind.WAITING,
        answer=f"{name} {words}: {why}",
        reasons=reasons,
        code=row.code,
        since_ms=row.since_ms if row.since_ms > 0 else None,
        hint=hint,
        next_steps=(*hint_steps, _watch(evidence)),
    )


def _steps_of_stuck(row: PartitionStatus, evidence: Evidence) -> tuple[Step, ...]:
    name, lane = (
        shlex.quote(evidence.link.name),
        f"lane {row.lane}" if row.lane >= 0 else "its lane",
    )
    return (
        Step(
            f"Nothing tells why: look at the log of {lane}'s worker, and whether this partition's "
            "leaders at both sides answer others (kafka-console-consumer.sh, kafka-topics.sh)."
        ),
        Step("Let its lanes begin anew; nothing is copied twice.", f"heliostat restart {name}"),
        _watch(evidence),
    )


def _not_told(evidence: Evidence, row: PartitionStatus, base: Explanation) -> Explanation:
    """Explain a partition of a link that does not run, or whose lane is silent."""
    position_text = (
        f"{_name(row)} was last told to be copied up to source offset {row.position:,}"
        if row.position >= 0
        else f"how far {_name(row)} is copied was never told"
    )
    if row.lag_records is not None and row.state == STOPPED:
        position_text += f"; {missing_text(row.lag_records, row.lag_s, is_bound=row.is_bound)}"
    away = not_running(evidence)
    if away is not None:
        kind, text, steps = away
        return _with(base, kind, text, (position_text,), steps=steps)
    silent = f"lane {row.lane}" if row.lane >= 0 else "its lane"
    troubles = tuple(trouble for trouble in evidence.status.troubles if trouble.startswith(silent))
    text = (
        f"{silent}, which copies {_name(row)}, does not report: whether it is copied is not known"
    )
    steps = (
        Step("See Spark's page: its worker or executor may be gone, frozen or waiting."),
        _watch(evidence),
    )
    return _with(base, Kind.UNKNOWN, text, (*troubles, position_text), steps=steps)


def _with(
    base: Explanation,
    kind: Kind,
    answer: str,
    reasons: tuple[str, ...] = (),
    *,
    steps: tuple[Step, ...] = (),
) -> Explanation:
    return replace(base, kind=kind, answer=answer, reasons=reasons, next_steps=steps)


def _watch(evidence: Evidence) -> Step:
    return Step("See how it goes on.", f"heliostat status --link {shlex.quote(evidence.link.name)}")


def _end_transaction(evidence: Evidence) -> Step:
    return Step(
        f"End that transaction at {evidence.link.source}, or let it time out: until then no reader "
        "sees the records after it (kafka-transactions.sh find-hanging and abort)."
    )


def _is_stopped(row: PartitionStatus) -> bool:
    return row.state in _STATES and PartitionState(row.state).is_stopped


def _place(row: PartitionStatus) -> TopicPartition:
    return TopicPartition(TopicName(row.source), PartitionId(row.partition))


def _name(row: PartitionStatus) -> str:
    return f"{row.source}-{row.partition}"
