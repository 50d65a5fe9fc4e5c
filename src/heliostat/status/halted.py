"""What a status shows of a link that has halted, and of its restarts; pure."""

from __future__ import annotations

from heliostat.status.values import LinkStatus
from heliostat.wishes.restarts import RestartMemory

NO_DRIVER = ("no_owner", "silent", "unknown")


def show_restarts(status: LinkStatus, remembered: RestartMemory | None) -> None:
    """Show how often the link began again, and that it is halted if no driver runs it.

    Parameters
    ----------
    status
        The status to change.
    remembered
        What is remembered at the target; a driver that runs reports it itself.
    """
    if status.state in NO_DRIVER:
        memory = remembered
    else:
        row = status.driver.get("wishes", {}).get("restarts")
        memory = RestartMemory.from_json(row) if row else None
    if memory is None:
        return
    is_halted = memory.is_halted and status.state in NO_DRIVER
    status.restarts = {**memory.to_json(), "text": memory.text(status.at_ms) if is_halted else ""}
    if is_halted:
        status.state = "halted"
