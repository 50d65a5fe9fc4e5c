"""Which mirrors are the link's: durable before records, left to other links that have them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from heliostat.link.known import Known
from heliostat.names import TopicName
from heliostat.other_links.at_source import Upstream
from heliostat.other_links.at_target import new_mirrors
from heliostat.other_links.claims import OtherClaims
from heliostat.state.link_state import LinkState, begun_of
from heliostat.topics.apply import ApplyReport
from heliostat.topics.topic_plan import TopicPlan
from heliostat.topics.values import SourceTopics


@dataclass(frozen=True, slots=True)
class MirrorMemory:
    """Keeps what the link knows of its mirrors, in memory and in its state.

    Parameters
    ----------
    state
        The link's state on the target.
    other_links
        Finds target topics that are mirrors of links of other files.
    upstream
        Which topics of the source are mirrors.
    """

    state: LinkState
    other_links: OtherClaims
    upstream: Upstream

    def announce(self, known: Known, plan: TopicPlan) -> None:
        """Announce mirrors before their topics exist: other links that list them must know."""
        created = {topic.target for topic in plan.create}
        making = [record for record in plan.remember if record.target in created]
        if making:
            known.making.update(record.source for record in making)
            self.state.put_making(making)

    def remember(
        self, known: Known, plan: TopicPlan, applied: ApplyReport
    ) -> Collection[TopicName]:
        """Make mirrors durable; return target topics that were no mirrors before."""
        records = {record.source: record for record in applied.remember}
        usable = {mirror.source: mirror for mirror in applied.mirrors}
        for record in plan.remember:  # no mirror that is copied may be unknown
            mirror = usable.get(record.source)
            is_unknown = record.source not in records and record.source not in known.mirrors
            if mirror is not None and is_unknown:
                made = replace(record, target_id=mirror.target_id, synced_configs=())
                records[record.source] = made
        new = new_mirrors(known.mirrors, records.values())
        told = known.making - applied.failed.keys()  # those that failed may appear yet
        if records or told:
            self.state.put_mirrors(records, made=told)
            known.mirrors.update(records)
            known.making -= told
        return new

    def forget(self, known: Known, names: Collection[TopicName]) -> None:
        """Leave mirrors to others; a source topic's mirror here may be wanted again later."""
        if names:
            self.state.drop_mirrors(names)
            for name in names:
                known.mirrors.pop(name, None)
                known.starts.pop(name, None)

    def leave_circles(
        self, known: Known, source: SourceTopics, applied: ApplyReport
    ) -> tuple[ApplyReport, tuple[str, ...]]:
        """Look once more at what feeds the source, for mirrors that have no records yet."""
        begun = begun_of(known.mirrors, known.starts)
        claims = {
            m.source: known.mirrors[m.source] for m in applied.mirrors if m.source not in begun
        }
        found = self.upstream.look_again(source, claims, applied.created)
        self.forget(known, found.let_go)
        kept = tuple(m for m in applied.mirrors if m.source not in found.not_yet)
        return replace(applied, mirrors=kept), found.notes()

    def let_go(self, known: Known, applied: ApplyReport, new: Collection[TopicName]) -> ApplyReport:
        """Leave new mirrors to another link that has just claimed them."""
        other_links = self.other_links(new)
        lost = [mirror.source for mirror in applied.mirrors if mirror.target in other_links]
        if not lost:
            return applied
        self.forget(known, lost)
        kept = tuple(mirror for mirror in applied.mirrors if mirror.target not in other_links)
        return replace(applied, mirrors=kept)
