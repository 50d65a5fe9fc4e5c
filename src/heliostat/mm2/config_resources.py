"""Read Strimzi's `KafkaConnector` resources: connectors, each with its state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from heliostat.errors import ConfigError
from heliostat.mm2.config_connectors import Connector, connector
from heliostat.mm2.config_values import Ledger, Origin, Setting

KIND = "KafkaConnector"
Map = Mapping[str, Any]


def is_connector_resource(text: str) -> bool:
    """Return whether a text contains such a resource."""
    return KIND in text and any(True for _ in resources(text, KIND))


def resources(text: str, kind: str) -> Iterator[Map]:
    """Yield the resources of a kind, also those of a list.

    Raises
    ------
    ConfigError
        The text is not YAML.
    """
    try:
        documents = list(yaml.safe_load_all(text))
    except yaml.YAMLError as error:
        raise ConfigError(f"not YAML: {error}") from None
    for document in documents:
        items = document.get("items", [document]) if isinstance(document, dict) else []
        yield from (
            resource
            for resource in items
            if isinstance(resource, dict) and resource.get("kind") == kind
        )


def state_of(spec: Map) -> str:
    """Return a connector's state: the newer field, or the older one."""
    return str(spec.get("state") or ("paused" if spec.get("pause") is True else "running")).lower()


def read_resources(file: str, text: str, ledger: Ledger) -> list[Connector]:
    """Return the connectors of all resources in the file.

    Raises
    ------
    ConfigError
        A connector is neither MirrorMaker 2's nor Replicator's.
    """
    connectors: list[Connector] = []
    for count, resource in enumerate(resources(text, KIND)):
        name = file if count == 0 else f"{file}#{count + 1}"
        spec: Map = resource.get("spec") or {}
        config = {"connector.class": spec.get("class"), **(spec.get("config") or {})}
        kafka_connector = connector(name, "spec.config.", config, ledger, state_of(spec))
        named = Setting(str(spec.get("class")), Origin(name, "spec.class"))
        ledger.known.pop(kafka_connector.settings["connector.class"].origin)
        kafka_connector.settings["connector.class"] = named
        ledger.add([named.origin])
        if "tasksMax" in spec:
            count_of_tasks = Setting(str(spec["tasksMax"]), Origin(name, "spec.tasksMax"))
            kafka_connector.settings["tasks.max"] = count_of_tasks
            ledger.add([count_of_tasks.origin])
        for key in sorted(spec.keys() - {"class", "config", "tasksMax"}):
            origin = Origin(name, f"spec.{key}")
            ledger.add([origin])
            ledger.unless_read(origin, "it is about the connector as a process; a link is one")
        connectors.append(kafka_connector)
    return connectors
