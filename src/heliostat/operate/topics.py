"""`heliostat topics`: which topics of the sources links select, and their names at the target."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from heliostat.clusters.admin import ClusterAdmin
from heliostat.config import Config, LinkConfig
from heliostat.names import Alias, LinkName, TopicName
from heliostat.operate.links import links_of
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
    return [row for link in links_of(config, link_name) for row in _previews(config, link)]


def _previews(config: Config, link: LinkConfig) -> Iterator[TopicPreview]:
    selection, naming = selection_of(link), naming_of(link)
    for name in _topic_names(config, link.source):
        decision = selection.explain(name)
        target = naming.target_name(name) if decision.selected else None
        slot = naming.slot_of(name)
        yield TopicPreview(link.name, name, decision.selected, decision.why, target, slot)


def _topic_names(config: Config, alias: Alias) -> list[TopicName]:
    with ClusterAdmin(config.clusters[alias].access()) as admin:
        return sorted(admin.describe_topics())
