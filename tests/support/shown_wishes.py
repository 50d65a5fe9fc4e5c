"""Invented answers to what is wished of the shown links; of others the clusters do not answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from support.shown_answers import ANSWERED

from heliostat.config import Config, LinkConfig
from heliostat.errors import Refused
from heliostat.names import LinkName, PartitionId, TopicName, TopicPartition
from heliostat.operate.wishes import WishAnswer, make_wish
from heliostat.serve import wishes_routes
from heliostat.wishes.wish import Place, Wish, WishedState, Wishes

TAKES_S = 0.3


def install(wishes: Wishes, partitions: Callable[[], Sequence[TopicPartition]]) -> None:
    """Put them in place of the verb, for one link."""

    def wish(
        config: Config, link: LinkConfig, wished: WishedState, *given: Any, **more: Any
    ) -> Any:
        if link.name != ANSWERED:
            return make_wish(config, link, wished, *given, **more)
        return _made(wishes, partitions(), wished, *given, **more)

    setattr(wishes_routes, "make_wish", wish)  # noqa: B010  # it stands in for it


def _made(
    wishes: Wishes,
    partitions: Sequence[TopicPartition],
    wished: WishedState,
    topics: Sequence[str],
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


def _place(text: str, partitions: Sequence[TopicPartition]) -> Place:
    topics = {each.topic for each in partitions}
    if text in topics:
        return Place(TopicName(text))
    topic, _, number = text.rpartition("-")
    if topic in topics:
        return Place(TopicName(topic), PartitionId(int(number)))
    raise Refused(f"the link has no topic {text}", hint="`heliostat status --all` lists its topics")
