"""What a turn tells: what changed at the target, what is refused, what is to be remarked; once."""

from __future__ import annotations

from dataclasses import dataclass

from heliostat.clock import SystemClock
from heliostat.clusters.admin import ClusterAdmin
from heliostat.link.known import Known
from heliostat.names import TopicName
from heliostat.ops.events import Events, shortened
from heliostat.state.link_state import LinkState
from heliostat.topics.apply import ApplyReport
from heliostat.topics.producer_age import old_backlog_note

LISTED_MAX = 20
"""Topics told of one by one in a turn; thousands may have the same trouble."""


@dataclass(frozen=True, slots=True)
class TurnNotes:
    """Tells what is new since the last turn.

    Parameters
    ----------
    source, target
        Both clusters.
    state
        The link's state on the target.
    events
        Where it is told.
    """

    source: ClusterAdmin
    target: ClusterAdmin
    state: LinkState
    events: Events

    def tell(self, known: Known, applied: ApplyReport, refused: dict[TopicName, str]) -> None:
        """Say what changed since the last turn, once."""
        for word, names in (
            ("created", applied.created),
            ("grown", applied.grown),
            ("configured", applied.configured),
        ):
            if names:
                shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if names[3:] else "")
                self.events.info(f"{word} {len(names)} topic(s) at the target: {shown}")
        problems = {**refused, **{name: str(error) for name, error in applied.failed.items()}}
        new = [name for name, reason in problems.items() if known.refused.get(name) != reason]
        lines = [f"{name}: {problems[name]}" for name in new]
        for line in shortened(lines, LISTED_MAX, "topics: see `heliostat plan`"):
            self.events.warn(line)
        over = sorted(known.refused.keys() - problems.keys())
        lines = [f"{name}: is no longer refused" for name in over]
        for line in shortened(lines, LISTED_MAX, "topics are no longer refused"):
            self.events.info(line)
        known.refused = problems

    def old_backlog(self, known: Known, applied: ApplyReport) -> tuple[str, ...]:
        """Looked for in the first turn, and from then on only whether it still holds."""
        if known.old_backlog is not None:
            found = old_backlog_note(
                applied.mirrors,
                self.source,
                self.target,
                SystemClock().wall_ms(),
                self.state.offsets.position_at,
            )
            known.old_backlog = found and (known.old_backlog or found)
        return () if known.old_backlog is None else (known.old_backlog,)

    def remark(self, known: Known, notes: tuple[str, ...]) -> None:
        """Say what is to be remarked of the link, where that is new."""
        new = sorted(set(notes) - set(known.notes))
        for line in shortened(new, LISTED_MAX, "remarks: see `heliostat plan`"):
            self.events.info(line)
        known.notes = notes
