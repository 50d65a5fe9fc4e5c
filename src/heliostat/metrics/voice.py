"""Who writes a link's figures: the service beside its driver, so that no sum counts twice; pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any


class Voice(Enum):
    """What a service tells of a link to those who add figures of several services up."""

    ALL = "all"
    STANDBY = "standby"
    """Its driver waits while another drives the link: only that it stands by."""
    NOTHING = "nothing"
    """It stands alone, and was not told to write of links that run elsewhere."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a driver runs."""

    host: str
    pid: int


def voice_of(owner: Mapping[str, Any], driver: Place | None, *, foreign: bool) -> Voice:
    """Return what a service tells of a link.

    Parameters
    ----------
    owner
        Where the link's driver runs or ran last, as it reported; empty: not known.
    driver
        The driver that the service stands beside; None: it stands alone.
    foreign
        Whether one that stands alone writes nevertheless.
    """
    if driver is None:
        return Voice.ALL if foreign else Voice.NOTHING
    is_other = bool(owner) and (owner.get("host"), owner.get("pid")) != (driver.host, driver.pid)
    return Voice.STANDBY if is_other else Voice.ALL
