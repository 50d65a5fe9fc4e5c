"""How much of a partition is missing at the target, and how old the oldest of it is; pure.

What is not known is never shown as zero: a lag is exact, or at least so much, or not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from heliostat.names import TopicPartition
from heliostat.records.copier.lane import PartitionCode, PartitionReport


class Reading(Enum):
    """How far a partition's last report still holds."""

    CURRENT = "current"
    """Its lane reports."""
    ENDED = "ended"
    """Nothing is copied since: the position holds, and the source may have more by now."""
    OUTDATED = "outdated"
    """It may have been copied further since."""


@dataclass(frozen=True, slots=True)
class BothEnds:
    """Where both logs of a partition end, as read for a status."""

    source: int
    """High watermark."""
    target: int
    """Log end offset."""
    written_ms: int = -1
    """Timestamp of the first record that is missing (-1: none is, or it was not read)."""


Ends = Mapping[TopicPartition, BothEnds]
"""By source partition."""


@dataclass(frozen=True, slots=True)
class Lag:
    """A lag in records and seconds; None: not known.

    Parameters
    ----------
    records
        Records that are missing.
    age_s
        Age of the oldest of them, by its timestamp.
    unknown
        Partitions that may lack more than that.
    """

    records: int | None
    age_s: float | None
    unknown: int = 0


NOT_KNOWN, LEVEL = Lag(None, None, 1), Lag(0, 0.0)


def missing_records(item: PartitionReport) -> int:
    """Return the number of records missing that could be copied; 0 while unknown."""
    if not item.is_known:
        return 0
    return max(0, item.high_watermark - item.open_records - item.position)


def lag_of(
    item: PartitionReport, reading: Reading, now_ms: int, ends: BothEnds | None = None
) -> Lag:
    """Return the lag of a partition.

    Parameters
    ----------
    item
        Its last report.
    reading
        How far that holds.
    now_ms
        Wall clock.
    ends
        Where its logs end now, if they were read.
    """
    if reading is not Reading.CURRENT and ends is not None:
        return _read(item, ends, now_ms)
    if not item.is_known or reading is Reading.OUTDATED:
        return NOT_KNOWN
    records = missing_records(item)
    is_exact = reading is Reading.CURRENT and not item.is_end_old
    if not records:
        return LEVEL if is_exact else NOT_KNOWN
    return Lag(records, _age_s(item.missing_ms, now_ms), 0 if is_exact else 1)


def is_lost_as_lag(item: PartitionReport, reading: Reading) -> bool:
    """Return whether a partition's loss is its lag, as of nearly all: a link has thousands."""
    return (
        reading is Reading.CURRENT
        and not item.open_records
        and 0 <= item.position <= item.high_watermark
        and item.code != PartitionCode.SOURCE_TRUNCATED
    )


def loss_of(
    item: PartitionReport,
    reading: Reading,
    now_ms: int,
    ends: BothEnds | None = None,
    open_since_ms: int = -1,
) -> Lag:
    """Return what a partition's source has and its mirror has not, to the end of the source's log.

    Unlike in the lag, records after the beginning of an open transaction count: they are lost with
    the source, whatever becomes of the transaction.

    Parameters
    ----------
    item, reading, now_ms, ends
        As for `lag_of`.
    open_since_ms
        When the transaction began that holds back the first of them (-1: none does, or not known).
    """
    if reading is not Reading.CURRENT and ends is not None:
        loss = _read(item, ends, now_ms)
    elif reading is Reading.OUTDATED or not 0 <= item.position <= item.high_watermark:
        return NOT_KNOWN  # beyond its end: the source lost what was copied, and may have other
    else:
        loss = _to_log_end(item, now_ms, open_since_ms)
        if reading is not Reading.CURRENT or item.is_end_old:
            loss = Lag(loss.records, loss.age_s, 1) if loss.records else NOT_KNOWN
    if item.code == PartitionCode.SOURCE_TRUNCATED:  # below the position it may have other records
        return Lag(loss.records, loss.age_s, 1) if loss.records else NOT_KNOWN
    return loss


def _to_log_end(item: PartitionReport, now_ms: int, open_since_ms: int) -> Lag:
    records = item.high_watermark - item.position
    if not records:
        return LEVEL
    return Lag(records, _age_s(item.missing_ms if missing_records(item) else open_since_ms, now_ms))


def position_of(item: PartitionReport, target_end: int) -> int | None:
    """Return a partition's position by where its mirror ends now; None: not known.

    If it ends elsewhere than reported, it was copied on: then only equal offsets tell the position.
    """
    if target_end == item.target_end:
        return item.position if item.position >= 0 else None
    has_equal_offsets = not item.breaks and item.target_end == item.position >= 0
    return target_end if has_equal_offsets else None


def _read(item: PartitionReport, ends: BothEnds, now_ms: int) -> Lag:
    """Return the lag by both logs' ends."""
    position = position_of(item, ends.target)
    if position is None or ends.source < position:  # the source lost what was copied, or is another
        return NOT_KNOWN
    if ends.source == position:
        return LEVEL
    return Lag(ends.source - position, _age_s(ends.written_ms, now_ms))


def _age_s(written_ms: int, now_ms: int) -> float | None:
    return max(0.0, (now_ms - written_ms) / 1000) if written_ms >= 0 else None


def summed(lags: Iterable[Lag]) -> Lag:
    """Return the lag of several partitions together.

    Where some are not known the rest is a bound, and nothing is no bound. The age is not known
    where that of some missing record is not.
    """
    every = list(lags)
    unknown = sum(lag.unknown for lag in every)
    records = sum(lag.records or 0 for lag in every)
    behind = [lag.age_s for lag in every if lag.records]
    ages = [age_s for age_s in behind if age_s is not None]
    if unknown and not records:
        return Lag(None, None, unknown)
    return Lag(records, max(ages, default=0.0) if len(ages) == len(behind) else None, unknown)
