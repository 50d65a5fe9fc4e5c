"""Checks across fields of the configuration, or of the clusters' answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any

from heliostat.config.model import RESERVED_BEGINNINGS, Config, LinkConfig
from heliostat.config.patterns import compile_pattern, is_plain_name
from heliostat.config.registry import RegistryConfig
from heliostat.config.service import LINK_PLACE
from heliostat.errors import ConfigError
from heliostat.names import Alias, ClusterId, metric_name

CHANGES_BOTH = (
    "may change timestamps and values, so after an unclean election of the source nothing tells "
    "lost records from those that it has in their place"
)
CHANGES_SCHEMAS = (
    "changes Avro fields: the schemas that it needs at the other site are that site's own as well, "
    "and would be carried back"
)


def check_distinct_clusters(link: LinkConfig, source_id: ClusterId, target_id: ClusterId) -> None:
    """Refuse a link whose two aliases lead to the same cluster.

    Raises
    ------
    ConfigError
        Both clusters report the same id: every record would be copied onto itself.
    """
    if source_id == target_id:
        raise ConfigError(
            f"link {link.name}: {link.source} and {link.target} are the same cluster "
            f"(cluster id {source_id})",
            hint="give source and target the bootstrap addresses of two clusters",
        )


def cross_problems(raw: Mapping[str, Any]) -> Iterator[str]:
    """Yield problems between fields of a raw file, whatever else may be wrong in it."""
    clusters = raw.get("clusters")
    aliases = [a for a in clusters if isinstance(a, str)] if isinstance(clusters, dict) else []
    for alias, other in combinations(aliases, 2):
        if alias.casefold() == other.casefold():
            yield f"clusters.{other}: equal to alias {alias} except for case (got {other!r})"
    service = raw.get("service")
    home = service.get("home") if isinstance(service, dict) else None
    if isinstance(home, str) and home not in aliases:
        yield f"service.home: {_no_such_cluster(home, aliases)}"
    connect = service.get("connect") if isinstance(service, dict) else None
    target = connect.get("target") if isinstance(connect, dict) else None
    if isinstance(target, str) and target not in aliases:
        yield f"service.connect.target: {_no_such_cluster(target, aliases)}"
    links = raw.get("links")
    if isinstance(links, list) and not links and home is None:
        yield "links: must not be empty, unless service.home is set (got [])"
    indexes: dict[str, int] = {}
    for index, link in enumerate(links if isinstance(links, list) else ()):
        if not isinstance(link, dict):
            continue
        name = link.get("name")
        if isinstance(name, str):
            if name.casefold() in indexes:
                first = indexes[name.casefold()]
                yield f"links[{index}].name: links[{first}] has that name (got {name!r})"
            indexes.setdefault(name.casefold(), index)
        yield from _side_problems(f"links[{index}]", link, aliases, clusters)


def _side_problems(
    where: str, link: Mapping[str, Any], aliases: list[str], clusters: Any
) -> Iterator[str]:
    sides = {side: link.get(side) for side in ("source", "target")}
    for side, alias in sides.items():
        if isinstance(alias, str) and alias not in aliases:
            yield f"{where}.{side}: {_no_such_cluster(alias, aliases)}"
    source, target = sides["source"], sides["target"]
    if not isinstance(source, str) or not isinstance(target, str):
        return
    if source == target:
        yield f"{where}.target: the link would copy a cluster to itself (got {target!r})"
    elif source in aliases and target in aliases:
        shared = _addresses(clusters[source]) & _addresses(clusters[target])
        if shared:
            yield (
                f"{where}.target: source and target share a bootstrap address, they are the "
                f"same cluster (got {min(shared)!r})"
            )


def _no_such_cluster(alias: str, aliases: list[str]) -> str:
    return f"no such cluster, there are {', '.join(aliases) or 'none'} (got {alias!r})"


def _addresses(cluster: Any) -> set[str]:
    bootstrap = cluster.get("bootstrap") if isinstance(cluster, dict) else None
    entries = [bootstrap] if isinstance(bootstrap, str) else bootstrap
    return (
        {e.lower() for e in entries if isinstance(e, str)} if isinstance(entries, list) else set()
    )


def target_problems(config: Config) -> Iterator[str]:
    """Yield target topics that can't exist, or that two links write, as far as the file shows it.

    The exact check over the topics that exist is `heliostat.other_links.same_file`.
    """
    for index, link in enumerate(config.links):
        rule = _rule(link)
        if rule.startswith(RESERVED_BEGINNINGS):
            yield (
                f"links[{index}].topics.naming: mirrors would be called {rule}, and names with "
                f"this prefix are never mirrored (got {link.topics.name_format()!r})"
            )
    for (i, first), (j, other) in combinations(enumerate(config.links), 2):
        if first.target != other.target or first.topics.slot.is_beside(other.topics.slot):
            continue
        if first.topics.merges and other.topics.merges and first.source != other.source:
            continue
        named = _named_targets(first)
        in_metrics = {metric_name(topic): topic for topic in named}
        for topic, source in _named_targets(other).items():
            if topic in named:
                yield (
                    f"links[{j}].topics.include: links[{i}] ({first.name}) already writes "
                    f"into topic {topic} of {first.target} (got {source!r})"
                )
            elif metric_name(topic) in in_metrics:
                yield (
                    f"links[{j}].topics.include: topic {topic} differs from "
                    f"{in_metrics[metric_name(topic)]}, into which links[{i}] ({first.name}) "
                    f"writes, only in . and _, and Kafka refuses such names (got {source!r})"
                )
        yield from _same_selection(f"links[{j}]", first, other)


def merge_problems(config: Config) -> Iterator[str]:
    """Yield what links of merged topics can't do, and why."""
    for index, link in enumerate(config.links):
        if not link.topics.merges:
            continue
        decided = {link.gaps.policy, *link.gaps.topics.values()} | {
            getattr(link.errors, name).policy for name in type(link.errors).model_fields
        }
        wrong = {
            "schemas.strategy": (
                link.schemas.strategy not in {"off", "rewrite"},
                "both sites register: rewrite, after preserve as well, or off with one registry",
            ),
            "schemas.compatibility": (
                link.schemas.compatibility != "none",
                "each site's setting would be carried to the other, by turns",
            ),
            "groups.naming": (
                link.groups.naming != "same",
                "a group that moves between the sites is one group, with one name",
            ),
            "checkpoints.emit": (
                link.checkpoints.emit,
                "a group that goes on by one is not seen, and reads all again as it comes back",
            ),
            "offset_syncs.emit": (
                link.offset_syncs.emit,
                "MirrorMaker 2, which would take over by them, brings back what has crossed",
            ),
            "heartbeats": (
                link.heartbeats.are_mirrored,
                "they have another name at the target, and are mirrored: by a link of their own",
            ),
            "gaps, errors": (
                decided != {"stop"},
                "nothing is deleted or left out by a policy where others write",
            ),
        }
        settings = [(field, why) for field, (is_set, why) in wrong.items() if is_set]
        for field, why in (*settings, *_merged_pipelines(link)):
            yield f'links[{index}].{field}: {why} (got topics.naming "merge")'


