"""A reader of a topic has one place in it: a second thread must not move it."""

from __future__ import annotations

import pytest

from heliostat.clusters.byte_topic import ByteTopic
from heliostat.clusters.keyed_topic import KeyedTopic
from heliostat.clusters.recent_records import RecentRecords
from heliostat.names import TopicName

NOWHERE = "127.0.0.1:1"
TOPIC = TopicName("t")


def test_one_reader_in_two_threads_is_noticed() -> None:
    """Given a reader that is reading / when a second thread reads with it / then it is refused."""
    keyed = KeyedTopic(NOWHERE, TOPIC).reader()
    recent, plain = RecentRecords(NOWHERE, TOPIC), ByteTopic(NOWHERE, TOPIC, "test")
    for reader, read in [(keyed, keyed.read_all), (recent, recent.newest), (plain, plain.end)]:
        with reader._reading, pytest.raises(AssertionError, match="two threads read"):
            read()
