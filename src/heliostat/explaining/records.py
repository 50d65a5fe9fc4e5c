"""Where a record of the source is at the target, and since when; pure."""

from __future__ import annotations

from dataclasses import replace

from heliostat.explaining.codes import known_code
from heliostat.explaining.moments import before_text, copied_text
from heliostat.explaining.partitions import explain_partition
from heliostat.explaining.values import Evidence, Explanation, Kind, Landing, Question, Step
from heliostat.gaps.ledger import GapRow
from heliostat.names import Offset
from heliostat.offsets.values import Answer, Why
from heliostat.ops.shown import time_text
from heliostat.status.values import PartitionStatus
from heliostat.topics.deletion_rule import may_follow


def explain_record(
    question: Question, evidence: Evidence, row: PartitionStatus | None, base: Explanation
) -> Explanation:
    """Explain where the record of a source offset is.

    Parameters
    ----------
    row
        Its partition, as last reported; None: it was not.
    """
    offset, name = question.offset, f"{question.place}"
    if offset is None:
        raise ValueError("no offset was asked for")
    gap = next((gap_row for gap_row in evidence.gaps if _covers(gap_row, offset)), None)
    translated = evidence.translated
    bounds = evidence.source_bounds
    if gap is not None and (translated is None or translated.why in {Why.HOLE, Why.BELOW_START}):
        return _lost(evidence, gap, offset, base)
    if bounds is not None and offset >= bounds.end:
        text = f"the source has no record at {offset:,} yet: {name} ends at offset {bounds.end:,}"
        return replace(base, kind=Kind.NO_RECORD, answer=text)
    if translated is None:
        return _by_position(offset, name, row, base)
    landed_to = evidence.landed_to
    if translated.why is Why.BEYOND or (landed_to is not None and offset >= landed_to):
        return _to_come(question, evidence, translated, row, base)
    if translated.to_offset is not None and translated.why in {None, Why.HOLE}:
        is_hole = translated.why is Why.HOLE
        return (_in_a_hole if is_hole else _copied)(evidence, translated, base)
    return _not_there(name, evidence, translated, base)


def _not_there(name: str, evidence: Evidence, translated: Answer, base: Explanation) -> Explanation:
    bounds, offset = evidence.source_bounds, translated.offset
    if translated.why is Why.BELOW_START:
        gone = "" if bounds is None or offset >= bounds.start else _gone_text(bounds.start)
        text = f"the record at source offset {offset:,} of {name} is not at the target"
        steps = (
            Step("A later record is found by its own offset: heliostat explain TOPIC-P@OFFSET."),
        )
        return replace(
            base,
            kind=Kind.NO_RECORD,
            answer=text,
            reasons=(translated.text, *filter(None, [gone]), *_followed(evidence, translated)),
            next_steps=steps,
        )
    text = f"where source offset {offset:,} of {name} went can't be told: {translated.text}"
    return replace(
        base, kind=Kind.UNKNOWN, answer=text, next_steps=(_translate(evidence, translated),)
    )


def _followed(evidence: Evidence, answer: Answer) -> tuple[str, ...]:
    """Return that the start of a mirror went because the source deleted it, and when."""
    by = may_follow(evidence.link.topics, answer.topic)
    if not by:
        return ()
    if not evidence.followed:
        return (
            f"what the source deletes goes from this mirror as well ({by}), if the link sees it",
        )
    last = evidence.followed[-1]
    times = len(evidence.followed)
    more = "" if times == 1 else f", the last of {times} times within a day"
    when = f"{time_text(last.at_ms)}{more}"
    return (f"what the source deleted went from the mirror at {when}: {last.text}",)


def _copied(evidence: Evidence, answer: Answer, base: Explanation) -> Explanation:
    landing, when = _landing(evidence, answer)
    text = (
        f"the record at source offset {answer.offset:,} of {answer.topic}-{answer.partition} is at "
        f"{landing.topic}-{landing.partition}, offset {landing.offset:,}, since {when}"
    )
    equal = (
        "both offsets are equal"
        if landing.offset == answer.offset
        else ("offsets of both sides differ here; the offset map has it")
    )
    bounds = evidence.source_bounds
    gone = _gone_text(bounds.start) if bounds is not None and answer.offset < bounds.start else ""
    reasons = (equal, gone) if gone else (equal,)
    return replace(base, kind=Kind.COPIED, answer=text, reasons=reasons, landing=landing)


