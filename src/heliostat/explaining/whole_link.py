"""How a link goes, and where its groups would resume; pure."""

from __future__ import annotations

import shlex
from collections import Counter
from dataclasses import replace

from heliostat.explaining.codes import code_in, known_code
from heliostat.explaining.lateness import line_texts, missing_text, not_running, pace_texts
from heliostat.explaining.values import Evidence, Explanation, GroupKnown, Kind, Step
from heliostat.groups.plan import NO_NAME
from heliostat.groups.values import CommitDecision, Reason
from heliostat.names import GroupId
from heliostat.ops.events import shortened

NAMED_MAX = 5
_SETTLED = frozenset({Reason.SYNCED, Reason.PUBLISH, Reason.RESET})
_PASSING = frozenset({Reason.NOT_LANDED, Reason.NOT_TOLD})


def explain_link(evidence: Evidence, base: Explanation) -> Explanation:
    """Explain the link as a whole."""
    status, name = evidence.status, evidence.link.name
    missing = missing_text(status.lag_records, status.lag_s, is_bound=status.unknown > 0)
    codes = [code for code in map(code_in, status.troubles) if code]
    description = known_code(codes[0]) if codes else None
    base = replace(
        base,
        code="" if description is None else description.code,
        hint="" if description is None else description.hint,
    )
    if (away := not_running(evidence)) is not None:
        kind, text, to_do = away
        return replace(
            base, kind=kind, answer=text, reasons=(*status.troubles, missing), next_steps=to_do
        )
    why = status.why_not_in_sync()
    stopped = Counter(problem.code for problem in status.problems if problem.is_stopped)
    if stopped or status.refused:
        listed = [Step("See each, and decide.", f"heliostat gaps --link {shlex.quote(name)}")]
        listed += [
            Step(
                f"{problem.source}-{problem.partition} [{problem.code}]: ask why.",
                _ask(name, f"{problem.source}-{problem.partition}"),
            )
            for problem in status.problems
            if problem.is_stopped
        ][:NAMED_MAX]
        listed += [
            Step(f"{topic}: ask why it is refused.", _ask(name, topic))
            for topic in list(status.refused)[:NAMED_MAX]
        ]
        kind, next_steps = Kind.STOPPED, tuple(listed)
        parts = [_counted(stopped.total(), "partition", "stopped")] if stopped else []
        parts += [_counted(len(status.refused), "topic", "refused")] if status.refused else []
        text = f"the link {name} runs; {' and '.join(parts)}; of the rest {missing}"
    elif not why:
        kind, next_steps = Kind.COPIED, ()
        text = f"the link {name} is in sync: {missing}"
    else:
        kind = Kind.UNKNOWN if status.lag_records is None else Kind.LATE
        text = f"the link {name} runs and is not level: {missing}"
        watch = Step("See how it goes on.", f"heliostat status --link {shlex.quote(name)}")
        next_steps = (
            (Step(f"What to do: {description.hint}."), watch)
            if description is not None
            else (watch,)
        )
    reasons = (
        *shortened(why, NAMED_MAX, "reasons"),
        *pace_texts(evidence, status.lag_records, status.records_per_s),
        *(line_texts(evidence) if why else ()),
    )
    return replace(base, kind=kind, answer=text, reasons=reasons, next_steps=next_steps)


def explain_group(evidence: Evidence, group: GroupId, base: Explanation) -> Explanation:
    """Explain where a consumer group would continue at the target, and why."""
    group_state, link = evidence.group, evidence.link
    see = Step(
        "See it partition by partition.",
        f"heliostat groups --link {shlex.quote(link.name)} --explain {shlex.quote(group)}",
    )
    if group_state is None:
        text = f"what is so of the group {group} is not known now"
        return replace(base, kind=Kind.UNKNOWN, answer=text, next_steps=(see,))
    if not group_state.is_there:
        text = f"the source {link.source} has no group {group}, or we may not see it"
        steps = (
            Step("Check its name there, and that the link may describe groups (heliostat acls)."),
        )
        return replace(base, kind=Kind.NOT_MIRRORED, answer=text, next_steps=steps)
    if not group_state.is_selected:
        text = f"the group {group} is not synced: {group_state.why}"
        steps = (
            Step(
                "See which groups groups.include, exclude and states choose.",
                f"heliostat groups --link {shlex.quote(link.name)}",
            ),
        )
        return replace(base, kind=Kind.NOT_MIRRORED, answer=text, next_steps=steps)
    if not group_state.is_synced:
        text = f"the group {group} is selected, but groups.sync is off: no offsets are published"
        turn_on = Step("Turn groups.sync on; heliostat groups shows what would be done.")
        return replace(base, kind=Kind.NOT_MIRRORED, answer=text, next_steps=(turn_on, see))
    return _of_decided(group_state, _names(group_state, group), see, base)


def _names(group_state: GroupKnown, asked: GroupId) -> str:
    """Return a group's name, and the one at the target if that is another."""
    decided = group_state.decided
    if decided is None or decided.target_group in {NO_NAME, decided.group}:
        return asked
    return f"{decided.group} ({decided.target_group} at the target)"


def _of_decided(group_state: GroupKnown, group: str, see: Step, base: Explanation) -> Explanation:
    decided = group_state.decided
    if decided is None or decided.problem:
        why = "" if decided is None else f": {decided.problem}"
        return replace(
            base,
            kind=Kind.UNKNOWN,
            answer=f"offsets of the group {group} are not known now{why}",
            next_steps=(see,),
        )
    rows = [row for row in decided.partitions if row.target is not None]
    if not rows:
        text = f"the group {group} has committed no offset of a topic that this link mirrors"
        return replace(base, kind=Kind.NOT_MIRRORED, answer=text, next_steps=(see,))
    late = [row for row in rows if row.reason not in _SETTLED]
    reread = sum(row.reread_records or 0 for row in rows)
    total = f"a consumer that continued at the target now would read {reread:,} records again"
    if not late:
        text = f"the group {group} would resume exactly at the target, in {len(rows)} partitions"
        return replace(base, kind=Kind.COPIED, answer=text, reasons=(total,))
    passing = all(row.reason in _PASSING for row in late)
    text = f"the group {group} would not resume exactly in {len(late)} of {len(rows)} partitions"
    reasons = (*shortened([_row_text(row) for row in late], NAMED_MAX, "partitions"), total)
    wait = Step("Nothing: it is published as soon as it can be.")
    return replace(
        base,
        kind=Kind.WAITING if passing else Kind.STOPPED,
        answer=text,
        reasons=reasons,
        code=late[0].reason.name,
        hint=late[0].why,
        next_steps=(wait, see) if passing else (see,),
    )


def _row_text(row: CommitDecision) -> str:
    def shown(offset: int | None) -> str:
        return "none" if offset is None else f"{offset:,}"

    return (
        f"{row.source}: source {shown(row.source_offset)}, target {shown(row.target_offset)}, "
        f"should be {shown(row.wanted)}: {row.why} [{row.reason.name}]"
    )


def _counted(count: int, noun: str, state: str) -> str:
    return f"{count} {noun} is {state}" if count == 1 else f"{count} {noun}s are {state}"


def _ask(link: str, what: str) -> str:
    return f"heliostat explain {shlex.quote(link)} {shlex.quote(what)}"
