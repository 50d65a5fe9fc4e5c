"""Topics and partitions as operators name them: `TOPIC`, or `TOPIC-PARTITION`.

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
    texts: Sequence[str],
    reported: Collection[TopicPartition],
    wished: Collection[Place],
    ask: AskSource,
) -> list[Place]:
    """Return the places that are named; none for no text.

    Parameters
    ----------
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
    topics = {each.topic for each in reported}
    known = {each.topic: 0 for each in reported}
    for each in reported:
        known[each.topic] = max(known[each.topic], each.partition + 1)
    missing = [text for text in texts if _place_in(text, known, wished) is None]
    known |= _asked(missing, ask)
    return [_found(text, known, wished, topics) for text in texts]


def require_topics(names: Sequence[str], reported: Collection[TopicName], ask: AskSource) -> None:
    """Refuse a topic that a link has not; raises as `places_named`."""
    missing = [name for name in names if TopicName(name) not in reported]
    there = _asked(missing, ask)
    for name in missing:
        if TopicName(name) not in there:
            raise Refused(f"the link has no topic {name}", hint=nearest(name, reported))


def _asked(missing: Sequence[str], ask: AskSource) -> Mapping[TopicName, int]:
    if not missing:
        return {}
    try:
        return ask({name for text in missing for name in _names_in(text)})
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
        return {name: len(each.partitions) for name, each in infos.items() if each.error is None}

    return ask


def nearest(text: str, topics: Iterable[str]) -> str:
    """Return a hint for a topic that a link has not."""
    close = difflib.get_close_matches(text, list(topics), n=1)
    return f"did you mean {close[0]}?" if close else "`heliostat status --all` lists its topics"


def _place_in(text: str, known: Mapping[TopicName, int], wished: Collection[Place]) -> Place | None:
    """Return the place that a text names among those that are known; a topic's name goes first."""
    topic, *parents = _names_in(text)
    if topic in known or Place(topic) in wished:
        return Place(topic)
    for parent in parents:
        place = Place(parent, PartitionId(int(text[len(parent) + 1 :])))
        if known.get(parent, 0) > (place.partition or 0) or place in wished:
            return place
    return None


def _names_in(text: str) -> list[TopicName]:
    """Return the topics that a text may mean: of that name, or with a partition's number at it."""
    match = _PARTITION.fullmatch(text)
    return [TopicName(text)] + ([] if match is None else [TopicName(match[1])])


def _found(
    text: str, known: Mapping[TopicName, int], wished: Collection[Place], topics: Iterable[str]
) -> Place:
    place = _place_in(text, known, wished)
    if place is not None:
        return place
    for name in _names_in(text):
        if name in known:
            number = text[len(name) + 1 :]
            raise Refused(f"{name} has no partition {number} in this link")
    raise Refused(f"the link has no topic {text}", hint=nearest(text, topics))
