"""Mirrors of other links at the same target, of other configuration files and machines.

The state topics of all links of a target are their marks there: each names its mirrors. A link says
first which mirror is to be its own and then looks once more, so of two that begin together one at
least sees the other, and that one lets go.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, Protocol

from heliostat.clusters.admin import ClusterAdmin, TopicInfo
from heliostat.clusters.keyed_topic import KeyedTopic
from heliostat.config import ClusterConfig, LinkConfig
from heliostat.names import LinkName, Offset, TopicName, is_another
from heliostat.other_links.claims import Claims, NeighbourClaims, OtherClaims
from heliostat.state.link_state import MIRROR_PREFIX, Starts, begun_of, feeds_in, mirrors_in
from heliostat.state_topics import link_of_state_topic
from heliostat.topics.naming import naming_of
from heliostat.topics.plan import plan_topics
from heliostat.topics.topic_plan import TopicPlan
from heliostat.topics.values import MirrorRecord, SourceTopics, TargetTopics

TOLD_MAX = 3
"""Records of one topic that are named."""


class RememberedMirrors(Protocol):
    """What a link remembers of its mirrors, by source topic."""

    @property
    def mirrors(self) -> Mapping[TopicName, MirrorRecord]:
        """Whose mirror is whose."""

    @property
    def starts(self) -> Mapping[TopicName, Starts]:
        """Where they begin."""


class OtherLinks:
    """Other links of a target.

    Parameters
    ----------
    link
        Which one is not another.
    target
        The cluster.
    admin
        Asks it.
    """

    def __init__(self, link: LinkConfig, target: ClusterConfig, admin: ClusterAdmin) -> None:
        self._link = link.name
        self._slot = link.topics.slot
        self._target = target
        self._admin = admin

    def claims(self, wanted: Collection[TopicName]) -> Claims:
        """Those of the wanted target topics that are mirrors of other links, and of which.

        One in which each has partitions of its own (`topics.fan_in`) is no claim.

        State topics that we have no right to see can't be looked at. Where a row of a mirror is no
        longer one, since somebody else wrote there, each wanted name that may be that mirror's is
        unsure: names of mirrors hold the source's, whatever the naming (`Naming.rule`).

        Raises
        ------
        ConnectionLost, BrokerError
            The target does not answer, or shows a state topic and then refuses to read it.
        """
        if not wanted:
            return Claims()
        there = self._admin.describe_topics()
        found: dict[TopicName, LinkName] = {}
        unsure: dict[TopicName, str] = {}
        notes: list[str] = []
        for state in states_at(self._target, there, but=self._link):
            if state.why_odd:
                notes.append(state.why_odd)
                why = f"is a mirror of link {state.link} can't be told: {state.why_odd}"
                hidden = [name for name in wanted if any(one in name for one in state.hidden)]
                unsure.update((name, f"whether {name} {why}") for name in hidden)
            link = state.link
            theirs = (
                record.target
                for record in mirrors_in(state.rows).values()
                if _holds(record, there) and not record.slot.is_beside(self._slot)
            )
            found.update((name, link) for name in theirs if name in wanted)
        return Claims(found, unsure, tuple(notes))


def _is_sound(key: str, value: Mapping[str, Any]) -> bool:
    """Whether a row can be read as what its key says; others than of mirrors are not looked at."""
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
    known: Mapping[TopicName, MirrorRecord],
    neighbours: NeighbourClaims,
) -> Claims:
    """What other links of the file write of what this one wants to."""
    naming = naming_of(link)
    wanted = {naming.target_name(name) for name in source.topics}
    return neighbours(wanted, {record.target for record in known.values()})


@dataclass(frozen=True, slots=True)
class StateAt:
    """What another link's state topic holds, less what is none of that link's own."""

    link: LinkName
    rows: Mapping[str, Mapping[str, Any]]
    why_odd: str = ""
    """What was set aside, for people; empty where nothing was."""
    hidden: tuple[str, ...] = ()
    """Source topics of mirrors that stood where it was written."""


def states_at(
    cluster: ClusterConfig, topics: Iterable[TopicName], *, but: LinkName | None = None
) -> Iterator[StateAt]:
    """What the state topics among a cluster's topics hold, link by link.

    Raises
    ------
    ConnectionLost, BrokerError
        The cluster does not answer, or shows a state topic and then refuses to read it.
    """
    for topic in sorted(topics):
        link = link_of_state_topic(topic)
        if link is None or link == but:
            continue
        with closing(KeyedTopic(cluster.access(), topic)) as state:
            rows, strange = state.read_sound()
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


def plan_beside(
    link: LinkConfig,
    source: SourceTopics,
    target: TargetTopics,
    memory: RememberedMirrors,
    *,
    claimed: Claims,
    other_links: OtherClaims,
) -> TopicPlan:
    """`plan_topics`, in which no other link's mirror becomes ours; `rivals` is `Rivals.claims`."""
    known, begun = memory.mirrors, begun_of(memory.mirrors, memory.starts)
    plan = plan_topics(link, source, target, known, claimed.by, unsure=claimed.unsure, begun=begun)
    theirs = other_links(new_mirrors(known, plan.remember))
    both = claimed | theirs
    if theirs.by or theirs.unsure:
        plan = plan_topics(link, source, target, known, both.by, unsure=both.unsure, begun=begun)
    return replace(plan, notes=(*plan.notes, *both.notes)) if both.notes else plan


def new_mirrors(
    known: Mapping[TopicName, MirrorRecord], records: Iterable[MirrorRecord]
) -> set[TopicName]:
    """Target topics of `records` that the link has not had before."""
    return {
        record.target
        for record in records
        if (was := known.get(record.source)) is None or was.target != record.target
    }


def _holds(record: MirrorRecord, there: Mapping[TopicName, TopicInfo]) -> bool:
    """Whether it still is that link's: not where somebody made another topic of the name."""
    info = there.get(record.target)
    now = None if info is None else info.topic_id
    return not is_another(record.target_id, now)
