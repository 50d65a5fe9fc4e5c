"""Which links a merged topic lacks, and which would carry its records round for ever.

A merging link carries what its source's own producers wrote, and nothing that crossed. So records
of a site get to another one only by the link between these two. A link that does not merge brings
whatever its source has, under a producer id that no row names: its target's merging links would
take that for the site's own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from typing_extensions import override

from heliostat.merge.places import Site
from heliostat.names import LinkName, TopicName


class TopicAt(NamedTuple):
    """A topic of a cluster."""

    site: Site
    topic: TopicName


class Copy(NamedTuple):
    """What a link does with a topic."""

    link: LinkName
    source: TopicAt
    target: TopicAt
    merges: bool


class MissingWay(NamedTuple):
    """Records that a site never gets."""

    topic: TopicName
    origin: Site
    site: Site

    @override
    def __str__(self) -> str:
        """Return it in words."""
        return (
            f"no link merges {self.topic} from {self.origin} to {self.site}: records written at "
            f"{self.origin} never get to {self.site}"
        )


class WrongWay(NamedTuple):
    """A link that leads into a merged topic and does not merge."""

    copy: Copy
    round_by: tuple[Copy, ...] | None
    """The links by which records come to its source from the topic itself, none if it is one of
    its sites; None: they don't come there."""

    @override
    def __str__(self) -> str:
        """Return why it is refused."""
        into = f"{self.copy.target.topic} at {self.copy.target.site}"
        if self.round_by is not None:
            links = [each.link for each in (*self.round_by, self.copy)]
            return f"records of {into} would go round for ever: by {', then '.join(links)}"
        return f"{into} is merged, and {self.copy.link} copies into it without merging"


def merged_sites(copies: Collection[Copy]) -> dict[TopicName, set[Site]]:
    """Return at which sites each merged topic is."""
    found: dict[TopicName, set[Site]] = {}
    for each in copies:
        if each.merges:
            found.setdefault(each.target.topic, set()).update({each.source.site, each.target.site})
    return found


def missing_ways(copies: Collection[Copy]) -> list[MissingWay]:
    """Return for each merged topic which site's records don't get where."""
    there = {(each.source, each.target) for each in copies if each.merges}
    return [
        MissingWay(topic, origin, site)
        for topic, sites in sorted(merged_sites(copies).items())
        for origin in sorted(sites)
        for site in sorted(sites - {origin})
        if (TopicAt(origin, topic), TopicAt(site, topic)) not in there
    ]


def wrong_ways(copies: Collection[Copy]) -> list[WrongWay]:
    """Return the links that lead into merged topics and don't merge, and how they go round."""
    sites = merged_sites(copies)
    found = []
    for each in copies:
        inside = {TopicAt(site, each.target.topic) for site in sites.get(each.target.topic, ())}
        if not each.merges and each.target in inside:
            found.append(WrongWay(each, _way(inside, each.source, copies)))
    return found


def _way(begin: set[TopicAt], end: TopicAt, copies: Collection[Copy]) -> tuple[Copy, ...] | None:
    """Return the shortest way from any of these topics to another one; None: there is none."""
    ways: dict[TopicAt, tuple[Copy, ...]] = dict.fromkeys(begin, ())
    for at in _widening(ways, copies):
        if at == end:
            break
    return ways.get(end)


def _widening(ways: dict[TopicAt, tuple[Copy, ...]], copies: Collection[Copy]) -> Iterator[TopicAt]:
    """Yield topics in the order of their distance, and add those that copies lead to."""
    reached = list(ways)
    for at in reached:  # grows
        yield at
        for each in copies:
            if each.source == at and each.target not in ways:
                ways[each.target] = (*ways[at], each)
                reached.append(each.target)
