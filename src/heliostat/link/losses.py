"""What lanes report that the target has lost; each report counts once, however often it is read."""

from __future__ import annotations

from collections.abc import Callable

from heliostat.gaps.source_truncation import LostRange
from heliostat.link.known import Known
from heliostat.names import TopicId
from heliostat.records.copier.lane import RoundReport


class Losses:
    """Passes on losses of the link's mirrors.

    Parameters
    ----------
    note
        Takes a loss, with the id of its source topic.
    known
        What the link knows: its mirrors.
    """

    def __init__(self, note: Callable[[LostRange, TopicId | None], None], known: Known) -> None:
        self._note = note
        self._known = known
        self._seen: set[tuple[int, int]] = set()
        """Generations and numbers of reports with losses: these are rare."""

    def take(self, report: RoundReport) -> None:
        """Take a report, unless it was taken before."""
        place = report.generation, report.number
        if place in self._seen:
            return
        self._seen.add(place)
        for source, first, end in report.lost:
            record = self._known.mirrors.get(source.topic)
            if record is not None:
                target = record.mirror_of(source.partition)
                self._note(LostRange(source, target, first, end), record.source_id)
