"""Which fence would hold in a failover now, and how long it takes; pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from heliostat.handover.promotion import FencedBy
from heliostat.records.copier.partition_appends import LANDS_WITHIN_S
from heliostat.state.ownership import owner_lasts_s

OWNER_ANSWERS_S = 5.0
"""An owner that is well gives its partitions up within a second; this is how long it may take."""
LAST_CHANCE_S = 1.0
"""For one that was silent before: as long as until the next report of one that is well."""
RULES_WITHIN_S = 4.0
"""Until each broker shows rules, and has appended what it allowed before."""
CLAIM_S = 2.0
"""For reading and writing the link's state."""
USUAL_LEASE_S = 20.0
"""Of drivers that do not tell theirs."""
NO_OWNER = ("no_owner", "unknown")
WELL = ("running", "paused", "stopped")


@dataclass(frozen=True, slots=True)
class FenceForecast:
    """What keeps the link out of mirrors that a failover gives away."""

    by: FencedBy
    """`owner`: the link's driver gives them up; `deny_rule`: the target's brokers deny the link to
    write there; `lease`: its leases are waited out."""
    within_s: float
    """Seconds that this takes at most, if nothing changes meanwhile."""

    def text(self) -> str:
        """Return it in words."""
        if self.by is FencedBy.OWNER:
            return f"the link's driver answers, within {self.within_s:.0f} s"
        if self.by is FencedBy.DENY_RULE:
            return f"the target's brokers deny the link to write, within {self.within_s:.0f} s"
        return f"leases, and what may still land, are waited out: {self.within_s:.0f} s"


FENCE_NOT_KNOWN = FenceForecast(FencedBy.LEASE, 0.0)


def fence_forecast(
    state: str, driver: Mapping[str, Any], *, can_deny: bool = False
) -> FenceForecast:
    """Return which fence would hold of a link in this state, by its driver's last report.

    `can_deny`: whether rules can keep the link out.
    """
    if state in WELL:
        return FenceForecast(FencedBy.OWNER, OWNER_ANSWERS_S)
    if can_deny:
        return FenceForecast(FencedBy.DENY_RULE, LAST_CHANCE_S + RULES_WITHIN_S)
    lease_s = float(driver.get("lease_s", USUAL_LEASE_S))
    left_s = 0.0 if state in NO_OWNER else LAST_CHANCE_S + owner_lasts_s(lease_s)
    return FenceForecast(FencedBy.LEASE, round(left_s + LANDS_WITHIN_S + CLAIM_S, 1))
