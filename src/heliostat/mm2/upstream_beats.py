"""Heartbeats of clusters further upstream: where each was written, and how many links it crossed.

With names as MirrorMaker 2's default policy makes them, each flow's heartbeats keep a topic of
their own at each further cluster, `east.west.heartbeats`. With equal names they share `heartbeats`,
and only the two aliases in a record tell where it is from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from heliostat.clusters.byte_topic import ByteTopic
from heliostat.config import LinkConfig
from heliostat.mm2.heartbeats import FLOWS_MAX, HeartbeatWatch
from heliostat.names import Alias, TopicName
from heliostat.topics.replication_policy import HEARTBEATS, policy_of
from heliostat.topics.values import MirrorRecord

TOPICS_MAX = 20
"""Most topics that are followed: each has a connection, and a turn asks one after the other."""
POLL_S = 0.05
Flows: TypeAlias = Mapping[tuple[Alias, Alias], int]
"""Timestamp (ms) of the newest heartbeat of each flow, by source and target."""
Beats = dict[tuple[str, str], int]
"""Timestamp (ms) of the newest heartbeat, by the cluster of its origin and the links it crossed."""


def by_origin(link: LinkConfig, flows: Flows) -> Beats:
    """Return heartbeats that share one topic by their origin and hops, as the aliases tell it.

    Whatever cluster it was for, one that was written at this link's source has crossed this link
    alone. One for a flow to this link's source has crossed two. Of others only the least is known.
    """
    beats: Beats = {}
    for (source, target), at_ms in flows.items():
        hops = "1" if source == link.source else "2" if target == link.source else "3+"
        beats[source, hops] = max(at_ms, beats.get((source, hops), 0))
    return beats


def newest_flows(*of_topics: Flows) -> list[list[str | int]]:
    """Return source, target and newest heartbeat (ms) of each flow, those heard of last first."""
    flows: dict[tuple[Alias, Alias], int] = {}
    for beats in of_topics:
        for flow, at_ms in beats.items():
            flows[flow] = max(at_ms, flows.get(flow, 0))
    rows = sorted(flows.items(), key=lambda row: (-row[1], row[0]))
    return [[*flow, at_ms] for flow, at_ms in rows[:FLOWS_MAX]]


class UpstreamBeats:
    """Follows mirrors of heartbeats that are mirrors already at the source.

    Parameters
    ----------
    link
        Configuration of the link.
    open_topic
        Returns a topic at the target.
    """

    def __init__(self, link: LinkConfig, open_topic: Callable[[TopicName], ByteTopic]) -> None:
        self._link = link
        self._open_topic = open_topic
        self._policy = policy_of(link)
        self._watches: dict[TopicName, HeartbeatWatch] = {}

    def look(self, mirrors: Mapping[TopicName, MirrorRecord], wall_ms: Callable[[], int]) -> None:
        """Read what has arrived in the mirrors of heartbeats.

        Raises
        ------
        ConnectionLost, BrokerError
            The target does not answer or refuses.
        """
        link = self._link
        for name, record in sorted(mirrors.items()):
            if name == HEARTBEATS or not self._policy.is_heartbeats(name):
                continue
            if name not in self._watches:
                if len(self._watches) >= TOPICS_MAX:
                    return
                topic = self._open_topic(record.target)
                self._watches[name] = HeartbeatWatch(topic, link.source, link.target, is_ours=False)
            self._watches[name].look(wall_ms, POLL_S)

    def flows(self) -> list[Flows]:
        """Return the newest heartbeats of each flow, of each topic."""
        return [watch.beats for watch in list(self._watches.values())]

    def beats(self) -> Beats:
        """Return the newest of each origin."""
        beats: Beats = {}
        for name, watch in list(self._watches.items()):
            clusters = self._policy.sources_of(name)
            at_ms = max(watch.beats.values(), default=0)
            if at_ms:
                key = str(clusters[-1]), str(len(clusters) + 1)
                beats[key] = max(at_ms, beats.get(key, 0))
        return beats
