"""Why what is copied is late, and why nothing is known of it at the moment; pure."""

from __future__ import annotations

from collections.abc import Iterator

from heliostat.explaining.moments import span_text
from heliostat.explaining.values import Evidence, Kind, Step
from heliostat.records.copier.lane import LineUse
from heliostat.status.values import LinkStatus
from heliostat.wishes.rate import rate_text

FAR_MS = 30
"""Answers that take longer are worth a sentence."""
IDLE_PER_S = 0.05


def missing_text(records: int | None, age_s: float | None, *, is_bound: bool) -> str:
    """Return how much is missing, as far as it is known."""
    if records is None:
        return "how much is missing is not known"
    if not records:
        return "it may lack records: its lag is not known now" if is_bound else "nothing is missing"
    least = "at least " if is_bound else ""
    age = "" if age_s is None else f", the oldest {least}{span_text(age_s)} old"
    return f"{least}{records:,} {'record is' if records == 1 else 'records are'} missing{age}"


def pace_texts(evidence: Evidence, records: int | None, per_s: float) -> Iterator[str]:
    """Yield how fast it is copied, and until when at the earliest, or about."""
    if not records:
        if per_s < IDLE_PER_S:
            yield "nothing was copied in the last seconds: the source has written nothing new"
        return
    if per_s < IDLE_PER_S:
        yield "nothing was copied in the last seconds"
        return
    least_s = records / per_s
    yield f"{per_s:,.1f} records a second are copied: it takes at least {span_text(least_s)} more"
    if evidence.level_in_s is not None:
        yield f"the whole link will be level in about {span_text(evidence.level_in_s)}"


def line_texts(evidence: Evidence) -> Iterator[str]:
    """Yield how far clusters are, if that costs time."""
    status, link = evidence.status, evidence.link
    for alias, line in ((link.source, status.source_line), (link.target, status.target_line)):
        if isinstance(line, LineUse) and line.round_trip_ms >= FAR_MS:
            yield f"answers of {alias} take {line.round_trip_ms} ms at best, for each record"


def limit_texts(status: LinkStatus, topic: str) -> Iterator[str]:
    """Yield the limits by which a topic may be late."""
    for limit in status.limits:
        if limit["topic"] in {None, topic} and limit["throttled_s"]:
            what = "the link" if limit["topic"] is None else topic
            why = f", {limit['why']}" if limit["why"] else ""
            rate = rate_text(limit["bytes_per_second"])
            yield f"{what} is limited to {rate}: {limit['by']} wishes so{why}"


def held_texts(status: LinkStatus, topic: str, partition: int | None) -> Iterator[str]:
    """Yield open transactions of a topic, or one partition of it."""
    for transaction in status.held_back:
        if transaction.source == topic and partition in {None, transaction.partition}:
            yield transaction.text()


def not_running(evidence: Evidence) -> tuple[Kind, str, tuple[Step, ...]] | None:
    """Return why nothing of a link is copied, or known, and what to do; None: it runs."""
    status, link = evidence.status, evidence.link
    name = link.name
    start = Step("Start it where it is to run.", f"heliostat run --link {name}")
    driver = status.driver
    where = "" if not status.owner else f" (it ran on {status.owner.get('host', '?')})"
    ago_s = reported_ago_s(status)
    match status.state:
        case "running":
            return None
        case "paused" | "stopped" if (wish := status.wish) is not None:
            since = span_text(max(0.0, (status.at_ms - wish["at_ms"]) / 1000))
            text = f"the link {name} is {status.state} since {since}: {wish['by']} wishes so"
            text += f", {wish['why']}" if wish["why"] else ""
            verb = "resume" if status.state == "paused" else "start"
            return Kind.PAUSED, text, (Step("Let it go on.", f"heliostat {verb} {name}"),)
        case "halted" | "no_owner":
            when = "" if ago_s is None else f" since {span_text(ago_s)}"
            ended = f"no driver runs the link {name}{when}{where}", (start,)
            is_halted = status.state == "halted"
            return Kind.STOPPED, *(_halted(status, name) if is_halted else ended)
        case "silent":
            ago = "for a while" if ago_s is None else f"for {span_text(ago_s)}"
            text = f"the driver of the link {name} has not reported {ago}{where}"
            look = Step("Look whether its process and machine are there, and reach the target.")
            return Kind.UNKNOWN, text, (look, start)
        case "unreachable":
            text = f"the target {link.target} does not answer, so nothing is known now"
            return Kind.UNKNOWN, text, (Step("Check that its brokers run and can be reached."),)
        case _:
            words = "was never started, or not within the last hour" if not driver else "is unknown"
            return Kind.UNKNOWN, f"the link {name} {words}", (start,)


def _halted(status: LinkStatus, name: str) -> tuple[str, tuple[Step, ...]]:
    assert status.restarts is not None
    text = f"the link {name} has halted: {status.restarts['reason']}"
    again = Step("Let it begin again now.", f"heliostat restart {name}")
    return text, (Step(f"Put right what it names; {status.restarts['text']}."), again)


def reported_ago_s(status: LinkStatus) -> float | None:
    """Return how long ago the driver reported; None: that is not known."""
    at_ms = int(status.driver.get("at_ms", 0))
    return max(0.0, (status.at_ms - at_ms) / 1000) if at_ms else None
