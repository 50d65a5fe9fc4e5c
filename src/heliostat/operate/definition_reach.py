"""Which topics and partitions a change of a definition concerns; only the source is asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from heliostat.config import ConfigFile, LinkConfig
from heliostat.config.defined import with_definitions
from heliostat.errors import HeliostatError
from heliostat.names import LinkName, TopicName
from heliostat.other_links.same_file import ask_partitions
from heliostat.topics.select import selection_of


@dataclass(frozen=True, slots=True)
class TopicCount:
    """A number of topics of the source, and of their partitions."""

    topics: int = 0
    partitions: int = 0

    def text(self) -> str:
        """Return it in words."""
        return f"{self.topics:,} topics with {self.partitions:,} partitions"


@dataclass(frozen=True, slots=True)
class DefinitionReach:
    """What a definition would select now."""

    selected: TopicCount = TopicCount()
    begun: TopicCount = TopicCount()
    """That the definition before it does not select."""
    left: TopicCount = TopicCount()
    """That only the definition before it selects: copied no more, and their mirrors stay."""
    error: str = ""
    """Why none of it is known."""

    def describe(self) -> Iterator[str]:
        """Yield lines for people."""
        if self.error:
            yield f"how many partitions it concerns is not known: {self.error}"
            return
        yield f"selects {self.selected.text()} now"
        if self.begun.topics:
            yield f"{self.begun.text()} begin to be copied"
        if self.left.topics:
            yield f"{self.left.text()} are copied no more; their mirrors stay"

    def to_json(self) -> dict[str, Any]:
        """Return it for `--json`."""
        return asdict(self)


def reach_of(
    file: ConfigFile,
    name: str,
    before: Mapping[str, Any] | None,
    after: Mapping[str, Any],
) -> DefinitionReach:
    """Return what a definition selects at its source, beside the one before it.

    Parameters
    ----------
    before
        None: there is none.
    """
    was, link = (
        None if content is None else _link(file, name, content) for content in (before, after)
    )
    if link is None:
        return DefinitionReach(error="this file can't take the link")
    try:
        topics = ask_partitions(file.config, link.source)
    except HeliostatError as error:
        return DefinitionReach(error=f"{link.source} does not answer: {error.text}")
    return compared(was, link, topics)


def compared(
    before: LinkConfig | None, after: LinkConfig, topics: Mapping[TopicName, int]
) -> DefinitionReach:
    """Return what two definitions select; pure.

    Parameters
    ----------
    topics
        Those of the source that the later one names, with their numbers of partitions.
    """
    now = set(filter(selection_of(after).selects, topics))
    same = before is not None and before.source == after.source
    was = (
        set(filter(selection_of(before).selects, topics)) if before is not None and same else set()
    )

    def count(names: set[TopicName]) -> TopicCount:
        return TopicCount(len(names), sum(topics[name] for name in names))

    return DefinitionReach(count(now), count(now - was), count(was - now))


def _link(file: ConfigFile, name: str, content: Mapping[str, Any]) -> LinkConfig | None:
    links = with_definitions(file, {LinkName(name): content}).config.links
    return next((link for link in links if link.name == name), None)
