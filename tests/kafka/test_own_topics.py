"""A link's own topics are read whole, whichever of its threads read them, on a real broker.

| topic | which threads of a driver read it |
|---|---|
| `state` | the claim and the owner's loop (the owner), the beginning, the reconciliation (all) |
| `control` | the claim |
| `offsets` | reconciliation, groups and reports, through one object with a lock |
| `gaps` | the reconciliation, which follows it; verbs read it whole |
| `groups` | the groups' loop |
| `progress` | the reader of reports |
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass

import pytest
from support.clusters import ClusterPair, fresh_name, until

from heliostat.clusters.admin import ClusterAdmin
from heliostat.clusters.keyed_topic import KeyedTopic
from heliostat.config import ClusterConfig, LinkConfig
from heliostat.errors import BrokerError
from heliostat.gaps.ledger import gaps_topic
from heliostat.groups.published import groups_topic
from heliostat.names import LinkName, PartitionId, ProducerId, TopicName, TopicPartition
from heliostat.offsets.map_rows import RowKey, Stamp
from heliostat.offsets.offset_map import Break, MapRow
from heliostat.records.copier.lane import Announcement
from heliostat.state.link_state import LinkState
from heliostat.state.ownership import Owner
from heliostat.state_topics import control_topic, state_topic

pytestmark = [pytest.mark.kafka, pytest.mark.core]

ROWS = 500
READ_S = 0.3
"""For how long two threads read the same, again and again."""


@dataclass(frozen=True, slots=True)
class Own:
    """The topics of one link, filled."""

    bootstrap: list[str]
    link: LinkName
    state: LinkState

    def keyed(self, name: str) -> KeyedTopic:
        return KeyedTopic(self.bootstrap, name)


@pytest.fixture(scope="module")
def own(cluster_pair: ClusterPair) -> Iterator[Own]:
    bootstrap = cluster_pair.target.bootstrap.split(",")
    name = LinkName(fresh_name("link"))
    link = LinkConfig(name=name, source="a", target="b", topics={"include": ["x"]})
    with closing(LinkState(link, ClusterConfig(bootstrap=bootstrap))) as state:
        state.ensure()
        state.owner.fence_owner()
        state.owner.last_claim()  # as a claim asks
        state.owner.put_owner(Owner.here(0))
        state.put_producer(ProducerId(4711), [ProducerId(8)])
        state.claim = 3
        state.announce(Announcement({}, (), {}))
        names = {f"start/t{n}": {"starts": {"0": n}, "target_id": None} for n in range(ROWS)}
        state._state.write_many(names)
        for topic in (gaps_topic(name), groups_topic(name)):
            with KeyedTopic(bootstrap, topic) as other:
                other.ensure()
                other.write_many({f"row{n}": {"n": n} for n in range(ROWS)})
        yield Own(bootstrap, name, state)


def by_two_threads(read: Callable[[], object]) -> set[object]:
    """Return all that two threads read at once; each failure as its text."""
    seen: set[object] = set()
    until_s = time.monotonic() + READ_S

    def reads() -> None:
        while time.monotonic() < until_s:
            try:
                seen.add(read())
            except Exception as error:  # noqa: BLE001 - whatever comes is a failure
                seen.add(repr(error))

    threads = [threading.Thread(target=reads) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return seen


@pytest.mark.parametrize(
    ("read", "whole"),
    [
        (lambda own: (len((rows := own.state.read()).starts), rows.producer_id), (ROWS, 4711)),
        (lambda own: sorted(own.state.read().producers), [8, 4711]),
        (lambda own: own.state.owner.read_owner().claim, 0),
        (lambda own: own.state.owner.last_claim(), 3),
        (lambda own: own.state.marks.read().topic, None),
        (lambda own: own.state.read_stops(), {}),
    ],
    ids=["state", "producers", "owner", "control", "marks", "stops"],
)
def test_two_threads_that_read_a_links_state_read_all_of_it(
    own: Own, read: Callable[[Own], object], whole: object
) -> None:
    assert by_two_threads(lambda: repr(read(own))) == {repr(whole)}


@pytest.mark.parametrize("topic", [state_topic, control_topic, gaps_topic, groups_topic])
def test_two_threads_that_read_a_keyed_topic_read_all_of_it(
    own: Own, topic: Callable[[LinkName], str]
) -> None:
    with own.keyed(topic(own.link)) as keyed:
        whole = repr(keyed.read_all())
        assert by_two_threads(lambda: repr(keyed.read_all())) == {whole}


def test_two_threads_that_read_offset_maps_know_the_same(own: Own) -> None:
    """Given a map that grows while it is read / then no reader sees an earlier state of it."""
    maps = own.state.offsets
    mirror = TopicPartition(TopicName("m"), PartitionId(0))
    lengths: list[int] = []

    def grow() -> int:
        with lock:
            count = len(lengths) + 1
            key = RowKey(mirror, "id", count * 10, Stamp(0, 0))
            maps.put([MapRow(key, (Break(count * 10, count * 11),))])
            lengths.append(count)
        return count

    lock = threading.Lock()
    failures: set[str] = set()
    until_s = time.monotonic() + READ_S

    def reads() -> None:
        while time.monotonic() < until_s:
            count = grow()
            breaks = [each for found in maps.fresh().maps.values() for each in found.breaks()]
            if len(breaks) < count:
                failures.add(f"{len(breaks)} of {count}")

    threads = [threading.Thread(target=reads) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_a_topic_that_was_there_is_not_taken_for_empty(own: Own) -> None:
    """Given a topic that was read / when it is deleted / then its reader says so."""
    name = TopicName(fresh_name("heliostat.own"))
    with own.keyed(name) as keyed, ClusterAdmin(own.bootstrap) as admin:
        assert keyed.read_all() == {}, "it never existed"
        keyed.ensure()
        keyed.write("a", {"n": 1})
        assert keyed.read_all() == {"a": {"n": 1}}
        assert admin.delete_topics([name]) == {name: None}
        until(lambda: admin.describe_topics([name])[name].error, "the topic to go")
        with pytest.raises(BrokerError, match="existed, and is not known any more"):
            keyed.read_all()
