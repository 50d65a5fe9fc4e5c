"""Mirrors of other links at the same target, from any configuration file or machine.

The state topic of each link at a target names its mirrors. A link first records which mirror it
claims and then looks once more, so of two that begin together at least one sees the other, and
gives up its claim.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

from heliostat.access import Reachable
from heliostat.clusters.admin import ClusterAdmin, TopicInfo
from heliostat.clusters.keyed_topic import KeyedTopic
from heliostat.clusters.wire.lent import LentClusters
from heliostat.config import ClusterConfig, LinkConfig
from heliostat.names import ClusterId, LinkName, Offset, TopicName, is_another
from heliostat.ops.asked import each_answer
from heliostat.other_links.claims import Claims, NeighbourClaims, OtherClaims
from heliostat.state.link_state import (
    MIRROR_PREFIX,
    Starts,
    begun_of,
    feeds_in,
    mirrors_in,
)
from heliostat.state.promotions import PromotedMirror
from heliostat.state_topics import link_of_state_topic
from heliostat.topics.naming import naming_of
from heliostat.topics.observe import leaderless_states
from heliostat.topics.plan import plan_topics
from heliostat.topics.topic_plan import TopicPlan
from heliostat.topics.values import MirrorRecord, SourceTopics, TargetTopics

STATES_AT_ONCE = 8
TOLD_MAX = 3
"""Most records of one topic that a message names."""


class RememberedMirrors(Protocol):
    """What a link remembers of its mirrors, by source topic."""

    @property
    def mirrors(self) -> Mapping[TopicName, MirrorRecord]:
        """The link's mirrors."""

    @property
    def starts(self) -> Mapping[TopicName, Starts]:
        """Source offsets at which they begin."""

    @property
    def promoted(self) -> Mapping[TopicName, PromotedMirror]:
        """Former mirrors that were given away."""


@dataclass(frozen=True, slots=True)
class TargetStates:
    """All topics of a cluster, then the states of links there.

    `leaderless` are state topics that could not be read.
    """

    topics: Mapping[TopicName, TopicInfo]
    leaderless: frozenset[TopicName]
    states: tuple[StateAt, ...]


StatesAtTarget = Callable[[], TargetStates]
"""Returns what the target has at some moment after the call; raises as `target_states`."""


def target_states(
    target: ClusterConfig | LentClusters, admin: ClusterAdmin, but: LinkName | None = None
) -> TargetStates:
    """Read the state topics of all links but one.

    Raises
    ------
    ConnectionLost, BrokerError
        The target does not answer, or shows a state topic and then refuses to read it.
    """
    topics = admin.describe_topics()
    leaderless = frozenset(leaderless_states(topics))
    states = tuple(states_at(target, topics.keys() - leaderless, but=but))
    return TargetStates(topics, leaderless, states)


class OtherLinks:
    """Other links of a target.

    Parameters
    ----------
    link
        Configuration of this link, which is left out.
    states
        Returns the states of the target's links; this link's own among them has no effect.
    source_id
        Cluster id of the link's source: of a merged topic links from other ones write as well.
        None: each other link's mirror counts.
    """

    def __init__(
        self, link: LinkConfig, states: StatesAtTarget, source_id: ClusterId | None = None
    ) -> None:
        self._link = link.name
        self._slot = link.topics.slot
        self._merges = link.topics.merges
        self._source_id = source_id
        self._states = states

    def claims(self, wanted: Collection[TopicName]) -> Claims:
        """Return the wanted target topics that are mirrors of other links, and of which link.

        A topic in which each link has partitions of its own (`topics.fan_in`) is not a claim.

        State topics that we have no permission to see are not checked. If a mirror's row is invalid
        because somebody else wrote there, each wanted name that may be that mirror's is unsure:
        mirror names contain the source topic's name, whatever the naming (`Naming.rule`). All are
        while a state topic has no leader: nobody waits for that.

        Raises
        ------
        ConnectionLost, BrokerError
            The target does not answer, or shows a state topic and then refuses to read it.
        """
        if not wanted:
            return Claims()
        target = self._states()
        owners: dict[TopicName, LinkName] = {}
        unsure: dict[TopicName, str] = {}
        notes: list[str] = []
        for topic in sorted(target.leaderless):
            if (link := link_of_state_topic(topic)) not in {None, self._link}:
                why = f"is a mirror of link {link} is unknown: topic {topic} has no leader"
                unsure.update((name, f"whether {name} {why}") for name in wanted)
        for state in target.states:
            if state.link == self._link:
                continue
            if state.why_odd:
                notes.append(state.why_odd)
                why = f"is a mirror of link {state.link} is unknown: {state.why_odd}"
                hidden = [
                    name
                    for name in wanted
                    if any(hidden_topic in name for hidden_topic in state.hidden)
                ]
                unsure.update((name, f"whether {name} {why}") for name in hidden)
            link = state.link
            theirs = (
                record.target
                for record in mirrors_in(state.rows).values()
                if _holds(record, target.topics) and not self._is_beside(record)
            )
            owners.update((name, link) for name in theirs if name in wanted)
        return Claims(owners, unsure, tuple(notes))

    def _is_beside(self, record: MirrorRecord) -> bool:
        """Whether both links may write the topic: in slots of their own, or from sites merged."""
        is_merged = self._merges and record.is_merged
        is_merged &= self._source_id not in {None, record.source_cluster}
        return is_merged or record.slot.is_beside(self._slot)


