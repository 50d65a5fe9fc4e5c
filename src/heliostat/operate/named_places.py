"""Topics and partitions as operators name them: `TOPIC`, or `TOPIC-PARTITION`; or as a place.

What a link's driver has reported says which is meant. A link that has just begun has reported
nothing yet, or not all: then what is wished already says it, or else the source.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from heliostat.clusters.admin import ClusterAdmin
from heliostat.config import Config, LinkConfig
from heliostat.errors import ConnectionLost, Refused
from heliostat.names import PartitionId, TopicName, TopicPartition
from heliostat.topics.select import selection_of
from heliostat.wishes.wish import Place

CLIENT_ID = "heliostat-places"
_PARTITION = re.compile(r"(.+)-(\d{1,9})")
AskSource = Callable[[Collection[TopicName]], Mapping[TopicName, int]]
"""Returns those of some topics that a link selects at its source, each with its partitions."""


def places_named(
    named: Sequence[str | Place],
    reported: Collection[TopicPartition],
    wished: Collection[Place],
    ask: AskSource,
) -> list[Place]:
    """Return the places that are named; none for no text.

    Parameters
    ----------
    named
        A place is meant as it is; a text names a topic of that name, else a partition.
    reported
        Partitions of which the link's driver has reported.
    wished
        Places for which something is wished.
    ask
        Asked of what is in neither.

    Raises
    ------
    Refused
        The link has no such topic or partition, or what is meant can't be known now.
    BrokerError
        The source refuses to say.
    """
    topics = {partition.topic for partition in reported}
    counts = {partition.topic: 0 for partition in reported}
    for topic_partition in reported:
        counts[topic_partition.topic] = max(
            counts[topic_partition.topic], topic_partition.partition + 1
        )
    missing = [mention for mention in named if _place_in(mention, counts, wished) is None]
    counts |= _asked(missing, ask)
    return [_found(mention, counts, wished, topics) for mention in named]


def require_topics(names: Sequence[str], reported: Collection[TopicName], ask: AskSource) -> None:
    """Refuse a topic that a link has not; raises as `places_named`."""
    missing = [name for name in names if TopicName(name) not in reported]
    there = _asked(missing, ask)
    for name in missing:
        if TopicName(name) not in there:
            raise Refused(f"the link has no topic {name}", hint=nearest(name, reported))


def _asked(missing: Sequence[str | Place], ask: AskSource) -> Mapping[TopicName, int]:
    if not missing:
        return {}
    try:
        return ask({place.topic for mention in missing for place in _meant(mention) if place.topic})
    except ConnectionLost as error:
        raise Refused(
            f"whether the link has {missing[0]} is not known: its driver has not reported it, and "
            "the source does not answer",
            hint="try again once the link runs",
        ) from error


def ask_source(config: Config, link: LinkConfig) -> AskSource:
    """Return what asks a link's source."""

    def ask(names: Collection[TopicName]) -> Mapping[TopicName, int]:
        wanted = [name for name in names if selection_of(link).selects(name)]
        if not wanted:
            return {}
        with ClusterAdmin(config.clusters[link.source].access(), CLIENT_ID) as admin:
            infos = admin.describe_topics(wanted)
        return {name: len(info.partitions) for name, info in infos.items() if info.error is None}

    return ask


def nearest(text: str, topics: Iterable[str]) -> str:
    """Return a hint for a topic that a link has not."""
    close = difflib.get_close_matches(text, list(topics), n=1)
    return f"did you mean {close[0]}?" if close else "`heliostat status --all` lists its topics"


def _place_in(
    named: str | Place, counts: Mapping[TopicName, int], wished: Collection[Place]
) -> Place | None:
    """Return the place that is named among those that are known."""
    for place in _meant(named):
        count = 0 if place.topic is None else counts.get(place.topic, 0)
        if place in wished or (place.partition is None and place.topic in counts):
            return place
        if place.partition is not None and count > place.partition:
            return place
    return None


def _meant(named: str | Place) -> list[Place]:
    """Return what may be meant; of a text a topic of that name first, then a partition."""
    if isinstance(named, Place):
        return [named]
    places = [Place(TopicName(named))]
    if (match := _PARTITION.fullmatch(named)) is not None:
        places.append(Place(TopicName(match[1]), PartitionId(int(match[2]))))
    return places


def _found(
    named: str | Place,
    counts: Mapping[TopicName, int],
    wished: Collection[Place],
    topics: Iterable[str],
) -> Place:
    place = _place_in(named, counts, wished)
    if place is not None:
        return place
    for place in _meant(named):
        if place.topic in counts:
            raise Refused(f"{place.topic} has no partition {place.partition} in this link")
    text = named if isinstance(named, str) else str(named.topic)
    raise Refused(f"the link has no topic {text}", hint=nearest(text, topics))
