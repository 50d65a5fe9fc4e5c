"""Source topics written by links: which may be mirrored further, and which would form a cycle.

A mirror's record says where its records have been: the topic they were copied from, and where that
one was copied from (`Feed.places`). So names don't matter: what has been at our target does not go
there again, whatever way it came. A mirror of a mirror without a cycle is like any other topic.

Links that begin at the same time may not see each other. So each first makes its claim durable,
then looks again before it copies. A link that has begun to copy continues; if all have only
claimed, the link whose target has the smallest cluster id of the ring gives up its claim.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from heliostat.config import LinkConfig
from heliostat.names import TopicId, TopicName, is_another
from heliostat.topics.topic_plan import RefusalCode, RefusedTopic
from heliostat.topics.values import ClusterTopic, Feed, MirrorRecord


class Stage(Enum):
    """How far one of our mirrors is."""

    NEW = "new"
    """There is no record of it yet."""
    CLAIMED = "claimed"
    """The state has a record of it, and nothing was copied."""
    BEGUN = "begun"
    """It may have been copied."""


@dataclass(frozen=True, slots=True)
class MirrorLoop:
    """Why a topic is not mirrored now.

    Parameters
    ----------
    feed
        The other link's mirror.
    comes_back
        Whether our source topic comes from our target; otherwise our mirror is copied back into
        another topic of our source.
    gives_way
        Whether this link gives up its claim; otherwise it waits until the other one has.
    """

    feed: Feed
    comes_back: bool
    gives_way: bool


class Made(Protocol):
    """A topic as a cluster reports it."""

    @property
    def topic_id(self) -> TopicId | None:
        """None before Kafka 2.8."""


def stage_of(record: MirrorRecord | None, *, has_begun: bool) -> Stage:
    """How far a mirror is, by its record."""
    if record is None:
        return Stage.NEW
    return Stage.BEGUN if has_begun else Stage.CLAIMED


def carried(feeds: Iterable[Feed], *, merges: bool) -> list[Feed]:
    """Return those whose records a link would carry on: of merged ones a link that merges none."""
    return [feed for feed in feeds if not (merges and feed.record.is_merged)]


class Feeds:
    """Mirrors of other links at a source, indexed by topic and by where their records have been."""

    def __init__(self, feeds: Iterable[Feed]) -> None:
        self._into: dict[TopicName, list[Feed]] = defaultdict(list)
        self._been: dict[ClusterTopic, list[Feed]] = defaultdict(list)
        for feed in feeds:
            self._into[feed.record.target].append(feed)
            for place in feed.places:
                self._been[place].append(feed)

    def through(self, topic: TopicName, stage: Stage) -> tuple[ClusterTopic, ...]:
        """Where a source topic's records have been, nearest first; empty if it is their origin.

        A mere claim of another link does not count if we have begun to copy: the other link gives
        up then.
        """
        feeds = [
            feed for feed in self._into.get(topic, ()) if feed.has_begun or stage is not Stage.BEGUN
        ]
        return tuple(dict.fromkeys(place for feed in feeds for place in feed.places))

    def loop_of(
        self, source: ClusterTopic, mirror: ClusterTopic, stage: Stage, *, made: Made | None
    ) -> MirrorLoop | None:
        """Return the cycle that copying `source` to `mirror` would close; None if there is none.

        Parameters
        ----------
        made
            The mirror's topic as observed; None if it does not exist.
        """
        for feed in self._into.get(source.topic, ()):
            loop = _comes_back(feed, source, mirror, stage)
            if loop is not None:
                return loop
        if stage is Stage.BEGUN or made is None:
            return None
        for feed in self._been.get(mirror, ()):
            if feed.record.target != source.topic and _is_of(feed, mirror, made.topic_id):
                waits = stage is Stage.CLAIMED and not feed.has_begun
                return MirrorLoop(feed, comes_back=False, gives_way=not waits)
        return None


def _comes_back(
    feed: Feed, source: ClusterTopic, mirror: ClusterTopic, stage: Stage
) -> MirrorLoop | None:
    clusters = [place.cluster for place in feed.places]
    if mirror.cluster not in clusters or (stage is Stage.BEGUN and not feed.has_begun):
        return None
    is_ring = mirror in feed.places
    if stage is Stage.NEW or not is_ring or (stage is Stage.CLAIMED and feed.has_begun):
        return MirrorLoop(feed, comes_back=True, gives_way=True)
    around = {source.cluster, *clusters[: feed.places.index(mirror) + 1]}
    return MirrorLoop(feed, comes_back=True, gives_way=mirror.cluster == min(around))


def _is_of(feed: Feed, mirror: ClusterTopic, now: TopicId | None) -> bool:
    """Whether it was copied from this topic, not from an earlier one of the same name."""
    return feed.places[0] != mirror or not is_another(feed.record.source_id, now)


def left_out_words(loop: MirrorLoop, link: LinkConfig) -> str:
    """Say in a few words why a topic is not mirrored."""
    more = len(loop.feed.record.through)
    way = f", by way of {more} more topic(s)" if more else ""
    return f"its records come from {link.target}: link {loop.feed.link} made it{way}"


def cycle_refusal(loop: MirrorLoop, link: LinkConfig, mirror: TopicName) -> RefusedTopic:
    """Say why a topic is refused, and what to do about it."""
    other = loop.feed.link
    what = (
        left_out_words(loop, link)
        if loop.comes_back
        else f"{mirror} is mirrored back to {link.source}, as {loop.feed.record.target} by link "
        f"{other}"
    )
    if not loop.gives_way:
        return RefusedTopic(
            RefusalCode.CYCLE,
            f"{what}; this link waits until that one has given it up",
            f"run {other} again, or leave the topic out there and delete "
            f"heliostat.{other}.state at {link.source} when that link is stopped",
        )
    return RefusedTopic(
        RefusalCode.CYCLE,
        f"{what}; its records would return to where they come from",
        f"leave it out (topics.exclude). To change the direction stop link {other} and delete "
        f"heliostat.{other}.state at {link.source}: it gives up all its mirrors then",
    )
