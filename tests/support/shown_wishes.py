"""Invented answers to what is wished of the shown links; of others the clusters do not answer."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from support.shown_answers import ANSWERED

from heliostat.config import Config, LinkConfig
from heliostat.errors import Refused
from heliostat.names import LinkName, PartitionId, TopicName, TopicPartition
from heliostat.operate.levels import Asked, LevelAnswer, place_of
from heliostat.operate.wishes import WishAnswer, make_wish
from heliostat.records.copier.lane_limits import Priority
from heliostat.serve import levels_routes, wishes_routes
from heliostat.wishes.levels import Level, Limit, Preference, Said
from heliostat.wishes.rate import rate_text
from heliostat.wishes.wish import Place, Wish, WishedState, Wishes

TAKES_S = 0.3


def install(wishes: Wishes, partitions: Callable[[], Sequence[TopicPartition]]) -> None:
    """Put them in place of the verbs, for one link."""

    def wish(
        config: Config, link: LinkConfig, wished: WishedState, *given: Any, **more: Any
    ) -> Any:
        if link.name != ANSWERED:
            return make_wish(config, link, wished, *given, **more)
        return _made(wishes, partitions(), wished, *given, **more)

    def limit(
        _: Config, __: LinkConfig, rate: int | None, topics: Sequence[str] = (), *, asked: Asked
    ) -> LevelAnswer:
        said = Said(asked.by, int(time.time() * 1000), asked.why)
        levels = [Limit(TopicName(topic), rate, said) for topic in topics]
        made = levels or [Limit(None, rate, said)]
        return _levelled(wishes, rate_text(rate), made, asked, partitions())

    def prefer(
        _: Config, __: LinkConfig, topics: Sequence[str], priority: Priority, *, asked: Asked
    ) -> LevelAnswer:
        said = Said(asked.by, int(time.time() * 1000), asked.why)
        levels = [Preference(text, priority, said) for text in topics]
        return _levelled(wishes, priority.value, levels, asked, partitions())

    setattr(wishes_routes, "make_wish", wish)  # noqa: B010  # it stands in for it
    setattr(levels_routes, "limit", limit)  # noqa: B010  # it stands in for it
    setattr(levels_routes, "prefer", prefer)  # noqa: B010  # it stands in for it


def _levelled(
    wishes: Wishes,
    wished: str,
    levels: Sequence[Level],
    asked: Asked,
    partitions: Sequence[TopicPartition],
) -> LevelAnswer:
    changed = [each for each in levels if not wishes.levels.is_wished(each)]
    if not asked.dry_run:
        for each in changed:
            wishes.levels.take(each.key, each.to_json())
    topics = Counter(each.topic for each in partitions)
    concerned = [topic for topic in topics if any(_is_about(each, topic) for each in levels)]
    limits = [each for each in levels if isinstance(each, Limit)]
    return LevelAnswer(
        LinkName(ANSWERED),
        wished,
        tuple(map(place_of, levels)),
        tuple(map(place_of, changed)),
        len(concerned),
        sum(topics[topic] for topic in concerned),
        not asked.dry_run,
        "",
        TAKES_S,
        asked.dry_run,
        limits[0].bytes_per_s if limits else None,
    )


def _is_about(level: Level, topic: TopicName) -> bool:
    if isinstance(level, Preference):
        return level.covers(topic)
    return level.topic in {None, topic}


def _made(
    wishes: Wishes,
    partitions: Sequence[TopicPartition],
    wished: WishedState,
    topics: Sequence[str | Place],
    *,
    by: str,
    why: str,
    within_s: float,
    dry_run: bool,
) -> WishAnswer:
    assert within_s > TAKES_S
    time.sleep(TAKES_S)
    places = [_place(text, partitions) for text in topics] or [Place()]
    changed = [place for place in places if not wishes.is_wished(place, wished)]
    if not dry_run:
        for place in changed:
            wishes.take(Wish(place, wished, by, int(time.time() * 1000), why))
    still = [str(wish.place) for wish in wishes.pauses()] if not topics else []
    return WishAnswer(
        LinkName(ANSWERED),
        wished,
        tuple(map(str, places)),
        tuple(map(str, changed)),
        sum(any(place.holds(each) for place in places) for each in partitions),
        not dry_run,
        "",
        tuple(still) if wished is WishedState.RUNNING else (),
        TAKES_S,
        dry_run,
    )


def _place(named: str | Place, partitions: Sequence[TopicPartition]) -> Place:
    text, topics = str(named), {each.topic for each in partitions}
    if text in topics:
        return Place(TopicName(text))
    topic, _, number = text.rpartition("-")
    if topic in topics:
        return Place(TopicName(topic), PartitionId(int(number)))
    raise Refused(f"the link has no topic {text}", hint="`heliostat status --all` lists its topics")