def _merged_pipelines(link: LinkConfig) -> Iterator[tuple[str, str]]:
    """Yield pipelines by which merged topics could lose records or schemas, and why."""
    for index, pipeline in enumerate(link.pipelines):
        if not pipeline.keeps_identity:
            yield f"pipelines[{index}]", f"{pipeline.name} {CHANGES_BOTH}"
        if any(step.rewritten for step in pipeline.steps):
            yield f"pipelines[{index}]", f"{pipeline.name} {CHANGES_SCHEMAS}"


def progress_group_problems(config: Config) -> Iterator[str]:
    """Yield links that would commit progress under the same group as another of their source."""
    name = config.metrics.progress_group
    if name is None or LINK_PLACE in name:
        return
    for link, other in combinations(config.links, 2):
        if link.source == other.source:
            yield (
                f"metrics.progress_group: links {link.name} and {other.name} copy from "
                f"{link.source}, so the name must contain {LINK_PLACE} (got {name!r})"
            )


def group_naming_problems(config: Config) -> Iterator[str]:
    """Yield links that rename groups while another link publishes groups the other way.

    What a consumer commits at the target under the new name has no way back to the old one, and
    each link would take the other's groups for new ones.
    """
    for index, link in enumerate(config.links):
        if link.groups.naming == "same" or not publishes_groups(link):
            continue
        for other in config.links:
            if publishes_groups(other) and _is_opposite(config, link, other):
                yield (
                    f"links[{index}].groups.naming: link {other.name} publishes groups from "
                    f"{other.source} to {other.target}, and with renamed groups a consumer can't "
                    f"come back: take same in both (got {link.groups.name_format()!r})"
                )


def publishes_groups(link: LinkConfig) -> bool:
    """Whether the target gets offsets of the source's groups, in whatever format."""
    return link.groups.sync or link.checkpoints.emit


