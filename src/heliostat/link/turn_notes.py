"""What a reconciliation logs, once: changes at the target, refused topics, notes."""

from __future__ import annotations

from dataclasses import dataclass

from heliostat.clock import SystemClock
from heliostat.clusters.admin import ClusterAdmin
from heliostat.link.known import Known
from heliostat.names import TopicName
from heliostat.ops.events import Events, joined, shortened
from heliostat.state.link_state import LinkState
from heliostat.topics.apply import ApplyReport
from heliostat.topics.producer_age import old_backlog_note

LISTED_MAX = 20
"""Topics logged one by one in a reconciliation; thousands may have the same trouble."""


@dataclass(frozen=True, slots=True)
class TurnNotes:
    """Logs what is new since the last reconciliation.

    Parameters
    ----------
    source, target
        Both clusters.
    state
        The link's state on the target.
    events
        The log.
    """

    source: ClusterAdmin
    target: ClusterAdmin
    state: LinkState
    events: Events

    def tell(self, known: Known, applied: ApplyReport, refused: dict[TopicName, str]) -> None:
        """Log what changed since the last reconciliation, once."""
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
        """Return the note on old records; once there is none, it is not looked for again."""
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
        """Log notes on the link that are new."""
        new = sorted(set(notes) - set(known.notes))
        for line in shortened(joined(new), LISTED_MAX, "remarks: see `heliostat plan`"):
            self.events.info(line)
        known.notes = notes
