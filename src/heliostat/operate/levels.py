"""Limiting links and topics, and preferring topics: levels that the link's owner carries out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from heliostat.config import Config, LinkConfig
from heliostat.errors import Refused
from heliostat.names import LinkName, TopicName
from heliostat.operate.named_places import ask_source, nearest, require_topics
from heliostat.operate.wish_desk import wish_desk
from heliostat.operate.wishes import CARRIED_OUT_WITHIN_S, await_owner
from heliostat.records.copier.lane_limits import Priority
from heliostat.wishes.levels import (
    ANY,
    LIMITED_TOPICS_MAX,
    PATTERN,
    Level,
    Levels,
    Limit,
    Preference,
    Said,
)
from heliostat.wishes.rate import rate_text


@dataclass(frozen=True, slots=True)
class LevelAnswer:
    """What became of a limit or a priority."""

    link: LinkName
    wished: str
    """The limit, as `20 MB/s` or `none`, or the priority."""
    places: tuple[str, ...]
    """The link, or topics, or patterns of topics."""
    changed: tuple[str, ...]
    """Those for which something else was wished before; of the others nothing was written."""
    topics: int
    """Topics that this concerns, as far as they were reported."""
    partitions: int
    """All of theirs."""
    is_done: bool
    """Whether the link's owner has carried it out."""
    waits: str
    """Why it is not carried out yet; empty: it is, or it was only tried."""
    took_s: float
    is_tried: bool
    """Whether nothing was written, as it was only asked what would be done."""
    bytes_per_s: int | None = None
    """The limit; None: none, or it is a priority."""

    def to_json(self) -> dict[str, Any]:
        """Return the answer for `--json`."""
        return {
            "link": self.link,
            "wished": self.wished,
            "bytes_per_second": self.bytes_per_s,
            "places": list(self.places),
            "changed": list(self.changed),
            "topics": self.topics,
            "partitions": self.partitions,
            "is_done": self.is_done,
            "waits": self.waits,
            "took_s": round(self.took_s, 3),
            "is_tried": self.is_tried,
        }


@dataclass(frozen=True, slots=True)
class Asked:
    """Who asks, and how.

    Parameters
    ----------
    by, why
        Who wishes it, and why.
    within_s
        How long to wait; after that it is told as waiting, and still counts.
    dry_run
        Whether only to tell what would change.
    """

    by: str
    why: str = ""
    within_s: float = CARRIED_OUT_WITHIN_S
    dry_run: bool = False


def limit(
    config: Config,
    link: LinkConfig,
    bytes_per_s: int | None,
    topics: Sequence[str] = (),
    *,
    asked: Asked,
) -> LevelAnswer:
    """Limit a link, or each of these topics of it, in bytes a second as read from the source.

    Parameters
    ----------
    bytes_per_s
        The limit; None: none.
    topics
        Names at the source; none: the link as a whole.

    Raises
    ------
    Refused
        There is no such topic in the link, or too many would be limited.
    ConnectionLost, BrokerError
        The target does not answer, or refuses.
    """

    def levels(names: Collection[TopicName], said: Said) -> list[Level]:
        require_topics(topics, names, ask_source(config, link))
        if not topics:
            return [Limit(None, bytes_per_s, said)]
        return [Limit(TopicName(topic), bytes_per_s, said) for topic in topics]

    return _wish(config, link, rate_text(bytes_per_s), levels, asked)


def prefer(
    config: Config,
    link: LinkConfig,
    topics: Sequence[str],
    priority: Priority,
    *,
    asked: Asked,
) -> LevelAnswer:
    """Give topics a priority: names at the source, or patterns with `*`; the newest one counts.

    Raises
    ------
    Refused
        There is no such topic in the link, or it is no pattern.
    ConnectionLost, BrokerError
        The target does not answer, or refuses.
    """

    def levels(names: Collection[TopicName], said: Said) -> list[Level]:
        for text in topics:
            if not PATTERN.fullmatch(text):
                hint = "a topic's name at the source, in which * stands for any characters"
                raise Refused(f"{text!r} names no topics", hint=hint)
            if names and ANY not in text and text not in names:
                raise Refused(f"the link has no topic {text}", hint=nearest(text, names))
        return [Preference(text, priority, said) for text in topics]

    return _wish(config, link, priority.value, levels, asked)


def _wish(
    config: Config,
    link: LinkConfig,
    wished: str,
    levels_of: Callable[[Collection[TopicName], Said], list[Level]],
    asked: Asked,
) -> LevelAnswer:
    with wish_desk(config, link) as desk:
        book = desk.book
        topics = Counter(partition.topic for partition in desk.reader.board.positions())
        levels = levels_of(topics.keys(), Said(asked.by, desk.clock.wall_ms(), asked.why))
        book.read()
        changed = [level for level in levels if not book.wishes.levels.is_wished(level)]
        check_count(book.wishes.levels, changed)
        end = book.position
        is_done, waits = False, ""
        if not asked.dry_run:
            if changed:
                end = book.write(changed, link.state.replication_factor)
            is_done, waits = await_owner(desk.reader, end, desk.clock, asked.within_s)
        about = concerned(levels, topics)
        return LevelAnswer(
            desk.link,
            wished,
            tuple(map(place_of, levels)),
            tuple(map(place_of, changed)),
            len(about),
            sum(topics[topic] for topic in about),
            is_done,
            waits,
            desk.took_s(),
            asked.dry_run,
            next((level.bytes_per_s for level in levels if isinstance(level, Limit)), None),
        )


def place_of(level: Level) -> str:
    """Return what a level is about, as people write it."""
    return level.topics if isinstance(level, Preference) else level.topic or "the link"


def concerned(levels: Sequence[Level], topics: Collection[TopicName]) -> set[TopicName]:
    """Return those of some topics that levels are about."""
    names, patterns = set[str](), list[Preference]()
    for level in levels:
        if isinstance(level, Preference) and level.is_pattern:
            patterns.append(level)
        elif isinstance(level, Preference):
            names.add(level.topics)
        elif level.topic is None:
            return set(topics)
        else:
            names.add(level.topic)
    return {
        topic
        for topic in topics
        if topic in names or any(preference.covers(topic) for preference in patterns)
    }


def check_count(levels: Levels, changed: Sequence[Level]) -> None:
    """Raise `Refused` if more topics would have a limit than may."""
    after = {topic_limit.topic for topic_limit in levels.limits()}
    for level in changed:
        if isinstance(level, Limit):
            (after.discard if level.bytes_per_s is None else after.add)(level.topic)
    if len(after - {None}) > LIMITED_TOPICS_MAX:
        raise Refused(
            f"no more than {LIMITED_TOPICS_MAX} topics of a link can have a limit",
            hint="each has connections of its own; limit the link, or let topics have low priority",
        )
