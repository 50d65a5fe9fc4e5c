"""Messages about a planned switch, the finish of a rolling one, and runs."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from heliostat.handover.desk import Compared, SwitchOptions
from heliostat.operate.switch import SwitchWish
from heliostat.serve.admin_verbs import TypedName
from heliostat.serve.owner_verbs import TOPICS_MAX, Topic

Seconds = Annotated[float, Field(ge=0, le=86_400)]
Code = Annotated[str, Field(max_length=100)]
_DEFAULT = SwitchOptions()


class SwitchOrder(TypedName):
    """What is to be switched, as `heliostat switch` has it."""

    topics: Annotated[list[Topic], Field(max_length=TOPICS_MAX, default_factory=list)]
    """Names at the source; none: all mirrors of the link."""
    back: bool = False
    """Take back a run that was left behind."""
    resume: bool = False
    """Take over a run of another process."""
    lag_threshold: Annotated[int, Field(ge=0, le=1 << 53)] = _DEFAULT.lag_threshold
    """Records that may be missing when producers are fenced."""
    lag_wait_s: Seconds = _DEFAULT.lag_s
    """How long to wait for that."""
    still_s: Seconds = _DEFAULT.still_s
    """How long the source's ends must stand still."""
    producers_wait_s: Seconds = _DEFAULT.producers_s
    """How long producers may take to end where no rule keeps them out."""
    transactions_wait_s: Seconds = _DEFAULT.transactions_s
    """How long open transactions may take to end."""
    records_wait_s: Seconds = _DEFAULT.records_s
    """How long the last records may take."""
    groups_wait_s: Seconds = _DEFAULT.groups_s
    """How long groups may go on reading at the source."""
    watch_s: Seconds = _DEFAULT.watch_s
    """How long the source is watched afterwards."""
    verify: Literal["none", "all"] = _DEFAULT.verify.value
    """Whether all contents are compared: before the fence, and then what came since."""
    accept: Annotated[list[Code], Field(max_length=20, default_factory=list)]
    """Codes of problems that are accepted."""

    def wish(self, by: str, *, finishes: bool = False) -> SwitchWish:
        """Return what the verb is asked."""
        options = SwitchOptions(
            lag_threshold=self.lag_threshold,
            lag_s=self.lag_wait_s,
            still_s=self.still_s,
            producers_s=self.producers_wait_s,
            transactions_s=self.transactions_wait_s,
            records_s=self.records_wait_s,
            groups_s=self.groups_wait_s,
            watch_s=self.watch_s,
            verify=Compared(self.verify),
            accepted=tuple(self.accept),
        )
        return SwitchWish(tuple(self.topics), options, by, self.back, self.resume, finishes)


class OpenedRow(BaseModel):
    """What opening a part of the target to producers came to, or would."""

    part: Literal["rights", "registry"]
    text: str
    code: str | None
    """Of what failed (null: nothing)."""
    hint: str | None


class SwitchProblem(BaseModel):
    """Something that preflight has seen."""

    code: str
    text: str
    hint: str
    weight: Literal["stops", "asks", "told"]
    """`stops`: it must be solved before. `asks`: it must be accepted. `told`: the run waits for it,
    or does without."""


class PlannedSwitch(BaseModel):
    """What a switch would do; nothing was changed."""

    link: str
    topics: list[str]
    options: dict[str, Any]
    steps: list[str]
    problems: list[SwitchProblem]
    is_possible: bool
    """Whether it would get beyond its preflight."""


class RunStep(BaseModel):
    """A step of a run."""

    name: str
    state: Literal["pending", "running", "done", "failed", "went_back"]
    began_ms: int | None
    ended_ms: int | None
    text: str
    """What it waits for, what it came to, or why it failed."""
    facts: dict[str, Any]
    """The same as figures and names."""


class RunView(BaseModel):
    """A verb of several steps, under way or as it ended, by its row on the target."""

    id: str
    kind: Literal["switch", "finish", "failover"]
    topics: list[str]
    options: dict[str, Any]
    by: str
    began_ms: int
    ended_ms: int | None
    state: Literal["under_way", "going_back", "done", "failed", "went_back"]
    """`failed`: it has changed nothing. `went_back`: what it had changed was taken back."""
    steps: list[RunStep]
    holder: str
    """The process that carries it out, by its own name for itself."""
    text: str
    """The report as Markdown."""
    is_carried_out: bool
    """Whether this service carries it out now; another process may."""
    may_go_back: bool
    """Whether nothing was given away yet."""
