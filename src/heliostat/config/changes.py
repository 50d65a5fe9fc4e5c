"""What differs between two configurations, and how each difference takes effect in a process.

LIVE       while the link copies: the next reconciliation goes by it
ANEW       the link ends gracefully and begins with it; other links copy on
SERVICE    the process that serves page and API begins anew
RESTART    only when the process is started again
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, cast

from pydantic import BaseModel

from heliostat.config.model import Config, LinkConfig
from heliostat.names import LinkName

SHOWN_MAX = 8
"""Entries of a list that a line names."""
_ABSENT = object()


class Effect(Enum):
    """How a changed field takes effect, from the least disturbance to the greatest."""

    LIVE = "while it copies"
    ANEW = "the link begins anew"
    SERVICE = "the service begins anew"
    RESTART = "takes effect when the process is started again"


_LIVE = (
    *(
        f"topics.{name}"
        for name in (
            "include",
            "exclude",
            "start",
            "replication_factor",
            "config_exclude",
            "config_set",
            "sync_configs",
            "sync_broker_values",
            "follow_deletes",
            "merge_compacted",
            "protect",
            "refresh_interval_s",
        )
    ),
    "gaps",
    "errors",
    "heartbeats",
    "checkpoints",
    "offset_syncs",
    "groups",
    "access",
)
"""Fields of a link, or sections, that reconciliations and loops read; lanes know none of them."""
_RESTART = ("spark", "service.home")
_OF_EACH_LINK = ("metrics.progress_group", "metrics.groups")
"""Fields outside of links that each link's parts go by."""


@dataclass(frozen=True, slots=True)
class FieldChange:
    """A field that differs, and how that takes effect."""

    field: str
    """As in the file, from the link's section on, or from the file's top."""
    effect: Effect
    words: str = ""
    """Both values, if they are short and no secret."""

    def line(self) -> str:
        """Return it for people."""
        return f"{self.field} {self.words}".rstrip() + f" ({self.effect.value})"


class LinkFate(Enum):
    """What becomes of a link."""

    NEW = "new"
    GONE = "gone"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True)
class LinkChange:
    """What becomes of one link."""

    link: LinkName
    fate: LinkFate
    fields: tuple[FieldChange, ...] = ()

    @property
    def begins_anew(self) -> bool:
        """Whether its parts must end and begin."""
        return any(change.effect is Effect.ANEW for change in self.fields)

    def lines(self) -> list[str]:
        """Return a line for each change."""
        if self.fate is LinkFate.NEW:
            return [f"link {self.link} begins"]
        if self.fate is LinkFate.GONE:
            return [f"link {self.link} ends; its mirrors and its state stay"]
        return [f"link {self.link}: {change.line()}" for change in self.fields]


@dataclass(frozen=True, slots=True)
class ConfigChanges:
    """All that differs between two configurations."""

    links: tuple[LinkChange, ...] = ()
    process: tuple[FieldChange, ...] = ()
    """What is outside of links."""

    def __bool__(self) -> bool:
        """Return whether anything differs."""
        return bool(self.links or self.process)

    def of(self, fate: LinkFate) -> list[LinkChange]:
        """Return the links of that fate."""
        return [change for change in self.links if change.fate is fate]

    def lines(self) -> list[str]:
        """Return a line for each change."""
        of_links = [line for change in self.links for line in change.lines()]
        return of_links + [change.line() for change in self.process]


def changes_between(before: Config, after: Config) -> ConfigChanges:
    """Return what differs; `defaults` are in the links already."""
    process = tuple(
        change
        for section in ("spark", "service", "metrics")
        for change in _fields(getattr(before, section), getattr(after, section), section)
    )
    shared = tuple(
        FieldChange(change.field, Effect.ANEW, change.words)
        for change in process
        if _is_in(change.field, _OF_EACH_LINK)
    )
    old = {link.name: link for link in before.links}
    new = {link.name: link for link in after.links}
    links = [LinkChange(LinkName(name), LinkFate.NEW) for name in new if name not in old]
    links += [LinkChange(LinkName(name), LinkFate.GONE) for name in old if name not in new]
    for name, link in new.items():
        if (was := old.get(name)) is not None:
            fields = (*_fields(was, link, ""), *_of_clusters(before, after, link), *shared)
            if fields:
                links.append(LinkChange(LinkName(name), LinkFate.CHANGED, fields))
    of_process = tuple(change for change in process if not _is_in(change.field, _OF_EACH_LINK))
    return ConfigChanges(tuple(links), of_process)


def _of_clusters(before: Config, after: Config, link: LinkConfig) -> Iterator[FieldChange]:
    """Yield what differs in the clusters of a link; values are not shown: some are secrets."""
    for alias in (link.source, link.target):
        old, new = before.clusters.get(alias), after.clusters[alias]
        if old is None or old == new:
            continue
        for field, _, _ in _differences(old, new, f"clusters.{alias}"):
            yield FieldChange(field, Effect.ANEW)


def _fields(before: BaseModel, after: BaseModel, where: str) -> Iterator[FieldChange]:
    if before == after:
        return
    for field, old, new in _differences(before, after, where):
        words = "" if field.startswith("metrics.influx") else _words(old, new)
        yield FieldChange(field, _effect_of(field), words)


def _differences(
    before: BaseModel, after: BaseModel, where: str
) -> Iterator[tuple[str, object, object]]:
    """Yield each field whose values differ; of nested sections the fields in them."""
    for name in type(after).model_fields:
        old, new = getattr(before, name, _ABSENT), getattr(after, name)
        if old == new:
            continue
        field = f"{where}.{name}" if where else name
        if isinstance(old, BaseModel) and type(old) is type(new):
            yield from _differences(old, new, field)
        else:
            yield field, old, new


def _effect_of(field: str) -> Effect:
    if _is_in(field, _RESTART):
        return Effect.RESTART
    if field.startswith(("service.", "metrics.")):
        return Effect.SERVICE
    return Effect.LIVE if _is_in(field, _LIVE) else Effect.ANEW


def _is_in(field: str, sections: tuple[str, ...]) -> bool:
    return any(field == section or field.startswith(f"{section}.") for section in sections)


def _words(before: object, after: object) -> str:
    """Return what was and is, of lists what came and went; nothing of what is neither."""
    if _is_list(before) and _is_list(after):
        old, new = cast("tuple[str, ...]", before), cast("tuple[str, ...]", after)
        came = [f"+{entry}" for entry in new if entry not in old]
        went = [f"-{entry}" for entry in old if entry not in new]
        shown = [*came, *went] or ["in another order"]
        more = f" and {len(shown) - SHOWN_MAX} more" if shown[SHOWN_MAX:] else ""
        return " ".join(shown[:SHOWN_MAX]) + more
    old_word, new_word = _word(before), _word(after)
    return f"{old_word} → {new_word}" if old_word and new_word else ""


def _is_list(value: object) -> bool:
    return isinstance(value, tuple) and all(isinstance(entry, str) for entry in value)


def _word(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, str | int):
        return str(value)
    if isinstance(value, Mapping):
        entries = cast("Mapping[str, Any]", value).items()
        return "{" + ", ".join(f"{key}: {entry}" for key, entry in entries) + "}"
    return ""
