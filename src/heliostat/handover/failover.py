"""What a failover did, or would do: as a value, as JSON, and as Markdown; pure.

Nobody can know what a source that is gone had at its end. So what is missing is what is known to
have existed: at least so much, as of when it was seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from heliostat.handover.drain import Drained
from heliostat.handover.fence_forecast import FenceForecast
from heliostat.handover.moved_groups import MovedGroup
from heliostat.handover.opening import Opened
from heliostat.handover.promotion import FencedBy, PartitionPromotion, PromotedBy
from heliostat.handover.still_open import NONE_OPEN, StillOpen
from heliostat.names import LinkName, TopicName, TopicPartition
from heliostat.ops.shown import time_text

ROWS = 20
"""Rows of a kind that are shown on a screen; a file has all."""
IN_PART = (
    "a transaction over several partitions may have arrived in part: its records are at the target "
    "in some of them and missing in others"
)
UNFENCED = (
    "The source is not fenced: if it still runs, or comes back, producers may still write there, "
    "and what they write is not copied."
)


NOT_OPEN = (
    "As far as is noted, rights that were held back are not granted, or the registry is not open "
    "to producers: call it again, it does what is left."
)


@dataclass(frozen=True, slots=True)
class MirrorPartition:
    """One partition of a mirror, and where it ended."""

    source: TopicPartition
    target: TopicPartition
    at: PartitionPromotion
    how: PromotedBy = PromotedBy.FAILOVER

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        sighting = self.at.seen
        return {
            "source": self.source.topic,
            "partition": self.source.partition,
            "target": self.target.topic,
            "target_partition": self.target.partition,
            "copied_to": self.at.source_end,
            "target_end": self.at.target_end,
            "known_end": None if sighting is None else sighting.end,
            "known_ms": None if sighting is None or sighting.at_ms < 0 else sighting.at_ms,
            "missing": self.at.missing,
        }

    def seen_text(self) -> str:
        """Return in words where the source ended when it was last seen."""
        sighting = self.at.seen
        if sighting is None:
            return "not known"
        when = "at a time not known" if sighting.at_ms < 0 else f"at {time_text(sighting.at_ms)}"
        return f"{sighting.end:,} {when}"


@dataclass(frozen=True, slots=True)
class FailoverReport:
    """What became of a failover.

    Parameters
    ----------
    link, by, why, at_ms
        Of which link, who did it, why, and when it began.
    is_tried
        Whether nothing was changed, as it was only asked what would be done.
    forecast
        Which fence would hold, as it was known beforehand.
    fenced_by
        Which one did; None: it was only tried.
    drained
        What waiting for the rest came to; None: it was not waited.
    partitions
        Where each partition ended.
    transactions
        Open at the source when it was last seen.
    groups
        As they are at the target.
    is_group_sync_on
        Whether the link publishes offsets of groups.
    took_s
        By step.
    is_source_fenced
        Whether nothing is written at the source any more, as whoever fenced it noted.
    opening
        What opening the target to producers came to, or would; none: it is told by rows.
    is_target_open
        Whether all of it was opened.
    """

    link: LinkName
    by: str
    why: str
    at_ms: int
    is_tried: bool
    forecast: FenceForecast
    fenced_by: FencedBy | None
    drained: Drained | None
    partitions: tuple[MirrorPartition, ...]
    transactions: StillOpen = NONE_OPEN
    groups: tuple[MovedGroup, ...] = ()
    is_group_sync_on: bool = False
    took_s: Mapping[str, float] = field(default_factory=dict)
    is_source_fenced: bool = False
    opening: tuple[Opened, ...] = ()
    is_target_open: bool = False

    @property
    def missing(self) -> int:
        """Records that are known and missing, of all partitions of which it is known."""
        return sum(partition.at.missing or 0 for partition in self.partitions)

    @property
    def not_known(self) -> int:
        """Partitions of which nothing is known."""
        return sum(partition.at.missing is None for partition in self.partitions)

    @property
    def topics(self) -> dict[TopicName, int]:
        """What is known to be missing of each topic."""
        sums: dict[TopicName, int] = {}
        for partition in self.partitions:
            sums[partition.source.topic] = sums.get(partition.source.topic, 0) + (
                partition.at.missing or 0
            )
        return sums

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "link": self.link,
            "by": self.by,
            "why": self.why,
            "at_ms": self.at_ms,
            "is_tried": self.is_tried,
            "forecast": {"by": self.forecast.by.value, "within_s": self.forecast.within_s},
            "fenced_by": None if self.fenced_by is None else self.fenced_by.value,
            "is_source_fenced": self.is_source_fenced,
            "opening": [outcome.to_json() for outcome in self.opening],
            "is_target_open": self.is_target_open,
            "drained": None if self.drained is None else self.drained.to_json(),
            "missing": self.missing,
            "partitions_not_known": self.not_known,
            "topics": [{"source": name, "missing": count} for name, count in self.topics.items()],
            "partitions": [partition.to_json() for partition in self.partitions],
            "transactions": [transaction.to_json() for transaction in self.transactions.named],
            "transactions_not_named": self.transactions.unnamed,
            "groups": [group.to_json() for group in self.groups],
            "groups_sync": self.is_group_sync_on,
            "took_s": {step: round(took_s, 3) for step, took_s in self.took_s.items()},
        }

    def lines(self) -> Iterator[str]:
        """Yield lines for people, of many rows the first."""
        yield self._first_line()
        yield self._fence_line()
        yield from (f"  {line}" for line in self._opening_lines())
        if self.drained is not None:
            yield f"  copied before: {self.drained.text()}"
        yield f"  missing at the target: {self._missing_text()}"
        behind = [partition for partition in self.partitions if partition.at.missing != 0]
        for partition in behind[:ROWS]:
            yield f"    {partition.source}: {_missing_of(partition)}"
        yield from _more(len(behind))
        if self.transactions:
            yield f"  open at the source when it was last seen; {IN_PART}:"
            lines = list(self.transactions.lines())
            yield from (f"    {line}" for line in lines[:ROWS])
            yield from _more(len(lines))
        yield f"  groups: {self._groups_text()}"
        yield from (f"    {group.group}: {group.text()}" for group in self.groups[:ROWS])
        yield from _more(len(self.groups))
        if not self.is_source_fenced:
            yield f"  {UNFENCED}"

    def markdown(self) -> str:
        """Return it as a document, with all rows."""
        return "\n".join(self._markdown()) + "\n"

    def _markdown(self) -> Iterator[str]:
        yield f"# Failover of link {self.link}"
        yield ""
        yield f"- {self._first_line()}"
        yield f"- {self._fence_line().strip()}"
        yield from (f"- {line}" for line in self._opening_lines())
        yield f"- By {self.by}, begun at {time_text(self.at_ms)}" + (
            f": {self.why}" if self.why else ""
        )
        if self.drained is not None:
            yield f"- Copied before: {self.drained.text()}"
        yield f"- Missing at the target: {self._missing_text()}"
        if not self.is_source_fenced:
            yield f"- {UNFENCED}"
        if self.took_s:
            steps = ", ".join(f"{step} {took_s:.1f} s" for step, took_s in self.took_s.items())
            yield f"- Took: {steps}"
        yield from ["", "## Partitions", ""]
        yield from _table(
            ("source", "copied to", "source's end when last seen", "missing", "mirror", "its end"),
            (
                (
                    str(partition.source),
                    f"{partition.at.source_end:,}",
                    partition.seen_text(),
                    _count_text(partition.at.missing),
                    str(partition.target),
                    f"{partition.at.target_end:,}",
                )
                for partition in self.partitions
            ),
        )
        yield from ["", "## Transactions open at the source when it was last seen", ""]
        if self.transactions:
            yield f"Each counts among what is missing; {IN_PART}."
            yield ""
            yield from (f"- {line}" for line in self.transactions.lines())
        else:
            yield f"None is known. If there was one, {IN_PART}."
        yield from ["", "## Groups", "", f"{self._groups_text()}."]
        if self.groups:
            yield ""
            yield from _table(
                ("group", "published last", "reads again, as measured", "at most"),
                (
                    (
                        group.group,
                        time_text(group.published_ms),
                        _count_text(group.again),
                        f"{group.at_most:,}",
                    )
                    for group in self.groups
                ),
            )

    def _first_line(self) -> str:
        count = f"{len(self.topics):,} mirrors ({len(self.partitions):,} partitions)"
        if self.is_tried:
            return f"link {self.link}: {count} would be given away; nothing was changed"
        rest = ", and may be written" if self.is_target_open else "; not all is open to producers"
        return f"link {self.link}: {count} are given away{rest}"

    def _fence_line(self) -> str:
        if self.fenced_by is None and self.is_tried:
            return f"  fence: {self.forecast.text()}"
        if self.fenced_by is None:
            return "  fence: it has held; which one, only the report of that run tells"
        took = f", {self.took_s['fence']:.1f} s" if "fence" in self.took_s else ""
        words = {
            FencedBy.OWNER: "the link's driver has given them up",
            FencedBy.DENY_RULE: (
                "no driver answered; every broker denies the link's principal to write into them "
                "(call it again once a driver runs, or hours later: that lifts the rules)"
            ),
            FencedBy.LEASE: "no driver answered; its leases were waited out",
        }
        return f"  fence: {words[self.fenced_by]}{took}"

    def _opening_lines(self) -> Iterator[str]:
        yield from (outcome.line() for outcome in self.opening)
        if not self.is_tried and not self.is_target_open:
            yield NOT_OPEN

    def _missing_text(self) -> str:
        rest = f"; of {self.not_known:,} partitions nothing is known" if self.not_known else ""
        return f"at least {self.missing:,} records{rest}"

    def _groups_text(self) -> str:
        if not self.is_group_sync_on:
            return "offsets are not published (groups.sync is off): each begins as it is configured"
        if not self.groups:
            return "no offsets were published for these mirrors"
        noun = "group resumes" if len(self.groups) == 1 else "groups resume"
        return f"{len(self.groups):,} {noun} where its offsets were published last"


def _missing_of(partition: MirrorPartition) -> str:
    if partition.at.missing is None:
        return "not known: its source was not seen within the last hour"
    return (
        f"at least {partition.at.missing:,} records, copied to {partition.at.source_end:,} of "
        f"{partition.seen_text()}"
    )


def _count_text(count: int | None) -> str:
    return "not known" if count is None else f"{count:,}"


def _more(count: int) -> Iterator[str]:
    if count > ROWS:
        yield f"    … {count - ROWS} more (--report FILE, --json)"


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield "| " + " | ".join(row) + " |"
