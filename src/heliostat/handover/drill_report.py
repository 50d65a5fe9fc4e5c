"""The report of a drill: steps, checked figures, times scaled to the link, a verdict; pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from heliostat.ops.shown import time_text


@dataclass(frozen=True, slots=True)
class Size:
    """How large the real link is."""

    partitions: int
    topics: int
    groups: int
    missing: int = 0
    """Records that are missing at its target now."""

    def to_json(self) -> dict[str, int]:
        """Return it for reports."""
        return {
            "partitions": self.partitions,
            "topics": self.topics,
            "groups": self.groups,
            "missing": self.missing,
        }


@dataclass(frozen=True, slots=True)
class Measured:
    """What a switch took in a drill, by step in seconds."""

    partitions: int
    groups: int
    steps: Mapping[str, float]
    pause_s: float | None = None
    """From the last record that was accepted at one side to the first at the other."""


@dataclass(frozen=True, slots=True)
class ScaledStep:
    """What a step took, and what it would take with the real link's size."""

    name: str
    took_s: float
    least_s: float
    most_s: float
    how: str

    def to_json(self) -> dict[str, Any]:
        """Return it for reports."""
        return {
            "name": self.name,
            "took_s": round(self.took_s, 3),
            "least_s": round(self.least_s, 3),
            "most_s": round(self.most_s, 3),
            "how": self.how,
        }


@dataclass(frozen=True, slots=True)
class Check:
    """A figure that was counted, and what it must be."""

    what: str
    wanted: int
    actual: int
    is_bound: bool = False
    """Whether less is as well."""

    @property
    def is_met(self) -> bool:
        """Whether it is as it must be."""
        return self.actual <= self.wanted if self.is_bound else self.actual == self.wanted

    def to_json(self) -> dict[str, Any]:
        """Return it for reports."""
        return {
            "what": self.what,
            "wanted": self.wanted,
            "is_bound": self.is_bound,
            "actual": self.actual,
            "is_met": self.is_met,
        }

    def text(self) -> str:
        """Return it in words."""
        bound = "at most " if self.is_bound else ""
        end = "" if self.is_met else f" (must be {bound}{self.wanted:,})"
        return f"{self.what}: {self.actual:,}{end}"

    def row(self, step: str) -> str:
        """Return it as a row of a table."""
        bound = "at most " if self.is_bound else ""
        state = "ok" if self.is_met else "**wrong**"
        return f"| {step} | {self.what} | {self.actual:,} | {bound}{self.wanted:,} | {state} |"


class DrillState(StrEnum):
    """How a step ended."""

    DONE = "done"
    FAILED = "failed"
    LEFT_OUT = "left_out"


@dataclass(frozen=True, slots=True)
class DrillStep:
    """One step of a drill."""

    name: str
    state: DrillState
    took_s: float
    text: str
    checks: tuple[Check, ...] = ()
    measured: Measured | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_well(self) -> bool:
        """Whether nothing of it is wrong."""
        return self.state is not DrillState.FAILED and all(check.is_met for check in self.checks)

    def line(self) -> str:
        """Return it as one line."""
        words = self.state.value.replace("_", " ")
        return f"{self.name:<10} {words:<10} {self.took_s:>6.1f} s  {self.text}".rstrip()

    def to_json(self) -> dict[str, Any]:
        """Return it for reports."""
        return {
            "name": self.name,
            "state": self.state.value,
            "took_s": round(self.took_s, 3),
            "text": self.text,
            "checks": [check.to_json() for check in self.checks],
            "facts": dict(self.facts),
            "pause_s": None if self.measured is None else self.measured.pause_s,
        }


class Verdict(StrEnum):
    """What a drill says of the real thing."""

    READY = "ready"
    IN_PART = "in_part"
    """What was rehearsed went well; not all could be."""
    NOT_READY = "not_ready"


