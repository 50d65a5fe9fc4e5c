"""Finds what feeds a link's source: topics there that links of any file or machine write.

Their state topics are on the very cluster that we copy from, so no configuration need name them.
`topics.cycles` decides what would go in a circle; this module looks it up, at each reconciliation
and once more after our own claims are durable, since of two links that begin together at least one
then sees the other.

A ring of three or more clusters is found by what links record for each other, reconciliation by
reconciliation. The last to claim in a ring finds its topic there already, as the next one copies
from it; so a claim on such a topic, if its source topic is itself a mirror, waits until all others
have had enough reconciliations to record theirs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from heliostat.clock import Clock
from heliostat.clusters.admin import ClusterAdmin
from heliostat.clusters.kafka_codes import LEADER_NOT_AVAILABLE, TOPIC_AUTHORIZATION_FAILED
from heliostat.clusters.wire.lent import LentClusters
from heliostat.config import STATE_TOPIC_PREFIX, ClusterConfig, LinkConfig
from heliostat.errors import BrokerError
from heliostat.names import ClusterId, LinkName, TopicId, TopicName, is_another
from heliostat.other_links.at_target import states_at
from heliostat.state.link_state import feeds_in
from heliostat.state_topics import link_of_state_topic, state_topic
from heliostat.topics.cycles import Feeds, Stage, carried, cycle_refusal
from heliostat.topics.observe import leaderless_states
from heliostat.topics.values import ClusterTopic, Feed, MirrorRecord, SourceTopics

HOLD_TURNS = 3
"""Reconciliations that a claim waits while the topics its records came through don't change."""
NAMED_MAX = 3


@dataclass(frozen=True, slots=True)
class Again:
    """Result of a second look: claims to give up, and topics not to copy yet, with the reasons."""

    let_go: tuple[TopicName, ...] = ()
    not_yet: Mapping[TopicName, str] = field(default_factory=dict)

    def notes(self) -> tuple[str, ...]:
        """Return notes for the status."""
        return tuple(f"{name} is not copied yet: {why}" for name, why in self.not_yet.items())


class Upstream:
    """Mirrors at a link's source.

    Parameters
    ----------
    link
        Configuration of the link; whoever reconciles replaces it when it changes.
    cluster, source
        Configuration of the source cluster, and an admin connection to it.
    target_id
        Cluster id of the target.
    clock
        The clock.
    """

    def __init__(
        self,
        link: LinkConfig,
        cluster: ClusterConfig,
        source: ClusterAdmin,
        target_id: ClusterId,
        clock: Clock,
    ) -> None:
        self.link = link
        self._cluster = cluster
        self._source = source
        self.target_id = target_id
        self._clock = clock
        self._held: dict[TopicName, tuple[tuple[ClusterTopic, ...], float]] = {}
        self._read: dict[LinkName, tuple[Feed, ...]] = {}
        """What the state of each link said when it was last read."""
        self.notes: tuple[str, ...] = ()
        """Records of state topics that the last look set aside."""
        self.seen: SourceTopics | None = None
        """The source as seen last, with what links write there."""

    def feeds(self, source: SourceTopics) -> tuple[Feed, ...]:
        """Return what links write at a source, see `feeds_at`.

        A state topic without a leader counts as it was last read: its link can claim nothing more.

        Raises
        ------
        ConnectionLost, BrokerError
            As `feeds_at`; or a state topic without a leader was never read.
        """
        led = tuple(name for name in source.names if name not in source.leaderless)
        source_feeds, notes = feeds_at(self._cluster, replace(source, names=led))
        read = {link: list[Feed]() for link in map(link_of_state_topic, led) if link is not None}
        for feed in source_feeds:
            read[feed.link].append(feed)
        for topic in sorted(source.leaderless):
            last = self._read.get(LinkName(str(link_of_state_topic(topic))))
            if last is None:
                raise BrokerError(_no_leader(topic), kafka_code=LEADER_NOT_AVAILABLE)
            source_feeds += last
            notes += (_no_leader(topic),)
        self._read |= {link: tuple(feeds) for link, feeds in read.items()}
        self.notes = notes
        self.seen = replace(source, feeds=source_feeds)
        return source_feeds

    def look_again(
        self,
        source: SourceTopics,
        claims: Mapping[TopicName, MirrorRecord],
        created: Collection[TopicName],
    ) -> Again:
        """Return which of the newly claimed mirrors may not be copied.

        Parameters
        ----------
        source
            The source as seen before the claims were durable.
        claims
            Mirrors without a copied record, by source topic; all claims are durable.
        created
            Target topics that this reconciliation has created.

        Raises
        ------
        ConnectionLost, BrokerError
            The source does not answer, or shows a state topic and then refuses to read it.
        """
        self._held = {name: since for name, since in self._held.items() if name in claims}
        if not claims:
            return Again()
        infos = self._source.describe_topics()
        if leaderless := sorted(leaderless_states(infos)):
            return Again(not_yet=dict.fromkeys(claims, _no_leader(leaderless[0])))
        source_feeds = self.feeds(replace(source, names=tuple(infos), leaderless=frozenset()))
        feeds = Feeds(carried(source_feeds, merges=self.link.topics.merges))
        let_go: list[TopicName] = []
        not_yet: dict[TopicName, str] = {}
        for name, record in claims.items():
            here = ClusterTopic(source.cluster_id, name)
            there = ClusterTopic(self.target_id, record.target)
            loop = feeds.loop_of(here, there, Stage.CLAIMED, made=_Mirror(record.target_id))
            if loop is not None:
                not_yet[name] = cycle_refusal(loop, self.link, record.target).text()
                if loop.gives_way:
                    let_go.append(name)
                continue
            through = feeds.through(name, Stage.CLAIMED)
            is_told = record.target in created and through == record.through
            if through and not is_told and self._is_held(name, through, record):
                not_yet[name] = "it is itself a mirror, and other links may copy from the target"
        return Again(tuple(let_go), not_yet)

    def _is_held(
        self, name: TopicName, through: tuple[ClusterTopic, ...], record: MirrorRecord
    ) -> bool:
        """Whether others may not know of a claim yet, or we of theirs."""
        now_s = self._clock.monotonic_s()
        was, since_s = self._held.setdefault(name, (through, now_s))
        if was != through:
            since_s = now_s
            self._held[name] = through, now_s
        hold_s = HOLD_TURNS * self.link.topics.refresh_interval_s
        return through != record.through or now_s - since_s < hold_s


