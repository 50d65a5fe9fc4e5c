"""`TOPIC` and `TOPIC-PARTITION` are understood before a link has reported, and never guessed."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pytest

from heliostat.errors import ConnectionLost, Refused
from heliostat.names import PartitionId, TopicName, TopicPartition
from heliostat.operate.named_places import places_named, require_topics
from heliostat.wishes.wish import Place

T, T0 = TopicName("t"), TopicName("t-0")


class Source:
    def __init__(self, **topics: int) -> None:
        self.topics = {TopicName(name.replace("_", "-")): n for name, n in topics.items()}
        self.asked: list[set[str]] = []
        self.is_away = False

    def __call__(self, names: Collection[TopicName]) -> Mapping[TopicName, int]:
        self.asked.append(set(names))
        if self.is_away:
            raise ConnectionLost("no answer")
        return {name: self.topics[name] for name in names if name in self.topics}


def partitions(topic: TopicName, count: int) -> set[TopicPartition]:
    return {TopicPartition(topic, PartitionId(number)) for number in range(count)}


def place(topic: TopicName, number: int | None = None) -> Place:
    return Place(topic, None if number is None else PartitionId(number))


def test_what_was_reported_is_not_asked_for() -> None:
    source = Source()
    reported = partitions(T, 2) | partitions(T0, 1)
    assert places_named(["t", "t-1", "t-0", "t-0-0"], reported, (), source) == [
        place(T),
        place(T, 1),
        place(T0),
        place(T0, 0),
    ]
    assert source.asked == []


@pytest.mark.parametrize("reported", [set(), partitions(TopicName("u"), 3)])
def test_a_link_that_has_just_begun_asks_its_source(reported: set[TopicPartition]) -> None:
    source = Source(t=2)
    assert places_named(["t-1"], reported, (), source) == [place(T, 1)]
    assert source.asked == [{"t-1", "t"}]
    assert places_named(["t-0"], reported, (), Source(t=2, t_0=1)) == [place(T0)]


def test_what_was_paused_goes_on_though_no_cluster_says_what_it_is() -> None:
    source = Source()
    source.is_away = True
    paused = {place(T, 1), place(T0)}
    assert places_named(["t-1", "t-0"], set(), paused, source) == [place(T, 1), place(T0)]
    with pytest.raises(Refused, match="the source does not answer"):
        places_named(["t-2"], set(), paused, source)


def test_a_place_is_meant_as_it_is_beside_a_topic_of_such_a_name() -> None:
    """Given a topic t-0 beside t / when partition 0 of t is meant / then no other topic is hit."""
    reported = partitions(T, 1) | partitions(T0, 1)
    assert places_named([place(T, 0)], reported, (), Source()) == [place(T, 0)]
    assert places_named([place(T, 0)], set(), {place(T0)}, Source(t=1)) == [place(T, 0)]
    other = TopicPartition(TopicName("t-3"), PartitionId(0))
    for topic, told in ((T, "t has no partition 3"), (TopicName("x"), "no topic x ")):
        with pytest.raises(Refused, match=told):
            places_named([place(topic, 3)], reported | {other}, (), Source(t=1))


@pytest.mark.parametrize(
    ("text", "told"), [("t-9", "t has no partition 9"), ("x-0", "no topic x-0"), ("x", "topic x")]
)
def test_what_a_link_has_not_is_refused(text: str, told: str) -> None:
    for reported in (set[TopicPartition](), partitions(T, 2)):
        with pytest.raises(Refused, match=told):
            places_named([text], reported, (), Source(t=2))


def test_topics_are_found_alike() -> None:
    require_topics(["t", "u"], [T], Source(u=1))
    with pytest.raises(Refused, match="no topic u"):
        require_topics(["t", "u"], [T], Source())
