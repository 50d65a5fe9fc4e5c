"""The one function that explains what is asked about a link by what is known of it; pure."""

from __future__ import annotations

from dataclasses import replace

from heliostat.explaining.lateness import reported_ago_s
from heliostat.explaining.moments import span_text
from heliostat.explaining.partitions import explain_partition, explain_topic
from heliostat.explaining.records import explain_record
from heliostat.explaining.selection import explain_not_mirrored
from heliostat.explaining.values import Evidence, Explanation, Kind, Question, Step
from heliostat.explaining.whole_link import explain_group, explain_link
from heliostat.names import TopicName
from heliostat.status.values import PartitionStatus

OLD_AFTER_S = 10.0
"""What is older is told as such."""
LINK_IN_HINTS = "<link>"
"""Stands for the link's name in hints of errors."""
_WORDS = (
    "a an and answers both copied how in it its no nothing of offsets so that the there what where"
)
BEGINNINGS = frozenset(_WORDS.split())
"""Words with which our sentences begin; all others may be names."""


def explain(question: Question, evidence: Evidence) -> Explanation:
    """Return why what is asked about is as it is, since when, and what to do.

    What is not known is told as not known, and what is old as old.
    """
    status = evidence.status
    ago_s = reported_ago_s(status)
    passed_s = max(0.0, (evidence.now_ms - status.at_ms) / 1000)
    age_s = None if ago_s is None else round(ago_s + passed_s, 1)
    at_ms = int(status.driver.get("at_ms", 0)) or status.at_ms
    name = evidence.link.name
    base = Explanation(name, str(question), Kind.UNKNOWN, "", as_of_ms=at_ms, age_s=age_s)
    answer = _answer(question, evidence, base)
    old: tuple[str, ...] = ()
    if age_s is not None and age_s > OLD_AFTER_S and question.group is None:
        old = (f"the link's last report is {span_text(age_s)} old, and so is what it tells",)
    hint = answer.hint.replace(LINK_IN_HINTS, name)
    steps = tuple(
        Step(step.text.replace(LINK_IN_HINTS, name), step.command) for step in answer.next_steps
    )
    reasons = tuple(map(begun, (*answer.reasons, *old, *evidence.unread)))
    text = begun(answer.answer)
    return replace(answer, answer=text, reasons=reasons, hint=hint, next_steps=steps)


def begun(text: str) -> str:
    """Return a clause as a sentence begins; one that begins with a name keeps its case."""
    return text[0].upper() + text[1:] if text.partition(" ")[0].rstrip(",") in BEGINNINGS else text


def _answer(question: Question, evidence: Evidence, base: Explanation) -> Explanation:
    topic = question.topic
    if topic is None:
        if question.group is None:
            return explain_link(evidence, base)
        return explain_group(evidence, question.group, base)
    rows = evidence.partitions
    row = next((partition for partition in rows if partition.partition == question.partition), None)
    if question.offset is not None and (row is not None or evidence.translated is not None):
        return explain_record(question, evidence, row, base)
    if not rows or (evidence.refusal is not None or topic in evidence.status.refused):
        return explain_not_mirrored(evidence, topic, base)
    return _of_mirrored(question, evidence, topic, base)


def _of_mirrored(
    question: Question, evidence: Evidence, topic: TopicName, base: Explanation
) -> Explanation:
    rows = evidence.partitions
    row = next((partition for partition in rows if partition.partition == question.partition), None)
    if question.partition is None:
        return explain_topic(evidence, topic, rows, base)
    if row is not None:
        return explain_partition(evidence, row, base)
    return _no_such_partition(question, rows, base)


def _no_such_partition(
    question: Question, rows: tuple[PartitionStatus, ...], base: Explanation
) -> Explanation:
    numbers = sorted(row.partition for row in rows)
    is_one = len(numbers) == 1
    which = f"there is only {numbers[0]}" if is_one else f"there are {numbers[0]} to {numbers[-1]}"
    return replace(
        base,
        kind=Kind.NOT_MIRRORED,
        answer=f"of {question.topic} the link copies no partition {question.partition}: {which}",
        next_steps=(Step("A partition that was added just now is copied with the next look."),),
    )