def _no_leader(topic: TopicName) -> str:
    return f"topic {topic} at the source has no leader: what its link claims is unknown"


@dataclass(frozen=True, slots=True)
class _Mirror:
    topic_id: TopicId | None


def feeds_at(
    cluster: ClusterConfig | LentClusters, source: SourceTopics
) -> tuple[tuple[Feed, ...], tuple[str, ...]]:
    """Return what links write at a source, and descriptions of records set aside in their states.

    A topic that was recreated since is not theirs.

    Raises
    ------
    ConnectionLost, BrokerError
        The source does not answer, or shows a state topic and then refuses to read it.
    """
    states = list(states_at(cluster, source.names))
    feeds = (feed for state in states for feed in feeds_in(state.link, state.rows))
    odd = tuple(state.why_odd for state in states if state.why_odd)
    return tuple(feed for feed in feeds if _is_its(feed.record, source)), odd


def blind_note(link: LinkConfig, source: ClusterAdmin) -> tuple[str, ...]:
    """Return a note if we may not see state topics at the source: then topic lists lack them.

    Raises
    ------
    ConnectionLost
        The source does not answer.
    """
    topic = TopicName(state_topic(link.name))
    error = source.describe_topics([topic])[topic].error
    if error is None or error.kafka_code != TOPIC_AUTHORIZATION_FAILED:
        return ()
    states = f"topics {STATE_TOPIC_PREFIX}* at {link.source}"
    why = "what other links have made there is unknown, and would be mirrored back"
    return (f"no right to read {states}: {why} (heliostat acls names the right)",)


def _is_its(record: MirrorRecord, source: SourceTopics) -> bool:
    topic = source.topics.get(record.target)
    now = None if topic is None else topic.topic_id
    return not is_another(record.target_id, now)


def left_out_notes(link: LinkConfig, left_out: Iterable[TopicName]) -> tuple[str, ...]:
    """Return a note, in one line, about topics that are not mirrored back."""
    names = sorted(left_out)
    if not names:
        return ()
    more = f" and {len(names) - NAMED_MAX} more" if names[NAMED_MAX:] else ""
    shown = ", ".join(names[:NAMED_MAX]) + more
    return (f"{len(names)} topic(s) come from {link.target} and are not mirrored back: {shown}",)
