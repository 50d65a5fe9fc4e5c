"""The links of a drill, as a configuration of their own: clusters and settings of the real link."""

from __future__ import annotations

from typing import Any

import yaml

from heliostat.config import Config, ConfigFile, LinkConfig
from heliostat.config.load import check
from heliostat.errors import ConfigError
from heliostat.handover.drill import DrillNote, Way

REFRESH_S, GROUPS_S = 2.0, 5.0
"""At most; a drill waits for several of them, a real link for none."""


def drill_config(file: ConfigFile, link: LinkConfig, note: DrillNote) -> tuple[Config, str]:
    """Return the configuration of a drill's links, as a value and as a file's text.

    Raises
    ------
    ConfigError
        The links can't be: all problems are named.
    """
    raw: dict[str, Any] = {
        "clusters": {alias: file.raw["clusters"][alias] for alias in (link.source, link.target)},
        "links": [
            _content(link, note, Way.THERE, link.source, link.target),
            _content(link, note, Way.BACK, link.target, link.source),
        ],
    }
    if "spark" in file.raw:
        raw["spark"] = file.raw["spark"]
    config, problems = check(raw)
    if config is None or problems:
        raise ConfigError("a drill can't have such links", problems=tuple(problems))
    return config, yaml.safe_dump(raw)


def _content(
    link: LinkConfig, note: DrillNote, way: Way, source: str, target: str
) -> dict[str, Any]:
    """Return one of the links; what is not the same on both sides is left out."""
    groups = link.groups
    return {
        "name": note.links[way],
        "source": source,
        "target": target,
        "topics": {
            "include": list(note.topics),
            "refresh_interval_s": min(link.topics.refresh_interval_s, REFRESH_S),
            "offsets": link.topics.offsets,
            "protect": link.topics.protect,
        },
        "groups": {
            "sync": groups.sync,
            "include": list(note.groups),
            "interval_s": min(groups.interval_s, GROUPS_S),
        },
        "lanes": link.lanes.model_dump(mode="json", exclude_unset=True),
        "state": link.state.model_dump(mode="json", exclude_unset=True),
    }


def not_rehearsed(link: LinkConfig) -> tuple[str, ...]:
    """Return what of a link its drill leaves out."""
    notes: list[str] = []
    if not link.groups.sync:
        notes.append("groups are not rehearsed: groups.sync is off")
    if link.schemas.strategy != "off":
        notes.append("schemas are not rehearsed")
    if link.pipelines:
        notes.append("pipelines are not rehearsed")
    if link.access.is_on:
        notes.append("rights that follow the source are not rehearsed")
    return tuple(notes)
