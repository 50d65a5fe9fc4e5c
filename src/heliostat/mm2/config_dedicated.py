"""Read `mm2.properties` of dedicated mode: which property reaches which flow.

As in `MirrorMakerConfig`, whose rules are not what one expects: of top-level properties only those
of the three connectors pass, a cluster's `consumer.*` wins over the flow's, and the flow's
`source.consumer.*` over both.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

from heliostat.errors import ConfigError
from heliostat.mm2.config_clients import (
    Named,
    below,
    connecting,
    record_settings,
    source_client,
    target_client,
)
from heliostat.mm2.config_names import (
    DEDICATED,
    HEARTBEAT_ONLY,
    HOW_HEARTBEATS,
    ROLES,
    WORKER_PREFIXES,
    is_client,
    is_connector,
)
from heliostat.mm2.config_properties import read_properties
from heliostat.mm2.config_values import Flow, Ledger, Origin, Setting


def is_dedicated(text: str) -> bool:
    """Return whether a text is such a file: it has the property `clusters`."""
    return any(entry.name == "clusters" for entry in read_properties(text))


def read_dedicated(file: str, text: str, ledger: Ledger) -> list[Flow]:
    """Return the enabled flows.

    Raises
    ------
    ConfigError
        `clusters` names fewer than two, or the file's syntax is wrong.
    """
    given = _given(file, text, ledger)
    clusters = given["clusters"].entries() if "clusters" in given else []
    if len(clusters) < 2:
        raise ConfigError(f"{file}: `clusters` names fewer than two clusters")
    ledger.used(given["clusters"], "clusters")
    for name in DEDICATED & given.keys() - {"clusters"}:
        ledger.without(given[name], "a link has no Connect workers, and no REST address for them")
    flows = [
        flow
        for source, target in permutations(clusters, 2)
        if (flow := _flow(given, source, target, ledger)) is not None
    ]
    _tell_rest(given, clusters, ledger)
    return flows


def _given(file: str, text: str, ledger: Ledger) -> Named:
    """Read all properties; of a repeated name the last one counts."""
    settings: Named = {}
    for entry in read_properties(text):
        origin = Origin(file, entry.name)
        ledger.add([origin])
        if entry.name in settings:
            ledger.must_do(f"{file}: {entry.name} is given twice, the last one counts (as in Java)")
        settings[entry.name] = Setting(entry.value, origin)
    return settings


def _flow(given: Named, source: str, target: str, ledger: Ledger) -> Flow | None:
    own = below(given, f"{source}->{target}.")
    top = {name: setting for name, setting in given.items() if is_connector(name)}
    enabled = own.get("enabled")
    if enabled is None and _emits_heartbeats(given, source, target, ledger):
        enabled = top.get("enabled")  # else there is no pair to which it could apply
    if enabled is None or not enabled.is_true:
        for name, setting in own.items():
            back = name.startswith(("emit.heartbeats", "heartbeats."))
            ledger.unless_read(
                setting.origin,
                f"flow {source}->{target} is not enabled"
                + (f", but see {target}->{source} for its heartbeats" if back else ""),
            )
        return None
    ledger.used(enabled, f"link from {source} to {target}")
    for name in top.keys() & own.keys():
        ledger.without(top[name], f"{source}->{target}.{name} wins")
    for name in own.keys() & HOW_HEARTBEATS:
        why = f"these heartbeats go into {target}: for the link of {target}->{source}"
        ledger.unless_read(own[name].origin, why)
    settings = (
        top
        | _of_cluster(given, source, "source")
        | _of_cluster(given, target, "target")
        | dict(_producer(given, target))
        | {name: setting for name, setting in own.items() if name not in HOW_HEARTBEATS}
    )
    settings.update({f"worker.{n}": s for n, s in _worker(given, target)})
    aliases = [_alias(settings, side, name, ledger) for side, name in _sides(source, target)]
    worker = _cluster_settings(given, target, "producer.")
    heartbeats = below(given, f"{target}->{source}.")
    return Flow(
        source=source_client(settings, aliases[0], source, ledger),
        target=target_client(settings, aliases[1], target, ledger, connecting(worker)),
        settings=record_settings(settings, ledger),
        has_heartbeats_at_source=_emits_heartbeats(given, target, source, ledger),
        has_checkpoints=True,
        heartbeats={n: s for n, s in (top | heartbeats).items() if n in HEARTBEAT_ONLY},
    )


def _sides(source: str, target: str) -> tuple[tuple[str, str], ...]:
    return ("source", source), ("target", target)


def _alias(settings: Named, side: str, name: str, ledger: Ledger) -> str:
    """Return the cluster's alias in names: a property may give it another than `clusters`."""
    setting = settings.get(f"{side}.cluster.alias")
    if setting is None:
        return name
    ledger.used(setting, f"names, which have {setting.value!r} in place of {name}")
    return setting.value


