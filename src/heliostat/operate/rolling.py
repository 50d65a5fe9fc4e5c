"""How far a rolling switch is, by configuration and state of its link: no log is looked at."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from enum import Enum
from typing import Any

from heliostat.config import Config, LinkConfig
from heliostat.names import LinkName, TopicName
from heliostat.operate.switching.link_back import links_back_of
from heliostat.operate.wish_desk import wish_desk
from heliostat.state.link_state import LinkState, Stored


class RollingStage(Enum):
    """How far a topic is."""

    MIRROR = "mirror"
    MERGED = "merged"
    GIVEN_AWAY = "given_away"


WORDS = {
    RollingStage.MIRROR: "still mirrors: nothing of them is copied until they are merged in place",
    RollingStage.MERGED: "merged",
    RollingStage.GIVEN_AWAY: "given away",
}


@dataclass(frozen=True, slots=True)
class RollingTopic:
    """A topic of a link that merges; how many partitions it has may not be known any more."""

    topic: TopicName
    stage: RollingStage
    partitions: int | None


@dataclass(frozen=True, slots=True)
class Rolling:
    """How far a rolling switch is.

    Parameters
    ----------
    merges
        Whether the configuration says so; if not there is none, and no topic is listed.
    backs
        Links that bring records of these topics back.
    """

    link: LinkName
    merges: bool
    topics: tuple[RollingTopic, ...] = ()
    backs: tuple[LinkName, ...] = ()

    def describe(self) -> Iterator[str]:
        """Yield lines for people."""
        if not self.merges:
            yield f"{self.link} merges no topics: there is no rolling switch"
            return
        for stage, text in WORDS.items():
            rows = [each for each in self.topics if each.stage is stage]
            if rows:
                counts = [each.partitions for each in rows if each.partitions is not None]
                much = f" ({sum(counts):,} partitions)" if len(counts) == len(rows) else ""
                yield f"{len(rows):,} topics{much} are {text}"
        if not self.topics:
            yield "the link has copied no topic yet"
        back = ", ".join(self.backs) or "no link of this configuration"
        yield f"{back} brings records back"

    def to_json(self) -> dict[str, Any]:
        """Return it for `--json`."""
        return {
            "link": self.link,
            "merges": self.merges,
            "topics": [
                {"topic": each.topic, "stage": each.stage.value, "partitions": each.partitions}
                for each in self.topics
            ],
            "backs": list(self.backs),
        }


def rolling_of(config: Config, link: LinkConfig) -> Rolling:
    """Return how far the rolling switch of a link is.

    Raises
    ------
    ConnectionLost, BrokerError
        The target does not answer, or refuses.
    """
    name = LinkName(link.name)
    if not link.topics.merges:
        return Rolling(name, merges=False)
    with wish_desk(config, link) as desk, closing(LinkState(link, desk.target)) as state:
        topics = rolling_topics(state.read())
    backs = links_back_of(config, link, [each.topic for each in topics])
    return Rolling(name, True, topics, tuple(LinkName(each.name) for each in backs))


def rolling_topics(stored: Stored) -> tuple[RollingTopic, ...]:
    """Return a link's topics by what is stored of it."""
    stages = {
        name: RollingStage.MERGED if record.is_merged else RollingStage.MIRROR
        for name, record in stored.mirrors.items()
    }
    given = {name: RollingStage.GIVEN_AWAY for name in stored.promoted if name not in stages}
    return tuple(
        RollingTopic(name, stage, _partitions(stored, name))
        for name, stage in sorted({**stages, **given}.items())
    )


def _partitions(stored: Stored, name: TopicName) -> int | None:
    if name in stored.starts:
        return len(stored.starts[name].offsets)
    former = stored.promoted.get(name)
    if former is None or former.promotion.ends is None:
        return None
    return len(former.promotion.ends.partitions)
