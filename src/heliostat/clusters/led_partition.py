"""A partition of a topic of ours: asks the leader that metadata name, and again after an election.

Who leads is known to all that share lent connections: each costs a round trip once.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from heliostat.clusters.kafka_codes import UNKNOWN_TOPIC_OR_PARTITION
from heliostat.clusters.wire.cluster import WireCluster
from heliostat.clusters.wire.leaders import leader_in
from heliostat.clusters.wire.lent import LentClusters
from heliostat.errors import AccessRefused, BrokerError, ConnectionLost
from heliostat.names import BrokerId, TopicPartition

PAUSE_S = 0.1
LOOKS = 2
"""A broker that has just started, or has lost touch, may not know a topic that exists."""
Answer = TypeVar("Answer")
Lasting = Callable[[BrokerError | ConnectionLost], float]
"""For how long such an error may pass (s): until then the question is asked again."""


class LedPartition:
    """Who leads it, and what that broker answers. For one thread at a time.

    Parameters
    ----------
    clusters
        Connections to the cluster.
    place
        The partition.
    """

    def __init__(self, clusters: LentClusters, place: TopicPartition) -> None:
        self._clusters = clusters
        self.place = place

    def exists(self) -> bool:
        """Whether the topic exists, by two looks if the first says no; or has existed just now.

        Raises
        ------
        ConnectionLost
            No broker answers.
        """
        if self.place in self._clusters.leaders:
            return True
        for _ in range(LOOKS):
            with self._clusters.lent() as cluster:
                topics = cluster.metadata([self.place.topic])
            if topics[self.place.topic].error != UNKNOWN_TOPIC_OR_PARTITION:
                code, leader = leader_in(topics, self.place)
                if not code:
                    self._clusters.leaders[self.place] = leader
                return True
        return False

    def settled(
        self,
        ask: Callable[[WireCluster, BrokerId], Answer | BrokerError],
        passes_within_s: Lasting,
    ) -> Answer:
        """Ask the leader, and its successor if it is another by now.

        Raises
        ------
        BrokerError, ConnectionLost
            The leader refuses, or none answers, and that does not pass.
        """
        began_s = time.monotonic()
        while True:
            try:
                with self._clusters.lent() as cluster:
                    answer = ask(cluster, self._leader_by(cluster))
                if not isinstance(answer, BrokerError):
                    return answer
                error: BrokerError | ConnectionLost = answer
            except AccessRefused:
                raise
            except (BrokerError, ConnectionLost) as failure:
                error = failure
            self._clusters.leaders.pop(self.place, None)
            if time.monotonic() >= began_s + passes_within_s(error):
                raise error
            time.sleep(PAUSE_S)

    def _leader_by(self, cluster: WireCluster) -> BrokerId:
        """Return the leader; its connection may be another thread's, which has asked before."""
        leader = self._clusters.leaders.get(self.place)
        if leader is None or not cluster.brokers.knows(leader):
            topics = cluster.metadata([self.place.topic])
            code, leader = leader_in(topics, self.place)
            if code:
                text = f"no leader of topic {self.place.topic} is known"
                raise BrokerError(text, kafka_code=code)
            self._clusters.leaders[self.place] = leader
        return leader
