"""Read the clusters and mirrors of a Strimzi `KafkaMirrorMaker2` resource as flows.

API v1beta2 (`clusters`, `connectCluster`, aliases in `mirrors`) and v1 (`target`, and a `source` in
each mirror). Fields about pods, images and their resources have no counterpart.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from heliostat.errors import ConfigError
from heliostat.mm2.config_clients import OVERRIDE, below, connecting
from heliostat.mm2.config_connectors import CHECKPOINT, HEARTBEAT, SOURCE, Connector
from heliostat.mm2.config_names import ROLES
from heliostat.mm2.config_pairs import build_flow
from heliostat.mm2.config_resources import resources, state_of
from heliostat.mm2.config_strimzi_security import IDENTIFICATION, Place, StrimziSecurity, leaves
from heliostat.mm2.config_values import LATEST, Client, Fate, Flow, Ledger, Origin, Setting

KIND = "KafkaMirrorMaker2"
_FIELDS = {
    "topicsPattern": "topics",
    "topicsExcludePattern": "topics.exclude",
    "topicsBlacklistPattern": "topics.blacklist",
    "groupsPattern": "groups",
    "groupsExcludePattern": "groups.exclude",
    "groupsBlacklistPattern": "groups.blacklist",
}
KINDS = {
    "sourceConnector": SOURCE,
    "checkpointConnector": CHECKPOINT,
    "heartbeatConnector": HEARTBEAT,
}
_CONNECTORS = tuple(KINDS)
_PODS = "it is about Kubernetes pods; a link is a process, or runs on your Spark"
Map = Mapping[str, Any]


def is_strimzi(text: str) -> bool:
    """Return whether a text contains such a resource."""
    return KIND in text and any(True for _ in resources(text, KIND))


def read_strimzi(file: str, text: str, secrets: str, ledger: Ledger) -> list[Flow]:
    """Return the flows of all resources in the file.

    Parameters
    ----------
    file
        Name of the file.
    text
        Its contents.
    secrets
        Folder in which Kubernetes secrets are to be mounted, each under its own name.
    ledger
        Takes the outcome of each property.

    Raises
    ------
    ConfigError
        A mirror names a cluster that the resource does not have.
    """
    flows: list[Flow] = []
    for index, resource in enumerate(resources(text, KIND)):
        reader = _Resource(file if index == 0 else f"{file}#{index + 1}", resource, secrets, ledger)
        flows += reader.flows()
    return flows


class _Resource:
    """Reader of one resource."""

    def __init__(self, file: str, resource: Map, secrets: str, ledger: Ledger) -> None:
        self.file = file
        self.ledger = ledger
        self.folder = secrets.rstrip("/")
        self.spec: Map = resource.get("spec") or {}
        for path, _ in leaves(self.spec, "spec"):
            origin = Origin(file, path)
            ledger.add([origin])
            ledger.unless_read(origin, _PODS)
        self.clients: dict[str, Client] = {}
        self.version = self._version()

    def _version(self) -> tuple[int, int]:
        """Return the version, whose defaults count: the latest one if none is given."""
        match = re.match(r"(\d+)\.(\d+)", str(self.spec.get("version", "")))
        if match is None:
            return LATEST
        self._tell("spec.version", Fate.USED, "topics.exclude, whose default depends on it")
        return int(match[1]), int(match[2])

    def flows(self) -> list[Flow]:
        """Return a flow for each mirror that has a source connector."""
        for index, cluster in enumerate(self.spec.get("clusters") or ()):
            self._client(cluster, f"spec.clusters[{index}]")
        target = self.spec.get("target")
        if isinstance(target, dict):
            self._client(target, "spec.target")
            for key in (
                "groupId",
                "configStorageTopic",
                "offsetStorageTopic",
                "statusStorageTopic",
            ):
                if key in target:
                    self._tell(f"spec.target.{key}", Fate.REPLACED, "the link's own state topics")
        if "connectCluster" in self.spec:
            self._tell("spec.connectCluster", Fate.REPLACED, "the link's target")
        mirrors = [
            (f"spec.mirrors[{index}]", mirror)
            for index, mirror in enumerate(self.spec.get("mirrors") or ())
        ]
        pairs = [self._pair(path, mirror) for path, mirror in mirrors]
        back = {
            pair: self._connector(path, mirror, "heartbeatConnector", pair)
            for pair, (path, mirror) in zip(pairs, mirrors, strict=True)
            if "heartbeatConnector" in mirror
        }
        flows: list[Flow] = []
        for (path, mirror), (source, target) in zip(mirrors, pairs, strict=True):
            if "sourceConnector" in mirror:
                opposite = [back[target, source]] if (target, source) in back else []
                flows.append(self._flow(path, mirror, source, target, opposite))
            else:
                self.ledger.differs(
                    f"{source}->{target} has no sourceConnector: it copies nothing and is left out"
                )
        return flows

    def _tell(self, path: str, fate: Fate, text: str) -> None:
        self.ledger.tell(Origin(self.file, path), fate, text)

    def _tell_all(self, value: object, path: str, fate: Fate, text: str) -> None:
        for leaf, _ in leaves(value, path):
            self._tell(leaf, fate, text)

    def _setting(self, value: object, path: str) -> Setting:
        if isinstance(value, bool):
            value = json.dumps(value)
        return Setting("" if value is None else str(value), Origin(self.file, path))

    # -- mirrors -------------------------------------------------------------------------------

    def _pair(self, path: str, mirror: Map) -> tuple[str, str]:
        source = mirror.get("source")
        if isinstance(source, dict):
            self._client(source, f"{path}.source")
            names = (str(source.get("alias")), str((self.spec.get("target") or {}).get("alias")))
        else:
            names = (str(mirror.get("sourceCluster")), str(mirror.get("targetCluster")))
            for key in ("sourceCluster", "targetCluster"):
                self._tell(f"{path}.{key}", Fate.USED, "the link's source and target")
        for name in names:
            if name not in self.clients:
                raise ConfigError(f"{self.file}: {path} names a cluster {name} that does not exist")
        return names

    def _flow(
        self, path: str, mirror: Map, source: str, target: str, back: list[Connector]
    ) -> Flow:
        built = [
            self._connector(path, mirror, key, (source, target))
            for key in _CONNECTORS
            if key in mirror
        ]
        flow = build_flow(
            built[0],
            [connector for connector in built[1:] if connector.kind == CHECKPOINT],
            back,
            [connector for connector in built[1:] if connector.kind == HEARTBEAT],
            self.ledger,
        )
        for role, setting in self._connecting(built):
            self.ledger.unsupported(
                setting,
                "a link connects as the cluster's own fields say",
                f"{source}->{target}: {setting.origin.name} let the {role} client connect in "
                "another way",
            )
        flow.source, flow.target = self.clients[source], self.clients[target]
        flow.version = self.version
        del flow.settings["connector.class"]  # no field of the resource
        for name, setting in below(self.clients[target].settings, "producer.").items():
            flow.settings.setdefault(f"producer.override.{name}", setting)
        for name, setting in self.clients[target].settings.items():
            if ".storage." in name or name.startswith("offset.flush"):
                flow.settings.setdefault(f"worker.{name}", setting)
        return flow

    def _connecting(self, built: Iterable[Connector]) -> Iterator[tuple[str, Setting]]:
        """Yield settings with which a connector's own client connects, and what client it is."""
        prefixes = {
            f"{side}{role}": f"{side or 'source.'}{role}".replace(".", " ").strip()
            for side in ("", "source.", "target.")
            for role in ROLES
        } | {"admin.": "source admin and the target admin"}
        for connector in built:
            for prefix, role in (prefixes | {OVERRIDE: "producer"}).items():
                for setting in connecting(below(connector.settings, prefix)).values():
                    yield role, setting

    def _connector(self, path: str, mirror: Map, key: str, pair: tuple[str, str]) -> Connector:
        """Return a connector as the operator makes it: the mirror's fields win over its config."""
        given = mirror[key] or {}
        place = f"{path}.{key}"
        settings = {
            str(name): self._setting(value, f"{place}.config.{name}")
            for name, value in (given.get("config") or {}).items()
        }
        for field, name in _FIELDS.items():
            if field in mirror:
                if name in settings:
                    self.ledger.without(settings[name], f"the mirror's {field} wins")
                settings[name] = self._setting(mirror[field], f"{path}.{field}")
        for side, alias in zip(("source", "target"), pair, strict=True):
            for name in [name for name in settings if name.startswith(f"{side}.cluster.")]:
                self.ledger.without(settings.pop(name), f"the fields of cluster {alias} win")
            settings[f"{side}.cluster.alias"] = Setting(alias, Origin(self.file, f"{path}.{side}"))
        settings["connector.class"] = Setting(KINDS[key], Origin(self.file, place))
        state = state_of(given)
        self._tell_fields(given, place, state)
        return Connector(KINDS[key], settings, state)

    def _tell_fields(self, given: Map, place: str, state: str) -> None:
        if "tasksMax" in given:
            text = "lanes.count, which finds its number by itself (auto)"
            self._tell(f"{place}.tasksMax", Fate.REPLACED, text)
        for other in given.keys() - {"config", "tasksMax"}:
            text = "a partition that fails is retried; only a link as a whole is stopped"
            if other in ("state", "pause"):
                text = f"it is {state}" + ("" if state == "running" else ", see what differs")
            self._tell_all(given[other], f"{place}.{other}", Fate.REPLACED, text)

    # -- clusters ------------------------------------------------------------------------------

    def _client(self, cluster: Map, path: str) -> None:
        alias = str(cluster.get("alias"))
        self._tell(f"{path}.alias", Fate.USED, f"clusters.{alias}")
        settings = {
            str(name): self._setting(value, f"{path}.config.{name}")
            for name, value in (cluster.get("config") or {}).items()
        }
        for name, setting in settings.items():
            why = "a Connect worker's or client's setting; a link has no such process"
            self.ledger.unless_read(setting.origin, why)
            if name.startswith("ssl.") and name != IDENTIFICATION:
                self.ledger.without(setting, "Python's TLS decides: 1.2 or later")
        if "bootstrapServers" in cluster:
            place = f"{path}.bootstrapServers"
            settings["bootstrap.servers"] = self._setting(cluster["bootstrapServers"], place)
        where = Place(self.file, path, alias, self.folder)
        security = StrimziSecurity(where, self.ledger).section(cluster, settings)
        self.clients[alias] = Client(alias, settings, security)
