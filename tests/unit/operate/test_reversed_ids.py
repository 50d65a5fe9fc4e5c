"""A link that takes mirrors back has a producer id that none of their logs has seen."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from support.simulated_admin import SimulatedAdmin
from support.simulated_cluster import SimulatedCluster

from heliostat.errors import ConnectionLost
from heliostat.mm2.adopt_clusters import LinkClusters
from heliostat.names import ClusterId, Offset, PartitionId, ProducerId, TopicName
from heliostat.operate.reversing.written import take_another_id
from heliostat.state.link_state import LinkState, Starts, Stored
from heliostat.topics.values import MirrorRecord

BACK, KEPT, ANEW = TopicName("back"), TopicName("kept"), TopicName("anew")
OLD_ID = ProducerId(41)


class State:
    """What was written, in order."""

    def __init__(self) -> None:
        self.written: list[Any] = []

    def put_starts(self, starts: dict[TopicName, Starts]) -> None:
        self.written.append(starts)

    def put_producer(self, producer_id: ProducerId, former: frozenset[ProducerId]) -> None:
        self.written.append((producer_id, former))


@pytest.fixture
def cluster() -> SimulatedCluster:
    """Mirrors of which one comes back; of the others one is as it was, and one was made anew."""
    cluster = SimulatedCluster()
    cluster.producer_ids = OLD_ID
    for name in (BACK, KEPT, ANEW):
        cluster.create(name, 2)
        cluster.append(name, 5)
        cluster.append(name, 3, partition=1)
    return cluster


def stored(cluster: SimulatedCluster) -> Stored:
    ids = {name: cluster.topics[name].topic_id for name in (KEPT, ANEW)}
    mirrors = {
        name: MirrorRecord(*(name, name, None, ids[name], ClusterId("c")), "earliest", 2)
        for name in ids
    }
    offsets = {PartitionId(0): Offset(2), PartitionId(1): Offset(0)}
    starts = {KEPT: Starts(ids[KEPT], offsets), ANEW: Starts(ids[KEPT], offsets)}
    return Stored(OLD_ID, frozenset({OLD_ID}), mirrors=mirrors, starts=starts)


def test_other_mirrors_are_taken_over_at_their_ends_under_the_new_id(
    cluster: SimulatedCluster,
) -> None:
    """Given a link that takes a mirror back / when it gets another id / then first the mirrors that

    it still has begin at their ends, so that no sequence of the old id is expected there; where
    they began, and the ids that the link had, stay known. Rows of another topic's id stay away.
    """
    state, before = State(), stored(cluster)
    clusters: Any = SimpleNamespace(target=SimulatedAdmin(cluster))
    take_another_id(cast("LinkClusters", clusters), cast("LinkState", state), before)
    starts, (producer_id, former) = state.written
    assert starts.keys() == {KEPT}
    assert starts[KEPT].offsets == before.starts[KEPT].offsets
    assert starts[KEPT].adopted == {PartitionId(0): 5, PartitionId(1): 3}
    assert producer_id > OLD_ID
    assert former == {OLD_ID}


def test_a_mirror_whose_end_is_not_known_leaves_the_id_as_it_is(cluster: SimulatedCluster) -> None:
    """Given a mirror whose end no broker tells / when another id is wanted / then none is taken."""
    cluster.fail("list_log_ends", 6)
    state = State()
    clusters: Any = SimpleNamespace(target=SimulatedAdmin(cluster))
    with pytest.raises(ConnectionLost, match="log end of kept-0 can't be read"):
        take_another_id(cast("LinkClusters", clusters), cast("LinkState", state), stored(cluster))
    assert not state.written
    assert cluster.producer_ids == OLD_ID