def _cluster_settings(given: Named, alias: str, role: str) -> Named:
    """Return the settings of a role at a cluster: its own ones, the cluster's, top-level ones."""
    cluster = below(given, f"{alias}.")
    return connecting(given) | connecting(cluster) | below(cluster, role)


def _of_cluster(given: Named, alias: str, side: str) -> Named:
    """Return a cluster's settings by the names that they have in a connector."""
    settings = {
        f"{side}.cluster.{name}": setting
        for name, setting in below(given, f"{alias}.").items()
        if not name.startswith(ROLES)
    }
    for role in ROLES:
        of_role = _cluster_settings(given, alias, role)
        settings |= {f"{side}.{role}{name}": setting for name, setting in of_role.items()}
    return settings


def _producer(given: Named, target: str) -> Iterator[tuple[str, Setting]]:
    """Yield settings of the worker's producer, which writes the records.

    A flow's `producer.` reaches only the producer of offset syncs.
    """
    for name, setting in below(given, f"{target}.producer.").items():
        yield f"producer.override.{name}", setting


def _worker(given: Named, target: str) -> Iterator[tuple[str, Setting]]:
    for name, setting in below(given, f"{target}.").items():
        if not is_client(name) and not name.startswith(ROLES) and not is_connector(name):
            yield name, setting
    for name, setting in given.items():
        if name.startswith(WORKER_PREFIXES) and not is_connector(name):
            yield name, setting


def _emits_heartbeats(given: Named, source: str, target: str, ledger: Ledger) -> bool:
    """Return whether the pair writes heartbeats into its target; a disabled flow does as well."""
    key = "emit.heartbeats.enabled"
    setting = given.get(f"{source}->{target}.{key}") or given.get(key)
    if setting is None:
        return True
    ledger.used(setting, f"heartbeats.emit of the link from {target} to {source}")
    return setting.is_true


def _tell_rest(given: Named, clusters: list[str], ledger: Ledger) -> None:
    """Note why a property reaches nothing."""
    for name, setting in given.items():
        why = _dropped(name, clusters)
        if not _is_of_flow(name, clusters):
            ledger.unless_read(setting.origin, why)


def _is_of_flow(name: str, clusters: list[str]) -> bool:
    """Return whether it belongs to a flow, which has noted its outcome."""
    return any(name.startswith(f"{a}->{b}.") for a, b in permutations(clusters, 2))


def _dropped(name: str, clusters: list[str]) -> str:
    for alias in clusters:
        rest = name.removeprefix(f"{alias}.")
        if rest != name:
            if is_connector(rest):
                return (
                    "MirrorMaker 2 ignores a connector's setting under a cluster; it reads it only "
                    "at the top level or under a flow"
                )
            return f"no enabled flow uses this setting of {alias}"
    if "->" in name:
        return "there is no such flow between the clusters that `clusters` names"
    if is_connector(name) or is_client(name) or name in DEDICATED:
        return "no flow is enabled that would read it"
    if name.startswith(ROLES):
        return "MirrorMaker 2 drops it at the top level; it reads it only under a cluster"
    return "MirrorMaker 2 drops it at the top level"
