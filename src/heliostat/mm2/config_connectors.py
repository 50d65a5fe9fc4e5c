"""Read connectors' JSON, as posted to Connect or returned by it, or their properties files."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from heliostat.errors import ConfigError
from heliostat.mm2.config_properties import read_properties
from heliostat.mm2.config_values import Ledger, Origin, Setting

SOURCE = "MirrorSourceConnector"
CHECKPOINT = "MirrorCheckpointConnector"
HEARTBEAT = "MirrorHeartbeatConnector"
REPLICATOR = "ReplicatorSourceConnector"
_KINDS = (SOURCE, CHECKPOINT, HEARTBEAT)
NOT_RUNNING = ("paused", "stopped")
Named = dict[str, Setting]


class Connector(NamedTuple):
    """Connector class without its package, the connector's properties, and its state."""

    kind: str
    settings: Named
    state: str = "running"

    @property
    def file(self) -> str:
        """The file that it is from."""
        return self.settings["connector.class"].origin.file

    @property
    def runs(self) -> bool:
        """Whether it is neither paused nor stopped."""
        return self.state == "running"


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
    connectors = [
        connector(file, path, config, ledger, state)
        for path, config, state in _configs(value, "", "running")
        if config
    ]
    if not connectors:
        raise ConfigError(f"{file}: no connector's configuration in it")
    return connectors


def _configs(value: Any, path: str, state: str) -> Iterator[tuple[str, Mapping[str, Any], str]]:
    """Yield where a connector's properties are, the properties, and the connector's state."""
    if isinstance(value, list):
        for index, element in enumerate(value):
            yield from _configs(element, f"{path}[{index}].", state)
    elif isinstance(value, dict):
        status = value.get("status")
        current = status.get("connector") if isinstance(status, dict) else None
        state = str(value.get("initial_state") or (current or {}).get("state") or state).lower()
        state = state if state in NOT_RUNNING else "running"
        if isinstance(value.get("config"), dict):
            yield f"{path}config.", value["config"], state
        elif "connector.class" in value:
            yield path, value, state
        else:
            for name, member in value.items():
                yield from _configs(member, f"{path}{name}.", state)


def connector(
    file: str, path: str, config: Mapping[str, Any], ledger: Ledger, state: str = "running"
) -> Connector:
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
    state
        `running`, `paused` or `stopped`.

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
    named = settings.get("connector.class")
    kind = "" if named is None else named.value.rpartition(".")[2]
    if kind not in (*_KINDS, REPLICATOR):
        raise ConfigError(f"{file}: connector.class is none of MirrorMaker 2's three")
    return Connector(kind, settings, state)


def is_connector_file(text: str) -> bool:
    """Return whether a text is a properties file of one connector, as for a standalone worker."""
    return any(entry.name == "connector.class" for entry in read_properties(text))


def read_connector_file(file: str, text: str, ledger: Ledger) -> Connector:
    """Read such a file; of a repeated name the last one counts.

    Raises
    ------
    ConfigError
        The connector is neither MirrorMaker 2's nor Replicator's, or the file's syntax is wrong.
    """
    return connector(file, "", {entry.name: entry.value for entry in read_properties(text)}, ledger)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)
