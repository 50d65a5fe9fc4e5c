"""Read `mm2.properties` of dedicated mode: which property reaches which flow.

As in `MirrorMakerConfig`, whose rules are not what one expects: of top-level properties only those
of the three connectors pass, a cluster's `consumer.*` wins over the flow's, and the flow's
`source.consumer.*` over both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import permutations

from heliostat.errors import ConfigError
from heliostat.mm2.config_names import DEDICATED, ROLES, WORKER_PREFIXES, is_client, is_connector
from heliostat.mm2.config_properties import read_properties
from heliostat.mm2.config_values import Client, Flow, Ledger, Origin, Setting

Named = dict[str, Setting]


def is_dedicated(text: str) -> bool:
    """Return whether a text is such a file: it has the property `clusters`."""
    return any(each.name == "clusters" for each in read_properties(text))


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
    found: Named = {}
    for each in read_properties(text):
        origin = Origin(file, each.name)
        ledger.add([origin])
        if each.name in found:
            ledger.must_do(f"{file}: {each.name} is given twice, the last one counts (as in Java)")
        found[each.name] = Setting(each.value, origin)
    return found


def _below(given: Mapping[str, Setting], prefix: str) -> Named:
    return {
        name.removeprefix(prefix): setting
        for name, setting in given.items()
        if name.startswith(prefix)
    }


def _flow(given: Named, source: str, target: str, ledger: Ledger) -> Flow | None:
    own = _below(given, f"{source}->{target}.")
    top = {name: setting for name, setting in given.items() if is_connector(name)}
    enabled = own.get("enabled") or top.get("enabled")
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
    settings = top | {name: s for name, s in own.items() if not _is_consumer(name)}
    settings.update(_consumer(given, own, source))
    settings.update(_producer(given, own, target))
    settings.update({f"worker.{n}": s for n, s in _worker(given, target)})
    return Flow(
        source=_client(given, source),
        target=_client(given, target),
        settings=settings,
        has_heartbeats_at_source=_emits_heartbeats(given, target, source, ledger),
        has_checkpoints=True,
    )


def _is_consumer(name: str) -> bool:
    return name.startswith(("consumer.", "source.consumer."))


def _consumer(given: Named, own: Named, source: str) -> Iterator[tuple[str, Setting]]:
    """Yield, low to high, the flow's `consumer.`, the cluster's, the flow's `source.consumer.`."""
    for found in (
        _below(own, "consumer."),
        _below(given, f"{source}.consumer."),
        _below(own, "source.consumer."),
    ):
        yield from ((f"source.consumer.{name}", setting) for name, setting in found.items())


def _producer(given: Named, own: Named, target: str) -> Iterator[tuple[str, Setting]]:
    """Yield settings of the worker's producer, which writes the records.

    A flow's `producer.` reaches only the producer of offset syncs.
    """
    for found in (_below(given, f"{target}.producer."), _below(own, "producer.override.")):
        yield from ((f"producer.override.{name}", setting) for name, setting in found.items())


def _worker(given: Named, target: str) -> Iterator[tuple[str, Setting]]:
    for name, setting in _below(given, f"{target}.").items():
        if not is_client(name) and not name.startswith(ROLES) and not is_connector(name):
            yield name, setting
    for name, setting in given.items():
        if name.startswith(WORKER_PREFIXES) and not is_connector(name):
            yield name, setting


def _client(given: Named, alias: str) -> Client:
    """Merge settings: the cluster's own win over top-level ones, these over those of a role."""
    found: Named = {}
    for role in ROLES:
        found |= {n: s for n, s in _below(given, f"{alias}.{role}").items() if is_client(n)}
    found |= {n: s for n, s in given.items() if is_client(n)}
    found |= {n: s for n, s in _below(given, f"{alias}.").items() if is_client(n)}
    return Client(alias, found)


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
