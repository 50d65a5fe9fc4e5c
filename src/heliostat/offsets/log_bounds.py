"""Reads from one cluster where logs begin and end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

from heliostat.clusters.admin import EARLIEST, LATEST, ClusterAdmin, TopicInfo
from heliostat.clusters.plain_records import LogBounds
from heliostat.errors import BrokerError
from heliostat.names import Offset, TopicPartition
from heliostat.ops.asked import asked_at_once


def bounds_of(
    admin: ClusterAdmin, partitions: Iterable[TopicPartition], *, confirmed: bool = False
) -> dict[TopicPartition, LogBounds | BrokerError]:
    """Log start and high watermark of each partition, or why its broker does not report them.

    `confirmed` as with `ClusterAdmin.list_offsets`.

    Raises
    ------
    ConnectionLost
        The cluster does not answer.
    """
    wanted = list(partitions)
    ends_of = partial(admin.list_offsets, dict.fromkeys(wanted, LATEST))
    starts_of = partial(admin.list_offsets, dict.fromkeys(wanted, EARLIEST), confirmed=confirmed)
    if confirmed:  # who leads is found out first
        starts, ends = starts_of(), ends_of()
    else:
        starts, ends = asked_at_once({"starts": starts_of, "ends": ends_of}).values()
    bounds: dict[TopicPartition, LogBounds | BrokerError] = {}
    for partition in wanted:
        start, end = starts[partition], ends[partition]
        if isinstance(start, BrokerError):
            bounds[partition] = start
        else:
            bounds[partition] = (
                end
                if isinstance(end, BrokerError)
                else LogBounds(start.offset, max(start.offset, end.offset))
            )
    return bounds


def landed_bounds(
    admin: ClusterAdmin, reached: Mapping[TopicPartition, Offset | int]
) -> dict[TopicPartition, LogBounds | BrokerError]:
    """Do as `bounds_of`, but ask every broker who leads a log that ends before what it reached.

    A deposed leader goes on answering: offsets by its end would move a group back.

    Parameters
    ----------
    reached
        Partitions, with the log end that was reported for each (-1: none was).

    Raises
    ------
    ConnectionLost
        The cluster does not answer.
    """
    all_bounds = bounds_of(admin, reached)
    short = [
        partition
        for partition, bounds in all_bounds.items()
        if not isinstance(bounds, BrokerError) and bounds.end < reached[partition]
    ]
    return all_bounds | bounds_of(admin, short, confirmed=True) if short else all_bounds


def log_ends_of(admin: ClusterAdmin, topics: Iterable[TopicInfo]) -> dict[TopicPartition, Offset]:
    """Log end, including records not replicated yet, of each partition whose broker reports it.

    Mirrors are taken over, handed back and rebuilt by these: the leaders are confirmed.

    Raises
    ------
    ConnectionLost
        The cluster does not answer.
    """
    asked = [TopicPartition(info.name, p.partition) for info in topics for p in info.partitions]
    answers = admin.list_log_ends(asked, confirmed=True) if asked else {}
    return {
        partition: end for partition, end in answers.items() if not isinstance(end, BrokerError)
    }
