"""What a status shows of wishes that no driver has carried out yet; pure."""

from __future__ import annotations

from heliostat.status.halted import NO_DRIVER
from heliostat.status.values import LinkStatus
from heliostat.wishes.reading import Remembered

HAS_NO_OWNER = "the link has no owner now: it is carried out once a driver runs the link"
IS_SILENT = "the link's driver does not report: it, or another one, carries it out"
HAS_HALTED = "the link has halted: it is carried out once it begins again"
NOT_USED = {"used_bytes_per_second": 0, "throttled_s": 0.0}


def show_wishes(status: LinkStatus, remembered: Remembered) -> None:
    """Show what is wished of a link that no driver runs, and that it waits if it is new.

    Parameters
    ----------
    status
        The status to change.
    remembered
        What is remembered at the target; a driver that runs reports it itself.
    """
    if status.state not in {*NO_DRIVER, "halted"} or not remembered.wishes:
        return
    reported = status.driver.get("wishes", {})
    if remembered.end <= reported.get("answered", -1):
        return  # it was read before the driver's last report
    wishes = remembered.wishes
    is_new = any((reported.get(key) or None) != (wish or None) for key, wish in wishes.items())
    status.wish = wishes["link"]
    status.paused, status.paused_count = list(wishes["paused"]), wishes["paused_count"]
    status.limits = [{**limit, **NOT_USED} for limit in wishes["limits"]]
    status.preferences = list(wishes["preferences"])
    if is_new:
        reasons = {"halted": HAS_HALTED, "silent": IS_SILENT}
        status.wish_waits = reasons.get(status.state, HAS_NO_OWNER)
