"""Parts of a link that copying does not wait for, each in loops of its own.

    groups           offsets of consumer groups, published at the target
    interchange      what is written for MirrorMaker 2's clients
    access           ACLs and client quotas
    protection       rules that keep others from writing into mirrors

They are replaced together when their configuration changes: lanes don't know them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from heliostat.clusters.admin import ClusterAdmin
from heliostat.clusters.keyed_topic import missing_topics
from heliostat.config import LinkConfig
from heliostat.fencing.rule_book import rules_topic
from heliostat.groups.measured import MeasuredGroups
from heliostat.link.access_part import AccessPart
from heliostat.link.group_part import GroupPart
from heliostat.link.known import Known
from heliostat.link.link_context import LinkContext
from heliostat.link.protection_part import ProtectionPart
from heliostat.mm2.emitters import Interchange
from heliostat.names import LinkName, TopicName
from heliostat.ops.loop_spec import LoopSpec


class SideParts:
    """These parts, as one configuration wants them; no request is sent before `begin`.

    Parameters
    ----------
    context
        What all parts of the link share.
    source, target
        Both clusters.
    known
        What the link knows.
    """

    def __init__(
        self, context: LinkContext, source: ClusterAdmin, target: ClusterAdmin, known: Known
    ) -> None:
        self._context = context
        self._source = source
        self._target = target
        self._known = known
        self._interchange = Interchange(
            context.link,
            source,
            target,
            source_access=context.source.access(),
            target_access=context.target.access(),
            mirrors=lambda: known.mirrors,
            maps=context.state.offsets.fresh,
            landed=context.board.landed,
            clock=context.clock,
        )
        self._groups: GroupPart | None = None
        self._access: AccessPart | None = None
        self._protection: ProtectionPart | None = None
        self.loops: frozenset[str] = frozenset()
        """The names of their loops."""

    def begin(self) -> list[LoopSpec]:
        """Connect; return the loops to run from now on.

        Raises
        ------
        ConnectionLost
            A cluster does not answer; `close` what was begun.
        """
        if self._context.link.groups.sync or self._interchange.wants_groups:
            self._groups = self._group_part()
        if self._context.link.access.is_on:
            self._access = self._access_part()
        if self._context.link.topics.protect or self._was_protected():
            self._protection = self._protection_part()
        specs = list(self._specs())
        self.loops = frozenset(spec.name for spec in specs)
        return specs

    def _specs(self) -> Iterator[LoopSpec]:
        context, guarded = self._context, self._context.owner.guarded
        for part in self._interchange.parts():
            yield part._replace(turn=guarded(part.turn))
        if self._groups is not None:
            yield LoopSpec("groups", context.link.groups.interval_s, guarded(self._groups.turn))
        if self._access is not None:
            yield LoopSpec("access", context.link.access.interval_s, guarded(self._access.turn))
        if self._protection is not None:
            every_s = context.link.topics.refresh_interval_s
            yield LoopSpec("protection", every_s, guarded(self._protection.turn))

    def _access_part(self) -> AccessPart:
        context, known = self._context, self._known
        return AccessPart(
            context.link,
            context.source,
            context.target,
            topics=lambda: known.source_topics,
            mirrored=lambda: list(known.mirrors),
            promoted=lambda: list(known.promoted),
            foreign=context.foreign,
            clock=context.clock,
            events=context.events,
            guard=context.owner.check,
        )

    def _was_protected(self) -> bool:
        """Return whether there may be rules of ours, by an earlier configuration."""
        topic = TopicName(rules_topic(LinkName(self._context.link.name)))
        return not missing_topics(self._target, [topic])

    def _protection_part(self) -> ProtectionPart:
        context = self._context
        return ProtectionPart(
            context.link,
            target_access=context.target.access(),
            principal=context.target.security.known_principal,
            mirrors=self._protected,
            foreign=context.foreign,
            clock=context.clock,
            events=context.events,
        )

    def _protected(self) -> set[TopicName]:
        """Return the link's mirrors, and those given away whose ends are not noted yet."""
        promotions = self._context.wishes().promotions
        given = [
            each.record
            for name, each in self._known.promoted.items()
            if name in promotions and promotions[name].ends is None
        ]
        mirrors = {record.target for record in dict(self._known.mirrors).values()}
        return mirrors | {record.target for record in given if record is not None}

    def _group_part(self) -> GroupPart:
        context = self._context
        return GroupPart(
            _link_of_groups(context),
            source_access=context.source.access(),
            target_access=context.target.access(),
            mirrors=lambda: dict(self._known.mirrors),
            maps=context.state.offsets.fresh,
            positions=context.board.landed,
            foreign=context.foreign,
            interchange=self._interchange,
            clock=context.clock,
            events=context.events,
            guard=context.owner.check,
            measured=MeasuredGroups(context.metrics.groups, context.board.source_ends),
        )

    def as_in(self, context: LinkContext) -> SideParts:
        """Return these parts as another configuration wants them, with their loops running.

        Raises
        ------
        ConnectionLost
            A cluster does not answer; then they are ended, and may be asked again.
        """
        if are_alike(self._context.link, context.link):
            return self
        context.loops.end_parts(self.loops)
        self.close()
        parts = SideParts(context, self._source, self._target, self._known)
        try:
            context.loops.start(*parts.begin())
        except BaseException:
            parts.close()
            raise
        return parts

    def report(self) -> dict[str, object]:
        """Return these parts' fields of the driver's report."""
        return {
            "groups": self._groups.report() if self._groups else {},
            "interchange": self._interchange.report(),
            "access": self._access.report() if self._access else {},
            "protection": self._protection.report() if self._protection else {},
        }

    def close(self) -> None:
        """Close the connections; call it when the loops have ended."""
        self._interchange.close()
        for part in (self._groups, self._access, self._protection):
            if part is not None:
                part.close()


def are_alike(one: LinkConfig, other: LinkConfig) -> bool:
    """Return whether two configurations of a link want the same of these parts."""
    sections = ["groups", "heartbeats", "checkpoints", "offset_syncs", "access"]
    if other.access.is_on or one.topics.protect or other.topics.protect:
        sections.append("topics")  # what is selected decides which ACLs concern the link
    return all(getattr(one, section) == getattr(other, section) for section in sections)


def _link_of_groups(context: LinkContext) -> LinkConfig:
    """Return the link without its own progress among the groups: that is of its source alone."""
    link = context.link
    if context.progress_group is None:
        return link
    left_out = (*link.groups.exclude, re.escape(context.progress_group))
    groups = link.groups.model_copy(update={"exclude": left_out})
    return link.model_copy(update={"groups": groups})
