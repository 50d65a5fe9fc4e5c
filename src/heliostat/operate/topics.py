"""`heliostat topics`: which topics of the sources links select, and their names at the target."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from heliostat.clusters.admin import ClusterAdmin
from heliostat.config import Config, LinkConfig
from heliostat.names import Alias, LinkName, TopicName
from heliostat.operate.each_link import CLUSTERS_AT_ONCE
from heliostat.operate.links import links_of
from heliostat.ops.asked import each_answer
from heliostat.slots import WHOLE_TOPIC, Slot
from heliostat.topics.naming import naming_of
from heliostat.topics.select import selection_of


@dataclass(frozen=True, slots=True)
class TopicPreview:
    """One source topic, and whether a link selects it; `target` is None if not."""

    link: LinkName
    topic: TopicName
    selected: bool
    why: str
    target: TopicName | None
    slot: Slot = WHOLE_TOPIC
    """Partitions of the target topic that belong to the mirror."""


def preview_topics(config: Config, link_name: str | None = None) -> list[TopicPreview]:
    """Return every topic of the links' sources: selected or not, why, and its name at the target.

    Changes nothing and contacts only the sources.
    """
    links = links_of(config, link_name)
    sources = sorted({link.source for link in links})
    asks = {alias: partial(_topic_names, config, alias) for alias in sources}
    names: dict[Alias, list[TopicName]] = {}
    for alias, answer in each_answer(asks, CLUSTERS_AT_ONCE).items():
        if isinstance(answer, BaseException):
            raise answer
        names[alias] = answer
    return [row for link in links for row in _previews(link, names[link.source])]


def _previews(link: LinkConfig, names: Iterable[TopicName]) -> Iterator[TopicPreview]:
    selection, naming = selection_of(link), naming_of(link)
    for name in names:
        decision = selection.explain(name)
        target = naming.target_name(name) if decision.selected else None
        slot = naming.slot_of(name)
        yield TopicPreview(link.name, name, decision.selected, decision.why, target, slot)


def _topic_names(config: Config, alias: Alias) -> list[TopicName]:
    with ClusterAdmin(config.clusters[alias].access()) as admin:
        return sorted(admin.describe_topics())
