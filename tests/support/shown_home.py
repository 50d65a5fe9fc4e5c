"""An invented home of the shown links: the first stands in the file, the other on the home."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from support.home import HomeLog

from heliostat.config import Config, ConfigFile, LinkConfig
from heliostat.definitions.definition import Definition, DefinitionKey, DefinitionKind
from heliostat.names import TopicName
from heliostat.operate import definition_reach, home, link_definitions, link_removal
from heliostat.operate.link_removal import Removal


def install(config: Config) -> Callable[[], ConfigFile]:
    """Put a home in memory in place of the cluster; return what reads the file that names it."""
    log = HomeLog()
    for module in (home, link_definitions, link_removal):
        setattr(module, "home_book", log.book)  # noqa: B010  # it stands in for it

    def topics(
        _: ConfigFile, link: LinkConfig, removal: Removal
    ) -> tuple[tuple[TopicName, ...], tuple[str, ...]]:
        mirrors = [TopicName(f"summit.mirror{number}") for number in range(2)]
        own = [TopicName(f"heliostat.{link.name}.status")]
        return (*(mirrors if removal.mirrors else ()), *(own if removal.state else ())), ()

    setattr(link_removal, "_topics", topics)  # noqa: B010  # it stands in for it
    setattr(  # noqa: B010  # it stands in for it
        link_removal,
        "_delete_topics",
        lambda file, link, removal, _: topics(file, link, removal)[0],
    )
    names = [f"{name}.{number}" for name in ("ESS", "EFD") for number in range(30)]
    partitions = dict.fromkeys(map(TopicName, names), 4)
    setattr(  # noqa: B010  # it stands in for it
        definition_reach, "ask_partitions", lambda *_: partitions
    )
    raw = config.model_dump(mode="json", exclude_unset=True)
    first, other = raw["links"]
    raw = {**raw, "links": [first], "service": {"home": first["target"]}}
    content = {key: value for key, value in other.items() if key != "name"}
    content["topics"] = {"include": ["EFD.*"]}
    key = DefinitionKey(DefinitionKind.LINK, other["name"])
    log.append(key, Definition(key, content, "anne", 1_790_000_000_000, "a trial"))
    file = ConfigFile(Path("heliostat.yaml"), raw, Config.model_validate(raw))
    return lambda: file
