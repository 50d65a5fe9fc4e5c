"""What feeds a link's source: topics there that links have made, of any file and machine.

Their states are on the very cluster that we copy from, so no configuration need know of them. What
must not go in a circle is decided in `topics.cycles`; here it is looked up, at each turn and once
more behind our own claims, since of two links that begin together one at least then sees the other.

A ring of three clusters or more is seen by what links tell each other, turn by turn. Whoever claims
last in a ring finds its topic there already, as the next one copies from it; so a claim on such a
topic, of what is a mirror itself, waits until all others had turns enough to tell.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from heliostat.clock import Clock
from heliostat.clusters.admin import ClusterAdmin
from heliostat.clusters.kafka_codes import TOPIC_AUTHORIZATION_FAILED
from heliostat.config import STATE_TOPIC_PREFIX, ClusterConfig, LinkConfig
from heliostat.names import ClusterId, TopicId, TopicName, is_another
from heliostat.other_links.at_target import states_at
from heliostat.state.link_state import feeds_in
from heliostat.state_topics import state_topic
from heliostat.topics.cycles import Feeds, Stage, cycle_refusal
from heliostat.topics.values import ClusterTopic, Feed, MirrorRecord, SourceTopics

HOLD_TURNS = 3
"""Turns of ours that a claim waits in which nothing changes about where its records have been."""
NAMED_MAX = 3


@dataclass(frozen=True, slots=True)
class Again:
    """What a second look found: `not_yet` may not be copied now, each with the reason."""

    let_go: tuple[TopicName, ...] = ()
    not_yet: Mapping[TopicName, str] = field(default_factory=dict)

    def notes(self) -> tuple[str, ...]:
        """For the status."""
        return tuple(f"{name} is not copied yet: {why}" for name, why in self.not_yet.items())


class Upstream:
    """Mirrors at a link's source.

    Parameters
    ----------
    link
        Its configuration.
    cluster, source
        Where the source is, and who asks it.
    target_id
        The target's cluster id.
    clock
        Time.
    """

    def __init__(
        self,
        link: LinkConfig,
        cluster: ClusterConfig,
        source: ClusterAdmin,
        target_id: ClusterId,
        clock: Clock,
    ) -> None:
        self._link = link
        self._cluster = cluster
        self._source = source
        self._target_id = target_id
        self._clock = clock
        self._held: dict[TopicName, tuple[tuple[ClusterTopic, ...], float]] = {}
        self.notes: tuple[str, ...] = ()
        """What was set aside at the last look."""

    def feeds(self, source: SourceTopics) -> tuple[Feed, ...]:
        """See `feeds_at`."""
        found, self.notes = feeds_at(self._cluster, source)
        return found

    def look_again(
        self,
        source: SourceTopics,
        claims: Mapping[TopicName, MirrorRecord],
        created: Collection[TopicName],
    ) -> Again:
        """Whether mirrors that the state claims since now, or not long, may be copied.

        Parameters
        ----------
        source
            As it was seen before the claims were durable.
        claims
            Mirrors of which nothing is copied yet, by source topic; all of them are durable.
        created
            Target topics that this turn has made.

        Raises
        ------
        ConnectionLost, BrokerError
            The source does not answer, or shows a state topic and then refuses to read it.
        """
        self._held = {name: since for name, since in self._held.items() if name in claims}
        if not claims:
            return Again()
        names = tuple(self._source.describe_topics())
        feeds = Feeds(self.feeds(replace(source, names=names)))
        let_go: list[TopicName] = []
        not_yet: dict[TopicName, str] = {}
        for name, record in claims.items():
            here = ClusterTopic(source.cluster_id, name)
            there = ClusterTopic(self._target_id, record.target)
            loop = feeds.loop_of(here, there, Stage.CLAIMED, made=_Mirror(record.target_id))
            if loop is not None:
                not_yet[name] = cycle_refusal(loop, self._link, record.target).text()
                if loop.gives_way:
                    let_go.append(name)
                continue
            through = feeds.through(name, Stage.CLAIMED)
            is_told = record.target in created and through == record.through
            if through and not is_told and self._is_held(name, through, record):
                not_yet[name] = "it is a mirror itself, and others may copy on from here"
        return Again(tuple(let_go), not_yet)

    def _is_held(
        self, name: TopicName, through: tuple[ClusterTopic, ...], record: MirrorRecord
    ) -> bool:
        """Whether others may not know yet of a claim, and we not of theirs."""
        now_s = self._clock.monotonic_s()
        was, since_s = self._held.setdefault(name, (through, now_s))
        if was != through:
            since_s = now_s
            self._held[name] = through, now_s
        hold_s = HOLD_TURNS * self._link.topics.refresh_interval_s
        return through != record.through or now_s - since_s < hold_s


@dataclass(frozen=True, slots=True)
class _Mirror:
    topic_id: TopicId | None


def feeds_at(
    cluster: ClusterConfig, source: SourceTopics
) -> tuple[tuple[Feed, ...], tuple[str, ...]]:
    """What links write at a source, and what of their states was set aside.

    A topic that was made anew since is none of theirs.

    Raises
    ------
    ConnectionLost, BrokerError
        The source does not answer, or shows a state topic and then refuses to read it.
    """
    states = list(states_at(cluster, source.names))
    found = (feed for state in states for feed in feeds_in(state.link, state.rows))
    odd = tuple(state.why_odd for state in states if state.why_odd)
    return tuple(feed for feed in found if _is_its(feed.record, source)), odd


def blind_note(link: LinkConfig, source: ClusterAdmin) -> tuple[str, ...]:
    """That states at the source can't be seen: a cluster's list of topics lacks them then.

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
    """That topics are not mirrored back, in one line."""
    names = sorted(left_out)
    if not names:
        return ()
    more = f" and {len(names) - NAMED_MAX} more" if names[NAMED_MAX:] else ""
    shown = ", ".join(names[:NAMED_MAX]) + more
    return (f"{len(names)} topic(s) come from {link.target} and are not mirrored back: {shown}",)
