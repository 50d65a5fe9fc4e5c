"""`heliostat drill`: a switch rehearsed on the real clusters, with made-up topics and groups."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heliostat.config import ConfigFile, LinkConfig
from heliostat.handover.drill import DrillLook, DrillNote, DrillWish, new_note
from heliostat.handover.drill_report import DrillReport, DrillStep
from heliostat.handover.drill_steps import clean_all, rehearse, step_names
from heliostat.names import LinkName
from heliostat.operate.drilling.desk import ClusterDesk
from heliostat.operate.drilling.notes import DrillNotes
from heliostat.topics.merged_links import refuse_if_merged

Told = Callable[[DrillStep], None]


def _ignore(_: DrillStep) -> None:
    pass


@dataclass(frozen=True, slots=True)
class DrillPlan:
    """What a drill would do; nothing was changed."""

    link: LinkName
    wish: DrillWish
    look: DrillLook
    note: DrillNote
    left_behind: tuple[str, ...]
    """Drills that have crashed, and would be cleaned first."""

    @property
    def is_possible(self) -> bool:
        """Whether anything can be rehearsed."""
        return not any(right.part.value == "all" for right in self.look.missing)

    def to_json(self) -> dict[str, Any]:
        """Return it for `--json`."""
        return {
            "link": self.link,
            "options": self.wish.to_json(),
            "size": self.look.size.to_json(),
            "missing_rights": [right.to_json() for right in self.look.missing],
            "notes": list(self.look.notes),
            "topics": dict(self.note.topics),
            "groups": list(self.note.groups),
            "steps": step_names(self.wish),
            "left_behind": list(self.left_behind),
            "is_possible": self.is_possible,
        }

    def lines(self) -> Iterator[str]:
        """Yield lines for people."""
        yield (
            f"{self.link}: {len(self.note.topics):,} topics of {self.note.partitions:,} partitions "
            f"and {len(self.note.groups):,} groups would be made"
        )
        yield f"steps: {', '.join(step_names(self.wish))}"
        for right in self.look.missing:
            yield f"right missing at {right.cluster}: {right.text} (left out: {right.part.value})"
        yield from (f"note: {text}" for text in self.look.notes)
        for drill_id in self.left_behind:
            yield f"drill {drill_id} has crashed, and would be cleaned first"
        yield "nothing was changed"


def plan_drill(file: ConfigFile, link: LinkConfig, wish: DrillWish) -> DrillPlan:
    """Return what a drill would do, and which rights it lacks; changes nothing.

    Raises
    ------
    Refused
        Another drill of the link is under way.
    ConnectionLost, BrokerError
        A cluster does not answer, or refuses.
    """
    refuse_if_merged(link, "drill")
    with _desk(file, link, wish) as (desk, drawn):
        left = tuple(note.id for note in desk.left_behind())
        name = LinkName(link.name)
        return DrillPlan(name, wish, desk.look(), new_note(name, wish, drawn, desk.wall_ms()), left)


def drill(
    file: ConfigFile, link: LinkConfig, wish: DrillWish, on_step: Told = _ignore
) -> DrillReport:
    """Rehearse a switch of the link, and remove all that was made for it.

    Parameters
    ----------
    file
        The configuration that has the link's clusters.
    on_step
        Called with each step that has ended.

    Raises
    ------
    Refused
        Another drill of the link is under way, or names that it would take are there already.
    ConnectionLost, BrokerError
        A cluster does not answer, or refuses, before anything was made.
    """
    refuse_if_merged(link, "drill")
    with _desk(file, link, wish) as (desk, drawn):
        return rehearse(desk, LinkName(link.name), wish, drawn, on_step)


def clean_drills(file: ConfigFile, link: LinkConfig) -> tuple[str, ...]:
    """Remove what drills of the link have left that crashed; return their ids.

    Raises
    ------
    Refused
        One of them is under way, or the driver of its link still runs.
    ConnectionLost, BrokerError
        A cluster does not answer, or refuses; call it again.
    """
    with _desk(file, link, DrillWish()) as (desk, _):
        return clean_all(desk)


@contextmanager
def _desk(file: ConfigFile, link: LinkConfig, wish: DrillWish) -> Iterator[tuple[ClusterDesk, str]]:
    drawn = secrets.token_hex(4)
    target = file.config.clusters[link.target].access()
    with (
        tempfile.TemporaryDirectory(prefix="heliostat-drill-") as folder,
        closing(DrillNotes(link, target)) as notes,
    ):
        yield ClusterDesk(file, link, wish, drawn, notes, Path(folder)), drawn
