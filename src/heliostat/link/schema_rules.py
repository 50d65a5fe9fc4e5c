"""Which subjects of the source a link mirrors, and under which names."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from heliostat.access import RegistryAccess
from heliostat.config import LinkConfig, SchemasConfig, compile_pattern
from heliostat.names import TopicName
from heliostat.records.copier.lane import NO_FRAMES, SchemaFrames
from heliostat.schemas import (
    RegistryContent,
    SchemaRules,
    Strategy,
    SubjectNaming,
)
from heliostat.schemas.mirroring import RulesOf
from heliostat.schemas.naming import named_after
from heliostat.schemas.registry.values import DEFAULT_CONTEXT, Context, Subject, split_subject
from heliostat.topics.values import MirrorRecord

KEY = "key"
"""What `TopicNameStrategy` puts behind a topic and a hyphen for keys; all else concerns values."""
TopicsAmong = Callable[[frozenset[TopicName]], Iterable[TopicName]]
"""Which of some topics the source has now."""


class TopicLooks(NamedTuple):
    """Ways to look at the source's topics."""

    known: Callable[[], frozenset[TopicName] | None]
    """All, as last observed; None: they were not yet."""
    among: TopicsAmong
    """Asks the source: some may have appeared since."""


def copied_names(
    link: LinkConfig, mirrors: Mapping[TopicName, MirrorRecord]
) -> dict[TopicName, TopicName]:
    """Return target topics by source topic, of those that the link copies as it is configured.

    A mirror that is to be merged in place is not copied until then. What its records have by the
    strategy before must still be seen at the target's registry (`operate.turned_schemas`).
    """
    return {
        name: each.target
        for name, each in list(mirrors.items())
        if each.is_merged == link.topics.merges
    }


def no_newer(_: frozenset[TopicName]) -> Iterable[TopicName]:
    """What there is besides the topics that are known: none, as they were read last."""
    return ()


def rules_of(
    link: LinkConfig,
    mirrors: Mapping[TopicName, TopicName],
    source_topics: Iterable[TopicName],
    among: TopicsAmong = no_newer,
) -> RulesOf:
    """Return how a link's schemas are mirrored, once the source's subjects are known.

    Selected are subjects that are named after mirrored topics, and those that are named after no
    topic of the source at all (record names). What is named after another topic is left: it may
    itself be a mirror, and must not go back to where it came from.

    Parameters
    ----------
    link
        Its configuration.
    mirrors
        Mirrors by their source topics.
    source_topics
        All topics of the source.
    among
        Asked, once the subjects have been read, for topics that may have appeared since.
    """
    settings = link.schemas
    context = context_of(link)
    naming = SubjectNaming(dict(mirrors), context, settings.keep_names)
    every = SubjectNaming({each: each for each in (*source_topics, *mirrors)})
    include = [compile_pattern(entry) for entry in settings.include]
    exclude = [compile_pattern(entry) for entry in settings.exclude]

    def is_selected(subject: Subject) -> bool:
        name = split_subject(subject)[1]
        if any(pattern.fullmatch(name) for pattern in exclude):
            return False
        if naming.topic_of(subject) is not None:
            return True
        is_of_a_topic = every.topic_of(subject) is not None
        return not is_of_a_topic and any(pattern.fullmatch(name) for pattern in include)

    def rules(source: RegistryContent) -> SchemaRules:
        selected = set(filter(is_selected, {each.subject for each in source.versions}))
        maybe = {each: named_after(each) for each in selected if naming.topic_of(each) is None}
        asked = frozenset(topic for topic in maybe.values() if topic is not None)
        newer = frozenset(among(asked)) if asked else frozenset()
        return SchemaRules(
            Strategy(settings.strategy),
            naming,
            frozenset(each for each in selected if maybe.get(each) not in newer),
            carries_compatibility=settings.compatibility == "carry",
            follows_deletions=not link.topics.merges,
        )

    return rules


def context_of(link: LinkConfig) -> Context:
    """Return the context at the target that a link's schemas are in."""
    if link.schemas.strategy != "isolate":
        return DEFAULT_CONTEXT
    return Context(link.schemas.context or f".{link.source}")


def registries_of(link: LinkConfig, source: RegistryAccess, target: RegistryAccess) -> str:
    """Return what ids that were announced hold for: these registries, and this way to them."""
    told = [link.schemas.strategy, context_of(link), source.urls, target.urls]
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()[:16]


def frames_in(
    source: RegistryContent, topics: Iterable[TopicName]
) -> dict[TopicName, SchemaFrames]:
    """Return what of the topics' records begins with an id, by subjects named after them."""
    naming = SubjectNaming({each: each for each in topics})
    found: dict[TopicName, SchemaFrames] = {}
    for subject in {each.subject for each in source.versions}:
        topic = naming.topic_of(subject)
        if topic is not None and split_subject(subject)[0] == DEFAULT_CONTEXT:
            is_key = subject == f"{topic}-{KEY}"
            part = SchemaFrames.KEYS if is_key else SchemaFrames.VALUES
            found[topic] = found.get(topic, NO_FRAMES) | part
    return found


def frames_of(
    settings: SchemasConfig, topic: TopicName, found: Mapping[TopicName, SchemaFrames]
) -> SchemaFrames:
    """Return what of a topic's records begins with an id; without any sign, values may."""
    if settings.strategy == "off":
        return NO_FRAMES
    known = found.get(topic, NO_FRAMES)
    if any(compile_pattern(entry).fullmatch(topic) for entry in settings.framed):
        known |= SchemaFrames.VALUES
    elif any(compile_pattern(entry).fullmatch(topic) for entry in settings.plain):
        known &= ~SchemaFrames.VALUES
    elif SchemaFrames.VALUES not in known:
        known |= SchemaFrames.MAYBE_VALUES
    return known | SchemaFrames.REPLACED if known and settings.strategy == "rewrite" else known
