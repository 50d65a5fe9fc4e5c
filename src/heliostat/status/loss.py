"""What would be lost if a link's source were gone this moment, and read again; pure.

A figure is never better than the truth: it is exact, at least so much, or not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from heliostat.status.lag import Lag, summed

Truth: TypeAlias = Literal["exact", "bound", "not_known"]
LOOKED_AGAIN_S = 60.0
"""A driver looks at groups more often; figures that are older are a bound."""


def truth_of(figure: int | None, *, is_bound: bool) -> Truth:
    """Return how true a figure is."""
    if figure is None:
        return "not_known"
    return "bound" if is_bound else "exact"


@dataclass(frozen=True, slots=True)
class Loss:
    """What a source has and its target has not; offsets are counted, to the end of its logs."""

    records: int | None
    """Records that would be lost (null: not known)."""
    age_s: float | None
    """Age of the oldest of them, by its timestamp (null: not known)."""
    truth: Truth
    """`exact`; `bound`: at least so much; or `not_known`."""

    @property
    def lag(self) -> Lag:
        """The same, to be summed up."""
        return Lag(self.records, self.age_s, int(self.truth != "exact"))

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {"records": self.records, "age_s": self.age_s, "truth": self.truth}

    def text(self) -> str:
        """Return it in words."""
        if self.records is None:
            return "not known"
        age = f", the oldest {self.age_s:.1f} s old" if self.records and self.age_s else ""
        noun = "record" if self.records == 1 else "records"
        return f"{_least(self.truth)}{self.records:,} {noun}{age}"


LOSS_NOT_KNOWN = Loss(None, None, "not_known")


def loss_from(lag: Lag, absent: int = 0) -> Loss:
    """Return a lag to the logs' ends as a loss.

    Parameters
    ----------
    lag
        The lag.
    absent
        Selected topics that have no mirror: they would be lost as a whole.
    """
    is_bound = bool(lag.unknown or absent)
    return Loss(lag.records, lag.age_s, truth_of(lag.records, is_bound=is_bound))


def summed_losses(losses: Iterable[Loss]) -> Loss:
    """Return several losses as one."""
    return loss_from(summed(loss.lag for loss in losses))


@dataclass(frozen=True, slots=True)
class Rereads:
    """What consumer groups would read again if they moved to the target this moment."""

    records: int | None
    """Records, of all groups together (null: not known)."""
    truth: Truth
    """`exact`; `bound`: at least so many, as groups read on; or `not_known`."""
    groups: int
    """How many groups would read something again."""
    unknown: int
    """Groups of which it is not known, and brokers that did not list theirs."""
    at_ms: int
    """When the groups were looked at, in ms since the epoch."""
    most: dict[str, int]
    """Groups with the most records, by their names at the source; 20 at most."""
    is_synced: bool
    """Whether the link publishes their offsets."""

    def text(self) -> str:
        """Return it in words."""
        if self.records is None:
            return "not known"
        noun = "record" if self.records == 1 else "records"
        least = _least(self.truth)
        if not self.records:
            return f"{least}0 records"
        groups = f"{self.groups:,} group" + ("" if self.groups == 1 else "s")
        return f"{least}{self.records:,} {noun}, by {groups}"


def rereads_of(driver: Mapping[str, Any], now_ms: int, *, is_running: bool) -> Rereads | None:
    """Return what the driver's last report tells of groups; None: it tells nothing.

    Parameters
    ----------
    driver
        The report.
    now_ms
        Wall clock.
    is_running
        Whether the driver reports; if not, groups may have read on since.
    """
    groups: Mapping[str, Any] = driver.get("groups", {})
    rows: Mapping[str, Any] | None = groups.get("rereads")
    at_ms = int(groups.get("last_turn_ms", 0))
    if not rows or not at_ms:
        return None
    unknown = int(rows["unknown"])
    records = None if unknown and not rows["records"] else int(rows["records"])
    is_late = not is_running or now_ms - at_ms > LOOKED_AGAIN_S * 1000
    if is_late and not records:
        records = None
    return Rereads(
        records,
        truth_of(records, is_bound=bool(is_late or unknown or rows["moving"])),
        int(rows["groups"]),
        unknown,
        at_ms,
        dict(rows["most"]),
        bool(rows["sync"]),
    )


def loss_line(loss: Loss, without_mirror: int, rereads: Rereads | None) -> str:
    """Return what would be lost and read again, as one line."""
    text = f"would be lost now: {loss.text()}"
    if without_mirror:
        noun = "topic that has" if without_mirror == 1 else "topics that have"
        text += f", and all of {without_mirror:,} {noun} no mirror"
    if rereads is None:
        return text
    return f"{text}; groups would read again: {rereads.text()}"


def _least(truth: Truth) -> str:
    return "at least " if truth == "bound" else ""
