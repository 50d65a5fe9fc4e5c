"""Why a topic is not mirrored, or not yet; pure."""

from __future__ import annotations

import shlex
from dataclasses import replace

from heliostat.explaining.codes import known_code
from heliostat.explaining.lateness import not_running
from heliostat.explaining.partitions import choices_of, resolve_command
from heliostat.explaining.values import Evidence, Explanation, Kind, Step
from heliostat.names import TopicName
from heliostat.topics.select import selection_of


def explain_not_mirrored(evidence: Evidence, topic: TopicName, base: Explanation) -> Explanation:
    """Explain why a topic of which no partition is reported is not mirrored."""
    link, names = evidence.link, evidence.source_topics
    refused = evidence.status.refused.get(topic)
    if evidence.refusal is not None or refused is not None:
        return _refused(evidence, topic, refused or "", base)
    verdict = selection_of(link).explain(topic)
    selected = (
        f"the link's lists would have it: {verdict.why}"
        if verdict.selected
        else (f"the link's lists would not have it either: {verdict.why}")
    )
    if names is not None and topic not in names:
        text = f"the source {link.source} has no topic {topic}, or we may not see it"
        steps = (
            Step(
                "See its topics, and the rights that the link needs (heliostat acls).",
                _topics(link.name),
            ),
        )
        return replace(
            base, kind=Kind.NOT_MIRRORED, answer=text, reasons=(selected,), next_steps=steps
        )
    if not verdict.selected:
        text = f"{topic} is not mirrored: it is not selected ({verdict.why})"
        return replace(
            base, kind=Kind.NOT_MIRRORED, answer=text, next_steps=_to_select(evidence, verdict.why)
        )
    if evidence.left_out:
        text = f"{topic} is left out: {evidence.left_out}"
        steps = (
            Step("Nothing: its records are at the target already. See the plan.", _plan(link.name)),
        )
        return replace(base, kind=Kind.NOT_MIRRORED, answer=text, next_steps=steps)
    return _not_yet(evidence, topic, verdict.why, base)


def _not_yet(evidence: Evidence, topic: TopicName, why: str, base: Explanation) -> Explanation:
    """Explain a topic that is selected, and of which nothing stands in the way."""
    link = evidence.link
    away = not_running(evidence)
    if away is not None:
        kind, text, steps = away
        text = f"{topic} is selected ({why}), and {text}"
        return replace(base, kind=kind, answer=text, next_steps=steps)
    if evidence.source_topics is None:
        text = f"{topic} is selected ({why}), and whether the source has it is not known now"
        return replace(
            base,
            kind=Kind.UNKNOWN,
            answer=text,
            next_steps=(Step("See the plan.", _plan(link.name)),),
        )
    return replace(
        base,
        kind=Kind.WAITING,
        answer=f"{topic} is selected ({why}) and not copied yet: it may be new",
        reasons=(f"the link looks for new topics every {link.topics.refresh_interval_s:g} s",),
        next_steps=(Step("If it lasts, see what stands in the way.", _plan(link.name)),),
    )


def _refused(evidence: Evidence, topic: TopicName, text: str, base: Explanation) -> Explanation:
    """Explain a refused topic: by a new plan, else by the words that the link has reported."""
    refusal = evidence.refusal
    if refusal is None:
        reason, _, hint = text.partition(" (hint: ")
        steps = (Step("See its code, and what the plan says.", _plan(evidence.link.name)),)
        hint = hint.removesuffix(")")
        return replace(
            base,
            kind=Kind.STOPPED,
            answer=f"{topic} is refused: {reason}",
            hint=hint,
            next_steps=(*([Step(f"What to do: {hint}.")] if hint else []), *steps),
        )
    description = known_code(refusal.code, by_the_reason=refusal.hint)
    facts = next((stop for stop in evidence.stops if stop.source.topic == topic), None)
    decide = Step(
        "See what each choice would do in numbers; it changes nothing.",
        resolve_command(evidence, topic, None),
    )
    return replace(
        base,
        kind=Kind.STOPPED,
        answer=f"{topic} is refused: {refusal.reason or description.meaning}",
        reasons=() if description.meaning in refusal.reason else (description.meaning,),
        code=refusal.code,
        hint=description.hint,
        next_steps=(decide,)
        if description.is_decided
        else (Step(f"What to do: {description.hint}."),),
        choices=choices_of(evidence, description.code, topic, None, facts)
        if description.is_decided
        else (),
    )


def _to_select(evidence: Evidence, why: str) -> tuple[Step, ...]:
    see = Step(
        "See what is selected, and by which entry; it changes nothing.", _topics(evidence.link.name)
    )
    if why.startswith("always excluded"):
        return (
            Step("Nothing: topics of Kafka, Connect and Heliostat themselves are never mirrored."),
        )
    if why.startswith("excluded by"):
        change = "Take that entry out of topics.exclude of the link, or make it narrower."
    elif why.startswith("no include"):
        change = "Add its name, or a pattern that matches all of it, to topics.include of the link."
    else:
        return (see,)
    return Step(change), see


def _plan(link: str) -> str:
    return f"heliostat plan --link {shlex.quote(link)}"


def _topics(link: str) -> str:
    return f"heliostat topics --link {shlex.quote(link)}"