def _in_a_hole(evidence: Evidence, answer: Answer, base: Explanation) -> Explanation:
    """Explain an offset without a record: compacted, aborted, a marker, or filtered out."""
    landing, _ = _landing(evidence, answer)
    text = (
        f"no record at source offset {answer.offset:,} of {answer.topic}-{answer.partition} "
        "was copied"
    )
    where = f"{landing.topic}-{landing.partition}, offset {landing.offset:,}"
    reasons = (
        "it was compacted, aborted, a transaction's marker, or a pipeline has left it out",
        f"{answer.text}: a reader of that offset continues at {where}",
    )
    if evidence.link.topics.merges:
        reasons = (
            "a link has brought it there, or it was compacted, aborted, or a transaction's marker",
            f"{answer.text}, which is at {where}",
        )
    return replace(base, kind=Kind.NO_RECORD, answer=text, reasons=reasons)


def _to_come(
    question: Question,
    evidence: Evidence,
    answer: Answer,
    row: PartitionStatus | None,
    base: Explanation,
) -> Explanation:
    text = (
        f"the record at source offset {answer.offset:,} of {question.place} is not at the "
        "target yet"
    )
    landed_to = evidence.landed_to
    ahead = 0 if landed_to is None else answer.offset - landed_to
    landed = (
        [] if landed_to is None else [f"copied so far: what is before source offset {landed_to:,}"]
    )
    if row is None:
        return replace(base, kind=Kind.LATE, answer=text, reasons=tuple(landed))
    why = explain_partition(evidence, row, base)
    kind = Kind.LATE if why.kind is Kind.COPIED else why.kind
    reasons = (*landed, *([f"{ahead:,} offsets are before it"] if ahead > 0 else []), why.answer)
    return replace(why, kind=kind, answer=text, reasons=(*reasons, *why.reasons))


def _lost(evidence: Evidence, gap: GapRow, offset: Offset, base: Explanation) -> Explanation:
    description = known_code(gap.cause.value)
    kept = "; it is kept in the dead letters" if gap.choice.value == "dead_letter" else ""
    last = "?" if gap.last is None else f"{gap.last:,}"
    count = "an unknown number of records" if gap.count is None else f"{gap.count:,} records"
    decided = f"{time_text(gap.at_ms)}; {gap.choice.value}, decided by {gap.decided_by}"
    gap_text = f"source offsets {gap.first:,} to {last}, {count}, recorded {decided}"
    reasons = (f"it is in a gap: {gap_text}",)
    steps = [Step("See all gaps of the link.", f"heliostat gaps --link {evidence.link.name}")]
    if kept:
        steps.insert(0, Step("Read it.", f"heliostat dlq show --link {evidence.link.name}"))
    return replace(
        base,
        kind=Kind.LOST,
        answer=f"the record at source offset {offset:,} of {gap.source} is not copied and will not "
        f"be: {description.meaning}{kept}",
        reasons=reasons,
        code=gap.cause.value,
        since_ms=gap.at_ms,
        hint=f"it has been decided; to prevent more of it: {description.hint}",
        next_steps=tuple(steps),
    )


def _by_position(
    offset: Offset, name: str, row: PartitionStatus | None, base: Explanation
) -> Explanation:
    """Explain it by the last report where maps could not be read."""
    if row is None or row.position < 0:
        text = f"where the record at source offset {offset:,} of {name} went is not known now"
        return replace(base, kind=Kind.UNKNOWN, answer=text)
    landed = offset < row.position
    state = "was at the target" if landed else "was not at the target yet"
    text = f"the record at source offset {offset:,} of {name} {state} when the link last reported"
    more = "its offset there can't be told now" if landed else ""
    return replace(base, kind=Kind.UNKNOWN, answer=text, reasons=(more,) if more else ())


def _landing(evidence: Evidence, answer: Answer) -> tuple[Landing, str]:
    partition = answer.partition if answer.to_partition is None else answer.to_partition
    topic, offset = answer.to_topic or answer.topic, answer.to_offset or 0
    times = evidence.copied_s
    if times is None:
        place = Landing(topic, partition, offset, None, evidence.now_ms)
        return place, f"some time {before_text(evidence.now_ms)}"
    from_ms, to_ms = (int(at_s * 1000) for at_s in times)
    place = Landing(topic, partition, offset, from_ms if from_ms > 0 else None, to_ms)
    when = copied_text(times, evidence.now_ms / 1000)
    return place, f"some time {when}" if when.startswith("be") else when.removeprefix("at ")


def _gone_text(start: Offset) -> str:
    return f"the source itself has it no more: its log begins at offset {start:,} now"


def _translate(evidence: Evidence, answer: Answer) -> Step:
    where = f"{answer.topic} {answer.partition} {answer.offset}"
    command = f"heliostat offsets translate {where} --link {evidence.link.name}"
    return Step("Ask again for that offset alone.", command)


def _covers(row: GapRow, offset: Offset) -> bool:
    return row.first <= offset and (row.last is None or offset <= row.last)
