"""Read connectors' JSON, as posted to Connect or returned by it, or their properties files."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from heliostat.errors import ConfigError
from heliostat.mm2.config_names import CLIENT, CLIENT_PREFIXES
from heliostat.mm2.config_properties import read_properties
from heliostat.mm2.config_values import Client, Flow, Ledger, Origin, Setting

SOURCE = "MirrorSourceConnector"
CHECKPOINT = "MirrorCheckpointConnector"
HEARTBEAT = "MirrorHeartbeatConnector"
REPLICATOR = "ReplicatorSourceConnector"
_KINDS = (SOURCE, CHECKPOINT, HEARTBEAT)
Connector = tuple[str, dict[str, Setting]]
"""Connector class without its package, and the connector's properties."""


def read_json(file: str, text: str, ledger: Ledger) -> list[Connector]:
    """Read one file: a connector, a list, or the answer to `GET /connectors?expand=info`.

    Raises
    ------
    ConfigError
        The file is not JSON, or has another connector, or none.
    """
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"{file}: not JSON: {error}") from None
    found = [
        connector(file, path, config, ledger) for path, config in _configs(value, "") if config
    ]
    if not found:
        raise ConfigError(f"{file}: no connector's configuration in it")
    return found


def _configs(value: Any, path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if isinstance(value, list):
        for index, each in enumerate(value):
            yield from _configs(each, f"{path}[{index}].")
    elif isinstance(value, dict):
        if isinstance(value.get("config"), dict):
            yield f"{path}config.", value["config"]
        elif "connector.class" in value:
            yield path, value
        else:
            for name, each in value.items():
                yield from _configs(each, f"{path}{name}.")


def connector(file: str, path: str, config: Mapping[str, Any], ledger: Ledger) -> Connector:
    """Read one connector's properties.

    Parameters
    ----------
    file
        Name of the file.
    path
        Where its properties are in the file, as a prefix of their names.
    config
        The properties.
    ledger
        Takes the outcome of each property.

    Raises
    ------
    ConfigError
        The connector is neither MirrorMaker 2's nor Replicator's.
    """
    settings = {
        str(name): Setting(_text(value), Origin(file, f"{path}{name}"))
        for name, value in config.items()
    }
    ledger.add(setting.origin for setting in settings.values())
    kind = settings["connector.class"].value.rpartition(".")[2] if settings else ""
    if kind not in (*_KINDS, REPLICATOR):
        raise ConfigError(f"{file}: connector.class is none of MirrorMaker 2's three")
    return kind, settings


def is_connector_file(text: str) -> bool:
    """Return whether a text is a properties file of one connector, as for a standalone worker."""
    return any(each.name == "connector.class" for each in read_properties(text))


def read_connector_file(file: str, text: str, ledger: Ledger) -> Connector:
    """Read such a file; of a repeated name the last one counts.

    Raises
    ------
    ConfigError
        The connector is neither MirrorMaker 2's nor Replicator's, or the file's syntax is wrong.
    """
    return connector(file, "", {each.name: each.value for each in read_properties(text)}, ledger)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def flows_of(connectors: list[Connector], ledger: Ledger) -> list[Flow]:
    """Return the flows that have a source connector, with the settings of the other two.

    Raises
    ------
    ConfigError
        A connector has no `source.cluster.alias`.
    """
    groups: dict[tuple[str, str], dict[str, dict[str, Setting]]] = {}
    for kind, settings in connectors:
        if kind == REPLICATOR:
            continue
        source = settings.get("source.cluster.alias")
        if source is None:
            where = settings["connector.class"].origin
            raise ConfigError(f"{where.file}: a {kind} has no source.cluster.alias")
        target = settings.get("target.cluster.alias")
        pair = (source.value, "target" if target is None else target.value)
        for each in (source, target):
            if each is not None:
                empty = "" if each.value else ", where an empty alias is called source"
                ledger.used(each, f"clusters and link{empty}")
        groups.setdefault(pair, {}).setdefault(kind, {}).update(settings)
    flows: list[Flow] = []
    for (source_alias, target_alias), kinds in groups.items():
        if SOURCE not in kinds:
            _without_source(f"{source_alias}->{target_alias}", kinds, ledger)
            continue
        back = groups.get((target_alias, source_alias), {}).get(HEARTBEAT)
        flows.append(_flow(source_alias, target_alias, kinds, back, ledger))
    return flows


def _without_source(name: str, kinds: Mapping[str, Mapping[str, Setting]], ledger: Ledger) -> None:
    for kind, settings in kinds.items():
        for setting in settings.values():
            ledger.unless_read(
                setting.origin,
                f"a {kind} alone copies nothing: there is no {SOURCE} for {name}",
            )


def _flow(
    source: str,
    target: str,
    kinds: Mapping[str, Mapping[str, Setting]],
    back: Mapping[str, Setting] | None,
    ledger: Ledger,
) -> Flow:
    merged: dict[str, Setting] = {}
    for kind in reversed(_KINDS):  # of several, the source connector's value wins
        for name, setting in kinds.get(kind, {}).items():
            if name in merged:
                ledger.unless_read(merged[name].origin, f"the {kind}'s value counts")
            merged[name] = setting
    emits = back is not None and (
        "emit.heartbeats.enabled" not in back or back["emit.heartbeats.enabled"].is_true
    )
    own = {
        n: s for n, s in merged.items() if not n.startswith(("source.cluster.", "target.cluster."))
    }
    for name in [name for name in own if name.startswith("consumer.")]:
        own.setdefault(f"source.{name}", own[name])
        del own[name]
    return Flow(
        source=_client("source", source, merged),
        target=_client("target", target, merged),
        settings=own,
        has_heartbeats_at_source=emits,
        has_checkpoints=CHECKPOINT in kinds,
    )


def _client(side: str, alias: str, settings: Mapping[str, Setting]) -> Client:
    """Return the connection settings among `<side>.cluster.*`; clients take no others."""
    prefix = f"{side}.cluster."
    found = {n.removeprefix(prefix): s for n, s in settings.items() if n.startswith(prefix)}
    kept = {n: s for n, s in found.items() if n in CLIENT or n.startswith(CLIENT_PREFIXES)}
    return Client(alias, kept)
