"""The report of a run as Markdown: what was done when; `Run.to_json` has the same as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from heliostat.handover.run import Run, RunState, Step, StepState

_ENDED = {
    RunState.UNDER_WAY: "is under way",
    RunState.GOING_BACK: "goes back",
    RunState.DONE: "is done",
    RunState.FAILED: "has failed, and has changed nothing",
    RunState.WENT_BACK: "went back: producers and groups stay at the source, and copying goes on",
}
_MARKS = {
    StepState.PENDING: "·",
    StepState.RUNNING: "…",
    StepState.DONE: "done",
    StepState.FAILED: "failed",
    StepState.WENT_BACK: "taken back",
}


def ended_words(run: Run) -> str:
    """Return how a run ended, as one line."""
    took = "" if run.ended_ms is None else f" after {(run.ended_ms - run.began_ms) / 1000:.1f} s"
    return f"the {run.kind.value} of {len(run.topics):,} topics {_ENDED[run.state]}{took}"


def step_line(step: Step) -> str:
    """Return a line about a step."""
    took = "" if step.took_s is None else f"{step.took_s:.1f} s"
    return f"{step.name:<10} {_MARKS[step.state]:<10} {took:>8}  {step.text}".rstrip()


def markdown(run: Run, link: str) -> str:
    """Return the report of a run as Markdown."""
    return "\n".join(_lines(run, link)) + "\n"


def _lines(run: Run, link: str) -> Iterator[str]:
    yield f"# {run.kind.value.capitalize()} of {link}"
    yield ""
    yield f"- Run {run.id}, begun by {run.by} at {_time(run.began_ms)}: {ended_words(run)}."
    yield f"- Topics: {', '.join(run.topics)}."
    yield ""
    yield "| Step | State | Began | Took (s) | What it came to |"
    yield "|---|---|---|---|---|"
    for step in run.steps:
        began = "" if step.began_ms is None else _time(step.began_ms)
        took = "" if step.took_s is None else f"{step.took_s:.1f}"
        text = step.text.replace("|", "\\|").replace("\n", " ")
        yield f"| {step.name} | {_MARKS[step.state]} | {began} | {took} | {text} |"
    problems = run.steps[0].facts.get("problems", []) if run.steps else []
    if problems:
        yield ""
        yield "## Seen by preflight"
        yield ""
        for problem in problems:
            yield f"- {problem['text']} ({problem['code']}): {problem['hint']}"


def _time(at_ms: int) -> str:
    moment = datetime.fromtimestamp(at_ms / 1000, UTC)
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")