@dataclass(frozen=True, slots=True)
class DrillReport:
    """A drill, as it ended.

    Parameters
    ----------
    missing
        Rights that the link's principals have not.
    notes
        What was not rehearsed for other reasons.
    scaled
        What a real switch would take.
    left
        What could not be removed; `heliostat drill --clean` goes on.
    """

    id: str
    link: str
    by: str
    began_ms: int
    options: Mapping[str, Any]
    size: Size
    missing: tuple[Any, ...]
    notes: tuple[str, ...]
    steps: tuple[DrillStep, ...]
    scaled: tuple[ScaledStep, ...]
    left: str = ""
    cleaned: tuple[str, ...] = ()
    """Drills that had crashed, and were cleaned before."""

    @property
    def verdict(self) -> Verdict:
        """What it says of the real thing."""
        if self.left or not self.steps or not all(step.is_well for step in self.steps):
            return Verdict.NOT_READY
        left_out = any(step.state is DrillState.LEFT_OUT for step in self.steps)
        return Verdict.IN_PART if self.missing or left_out else Verdict.READY

    def bounds(self, only: frozenset[str] = frozenset()) -> tuple[float, float]:
        """Return both bounds of all scaled steps, or of these."""
        chosen = [step for step in self.scaled if not only or step.name in only]
        return sum(step.least_s for step in chosen), sum(step.most_s for step in chosen)

    def verdict_text(self) -> str:
        """Return the verdict in words."""
        wrong = [
            *(
                f"{step.name}: {step.text}"
                for step in self.steps
                if step.state is DrillState.FAILED
            ),
            *(
                f"{step.name}: {check.text()}"
                for step in self.steps
                for check in step.checks
                if not check.is_met
            ),
            *([f"left behind: {self.left}"] if self.left else []),
        ]
        if wrong or not self.steps:
            return f"not ready: {'; '.join(wrong) or 'nothing could be rehearsed'}"
        least, most = self.bounds()
        paused = self.bounds(PAUSE)
        text = "ready"
        if self.verdict is Verdict.IN_PART:
            text = "what was rehearsed went well, but not all could be"
        if not self.scaled:
            return text
        return (
            f"{text}; a switch of {self.size.partitions:,} partitions and {self.size.groups:,} "
            f"groups would take {least:.0f} to {most:.0f} s, and producers would pause "
            f"{paused[0]:.0f} to {paused[1]:.0f} s of it"
        )

    def to_json(self) -> dict[str, Any]:
        """Return it for `--json`."""
        least, most = self.bounds()
        pause = self.bounds(PAUSE)
        return {
            "id": self.id,
            "link": self.link,
            "by": self.by,
            "began_ms": self.began_ms,
            "options": dict(self.options),
            "verdict": self.verdict.value,
            "verdict_text": self.verdict_text(),
            "size": self.size.to_json(),
            "missing_rights": [right.to_json() for right in self.missing],
            "notes": list(self.notes),
            "steps": [step.to_json() for step in self.steps],
            "scaled": {
                "least_s": round(least, 3),
                "most_s": round(most, 3),
                "pause_least_s": round(pause[0], 3),
                "pause_most_s": round(pause[1], 3),
                "steps": [step.to_json() for step in self.scaled],
            },
            "left": self.left,
            "cleaned": list(self.cleaned),
        }

    def lines(self) -> Iterator[str]:
        """Yield lines for people."""
        for right in self.missing:
            yield f"right missing at {right.cluster}: {right.text}"
        yield from (f"note: {note}" for note in self.notes)
        for step in self.steps:
            yield step.line()
            yield from (f"    {check.text()}" for check in step.checks)
        yield self.verdict_text()

    def markdown(self) -> str:
        """Return it as a document."""
        return "\n".join(self._markdown()) + "\n"

    def _markdown(self) -> Iterator[str]:
        yield f"# Drill of link {self.link}"
        yield ""
        yield f"- Drill {self.id}, by {self.by}, begun at {time_text(self.began_ms)}."
        yield f"- Verdict: {self.verdict_text()}."
        for right in self.missing:
            yield (
                f"- Right missing at {right.cluster}: {right.text} (left out: {right.part.value})."
            )
        yield from (f"- {note}." for note in self.notes)
        if self.cleaned:
            yield f"- Cleaned before, as they had crashed: {', '.join(self.cleaned)}."
        yield from ["", "## Steps", "", "| Step | State | Took (s) | What it came to |"]
        yield "|---|---|---|---|"
        for step in self.steps:
            text = step.text.replace("|", "\\|").replace("\n", " ")
            words = step.state.value.replace("_", " ")
            yield f"| {step.name} | {words} | {step.took_s:.1f} | {text} |"
        yield from ["", "## Checked", "", "| Step | What | Counted | Must be | |"]
        yield "|---|---|---|---|---|"
        for step in self.steps:
            yield from (check.row(step.name) for check in step.checks)
        if self.scaled:
            yield from self._scaled_markdown()

    def _scaled_markdown(self) -> Iterator[str]:
        yield ""
        yield "## What a real switch would take"
        yield ""
        yield (
            f"Link {self.link} has {self.size.partitions:,} partitions of {self.size.topics:,} "
            f"topics and {self.size.groups:,} groups now."
        )
        yield ""
        yield "| Step | In the drill (s) | At least (s) | At most (s) | How |"
        yield "|---|---|---|---|---|"
        for step in self.scaled:
            yield (
                f"| {step.name} | {step.took_s:.1f} | {step.least_s:.1f} | {step.most_s:.1f} "
                f"| {step.how} |"
            )
        least, most = self.bounds()
        yield f"| all | | {least:.1f} | {most:.1f} | sums |"


PAUSE = frozenset({"fence", "still", "records", "groups", "last_look", "promotion", "opening"})
"""Steps of a switch in which producers write nowhere."""