def other_links_at(
    link: LinkConfig,
    target: ClusterConfig | LentClusters,
    admin: ClusterAdmin,
    source_id: ClusterId | None = None,
) -> OtherLinks:
    """Return the other links of a target, read by what is given when they are asked for."""
    return OtherLinks(link, partial(target_states, target, admin, link.name), source_id)


def _is_sound(key: str, value: Mapping[str, Any]) -> bool:
    """Whether a row can be parsed as its key requires; only rows of mirrors are checked."""
    try:
        records = [feed.record for feed in feeds_in(LinkName(""), {key: value})]
    except (KeyError, TypeError, ValueError, AttributeError):
        return False
    return not key.startswith(MIRROR_PREFIX) or all(
        key == MIRROR_PREFIX + str(record.source) and isinstance(record.target, str)
        for record in records
    )


def _described(topic: TopicName, strange: Mapping[str, Offset], odd: Sequence[str]) -> str:
    places = [f"{key} at offset {offset}" for key, offset in sorted(strange.items())] + sorted(odd)
    more = f" and {len(places) - TOLD_MAX} more" if places[TOLD_MAX:] else ""
    named = ", ".join(places[:TOLD_MAX])
    return f"topic {topic} has records that are not its link's own: {named}{more}"


def claims_on(
    link: LinkConfig,
    source: SourceTopics,
    mirrors: Mapping[TopicName, MirrorRecord],
    neighbours: NeighbourClaims,
) -> Claims:
    """Return the target topics wanted by this link that other links of the file write."""
    naming = naming_of(link)
    wanted = {naming.target_name(name) for name in source.topics}
    return neighbours(wanted, {record.target for record in mirrors.values()})


@dataclass(frozen=True, slots=True)
class StateAt:
    """The rows of another link's state topic, without records that are not that link's own."""

    link: LinkName
    rows: Mapping[str, Mapping[str, Any]]
    why_odd: str = ""
    """Description of the records set aside; empty if none were."""
    hidden: tuple[str, ...] = ()
    """Source topics of mirrors whose rows those records replaced."""


def states_at(
    cluster: ClusterConfig | LentClusters,
    topics: Iterable[TopicName],
    *,
    but: LinkName | None = None,
) -> Iterator[StateAt]:
    """Yield the contents of each state topic among a cluster's topics; some are read at once.

    Raises
    ------
    ConnectionLost, BrokerError
        The cluster does not answer, or shows a state topic and then refuses to read it.
    """
    links = {topic: link_of_state_topic(topic) for topic in sorted(topics)}
    theirs = {topic: link for topic, link in links.items() if link is not None and link != but}
    reachable = cluster if isinstance(cluster, LentClusters) else cluster.access()
    asks = {topic: partial(_read_sound, reachable, topic) for topic in theirs}
    for topic, answer in each_answer(asks, STATES_AT_ONCE).items():
        if isinstance(answer, BaseException):
            raise answer
        link, (rows, strange) = theirs[topic], answer
        odd = [key for key, value in rows.items() if not _is_sound(key, value)]
        if not strange and not odd:
            yield StateAt(link, rows)
            continue
        hidden = tuple(
            key.removeprefix(MIRROR_PREFIX)
            for key in (*strange, *odd)
            if key.startswith(MIRROR_PREFIX)
        )
        sound = {key: value for key, value in rows.items() if key not in odd}
        yield StateAt(link, sound, _described(topic, strange, odd), hidden)


def _read_sound(
    cluster: Reachable, topic: TopicName
) -> tuple[Mapping[str, Mapping[str, Any]], Mapping[str, Offset]]:
    with closing(KeyedTopic(cluster, topic)) as state:
        return state.read_sound()


def plan_beside(
    link: LinkConfig,
    source: SourceTopics,
    target: TargetTopics,
    memory: RememberedMirrors,
    *,
    claimed: Claims,
    other_links: OtherClaims,
) -> TopicPlan:
    """Run `plan_topics` so that no mirror of another link becomes ours.

    `other_links` is `OtherLinks.claims`.
    """
    mirrors, begun = memory.mirrors, begun_of(memory.mirrors, memory.starts)
    given_away = {name: mirror.promotion.words() for name, mirror in memory.promoted.items()}

    def planned(claims: Claims) -> TopicPlan:
        return plan_topics(
            link,
            source,
            target,
            mirrors,
            claims.by,
            unsure=claims.unsure,
            begun=begun,
            given_away=given_away,
        )

    plan = planned(claimed)
    theirs = other_links(new_mirrors(mirrors, plan.remember))
    both = claimed | theirs
    if theirs.by or theirs.unsure:
        plan = planned(both)
    return replace(plan, notes=(*plan.notes, *both.notes)) if both.notes else plan


def new_mirrors(
    mirrors: Mapping[TopicName, MirrorRecord], records: Iterable[MirrorRecord]
) -> set[TopicName]:
    """Return target topics of `records` that the link has not had before."""
    return {
        record.target
        for record in records
        if (was := mirrors.get(record.source)) is None or was.target != record.target
    }


def _holds(record: MirrorRecord, there: Mapping[TopicName, TopicInfo]) -> bool:
    """Whether the topic is still that link's: not if it was recreated."""
    info = there.get(record.target)
    now = None if info is None else info.topic_id
    return not is_another(record.target_id, now)
