"""The links of the home as far as they are in force: what the *file* does to them may wait; pure.

`defaults`, `clusters` and `service.allow` of the file reach links of the home. What of a changed
file could end one, leave topics of it or delete records waits to be confirmed, as for links of the
file. What changes a definition is asked for link by link, and takes effect at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from heliostat.config import ClusterConfig, ConfigFile, LinkConfig
from heliostat.definitions.home_links import HomeLook
from heliostat.link.held_changes import HeldChange, SourceTopics, hold_back_link
from heliostat.names import Alias, LinkName

_HELD_FIELDS = {"topics": ("include", "exclude", "follow_deletes"), "gaps": None}
"""Sections of which something may be held, and which fields; None: all of it."""


class HomeInForce:
    """What is in force of the home's links.

    Parameters
    ----------
    file, links
        The file that links went by first, and the links of its home then.
    source_topics
        Returns all topics of a link's source.
    """

    def __init__(
        self, file: ConfigFile, links: tuple[LinkConfig, ...], source_topics: SourceTopics
    ) -> None:
        self.file = file
        """The newest file of which nothing ends a link without being confirmed."""
        self.clusters: Mapping[Alias, ClusterConfig] = file.config.clusters
        """Those that the links need, also where the file has them no more."""
        self.held: tuple[HeldChange, ...] = ()
        self._links = {LinkName(link.name): link for link in links}
        self._wanted = dict(self._links)
        """As file and definitions have them."""
        self._look: HomeLook | None = None
        self._seen = file
        """The file that `_wanted` is of."""
        self._confirmed: ConfigFile | None = None
        self._source_topics = source_topics

    @property
    def links(self) -> tuple[LinkConfig, ...]:
        """The links as they are in force."""
        return tuple(self._links.values())

    def file_is(self, file: ConfigFile, *, is_confirmed: bool) -> None:
        """Note that there is another file; if it is confirmed nothing of it is held."""
        self._confirmed = file if is_confirmed else None
        if is_confirmed:
            self.file = file
            if self._look is not None and self._look.file.raw == file.raw:
                self.take(self._look)

    def take(self, look: HomeLook) -> None:
        """Go by what the home holds now, and by the file that this was read with."""
        of_file = {link.name for link in look.file.config.links}
        new = {
            LinkName(link.name): link
            for link in look.whole.config.links
            if link.name not in of_file
        }
        for name in [name for name in self._links if name in of_file]:
            del self._links[name]
        held: list[HeldChange] = []
        if self._confirmed is not None and self._confirmed.raw == look.file.raw:
            links = new
        elif self._seen.raw != look.file.raw:
            links = dict(self._held_by_file(new, look, held))
        else:
            links = dict(self._changed_by_definitions(new, look, held))
        self.held = tuple(held)
        needed = {alias for link in links.values() for alias in (link.source, link.target)}
        there = {**self.clusters, **look.file.config.clusters}
        self.clusters = {alias: each for alias, each in there.items() if alias in needed}
        self._links, self._wanted = links, new
        self._look, self._seen = look, look.file
        if all(change.field for change in held):
            self.file = look.file

    def _held_by_file(
        self, new: Mapping[LinkName, LinkConfig], look: HomeLook, held: list[HeldChange]
    ) -> Iterator[tuple[LinkName, LinkConfig]]:
        for name, link in new.items():
            was = self._links.get(name)
            taken, changes = (
                (link, []) if was is None else hold_back_link(was, link, self._source_topics)
            )
            held += changes
            yield name, taken
        yield from self._kept([name for name in self._links if name not in new], look, held)

    def _changed_by_definitions(
        self, new: Mapping[LinkName, LinkConfig], look: HomeLook, held: list[HeldChange]
    ) -> Iterator[tuple[LinkName, LinkConfig]]:
        before = {name: [each for each in self.held if each.link == name] for name in new}
        for name, link in new.items():
            was, wanted = self._links.get(name), self._wanted.get(name)
            if not before[name] or was is None or wanted is None:
                yield name, link
                continue
            taken = _merged(was, wanted, link)
            held += [each for each in before[name] if _differs(taken, link, each.field)]
            yield name, taken
        gone = [each.link for each in self.held if not each.field and each.link not in new]
        yield from self._kept([name for name in gone if name in self._links], look, held)

    def _kept(
        self, gone: Iterable[LinkName], look: HomeLook, held: list[HeldChange]
    ) -> Iterator[tuple[LinkName, LinkConfig]]:
        """Yield those of these that are still defined: it is the file that can't have them."""
        for name in gone:
            if problems := look.whole.waits.get(name):
                why = f"by the file the link would end: {'; '.join(problems)}"
                held.append(HeldChange(name, "", why))
                yield name, self._links[name]


def _merged(in_force: LinkConfig, before: LinkConfig, after: LinkConfig) -> LinkConfig:
    """Return a link as its definition has it now, but for what is held and was not changed."""
    if (in_force.source, in_force.target) != (after.source, after.target):
        same_way = (before.source, before.target) == (after.source, after.target)
        return in_force if same_way else after
    sections: dict[str, Any] = {}
    for section, fields in _HELD_FIELDS.items():
        was, wanted, now = (getattr(each, section) for each in (in_force, before, after))
        sections[section] = _of_section(was, wanted, now, fields or tuple(type(now).model_fields))
    return after.model_copy(update=sections)


def _of_section(
    in_force: BaseModel, before: BaseModel, after: BaseModel, fields: tuple[str, ...]
) -> BaseModel:
    kept = {
        field: getattr(in_force, field)
        for field in fields
        if getattr(before, field) == getattr(after, field)
    }
    return after.model_copy(update=kept)


def _differs(taken: LinkConfig, wanted: LinkConfig, field: str) -> bool:
    """Return whether a held field still is not as it is wanted; empty: where the link leads."""
    if not field:
        return (taken.source, taken.target) != (wanted.source, wanted.target)
    was, new = taken, wanted
    for part in field.split("."):
        was, new = getattr(was, part), getattr(new, part)
    return bool(was != new)
