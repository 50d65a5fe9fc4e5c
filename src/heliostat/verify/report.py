"""The report: counts, the first difference, and everything that was not compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from heliostat.verify.align import Difference, Findings
from heliostat.verify.compaction import Compacted
from heliostat.verify.ranges import NO_TARGET_TOPIC, NotCompared, Stretch

SHOWN_PARTITIONS_MAX = 20  # in text; the JSON answer has all


@dataclass(slots=True)
class PartitionResult:
    """One partition's counts; `findings` is empty if both sides are equal."""

    stretch: Stretch
    records: int = 0
    batches_equal: int = 0
    control_batches: int = 0
    aborted_batches: int = 0
    source_holes: int = 0
    target_holes: int = 0
    hole_ranges: list[tuple[int, int]] = field(default_factory=list)
    """Source offsets without a record (markers, aborted, compacted), the first few."""
    findings: Findings = field(default_factory=Findings)
    compacted: Compacted = field(default_factory=Compacted)
    notes: list[str] = field(default_factory=list)

    @property
    def is_remarkable(self) -> bool:
        """Whether the report has details on it."""
        return (
            bool(not self.findings.is_clean or self.notes or self.source_holes or self.target_holes)
            or self.compacted != Compacted()
        )

    def to_json(self) -> dict[str, Any]:
        """Return everything about this partition as a JSON object."""
        found = self.findings
        return {
            "topic": self.stretch.source.topic,
            "target_topic": self.stretch.target.topic,
            "partition": self.stretch.source.partition,
            "start": self.stretch.start,
            "end": self.stretch.end,
            "records": self.records,
            "offsets_equal": found.offsets_equal,
            "lost": found.lost,
            "doubled": found.doubled,
            "reordered": found.reordered,
            "different": found.different,
            "foreign": found.foreign,
            "moved": found.moved,
            "differences": [one.to_json() for one in found.differences],
            "control_batches": self.control_batches,
            "aborted_batches": self.aborted_batches,
            "source_holes": self.source_holes,
            "target_holes": self.target_holes,
            "hole_ranges": [list(one) for one in self.hole_ranges],
            "mapped": not self.stretch.places.is_exact,
            **asdict(self.compacted),
            "notes": self.notes,
        }


