"""The samples of all families as points of InfluxDB, so that both say the same; pure.

One measurement for each subject, named after the last label that names one: `heliostat_link`,
`heliostat_topic`, `heliostat_partition`, `heliostat_lane`, `heliostat_side`, `heliostat_broker`;
`heliostat_service` for the process that serves. Labels are tags; a field has the metric's name
without what the measurement says already. A state is no tag, which would begin a series at each
change: it is a text, or part of the field's name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final

from typing_extensions import override

from heliostat.metrics import families as f
from heliostat.metrics.families import Family
from heliostat.metrics.influx import lines
from heliostat.metrics.text import Samples
from heliostat.ops.latency import LatencyHistogram

LINES_MAX = 5_000
"""Of a request, as InfluxDB's own programs send."""
NO_TAGS: Final = ("state", "code", "q", "version", "python", "result")
ONE_OF = {f.LINK_STATE.name: "state", f.PARTITION_STATE.name: "state"}
"""Families whose sample of value 1 names a state: a text of this name."""
TEXT_LABELS: Final = ("code", "version", "python")
"""Labels that are told as texts beside the value."""
QUANTILES = {"p50": 0.5, "p99": 0.99}
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r"\\(.)")
_BEGINNING = "heliostat_"


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the samples of a label set belong."""

    series: str
    subject: str
    ends: tuple[str, ...]
    """Of the fields' names."""
    texts: tuple[str, ...]
    """Fields that are texts."""

    def name(self, family: Family) -> str:
        name = family.name.removeprefix(_BEGINNING).removeprefix(f"{self.subject}_")
        return "_".join((name, *self.ends))


class Places:
    """Remembers where the samples of each label set belong, and what was last counted.

    Parameters
    ----------
    host
        Tag of what is not a link's.
    """

    def __init__(self, host: str) -> None:
        self._host = host
        self._known: dict[str, _Place] = {}
        self._counts: dict[str, list[int]] = {}

    def place(self, labelled: str) -> _Place:
        """Return where a sample with these labels belongs."""
        place = self._known.get(labelled)
        if place is None:
            place = self._known[labelled] = self._new(labelled)
        return place

    def grown(self, labelled: str, counts: list[int]) -> LatencyHistogram:
        """Return what a histogram has counted since the last points."""
        pairs = zip_longest(counts, self._counts.get(labelled, []), fillvalue=0)
        grown = [new - old for new, old in pairs]
        self._counts[labelled] = list(counts)
        began_anew = any(count < 0 for count in grown)
        return LatencyHistogram(counts if began_anew else grown)

    def _new(self, labelled: str) -> _Place:
        named = {name: _ESCAPED.sub(_plain, value) for name, value in _LABEL.findall(labelled)}
        tags = {name: value for name, value in named.items() if name not in NO_TAGS}
        subject = list(tags)[-1] if len(tags) > len(f.LINK) else "link"
        if "link" not in tags:
            subject, tags = "service", {**tags, "host": self._host}
        ends = tuple(named[name] for name in ("state", "q", "result") if name in named)
        texts = (lines.field(name, named[name]) for name in TEXT_LABELS if name in named)
        start = lines.series(_BEGINNING + subject, tags)
        return _Place(start, subject, ends, tuple(text for text in texts if text is not None))


def _plain(match: re.Match[str]) -> str:
    return "\n" if match[1] == "n" else match[1]


class PointSamples(Samples):
    """Collects samples as fields of points.

    Parameters
    ----------
    places
        Outlives this: what is told once a series.
    """

    def __init__(self, places: Places) -> None:
        super().__init__()
        self._places = places
        self._points: dict[str, list[str]] = {}

    @override
    def add(self, family: Family, labelled: str, value: float | None) -> None:
        """Add a sample; one that is not known (None) is absent."""
        if value is None:
            return
        place = self._places.place(labelled)
        if family.name in ONE_OF:
            if value:
                self._append(place.series, lines.field(ONE_OF[family.name], place.ends[0]))
            return
        self._append(place.series, lines.field(place.name(family), value))
        for text in place.texts:
            self._append(place.series, text)

    @override
    def add_latency(self, family: Family, labelled: str, counts: list[int]) -> None:
        """Add percentiles of what was counted since the last points, and the sum of all counts."""
        place = self._places.place(labelled)
        name = place.name(family)
        self._append(place.series, lines.field(f"{name}_count", sum(counts)))
        grown = self._places.grown(f"{name}{{{labelled}", counts)
        for label, fraction in QUANTILES.items():
            percentile_ms = grown.percentile_ms(fraction)
            if percentile_ms is not None:
                self._append(place.series, lines.field(f"{name}_{label}", percentile_ms / 1000))

    @override
    def add_histogram(
        self,
        family: Family,
        labelled: str,
        bounds: Sequence[float],
        counts: Sequence[int],
        total: float,
    ) -> None:
        """Add how much was counted, and the sum; buckets would be a series each."""
        place = self._places.place(labelled)
        name = place.name(family)
        self._append(place.series, lines.field(f"{name}_count", sum(counts)))
        self._append(place.series, lines.field(f"{name}_sum", total))

    def _append(self, start: str, text: str | None) -> None:
        if text is not None:
            self._points.setdefault(start, []).append(text)

    def batches(self, at_ms: int) -> list[list[str]]:
        """Return the lines of all points, so many as a request has."""
        whole = [f"{start} {','.join(fields)} {at_ms}" for start, fields in self._points.items()]
        return [whole[first : first + LINES_MAX] for first in range(0, len(whole), LINES_MAX)]
