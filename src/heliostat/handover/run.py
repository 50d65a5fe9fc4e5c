"""A run: a verb of several steps, as it is kept on the target, so that another process goes on.

run/ID         in `heliostat.<link>.wishes`, by the process that carries it out, which fences
               all others that might still think that they do
run/ID/beats   a number that this process raises: one that finds the same for a while takes the
               run for left behind
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Self

from heliostat.names import TopicName

RUN_PREFIX, BEATS_SUFFIX = "run/", "/beats"
GIVES_AWAY = "promotion"
"""The step after which there is no way back."""
TEXT_MAX = 2_000
"""Characters of a step's text that a row keeps."""


class RunKind(StrEnum):
    """The verb."""

    SWITCH = "switch"
    FINISH = "finish"
    """The end of a rolling switch: of merged topics, in which a link back writes as well."""
    FAILOVER = "failover"


class StepState(StrEnum):
    """How far a step is."""

    PENDING = "pending"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    WENT_BACK = "went_back"
    """What it had changed was taken back."""


class RunState(StrEnum):
    """How far a run is."""

    UNDER_WAY = "under_way"
    GOING_BACK = "going_back"
    """It takes back what it has changed: the same verb completes that."""
    DONE = "done"
    FAILED = "failed"
    """It has changed nothing."""
    WENT_BACK = "went_back"
    """It has taken back what it had changed."""

    @property
    def is_over(self) -> bool:
        """Whether nothing of it remains to be done."""
        return self not in (RunState.UNDER_WAY, RunState.GOING_BACK)


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a run.

    Parameters
    ----------
    name
        Its name, unique in its run.
    text
        What it waits for, what it came to, or why it failed.
    facts
        The same as figures and names, for reports.
    """

    name: str
    state: StepState = StepState.PENDING
    began_ms: int | None = None
    ended_ms: int | None = None
    text: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def took_s(self) -> float | None:
        """How long it took; None: it has not ended."""
        if self.began_ms is None or self.ended_ms is None:
            return None
        return (self.ended_ms - self.began_ms) / 1000

    def to_json(self) -> dict[str, Any]:
        """Return its part of a row."""
        return {
            "name": self.name,
            "state": self.state.value,
            "began_ms": self.began_ms,
            "ended_ms": self.ended_ms,
            "text": self.text[:TEXT_MAX],
            "facts": dict(self.facts),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Build from a row's part; raises as `Run.from_json`."""
        return cls(
            str(value["name"]),
            StepState(value["state"]),
            _time(value["began_ms"]),
            _time(value["ended_ms"]),
            str(value["text"]),
            dict(value["facts"]),
        )


def _time(value: Any) -> int | None:
    return None if value is None else int(value)


@dataclass(frozen=True, slots=True)
class Run:
    """A verb under way, or as it ended.

    Parameters
    ----------
    id
        Its key, without the prefix.
    topics
        Names at the source.
    options
        As they were given, in the verb's own words.
    by
        Who began it.
    began_ms
        Wall clock of who began it, for people.
    """

    id: str
    kind: RunKind
    topics: tuple[TopicName, ...]
    options: Mapping[str, Any]
    by: str
    began_ms: int
    steps: tuple[Step, ...]
    state: RunState = RunState.UNDER_WAY
    ended_ms: int | None = None
    holder: str = ""
    """Who carries it out: a process's own name for itself."""

    @property
    def key(self) -> str:
        """Its key in the topic of wishes."""
        return f"{RUN_PREFIX}{self.id}"

    @property
    def beats_key(self) -> str:
        """Key of the number that says that it is carried out."""
        return f"{self.key}{BEATS_SUFFIX}"

    @property
    def may_go_back(self) -> bool:
        """Whether nothing was given away yet."""
        return self.step(GIVES_AWAY).state is StepState.PENDING

    def step(self, name: str) -> Step:
        """Return a step by its name."""
        return next(step for step in self.steps if step.name == name)

    def with_step(self, changed: Step) -> Run:
        """Return the run with one step changed."""
        steps = tuple(changed if step.name == changed.name else step for step in self.steps)
        return replace(self, steps=steps)

    def to_json(self) -> dict[str, Any]:
        """Return its row."""
        return {
            "id": self.id,
            "kind": self.kind.value,
            "topics": list(self.topics),
            "options": dict(self.options),
            "by": self.by,
            "began_ms": self.began_ms,
            "ended_ms": self.ended_ms,
            "state": self.state.value,
            "steps": [step.to_json() for step in self.steps],
            "holder": self.holder,
        }

    @classmethod
    def from_json(cls, key: str, value: Mapping[str, Any]) -> Self:
        """Build from a row; raises `LookupError`, `TypeError` or `ValueError` if it is none."""
        if key != f"{RUN_PREFIX}{value['id']}":
            raise ValueError(f"{key!r} has the row of another run")
        return cls(
            str(value["id"]),
            RunKind(value["kind"]),
            tuple(TopicName(str(topic)) for topic in value["topics"]),
            dict(value["options"]),
            str(value["by"]),
            int(value["began_ms"]),
            tuple(Step.from_json(step) for step in value["steps"]),
            RunState(value["state"]),
            _time(value["ended_ms"]),
            str(value["holder"]),
        )


def is_run_key(key: str) -> bool:
    """Return whether a row is about a run."""
    return key.startswith(RUN_PREFIX)


class Runs:
    """All runs of a link, the one written last at the end."""

    def __init__(self) -> None:
        self._runs: dict[str, Run] = {}
        self._beats: dict[str, int] = {}

    def take(self, key: str, value: Mapping[str, Any] | None) -> None:
        """Take a row; raises `LookupError`, `TypeError` or `ValueError` if it is none."""
        if key.endswith(BEATS_SUFFIX):
            run_id = key.removeprefix(RUN_PREFIX).removesuffix(BEATS_SUFFIX)
            self._beats[run_id] = 0 if value is None else int(value["beats"])
            return
        run = None if value is None else Run.from_json(key, value)
        self._runs.pop(key, None)
        if run is not None:
            self._runs[key] = run

    def beats_of(self, run: Run) -> int:
        """Return how often the process that carries it out has said so."""
        return self._beats.get(run.id, 0)

    def last(self, kind: RunKind | None = None) -> Run | None:
        """Return the run that was written last, of a kind or of any; None: there was none."""
        return next(
            (run for run in reversed(self._runs.values()) if kind in (None, run.kind)), None
        )
