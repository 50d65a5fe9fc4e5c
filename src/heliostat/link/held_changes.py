"""What a changed file may not do by itself: it waits until a person confirms it by SIGHUP. Pure.

A file that was saved too early, or by the wrong template, must not end links, leave topics or
delete records: held back are

    a link that is gone from the file, or leads from or to another cluster
    a selection that leaves more than a tenth of the topics that it selects now
    a policy that deletes at the target: `restart` of gaps, and further followed deletions

All else of the file takes effect meanwhile. What it does to links of the home: `home_in_force`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any

from heliostat.config import Config, GapsConfig, LinkConfig, TopicsConfig
from heliostat.names import LinkName, TopicName
from heliostat.topics.select import compile_selection

SHARE = 10
"""A selection may leave one topic of so many."""
NAMED_MAX = 3
RESTART = "restart"
SourceTopics = Callable[[LinkName], Collection[TopicName] | None]
"""Returns all topics of a link's source, as seen last; None: not yet."""


@dataclass(frozen=True, slots=True)
class NotInForce:
    """What of a configuration file is not in force for a link."""

    lines: tuple[str, ...] = ()
    """For people."""
    is_refused: bool = False
    """Whether it is invalid, so that nothing of it is."""


@dataclass(frozen=True, slots=True)
class HeldChange:
    """A change that waits to be confirmed."""

    link: LinkName
    field: str
    """Empty: the whole link."""
    why: str

    def line(self) -> str:
        """Return it for people."""
        what = f"{self.field}: " if self.field else ""
        return f"{what}{self.why}: held back, send SIGHUP to apply"


@dataclass(frozen=True, slots=True)
class TakenConfig:
    """A file's configuration without what is held back, and that."""

    config: Config
    held: tuple[HeldChange, ...] = ()


def hold_back(in_force: Config, wanted: Config, source_topics: SourceTopics) -> TakenConfig:
    """Return what takes effect of a new configuration by itself, and what is held back."""
    new = {link.name: link for link in wanted.links}
    old = {link.name: link for link in in_force.links}
    held: list[HeldChange] = []
    links: list[LinkConfig] = []
    for link in wanted.links:
        was = old.get(link.name)
        if was is None:
            links.append(link)
            continue
        taken, some = hold_back_link(was, link, source_topics)
        links.append(taken)
        held += some
    for link in in_force.links:
        if link.name not in new:
            links.append(link)
            held.append(HeldChange(LinkName(link.name), "", "the link is gone from the file"))
    needed = {alias for link in links for alias in (link.source, link.target)}
    clusters = {name: each for name, each in in_force.clusters.items() if name in needed}
    update = {"links": tuple(links), "clusters": {**clusters, **wanted.clusters}}
    return TakenConfig(wanted.model_copy(update=update) if held else wanted, tuple(held))


def hold_back_link(
    old: LinkConfig, new: LinkConfig, source_topics: SourceTopics
) -> tuple[LinkConfig, list[HeldChange]]:
    """Return what of a link's new configuration takes effect by itself, and what is held back."""
    name = LinkName(new.name)
    if (old.source, old.target) != (new.source, new.target):
        way = f"{old.source} → {old.target} becomes {new.source} → {new.target}"
        return old, [HeldChange(name, "", f"the link leads elsewhere, {way}")]
    held: list[HeldChange] = []
    topics, gaps, there = new.topics, new.gaps, source_topics(name)
    if why := _why_narrower(old.topics, new.topics, there):
        held.append(HeldChange(name, "topics", why))
        topics = _copy(topics, include=old.topics.include, exclude=old.topics.exclude)
    if further := [each for each in topics.follow_deletes if each not in old.topics.follow_deletes]:
        why = f"records of {_names(further)} would be deleted at the target"
        held.append(HeldChange(name, "topics.follow_deletes", why))
        topics = _copy(topics, follow_deletes=old.topics.follow_deletes)
    if why := _why_restarts(old.gaps, gaps, there):
        held.append(HeldChange(name, "gaps", why))
        gaps = old.gaps
    return (_copy(new, topics=topics, gaps=gaps) if held else new), held


def _why_narrower(old: TopicsConfig, new: TopicsConfig, there: Collection[TopicName] | None) -> str:
    """Say which topics a selection leaves, if these are too many; empty: it may be taken."""
    if (old.include, old.exclude) == (new.include, new.exclude):
        return ""
    if there is None:
        is_wider = set(old.include) <= set(new.include) and set(new.exclude) <= set(old.exclude)
        return "" if is_wider else "what the selection leaves can't be counted without the source"
    before = compile_selection(old).choose(there)
    after = compile_selection(new)
    left = [name for name in before if not after.selects(name)]
    if len(left) * SHARE <= len(before):
        return ""
    return f"the selection leaves {len(left)} of {len(before)} topics ({_names(left)})"


def _why_restarts(old: GapsConfig, new: GapsConfig, there: Collection[TopicName] | None) -> str:
    """Say which mirrors a policy may empty that it could not before; empty: none."""
    entries = [each for each, policy in new.topics.items() if policy == RESTART]
    further = [each for each in entries if old.topics.get(each) != RESTART]
    if new.policy == RESTART != old.policy:
        return "the policy restart empties mirrors"
    if not further and RESTART in {new.policy, *new.topics.values()} and new != old:
        names = there or ()
        further = [
            name for name in sorted(names) if new.policy_of(name) == RESTART != old.policy_of(name)
        ]
        if there is None:
            return "which mirrors the policy restart may empty can't be told without the source"
    return f"the policy restart empties mirrors of {_names(further)}" if further else ""


def _copy(section: Any, **fields: object) -> Any:
    return section.model_copy(update=fields)


def _names(names: Iterable[str]) -> str:
    first = list(names)
    more = f" and {len(first) - NAMED_MAX} more" if first[NAMED_MAX:] else ""
    return ", ".join(first[:NAMED_MAX]) + more