@dataclass(slots=True)
class VerifyReport:
    """What `heliostat verify` found."""

    results: list[PartitionResult]
    not_compared: list[NotCompared]
    behind_records: int = 0
    """Source records not copied yet; neither lost nor compared."""
    elapsed_s: float = 0.0
    refused: dict[str, str] = field(default_factory=dict)
    """Source topics that were compared though the link would refuse their mirrors, and why."""

    def _sum(self, name: str) -> int:
        return sum(getattr(one.findings, name) for one in self.results)

    @property
    def records(self) -> int:
        """Number of source records compared."""
        return sum(one.records for one in self.results)

    @property
    def topics(self) -> int:
        """Number of topics of which at least one partition was compared."""
        return len({(one.stretch.source.topic, one.stretch.target.topic) for one in self.results})

    @property
    def lost(self) -> int:
        """Number of source records that the target lacks."""
        return self._sum("lost")

    @property
    def doubled(self) -> int:
        """Number of target records that repeat a source record."""
        return self._sum("doubled")

    @property
    def reordered(self) -> int:
        """Number of records out of order at the target."""
        return self._sum("reordered")

    @property
    def different(self) -> int:
        """Number of target records that were altered, or that the source does not have."""
        return self._sum("different")

    @property
    def compacted(self) -> Compacted:
        """Numbers of records that are on one side only because of compaction."""
        total = Compacted()
        for one in self.results:
            total.add(one.compacted)
        return total

    @property
    def mapped(self) -> int:
        """Number of partitions with an offset map: their offsets differ between the sides."""
        places = {one.stretch.source: one.stretch.places for one in self.results}
        return sum(not each.is_exact for each in places.values())

    @property
    def offsets_equal(self) -> bool:
        """Whether every copied record is at its source offset, or where the map says."""
        return all(one.findings.offsets_equal for one in self.results)

    @property
    def is_clean(self) -> bool:
        """Whether there are no findings, and nothing was left out because of a problem."""
        return (
            not self.says_nothing
            and not self.refused
            and all(one.findings.is_clean for one in self.results)
            and not any(one.is_problem for one in self.not_compared)
        )

    @property
    def says_nothing(self) -> bool:
        """Whether no topic was found, or no record compared though the source has some."""
        has_topics = bool(self.results or self.not_compared)
        return not has_topics or (not self.records and self.behind_records > 0)

    @property
    def first_difference(self) -> dict[str, Any] | None:
        """The first finding by topic, partition and offset; None if there is none."""
        found: list[tuple[tuple[str, int, tuple[int, int]], PartitionResult, Difference]] = [
            ((one.stretch.source.topic, one.stretch.source.partition, first.place), one, first)
            for one in self.results
            for first in one.findings.differences[:1]
        ]
        if not found:
            return None
        _, result, first = min(found, key=lambda item: item[0])
        return {
            "topic": result.stretch.source.topic,
            "target_topic": result.stretch.target.topic,
            "partition": result.stretch.source.partition,
            **first.to_json(),
        }

    def to_json(self) -> dict[str, Any]:
        """Return the whole report as a JSON object; details only of remarkable partitions."""
        return {
            "clean": self.is_clean,
            "topics": self.topics,
            "partitions": len({one.stretch.source for one in self.results}),
            "records": self.records,
            "offsets_equal": self.offsets_equal,
            "lost": self.lost,
            "doubled": self.doubled,
            "reordered": self.reordered,
            "different": self.different,
            "first_difference": self.first_difference,
            "mapped_partitions": self.mapped,
            **asdict(self.compacted),
            "not_copied_yet": self.behind_records,
            "refused": self.refused,
            "not_compared": [one.to_json() for one in self.not_compared],
            "source_only": sorted(
                {one.source for one in self.not_compared if one.reason == NO_TARGET_TOPIC}
            ),
            "details": [one.to_json() for one in self.results if one.is_remarkable],
            "elapsed_s": round(self.elapsed_s, 3),
        }

    def _offsets(self) -> str:
        if not self.offsets_equal:
            return "offsets differ"
        return "offsets as mapped" if self.mapped else "offsets equal"

    def summary_line(self) -> str:
        """Return a one-line summary, which also ends the demo."""
        parts = [
            f"verified: {self.topics:,} topics",
            f"{self.records:,} records",
            self._offsets(),
            f"{self.lost:,} lost",
            f"{self.doubled:,} duplicated",
            f"{self.different:,} different",
        ]
        if self.reordered:
            parts.append(f"{self.reordered:,} reordered")
        gone = self.compacted
        for side, proved, allowed in (
            ("source", gone.compacted_source, gone.expired_source),
            ("target", gone.compacted_target, gone.expired_target),
        ):
            if proved or allowed:
                parts.append(f"{proved:,} compacted and {allowed:,} expired at the {side}")
        if self.behind_records:
            parts.append(f"{self.behind_records:,} not copied yet")
        if problems := sum(one.is_problem for one in self.not_compared):
            parts.append(f"{problems:,} not compared")
        return ", ".join(parts)

    def lines(self) -> list[str]:
        """Return partitions with findings, then what was not compared, then the summary."""
        bad = [one for one in self.results if not one.findings.is_clean]
        out: list[str] = []
        if bad:
            out.append(_row("partition", "records", "lost", "doubled", "reordered", "different"))
        for one in bad[:SHOWN_PARTITIONS_MAX]:
            found = one.findings
            counts = (one.records, found.lost, found.doubled, found.reordered, found.different)
            out.append(_row(str(one.stretch.source), *(f"{count:,}" for count in counts)))
        if len(bad) > SHOWN_PARTITIONS_MAX:
            out.append(f"... and {len(bad) - SHOWN_PARTITIONS_MAX:,} more partitions")
        if first := self.first_difference:
            out.append("first difference: " + _described(first))
        left_out = sorted(self.not_compared, key=lambda one: not one.is_problem)
        for other in left_out[:SHOWN_PARTITIONS_MAX]:
            name = other.source if other.partition is None else f"{other.source}-{other.partition}"
            out.append(f"not compared: {name}: {other.reason} ({other.records:,} records)")
        if len(left_out) > SHOWN_PARTITIONS_MAX:
            out.append(f"... and {len(left_out) - SHOWN_PARTITIONS_MAX:,} more not compared")
        out += [f"the link refuses {name}: {why}" for name, why in self.refused.items()]
        if self.says_nothing:
            out.append("nothing was compared: no selected topic has a mirror with records")
        return [*out, self.summary_line()]


def joined(reports: Sequence[VerifyReport]) -> VerifyReport:
    """Join several links' reports into one."""
    return VerifyReport(
        results=[one for report in reports for one in report.results],
        not_compared=[one for report in reports for one in report.not_compared],
        behind_records=sum(report.behind_records for report in reports),
        elapsed_s=sum(report.elapsed_s for report in reports),
        refused={name: why for report in reports for name, why in report.refused.items()},
    )


def _row(name: str, *cells: str) -> str:
    return f"{name:<48}" + "".join(f"{cell:>12}" for cell in cells)


def _described(first: dict[str, Any]) -> str:
    where = f"{first['topic']}-{first['partition']}"
    offsets = f"source offset {first['source_offset']}, target offset {first['target_offset']}"
    what = first["kind"] if first["field"] is None else f"{first['kind']} {first['field']}"
    return f"{where}, {offsets}: {what}; source: {first['source']}; target: {first['target']}"
