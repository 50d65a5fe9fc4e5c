"""The steps of a drill over a desk: each thing is noted before it is made, and all goes at the end.

note        what is about to be made, before anything of it is
rehearse    by the verbs of the real thing; only names that the note has
clean       what the note has goes, then the note; done again it goes on
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from heliostat.errors import HeliostatError, Refused
from heliostat.handover.desk import SwitchOptions
from heliostat.handover.drill import (
    Came,
    DrillDesk,
    DrillLook,
    DrillNote,
    DrillWish,
    Part,
    Way,
    new_note,
)
from heliostat.handover.drill_report import DrillReport, DrillState, DrillStep, Measured, ScaledStep
from heliostat.handover.drill_times import Waits, scaled_steps
from heliostat.names import LinkName

WATCH_S = 1.0
"""How long a drill watches the source after a switch."""
Told = Callable[[DrillStep], None]
_Do = Callable[[DrillDesk, DrillNote, DrillLook], Came]


def _topics(desk: DrillDesk, note: DrillNote, look: DrillLook) -> Came:
    del look
    return desk.make_topics(note)


def _link(desk: DrillDesk, note: DrillNote, look: DrillLook) -> Came:
    return desk.start_link(note, Way.THERE, groups=not look.lacks(Part.GROUPS))


def _back(desk: DrillDesk, note: DrillNote, look: DrillLook) -> Came:
    del look
    return desk.go_back(note)


def _switch(desk: DrillDesk, note: DrillNote, look: DrillLook) -> Came:
    del look
    return desk.switch(note, Way.THERE)


def _reverse(desk: DrillDesk, note: DrillNote, look: DrillLook) -> Came:
    del look
    return desk.reverse(note, Way.BACK)


def _return(desk: DrillDesk, note: DrillNote, look: DrillLook) -> Came:
    del look
    return desk.switch(note, Way.BACK)


def _again(desk: DrillDesk, note: DrillNote, look: DrillLook) -> Came:
    del look
    return desk.reverse(note, Way.THERE)


def _failover(desk: DrillDesk, note: DrillNote, look: DrillLook) -> Came:
    del look
    return desk.fail_over(note)


def _recover(desk: DrillDesk, note: DrillNote, look: DrillLook) -> Came:
    del look
    return desk.reverse(note, Way.BACK)


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """A step, and what it needs."""

    do: _Do
    part: Part = Part.ALL
    is_for_failover: bool = False


STEPS: Mapping[str, Rehearsed] = {
    "topics": Rehearsed(_topics),
    "link": Rehearsed(_link),
    "back": Rehearsed(_back),
    "switch": Rehearsed(_switch),
    "reverse": Rehearsed(_reverse, Part.WAY_BACK),
    "return": Rehearsed(_return, Part.WAY_BACK),
    "again": Rehearsed(_again, Part.WAY_BACK, is_for_failover=True),
    "failover": Rehearsed(_failover, Part.WAY_BACK, is_for_failover=True),
    "recover": Rehearsed(_recover, Part.WAY_BACK, is_for_failover=True),
}


def step_names(wish: DrillWish) -> list[str]:
    """Return the steps of a drill, cleaning included."""
    chosen = [name for name, step in STEPS.items() if wish.failover or not step.is_for_failover]
    return [*chosen, "clean"]


def clean(desk: DrillDesk, note: DrillNote) -> None:
    """Remove what a drill has made; done again it goes on where it ended."""
    desk.await_no_owner(note)
    desk.lift_rules(note)
    desk.delete_groups(note)
    desk.delete_topics(note)
    desk.forget(note)


def clean_all(desk: DrillDesk) -> tuple[str, ...]:
    """Remove what drills have left that crashed; return their ids.

    Raises
    ------
    Refused
        One of them is under way.
    """
    notes = desk.left_behind()
    for note in notes:
        clean(desk, note)
    return tuple(note.id for note in notes)


def rehearse(
    desk: DrillDesk,
    link: LinkName,
    wish: DrillWish,
    drawn: str,
    tell: Told = lambda _: None,
) -> DrillReport:
    """Rehearse, clean, and return the report.

    Parameters
    ----------
    drawn
        Eight hexadecimal letters, drawn for this drill.
    tell
        Called with each step that has ended.

    Raises
    ------
    Refused
        Another drill is under way, or names that the drill would take are there already.
    """
    cleaned = clean_all(desk)
    look = desk.look()
    note = new_note(link, wish, drawn, desk.wall_ms())
    steps: list[DrillStep] = []
    left = ""
    if not any(right.part is Part.ALL for right in look.missing):
        if there := desk.existing(note):
            raise Refused(
                f"not this drill's, and there already: {', '.join(there[:20])}",
                hint="call it again: it draws another name",
            )
        desk.write(note)
        try:
            _steps(desk, note, look, wish, steps, tell)
        finally:
            left = _cleaned(desk, note, steps, tell)
    return DrillReport(
        note.id,
        link,
        wish.by,
        note.began_ms,
        wish.to_json(),
        look.size,
        look.missing,
        look.notes,
        tuple(steps),
        _scaled(steps, look, wish),
        left,
        cleaned,
    )


def _steps(  # noqa: PLR0917 - where, what, and who is told
    desk: DrillDesk,
    note: DrillNote,
    look: DrillLook,
    wish: DrillWish,
    steps: list[DrillStep],
    tell: Told,
) -> None:
    has_failed = False
    for name in step_names(wish)[:-1]:
        planned = STEPS[name]
        if has_failed or look.lacks(planned.part):
            why = "a step before it failed" if has_failed else look.why_not(planned.part)
            _end(steps, tell, DrillStep(name, DrillState.LEFT_OUT, 0.0, why))
            continue
        began_s = desk.monotonic_s()
        try:
            came = planned.do(desk, note, look)
        except HeliostatError as error:
            has_failed = True
            took_s = desk.monotonic_s() - began_s
            _end(steps, tell, DrillStep(name, DrillState.FAILED, took_s, error.text))
            continue
        took_s = desk.monotonic_s() - began_s
        rest = came.text, came.checks, came.measured, came.facts
        _end(steps, tell, DrillStep(name, DrillState.DONE, took_s, *rest))


def _cleaned(desk: DrillDesk, note: DrillNote, steps: list[DrillStep], tell: Told) -> str:
    """Stop and remove everything; return what could not be, and why."""
    began_s = desk.monotonic_s()
    try:
        desk.stop()
        clean(desk, note)
    except HeliostatError as error:
        took_s = desk.monotonic_s() - began_s
        _end(steps, tell, DrillStep("clean", DrillState.FAILED, took_s, error.text))
        return f"{error.text}; `heliostat drill {note.link} --clean` goes on"
    took_s = desk.monotonic_s() - began_s
    _end(steps, tell, DrillStep("clean", DrillState.DONE, took_s, "nothing is left"))
    return ""


def _end(steps: list[DrillStep], tell: Told, step: DrillStep) -> None:
    steps.append(step)
    tell(step)


def _scaled(steps: list[DrillStep], look: DrillLook, wish: DrillWish) -> tuple[ScaledStep, ...]:
    measured: dict[str, Measured] = {
        step.name: step.measured for step in steps if step.measured is not None
    }
    if "switch" not in measured:
        return ()
    usual = SwitchOptions()
    return scaled_steps(
        measured["switch"],
        measured.get("back"),
        look.size,
        Waits(wish.still_s, WATCH_S),
        Waits(usual.still_s, usual.watch_s),
    )
