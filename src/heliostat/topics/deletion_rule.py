"""In which mirrors goes what is deleted at the source, and why; pure.

By default only in repartition topics of Kafka Streams: the application deletes what it has read,
and nothing else ends them. Elsewhere a mistake at the source would empty the copy, and a target may
keep records for longer than its source: so only where `topics.follow_deletes` says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from heliostat.clusters.admin import ConfigEntry
from heliostat.config import TopicsConfig, compile_pattern
from heliostat.slots import Slot
from heliostat.topics.values import SourceTopic

REPARTITION_ENDING = "-repartition"
ENDLESS: Mapping[str, str] = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
}
"""Effective settings of a source topic whose log start moves only if somebody deletes records."""
FOLLOWED = "that the source has deleted are deleted from its mirror as well"
"""What an event says of deletions that were followed; `explain` finds it by these words."""


@dataclass(frozen=True, slots=True)
class DeletionRule:
    """Whether deletions are followed in a mirror.

    Parameters
    ----------
    follows
        Whether they are.
    why
        What decided, in words.
    needs_exact
        Whether only in partitions with the source's offsets: nobody has listed the topic.
    """

    follows: bool
    why: str
    needs_exact: bool = False


def deletion_rule(config: TopicsConfig, topic: SourceTopic, slot: Slot) -> DeletionRule | None:
    """Return the rule of a topic; None: nobody expects its deletions to be followed."""
    if config.merges:
        return None
    entry = _entry_for(config, topic.name)
    if entry is None and not topic.name.endswith(REPARTITION_ENDING):
        return None
    if slot.is_shared:
        return DeletionRule(follows=False, why="other links write into its mirror (topics.fan_in)")
    if entry is not None:
        return DeletionRule(follows=True, why=f"topics.follow_deletes has {entry}")
    ended = _ended_by(topic.configs)
    if ended:
        return DeletionRule(follows=False, why=f"the source has {ended}, so age or size may end it")
    why = "a repartition topic, which only its application's deletions end"
    return DeletionRule(follows=True, why=why, needs_exact=True)


def may_follow(config: TopicsConfig, topic: str) -> str:
    """Return by what deletions may be followed in a topic's mirror; empty: they are not."""
    if (entry := _entry_for(config, topic)) is not None:
        return f"topics.follow_deletes has {entry}"
    return "repartition topics follow" if topic.endswith(REPARTITION_ENDING) else ""


def _entry_for(config: TopicsConfig, name: str) -> str | None:
    entries = config.follow_deletes
    return next((entry for entry in entries if compile_pattern(entry).fullmatch(name)), None)


def _ended_by(configs: Mapping[str, ConfigEntry]) -> str:
    """Return the first setting by which brokers delete records themselves; empty: there is none."""
    for key, wanted in ENDLESS.items():
        value = configs[key].value if key in configs else None
        if value != wanted:
            return f"{key}={value}" if value is not None else f"no {key} that it tells"
    return ""