def _is_opposite(config: Config, link: LinkConfig, other: LinkConfig) -> bool:
    return _are_same(config, link.source, other.target) and _are_same(
        config, link.target, other.source
    )


def _are_same(config: Config, alias: Alias, other: Alias) -> bool:
    """Whether two aliases lead to one cluster, as far as the file shows it."""
    return alias == other or bool(_seeds(config, alias) & _seeds(config, other))


def _seeds(config: Config, alias: Alias) -> set[str]:
    cluster = config.clusters.get(alias)
    return set() if cluster is None else {address.lower() for address in cluster.bootstrap}


def _same_selection(where: str, link: LinkConfig, other: LinkConfig) -> Iterator[str]:
    same = link.source == other.source and link.topics.exclude == other.topics.exclude
    if not same or link.topics.name_format() != other.topics.name_format():
        return
    for entry in other.topics.include:
        if entry in link.topics.include and not is_plain_name(entry):
            yield (
                f"{where}.topics.include: link {link.name} mirrors the same topics under the same "
                f"names (got {entry!r})"
            )


def schema_problems(config: Config) -> Iterator[str]:
    """Yield links whose schemas can't be mirrored, as far as the file shows it."""
    for index, link in enumerate(config.links):
        strategy = link.schemas.strategy
        where = f"links[{index}].schemas.strategy"
        yield from _avro_problems(where, link)
        if strategy == "off":
            continue
        registries: list[RegistryConfig] = []
        for alias in (link.source, link.target):
            registry = _registry(config, alias)
            if registry is not None:
                registries.append(registry)
            elif alias in config.clusters:
                yield f'{where}: cluster {alias} has no schema_registry (got "{strategy}")'
        if strategy != "preserve" or len(registries) < 2:
            continue
        shared = registries[0].shared_url(registries[1])
        if shared is not None:
            yield (
                f"{where}: {link.source} and {link.target} have the same schema registry, "
                f'{shared} (got "{strategy}")'
            )


def _avro_problems(where: str, link: LinkConfig) -> Iterator[str]:
    """Yield why pipelines can't have their steps for Avro fields.

    With *preserve* the target's ids are the source's: one that the target's registry gives to a
    changed schema would sooner or later be another schema's at the source, and hold its records.
    """
    strategy = link.schemas.strategy
    for pipeline in link.pipelines:
        steps = pipeline.avro_steps
        if steps and strategy == "off":
            yield (
                f"{where}: pipeline {pipeline.name} decodes Avro, whose schemas only a link that "
                f'mirrors schemas knows (got "{strategy}")'
            )
        elif strategy == "preserve" and any(step.rewrites for step in steps):
            yield (
                f"{where}: pipeline {pipeline.name} changes Avro fields, and preserve has no ids "
                f'for changed schemas; take isolate or rewrite (got "{strategy}")'
            )


def registry_topic_problems(config: Config) -> Iterator[str]:
    """Yield links that would copy a registry's own topic into the topic of another registry.

    That one writes its topic itself, a record at each start included (`NOOP`), and takes what it
    finds there for its own: schemas would replace each other.
    """
    for index, link in enumerate(config.links):
        source, target = _registry(config, link.source), _registry(config, link.target)
        if source is None or target is None:
            continue
        selects = any(
            compile_pattern(pattern).fullmatch(source.topic) for pattern in link.topics.include
        )
        excludes = any(
            compile_pattern(pattern).fullmatch(source.topic) for pattern in link.topics.exclude
        )
        mirror = _rule(link).replace("${topic}", source.topic)
        if selects and not excludes and mirror == target.topic:
            yield (
                f"links[{index}].topics: selects {source.topic}, which is the topic of "
                f"{link.source}'s schema registry, and its mirror would be the topic of "
                f"{link.target}'s, which writes it itself; exclude it, and set schemas.strategy "
                f'(got "{source.topic}")'
            )


def _registry(config: Config, alias: Alias) -> RegistryConfig | None:
    cluster = config.clusters.get(alias)
    return None if cluster is None else cluster.schema_registry


def _rule(link: LinkConfig) -> str:
    """The naming, with the source's alias filled in."""
    return link.topics.name_format().replace("${source}", link.source)


def _named_targets(link: LinkConfig) -> dict[str, str]:
    """Target name → source name of the topics that the link names without a regex."""
    excluded = [compile_pattern(entry) for entry in link.topics.exclude]
    names = (entry for entry in link.topics.include if is_plain_name(entry))
    rule = _rule(link)
    return {
        rule.replace("${topic}", name): name
        for name in names
        if not any(pattern.fullmatch(name) for pattern in excluded)
    }
