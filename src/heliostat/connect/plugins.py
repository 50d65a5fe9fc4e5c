"""Classes of connectors that become links; pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from heliostat.mm2.config_connectors import CHECKPOINT, HEARTBEAT, REPLICATOR, SOURCE

CLASS = "connector.class"
CONNECT_VERSION = "4.3.0"
"""Of Kafka Connect, whose API this is."""
_MIRRORS = "org.apache.kafka.connect.mirror."


@dataclass(frozen=True, slots=True)
class Plugin:
    """A class of connectors."""

    name: str
    """With its package."""

    @property
    def kind(self) -> str:
        """Its name without the package."""
        return self.name.rpartition(".")[2]

    @property
    def makes_link(self) -> bool:
        """Whether each of its connectors is a link; the others belong to links."""
        return self.kind in {SOURCE, REPLICATOR}

    def is_called(self, name: str) -> bool:
        """Whether a path may mean it: whole, without its package, or without `Connector`."""
        return name in {self.name, self.kind, self.kind.removesuffix("Connector")}

    def to_json(self) -> dict[str, str]:
        """Return it as in a list of plugins."""
        return {"class": self.name, "type": "source", "version": CONNECT_VERSION}


PLUGINS = (
    *(Plugin(_MIRRORS + kind) for kind in (CHECKPOINT, HEARTBEAT, SOURCE)),
    Plugin(f"io.confluent.connect.replicator.{REPLICATOR}"),
)


def plugin_of(name: str) -> Plugin | None:
    """Return the class of a name; None: it is none of these."""
    return next((plugin for plugin in PLUGINS if plugin.is_called(name)), None)


def plugin_in(config: Mapping[str, str]) -> Plugin | None:
    """Return the class of a configuration; None: it names none of these."""
    return plugin_of(config.get(CLASS, ""))
