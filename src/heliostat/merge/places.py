"""Where a consumer group goes on that moves between sites of a merged topic; what it reads again.

What a group has read of a partition is, of each site, all that the site's producers wrote before
some offset there: both sites keep each site's order. At the other site it goes on at the first
record that it has not read. Behind that place are records that it has: it reads these again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, NewType

from heliostat.merge.crossing import Crossing
from heliostat.names import Offset

Site = NewType("Site", str)
"""A cluster that has the topic, by its alias."""
ReadTo = Mapping[Site, Offset]
"""Offset at each site before which all records of its own producers have been read."""


class Place(NamedTuple):
    """Where a group goes on."""

    offset: Offset
    again: int
    """How many records behind it the group has read already; where a log has offsets without
    records, at most so many."""


class Published(NamedTuple):
    """A place that a group was given at a site, and what it had read then."""

    offset: Offset
    read_to: ReadTo


def read_to(site: Site, offset: Offset, into: Mapping[Site, Crossing]) -> dict[Site, Offset]:
    """Return what a group has read that stands at an offset of a site.

    Parameters
    ----------
    site, offset
        Where it goes on there.
    into
        What has crossed to this site, by where it is from.
    """
    return {site: offset} | {origin: each.at_source(offset) for origin, each in into.items()}


def with_earlier(now: ReadTo, offset: Offset, published: Published | None) -> ReadTo:
    """Return what a group has read that also read elsewhere before it came.

    A group that stands before the offset it was given was reset: it wants to read again.
    """
    if published is None or offset < published.offset:
        return now
    earlier = published.read_to
    return {site: max(at, earlier.get(site, at)) for site, at in now.items()}


def place_at(site: Site, read: ReadTo, into: Mapping[Site, Crossing], end: Offset) -> Place:
    """Return where at a site a group goes on.

    Parameters
    ----------
    site
        Where it goes on.
    read
        What it has read; sites that are not named: nothing.
    into
        What has crossed to this site, by where it is from.
    end
        The partition's end at this site, read before the crossings were.
    """
    own = _own_from(read.get(site, Offset(0)), into, end)
    places = [own]
    for origin, each in into.items():
        number = each.before(read.get(origin, Offset(0)))
        if number < each.landed.before(own):  # else it lies behind that place
            places.append(each.landed.place_of(number))
    offset = min([end, *places])
    return Place(offset, read_behind(offset, site, read, into, end))


def read_behind(
    offset: Offset, site: Site, read: ReadTo, into: Mapping[Site, Crossing], end: Offset
) -> int:
    """Return how many records at or behind an offset of a site a group has read already.

    Parameters
    ----------
    offset
        The offset.
    site, read, into, end
        As for `place_at`.
    """
    own = _own_from(read.get(site, Offset(0)), into, end)
    crossed = sum(each.between(offset, own) for each in into.values())
    return (
        max(0, own - offset)
        - crossed
        + sum(
            max(0, each.before(read.get(origin, Offset(0))) - each.landed.before(offset))
            for origin, each in into.items()
        )
    )


def as_it_stands(place: Place, stands: Offset, again_now: int, start: Offset) -> Place:
    """Return the place of a group, or where it stands already if that comes to the same.

    A cleaner may have taken what was between. An earlier look at the log, which is kept, had the
    former place: without this the group would be moved there and back for ever.

    Parameters
    ----------
    stands
        Where it begins at the site now.
    again_now
        How many records from there on it has read already.
    start
        The log's start: who stands there may have no offset at all.
    """
    is_same = start < stands < place.offset and again_now == place.again
    return Place(stands, again_now) if is_same else place


def _own_from(offset: Offset, into: Mapping[Site, Crossing], end: Offset) -> Offset:
    """Return the first offset from here on at which no record is that has crossed."""
    while offset < end:
        behind = max((each.landed.behind_run(offset) for each in into.values()), default=offset)
        if behind == offset:
            break
        offset = behind
    return min(offset, end)
