"""Topics of the source that links have made: which may be mirrored on, which would come back.

A mirror's record says where its records have been: the topic they were copied from, and where that
one had them from (`Feed.places`). So no name decides: what has been at our target does not go there
again, by whatever way it came, and a mirror of a mirror that closes no circle is like any topic.

Of links that begin at the same time each may find nothing. So each makes its claim durable first
and looks again before it copies; whoever has begun to copy stays, and of claims alone the link
lets go whose target has the smallest cluster id of the ring.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from heliostat.config import LinkConfig
from heliostat.names import TopicId, TopicName, is_another
from heliostat.topics.topic_plan import Refusal, RefusalCode
from heliostat.topics.values import ClusterTopic, Feed, MirrorRecord


class Stage(Enum):
    """How far a mirror of ours is."""

    NEW = "new"
    """Nothing says yet that it is to be."""
    CLAIMED = "claimed"
    """The state says so, and nothing was copied."""
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
        Whether our source topic comes from our target; else our mirror is copied back into another
        topic of our source.
    gives_way
        Whether it is us who let go; else we wait until the other one has.
    """

    feed: Feed
    comes_back: bool
    gives_way: bool


class Made(Protocol):
    """A topic as a cluster shows it."""

    @property
    def topic_id(self) -> TopicId | None:
        """None before Kafka 2.8."""


def stage_of(record: MirrorRecord | None, *, has_begun: bool) -> Stage:
    """How far a mirror is, by what is remembered of it."""
    if record is None:
        return Stage.NEW
    return Stage.BEGUN if has_begun else Stage.CLAIMED


class Feeds:
    """What links have made at a source, found by topic and by where it has been."""

    def __init__(self, feeds: Iterable[Feed]) -> None:
        self._into: dict[TopicName, list[Feed]] = defaultdict(list)
        self._been: dict[ClusterTopic, list[Feed]] = defaultdict(list)
        for feed in feeds:
            self._into[feed.record.target].append(feed)
            for place in feed.places:
                self._been[place].append(feed)

    def through(self, topic: TopicName, stage: Stage) -> tuple[ClusterTopic, ...]:
        """Where a source topic's records have been, nearest first; empty if they began there.

        A claim that only others have made counts for nothing where copying has begun: it is the one
        that lets go.
        """
        feeds = [
            feed for feed in self._into.get(topic, ()) if feed.has_begun or stage is not Stage.BEGUN
        ]
        return tuple(dict.fromkeys(place for feed in feeds for place in feed.places))

    def loop_of(
        self, source: ClusterTopic, mirror: ClusterTopic, stage: Stage, *, made: Made | None
    ) -> MirrorLoop | None:
        """What keeps `source` from being copied to `mirror`; None when nothing does.

        Parameters
        ----------
        made
            The mirror's topic as it is now; None where there is none.
        """
        for feed in self._into.get(source.topic, ()):
            found = _comes_back(feed, source, mirror, stage)
            if found is not None:
                return found
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
    """Whether it was copied from that very topic, not from an earlier one of its name."""
    return feed.places[0] != mirror or not is_another(feed.record.source_id, now)


def left_out_words(loop: MirrorLoop, link: LinkConfig) -> str:
    """Why a topic is not mirrored, in half a line."""
    more = len(loop.feed.record.through)
    way = f", by way of {more} more topic(s)" if more else ""
    return f"its records come from {link.target}: link {loop.feed.link} made it{way}"


def cycle_refusal(loop: MirrorLoop, link: LinkConfig, mirror: TopicName) -> Refusal:
    """Why a topic is refused, and the way out."""
    other = loop.feed.link
    what = (
        left_out_words(loop, link)
        if loop.comes_back
        else f"{mirror} is mirrored back to {link.source}, as {loop.feed.record.target} by link "
        f"{other}"
    )
    if not loop.gives_way:
        return Refusal(
            RefusalCode.CYCLE,
            f"{what}; this link waits until that one has let go of it",
            f"run {other} once more, or leave the topic out there and delete "
            f"heliostat.{other}.state at {link.source} when that link is stopped",
        )
    return Refusal(
        RefusalCode.CYCLE,
        f"{what}; it would come in again where it comes from",
        f"leave it out (topics.exclude). To change the direction stop link {other} and delete "
        f"heliostat.{other}.state at {link.source}: it lets go of all its mirrors then",
    )
